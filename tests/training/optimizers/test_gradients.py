"""A task's training step on TensorFlow: Keras's, with gradients of the weights that train and sums of repeated rows."""

import keras
import numpy as np
import pytest

from keras_transfer import adaptation
from tests.tasks.tiny import classifier, difference, of_vectors

tf = pytest.importorskip("tensorflow")
optimizers = keras.optimizers
IDS = np.array([[2, 5, 6, 3], [2, 7, 3, 0]], "int32")
INPUTS = {"token_ids": IDS, "segment_ids": IDS * 0, "padding_mask": (IDS > 0).astype("int32")}
LABELS = np.array([0, 1])


@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
def test_a_step_has_the_loss_the_metrics_and_the_weights_of_keras(policy):
    found = []
    with_policy = keras.config.set_dtype_policy
    with_policy(policy)
    try:
        for step in (lambda model: model.train_step, lambda model: lambda data: keras.Model.train_step(model, data)):
            model = classifier()
            model.get_layer("token_embedding").trainable = False  # Keras does not add up the gradients of its rows.
            model.get_layer("segment_embedding").trainable = False
            model.compile(optimizers.SGD(0.5, momentum=0.9), weighted_metrics=["accuracy"], run_eagerly=True)
            model.optimizer.build(model.trainable_variables)
            for weights in ([1.0, 3.0], [0.5, 0.0]):
                logs = step(model)((INPUTS, LABELS, np.array(weights, "float32")))
            found.append([*(float(logs[name]) for name in sorted(logs)), *model.get_weights()])
            assert "loss" in logs and len(logs) > 2
    finally:
        with_policy("float32")
    assert difference(*found) < 1e-6 < 1e-3 < difference(found[0][-2:], classifier().get_weights()[-2:])


def test_a_step_without_weights_to_train_warns_as_keras_does():
    model = classifier()
    model.compile("sgd", run_eagerly=True)
    model.trainable = False
    with pytest.warns(UserWarning, match="does not have any trainable weights"):
        loss = model.train_step((INPUTS, LABELS))["loss"]
    assert float(loss) == pytest.approx(model.evaluate(INPUTS, LABELS, verbose=0, return_dict=True)["loss"])


class Watched(optimizers.RMSprop):
    """An optimizer that remembers which of its attributes are set, and where it is called."""

    def __setattr__(self, name, value):
        self.__dict__.setdefault("_names", []).append(name)
        super().__setattr__(name, value)


def test_a_step_leaves_the_optimizer_and_the_variables_as_they_are():
    model, optimizer = of_vectors(), Watched(0.1)
    model.encoder.trainable = False
    model.compile(optimizer)
    optimizer.build(model.trainable_variables)
    before, count = dict(vars(optimizer)), len(optimizer._names)
    model.fit(["good a", "bad a"], [1, 0], verbose=0)
    assert set(optimizer._names[count:]) <= {"_exclude_from_weight_decay_cache"}  # Keras's own
    assert {name for name in vars(optimizer) if vars(optimizer)[name] is not before.get(name)} <= {
        "_exclude_from_weight_decay_cache"
    }
    assert all(weight.value.trainable for weight in model.weights if "float" in str(weight.dtype))


def test_gradients_are_traced_down_to_the_lowest_weight_that_trains():
    def products(trainable):
        model = classifier()
        model.compile("sgd")
        adaptation.freeze(model, "pretrained")
        if trainable:
            adaptation.unfreeze(model, trainable)
        model.optimizer.build(model.trainable_variables)
        graph = tf.function(model.train_step, autograph=False).get_concrete_function((INPUTS, LABELS)).graph
        return sum("MatMul" in operation.type for operation in graph.get_operations())

    # Forward, the block has four products with weights and two of attention, the pooler and the head one each.
    # Backward, there are one for each weight and one for each value below it that depends on a weight.
    forward = 4 + 2 + 1 + 1
    assert products(None) == forward + 1
    assert products("pooler") == forward + 1 + 1 + 1
    assert products("all") == forward + 2 * forward


@pytest.mark.parametrize(
    "make",
    [
        lambda: optimizers.Adam(0.01, amsgrad=True),
        lambda: optimizers.SGD(0.1, global_clipnorm=0.01),
        lambda: optimizers.LossScaleOptimizer(optimizers.RMSprop(0.01)),
    ],
    ids=["AMSGrad", "SGD", "wrapped"],
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
