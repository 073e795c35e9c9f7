"""An encoder with the embeddings of another one computes what it did, given the same embeddings."""

import inspect

import numpy as np
import pytest

from keras_transfer.adaptation import add_adapters, freeze
from keras_transfer.encoders import (
    AlbertEncoder,
    AWDLSTMEncoder,
    BertEncoder,
    ElectraEncoder,
    ModernBertEncoder,
    MPNetEncoder,
    XlmEncoder,
)
from keras_transfer.encoders.encoder import Encoder
from keras_transfer.encoders.sharing import with_embeddings_of
from keras_transfer.encoders.stack import StackLayers, TransformerStack
from tests.errors import check_errors
from tests.helpers import outputs_of

SIZES = {"num_layers": 2, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16, "initializer_range": 0.3}
pytestmark = pytest.mark.usefixtures("eagerly")


def encoder(cls=ElectraEncoder, **options):
    return cls(12, **{**SIZES, "max_sequence_length": 6, **options})


@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (BertEncoder, {"further_inputs": ["attention_mask"], "pooling": "mean", "normalize": True}),
        (AlbertEncoder, {"embedding_dim": 4}),
        (MPNetEncoder, {}),
        (ModernBertEncoder, {}),
        (XlmEncoder, {"num_languages": 2, "language": 1}),
    ],
)
def test_it_computes_what_both_encoders_have_given_it(cls, options):
    own, other = encoder(cls, **options), encoder(cls, **options)
    shared = with_embeddings_of(own, other)
    assert type(shared) is cls and shared.get_config() == own.get_config()
    assert shared.token_embedding is other.token_embedding and shared.blocks[0] is own.blocks[0]
    inputs = {name: np.array([[1, 1, 1, 0]], "int32") for name in own.input if name != "attention_mask"}
    inputs |= {"attention_mask": np.ones((1, 4, 4), "int32")} if "attention_mask" in own.input else {}
    given = {id(weight) for weight in own.weights} & {id(weight) for weight in shared.weights}
    for weight, value in zip(own.weights, other.weights, strict=True):
        if id(weight) not in given:
            weight.assign(value)
    expected = outputs_of(own, inputs)
    for name, values in outputs_of(shared, inputs).items():
        np.testing.assert_allclose(values, expected[name], atol=1e-6)


def test_it_passes_on_every_argument_of_the_constructor(monkeypatch):
    own, other, passed, build = encoder(), encoder(), [], TransformerStack.__init__
    signatures = [inspect.signature(cls.__init__).parameters for cls in (TransformerStack, StackLayers, Encoder)]

    def record(self, settings, **arguments):
        passed.extend(["self", "settings", *arguments])
        build(self, settings, **arguments)

    monkeypatch.setattr(TransformerStack, "__init__", record)
    with_embeddings_of(own, other)
    built = {"inputs", "outputs", "hidden_states", "options"}  # The stack itself makes these for its base class.
    built |= {"output_transform", "is_decoder", "prefix"}  # Decoders have these.
    built |= {"head_dim", "layer_drop"}  # These are settings, which the blocks have.
    assert sorted(passed) == sorted({name for names in signatures for name in names} - built)


def test_frozen_weights_stay_frozen():
    own, other = encoder(embedding_dim=4), encoder(hidden_dim=4)
    freeze(own, "block_0")
    freeze(other, "embeddings")
    shared = with_embeddings_of(own, other)
    frozen = {weight.path.split("/")[0] for weight in shared.weights if not weight.trainable}
    assert frozen == {"token_embedding", "position_embedding", "segment_embedding", "embeddings_norm", "block_0"}
    assert not other.token_embedding.embeddings.trainable and other.blocks[0].trainable_weights


def adapted():
    found = encoder()
    add_adapters(found, "lora:rank=2")
    return found


test_embeddings_of_other_sizes_are_an_error = check_errors(
    ((encoder, lambda: encoder(hidden_dim=4)), "Received: name='token_embedding' ... (12, 8) ... (12, 4)"),
    ((encoder, lambda: encoder(ModernBertEncoder)), "name='position_embedding' ... wanted=None"),
    ((encoder, lambda: encoder(layer_norm_epsilon=1e-5)), "name='embeddings_norm' ... 'epsilon': 1e-12 ... 1e-05"),
    ((adapted, encoder), "must have no adapters ... Received: encoder=<ElectraEncoder"),
    (
        (encoder, lambda: AWDLSTMEncoder(12)),
        "Only the Transformers of ... Received: model=<AWDLSTMEncoder",
    ),
    call=lambda own, other: with_embeddings_of(own(), other()),
)
