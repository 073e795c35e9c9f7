"""Studies: failed runs are counted, a scaling curve finds the parameters it was made of, and runs have a cost."""

import numpy as np
import pytest

from keras_transfer.experiments import Comparison, restarts, run_cost, scaling_curve, studies
from tests.errors import check_errors

FIXED = {"definition": "", "step_seconds": None, "seconds": 1.0, "trainable": 1, "parameters": 2}
SIZES = [50, 100, 200, 400, 800]


def comparison(scores, metric="accuracy", mode="max", labels=None):
    runs = {name: [{"validation": value, **FIXED} for value in values] for name, values in scores.items()}
    return Comparison(runs, metric, mode, next(iter(scores)), labels=labels)


def test_runs_at_the_accuracy_of_the_most_frequent_label_have_failed():
    labels = ["x"] * 15 + ["y"] * 10
    scores = {"plain": [0.6, 0.92, 0.4, float("nan")], "warm-up": [0.9, 0.92, 0.94, 0.9]}
    found = restarts(comparison(scores, labels=labels))
    assert found.failed == 0.6 and [row["failed"] for row in found.rows] == [3, 0]
    assert [row["score_of_rest"] for row in found.rows] == [0.92, pytest.approx(0.915)]
    # The interval of R: `prop.test(0, 4)`.
    assert found.rows[1]["low"] == 0 and found.rows[1]["high"] == pytest.approx(0.6042, abs=1e-4)
    assert found.rows[0]["share"] == 0.75
    assert "failed: a validation accuracy of at most 0.6000." in str(found)


def test_a_lower_loss_is_better_than_a_failed_one():
    assert restarts(comparison({"a": [0.2, 0.69, 0.8]}, "loss", "min"), 0.69).rows[0]["failed"] == 2


def test_the_plot_has_a_mark_for_each_seed():
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'keras_transfer[plots]'")
    axes = restarts(comparison({"a$b$": [0.5, 0.9, 0.8], "c": [0.7, 0.5, 0.95]}), 0.5).plot().axes[0]
    marks = {kind: [line for line in axes.lines if line.get_marker() == kind] for kind in "ox"}
    assert [sorted(line.get_xdata()) for line in marks["o"]] == [[0.8, 0.9], [0.7, 0.95]]
    assert [list(line.get_xdata()) for line in marks["x"]] == [[0.5], [0.5]]
    assert scaling_curve(SIZES, [[0.1, 0.2]] * 5).plot().axes[0].get_xlim()[1] > 1600


@pytest.mark.parametrize("a, b, c", [(0.95, 2.0, 0.5), (0.2, -30.0, 1.3)])  # Accuracies rise, and losses fall.
def test_a_curve_finds_the_power_law_that_the_scores_follow(a, b, c):
    curve = scaling_curve(SIZES, [a - b * size**-c for size in SIZES])
    np.testing.assert_allclose([curve.a.value, curve.b.value, curve.c.value], [a, b, c], rtol=1e-3)
    assert curve.predict(5000).value == pytest.approx(a - b * 5000**-c, rel=1e-4)
    assert "no intervals" in str(curve) and np.isnan(curve.a.low)


def test_a_logarithm_is_the_line_of_polyfit():
    scores = [0.3, 0.42, 0.5, 0.63, 0.7]
    curve = scaling_curve(SIZES, scores, "log")
    np.testing.assert_allclose([curve.b.value, curve.a.value], np.polyfit(np.log(SIZES), scores, 1))
    assert curve.c is None


def test_the_intervals_of_a_curve_contain_what_its_noisy_scores_follow():
    random, true = np.random.default_rng(1), 0.9 - 3 * np.array(SIZES) ** -0.6
    curve = scaling_curve(SIZES, random.normal(true[:, None], 0.01, (5, 8)))
    value, low, high = curve.predict(1600)
    assert low < 0.9 - 3 * 1600**-0.6 < high and low < value < high < low + 0.05


def test_a_run_has_times_and_an_assumed_energy(monkeypatch):
    monkeypatch.setattr(studies, "_counters", dict)
    monkeypatch.setattr(studies, "_watch_gpus", lambda: None)
    with run_cost(watts=36, grams_per_kwh=500) as cost:
        sum(range(100_000))
    assert cost.cpu_seconds > 0 and cost.kwh == pytest.approx(cost.seconds * 1e-5)
    assert cost.source == "assumed" and cost.grams == pytest.approx(500 * cost.kwh)
    with run_cost() as cost:
        pass
    assert cost.kwh is None and "kWh" not in str(cost)


def test_a_counter_that_begins_again_is_measured(monkeypatch):
    readings = iter([{"intel-rapl:0": (9_000_000, 10_000_000)}, {"intel-rapl:0": (2_600_000, 10_000_000)}])
    monkeypatch.setattr(studies, "_counters", lambda: next(readings))
    monkeypatch.setattr(studies, "_watch_gpus", lambda: None)
    with run_cost(watts=50) as cost:
        pass
    assert cost.source == "measured" and cost.kwh == pytest.approx(1e-6)  # 3.6 J


test_a_mistake_is_one_error = check_errors(
    (lambda: restarts([0.5]), "`comparison` must be a `Comparison`. Received: comparison=[0.5]"),
    (lambda: restarts(comparison({"a": [0.1]})), "Pass the score of a failed run as `failed`"),
    (lambda: restarts(comparison({"a": [0.1]}, "f1", labels=[0, 1])), "as `failed`. Received: metric='f1'"),
    (lambda: scaling_curve([1, 2, 3], [0.1] * 3), "at least four different positive numbers"),
    (lambda: scaling_curve([0, 1, 2, 3], [0.1] * 4), "at least four different positive numbers"),
    (lambda: scaling_curve([1, 2, 3, 3], [0.1] * 4), "at least four different positive numbers"),
    (lambda: scaling_curve([1, 2, 3, 4], [0.1] * 3), "Each size must have its scores. Received: sizes=4, scores=3"),
    (lambda: scaling_curve([1, 2, 3, 4], [0.1, float("nan"), 0, 1]), "must be finite numbers. Received: size=2"),
)
