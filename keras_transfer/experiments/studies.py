"""Studies around training: how many seeds fail, how scores grow with the data, and what a run costs."""

import contextlib
import pathlib
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from keras_transfer.analysis import Result, Score, fraction_with_interval, mean_interval
from keras_transfer.core.expect import POSITIVE, expect, expects, number, one_of
from keras_transfer.core.plots import BLUE, GREY, RED, new_axes
from keras_transfer.experiments.comparison_report import Comparison, shown, shown_score

RESAMPLES = 1000


class Restarts(Result):
    """How many runs of each method fail, which `restarts` returns.

    Attributes:
        rows: List of dicts, one for each method: its number of `runs`, how many have `failed`, their `share` with its
            95% Wilson interval from `low` to `high`, the mean of all validation scores, `score`, with half the width of
            its t `interval`, and the mean without the failed runs, `score_of_rest`. Unknown values are `None`.
        failed: Float. The score of a run that has failed.
    """

    title, index = "Restarts", ("method",)

    def __init__(self, comparison: Comparison, failed: float) -> None:
        self.failed, self.metric, self.mode = failed, comparison.metric, comparison.mode
        self.scores = {name: np.array([run["validation"] for run in runs]) for name, runs in comparison.runs.items()}
        self.rows = [self._row(name, scores) for name, scores in self.scores.items()]

    def _row(self, name, scores):
        bad = self._has_failed(scores)
        row = {"method": name, "runs": len(bad), "failed": int(bad.sum())}
        row["share"], row["low"], row["high"] = fraction_with_interval(row["failed"], row["runs"], 0.95)
        row["score"], row["interval"] = mean_interval(scores)
        return {**row, "score_of_rest": None if bad.all() else float(scores[~bad].mean())}

    def _has_failed(self, scores):
        better = scores - self.failed if self.mode == "max" else self.failed - scores
        return ~(better > 1e-6)  # NaN has failed, too.

    def plot(self) -> Any:
        """Plots the validation scores of all seeds, failed ones as crosses, and the median of each method.

        Returns:
            A `matplotlib.figure.Figure`.

        Raises:
            ImportError: If matplotlib is not installed.
        """
        axes = new_axes(6.4, 1.4 + 0.36 * len(self.rows))
        for place, scores in enumerate(self.scores.values()):
            heights = place + np.random.default_rng(0).uniform(-0.2, 0.2, len(scores))
            for bad, style in ((False, {"marker": "o", "color": BLUE}), (True, {"marker": "x", "color": RED})):
                chosen = self._has_failed(scores) == bad
                axes.plot(scores[chosen], heights[chosen], linestyle="none", markersize=5, **style)
            axes.plot([np.median(scores)] * 2, [place - 0.3, place + 0.3], color=BLUE)
        axes.axvline(self.failed, color=GREY, linestyle="--")
        axes.set_yticks(range(len(self.rows)), [row["method"] for row in self.rows], parse_math=False)
        axes.set(ylim=(len(self.rows) - 0.5, -0.5), xlabel=f"validation {self.metric} of each seed, and the median")
        axes.grid(axis="x", alpha=0.3)
        return axes.figure

    def _cells(self):
        rows = []
        for row in self.rows:
            share = [str(row["runs"]), str(row["failed"]), f"{row['share']:.2f}"]
            interval, score = f"[{row['low']:.2f}, {row['high']:.2f}]", shown_score(row["score"], row["interval"])
            rows.append([row["method"], *share, interval, score, shown(row["score_of_rest"], "{:.4f}")])
        return ["method", "runs", "failed", "share", "95% interval", self.metric, "of the rest"], rows

    def _notes(self):
        side = "most" if self.mode == "max" else "least"
        return [f"failed: a validation {self.metric} of at {side} {self.failed:.4f}."]


