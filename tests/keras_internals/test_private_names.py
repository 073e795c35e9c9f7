"""The private names of Keras that `keras_internals` uses exist and have the expected meaning.

If one of these tests fails with a new version of Keras, check that folder before you allow that version.
"""

import keras
import numpy as np
import pytest

from keras_transfer.keras_internals import (
    graphs,
    is_recorded,
    keras_callbacks,
    layer_tracking,
    optimizers,
    trainer,
    unrecorded,
)
from keras_transfer.keras_internals.autocast import without_autocast
from keras_transfer.keras_internals.trainer import build_for_step
from keras_transfer.training.rates import check_pattern, rate_of


def model_of(optimizer=None, **compiled):
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3), keras.layers.Dense(1)])
    model.compile(optimizer or keras.optimizers.SGD(0.1), "mse", **compiled)
    return model


def built(optimizer):
    model = model_of(optimizer)
    optimizer.build(model.trainable_variables)
    return model.trainable_variables


def values(variables):
    return [keras.ops.convert_to_numpy(variable).copy() for variable in variables]


def moved_by(optimizer, variables):
    """For each variable whether a step with gradients of one moves it."""
    before = values(variables)
    optimizer.apply([keras.ops.ones(variable.shape) for variable in variables], variables)
    return [bool((a != b).all()) for a, b in zip(before, values(variables))]


# === What an optimizer updates ===


def test_trainable_variables_is_the_list_that_an_optimizer_was_built_with_in_order():
    optimizer = keras.optimizers.Adam()
    variables = built(optimizer)
    assert [id(v) for v in optimizer._trainable_variables] == [id(v) for v in variables]


def test_the_key_of_a_variable_gives_its_position_in_that_list_and_its_slots():
    optimizer = keras.optimizers.Adam(1.0)
    variables = built(optimizer)
    places = [optimizer._trainable_variables_indices[optimizer._var_key(v)] for v in variables]
    assert places == [0, 1, 2, 3] == sorted(optimizer._trainable_variables_indices.values())
    # A step of only the third variable changes only its slot.
    keys = {optimizer._var_key(variables[2]): 2}
    object.__setattr__(optimizer, "_trainable_variables_indices", keys)
    object.__setattr__(optimizer, "_trainable_variables", [variables[2]])
    optimizer.apply([keras.ops.ones(variables[2].shape)])
    momentums = [v for v in optimizer.variables if v.path.endswith("momentum")]
    assert [float(np.abs(value).max()) for value in values(momentums)] == pytest.approx([0, 0, 0.1, 0])


def test_moving_averages_are_in_the_order_of_the_variables():
    optimizer = keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5)
    variables = built(optimizer)
    averages = optimizer._model_variables_moving_average
    assert [a.shape for a in averages] == [v.shape for v in variables]
    assert moved_by(optimizer, variables) == [True] * 4  # at the first step they start from the variables
    before = values(variables)
    optimizer.apply([keras.ops.ones(v.shape) for v in variables])
    for average, old, new in zip(values(averages), before, values(variables)):
        np.testing.assert_allclose(average, (old + new) / 2, rtol=1e-6)


def test_the_inner_optimizer_of_a_wrapper_has_its_own_lists():
    inner = keras.optimizers.Adam(1.0)
    outer = keras.optimizers.LossScaleOptimizer(inner, 1.0)
    variables = built(outer)
    assert outer.inner_optimizer is inner
    for optimizer in (outer, inner):
        assert [id(v) for v in optimizer._trainable_variables] == [id(v) for v in variables]
        assert len(optimizer._trainable_variables_indices) == 4


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_narrowed_optimizer_moves_only_the_selection_until_it_is_widened_again(wrapped):
    optimizer = keras.optimizers.Adam(0.1, use_ema=True)
    optimizer = keras.optimizers.LossScaleOptimizer(optimizer, 1.0) if wrapped else optimizer
    variables = built(optimizer)
    wide = optimizers.updated_by(optimizer)
    optimizers.update(optimizers.selection(optimizer, variables[1:3]))
    assert moved_by(optimizer, variables[1:3]) == [True, True]
    if not wrapped:
        with pytest.raises(ValueError, match="Unknown variable"):
            moved_by(optimizer, variables)
    optimizers.update(wide)
    assert moved_by(optimizer, variables) == [True] * 4


@pytest.mark.skipif(keras.backend.backend() == "jax", reason="`stateless_apply` takes only all variables")
def test_an_optimizer_without_averages_takes_some_variables_and_is_not_narrowed():
    optimizer = keras.optimizers.Adam(0.1)
    variables = built(optimizer)
    optimizers.update(optimizers.selection(optimizer, variables[1:3]))
    assert moved_by(optimizer, variables[1:3]) == [True, True]
    assert [id(variable) for variable in optimizer._trainable_variables] == [id(variable) for variable in variables]


