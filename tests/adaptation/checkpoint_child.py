"""Run by test_checkpoint_kill.py in processes of their own: one run of gradual unfreezing, which may end on the way.

python -m tests.adaptation.checkpoint_child FOLDER RESULT.npz '{"kill": 7}'
"""

import json
import logging
import os
import signal
import sys

import keras
import numpy as np

from keras_transfer import files
from keras_transfer.adaptation import checkpoint_files
from keras_transfer.adaptation.checkpoint import Checkpoint
from keras_transfer.adaptation.unfreezing import GradualUnfreezing
from keras_transfer.encoders import TransformerEncoder
from keras_transfer.tasks import TextClassifier
from keras_transfer.text import batches

EPOCHS, BATCHES = 4, 12


def main(folder, result, kill=None, how="after the step", term=None, checkpoint=True):
    keras.utils.set_random_seed(0)
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        tf.config.experimental.enable_op_determinism()
    model = TextClassifier(TransformerEncoder(20, 1, 2, 8, 16, max_sequence_length=16), 2, dropout=0.1)
    model.compile(keras.optimizers.Adam(1e-2))
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice(list("abcdefgh"), size)) for size in random.integers(1, 17, 8 * BATCHES)]
    labels = [int("a" in text) for text in texts]
    train = batches(texts, labels, ids, batch_size=8, lengths=[16])
    assert len(train) == BATCHES
    saving = Checkpoint(folder, save_every=3)
    ending = End(kill or term, signal.SIGKILL if kill else signal.SIGTERM)
    if kill and how != "after the step":
        kill_while(how, ending)
    callbacks = [GradualUnfreezing(share=0.75), ending, *([saving] if checkpoint else [])]
    model.fit(train, epochs=EPOCHS, callbacks=callbacks, verbose=0)
    variables = [*model.variables, *model.optimizer.variables]
    arrays = {f"{i}/{v.path}".replace("/", "."): keras.ops.convert_to_numpy(v) for i, v in enumerate(variables)}
    np.savez(result, **arrays)
    print(json.dumps({"stopped_by": saving.stopped_by}))


def ids(texts):
    """A preprocessor of numpy alone: letters as ids."""
    token_ids = np.zeros((len(texts), 16), "int32")
    for row, text in enumerate(texts):
        letters = [ord(letter) - ord("a") + 5 for letter in text.split()]
        token_ids[row, : len(letters)] = letters
    return {"token_ids": token_ids, "padding_mask": (token_ids > 0).astype("int32")}


class End(keras.callbacks.Callback):
    """Sends this process a signal after a step, counted over the whole run; passed over batches count."""

    def __init__(self, step, number):
        super().__init__()
        self.step, self.number, self.now = step, number, 0

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        self.now = self.epoch * BATCHES + batch + 1
        if self.now == self.step and self.number is not None:
            os.kill(os.getpid(), self.number)


def kill_while(how, ending):
    """Kills in the middle of writing the checkpoint of that step: half written, or all but its name."""
    ending.number = None
    parts, replace = checkpoint_files._parts, os.replace

    def half(header, variables):
        for i, part in enumerate(parts(header, variables)):
            if i > len(variables) / 2 and ending.now >= ending.step:
                os.kill(os.getpid(), signal.SIGKILL)
            yield part

    def rename(old, new):
        if ending.now >= ending.step:
            os.kill(os.getpid(), signal.SIGKILL)
        replace(old, new)

    if how == "writing":
        checkpoint_files._parts = half
    else:
        files.os.replace = rename


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    main(*sys.argv[1:3], **json.loads(sys.argv[3]))
