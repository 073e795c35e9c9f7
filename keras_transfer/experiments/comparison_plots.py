"""Pictures of comparisons: the scores of methods with their intervals, and how they grow with more examples."""

import numbers

import numpy as np

from keras_transfer.analysis import mean_interval
from keras_transfer.core.expect import expect
from keras_transfer.core.plots import BLACK, BLUE, GREY, RED, STYLES, new_axes

MARKS = (
    {"marker": "o", "color": BLUE},
    {"marker": "s", "color": RED, "markerfacecolor": "white"},
    {"marker": "^", "color": BLACK, "markerfacecolor": "white"},
)


def plot_comparison(comparison, differences=False):
    """Returns a figure with a row for each method of a `Comparison`. `Comparison.plot` describes it."""
    rows, runs, parts = comparison.rows, comparison.runs, comparison.parts
    axes = new_axes(6.4, 1.6 + 0.28 * len(rows))
    places, count = np.arange(len(rows)), rows[0]["seeds"]
    for part, mark, shift in zip(parts, MARKS, (0.14, -0.14, 0.0)):
        if differences:
            base = [run[part] for run in runs[comparison.baseline]]
            pairs = [mean_interval(np.subtract([run[part] for run in runs[row["method"]]], base)) for row in rows]
        else:
            pairs = [(row[part], row[f"{part}_interval"]) for row in rows]
        means, widths = zip(*((mean, width or 0.0) for mean, width in pairs))
        at = places + (shift if len(parts) > 1 else 0.0)
        axes.errorbar(means, at, xerr=widths, linestyle="none", markersize=4, capsize=2.5, label=part, **mark)
    if differences:
        axes.axvline(0.0, color=GREY, linewidth=1)
    axes.set_yticks(places, [row["method"] for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    intervals = f"mean of {count} seeds with its 95% interval" if count > 1 else "1 seed, no interval"
    shown = f"difference of {comparison.metric} from {comparison.baseline!r}" if differences else comparison.metric
    axes.set(xlabel=f"{shown}\n{intervals}")
    axes.grid(axis="x", alpha=0.3)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(parts), frameon=False)
    return axes.figure


def plot_transfer(matrix):
    """Returns a figure with a row for each target of a `TransferMatrix`. `TransferMatrix.plot` describes it."""
    names = list(matrix.comparisons)
    axes, gains = new_axes(2.6 + 0.8 * len(names), 1.4 + 0.45 * len(names)), np.zeros((len(names), len(names)))
    for target, first, row in matrix.pairs:
        place = names.index(target), names.index(first)
        gains[place] = row["gain"]
        axes.text(*place[::-1], f"{row['difference']:+.3f}", ha="center", va="center", fontsize=8)
    most = 2 * np.abs(gains).max() or 1.0  # Pale colors, behind numbers.
    axes.imshow(gains, cmap="RdBu", vmin=-most, vmax=most, aspect="auto")
    axes.set_xticks(range(len(names)), names)
    axes.set_yticks(range(len(names)), names)
    axes.set(xlabel="intermediate task", ylabel="target")
    return axes.figure


def plot_learning_curves(comparisons, *, methods=None):
    """Plots how the score of each method grows with the number of training examples.

    Args:
        comparisons: Dict from numbers of training examples to the `Comparison`s of the same methods on as many
            examples, which `compare` returns.
        methods: List of the names of methods to plot, at most six. Defaults to `None`, all methods.

    Returns:
        A `matplotlib.figure.Figure` with a curve for each method: the mean score on the test data, or on the validation
        data if there are no test data, with its 95% interval over the seeds.

    Raises:
        ImportError: If matplotlib is not installed.
        ValueError: If there is no comparison, if a number is not positive, if one lacks a method, if their metrics or
            data differ, or if there are more than six methods.

    Example:
    ```python
    data = {"train": (np.eye(60)[:, :4], np.arange(60) % 2), "validation": (np.eye(8)[:, :4], np.arange(8) % 2)}


    def make_model():
        return keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])


    def adam(model, train, validation, seed):
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
        model.fit(*train, verbose=0)


    comparisons = {}
    for count in (15, 60):
        parts = {**data, "train": tuple(column[:count] for column in data["train"])}
        comparisons[count] = keras_transfer.experiments.compare(make_model, parts, {"adam": adam}, seeds=2, verbose=0)
    figure = keras_transfer.experiments.plot_learning_curves(comparisons)
    ```
    """
    rule = "`comparisons` must be a dict from numbers of examples to `Comparison`s."
    expect(isinstance(comparisons, dict) and comparisons, rule, comparisons=comparisons)
    for count, comparison in comparisons.items():
        rule = "`comparisons` must be a dict from positive numbers of examples to `Comparison`s."
        is_right = isinstance(count, numbers.Real) and count > 0 and hasattr(comparison, "runs")
        expect(is_right, rule, count=count, comparison=type(comparison).__name__)
    rule = f"`methods` must be a list of names. Did you mean [{methods!r}]?"
    expect(not isinstance(methods, str), rule, methods=methods)
    counts, first = sorted(comparisons), next(iter(comparisons.values()))
    methods = list(first.runs) if methods is None else list(methods)
    for count in counts:
        missing = [name for name in methods if name not in comparisons[count].runs]
        expect(not missing, f"Each comparison must have the methods {methods}.", count=count, missing=missing)
    metrics = {comparison.metric for comparison in comparisons.values()}
    expect(len(metrics) <= 1, "All comparisons must have the same metric.", metrics=sorted(metrics))
    parts = {comparison.parts[-1] for comparison in comparisons.values()}
    expect(len(parts) == 1, "Either all comparisons have test data, or none.", parts=sorted(parts))
    rule = f"A plot shows at most {len(STYLES)} methods. Pass some as `methods`."
    expect(0 < len(methods) <= len(STYLES), rule, methods=methods)
    axes, part = new_axes(), first.parts[-1]
    for name, style in zip(methods, STYLES):
        scores = [mean_interval([run[part] for run in comparisons[count].runs[name]]) for count in counts]
        means, widths = zip(*((mean, width or 0.0) for mean, width in scores))
        axes.errorbar(counts, means, yerr=widths, capsize=3, markersize=5, label=name, **style)
    axes.set(xscale="log", xlabel="training examples", ylabel=f"{part} {first.metric}")
    axes.set_xticks(counts, [f"{count:,}" for count in counts])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend()
    return axes.figure
