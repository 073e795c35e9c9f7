"""Truncated back-propagation of `ProjectedLSTM`: the outputs stay, and gradients reach only the last steps."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transfer.layers import ProjectedLSTM, SequencePooling
from tests.helpers import EAGER

LENGTHS, KEPT = (7, 5, 2), 3
MASK = np.array([[1] * n + [0] * (7 - n) for n in LENGTHS])
IDS = np.arange(21).reshape(3, 7)  # Each token has a vector of its own, whose gradient shows that of the position.
Y = np.array([[1.0], [-1.0], [0.5]])


def make(kept, reverse=False, length=None, eager=EAGER):
    keras.utils.set_random_seed(0)
    ids, mask = (keras.Input((length,), dtype="int32") for _ in range(2))
    x = keras.layers.Embedding(21, 3, "glorot_normal")(ids)
    x = ProjectedLSTM(4, gradient_length=kept, reverse=reverse)(x, padding_mask=mask)
    x = ProjectedLSTM(3, gradient_length=kept, reverse=reverse)(x, padding_mask=mask)
    model = keras.Model([ids, mask], keras.layers.Dense(1)(SequencePooling("concat")(x, padding_mask=mask)))
    model.compile(keras.optimizers.SGD(0.5), "mse", run_eagerly=eager)
    return model


def step(model, inputs=(IDS, MASK), y=Y):
    """The weights before and after a step, and its loss."""
    before = model.get_weights()
    return before, model.train_on_batch(list(inputs), y), model.get_weights()


@pytest.mark.core
@pytest.mark.parametrize("reverse", [False, True])
def test_outputs_stay_and_gradients_reach_only_the_last_steps_of_each_text(reverse):
    before, loss, after = step(make(KEPT, reverse))
    _, whole_loss, whole = step(make(None, reverse))
    assert loss == pytest.approx(whole_loss, rel=1e-6)
    moved = (before[0] != after[0]).any(axis=1).reshape(3, 7)
    if reverse:  # The steps that are read last are the first.
        expected = [[i < min(KEPT, n) for i in range(7)] for n in LENGTHS]
    else:
        expected = [[n - KEPT <= i < n for i in range(7)] for n in LENGTHS]
    np.testing.assert_array_equal(moved, expected)
    assert all((ours != theirs).any() for ours, theirs in zip(before[1:], after[1:]))
    assert (after[1] != whole[1]).any()


def test_padding_and_graphs_of_unknown_length_make_no_difference():
    _, _, after = step(make(KEPT))
    longer = [np.pad(values, [[0, 0], [0, 4]]) for values in (IDS, MASK)]
    for model, inputs in ((make(KEPT), longer), (make(KEPT, eager=False), (IDS, MASK))):
        for ours, theirs in zip(step(model, inputs)[2], after, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-6)
    short = (IDS[2:, :2], MASK[2:, :2])  # shorter than the part with gradients
    expected = step(make(None), short, Y[2:])[2]
    for eager in (EAGER, False):
        for ours, theirs in zip(step(make(KEPT, eager=eager), short, Y[2:])[2], expected, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_the_gradient_is_that_of_a_pass_over_the_last_steps_from_a_constant_state():
    inputs, y = (IDS[:1], MASK[:1]), Y[:1]
    model = make(KEPT)
    embed, first, second = (model.layers[i] for i in (1, 3, 4))
    one = first(embed(IDS[:1, :-KEPT]), return_state=True)
    two = second(one[0], return_state=True)
    one, two = ([ops.convert_to_tensor(ops.convert_to_numpy(values)) for values in each] for each in (one, two))
    weights, _, expected = step(model, inputs, y)

    ids = keras.Input((KEPT,), 1, dtype="int32")
    x = keras.layers.Embedding(21, 3)(ids)
    x = ProjectedLSTM(4)(x, initial_state=one[1:])
    x = ProjectedLSTM(3)(x, initial_state=two[1:])
    x = ops.concatenate([two[0], x], axis=1)
    again = keras.Model(ids, keras.layers.Dense(1)(SequencePooling("concat")(x)))
    again.set_weights(weights)
    again.compile(keras.optimizers.SGD(0.5), "mse", run_eagerly=EAGER)
    again.train_on_batch(IDS[:1, -KEPT:], y)
    for ours, theirs in zip(again.get_weights(), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
