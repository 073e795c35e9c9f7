"""Learning rate schedules against formulas, Transformers and torch, in `fit()`, in files and as plots."""

import sys

import keras
import numpy as np
import pytest

from keras_transfer.training.schedules import (
    InverseSquareRoot,
    LinearWarmupDecay,
    OneCycle,
    SlantedTriangular,
    WarmupCosine,
    WindowRate,
)
from tests.errors import check_errors
from tests.helpers import EAGER, with_slots

LENGTHS = (1, 2, 3, 9, 10, 19, 100, 333, 10_000)
FRACTIONS = (0.03, 0.1, 1 / 3, 0.5, 0.77, 0.99)
SCHEDULES = {
    "slanted": lambda steps, **more: SlantedTriangular(0.02, steps, **more),
    "linear": lambda steps, **more: LinearWarmupDecay(0.02, steps, **more),
    "cosine": lambda steps, **more: WarmupCosine(0.02, steps, **more),
    "one cycle": lambda steps, **more: OneCycle(0.02, steps, **more),
}
ALL = {name: make(8) for name, make in SCHEDULES.items()} | {"inverse root": InverseSquareRoot(0.02, 3)}
ALL["window"] = WindowRate(LinearWarmupDecay(0.02, 8), [35, 70, 70, 14], window=70)


def rates(schedule, steps):
    return keras.ops.convert_to_numpy(schedule(np.arange(steps)))


# === Formulas ===


@pytest.mark.parametrize("steps, fraction", [(10, 0.1), (100, 0.29), (12, 1 / 3), (4, 0.25)])
def test_slanted_triangular_is_the_equation_of_the_paper_if_the_cut_is_an_integer(steps, fraction):
    peak, ratio, cut = 0.02, 32, round(steps * fraction)
    t = np.arange(steps + 1)
    p = np.where(t < cut, t / cut, 1 - (t - cut) / (cut * (1 / fraction - 1)))
    expected = peak * (1 + p * (ratio - 1)) / ratio
    np.testing.assert_allclose(
        rates(SlantedTriangular(peak, steps, cut_fraction=fraction), steps + 1), expected, rtol=2e-5
    )


@pytest.mark.parametrize("steps", (1, 2, 19, 333))
@pytest.mark.parametrize("fraction", FRACTIONS)
def test_slanted_triangular_rises_to_the_peak_and_falls_to_its_first_value(steps, fraction):
    cut = min(max(int(steps * fraction + 1e-6), 1), steps - 1)
    values = rates(SlantedTriangular(0.02, steps, cut_fraction=fraction, ratio=20), steps + 50)
    assert values.argmax() == cut and values[cut] == pytest.approx(0.02)
    assert (np.diff(values[: cut + 1]) > 0).all() and (np.diff(values[cut : steps + 1]) < 0).all()
    np.testing.assert_allclose(values[steps:], 0.001, rtol=1e-5)
    assert values.min() >= 0.001 * (1 - 1e-5)
    assert steps == 1 or values[0] == pytest.approx(0.001)


@pytest.mark.parametrize("kind", ["linear", "cosine"])
@pytest.mark.parametrize("steps, warmup", [(10, 3), (19, 1), (9, 0), (7, 7), (1, 0), (2, 1)])
def test_the_warm_up_begins_at_zero_and_the_fall_ends_at_end(kind, steps, warmup):
    values = rates(SCHEDULES[kind](steps, warmup_steps=warmup, end=0.005), steps + 20)
    np.testing.assert_allclose(values[:warmup], 0.02 * np.arange(warmup) / max(warmup, 1), rtol=1e-6)
    np.testing.assert_allclose(values[steps:], 0.005, rtol=1e-6)
    if warmup < steps:
        progress = (np.arange(warmup, steps) - warmup) / (steps - warmup)
        height = 1 - progress if kind == "linear" else (1 + np.cos(np.pi * progress)) / 2
        np.testing.assert_allclose(values[warmup:steps], 0.005 + 0.015 * height, rtol=1e-5)


@pytest.mark.parametrize("kind", SCHEDULES)
@pytest.mark.parametrize("steps", (1, 2, 3, 19, 333))
def test_every_schedule_rises_then_falls_between_zero_and_the_peak(kind, steps):
    for fraction in FRACTIONS:
        name = "cut_fraction" if kind == "slanted" else "warmup_fraction"
        values = rates(SCHEDULES[kind](steps, **{name: fraction}), steps + 30)
        summit = values.argmax()
        assert np.isfinite(values).all() and values.min() >= 0 and values.max() <= 0.02 * (1 + 1e-6)
        assert (np.diff(values[: summit + 1]) >= 0).all() and (np.diff(values[summit:]) <= 1e-9).all()
        assert np.ptp(values[steps:]) == 0


