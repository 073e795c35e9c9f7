"""The picture of a run: which layer groups train in which steps, and at which rates."""

import keras
import numpy as np
import pytest

from keras_transfer.callbacks import GradualUnfreezing, Stage
from keras_transfer.optimizers import LayerwiseOptimizer
from keras_transfer.optimizers.schedules import SlantedTriangular
from tests.errors import check_errors
from tests.training.runs.staging_models import Restarting

pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'keras_transfer[plots]'")


def make():
    layers = [keras.layers.Dense(2, name=name) for name in ("low", "middle", "top")]
    return keras.Sequential([keras.Input((2,)), *layers])


def rates(figure):
    """The rates that a figure shows, as an array [groups, steps], which is NaN for a frozen group."""
    (mesh,) = figure.axes[0].collections[:1]
    return np.ma.filled(mesh.get_array().astype("float64"), np.nan)


def test_a_plot_shows_when_each_group_trains_and_at_which_rate():
    model, none = make(), np.nan
    model.compile(LayerwiseOptimizer(keras.optimizers.Adam(SlantedTriangular(1.0, 6)), model, decay=0.5), "mse")
    figure = GradualUnfreezing(steps=2).plot(model, steps_per_epoch=3, epochs=2)
    rate = keras.ops.convert_to_numpy(SlantedTriangular(1.0, 6)(np.arange(6)))
    expected = [[none] * 4 + [*rate[4:] / 4], [none] * 2 + [*rate[2:] / 2], rate]
    np.testing.assert_allclose(rates(figure), expected, rtol=1e-6)
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["low", "middle", "top"]
    assert axes.get_xlim() == (0, 6) and axes.get_xlabel() == "step"


def test_a_plot_shows_the_rates_of_stages_and_schedules_that_begin_again():
    schedule = SlantedTriangular(1.0, 3)
    stages = [Stage("top", steps=3, learning_rate=0.25), Stage("all", learning_rate=schedule)]
    figure = Restarting(stages).plot(make(), steps_per_epoch=6, optimizer=keras.optimizers.SGD(0.5))
    again = keras.ops.convert_to_numpy(schedule(np.arange(3)))
    np.testing.assert_allclose(rates(figure)[2], [0.25] * 3 + [*again], rtol=1e-6)
    np.testing.assert_allclose(rates(figure)[0], [np.nan] * 3 + [*again], rtol=1e-6)


def test_a_plot_changes_neither_the_callback_nor_the_model(tmp_path):
    model, callback = make(), GradualUnfreezing()
    model.compile("sgd", "mse")
    figure = callback.plot(model, steps_per_epoch=2000)
    assert callback.schedule == [] and callback.stage is None
    assert all(weight.trainable for weight in model.weights) and rates(figure).shape == (3, 400)
    figure.savefig(tmp_path / "stages.png")
    assert (tmp_path / "stages.png").stat().st_size > 5000
    model.fit(np.ones((8, 2)), np.ones((8, 2)), batch_size=2, callbacks=[callback], verbose=0)
    assert [start for start, _ in callback.schedule] == [0, 1, 2]


test_a_mistake_is_one_error = check_errors(
    (lambda: GradualUnfreezing().plot(make(), steps_per_epoch=8), "Compile the model, or pass one."),
    (
        lambda: GradualUnfreezing().plot(make(), steps_per_epoch=8, epochs=3, optimizer="sgd"),
        "pass `keras.optimizers.get(name)`. Received: optimizer='sgd'",
    ),
    (
        lambda: GradualUnfreezing().plot(make(), steps_per_epoch=2, optimizer=keras.optimizers.SGD(0.1)),
        "must have at least one step within the run",
    ),
)
