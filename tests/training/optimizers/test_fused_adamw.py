"""`FusedAdamW` updates weights as Keras's AdamW does, on TensorFlow in one operation for each weight."""

import collections

import keras
import numpy as np
import pytest

from keras_transfer.optimizers import FusedAdamW, LayerwiseOptimizer
from tests.helpers import EAGER
from tests.tasks.tiny import classifier, difference

optimizers = keras.optimizers
RATE = optimizers.schedules.PolynomialDecay(0.01, 10)
IDS = np.array([[2, 5, 5, 3], [2, 7, 3, 0]], "int32")
INPUTS = {"token_ids": IDS, "segment_ids": IDS * 0, "padding_mask": (IDS > 0).astype("int32")}
LABELS = np.array([0, 1])


def excluding(kind):
    optimizer = kind(RATE, weight_decay=0.5, use_ema=True, ema_momentum=0.5)
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    return optimizer


OPTIONS = {
    "clipped": lambda kind: kind(RATE, global_clipnorm=0.5),
    "excluding": excluding,
    "AMSGrad": lambda kind: kind(0.01, amsgrad=True),
    "wrapped": lambda kind: optimizers.LossScaleOptimizer(kind(0.01, gradient_accumulation_steps=2)),
}


# On other backends, this optimizer is Keras's.
@pytest.mark.parametrize(
    "options", [pytest.param(name, marks=[pytest.mark.core] * (name == "clipped")) for name in OPTIONS]
)
def test_weights_moments_and_counts_are_those_of_keras(options):
    models = []
    for kind in (FusedAdamW, optimizers.AdamW):
        model = classifier()
        model.compile(OPTIONS[options](kind), run_eagerly=EAGER)
        for _ in range(3):
            model.train_on_batch(INPUTS, LABELS)
        models.append(model)
    ours, theirs = models
    start = classifier().get_weights()
    assert difference(ours.get_weights(), theirs.get_weights()) < 1e-5 < 0.005 < difference(ours.get_weights(), start)
    for one, other in zip(ours.optimizer.variables, theirs.optimizer.variables, strict=True):
        one, other = (keras.ops.convert_to_numpy(variable) for variable in (one, other))
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("wrap", [False, True], ids=["alone", "layer-wise"])
def test_a_graph_has_one_update_for_each_weight_and_computes_the_scalars_once(wrap):
    tf = pytest.importorskip("tensorflow")
    model = classifier()
    optimizer = FusedAdamW(RATE, weight_decay=0.1)
    model.compile(LayerwiseOptimizer(optimizer, model) if wrap else optimizer)
    model.optimizer.build(model.trainable_variables)
    step = tf.function(model.train_step, autograph=False)
    graph = step.get_concrete_function((INPUTS, LABELS)).graph
    kinds = collections.Counter(operation.type for operation in graph.get_operations())
    groups = len(model.optimizer.group_optimizers()) if wrap else 1
    assert kinds["ResourceApplyAdam"] == len(model.trainable_variables)
    assert kinds["Pow"] <= 3 * groups


def test_the_scalars_of_a_step_do_not_grow_with_the_number_of_weights():
    tf = pytest.importorskip("tensorflow")

    def scalars(count):
        optimizer = FusedAdamW(RATE, weight_decay=0.1)
        optimizer.build([keras.Variable(np.ones(2, "float32")) for _ in range(count)])
        step = tf.function(lambda: optimizer.apply([tf.ones(2)] * count), autograph=False)
        kinds = [operation.type for operation in step.get_concrete_function().graph.get_operations()]
        return [kinds.count(kind) for kind in ("Cast", "Const", "Identity")]

    assert scalars(5) == scalars(1)


def test_gradients_of_the_same_token_are_added_up_before_they_are_squared():
    tf = pytest.importorskip("tensorflow")
    table = keras.Variable(np.ones((4, 2), "float32"))
    optimizer = FusedAdamW(0.1, weight_decay=0.0)
    optimizer.build([table])
    gradient = tf.IndexedSlices(tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([1, 1]), tf.constant([4, 2]))
    optimizer.apply([gradient])
    _, _, first, second = (np.array(variable) for variable in optimizer.variables)
    np.testing.assert_allclose(first[1], [0.4, 0.6], rtol=1e-5)
    np.testing.assert_allclose(second[1], [0.016, 0.036], rtol=1e-4)
    np.testing.assert_allclose(table, [[1, 1], [0.9, 0.9], [1, 1], [1, 1]], atol=1e-5)


@pytest.mark.core
def test_tasks_use_it_by_default_and_for_adamw_and_keep_what_is_passed_in():
    model = classifier()
    for given in ((), ("auto",), ("adamw",)):
        model.compile(*given)
        assert type(model.optimizer) is FusedAdamW
        rate = model.encoder.default_learning_rate / 2
        assert float(model.optimizer.learning_rate) == pytest.approx(rate)
    own = optimizers.AdamW()
    model.compile(own)
    assert model.optimizer is own
    model.compile("adam")
    assert not isinstance(model.optimizer, optimizers.AdamW)


def test_a_saved_optimizer_is_one_again(tmp_path):
    model = classifier()
    model.compile(FusedAdamW(RATE, beta_1=0.8), run_eagerly=EAGER)
    model.train_on_batch(INPUTS, LABELS)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert type(again.optimizer) is FusedAdamW and again.optimizer.get_config() == model.optimizer.get_config()
    assert (
        difference(
            again.optimizer.variables, [np.array(keras.ops.convert_to_numpy(v)) for v in model.optimizer.variables]
        )
        == 0
    )
