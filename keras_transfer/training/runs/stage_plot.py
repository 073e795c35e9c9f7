"""A picture of a run: which layer groups train in which steps, and at which rates."""

import numpy as np

from keras_transfer.groups import layer_groups
from keras_transfer.keras_internals import optimizers
from keras_transfer.plots import GREY, new_axes
from keras_transfer.training.optimizers import rate_of

MOST_COLUMNS = 400  # Longer runs are shown at this number of their steps.


def draw_stages(model, stages, starts, names, total, optimizer):
    """Returns a figure with a row for each layer group, the head at the top, which is dark where its rate is high.

    Args:
        model: Built model.
        stages: List of the `Stage`s of the run.
        starts: List of the first step of each stage.
        names: List of lists. Names of the layer groups that train in each stage.
        total: Integer. Number of steps of the run.
        optimizer: Optimizer whose rates are shown.
    """
    groups = layer_groups(model)
    axes = new_axes(7.2, 1.4 + 0.28 * len(groups))
    from matplotlib.colors import LogNorm

    groups = [group.name for group in groups if group.variables]
    steps = np.unique(np.linspace(0, total, min(total, MOST_COLUMNS) + 1).round().astype("int64"))
    rates = _rates(groups, stages, starts, names, steps[:-1], optimizers.innermost(optimizer))
    shown = np.ma.masked_invalid(np.where(rates > 0, rates, np.nan))
    axes.set_facecolor("white")
    axes.patch.set(hatch="////", edgecolor="0.8")  # The hatched background shows frozen groups.
    low, high = (shown.min(), shown.max()) if shown.count() else (1e-9, 1.0)
    norm = LogNorm(min(low, high / 1.5), high)
    mesh = axes.pcolormesh(steps, np.arange(len(groups) + 1), shown, cmap="YlGnBu", norm=norm)
    for start in starts[1:]:
        axes.axvline(start, color=GREY, linewidth=0.8, linestyle=":")
    axes.hlines(np.arange(1, len(groups)), 0, total, color="white", linewidth=2)
    axes.set_yticks(np.arange(len(groups)) + 0.5, groups)
    axes.tick_params(axis="y", length=0)
    axes.set(xlabel="step", xlim=(0, total), title="learning rate of each layer group; hatched: frozen")
    axes.title.set_fontsize("medium")
    axes.locator_params(axis="x", integer=True)
    axes.spines[["left", "bottom"]].set_visible(False)
    bar = axes.figure.colorbar(mesh, ax=axes, label="learning rate", pad=0.02)
    if low == high:
        bar.set_ticks([high], labels=[f"{high:.3g}"])
        bar.minorticks_off()
    return axes.figure


def _rates(groups, stages, starts, names, steps, optimizer):
    """Returns the rate of each layer group in each step as an array [groups, steps], NaN while it is frozen."""
    multiples = getattr(optimizer, "rates", {})
    rates = np.full((len(groups), len(steps)), np.nan)
    begun = 0  # The optimizer counts from this step.
    for stage, start, end, training in zip(stages, starts, [*starts[1:], np.inf], names):
        begun = start if stage.fresh_optimizer else begun
        inside = (steps >= start) & (steps < end)
        rate = rate_of(optimizer) if stage.learning_rate is None else stage.learning_rate
        values = [float(rate(int(step) - begun)) if callable(rate) else float(rate) for step in steps[inside]]
        for row, group in enumerate(groups):
            if group in training:
                rates[row, inside] = np.array(values) * multiples.get(group, 1.0)
    return rates
