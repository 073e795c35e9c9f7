"""`HubEncoder` and `HubPreprocessor` follow the protocols, and modules have layer groups."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transfer.adaptation import layer_groups
from keras_transfer.encoders import encode
from keras_transfer.hub import HubEncoder, HubError, HubLayer, HubPreprocessor
from keras_transfer.tasks import TextClassifier
from tests.hub import saved_modules as modules
from tests.hub import tf1_modules


def test_a_bert_like_module_has_the_names_of_the_protocol(bert_module):
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


def test_the_layer_groups_follow_from_the_names_of_variables(bert_module):
    expected = ["embeddings", "layer_0", "layer_1", "pooler"]
    assert [group.name for group in layer_groups(HubLayer(bert_module))] == expected
    model = TextClassifier(HubEncoder(bert_module), num_classes=2)
    groups = layer_groups(model)
    assert [(group.name, group.pretrained) for group in groups] == [
        *((name, True) for name in expected),
        ("head", False),
    ]
    assert [group.kind for group in groups] == ["embeddings", "block", "block", "pooler", "head"]
    assert all(group.layers == [] for group in groups[:-1])
    assert sum(len(group.variables) for group in groups) == len(model.weights)


def test_only_the_lower_layers_of_a_module_are_frozen(bert_module):
    layer = HubLayer(bert_module, trainable=True, output_key="pooled_output")
    lower, upper = layer_groups(layer)[:2], layer_groups(layer)[2:]
    for group in lower:
        for variable in group.variables:
            variable.trainable = False
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in modules.BERT_INPUTS}
    model = keras.Model(inputs, keras.layers.Dense(2)(layer(inputs)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.05), loss, run_eagerly=True)
    before = {weight.path: weight.numpy() for weight in layer.weights}
    model.fit(modules.bert_inputs(), modules.LABELS, epochs=2, verbose=0)
    for groups, moves in ((lower, False), (upper, True)):
        for variable in (variable for group in groups for variable in group.variables):
            assert (variable.numpy() != before[variable.path]).any() == moves, variable.path


def test_a_user_can_define_other_groups(bert_module):
    model = TextClassifier(HubEncoder(bert_module), num_classes=2)
    groups = layer_groups(model, groups=[("lower", "embeddings|layer_0/"), ("upper", "layer_1/")])
    assert [group.name for group in groups] == ["lower", "upper", "pooler", "head"]
    assert [group.depth for group in groups] == [0, 1, 2, 3]
    assert [group.pretrained for group in groups] == [True, True, True, False]
    assert sorted(variable.path for group in groups for variable in group.variables) == sorted(
        weight.path for weight in model.weights
    )


def test_an_expression_without_a_match_is_an_error_that_lists_the_paths(bert_module):
    layer = HubLayer(bert_module, name="bert")  # the default name could be `hub_layer_9`
    with pytest.raises(ValueError, match=re.escape(layer.weights[-1].path) + ".*Received: group=.'top', 'layer_9'"):
        layer_groups(layer, groups=[("top", "layer_9")])


def test_a_module_of_2019_has_the_names_of_the_protocol():
    encoder = HubEncoder(tf1_modules.folder("bert"), signature="tokens")
    assert set(encoder.input) == {"token_ids", "padding_mask", "segment_ids"}
    inputs = modules.bert_inputs()
    names = {"input_ids": "input_word_ids", "input_mask": "input_mask", "segment_ids": "input_type_ids"}
    raw = tf.saved_model.load(tf1_modules.folder("bert"), tags=[]).signatures["tokens"]
    expected = raw(**{theirs: tf.constant(inputs[name]) for theirs, name in names.items()})
    ours = {"token_ids": "input_word_ids", "padding_mask": "input_mask", "segment_ids": "input_type_ids"}
    encoded = encode(encoder, {name: inputs[theirs] for name, theirs in ours.items()})
    np.testing.assert_array_equal(encoded.sequence, expected["sequence_output"])
    np.testing.assert_array_equal(encoded.pooled, expected["pooled_output"])
    assert [group.name for group in layer_groups(encoder)] == ["embeddings", "layer_0", "pooler"]


def test_other_names_in_the_module_do_not_define_a_layer(tmp_path):
    variables = [tf.Variable(tf.ones([1]), name=f"encoder/layer_{i}/module/kernel") for i in (0, 1)]

    def call(texts):
        return tf.tile(tf.reshape(variables[0] + variables[1], [1, 1]), [tf.size(texts), 1])

    folder = modules.save(tmp_path / "module", call, tf.TensorSpec([None], tf.string), trainable=variables)
    assert [group.name for group in layer_groups(HubEncoder(folder))] == ["layer_0", "layer_1"]


def test_a_frozen_encoder_is_still_frozen_when_loaded(text_module, tmp_path):
    encoder = HubEncoder(text_module)
    encoder.module.trainable = False
    encoder.save(tmp_path / "encoder.keras")
    assert keras.saving.load_model(tmp_path / "encoder.keras", safe_mode=False).trainable_weights == []


def test_from_pretrained_takes_a_handle_too(text_module):
    assert HubEncoder.from_pretrained(text_module, trainable=False).trainable_weights == []


def test_a_module_that_is_not_an_encoder_is_an_error(preprocessing_module):
    with pytest.raises(HubError, match="`pooled_output` .batch, dim.*Received"):
        HubEncoder(preprocessing_module)


def test_a_preprocessing_module_truncates_texts_and_packs_pairs(preprocessing_module):
    preprocessor = HubPreprocessor(preprocessing_module)
    whole = preprocessor(["a dull plot", "fine"])
    assert set(whole) == {"token_ids", "padding_mask", "segment_ids"}
    short = HubPreprocessor(preprocessing_module, sequence_length=3)(["a dull plot", "fine"])
    np.testing.assert_array_equal(short["token_ids"].numpy()[:, 0], whole["token_ids"].numpy()[:, 0])
    assert short["token_ids"].shape == (2, 3)
    pair = preprocessor((["fine"], ["a dull plot"]))
    assert pair["segment_ids"].numpy().max() == 1