def test_adam_keeps_two_moments_of_each_variable():
    optimizer = keras.optimizers.Adam(1.0)
    variables = built(optimizer)
    optimizer.apply([2.0 * keras.ops.ones(variable.shape) for variable in variables], variables)
    for variable in variables:
        first, second = optimizers.moments_of(optimizer, variable)
        assert first.shape == second.shape == variable.shape
        np.testing.assert_allclose(first, 0.2 * np.ones(variable.shape), rtol=1e-5)
        np.testing.assert_allclose(second, 0.004 * np.ones(variable.shape), rtol=1e-3)


def test_the_slots_of_an_optimizer_are_found_by_the_paths_of_its_weights():
    for optimizer, names in ((keras.optimizers.Adam(), {"momentums", "velocities"}), (keras.optimizers.SGD(), set())):
        variables, paths = built(optimizer), ["a", "b", "c", "d"]
        slots = optimizers.slots_of(optimizer, optimizer.variables, paths)
        assert set(slots.values()) == {(path, name) for path in paths for name in names}
        assert set(slots) <= {id(slot) for slot in optimizer.variables} and len(slots) == len(names) * len(variables)


# === Where `fit` begins ===


def test_fit_begins_in_initial_epoch_which_is_none_by_default():
    model, begun = model_of(), []
    assert "_initial_epoch" in vars(model) and model._initial_epoch is None and trainer.initial_epoch(model) is None
    begin = keras.callbacks.LambdaCallback(
        on_train_begin=lambda logs: trainer.set_initial_epoch(model, 2),
        on_epoch_begin=lambda epoch, logs: begun.append(epoch),
    )
    model.fit(np.ones((4, 2)), np.ones((4, 1)), epochs=4, callbacks=[begin], verbose=0)
    assert begun == [2, 3] and trainer.initial_epoch(model) == 2


# === Where Keras's callbacks keep their state ===


@pytest.mark.parametrize(
    "callback",
    [
        keras.callbacks.EarlyStopping("loss", restore_best_weights=True),
        keras.callbacks.ModelCheckpoint("none.keras", save_freq=5),
        keras.callbacks.ReduceLROnPlateau("loss"),
        keras.callbacks.SwapEMAWeights(),
    ],
    ids=lambda callback: type(callback).__name__,
)
def test_the_attributes_of_a_callback_are_all_that_a_run_changes_or_sets_at_its_beginning(callback):
    # `params`, the model and what is derived from arguments is the same in each run.
    others = {"params", "_model", "monitor_op", "min_delta", "_current_epoch"}
    model = model_of(keras.optimizers.SGD(0.1, use_ema=True), run_eagerly=True)
    before = dict(vars(callback))
    model.fit(np.ones((4, 2)), np.ones((4, 1)), batch_size=2, callbacks=[callback], verbose=0, epochs=2)
    changed = {name for name, value in vars(callback).items() if name not in before or before[name] is not value}
    assert changed - others <= set(keras_callbacks.callback_attributes(callback)) <= set(vars(callback))


# === What an optimizer was told ===


def test_learning_rate_is_a_variable_or_the_given_schedule_or_function():
    schedule, function = keras.optimizers.schedules.CosineDecay(0.1, 9), lambda: 0.5
    assert isinstance(keras.optimizers.SGD(0.25)._learning_rate, keras.Variable)
    assert rate_of(keras.optimizers.SGD(0.25)) == 0.25
    for rate in (schedule, function):
        optimizer = keras.optimizers.SGD(rate)
        assert optimizer._learning_rate is rate and rate_of(optimizer) is rate


@pytest.mark.parametrize("wrapped", [False, True])
def test_an_optimizer_takes_another_learning_rate_until_it_is_set_back(wrapped):
    inner = keras.optimizers.SGD(0.5)
    optimizer = keras.optimizers.LossScaleOptimizer(inner, 1.0) if wrapped else inner
    variables = built(optimizer)
    for rate, expected in ((0.25, 0.25), (keras.optimizers.schedules.ExponentialDecay(1.0, 1, 0.5), 0.5), (None, 0.5)):
        before = values(variables)
        set_back = optimizers.set_learning_rate(optimizer, rate)
        moved_by(optimizer, variables)
        set_back()
        for old, new in zip(before, values(variables)):
            np.testing.assert_allclose(old - new, expected, rtol=1e-5)
        assert rate_of(inner) == 0.5


def test_the_count_of_batches_has_those_between_two_updates_whose_gradients_can_be_emptied():
    inner = keras.optimizers.SGD(1.0, gradient_accumulation_steps=3)
    optimizer = keras.optimizers.LossScaleOptimizer(inner, 1.0)
    variables = built(optimizer)
    assert [moved_by(optimizer, variables)[0] for _ in range(4)] == [False, False, True, False]
    assert optimizers.batch_count(optimizer) == 4 and int(optimizer.iterations) == 1
    assert all((gradient == 1).all() for gradient in values(inner._accumulated_gradients))
    optimizers.forget_gradients(optimizer)
    assert all((gradient == 0).all() for gradient in values(inner._accumulated_gradients))


def test_a_narrowed_optimizer_still_knows_what_it_was_built_for():
    optimizer = keras.optimizers.Adam(use_ema=True)
    variables = built(optimizer)
    wide = optimizers.updated_by(optimizer)
    optimizers.update(optimizers.selection(optimizer, variables[1:3]))
    assert [id(v) for v in optimizers.built_for(optimizer)] == [id(v) for v in variables]
    optimizers.update(wide)