@expects(failed=number())
def restarts(comparison: Comparison, failed: float | None = None) -> Restarts:
    """Counts the runs of a comparison that failed to learn, such as classifiers with one answer to everything.

    Some seeds of fine-tuning a large encoder on few texts end at the accuracy of the majority class. How many do, and
    the scores of all seeds, say more about a method than one mean over both kinds of runs.

    Args:
        comparison: `Comparison` that `compare` returns.
        failed: Float. A run fails if its validation score is not better. Defaults to `None`, for the accuracy of the
            most frequent label of the validation data.

    Returns:
        `Restarts`, which print as a table. `plot()` draws all seeds.

    Raises:
        ValueError: If `failed` is missing, and the metric is not the accuracy or the labels are not known.

    Example:
    ```python
    run = {"definition": "", "step_seconds": None, "seconds": 1.0, "trainable": 1, "parameters": 1}
    runs = [{"validation": score, **run} for score in (0.5, 0.91, 0.9)]
    comparison = keras_transfer.experiments.Comparison({"bert": runs}, "accuracy", "max", "bert")
    print(keras_transfer.experiments.restarts(comparison, failed=0.5))
    ```

    Source: https://arxiv.org/abs/2006.04884
    """
    expect(isinstance(comparison, Comparison), "`comparison` must be a `Comparison`.", comparison=comparison)
    if failed is None:
        labels = comparison.labels if comparison.metric == "accuracy" else None
        rule = "The accuracy of the most frequent label is not known. Pass the score of a failed run as `failed`."
        expect(labels is not None and np.ndim(labels[0]) == 0, rule, metric=comparison.metric)
        failed = float(np.unique(labels, return_counts=True)[1].max() / len(labels))
    return Restarts(comparison, failed)


class ScalingCurve(Result):
    """A curve through the scores of several amounts of data, which `scaling_curve` returns.

    Attributes:
        rows: List of dicts, one for each size: `size`, `seeds`, the mean `score` with half the width of its 95% t
            `interval`, and the value of the curve, `fitted`.
        a, b, c: Parameters of the curve, each `(value, low, high)`. `c` is `None` for the logarithm.
    """

    title, index = "Scaling curve", ("size",)

    def __init__(self, sizes: Sequence[int], scores: Sequence[Any], form: str) -> None:
        counts, random = np.array([len(values) for values in scores]), np.random.default_rng(0)
        self.has_interval = counts.min() > 1
        draws = np.array([[np.mean(values) for values in scores]])
        if self.has_interval:
            drawn = [random.choice(values, (RESAMPLES, len(values))).mean(axis=1) for values in scores]
            draws = np.concatenate([draws, np.stack(drawn, axis=1)])
        self._fits = _fit(np.asarray(sizes, "float64"), draws, counts / counts.sum(), form)
        self.a, self.b, self.c = (None if each is None else self._score(each) for each in self._fits)
        self.rows = []
        for size, values in zip(sizes, scores):
            score, interval = mean_interval(values)
            row = {"size": size, "seeds": len(values), "score": score, "interval": interval}
            self.rows.append({**row, "fitted": self.predict(size).value})

    def _score(self, values):
        low, high = np.quantile(values[1:], [0.025, 0.975]) if self.has_interval else (np.nan, np.nan)
        return Score(float(values[0]), float(low), float(high))

    def predict(self, size: float) -> Score:
        """Returns the value of the curve for an amount of data.

        Args:
            size: Float. Number of examples.

        Returns:
            `(value, low, high)`, with the 95% bootstrap interval over the seeds, or NaN with a single seed. The
            interval does not contain the error of the form of the curve, which grows beyond the largest size.
        """
        a, b, c = self._fits
        return self._score(a + b * np.log(size) if c is None else a - b * float(size) ** -c)

    def plot(self) -> Any:
        """Plots the mean scores with their intervals, and the curve with its interval up to twice the largest size.

        Returns:
            A `matplotlib.figure.Figure`.

        Raises:
            ImportError: If matplotlib is not installed.
        """
        axes, sizes = new_axes(), [row["size"] for row in self.rows]
        places = np.geomspace(min(sizes), 2 * max(sizes), 60)
        values, low, high = zip(*map(self.predict, places))
        axes.plot(places, values, color=GREY, linestyle="--")
        axes.fill_between(places, low, high, color=GREY, alpha=0.2, linewidth=0)
        scores, widths = zip(*((row["score"], row["interval"] or 0.0) for row in self.rows))
        axes.errorbar(sizes, scores, widths, fmt="o", capsize=3, color=BLUE)
        axes.set(xscale="log", xlabel="training examples", ylabel="score")
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        return axes.figure

    def _cells(self):
        rows = []
        for row in self.rows:
            score = shown_score(row["score"], row["interval"])
            rows.append([f"{row['size']:,}", str(row["seeds"]), score, f"{row['fitted']:.4f}"])
        return ["size", "seeds", "score", "fitted"], rows

    def _notes(self):
        found = {"a": self.a, "b": self.b, "c": self.c}
        shown = [
            f"{name} = {each.value:.4g}" + (f" [{each.low:.4g}, {each.high:.4g}]" if self.has_interval else "")
            for name, each in found.items()
            if each is not None
        ]
        how = "95% bootstrap intervals over the seeds" if self.has_interval else "1 seed of a size: no intervals"
        return [f"{'a + b log(size)' if self.c is None else 'a - b size^-c'}: {', '.join(shown)}; {how}."]


