"""Learning curves: how the scores of methods grow with more examples."""

import numbers

from keras_transfer.analysis import mean_interval
from keras_transfer.core.expect import expect
from keras_transfer.core.plots import STYLES, new_axes


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
        ValueError: If there are no comparisons, if one lacks a method, if their metrics or data differ, if a number is
            not positive, or if there are more than six methods.

    Example:
    ```python
    run = {"definition": "", "step_seconds": None, "seconds": 1.0, "trainable": 1, "parameters": 1}
    comparisons = {}
    for count, scores in {100: (0.61, 0.66), 1000: (0.82, 0.83)}.items():  # As `compare` returns them.
        runs = {"bert": [{"validation": score, **run} for score in scores]}
        comparisons[count] = keras_transfer.experiments.Comparison(runs, "accuracy", "max", "bert")
    figure = keras_transfer.experiments.plot_learning_curves(comparisons)
    ```
    """
    rule = "`comparisons` must be a dict from positive numbers of examples to `Comparison`s."
    expect(isinstance(comparisons, dict) and comparisons, rule, comparisons=comparisons)
    for count, comparison in comparisons.items():
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
