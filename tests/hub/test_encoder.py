"""`HubEncoder` behind the encoder protocol: a BERT-like module and a text embedding, in a task and on the ladder."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_transfer as kt
from keras_transfer.adaptation import layer_groups
from keras_transfer.encoders import encode
from keras_transfer.hub import HubEncoder, HubError, HubLayer, HubPreprocessor
from keras_transfer.tasks import TextClassifier
from tests.hub import modules
from tests.hub.preprocessing import save_preprocessing_module

TEXTS, LABELS = modules.TEXTS * 8, list(modules.LABELS) * 8


@pytest.fixture(scope="module")
def preprocessing_module(tmp_path_factory):
    return save_preprocessing_module(tmp_path_factory.mktemp("preprocessing") / "module")


def compiled(model):
    model.compile(keras.optimizers.Adam(0.05))
    return model


def test_a_bert_like_module_speaks_the_names_of_the_protocol(bert_module):
    inputs = modules.bert_inputs()
    encoder = HubEncoder(bert_module)
    ours = {"token_ids": "input_word_ids", "padding_mask": "input_mask", "segment_ids": "input_type_ids"}
    encoded = encode(encoder, {name: inputs[theirs] for name, theirs in ours.items()}, hidden_states=True)
    expected = tf.saved_model.load(str(bert_module))(inputs)
    np.testing.assert_array_equal(encoded.sequence, expected["sequence_output"])
    np.testing.assert_array_equal(encoded.pooled, expected["pooled_output"])
    for state, block in zip(encoded.hidden_states, expected["encoder_outputs"], strict=True):
        np.testing.assert_array_equal(state, block)
    np.testing.assert_array_equal(encoded.mask, inputs["input_mask"])


def test_a_task_over_a_bert_like_module_learns_from_raw_text(bert_module, preprocessing_module):
    keras.utils.set_random_seed(0)
    encoder = HubEncoder(bert_module, trainable=True)
    model = compiled(TextClassifier(encoder, 2, preprocessor=HubPreprocessor(preprocessing_module)))
    assert model.pooling == "pooled"
    before = {weight.path: weight.numpy() for weight in model.weights}
    losses = model.fit(TEXTS, LABELS, epochs=12, verbose=0).history["loss"]
    assert losses[-1] < 0.5 * losses[0]
    assert all((weight.numpy() != before[weight.path]).any() for weight in model.weights)


def test_a_task_over_a_text_embedding_takes_strings(text_module):
    keras.utils.set_random_seed(0)
    model = compiled(TextClassifier(HubEncoder(text_module), 2))
    losses = model.fit(TEXTS, LABELS, epochs=8, verbose=0).history["loss"]
    assert losses[-1] < 0.5 * losses[0]
    one_by_one = np.concatenate([model.predict([text], verbose=0) for text in modules.TEXTS])
    np.testing.assert_allclose(model.predict(modules.TEXTS, verbose=0), one_by_one, atol=1e-6)
    stream = tf.data.Dataset.from_tensor_slices((TEXTS, LABELS)).batch(8)
    assert model.evaluate(stream, verbose=0)[0] == pytest.approx(model.evaluate(TEXTS, LABELS, verbose=0)[0], rel=1e-5)


@pytest.mark.parametrize("kind", ["text", "bert"])
def test_a_task_survives_keras_and_is_exported_from_raw_text(kind, tmp_path, request):
    folder = request.getfixturevalue(f"{kind}_module")
    preprocessor = HubPreprocessor(request.getfixturevalue("preprocessing_module")) if kind == "bert" else None
    model = compiled(TextClassifier(HubEncoder(folder), 2, preprocessor=preprocessor))
    model.fit(TEXTS, LABELS, verbose=0)
    expected = model.predict(modules.TEXTS, verbose=0)
    model.save(tmp_path / "model.keras")
    with pytest.raises(ValueError, match="safe_mode=False"):
        keras.saving.load_model(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras", safe_mode=False)
    np.testing.assert_array_equal(loaded.predict(modules.TEXTS, verbose=0), expected)
    kt.serving.export(model, tmp_path / "served", labels=["bad", "good"])
    served = tf.saved_model.load(str(tmp_path / "served")).signatures
    assert set(served) == {"serving_default", "embed"} | ({"tokens"} if kind == "bert" else set())
    probabilities = served["serving_default"](text=tf.constant(modules.TEXTS))["probabilities"]
    np.testing.assert_allclose(probabilities, tf.nn.softmax(expected), atol=1e-6)


def test_the_ladder_of_a_module_is_read_off_its_variables_names(bert_module):
    expected = ["embeddings", "layer_0", "layer_1", "pooler"]
    assert [group.name for group in layer_groups(HubLayer(bert_module))] == expected
    model = TextClassifier(HubEncoder(bert_module), 2)
    ladder = layer_groups(model)
    assert [(group.name, group.pretrained) for group in ladder] == [
        *((name, True) for name in expected),
        ("head", False),
    ]
    assert [group.kind for group in ladder] == ["embeddings", "block", "block", "pooler", "head"]
    assert all(group.layers == [] for group in ladder[:-1])
    assert sum(len(group.variables) for group in ladder) == len(model.weights)


def test_only_the_lower_layers_of_a_module_are_frozen(bert_module):
    layer = HubLayer(bert_module, trainable=True, output_key="pooled_output")
    lower, upper = layer_groups(layer)[:2], layer_groups(layer)[2:]
    for group in lower:
        for variable in group.variables:
            variable.trainable = False
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in modules.BERT_INPUTS}
    model = keras.Model(inputs, keras.layers.Dense(2)(layer(inputs)))
    model.compile(keras.optimizers.Adam(0.05), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    before = {weight.path: weight.numpy() for weight in layer.weights}
    model.fit(modules.bert_inputs(), modules.LABELS, epochs=2, verbose=0)
    for groups, moves in ((lower, False), (upper, True)):
        for variable in (variable for group in groups for variable in group.variables):
            assert (variable.numpy() != before[variable.path]).any() == moves, variable.path


def test_groups_may_be_said_differently(bert_module):
    model = TextClassifier(HubEncoder(bert_module), 2)
    ladder = layer_groups(model, groups=[("lower", "embeddings|layer_0/"), ("upper", "layer_1/")])
    assert [group.name for group in ladder] == ["lower", "upper", "pooler", "head"]
    assert [group.depth for group in ladder] == [0, 1, 2, 3]
    assert [group.pretrained for group in ladder] == [True, True, True, False]
    assert sorted(variable.path for group in ladder for variable in group.variables) == sorted(
        weight.path for weight in model.weights
    )


def test_an_expression_that_is_found_nowhere_is_an_error_that_lists_the_paths(bert_module):
    layer = HubLayer(bert_module)
    with pytest.raises(ValueError, match=re.escape(layer.weights[-1].path) + ".*Received: .'top', 'layer_9'"):
        layer_groups(layer, groups=[("top", "layer_9")])


def test_a_module_that_is_no_encoder_is_an_error(preprocessing_module):
    with pytest.raises(HubError, match="`pooled_output` .batch, dim.*Received"):
        HubEncoder(preprocessing_module)


def test_what_a_text_embedding_cannot_do_is_an_error(text_module):
    encoder = HubEncoder(text_module)
    with pytest.raises(ValueError, match="one vector of a text itself.*Received: 'mean'"):
        TextClassifier(encoder, 2, pooling="mean")
    model = compiled(TextClassifier(encoder, 2))
    with pytest.raises(ValueError, match="single texts. Received: pairs"):
        model.fit((TEXTS, TEXTS), LABELS, verbose=0)


def test_a_preprocessing_module_cuts_and_pairs(preprocessing_module):
    whole = HubPreprocessor(preprocessing_module)(["a dull plot", "fine"])
    assert set(whole) == {"token_ids", "padding_mask", "segment_ids"}
    short = HubPreprocessor(preprocessing_module, sequence_length=3)(["a dull plot", "fine"])
    np.testing.assert_array_equal(short["token_ids"].numpy()[:, 0], whole["token_ids"].numpy()[:, 0])
    assert short["token_ids"].shape == (2, 3)
    pair = HubPreprocessor(preprocessing_module)((["fine"], ["a dull plot"]))
    assert pair["segment_ids"].numpy().max() == 1