@pytest.mark.parametrize("kind", ["linear", "cosine"])
def test_warmup_steps_override_warmup_fraction_which_is_rounded_down(kind):
    make = SCHEDULES[kind]
    assert rates(make(100, warmup_steps=7, warmup_fraction=0.5), 100).argmax() == 7
    assert rates(make(100, warmup_fraction=0.29), 100).argmax() == 29
    assert rates(make(19), 19).argmax() == 1
    assert rates(make(9), 9).argmax() == 0


def test_inverse_square_root_is_the_equation_of_the_paper():
    s = np.arange(1, 20_001)  # The steps of the paper begin at 1.
    expected = 512**-0.5 * np.minimum(s**-0.5, s * 4000**-1.5)
    schedule = InverseSquareRoot.of_model(512, 4000)
    np.testing.assert_allclose(rates(schedule, len(s)), expected, rtol=2e-6)
    assert schedule.total_steps is None


def test_the_rate_of_a_window_is_in_proportion_to_its_length():
    factors = np.array([0.5, 1, 1, 0.2, 1, 1], "float32")  # The last two follow the windows.
    np.testing.assert_allclose(rates(WindowRate(30.0, [35, 70, 70, 14], 70), 6), 30 * factors, rtol=1e-6)
    expected = rates(LinearWarmupDecay(0.02, 8), 6) * factors
    np.testing.assert_allclose(rates(ALL["window"], 6), expected, rtol=1e-6)


# === Transformers and torch ===


def stepped(make, steps, peak=0.02):
    """The rates of a torch scheduler."""
    torch = pytest.importorskip("torch", reason="needs torch: pip install torch")
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=peak, momentum=0.9)
    scheduler, found = make(optimizer), []
    for step in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if step + 1 < steps:
            scheduler.step()
    return np.array(found)


@pytest.mark.parity
@pytest.mark.parametrize("steps", LENGTHS[:-1])
def test_warm_up_schedules_agree_with_transformers_at_every_step(steps):
    pytest.importorskip("torch", reason="needs torch: pip install torch")
    transformers = pytest.importorskip("transformers", reason="needs Transformers: pip install transformers")
    for warmup in {0, 1, steps // 3, steps - 1} - {steps}:
        for ours, theirs in (
            (LinearWarmupDecay, transformers.get_linear_schedule_with_warmup),
            (WarmupCosine, transformers.get_cosine_schedule_with_warmup),
        ):
            expected = stepped(lambda optimizer: theirs(optimizer, warmup, steps), steps + 1)  # noqa: B023
            np.testing.assert_allclose(rates(ours(0.02, steps, warmup), steps + 1), expected, atol=5e-9)


@pytest.mark.parity
@pytest.mark.parametrize("steps", LENGTHS[:-1])
def test_one_cycle_agrees_with_torch_at_every_step(steps):
    torch = pytest.importorskip("torch", reason="needs torch: pip install torch")
    for fraction in (0.0, 0.1, 0.3, 0.5, 0.77):
        if steps * fraction == 1:
            continue  # Here torch divides by zero, and ours begins at the peak.
        make = torch.optim.lr_scheduler.OneCycleLR
        expected = stepped(lambda optimizer: make(optimizer, 0.02, steps, pct_start=fraction), steps)  # noqa: B023
        found = rates(OneCycle(0.02, steps, warmup_fraction=fraction), steps)
        np.testing.assert_allclose(found, expected, atol=1e-8)


@pytest.mark.parity
def test_one_cycle_agrees_with_torch_for_other_factors():
    torch = pytest.importorskip("torch", reason="needs torch: pip install torch")
    make = torch.optim.lr_scheduler.OneCycleLR
    expected = stepped(lambda o: make(o, 0.02, 50, div_factor=10.0, final_div_factor=5.0), 50)
    np.testing.assert_allclose(rates(OneCycle(0.02, 50, start_factor=0.1, end_factor=0.2), 50), expected, atol=1e-8)
    assert rates(OneCycle(0.02, 10, warmup_fraction=0.1), 2)[0] == pytest.approx(0.02)  # Here torch divides by zero.


# === Steps ===


@pytest.mark.core
@pytest.mark.parametrize("name", ALL)
def test_a_step_can_be_a_number_tensor_or_variable_and_the_rate_is_float32(name):
    schedule = ALL[name]
    expected = rates(schedule, 6)[5]
    for step in (5, np.int64(5), keras.ops.convert_to_tensor(5), keras.Variable(5, dtype="int32", trainable=False)):
        rate = schedule(step)
        assert keras.backend.standardize_dtype(rate.dtype) == "float32" and tuple(rate.shape) == ()
        assert float(keras.ops.convert_to_numpy(rate)) == pytest.approx(expected, rel=1e-6)


def test_the_rate_is_float32_even_if_the_default_is_float16():
    before = keras.config.floatx()
    try:
        keras.config.set_floatx("float16")
        for schedule in ALL.values():
            assert keras.backend.standardize_dtype(schedule(3).dtype) == "float32"
    finally:
        keras.config.set_floatx(before)


@pytest.mark.core
@pytest.mark.parametrize("kind", SCHEDULES)
def test_two_billion_steps_do_not_overflow(kind):
    steps = 2_000_000_000
    schedule = SCHEDULES[kind](steps)
    at = np.array([0, steps // 2, steps, 2 * steps], "int64")
    values = keras.ops.convert_to_numpy(schedule(at))
    expected = keras.ops.convert_to_numpy(SCHEDULES[kind](2000)(np.array([0, 1000, 2000, 4000])))
    np.testing.assert_allclose(values, expected, atol=2e-5)


# === `fit()` and files ===


def make_model(schedule, run_eagerly=False):
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, use_bias=False)])
    model.compile(keras.optimizers.SGD(schedule), "mse", run_eagerly=run_eagerly)
    return with_slots(model)


