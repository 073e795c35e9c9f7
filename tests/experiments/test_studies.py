"""Studies: failed runs are counted, a scaling curve finds the parameters it was made of, and runs have a cost."""

import time

import numpy as np
import pytest

from keras_transfer.experiments import Comparison, Restarts, RunCost, ScalingCurve, studies
from tests.errors import check_errors

FIXED = {"definition": "", "step_seconds": None, "seconds": 1.0, "trainable": 1, "parameters": 2}
SIZES = [50, 100, 200, 400, 800]


def comparison(scores, metric="accuracy", mode="max", labels=None):
    runs = {name: [{"validation": value, **FIXED} for value in values] for name, values in scores.items()}
    return Comparison(runs, metric, mode, next(iter(scores)), labels=labels)


def test_runs_at_the_accuracy_of_the_most_frequent_label_have_failed():
    labels = ["x"] * 15 + ["y"] * 10
    scores = {"plain": [0.6, 0.92, 0.4, float("nan")], "warm-up": [0.9, 0.92, 0.94, 0.9]}
    found = Restarts(comparison(scores, labels=labels))
    assert found.failed == 0.6 and [row["failed"] for row in found.rows] == [3, 0]
    assert [row["score_of_rest"] for row in found.rows] == [0.92, pytest.approx(0.915)]
    # The interval of R: `prop.test(0, 4)`.
    assert found.rows[1]["low"] == 0 and found.rows[1]["high"] == pytest.approx(0.6042, abs=1e-4)
    assert found.rows[0]["share"] == 0.75
    assert "failed: validation accuracy of at most 0.6000." in str(found)


def test_a_lower_loss_is_better_than_a_failed_one():
    assert Restarts(comparison({"a": [0.2, 0.69, 0.8]}, "loss", "min"), 0.69).rows[0]["failed"] == 2


def test_the_plot_has_a_mark_for_each_seed():
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'keras_transfer[plots]'")
    axes = Restarts(comparison({"a$b$": [0.5, 0.9, 0.8], "c": [0.7, 0.5, 0.95]}), 0.5).plot().axes[0]
    marks = {kind: [line for line in axes.lines if line.get_marker() == kind] for kind in "ox"}
    assert [sorted(line.get_xdata()) for line in marks["o"]] == [[0.8, 0.9], [0.7, 0.95]]
    assert [list(line.get_xdata()) for line in marks["x"]] == [[0.5], [0.5]]
    assert ScalingCurve(SIZES, [[0.1, 0.2]] * 5).plot().axes[0].get_xlim()[1] > 1600


@pytest.mark.parametrize("a, b, c", [(0.95, 2.0, 0.5), (0.2, -30.0, 1.3)])  # Accuracies rise, and losses fall.
def test_a_curve_finds_the_power_law_that_the_scores_follow(a, b, c):
    curve = ScalingCurve(SIZES, [a - b * size**-c for size in SIZES])
    np.testing.assert_allclose([curve.a.value, curve.b.value, curve.c.value], [a, b, c], rtol=1e-3)
    assert curve.predict(5000).value == pytest.approx(a - b * 5000**-c, rel=1e-4)
    assert "no intervals" in str(curve) and np.isnan(curve.a.low) and "95% interval" not in str(curve)


def test_sizes_with_more_seeds_count_more():
    scores = [[0.6, 0.5, 0.55], [0.72], [0.7, 0.8], [0.84] * 4]
    curve = ScalingCurve(SIZES[:4], scores)
    x = np.repeat(np.array(SIZES[:4], "float64"), [3, 1, 2, 4]) ** -curve.c.value
    slope, value = np.polyfit(x, np.concatenate(scores), 1)
    np.testing.assert_allclose([curve.a.value, -curve.b.value], [value, slope])


def test_the_intervals_of_a_curve_contain_what_its_noisy_scores_follow():
    random, true = np.random.default_rng(1), 0.9 - 3 * np.array(SIZES) ** -0.6
    curve = ScalingCurve(SIZES, random.normal(true[:, None], 0.01, (5, 8)))
    value, low, high = curve.predict(1600)
    assert low < 0.9 - 3 * 1600**-0.6 < high and low < value < high < low + 0.05
    assert curve.rows[0]["low"] < curve.rows[0]["score"] < curve.rows[0]["high"] and "95% interval" in str(curve)


def test_a_run_has_times_and_an_assumed_energy(monkeypatch):
    monkeypatch.setattr(studies, "_counters", dict)
    monkeypatch.setattr(studies.shutil, "which", lambda name: None)
    with RunCost(watts=36, grams_per_kwh=500) as cost:
        sum(range(100_000))
    assert cost.cpu_seconds > 0 and cost.kwh == pytest.approx(cost.seconds * 1e-5)
    assert cost.source == "assumed" and cost.grams == pytest.approx(500 * cost.kwh)
    with RunCost() as cost:
        pass
    assert cost.kwh is None and "kWh" not in str(cost)


def test_a_counter_that_begins_again_is_measured_each_time(monkeypatch):
    readings = [9_000_000, 2_600_000, 9_600_000, 2_600_000]

    def counters():
        return {"intel-rapl:0": (readings.pop(0) if len(readings) > 1 else readings[0], 10_000_000)}

    monkeypatch.setattr(studies, "_counters", counters)
    monkeypatch.setattr(studies, "_SECONDS", 0.001)
    monkeypatch.setattr(studies.shutil, "which", lambda name: None)
    with RunCost(watts=50) as cost:
        while len(readings) > 1:
            time.sleep(0.001)
    assert cost.source == "measured" and cost.kwh * 3.6e6 == pytest.approx(3.6 + 7 + 3)


def test_the_power_of_gpus_is_the_mean_of_all_readings(monkeypatch, tmp_path):
    done, fake = tmp_path / "done", tmp_path / "nvidia-smi"  # More lines than a pipe holds.
    lines = f"seq -f '0, 100.%.0f' 20000; seq -f '0, 300.%.0f' 20000; echo '1, [N/A]'; touch {done}; exec sleep 60"
    fake.write_text(f"#!/bin/sh\n{lines}\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(studies, "_counters", dict)
    with RunCost() as cost:
        for _ in range(500):
            time.sleep(0 if done.exists() else 0.02)
    assert done.exists() and cost.source == "measured"
    assert cost.kwh * 3.6e6 / cost.seconds == pytest.approx(200.5, abs=0.5)


test_a_mistake_is_one_error = check_errors(
    (lambda: Restarts([0.5]), "`comparison` must be a `Comparison`. Received: comparison=[0.5]"),
    (lambda: Restarts(comparison({"a": [0.1]})), "Pass the score of a failed run as `failed`"),
    (lambda: Restarts(comparison({"a": [0.1]}, "f1", labels=[0, 1])), "as `failed`. Received: metric='f1'"),
    (lambda: ScalingCurve([1, 2, 3], [0.1] * 3), "at least four different positive numbers"),
    (lambda: ScalingCurve([0, 1, 2, 3], [0.1] * 4), "at least four different positive numbers"),
    (lambda: ScalingCurve([1, 2, 3, 3], [0.1] * 4), "at least four different positive numbers"),
    (lambda: ScalingCurve([1, 2, 3, 4], [0.1] * 3), "Each size must have its scores. Received: sizes=4, scores=3"),
    (lambda: ScalingCurve([1, 2, 3, 4], [0.1, float("nan"), 0, 1]), "must be finite numbers. Received: size=2"),
)
