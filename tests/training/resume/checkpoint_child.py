"""Run by test_checkpoint_kill.py and tools/kills.py: runs in processes of their own, which may end on the way.

python -m tests.training.resume.checkpoint_child FOLDER '[{"name": "whole", "checkpoint": false}, {"kill": 7}]'

Importing Keras takes longer than such a run. This process imports it once, and each run is a fork of this process, in
which no computation has begun. Prints a list with the exit code, the log and the report of each run. With `-` instead
of the list, it reads the options of one run from each line of standard input, and answers with a line.
"""

import hashlib
import importlib
import json
import logging
import os
import pathlib
import signal
import sys
import time
import traceback

import keras
import numpy as np

from keras_transfer.adaptation import EWC, L2SP
from keras_transfer.callbacks import ChainThaw, GradualUnfreezing
from keras_transfer.core import files
from keras_transfer.encoders import AWDLSTMEncoder, TransformerEncoder
from keras_transfer.optimizers import LayerwiseOptimizer
from keras_transfer.tasks import CausalLM, TextClassifier
from keras_transfer.text import Corpus, Packing, TokenPreprocessor, WordPieceTokenizer, batches
from keras_transfer.training import checkpoint_files
from keras_transfer.training.training_checkpoint import TrainingCheckpoint

EPOCHS, BATCHES = 4, 12
LANGUAGE_MODELS = ("blocks", "streams")
STAGES = {"gradual": lambda: GradualUnfreezing(fraction=0.75), "chain": lambda: ChainThaw(fraction=0.9)}


def main(folder, runs):
    for name in {keras.backend.backend(), "tensorflow"}:  # runs import TensorFlow on every backend
        importlib.import_module(name)
    folder = pathlib.Path(folder)
    if runs != "-":
        print(json.dumps([in_a_process(folder, number, **options) for number, options in enumerate(json.loads(runs))]))
        return
    for number, line in enumerate(sys.stdin):
        print(json.dumps(in_a_process(folder, number, **json.loads(line))), flush=True)


def in_a_process(folder, number, kill_after=None, **options):
    """A run in a fork of this process. It may be killed some seconds after its beginning or its first write."""
    log, report, writes = (folder / f"{number}.{end}" for end in ("log", "json", "writes"))
    process = os.fork()
    if not process:
        apart(log, lambda: report.write_text(json.dumps(go(folder, writes=writes, **options))))
    code = os.waitstatus_to_exitcode(wait(process, writes, *kill_after) if kill_after else os.waitpid(process, 0)[1])
    half = len(list((folder / options.get("name", "killed")).glob(".*.tmp")))
    return {
        "code": code,
        "log": log.read_text(),
        "half_written": half,
        "report": json.loads(report.read_text()) if report.exists() else None,
        "writes": writes.read_text() if writes.exists() else "",
    }


def wait(process, writes, seconds, start):
    """Waits for a process, and kills it some seconds after its `"beginning"` or its `"first write"`."""
    deadline = time.monotonic() + seconds if start == "beginning" else None
    while not (ended := os.waitpid(process, os.WNOHANG))[0]:
        if deadline is None and writes.exists() and writes.stat().st_size:
            deadline = time.monotonic() + seconds
        if deadline is not None and time.monotonic() >= deadline:
            os.kill(process, signal.SIGKILL)
            ended = os.waitpid(process, 0)
            break
        time.sleep(0.0005)
    return ended[1]


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


