"""`ConditionalRandomField` agrees with sums and maxima over all sequences of labels, and so do its gradients."""

import itertools

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as numpy

from keras_transfer.layers import ConditionalRandomField
from keras_transfer.tasks.token_classifier import ChainLoss
from tests.helpers import EAGER, run_layer_test

MASKS = np.array(list(itertools.product([0, 1], repeat=4)))  # Each way in which 4 positions have a word.


def field(labels, allowed=None, seed=0):
    """A layer with random transitions, and these."""
    layer = ConditionalRandomField(allowed=allowed)
    layer.build((None, None, labels))
    transitions = np.random.default_rng(seed).normal(size=(labels + 1, labels + 1))
    layer.transitions.assign(transitions)
    return layer, transitions


def emissions_of(*shape):
    return np.random.default_rng(1).normal(size=shape)


def score(emissions, transitions, labels):
    """The score of a sequence of labels for all positions of one row, as the docstring of the layer defines it."""
    path = [-1, *labels, -1]
    steps = sum(transitions[pair] for pair in itertools.pairwise(path)) if labels else 0
    return sum(emissions[t, label] for t, label in enumerate(labels)) + steps


def all_scores(emissions, transitions):
    """The scores of all sequences of labels of one row, as a dict."""
    sequences = itertools.product(range(emissions.shape[1]), repeat=len(emissions))
    return {labels: score(emissions, transitions, labels) for labels in sequences}


def log_sum(values):
    return np.log(np.sum(np.exp(list(values))))


def check_against_all_sequences(layer, transitions, emissions, mask):
    labels = np.random.default_rng(2).integers(0, emissions.shape[2], mask.shape)
    found = [
        layer.log_partition(emissions, mask),
        layer.log_likelihood(emissions, np.where(mask, labels, -1), mask),
        layer.decode(emissions, mask),
        layer.marginals(emissions, mask),
    ]
    for row, (partition, likelihood, best, marginals) in enumerate(zip(*map(numpy, found), strict=True)):
        real = mask[row] == 1
        scores = all_scores(emissions[row][real], transitions)
        total = log_sum(scores.values())
        assert partition == pytest.approx(total, abs=1e-5)
        assert likelihood == pytest.approx(scores[tuple(labels[row][real].tolist())] - total, abs=1e-5)
        assert tuple(best[real].tolist()) == max(scores, key=scores.get) and (best[~real] == -1).all()
        expected = np.zeros_like(emissions[row][real])
        for sequence, value in scores.items():
            expected[range(len(sequence)), list(sequence)] += np.exp(value - total)
        np.testing.assert_allclose(marginals[real], expected, atol=1e-5)
        assert not marginals[~real].any()


@pytest.mark.core
@pytest.mark.report("A CRF decodes beyond the end of a sentence.", "addons#1443")
def test_likelihoods_labels_and_marginals_are_those_of_all_sequences_wherever_words_are_missing():
    layer, transitions = field(3)
    check_against_all_sequences(layer, transitions, emissions_of(16, 4, 3), MASKS)


@pytest.mark.parametrize("length", [1, 2, 3, 4])
@pytest.mark.parametrize("labels", [2, 4])
def test_they_are_those_of_all_sequences_for_all_short_lengths(labels, length):
    layer, transitions = field(labels, seed=length)
    emissions = emissions_of(5, length, labels)
    check_against_all_sequences(layer, transitions, emissions, np.ones((5, length), int))
    found = layer.log_partition(emissions)  # Without a mask, all positions have a word.
    np.testing.assert_allclose(found, [log_sum(all_scores(row, transitions).values()) for row in emissions], atol=1e-5)


def test_an_untrained_layer_is_a_softmax_for_each_word():
    layer = ConditionalRandomField()
    emissions, labels = emissions_of(16, 4, 3).astype("float32"), np.tile([0, 1, 2, 1], (16, 1))
    emissions_after = layer(emissions)
    np.testing.assert_array_equal(numpy(emissions_after), emissions)
    losses = np.log(np.exp(emissions).sum(-1)) - np.take_along_axis(emissions, labels[..., None], 2)[..., 0]
    likelihood = layer.log_likelihood(emissions_after, labels, MASKS)
    np.testing.assert_allclose(numpy(likelihood), -(losses * MASKS).sum(1), atol=1e-5)


