"""`encode`: one `Encoded` from our encoders, from KerasHub's backbones and from any functional model."""

import re

import keras
import numpy as np
import pytest

from keras_transfer.encoders import BertEncoder, TransformerEncoder, encode
from keras_transfer.encoders.encoder import Encoder
from keras_transfer.tasks import TextClassifier

SIZES = {"num_layers": 2, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16, "max_sequence_length": 10}
SIZES |= {"vocabulary_size": 12, "dropout": 0.0}
IDS = {
    "token_ids": np.array([[5, 6, 7, 0], [8, 9, 4, 3]], "int32"),
    "segment_ids": np.array([[0, 0, 1, 0], [0, 0, 0, 0]], "int32"),
    "padding_mask": np.array([[1, 1, 1, 0], [1, 1, 1, 1]], "int32"),
}
PLAIN = {name: IDS[name] for name in ("token_ids", "padding_mask")}


def hub(name, **arguments):
    return getattr(pytest.importorskip("keras_hub").models, name)(**SIZES, **arguments)


def assert_states_lead_to_the_sequence(encoder, inputs, mask_argument="padding_mask"):
    """The last hidden state is the sequence output, and each block turns one into the next."""
    encoded = encode(encoder, inputs, hidden_states=True)
    assert len(encoded.hidden_states) == 3
    blocks = getattr(encoder, "blocks", None) or encoder.transformer_layers
    for block, before, after in zip(blocks, encoded.hidden_states, encoded.hidden_states[1:]):
        expected = block(before, **{mask_argument: inputs["padding_mask"]})
        np.testing.assert_allclose(after, expected, atol=1e-5)
    return encoded


def test_our_bert_gives_sequence_pooled_and_mask():
    encoder = BertEncoder(**SIZES)
    encoded, outputs = encode(encoder, IDS), encoder(IDS)
    np.testing.assert_array_equal(encoded.sequence, outputs["sequence_output"])
    np.testing.assert_array_equal(encoded.pooled, outputs["pooled_output"])
    np.testing.assert_array_equal(encoded.mask, IDS["padding_mask"])
    assert encoded.hidden_states is None


def test_our_transformer_has_no_pooled_output():
    assert encode(TransformerEncoder(**SIZES), PLAIN).pooled is None


def test_each_block_of_our_bert_turns_a_hidden_state_into_the_next():
    encoded = assert_states_lead_to_the_sequence(BertEncoder(**SIZES), IDS)
    np.testing.assert_array_equal(encoded.hidden_states[-1], encoded.sequence)


def test_inputs_that_the_encoder_does_not_take_are_left_out():
    encoder = TransformerEncoder(**SIZES)
    for hidden_states in (False, True):
        expected = encode(encoder, PLAIN, hidden_states=hidden_states)
        np.testing.assert_array_equal(encode(encoder, IDS, hidden_states=hidden_states).sequence, expected.sequence)


def test_a_keras_hub_bert_gives_the_entries_of_its_dict():
    backbone = hub("BertBackbone")
    encoded = assert_states_lead_to_the_sequence(backbone, IDS)
    outputs = backbone(IDS)
    np.testing.assert_allclose(encoded.sequence, outputs["sequence_output"], atol=1e-6)
    np.testing.assert_allclose(encoded.pooled, outputs["pooled_output"], atol=1e-6)
    np.testing.assert_array_equal(encoded.hidden_states[-1], encoded.sequence)


@pytest.mark.parametrize(
    ("name", "mask_argument"), [("RobertaBackbone", "padding_mask"), ("GPT2Backbone", "decoder_padding_mask")]
)
def test_a_keras_hub_backbone_that_returns_a_bare_tensor_gives_a_sequence(name, mask_argument):
    backbone = hub(name)
    encoded = assert_states_lead_to_the_sequence(backbone, PLAIN, mask_argument)
    np.testing.assert_allclose(encoded.sequence, backbone(PLAIN), atol=1e-6)
    np.testing.assert_array_equal(encoded.mask, PLAIN["padding_mask"])
    assert encoded.pooled is None


def test_the_last_state_of_gpt2_comes_before_its_final_norm():
    backbone = hub("GPT2Backbone")
    encoded = encode(backbone, PLAIN, hidden_states=True)
    np.testing.assert_allclose(backbone.layer_norm(encoded.hidden_states[-1]), encoded.sequence, atol=1e-6)


def test_hidden_states_of_albert_are_an_error():
    backbone = hub("AlbertBackbone", embedding_dim=4)
    assert encode(backbone, IDS).sequence.shape == (2, 4, 8)
    with pytest.raises(ValueError, match=r"no hidden states, but they are required. Received: .*albert"):
        encode(backbone, IDS, hidden_states=True)


@pytest.mark.parametrize("make", [lambda: BertEncoder(**SIZES), lambda: hub("BertBackbone")], ids=["ours", "hub"])
def test_without_inputs_the_layers_of_the_encoder_become_layers_of_the_model(make):
    encoder = make()
    encoded = encode(encoder, hidden_states=True)
    model = keras.Model(encoder.input, keras.layers.Dense(2)(encoded.pooled))
    assert set(encoder.layers) < set(model.layers)
    middle = keras.Model(encoder.input, encoded.hidden_states[1])
    np.testing.assert_allclose(middle(IDS), encode(encoder, IDS, hidden_states=True).hidden_states[1], atol=1e-6)


def test_any_functional_model_of_token_ids_is_an_encoder():
    inputs = keras.Input((None,), dtype="int32")
    model = keras.Model(inputs, keras.layers.Embedding(12, 4)(inputs))
    encoded = encode(model, IDS["token_ids"])
    assert encoded.sequence.shape == (2, 4, 4)
    assert encoded.mask is None


def test_a_sequential_is_an_error_that_says_how_to_make_it_an_encoder():
    ids = keras.Input((None,), dtype="int32", name="token_ids")
    model = keras.Sequential([ids, keras.layers.Embedding(12, 4)])
    with pytest.raises(ValueError, match="`Sequential` cannot be an encoder") as error:
        TextClassifier(model, num_classes=2)
    named = eval(re.search("`(keras.Model.*?)`", str(error.value))[1], {"keras": keras, "encoder": model})
    assert encode(named, {"token_ids": IDS["token_ids"]}).sequence.shape == (2, 4, 4)
    classifier = TextClassifier(named, num_classes=2, pooling="mean")
    assert classifier({"token_ids": IDS["token_ids"]}).shape == (2, 2)


def test_a_model_without_a_sequence_is_an_error():
    inputs = keras.Input((4,))
    model = keras.Model(inputs, {"logits": keras.layers.Dense(2)(inputs)})
    with pytest.raises(ValueError, match=r"must return a \[batch, length, dim\] tensor .* Received: .*logits.*2"):
        encode(model, np.zeros((1, 4), "float32"))


def test_a_model_that_returns_one_vector_for_a_text_is_an_error():
    inputs = keras.Input((4,))
    with pytest.raises(ValueError, match=r"must return a \[batch, length, dim\] tensor.*'pooled_output': vectors"):
        encode(keras.Model(inputs, keras.layers.Dense(2)(inputs)), np.zeros((1, 4), "float32"))


def test_an_encoder_without_layer_groups_is_an_error_that_says_what_to_implement():
    inputs = {"token_ids": keras.Input((None,), dtype="int32", name="token_ids")}
    states = keras.layers.Embedding(12, 4)(inputs["token_ids"])
    with pytest.raises(NotImplementedError, match=r"Encoder must implement `layer_groups\(\)`"):
        Encoder(inputs, {"sequence_output": states}, [states]).layer_groups()