def go(folder, name="killed", kill=None, how="after the step", term=None, checkpoint=True, writes=None, **options):
    """Trains to the end, and writes the weights and slots.

    Args:
        folder: Path of a folder for checkpoints and results.
        name: String. The name of the checkpoints and the results.
        kill: Integer. The step after which the process is killed.
        how: String. `"after the step"`, or `"writing"` or `"renaming"` the checkpoint of that step.
        term: Integer. The step after which the process gets SIGTERM.
        checkpoint: Boolean. Whether training checkpoints are written.
        writes: Path of a file to which "(" is added when a write of a checkpoint begins, and ")" when it ends.
        options: The configuration, for `configure`, and `save_every`.
    """
    keras.utils.set_random_seed(0)
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        tf.config.experimental.enable_op_determinism()
    save_every = options.pop("save_every", 3)
    train = corpus(folder, options["encoder"]) if options.get("encoder") in LANGUAGE_MODELS else data(BATCHES)
    model, stages = configure(**options)
    assert len(train) == BATCHES
    if writes:
        record(writes)
    ending = End(kill or term, signal.SIGKILL if kill else signal.SIGTERM)
    if kill and how != "after the step":
        kill_while(how, ending)
    callbacks = [*stages, ending]
    saving = TrainingCheckpoint(folder / name, save_every=save_every, data=train, callbacks=callbacks)
    callbacks = [*callbacks, *([saving] if checkpoint else [])]
    model.fit(train, epochs=EPOCHS, shuffle=False, callbacks=callbacks, verbose=0)
    variables = [*model.variables, *model.optimizer.variables]
    arrays = {f"{i}/{v.path}".replace("/", "."): keras.ops.convert_to_numpy(v) for i, v in enumerate(variables)}
    np.savez(folder / f"{name}.npz", **arrays)
    return {"stopped_by": saving.stopped_by, "digest": digest(arrays)}


def digest(arrays):
    content = hashlib.sha256()
    for key, array in arrays.items():
        content.update(f"{key} {array.dtype} {array.shape} ".encode() + array.tobytes())
    return content.hexdigest()


def configure(encoder="letters", stages="gradual", penalty=None, accumulation=None, ema=False):
    """A compiled model of a configuration, and the list of callbacks that decide what trains."""
    inner = keras.optimizers.Adam(1e-2, gradient_accumulation_steps=accumulation, use_ema=ema, ema_momentum=0.9)
    model = MODELS[encoder](inner)
    if penalty:
        fisher = {weight.path: np.full(weight.shape, 0.5, "float32") for weight in model.trainable_weights}
        penalty = L2SP(0.1) if penalty == "l2sp" else EWC(fisher)
        model.compile(LayerwiseOptimizer(inner, model, decay=0.8, penalty=penalty), model.loss)
    return model, [STAGES[stages]()] if stages else []


def transformer(optimizer):
    """A classifier over a Transformer with dropout."""
    encoder = TransformerEncoder(
        20, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16, dropout=0.2, max_sequence_length=16
    )
    model = TextClassifier(encoder, num_classes=2, preprocessor=ids)
    model.compile(optimizer)
    return model


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


def language_model(optimizer):
    """A language model that trains on blocks of a corpus."""
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16, "max_sequence_length": 16}
    model = CausalLM(TransformerEncoder(14, dropout=0.2, norm="pre", causal=True, **sizes))
    model.compile(optimizer)
    return model


def recurrent_language_model(optimizer):
    """A language model with all dropouts whose state is carried from each window to the next."""
    model = CausalLM(AWDLSTMEncoder(14, embedding_dim=8, units=8, num_layers=2), streams=4)
    model.compile(optimizer)
    return model


MODELS = {
    "letters": build,
    "transformer": transformer,
    "blocks": language_model,
    "streams": recurrent_language_model,
}


def corpus(folder, view):
    """The first batches of a corpus of letters, which is built unless an earlier process has done so."""
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice(list("abcdefgh"), size)) for size in random.integers(20, 60, 48)]
    tokenizer = WordPieceTokenizer([*"abcdefgh", "[PAD]", "[UNK]", "[SEP]", "[MASK]", "[CLS]", "i"])
    built = Corpus.build(texts, TokenPreprocessor(tokenizer, Packing(end=["[SEP]"])), folder / "corpus", verbose=0)
    if view == "blocks":
        return built.blocks(16, batch_size=8, packing="stream", seed=1).take(BATCHES)
    return built.streams(4, lengths=(4, 8, 8), seed=1).take(BATCHES)


def data(count):
    """Batches of eight texts, in another order each epoch. The label is whether a text contains an "a"."""
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice(list("abcdefgh"), size)) for size in random.integers(1, 17, 8 * count)]
    return batches(texts, [int("a" in text) for text in texts], preprocessor=ids, batch_size=8, seed=1, lengths=[16])


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


def record(writes):
    """Adds "(" to a file when a write of a checkpoint begins, and ")" when it ends. A kill loses nothing of it."""
    write, file = checkpoint_files.write, os.open(writes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def recorded(*arguments):
        os.write(file, b"(")
        path = write(*arguments)
        os.write(file, b")")
        return path

    checkpoint_files.write = recorded


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
    main(*sys.argv[1:])
