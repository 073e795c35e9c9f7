"""Studies around training: how many seeds fail, how scores grow with the data, and what a run costs."""

import contextlib
import pathlib
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_transfer.analysis import PlottedResult, Score, fraction_with_interval, mean_interval
from keras_transfer.core.expect import POSITIVE, expect, expects, instance_of, number
from keras_transfer.core.plots import BLUE, GREY, RED
from keras_transfer.experiments.comparison_report import Comparison

RESAMPLES = 1000
_SECONDS = 60  # The counters of processors begin again after some minutes at full power.


class Restarts(PlottedResult):
    """Counts the runs of a comparison that failed to learn, such as classifiers with one answer to everything.

    `rows` have for each method its number of `runs`, how many have `failed`, their `share` with its 95% Wilson interval
    from `low` to `high`, the mean validation `score` of all runs, and that of the others, `score_of_rest`, or `None`.
    `plot()` draws the scores of all seeds, failed ones as crosses, and the median of each method.

    Args:
        comparison: `Comparison` that `compare` returns.
        failed: Float. A run fails if its validation score is not better. Defaults to `None`, for the accuracy of the
            most frequent label of the validation data.

    Raises:
        ValueError: If `failed` is missing, and no accuracy of the most frequent label is known.

    Example:
    ```python
    run = {"definition": "", "step_seconds": None, "seconds": 1.0, "trainable": 1, "parameters": 1}
    runs = [{"validation": score, **run} for score in (0.5, 0.91, 0.9)]
    comparison = keras_transfer.experiments.Comparison({"bert": runs}, "accuracy", "max", "bert")
    print(keras_transfer.experiments.Restarts(comparison, failed=0.5))
    ```

    Source: Phang et al. 2018, "Sentence encoders on STILTs". https://arxiv.org/abs/1811.01088
    """

    title, index = "Restarts", ("method",)

    @expects(comparison=instance_of(Comparison, "a `Comparison`"), failed=number())
    def __init__(self, comparison: Comparison, failed: float | None = None) -> None:
        metric, part, self.mode = comparison.metric, comparison.chosen_by, comparison.mode
        if failed is None:
            labels = comparison.labels if metric == "accuracy" else None
            rule = "The accuracy of the most frequent label is not known. Pass the score of a failed run as `failed`."
            expect(labels is not None and np.ndim(labels[0]) == 0, rule, metric=metric)
            failed = float(np.unique(labels, return_counts=True)[1].max() / len(labels))
        self.failed, self.rows = failed, []
        self.scores = {name: np.array([run[part] for run in runs]) for name, runs in comparison.runs.items()}
        for name, scores in self.scores.items():
            bad = self._has_failed(scores)
            share, low, high = fraction_with_interval(int(bad.sum()), len(bad), 0.95)
            row = {"method": name, "runs": len(bad), "failed": int(bad.sum()), "share": share, "low": low, "high": high}
            rest = None if bad.all() else float(scores[~bad].mean())
            self.rows.append({**row, "score": float(scores.mean()), "score_of_rest": rest})
        self.columns = {**dict.fromkeys(("method", "runs", "failed"), ""), "share": ".2f"}
        self.columns |= {"95% interval": (("low", "high"), ".2f"), metric: ("score", ".4f")}
        self.columns["of the rest"] = ("score_of_rest", ".4f")
        self.score = f"{part} {metric}"
        self.notes = [f"failed: {self.score} of at {'most' if self.mode == 'max' else 'least'} {failed:.4f}."]

    def _has_failed(self, scores):
        better = scores - self.failed if self.mode == "max" else self.failed - scores
        return ~(better > 1e-6)  # NaN has failed, too.

    def _draw(self, axes):
        axes.figure.set_figheight(1.4 + 0.36 * len(self.rows))
        for place, scores in enumerate(self.scores.values()):
            heights = place + np.random.default_rng(0).uniform(-0.2, 0.2, len(scores))
            for bad, style in ((False, {"marker": "o", "color": BLUE}), (True, {"marker": "x", "color": RED})):
                chosen = self._has_failed(scores) == bad
                axes.plot(scores[chosen], heights[chosen], linestyle="none", markersize=5, **style)
            axes.plot([np.median(scores)] * 2, [place - 0.3, place + 0.3], color=BLUE)
        axes.axvline(self.failed, color=GREY, linestyle="--")
        axes.set_yticks(range(len(self.rows)), [row["method"] for row in self.rows], parse_math=False)
        axes.set(ylim=(len(self.rows) - 0.5, -0.5), xlabel=f"{self.score} of each seed, and the median")
        axes.grid(axis="x", alpha=0.3)