@pytest.mark.parametrize("said", ["var_names", "var_list"])
def test_exclusions_from_weight_decay_are_in_the_private_names(said):
    optimizer, variables = keras.optimizers.AdamW(), model_of().trainable_variables
    check_pattern(optimizer)  # no exclusions: no error
    optimizer.exclude_from_weight_decay(**{said: ["bias"] if said == "var_names" else variables[1:2]})
    name = {"var_names": "_exclude_from_weight_decay_pattern", "var_list": "_exclude_from_weight_decay"}[said]
    assert getattr(optimizer, name)
    with pytest.raises(ValueError, match="Use the argument `decay_norms_and_biases`"):
        check_pattern(optimizer)


def test_get_variable_index_is_the_position_in_the_list_that_an_optimizer_was_built_with():
    optimizer = keras.optimizers.Adam()
    assert [optimizer._get_variable_index(variable) for variable in built(optimizer)] == [0, 1, 2, 3]


# === How a model is cloned ===


def test_clone_model_runs_through_the_graph_with_layers_and_symbolic_inputs_and_no_call_does():
    class Model(graphs.NotCloned, keras.Model):
        pass

    inputs = keras.Input((2,))
    model = Model(inputs, keras.layers.Dense(1)(inputs))
    model(np.ones((1, 2)))
    assert keras.Model(inputs, model(inputs)).compute_output_shape((None, 2)) == (None, 1)
    with pytest.raises(ValueError, match="`clone_model` cannot clone a `Model`"):
        keras.models.clone_model(model)


# === The metrics of a compiled model ===


def test_metrics_that_are_given_by_name_are_created_before_the_first_step():
    inputs = keras.Input((2,))
    model = keras.Model(inputs, keras.layers.Dense(3)(inputs))
    model.compile("sgd", "mse", metrics=["accuracy"])
    assert len(model.metrics) == 2 and not model._compile_metrics.built
    trainer.build_metrics(model, np.zeros((4,), "int64"))
    if keras.backend.backend() == "tensorflow":
        assert model._compile_metrics.built
        assert type(model._compile_metrics.metrics[0]) is keras.metrics.SparseCategoricalAccuracy


def test_the_strategy_of_a_model_is_none_without_replicas_and_with_one_its_metrics_are_created_by_keras():
    tf = pytest.importorskip("tensorflow")
    if keras.backend.backend() != "tensorflow":
        pytest.skip("is about TensorFlow")
    assert model_of()._distribute_strategy is None
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    with strategy.scope():
        model = model_of(metrics=["mae"])
    assert model._distribute_strategy is strategy
    trainer.build_metrics(model, np.zeros((4, 1), "float32"))
    assert not model._compile_metrics.built


def test_a_built_layer_takes_further_layers_only_while_it_is_unlocked():
    layer = keras.layers.Dense(2)
    layer.build((None, 3))
    part = keras.layers.Dense(1)
    part.build((None, 3))
    with layer_tracking.unlocked(layer):
        layer.part = part
    assert len(layer.weights) == 4 and layer._tracker.locked
    with pytest.raises(ValueError, match="cannot add new elements"):
        layer.other = keras.layers.Dense(1)
    layer_tracking.forget(layer, part)
    assert len(layer.weights) == 2


@pytest.mark.core
def test_layers_inside_layers_are_found():
    inside = keras.layers.Dense(1)
    around = keras.layers.TimeDistributed(inside)
    assert layer_tracking.layers_in(keras.Sequential([around])) == [around, inside]


# === Precision ===


@pytest.mark.core
def test_a_variable_is_read_in_its_own_precision_within_a_layer_of_mixed_precision():
    class Reading(keras.layers.Layer):
        def build(self, shape):
            self.weight = self.add_weight(shape=(1,))

        def call(self, inputs):
            with without_autocast():
                whole = keras.ops.convert_to_tensor(self.weight.value)
            read.extend(keras.backend.standardize_dtype(part.dtype) for part in (self.weight.value, whole))
            return inputs

    read = []
    Reading(dtype="mixed_bfloat16")(np.ones((1, 1)))
    assert read == ["bfloat16", "float32"]


@pytest.mark.core
def test_the_metrics_and_the_optimizer_of_a_model_are_created_for_a_step():
    model = model_of(metrics=["mae"])
    build_for_step(model, (np.ones((4, 2), "float32"), np.ones((4, 1), "float32")))
    assert model.optimizer.built and len(model.metrics_variables) == 4  # a sum and a count of each mean


# === Tapes ===


def test_a_tape_of_tensorflow_is_known_within_it_and_in_functions_that_are_traced_within_it():
    tf = pytest.importorskip("tensorflow")

    @tf.function(autograph=False)
    def traced():
        found.append(is_recorded())

    found = [is_recorded()]
    with tf.GradientTape(watch_accessed_variables=False):
        found.append(is_recorded())
        traced()
        with unrecorded():
            found.append(is_recorded())
    assert found == [False, True, True, False]