X, Y = np.random.default_rng(0).normal(size=(2, 16, 3)).astype("float32")
Y = Y[:, :2]


@pytest.mark.core
@pytest.mark.parametrize("name", ["slanted", "window"])
def test_fit_uses_the_rate_of_each_step(name):
    model = make_model(ALL[name])
    weights = model.get_weights()[0].astype("float64")
    for step, rate in enumerate(rates(ALL[name], 8)):
        x, y = X[4 * (step % 4) :][:4], Y[4 * (step % 4) :][:4]
        weights = weights - rate * 2 * x.T @ (x @ weights - y) / y.size
    model.fit(X, Y, batch_size=4, epochs=2, shuffle=False, verbose=0)
    np.testing.assert_allclose(model.get_weights()[0], weights, atol=1e-6)


@pytest.mark.parametrize("name", ["slanted", "window"])
def test_a_file_restores_the_schedule_of_a_compiled_model(name, tmp_path):
    schedule = ALL[name]
    model = make_model(schedule, run_eagerly=EAGER)
    for first in range(0, 16, 4):
        model.train_on_batch(X[first : first + 4], Y[first : first + 4])
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    loaded = keras.saving.deserialize_keras_object(again.optimizer.get_config()["learning_rate"])
    assert type(loaded) is type(schedule) and loaded.get_config() == schedule.get_config()
    assert loaded.total_steps == schedule.total_steps
    assert float(again.optimizer.learning_rate) == pytest.approx(rates(schedule, 5)[4], rel=1e-6)


def test_get_config_returns_the_arguments_of_the_constructor():
    assert LinearWarmupDecay(2e-5, 100, end=1e-6).get_config() == {
        "peak": 2e-5,
        "total_steps": 100,
        "warmup_steps": None,
        "warmup_fraction": 0.1,
        "end": 1e-6,
    }
    for schedule in ALL.values():
        config = schedule.get_config()
        assert type(schedule).from_config(config).get_config() == config


# === Mistakes ===


test_arguments_that_do_not_fit_each_other_are_errors = check_errors(
    (
        lambda: WarmupCosine(0.1, 10, warmup_steps=11),
        "`warmup_steps` must be at most `total_steps`.",
        "warmup_steps=11",
    ),
    (lambda: WarmupCosine(0.1, 10, end=0.2), "`end` must be at most `peak`. Received: end=0.2, peak=0.1"),
)


# === Plots ===


@pytest.mark.parametrize(
    "schedule, end, peak",
    [
        (LinearWarmupDecay(2e-5, 1_000_000, warmup_steps=12_345), 1_000_000, 12_345),
        (InverseSquareRoot(1e-3, 100), 500, 99),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_plot_shows_the_rate_of_each_step_and_marks_the_peak(schedule, end, peak, tmp_path):
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install matplotlib")
    figure = schedule.plot()
    (axes,) = figure.axes
    line, mark = axes.lines
    at, drawn = line.get_data()
    assert axes.get_xlabel() == "step" and axes.get_ylabel() == "learning rate"
    assert at[0] == 0 and at[-1] == end and len(at) < 2100
    np.testing.assert_array_equal(drawn, keras.ops.convert_to_numpy(schedule(at)))
    assert mark.get_xdata()[0] == peak and f"at step {peak:,}" in mark.get_label()
    figure.savefig(tmp_path / "rates.png")
    assert (tmp_path / "rates.png").stat().st_size > 5000


def test_a_plot_can_show_less_or_more_than_the_run():
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install matplotlib")
    for steps, peak in ((5, 5), (150, 10)):
        line, mark = SlantedTriangular(2e-4, 100).plot(steps).axes[0].lines
        assert line.get_xdata()[-1] == steps and mark.get_xdata()[0] == peak


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        SlantedTriangular(2e-4, 100).plot()