class ScalingCurve(PlottedResult):
    """Fits the power law `a - b * size ** -c` to scores by the amount of data, to see whether more data would help.

    `a` is the score of unlimited data. The fit is that of least squares to the mean scores, weighted by the seeds.
    `rows` have for each `size` its number of `seeds`, the mean `score` with its 95% t interval from `low` to `high`, or
    `None` for a single seed, and the value of the curve, `fitted`. The attributes `a`, `b` and `c` are `(value, low,
    high)`. `plot()` draws both with their intervals, up to twice the largest size.

    Args:
        sizes: List of at least four different numbers, such as of labels, of pretraining texts or of parameters.
        scores: List of the scores of each size: a list of floats, one for each seed, or one float.

    Raises:
        ValueError: If there are not four different positive sizes with scores, or if a score is not finite.

    Example:
    ```python
    scores = [[0.62, 0.6], [0.7, 0.72], [0.78, 0.77], [0.82, 0.83], [0.86, 0.85]]
    curve = keras_transfer.experiments.ScalingCurve([50, 100, 200, 400, 800], scores)
    curve.predict(1600)
    ```

    Source: Hestness et al. 2017, "Deep learning scaling is predictable, empirically". https://arxiv.org/abs/1712.00409
    """

    title, index = "Scaling curve", ("size",)
    columns = {"size": "", "seeds": "", "score": ".4f", "95% interval": (("low", "high"), ".4f"), "fitted": ".4f"}

    def __init__(self, sizes: Sequence[int], scores: Sequence[Any]) -> None:
        expect(len(sizes) == len(scores), "Each size must have its scores.", sizes=len(sizes), scores=len(scores))
        rule = "`sizes` must be at least four different positive numbers, since the curve itself has three."
        expect(len(set(sizes)) == len(sizes) >= 4 and min(sizes) > 0, rule, sizes=sizes)
        scores = [np.atleast_1d(np.asarray(each, "float64")) for each in scores]
        for size, each in zip(sizes, scores):
            expect(len(each) and np.isfinite(each).all(), "Scores must be finite numbers.", size=size, scores=each)
        counts, random = np.array([len(values) for values in scores]), np.random.default_rng(0)
        draws = np.array([[np.mean(values) for values in scores]])
        if counts.min() > 1:
            drawn = [random.choice(values, (RESAMPLES, len(values))).mean(axis=1) for values in scores]
            draws = np.concatenate([draws, np.stack(drawn, axis=1)])
        self._fits = _fit(np.asarray(sizes, "float64"), draws, counts / counts.sum())
        self.a, self.b, self.c = map(_score, self._fits)
        self.rows = []
        for size, values in zip(sizes, scores):
            score, half = mean_interval(values)
            low, high = (None, None) if half is None else (score - half, score + half)
            row = {"size": size, "seeds": len(values), "score": score, "low": low, "high": high}
            self.rows.append({**row, "fitted": self.predict(size).value})
        form = "{0} = {1.value:.4g}" + " [{1.low:.4g}, {1.high:.4g}]" * (len(draws) > 1)
        shown = ", ".join(map(form.format, "abc", (self.a, self.b, self.c)))
        how = "95% bootstrap intervals over the seeds" if len(draws) > 1 else "1 seed of a size: no intervals"
        self.notes = [f"a - b size^-c: {shown}; {how}."]

    def predict(self, size: float) -> Score:
        """Returns the value of the curve for an amount of data.

        Args:
            size: Float. Number of examples.

        Returns:
            `(value, low, high)`, with the 95% bootstrap interval over the seeds, or NaN with a single seed. It does not
            contain the error of the form of the curve.
        """
        a, b, c = self._fits
        return _score(a - b * float(size) ** -c)

    def _draw(self, axes):
        sizes = [row["size"] for row in self.rows]
        places = np.geomspace(min(sizes), 2 * max(sizes), 60)
        values, low, high = zip(*map(self.predict, places))
        axes.plot(places, values, color=GREY, linestyle="--")
        axes.fill_between(places, low, high, color=GREY, alpha=0.2, linewidth=0)
        scores = [row["score"] for row in self.rows]
        widths = [0.0 if row["high"] is None else row["high"] - row["score"] for row in self.rows]
        axes.errorbar(sizes, scores, widths, fmt="o", capsize=3, color=BLUE)
        axes.set(xscale="log", xlabel="size", ylabel="score")
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axes.minorticks_off()
        axes.grid(alpha=0.3)


def _score(values):
    """Returns the first value with the interval of the others, which are those of resamples."""
    low, high = np.quantile(values[1:], [0.025, 0.975]).tolist() if len(values) > 1 else (np.nan, np.nan)
    return Score(float(values[0]), low, high)


