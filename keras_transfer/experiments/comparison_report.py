"""The results of experiments as text, as a pandas table, as Markdown, and as a plot."""

import re
from typing import Any

import numpy as np

from keras_transfer.analysis import Result, mean_interval, paired_test
from keras_transfer.core.expect import expect
from keras_transfer.core.plots import GREY, STYLES, new_axes
from keras_transfer.data import label_of_accuracy


class Comparison(Result):
    """The scores of methods over several seeds, which `compare` returns.

    Args:
        runs: Dict from the name of each method to the results of its runs, a list with one result per seed.
        metric: String. Name of the score.
        mode: `"max"` if a higher score is better, or `"min"`.
        baseline: String. Name of the method to which the others are compared.
        tried: Dict from the name of each method to the definitions of its variants. Defaults to `None`.
        labels: List or array of the labels of the validation data. If the runs of a method are exactly as accurate as
            one answer to all of it, a note says so. Defaults to `None`.

    Attributes:
        best: String. Name of the method with the best mean score on the validation data.
        rows: List of dicts, one for each method. `method` is its name, `variant` distinguishes the chosen variant, and
            `seeds` is the number of seeds. `validation` and `test` are mean scores, and `validation_interval` and
            `test_interval` are half the widths of their 95% t intervals. `difference` is the mean difference from the
            baseline, with its `difference_interval`, and `p` is the p value of the paired t test, on the test data if
            there is any. `step` is the median time of a training step and `time` is the time of the whole training, in
            seconds. `trainable` is the fraction of trainable weights. Unknown values are `None`, such as the interval
            of a single seed.

    Raises:
        ValueError: If the methods differ in their number of runs.
    """

    title, index = "Comparison", ("method",)
    scores: tuple[str, ...] = ("validation", "test")
    chosen_by = "validation"

    def __init__(
        self,
        runs: dict[str, Any],
        metric: str,
        mode: str,
        baseline: str,
        tried: dict[str, Any] | None = None,
        labels: Any = None,
    ) -> None:
        counts = {name: len(found) for name, found in runs.items()}
        rule = "All methods must have the same number of runs, since they are compared seed by seed."
        expect(len(set(counts.values())) == 1, rule, runs=counts)
        self.runs, self.metric, self.mode, self.baseline = runs, metric, mode, baseline
        self.labels = labels
        known = labels is not None and metric == "accuracy"
        self._answers = {name: _one_answer(labels, found) for name, found in runs.items()} if known else {}
        tried = tried or {}
        self.parts = [part for part in self.scores if part in runs[baseline][0]]
        self.rows = [self._row(name, tried.get(name, ())) for name in runs]
        means = {row["method"]: row[self.chosen_by] for row in self.rows if not np.isnan(row[self.chosen_by])}
        self.best = (max if mode == "max" else min)(means, key=means.get) if means else None

    def _row(self, name, tried):
        runs = self.runs[name]
        row = {"method": name, "variant": shorten(runs[0]["definition"], tried), "seeds": len(runs)}
        for part in self.parts:
            row[part], row[f"{part}_interval"] = mean_interval([run[part] for run in runs])
        last = self.parts[-1]
        ours = [run[last] for run in runs]
        theirs = [run[last] for run in self.runs[self.baseline]]
        row["difference"] = row["difference_interval"] = row["p"] = None
        if name != self.baseline:
            row["difference"], row["difference_interval"] = mean_interval(np.subtract(ours, theirs))
            row["p"] = paired_test(ours, theirs)
        steps = [run["step_seconds"] for run in runs if run["step_seconds"] is not None]
        row["step"] = float(np.median(steps)) if steps else None
        row["time"] = float(np.mean([run["seconds"] for run in runs]))
        row["trainable"] = float(np.mean([run["trainable"] / run["parameters"] for run in runs]))
        return row

    def plot(self, *, differences: bool = False) -> Any:
        """Plots the mean scores of the methods, or their differences from the baseline, with 95% intervals.

        Args:
            differences: Boolean. Whether to plot the mean differences from the baseline over the seeds, with the
                intervals of the paired t test, instead of the scores. Defaults to `False`.

        Returns:
            A `matplotlib.figure.Figure`. A notebook displays it. To save it, call `figure.savefig("methods.png")`.

        Raises:
            ImportError: If matplotlib is not installed.
        """
        rows, runs, parts = self.rows, self.runs, self.parts
        axes = new_axes(6.4, 1.6 + 0.28 * len(rows))
        places, count = np.arange(len(rows)), rows[0]["seeds"]
        for part, style, shift in zip(parts, STYLES, (0.14, -0.14, 0.0)):
            if differences:
                base = [run[part] for run in runs[self.baseline]]
                pairs = [mean_interval(np.subtract([run[part] for run in runs[row["method"]]], base)) for row in rows]
            else:
                pairs = [(row[part], row[f"{part}_interval"]) for row in rows]
            means, widths = zip(*((mean, width or 0.0) for mean, width in pairs))
            at = places + (shift if len(parts) > 1 else 0.0)
            axes.errorbar(means, at, xerr=widths, markersize=4, capsize=2.5, label=part, **{**style, "linestyle": ""})
        if differences:
            axes.axvline(0.0, color=GREY, linewidth=1)
        axes.set_yticks(places, [row["method"] for row in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        intervals = f"mean of {count} seeds with its 95% interval" if count > 1 else "1 seed, no interval"
        what = f"difference of {self.metric} from {self.baseline!r}" if differences else self.metric
        axes.set(xlabel=f"{what}\n{intervals}")
        axes.grid(axis="x", alpha=0.3)
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(parts), frameon=False)
        return axes.figure

    def _cells(self):
        """Returns the column headers and the cells of each method as strings."""
        heads = ["method", *self.parts, "difference", "p", "step", "time", "trainable"]
        chosen = any(row["variant"] for row in self.rows)
        heads += ["variant"] if chosen else []
        rows = []
        for row in self.rows:
            name = row["method"] + (" *" if row["method"] == self.best else "")
            scores = [shown_score(row[part], row[f"{part}_interval"]) for part in self.parts]
            others = [
                shown(row["difference"], "{:+.4f}"),
                shown(row["p"], "{:.3f}"),
                shown(row["step"] and 1000 * row["step"], "{:.0f} ms"),
                shown(row["time"], "{:.0f} s"),
                shown(100 * row["trainable"], "{:.2f}%"),
            ]
            rows.append([name, *scores, *others, *([row["variant"]] if chosen else [])])
        return heads, rows

    def _notes(self):
        part, count = self.parts[-1], self.rows[0]["seeds"]
        notes = [f"* has the best mean {self.metric} on the validation data."] if self.best is not None else []
        for name, label in self._answers.items():
            if label is not None:
                notes.append(f"{name}: the validation accuracy is exactly that of the answer {label!r} to everything.")
        if count == 1:
            return [*notes, "1 seed: no intervals and no tests."]
        notes.append(f"±: 95% t interval of the mean over {count} seeds.")
        if len(self.rows) > 1:
            against = f"{part} {self.metric} against {self.baseline!r}"
            notes.append(f"difference, p: {against}, paired t test over the seeds.")
        return notes


def _one_answer(labels, runs):
    """Returns the label that is the only answer of all runs, as far as their accuracy says, or `None`."""
    found = {label_of_accuracy(labels, run["validation"]) for run in runs}
    return found.pop() if len(found) == 1 else None


def shown_score(mean, interval, sign=""):
    """Returns a mean and half the width of its interval, if there is one, as a string."""
    return f"{mean:{sign}.4f}" + ("" if interval is None else f" ± {interval:.4f}")


def shown(value, form):
    """Returns a value as a string, `""` for `None`."""
    return "" if value is None else form.format(value)


def shorten(definition, tried):
    """Returns what distinguishes a definition from the others that were tried, or "" if it was the only one."""
    parts = [re.split(r", (?=\w+=)|[()]", other) for other in tried]
    if len(parts) < 2:
        return ""
    own = re.split(r", (?=\w+=)|[()]", definition)
    return ", ".join(part for part in own if part and any(part not in other for other in parts)) or definition