@expects(form=one_of("power", "log"))
def scaling_curve(sizes: Sequence[int], scores: Sequence[Any], form: str = "power") -> ScalingCurve:
    """Fits a curve to scores by the amount of data, to see whether more data would help.

    The power law is `a - b * size ** -c`, where `a` is the score of unlimited data, and the logarithm is
    `a + b * log(size)`. Least squares of the mean scores, weighted by the number of seeds.

    Args:
        sizes: List of at least four different numbers of examples.
        scores: List of the scores of each size: a list of floats, one for each seed, or one float.
        form: `"power"`, or `"log"` if all sizes are far from the limit. Defaults to `"power"`.

    Returns:
        A `ScalingCurve`, which prints as a table, with `predict(size)` and `plot()`.

    Raises:
        ValueError: If there are fewer than four sizes, if sizes are equal or not positive, if sizes and scores differ
            in number, or if a score is not finite.

    Example:
    ```python
    scores = [[0.62, 0.6], [0.7, 0.72], [0.78, 0.77], [0.82, 0.83], [0.86, 0.85]]
    curve = keras_transfer.experiments.scaling_curve([50, 100, 200, 400, 800], scores)
    print(curve)
    curve.predict(1600)
    ```

    Source: https://arxiv.org/abs/1712.00409
    """
    expect(len(sizes) == len(scores), "Each size must have its scores.", sizes=len(sizes), scores=len(scores))
    rule = "`sizes` must be at least four different positive numbers, since the curve itself has up to three."
    expect(len(set(sizes)) == len(sizes) >= 4 and min(sizes) > 0, rule, sizes=sizes)
    values = [np.atleast_1d(np.asarray(each, "float64")) for each in scores]
    for size, each in zip(sizes, values):
        expect(len(each) and np.isfinite(each).all(), "Scores must be finite numbers.", size=size, scores=each)
    return ScalingCurve(sizes, values, form)


def _fit(sizes, scores, weights, form):
    """Returns `a`, `b` and `c`, arrays `[draws]`, of the curves through mean scores `[draws, sizes]`."""

    def lines(x):  # Through the scores at `x` [draws, exponents, sizes].
        means = (x * weights).sum(-1), (scores * weights).sum(-1)[:, None]
        x, y = x - means[0][..., None], scores[:, None] - means[1][..., None]
        slope = (weights * x * y).sum(-1) / (weights * x**2).sum(-1)
        return means[1] - slope * means[0], slope, (weights * (y - slope[..., None] * x) ** 2).sum(-1)

    if form == "log":
        a, b, _ = lines(np.log(sizes)[None, None])
        return a[:, 0], b[:, 0], None
    scale, rows = np.exp(np.log(sizes).mean()), np.arange(len(scores))  # Powers of `sizes / scale` are near 1.
    exponents = np.tile(np.geomspace(0.01, 8, 49), (len(scores), 1))
    for _ in range(5):  # Each time between the neighbors of the best exponents.
        a, b, errors = lines((sizes / scale) ** -exponents[..., None])
        best = errors.argmin(axis=1)
        found = a[rows, best], -b[rows, best], exponents[rows, best]
        low, high = (exponents[rows, np.clip(best + side, 0, 48)] for side in (-1, 1))
        exponents = np.geomspace(low, high, 49, axis=1)
    return found[0], found[1] * scale ** found[2], found[2]


