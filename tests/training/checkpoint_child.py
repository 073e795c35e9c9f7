"""Run by test_checkpoint_kill.py: runs of gradual unfreezing, each in a separate process, which may be killed.

python -m tests.training.checkpoint_child FOLDER '[{"name": "whole", "checkpoint": false}, {"kill": 7}]'

Importing Keras takes longer than such a run, so this process imports it once and forks before any computation for
each run. Prints a list with the exit code, the log and the report of each.
"""

import importlib
import json
import logging
import os
import pathlib
import signal
import sys
import traceback

import keras
import numpy as np

from keras_transfer import files
from keras_transfer.adaptation.unfreezing import GradualUnfreezing
from keras_transfer.text import batches
from keras_transfer.training import checkpoint_files
from keras_transfer.training.checkpoint import Checkpoint

EPOCHS, BATCHES = 4, 12


def main(folder, runs):
    importlib.import_module(keras.backend.backend())
    folder, ended = pathlib.Path(folder), []
    for number, options in enumerate(runs):
        log, report = folder / f"{number}.log", folder / f"{number}.json"
        process = os.fork()
        if not process:
            apart(log, lambda options=options, report=report: report.write_text(json.dumps(go(folder, **options))))
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        half = len(list((folder / options.get("name", "killed")).glob(".*.tmp")))
        result = json.loads(report.read_text()) if report.exists() else None
        ended.append({"code": code, "log": log.read_text(), "half_written": half, "report": result})
    print(json.dumps(ended))


def apart(log, function):
    """Runs a function with a log file as its standard error, and ends the process."""
    code = 1
    try:
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT), sys.stderr.fileno())
        logging.basicConfig(level=logging.INFO)
        function()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def go(folder, name="killed", kill=None, how="after the step", term=None, checkpoint=True):
    keras.utils.set_random_seed(0)
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        tf.config.experimental.enable_op_determinism()
    model, train = build(), data(BATCHES)
    assert len(train) == BATCHES
    saving = Checkpoint(folder / name, save_every=3, dataset=train)
    ending = End(kill or term, signal.SIGKILL if kill else signal.SIGTERM)
    if kill and how != "after the step":
        kill_while(how, ending)
    callbacks = [GradualUnfreezing(fraction=0.75), ending, *([saving] if checkpoint else [])]
    model.fit(train, epochs=EPOCHS, callbacks=callbacks, verbose=0)
    variables = [*model.variables, *model.optimizer.variables]
    arrays = {f"{i}/{v.path}".replace("/", "."): keras.ops.convert_to_numpy(v) for i, v in enumerate(variables)}
    np.savez(folder / f"{name}.npz", **arrays)
    return {"stopped_by": saving.stopped_by}


def build(optimizer=None):
    """A classifier of bags of letters with dropout and statistics, in three groups."""
    inputs = {name: keras.Input((16,), name=name, dtype="int32") for name in ("token_ids", "padding_mask")}
    x = keras.layers.Embedding(20, 8)(inputs["token_ids"])
    x = keras.layers.GlobalAveragePooling1D()(x, mask=inputs["padding_mask"])
    x = keras.layers.Dropout(0.2)(x)
    x = keras.layers.BatchNormalization()(keras.layers.Dense(8, activation="relu")(x))
    model = keras.Model(inputs, keras.layers.Dense(2)(keras.layers.Dropout(0.2)(x)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer or keras.optimizers.Adam(1e-2), loss)
    return model


def data(count):
    """Batches of eight texts, in another order each epoch. The label is whether a text contains an "a"."""
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice(list("abcdefgh"), size)) for size in random.integers(1, 17, 8 * count)]
    return batches(texts, [int("a" in text) for text in texts], ids, batch_size=8, seed=1, lengths=[16])


def ids(texts):
    """A preprocessor of numpy alone: letters as ids."""
    token_ids = np.zeros((len(texts), 16), "int32")
    for row, text in enumerate(texts):
        letters = [ord(letter) - ord("a") + 5 for letter in text.split()]
        token_ids[row, : len(letters)] = letters
    return {"token_ids": token_ids, "padding_mask": (token_ids > 0).astype("int32")}


class End(keras.callbacks.Callback):
    """Sends this process a signal after a step, counted over the whole run, including skipped batches."""

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
    """Kills the process while it writes the checkpoint of that step: half written or not yet renamed."""
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
    main(sys.argv[1], json.loads(sys.argv[2]))
