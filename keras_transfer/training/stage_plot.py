"""The picture of a run in stages: which layer groups train in which steps, and at which rates."""

import numpy as np

from keras_transfer.core.plots import GREY, new_axes
from keras_transfer.keras_internals import optimizers
from keras_transfer.training.rates import rate_of

MOST_COLUMNS = 400  # Longer runs are shown at this number of their steps.


def plot_stages(planned, groups, total, optimizer, restarts):
    """Returns a figure of all steps, with a row for each layer group, the head at the top.

    Args:
        planned: List of `PlannedStage`s.
        groups: `LayerGroups` of the model.
        total: Integer. Number of steps of the run.
        optimizer: Optimizer with the rates.
        restarts: Boolean. Whether the optimizer counts its steps from the beginning of each stage.
    """
    axes = new_axes(7.2, 1.4 + 0.28 * len(groups))
    from matplotlib.colors import LogNorm

    names = [group.name for group in groups if group.variables]
    steps = np.unique(np.linspace(0, total, min(total, MOST_COLUMNS) + 1).round().astype("int64"))
    rates = _rates(planned, names, steps[:-1], optimizers.innermost(optimizer), restarts)
    shown = np.ma.masked_invalid(np.where(rates > 0, rates, np.nan))
    axes.set_facecolor("white")
    axes.patch.set(hatch="////", edgecolor="0.8")  # The hatched background shows frozen groups.
    low, high = (shown.min(), shown.max()) if shown.count() else (1e-9, 1.0)
    norm = LogNorm(min(low, high / 1.5), high)
    mesh = axes.pcolormesh(steps, np.arange(len(names) + 1), shown, cmap="YlGnBu", norm=norm)
    for stage in planned[1:]:
        axes.axvline(stage.start, color=GREY, linewidth=0.8, linestyle=":")
    axes.hlines(np.arange(1, len(names)), 0, total, color="white", linewidth=2)
    axes.set_yticks(np.arange(len(names)) + 0.5, names)
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


def _rates(planned, names, steps, optimizer, restarts):
    """Returns the rate of each layer group in each step as an array [groups, steps], NaN while it is frozen."""
    multiples = getattr(optimizer, "rates", {})
    rates = np.full((len(names), len(steps)), np.nan)
    begun = 0  # The optimizer counts from this step.
    ends = [*(stage.start for stage in planned[1:]), np.inf]
    for stage, end in zip(planned, ends):
        begun = stage.start if restarts else begun
        inside = (steps >= stage.start) & (steps < end)
        rate = rate_of(optimizer) if stage.learning_rate is None else stage.learning_rate
        values = [float(rate(int(step) - begun)) if callable(rate) else float(rate) for step in steps[inside]]
        for row, name in enumerate(names):
            if name in stage.names:
                rates[row, inside] = np.array(values) * multiples.get(name, 1.0)
    return rates
