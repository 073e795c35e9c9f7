"""Writes a small task of this release as `release_VERSION.keras`, with its logits, for later releases to load.

    python tests/references/make_release.py

Needs keras_transfer alone. The files of a release are made once and never again.
"""

import pathlib

import keras
import numpy as np

import keras_transfer as kt

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "film", "is", "good", "bad", "##s"]
TEXTS = ["The film is good", "the films", "", "bad, bad film"]

if __name__ == "__main__":
    keras.utils.set_random_seed(0)
    model = kt.tasks.TextClassifier(
        kt.encoders.BertEncoder(
            len(VOCABULARY), num_layers=1, num_heads=2, hidden_dim=4, intermediate_dim=8, max_sequence_length=16
        ),
        num_classes=3,
        preprocessor=kt.text.BertPreprocessor(VOCABULARY, sequence_length=16),
        pooling="concat",
    )
    model.compile(keras.optimizers.AdamW(0.01))
    model.encoder.blocks[0].attention.trainable = False
    model.fit(TEXTS, [0, 1, 2, 1], verbose=0)
    version = kt.__version__.rsplit(".", 1)[0]
    here = pathlib.Path(__file__).parent
    model.save(here / f"release_{version}.keras")
    np.savez(here / f"release_{version}.npz", logits=model.predict(TEXTS, verbose=0))
