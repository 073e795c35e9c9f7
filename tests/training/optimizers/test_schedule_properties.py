"""Properties of schedules: the formulas of their papers in plain Python, and a config that gives them back."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from keras_transfer.optimizers.schedules import (
    InverseSquareRoot,
    LinearWarmupDecay,
    OneCycle,
    SlantedTriangular,
    WarmupCosine,
)
from tests.properties import texts  # noqa: F401 (loads the settings)

peaks = st.floats(1e-6, 1.0)


@st.composite
def warmups(draw):
    total = draw(st.integers(1, 5000))
    return draw(peaks), total, draw(st.integers(0, total))


def rates(schedule, steps):
    return ops.convert_to_numpy(schedule(np.array(steps)))


def steps_of(total):
    return sorted({0, 1, total // 3, total // 2, max(total - 1, 0), total, total + 1, 3 * total})


@given(found=warmups(), end=st.floats(0, 1))
def test_a_warmup_rises_in_a_line_and_falls_in_a_line_or_a_wave(found, end):
    peak, total, warmup = found
    end *= peak
    for cls, fall in ((LinearWarmupDecay, lambda x: x), (WarmupCosine, lambda x: (1 - math.cos(math.pi * x)) / 2)):
        schedule = cls(peak, total, warmup_steps=warmup, end=end)
        for step, rate in zip(steps_of(total), rates(schedule, steps_of(total))):
            if step < warmup:
                expected = peak * step / warmup
            else:
                expected = end + (peak - end) * fall(max(total - step, 0) / max(total - warmup, 1))
            assert rate == pytest.approx(expected, rel=1e-3, abs=peak * 1e-4), step


@given(peak=peaks, total=st.integers(2, 5000), cut=st.floats(0.01, 0.99), ratio=st.floats(1, 100))
def test_a_slanted_triangle_begins_and_ends_at_its_lowest_rate_and_has_its_peak(peak, total, cut, ratio):
    schedule = SlantedTriangular(peak, total, cut_fraction=cut, ratio=ratio)
    found = rates(schedule, range(total + 2))
    assert found[0] == pytest.approx(peak / ratio, rel=1e-3) or total < 3
    assert found[-1] == pytest.approx(peak / ratio, rel=1e-3)
    assert found.max() == pytest.approx(peak, rel=1e-3) and found.min() >= peak / ratio * 0.999
    summit = int(found.argmax())
    assert (np.diff(found[: summit + 1]) >= -peak * 1e-5).all() and (np.diff(found[summit:]) <= peak * 1e-5).all()


@given(peak=peaks, warmup=st.integers(1, 3000), step=st.integers(0, 9000))
def test_an_inverse_square_root_is_its_formula(peak, warmup, step):
    expected = peak * min((step + 1) / warmup, math.sqrt(warmup / (step + 1)))
    assert rates(InverseSquareRoot(peak, warmup), step) == pytest.approx(expected, rel=1e-4)


@given(peak=peaks, total=st.integers(2, 3000))
def test_one_cycle_is_never_above_its_peak_or_negative(peak, total):
    found = rates(OneCycle(peak, total), range(total + 1))
    assert found.max() == pytest.approx(peak, rel=1e-2) or total < 10
    assert (found >= 0).all() and (found <= peak * 1.0001).all()


@given(found=warmups())
def test_a_config_of_json_makes_the_same_schedule(found):
    peak, total, warmup = found
    made = [
        SlantedTriangular(peak, total),
        LinearWarmupDecay(peak, total, warmup_steps=warmup),
        WarmupCosine(peak, total, warmup_steps=warmup),
        InverseSquareRoot(peak, warmup + 1),
        OneCycle(peak, total),
    ]
    for schedule in made:
        again = type(schedule).from_config(json.loads(json.dumps(schedule.get_config())))
        assert again.get_config() == schedule.get_config()
        np.testing.assert_array_equal(rates(again, steps_of(total)), rates(schedule, steps_of(total)))
