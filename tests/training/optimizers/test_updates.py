"""On TensorFlow, the steps of a task update each weight in one operation, as Keras's Adam does."""

import collections

import keras
import numpy as np
import pytest

from keras_transfer import adaptation
from keras_transfer.training.optimizers import updates
from tests.tasks.tiny import classifier, difference, of_vectors

tf = pytest.importorskip("tensorflow")
optimizers = keras.optimizers
IDS = np.array([[2, 5, 6, 3], [2, 7, 3, 0]], "int32")
INPUTS = {"token_ids": IDS, "segment_ids": IDS * 0, "padding_mask": (IDS > 0).astype("int32")}
LABELS = np.array([0, 1])
RATE = optimizers.schedules.PolynomialDecay(0.01, 10)


def trained(optimizer, steps=3):
    """The weights of a classifier after a few steps. No token occurs twice, which Keras treats differently."""
    model = classifier()
    model.get_layer("token_embedding").trainable = False
    model.get_layer("segment_embedding").trainable = False
    model.compile(optimizer, run_eagerly=True)
    for _ in range(steps):
        model.train_on_batch(INPUTS, LABELS)
    return model


def adam():
    return optimizers.Adam(RATE, global_clipnorm=0.5)


def adamw():
    optimizer = optimizers.AdamW(RATE, weight_decay=0.5, use_ema=True, ema_momentum=0.5)
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    return optimizer


@pytest.mark.parametrize(
    "make",
    [adam, adamw, lambda: optimizers.LossScaleOptimizer(optimizers.AdamW(0.01, gradient_accumulation_steps=2))],
    ids=["Adam", "AdamW", "wrapped"],
)
def test_weights_moments_and_counts_are_those_of_keras(make, monkeypatch):
    ours = trained(make())
    monkeypatch.setattr(updates, "FUSIBLE", ())
    theirs = trained(make())
    start = classifier().get_weights()
    assert difference(ours.get_weights(), theirs.get_weights()) < 1e-5 < 0.005 < difference(ours.get_weights(), start)
    for one, other in zip(ours.optimizer.variables, theirs.optimizer.variables, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6, err_msg=one.path)


def test_a_graph_has_one_update_for_each_weight_and_the_optimizer_is_left_as_it_was():
    model = classifier()
    optimizer = optimizers.AdamW(RATE, weight_decay=0.1)
    model.compile(optimizer)
    optimizer.build(model.trainable_variables)
    step = tf.function(model.train_step, autograph=False)
    graph = step.get_concrete_function((INPUTS, LABELS)).graph
    kinds = collections.Counter(operation.type for operation in graph.get_operations())
    assert kinds["ResourceApplyAdam"] == kinds["AssignSubVariableOp"] == len(model.trainable_variables)
    assert kinds["Pow"] <= 4 and optimizer.weight_decay == 0.1 and "update_step" not in vars(optimizer)


def test_gradients_are_traced_down_to_the_lowest_weight_that_trains():
    def products(trainable):
        model = classifier()
        model.compile("sgd")
        adaptation.freeze(model, "pretrained")
        if trainable:
            adaptation.unfreeze(model, trainable)
        model.optimizer.build(model.trainable_variables)
        graph = tf.function(model.train_step, autograph=False).get_concrete_function((INPUTS, LABELS)).graph
        assert all(weight.value.trainable for weight in model.weights if "float" in str(weight.dtype))
        return sum("MatMul" in operation.type for operation in graph.get_operations())

    # Forward, the block has four products with weights and two of attention, the pooler and the head one each.
    # Backward, there are one for each weight and one for each value below it that depends on a weight.
    forward = 4 + 2 + 1 + 1
    assert products(None) == forward + 1
    assert products("pooler") == forward + 1 + 1 + 1
    assert products("all") == forward + 2 * forward


@pytest.mark.parametrize("optimizer", [optimizers.SGD(0.1), optimizers.Adam(0.1, amsgrad=True)], ids=["SGD", "AMSGrad"])
def test_other_optimizers_update_weights_themselves(optimizer):
    assert not updates.is_fusible(optimizer)
    with updates.fused_updates(classifier()):  # This model is not compiled.
        pass


