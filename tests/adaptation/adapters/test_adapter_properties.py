"""Properties of adapters: any of them, added in any order and removed in any other, leave a model as it was."""

import functools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transfer.adaptation import add_adapters, remove_adapters, set_active_adapter
from tests.adaptation.adapters import adapter_models as models
from tests.adaptation.adapters.adapter_models import outputs, randomize, values
from tests.properties import EXAMPLES

KINDS = ["houlsby:3", "pfeiffer:2", "lora:r=2", "dora:r=1", "ia3", "prefix:2", "prompt:2", "compacter:4"]


@functools.cache
def model():
    return models.classifier()


@settings(max_examples=EXAMPLES or 2)
@given(data=st.data())
def test_adapters_that_are_removed_leave_the_model_as_it_was(data):
    names = [f"kind{number}" for number in range(data.draw(st.integers(1, 3)))]
    before, weights = outputs(model()), values(model())
    for name in names:
        add_adapters(model(), data.draw(st.sampled_from(KINDS)), name=name)
        randomize(model(), name)
    set_active_adapter(model(), data.draw(st.sampled_from([None, *names])))
    for name in data.draw(st.permutations(names)):
        remove_adapters(model(), name)
    np.testing.assert_array_equal(outputs(model()), before)
    after = values(model())
    assert after.keys() == weights.keys() and all((after[path] == weights[path]).all() for path in weights)
    assert model().encoder.adapters == {}


@settings(max_examples=EXAMPLES or 2)
@given(names=st.permutations(["one", "two"]), kinds=st.tuples(st.sampled_from(KINDS), st.sampled_from(KINDS)))
def test_an_adapter_answers_the_same_beside_another_that_is_not_active(names, kinds):
    alone = {}
    for name, kind in zip(("one", "two"), kinds):
        add_adapters(model(), kind, name=name)
        randomize(model(), name)
        set_active_adapter(model(), name)
        alone[name] = outputs(model())
    for name in names:
        set_active_adapter(model(), name)
        np.testing.assert_array_equal(outputs(model()), alone[name])
    for name in names:
        remove_adapters(model(), name)
