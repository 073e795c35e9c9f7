"""Checks of freezing and of each method of unfreezing on pretrained encoders: ours, KerasHub's and TF Hub's."""

import functools
import pathlib
import tempfile

import keras
import numpy as np

from keras_transfer.adaptation import freeze
from keras_transfer.callbacks import ChainThaw, GradualUnfreezing, SequentialUnfreezing
from keras_transfer.tasks import TextClassifier
from tests.tasks import tiny
from tests.training.runs.staging_models import Watch, assert_follows

METHODS = {
    "gradual": lambda: GradualUnfreezing(steps=2),
    "chain": lambda: ChainThaw(steps=2),
    "sequential": lambda: SequentialUnfreezing(),
    "freeze": lambda: None,
}
LABELS = np.arange(16) % 2


def ours():
    model = TextClassifier(tiny.encoder(num_layers=1), num_classes=2, dropout=0.0)
    return model, tokens(len(tiny.VOCABULARY))


def keras_hub():
    from keras_hub.models import BertBackbone

    backbone = BertBackbone(12, 2, 2, 4, 8, dropout=0.0, max_sequence_length=10)
    outputs = keras.layers.Dense(2, name="classes")(backbone(backbone.input)["pooled_output"])
    return keras.Model(backbone.input, outputs), tokens(12)


def module():
    from keras_transfer.hub import HubEncoder
    from tests.hub import saved_modules as modules

    encoder, ids = HubEncoder(pathlib.Path(saved_module().name, "module")), modules.bert_inputs(16)
    names = zip(("token_ids", "padding_mask", "segment_ids"), modules.BERT_INPUTS)
    return TextClassifier(encoder, num_classes=2, dropout=0.0), {ours: ids[theirs] for ours, theirs in names}


@functools.cache
def saved_module():
    """The folder of a module, which is written once per process and deleted with it."""
    from tests.hub.saved_modules import save_bert_module

    folder = tempfile.TemporaryDirectory()
    save_bert_module(pathlib.Path(folder.name, "module"))
    return folder


def tokens(vocabulary_size):
    ids = np.random.default_rng(0).integers(1, vocabulary_size, (16, 6)).astype("int32")
    return {"token_ids": ids, "segment_ids": np.zeros_like(ids), "padding_mask": np.ones_like(ids)}


ENCODERS = {"ours": ours, "keras_hub": keras_hub, "module": module}


def check_encoder(kind, method, **compiled):
    """Checks that each step moved only the weights of its stage."""
    keras.utils.set_random_seed(0)
    model, inputs = ENCODERS[kind]()
    # Attention ignores a shift of all keys.
    keys = [weight.path for weight in model.weights if weight.path.endswith("key/bias")]
    assert len(keys) == (2 if kind == "keras_hub" else 0)
    callback, watch = train(model, inputs, method, **compiled)
    assert_follows(model, callback, watch, may_rest=keys)


def train(model, inputs, method, **compiled):
    """Trains for twelve steps, and returns the callback and the recorder."""
    callback, watch = METHODS[method](), Watch()
    if callback is None:
        freeze(model, below=2)
        assert 0 < len(model.trainable_weights) < len(model.weights)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, **compiled)
    callbacks = [watch] if callback is None else [callback, watch]
    model.fit(inputs, LABELS, batch_size=4, epochs=3, shuffle=False, verbose=0, callbacks=callbacks)
    assert len(watch.steps) == 12 and (callback is None or callback.schedule[-1][0] < 11)
    return callback, watch
