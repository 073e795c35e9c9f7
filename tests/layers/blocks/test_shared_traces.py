"""TensorFlow traces equal Transformer blocks once in a training step, and computes the same numbers as before."""

import gc
import weakref

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import add_adapters
from keras_transfer.encoders import AlbertEncoder, BertEncoder, ModernBertEncoder, TransformerEncoder
from keras_transfer.layers import TransformerBlock
from keras_transfer.layers.blocks import transformer
from keras_transfer.tasks import TextClassifier
from tests.tasks import tiny

IDS = np.array([[2, 5, 5, 3, 0], [2, 7, 6, 9, 3]], "int32")
INPUTS = {"token_ids": IDS, "segment_ids": IDS * 0, "padding_mask": (IDS > 0).astype("int32")}


def classifier(cls=BertEncoder, **options):
    keras.utils.set_random_seed(0)
    encoder = tiny.encoder(cls, num_layers=4, **{"dropout": 0.1, **options})
    return TextClassifier(encoder, num_classes=2, pooling="mean", dropout=0.1)


def three_steps(model, monkeypatch, one_by_one=False, **options):
    """The names of the blocks that are traced in three steps, and the losses and variables after each of them."""
    traced, run, found = [], TransformerBlock.run, []
    with monkeypatch.context() as patch:
        patch.setattr(TransformerBlock, "run", lambda self, *a, **b: traced.append(self.name) or run(self, *a, **b))
        if one_by_one:
            patch.setattr(transformer, "traced_once", lambda layer, function, kinds: function)
        model.compile(**options)
        for _ in range(3):
            found += [model.train_on_batch(INPUTS, np.array([0, 1])), *map(np.array, model.get_weights())]
    return traced, found


@pytest.mark.parametrize(
    ("cls", "options", "precision"),
    [
        (BertEncoder, {}, "float32"),
        (BertEncoder, {}, "mixed_bfloat16"),
        (BertEncoder, {"layer_drop": 0.3}, "float32"),
        (TransformerEncoder, {"norm": "pre", "activation": "gelu"}, "float32"),
    ],
)
def test_losses_and_weights_are_those_of_blocks_that_are_traced_one_by_one(cls, options, precision, monkeypatch):
    keras.config.set_dtype_policy(precision)
    try:
        models = [classifier(cls, **options) for _ in range(2)]
    finally:
        keras.config.set_dtype_policy("float32")
    once, ours = three_steps(models[0], monkeypatch)
    each, theirs = three_steps(models[1], monkeypatch, one_by_one=True)
    assert len(once) == 1 and len(each) == 4
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)
    assert ours[0] != ours[-len(ours) // 3]  # It learns.


def test_a_block_that_differs_is_traced_by_itself(monkeypatch):
    model = classifier()
    model.encoder.blocks[1].dropout.rate = 0.3
    model.encoder.blocks[2].feed_forward.activation = keras.activations.relu
    assert three_steps(model, monkeypatch)[0] == ["block_0", "block_1", "block_2"]


def test_other_blocks_are_traced_one_by_one(monkeypatch):
    model = classifier()
    for block in model.encoder.blocks[:2]:
        block.attention.trainable = False
    assert three_steps(model, monkeypatch)[0] == ["block_0", "block_1", "block_2"]
    model = TextClassifier(classifier().encoder, num_classes=2)  # Its last block computes only the first token.
    assert three_steps(model, monkeypatch)[0] == ["block_0", "block_3"]
    assert len(three_steps(classifier(ModernBertEncoder), monkeypatch)[0]) == 4
    albert = classifier(AlbertEncoder, embedding_dim=8, activation="gelu")  # The same block four times.
    assert len(three_steps(albert, monkeypatch)[0]) == 4
    model = classifier()
    add_adapters(model, "houlsby")
    assert len(three_steps(model, monkeypatch)[0]) == 4


def test_a_block_that_records_its_neurons_is_traced_by_itself():
    import tensorflow as tf

    block = classifier().encoder.blocks[0]

    @tf.function(autograph=False)
    def neurons():
        found = []
        block(np.ones((2, 3, 16), "float32"), record_neurons=found.append, training=True)
        return found[0]

    assert neurons().shape == (6, 32)


def test_a_compiled_step_of_xla_shares_the_trace_too(monkeypatch):
    once, ours = three_steps(classifier(dropout=0.0), monkeypatch, jit_compile=True)
    each, theirs = three_steps(classifier(dropout=0.0), monkeypatch, one_by_one=True, jit_compile=True)
    assert len(once) == 1 and len(each) == 4
    assert tiny.difference(ours, theirs) < 1e-4


def test_a_deleted_model_is_freed_with_its_trace():
    model = classifier()
    model.compile()
    model.train_on_batch(INPUTS, np.array([0, 1]))
    block = weakref.ref(model.encoder.blocks[0])
    del model
    gc.collect()
    assert block() is None