class RunCost:
    """What a block of code costs, which `run_cost` yields and which is known when the block ends.

    Attributes:
        seconds, cpu_seconds: Floats. Time on the clock, and time of all CPU cores of this process.
        kwh: Float. Energy, or `None`.
        source: `"measured"` if counters of the processor or the power of GPUs could be read, or `"assumed"` from
            `watts`. `None` without energy.
        grams: Float. CO2 by the given factor, or `None`.
    """

    seconds = cpu_seconds = 0.0
    kwh: float | None = None
    source: str | None = None
    grams: float | None = None

    def __str__(self):
        energy = [] if self.kwh is None else [f"{self.kwh:.3g} kWh ({self.source})"]
        grams = [] if self.grams is None else [f"{self.grams:.3g} g of CO2"]
        return ", ".join([f"{self.seconds:,.1f} s", f"{self.cpu_seconds:,.1f} s of CPU cores", *energy, *grams])

    __repr__ = __str__


@expects(watts=POSITIVE, grams_per_kwh=POSITIVE)
@contextlib.contextmanager
def run_cost(*, watts: float | None = None, grams_per_kwh: float | None = None) -> Iterator[RunCost]:
    """Measures the time and, where the machine tells, the energy of a block of code.

    The energy is that of the counters of the processor, which often only the administrator can read, and of the power
    of NVIDIA GPUs, read each second. Both are those of all that runs on them, not of this process alone.

    Args:
        watts: Float. Power that is assumed if nothing can be measured. Defaults to `None`, for no energy.
        grams_per_kwh: Float. Grams of CO2 for a kWh, a figure of your supplier or country. Defaults to `None`, for no
            CO2.

    Yields:
        A `RunCost`, which prints as a line after the block.

    Example:
    ```python
    with keras_transfer.experiments.run_cost(watts=65, grams_per_kwh=380) as cost:
        np.linalg.inv(np.eye(100))
    print(cost)
    ```
    """
    cost, counters, gpus = RunCost(), _counters(), _watch_gpus()
    began, cpu_began = time.perf_counter(), time.process_time()
    try:
        yield cost
    finally:
        cost.seconds, cost.cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
        joules = [(after - counters[name][0]) % most / 1e6 for name, (after, most) in _counters().items()]
        joules += [power * cost.seconds for power in _end_of_watch(gpus)]
        cost.source = "measured" if joules else None if watts is None else "assumed"
        if cost.source is not None:
            cost.kwh = (sum(joules) if joules else watts * cost.seconds) / 3.6e6
            cost.grams = None if grams_per_kwh is None else cost.kwh * grams_per_kwh


def _counters():
    """Returns the microjoules that the counter of each processor shows, and the number at which it begins again."""
    found = {}
    for folder in pathlib.Path("/sys/class/powercap").glob("*-rapl:?"):
        with contextlib.suppress(OSError):
            used, most = (int((folder / f"{name}_uj").read_text()) for name in ("energy", "max_energy_range"))
            found[folder.name] = used, most + 1
    return found


def _watch_gpus():
    """Returns a process that writes the power of each NVIDIA GPU, each second, or `None`."""
    if shutil.which("nvidia-smi") is None:
        return None
    command = ["nvidia-smi", "--query-gpu=index,power.draw", "--format=csv,noheader,nounits", "--loop=1"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def _end_of_watch(gpus):
    """Returns the mean power of each GPU in watts, and ends the process."""
    readings: dict[str, list[float]] = {}
    if gpus is not None:
        gpus.terminate()
        for line in gpus.communicate()[0].splitlines():
            index, _, power = line.partition(",")
            with contextlib.suppress(ValueError):  # Not each GPU tells, and the last line may be incomplete.
                readings.setdefault(index, []).append(float(power))
    return [float(np.mean(values)) for values in readings.values()]