@pytest.mark.core
def test_the_gradients_are_finite_differences_of_the_sum_over_all_sequences():
    inputs = keras.Input((4, 3))
    layer = ConditionalRandomField()
    model = keras.Model(inputs, layer(keras.layers.Dense(3, use_bias=False)(inputs)))
    model.compile(keras.optimizers.SGD(1.0), ChainLoss(layer), run_eagerly=EAGER)
    x, random = emissions_of(16, 4, 3), np.random.default_rng(3)
    y = np.where(MASKS, random.integers(0, 3, MASKS.shape), -1)
    values = [random.normal(size=weight.shape) for weight in model.weights]
    model.set_weights(values)
    model.train_on_batch(x, y)
    gradients = [before - after for before, after in zip(values, model.get_weights())]

    def loss(kernel, transitions):
        total = 0.0
        for emissions, labels in zip(x @ kernel, y):
            real = labels >= 0
            total += log_sum(all_scores(emissions[real], transitions).values())
            total -= score(emissions[real], transitions, labels[real].tolist())
        return total / MASKS.sum()

    for which, (value, gradient) in enumerate(zip(values, gradients)):
        for place in np.ndindex(value.shape):
            sides = []
            for step in (1e-4, -1e-4):
                moved = [part.copy() for part in values]
                moved[which][place] += step
                # The score of a sequence without words is 0, whatever the transition from boundary to boundary is.
                sides.append(loss(*moved))
            assert gradient[place] == pytest.approx((sides[0] - sides[1]) / 2e-4, abs=1e-4)


def test_decoding_obeys_what_is_allowed_and_the_likelihood_does_not():
    allowed = np.ones((4, 4), bool)
    allowed[0, 1] = allowed[3, 2] = allowed[1, 3] = False  # 1 after 0, 2 at the start, 1 at the end
    layer, transitions = field(3, allowed)
    emissions = 3 * emissions_of(40, 4, 3)
    found = numpy(layer.decode(emissions))
    without = numpy(field(3)[0].decode(emissions))
    assert (found != without).any()
    marginals = numpy(layer.marginals(emissions))
    assert not marginals[:, 0, 2].any() and not marginals[:, -1, 1].any() and marginals[:, 1, 2].all()
    for row, labels in zip(emissions, found):
        scores = all_scores(row, np.where(allowed, transitions, -np.inf))
        assert tuple(labels.tolist()) == max(scores, key=scores.get)
    likelihood = layer.log_likelihood(emissions, np.full((40, 4), 2))
    np.testing.assert_allclose(likelihood, field(3)[0].log_likelihood(emissions, np.full((40, 4), 2)))


def test_a_step_compiles():
    tf = pytest.importorskip("tensorflow")
    layer, _ = field(3)
    emissions = tf.constant(emissions_of(2, 4, 3), "float32")

    def step(emissions):
        with tf.GradientTape() as tape:
            tape.watch(emissions)
            loss = -tf.reduce_sum(layer.log_likelihood(emissions, tf.zeros((2, 4), "int32")))
        return tape.gradient(loss, [emissions, layer.transitions.value]), layer.decode(emissions)

    compiled = tf.function(step, jit_compile=True, autograph=False)(emissions)
    for ours, other in zip(tf.nest.flatten(compiled), tf.nest.flatten(step(emissions)), strict=True):
        np.testing.assert_allclose(ours, other, atol=1e-5)


def test_it_is_saved_with_what_is_allowed_and_rejects_another_shape():
    allowed = [[True, False, True], [True, True, True], [True, False, True]]
    emissions = emissions_of(2, 4, 2).astype("float32")
    run_layer_test(ConditionalRandomField, {"allowed": allowed}, emissions, output_shape=(2, 4, 2))
    assert ConditionalRandomField(allowed=np.array(allowed)).get_config()["allowed"] == allowed
    with pytest.raises(ValueError, match=r"`allowed` must have the shape \(4, 4\).* Received: allowed=\[\[True"):
        ConditionalRandomField(allowed=allowed)(np.zeros((2, 4, 3)))