def test_gradients_of_the_same_token_are_added_up_before_they_are_squared():
    keras.utils.set_random_seed(0)
    table = keras.Variable(np.ones((4, 2), "float32"))
    optimizer = optimizers.Adam(0.1)
    optimizer.build([table])
    gradient = tf.IndexedSlices(tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([1, 1]), tf.constant([4, 2]))
    updates.AdamUpdates(optimizer)(gradient, table.value, 0.1)
    _, _, first, second = (np.array(variable) for variable in optimizer.variables)
    np.testing.assert_allclose(first[1], [0.4, 0.6], rtol=1e-5)
    np.testing.assert_allclose(second[1], [0.016, 0.036], rtol=1e-4)
    np.testing.assert_allclose(table, [[1, 1], [0.9, 0.9], [1, 1], [1, 1]], atol=1e-5)


@pytest.mark.parametrize(
    "make",
    [
        lambda: optimizers.Adam(0.01, amsgrad=True),
        lambda: optimizers.AdamW(0.01, clipnorm=0.01),
        lambda: optimizers.Adam(0.01, clipvalue=1e-3),
        lambda: optimizers.SGD(0.1, global_clipnorm=0.01),
        lambda: optimizers.RMSprop(0.01),
        lambda: optimizers.Adagrad(0.01),
        lambda: optimizers.Adafactor(0.01),
        lambda: optimizers.Lamb(0.01),
        lambda: optimizers.Adamax(0.01),
        lambda: optimizers.LossScaleOptimizer(optimizers.RMSprop(0.01)),
    ],
    ids=["AMSGrad", "clipnorm", "clipvalue", "SGD", "RMSprop", "Adagrad", "Adafactor", "Lamb", "Adamax", "wrapped"],
)
def test_any_optimizer_reads_the_sum_of_the_gradients_of_a_token_that_occurs_several_times(make):
    inputs, labels = {"token_ids": np.array([[2, 2, 2, 3], [5, 2, 5, 5]], "int32")}, np.array([0, 1])
    inputs["padding_mask"] = np.ones_like(inputs["token_ids"])
    ours, theirs = of_vectors(), of_vectors()
    for model in (ours, theirs):
        model.compile(make(), run_eagerly=True)
    ours.train_on_batch(inputs, labels)
    with tf.GradientTape() as tape:
        loss = theirs.compute_loss(inputs, labels, theirs(inputs, training=True))
        loss = theirs.optimizer.scale_loss(loss)
    weights = theirs.trainable_weights
    gradients = tape.gradient(loss, [weight.value for weight in weights])
    assert any(isinstance(gradient, tf.IndexedSlices) for gradient in gradients)
    theirs.optimizer.apply([tf.convert_to_tensor(gradient) for gradient in gradients], weights)
    assert difference(ours.get_weights(), theirs.get_weights()) < 1e-6
    assert "apply" not in vars(ours.optimizer)


def test_gradients_are_clipped_as_keras_clips_them_and_sparse_ones_remain_sparse():
    values, rows = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), tf.constant([1, 3, 1])
    sparse = tf.IndexedSlices(values, rows, tf.constant([4, 2]))
    dense = tf.constant([7.0, 8.0])
    for norm, size in ((3.0, 3.0), (100.0, np.sqrt(36 + 64 + 9 + 16 + 49 + 64))):
        clipped = updates.clip_by_global_norm([sparse, None, dense], norm)
        expected = optimizers.SGD(global_clipnorm=norm)._clip_gradients([tf.convert_to_tensor(sparse), None, dense])
        assert isinstance(clipped[0], tf.IndexedSlices) and clipped[1] is None
        assert sorted(np.array(clipped[0].indices)) == [0, 1, 3] and clipped[0].indices.shape == (3,)
        np.testing.assert_allclose(tf.convert_to_tensor(clipped[0]), expected[0], rtol=1e-6)
        np.testing.assert_allclose(clipped[2], expected[2], rtol=1e-6)
        np.testing.assert_allclose(
            np.sqrt(sum(np.sum(np.square(clipped[i])) for i in (2,)) + np.sum(np.square(clipped[0].values))),
            size,
            rtol=1e-5,
        )
    broken = updates.clip_by_global_norm([sparse, tf.constant([np.inf])], 1.0)
    assert np.isnan(broken[0].values).all() and np.isnan(broken[1]).all()
