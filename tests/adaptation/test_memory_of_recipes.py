"""What a recipe trades time for: accumulated gradients, and blocks that are computed twice, change no result."""

import dataclasses
import functools
import math

import keras
import pytest

from keras_transfer.adaptation import Recipe, fine_tune, get_recipe, rematerialize
from keras_transfer.keras_internals.trainable import layers_within
from keras_transfer.layers import TransformerBlock
from keras_transfer.tasks import TextClassifier
from tests.tasks import tiny

TEXTS, LABELS = tiny.examples(8)
# With this epsilon, Adam's first steps are in proportion to the gradients, and do not enlarge their rounding.
PLAIN = {"epochs": 1, "schedule": "constant", "learning_rate": 10.0, "epsilon": 1.0, "weight_decay": 0.0}


def tuned(model, **changes):
    """The weights of a model before and after a recipe with these changes."""
    start = model.get_weights()
    recipe = get_recipe("bert", **{**PLAIN, **changes})
    fine_tune(model, TEXTS, LABELS, recipe=recipe, shuffle=False, verbose=0)
    return start, model.get_weights()


@pytest.mark.core
def test_two_accumulated_batches_of_four_rows_make_the_step_of_one_batch_of_eight(eagerly):
    start, one = tuned(tiny.classifier(), batch_size=8, global_clipnorm=None)
    model = tiny.classifier()
    _, two = tuned(model, batch_size=4, global_clipnorm=None, gradient_accumulation_steps=2)
    assert int(model.optimizer.iterations) == 1
    assert tiny.difference(one, two) < 1e-5 < 1e-2 < tiny.difference(one, start)


def test_one_batch_for_an_update_is_the_same_as_no_accumulation():
    made = [get_recipe("bert", gradient_accumulation_steps=count) for count in (None, 1)]
    options = [recipe.build_optimizer(tiny.classifier(), 8).gradient_accumulation_steps for recipe in made]
    assert options == [None, None]


def test_a_run_with_fewer_batches_than_an_update_makes_one_update_of_all(eagerly):
    start, one = tuned(tiny.classifier(), batch_size=8, global_clipnorm=None)
    _, two = tuned(tiny.classifier(), batch_size=4, global_clipnorm=None, gradient_accumulation_steps=3)
    assert tiny.difference(one, two) < 1e-5 < 1e-2 < tiny.difference(one, start)


def test_adafactor_keeps_little_and_learns(eagerly):
    model = tiny.classifier()
    model.compile()
    before = model.evaluate(TEXTS, LABELS, verbose=0, return_dict=True)["loss"]
    recipe = get_recipe("ulmfit_lm", optimizer="adafactor", learning_rate=0.5, batch_size=8, epochs=4)
    fine_tune(model, TEXTS, LABELS, recipe=recipe, verbose=0)
    kept = {name: size_of(get_recipe("bert", optimizer=name, learning_rate=1e-3)) for name in ("adamw", "adafactor")}
    assert kept["adafactor"] < 0.6 * kept["adamw"]  # one array for each weight instead of two
    assert model.evaluate(TEXTS, LABELS, verbose=0, return_dict=True)["loss"] < before
    with pytest.raises(ValueError, match=r"`beta_2` must be 0.999 if `optimizer='adafactor'`.* Received: beta_2=0\.98"):
        get_recipe("bert", optimizer="adafactor", learning_rate=1e-3, beta_2=0.98)


def test_adafactor_needs_a_rate_of_its_own():
    makes = [functools.partial(get_recipe, name) for name in ("bert", "lora")]
    makes += [Recipe, functools.partial(dataclasses.replace, Recipe())]
    for make in makes:
        with pytest.raises(ValueError, match="is meant for AdamW.*Pass another `learning_rate`.*'adafactor'"):
            make(optimizer="adafactor")


def size_of(recipe):
    model = tiny.classifier()
    optimizer = recipe.build_optimizer(model, 8)
    optimizer.build(model.trainable_variables)
    return sum(math.prod(variable.shape) for variable in optimizer.variables)


def with_dropout():
    keras.utils.set_random_seed(0)
    encoder = tiny.encoder(dropout=0.3, initializer_range=0.2, num_layers=2)
    return TextClassifier(encoder, num_classes=2, preprocessor=tiny.preprocessor())


@pytest.mark.core
def test_rematerialized_blocks_train_to_the_same_weights_with_the_same_dropout():
    start, kept = tuned(with_dropout(), batch_size=4)
    _, computed = tuned(with_dropout(), batch_size=4, rematerialize=True)
    assert tiny.difference(kept, computed) < 1e-5 < 1e-2 < tiny.difference(kept, start)


@pytest.mark.core
@pytest.mark.skipif(keras.backend.backend() == "jax", reason="JAX traces a block once and computes it twice")
def test_a_rematerialized_block_is_computed_twice_in_a_step(monkeypatch):
    calls, run = [], TransformerBlock.run
    monkeypatch.setattr(TransformerBlock, "run", lambda *given, **options: calls.append(0) or run(*given, **options))
    for rematerializes, times in ((False, 1), (True, 2)):
        model = with_dropout()
        rematerialize(model, rematerializes)
        model.compile("sgd", run_eagerly=True)
        model.fit(TEXTS, LABELS, verbose=0)  # which builds it
        calls.clear()
        model.fit(TEXTS, LABELS, verbose=0)
        assert len(calls) == 2 * times  # two blocks


@pytest.mark.core
@pytest.mark.skipif(keras.backend.backend() != "jax", reason="JAX says what it computes again")
def test_a_step_of_jax_computes_each_rematerialized_block_again():
    import jax

    found = []
    for rematerializes in (False, True):
        model = with_dropout()
        rematerialize(model, rematerializes)
        trainable, others = ([w.value for w in ws] for ws in (model.trainable_variables, model.non_trainable_variables))
        call = functools.partial(model.stateless_call, non_trainable_variables=others, training=True)
        inputs = tiny.ids_of(model, TEXTS)
        program = jax.make_jaxpr(lambda values: call(values, inputs=inputs)[0])(trainable)  # noqa: B023
        found.append(sum(equation.primitive.name in ("checkpoint", "remat", "remat2") for equation in program.eqns))
    assert found == [0, 2]  # two blocks


def test_a_rematerialized_block_that_adds_losses_is_an_error():
    model = with_dropout()
    block = next(layer for layer, _ in layers_within(model) if isinstance(layer, TransformerBlock))
    dense = next(layer for layer, _ in layers_within(block) if isinstance(layer, keras.layers.Dense))
    dense.activity_regularizer = keras.regularizers.L2(0.1)
    rematerialize(model)
    model.compile("sgd", run_eagerly=keras.backend.backend() != "jax")
    with pytest.raises(ValueError, match=r"that is rematerialized cannot add losses.* Received: block='block_0'"):
        model.fit(TEXTS, LABELS, verbose=0)


def test_a_recipe_rematerializes_all_blocks_or_leaves_the_model_as_it_was():
    model = with_dropout()
    blocks = [layer for layer, _ in layers_within(model) if isinstance(layer, TransformerBlock)]
    get_recipe("bert").prepare(model)
    assert [block.rematerialize for block in blocks] == [False, False]
    get_recipe("lora", rematerialize=True).prepare(model)
    assert [block.rematerialize for block in blocks] == [True, True]
    rematerialize(model, False)
    assert [block.rematerialize for block in blocks] == [False, False]
    model = tiny.of_vectors()
    with pytest.raises(ValueError, match="Only the Transformer blocks of this library"):
        get_recipe("feature_extraction", rematerialize=True).prepare(model)
    assert all(layer.trainable for layer in model.layers)