def _fit(sizes, scores, weights):
    """Returns `a`, `b` and `c`, arrays `[draws]`, of the curves through mean scores `[draws, sizes]`."""
    scale, rows = np.exp(np.log(sizes).mean()), np.arange(len(scores))  # Powers of `sizes / scale` are near 1.
    exponents, y = np.tile(np.geomspace(0.01, 8, 49), (len(scores), 1)), (scores - (scores @ weights)[:, None])[:, None]
    for _ in range(5):  # Each time between the neighbors of the best exponents.
        powers = (sizes / scale) ** -exponents[..., None]  # [draws, exponents, sizes]
        means = powers @ weights
        x = powers - means[..., None]
        slope = (x * y) @ weights / (x**2 @ weights)
        best = ((y - slope[..., None] * x) ** 2 @ weights).argmin(axis=1)
        b, c, mean = -slope[rows, best], exponents[rows, best], means[rows, best]
        low, high = (exponents[rows, np.clip(best + side, 0, 48)] for side in (-1, 1))
        exponents = np.geomspace(low, high, 49, axis=1)
    return scores @ weights + b * mean, b * scale**c, c


class RunCost(contextlib.AbstractContextManager):
    """Measures the time and, where the machine tells, the energy of a block of code.

    The energy is that of the counters of the processor, which often only the administrator can read, and of NVIDIA
    GPUs. Both count all that runs on them, not this process alone.

    Args:
        watts: Float. Power that is assumed if nothing can be measured. Defaults to `None`.
        grams_per_kwh: Float. Grams of CO2 for a kWh, a figure of your supplier or country. Defaults to `None`.

    Attributes:
        seconds, cpu_seconds: Floats. Time on the clock, and time of all CPU cores of this process.
        kwh, grams: Floats. Energy, and CO2 by the given factor, or `None`.
        source: `"measured"`, or `"assumed"` from `watts`. `None` without energy.

    Example:
    ```python
    with keras_transfer.experiments.RunCost(watts=65, grams_per_kwh=380) as cost:
        np.linalg.inv(np.eye(100))
    print(cost)
    ```
    """

    @expects(watts=POSITIVE, grams_per_kwh=POSITIVE)
    def __init__(self, *, watts: float | None = None, grams_per_kwh: float | None = None) -> None:
        self.watts, self.grams_per_kwh = watts, grams_per_kwh
        self.seconds = self.cpu_seconds = 0.0
        self.kwh = self.source = self.grams = None

    def __enter__(self):
        self._file, self._gpus, self._joules = tempfile.TemporaryFile("w+"), None, []
        if shutil.which("nvidia-smi") is not None:  # It writes into a file, since a pipe is full after some minutes.
            command = ["nvidia-smi", "--query-gpu=index,power.draw", "--format=csv,noheader,nounits", "--loop=1"]
            self._gpus = subprocess.Popen(command, stdout=self._file, stderr=subprocess.DEVNULL)
        self._end, self._reader = threading.Event(), threading.Thread(target=self._read_counters, daemon=True)
        self._reader.start()
        self._began = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *error):
        began, cpu_began = self._began
        self.seconds, self.cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
        self._end.set()
        self._reader.join()
        joules = [*self._joules, *(power * self.seconds for power in self._power_of_gpus())]
        if joules or self.watts is not None:
            self.source = "measured" if joules else "assumed"
            self.kwh = (sum(joules) if joules else self.watts * self.seconds) / 3.6e6
            self.grams = None if self.grams_per_kwh is None else self.kwh * self.grams_per_kwh

    def _read_counters(self):
        """Reads the counters of the processors often enough to see each time at which they begin again."""
        before, has_ended = _counters(), False
        while not has_ended:
            has_ended, after = self._end.wait(_SECONDS), _counters()
            self._joules += [(used - before[name][0]) % most / 1e6 for name, (used, most) in after.items()]
            before = after

    def _power_of_gpus(self):
        """Returns the mean power of each GPU in watts."""
        if self._gpus is not None:
            self._gpus.terminate()
            self._gpus.wait()
        readings: dict[str, list[float]] = {}
        with self._file as file:
            file.seek(0)
            for index, _, power in (line.partition(",") for line in file):
                with contextlib.suppress(ValueError):  # Not each GPU tells, and the last line may be incomplete.
                    watts = float(power)
                    readings.setdefault(index, []).append(watts)
        return [float(np.mean(values)) for values in readings.values()]

    def __repr__(self):
        energy = [] if self.kwh is None else [f"{self.kwh:.3g} kWh ({self.source})"]
        grams = [] if self.grams is None else [f"{self.grams:.3g} g of CO2"]
        return ", ".join([f"{self.seconds:,.1f} s", f"{self.cpu_seconds:,.1f} s of CPU cores", *energy, *grams])


def _counters():
    """Returns the microjoules of the counter of each processor, and the number at which it begins again."""
    found = {}
    for path in pathlib.Path("/sys/class/powercap").glob("*-rapl:?/energy_uj"):
        with contextlib.suppress(OSError):
            found[path] = int(path.read_text()), int(path.with_name("max_energy_range_uj").read_text()) + 1
    return found
