"""Eight threads that train, evaluate and predict with several tasks in one process, and what they leave behind.

    python tools/threads.py --seconds 600

A task is trained and evaluated by one thread at a time. All threads predict with all tasks at any time, also while
another thread trains them (on JAX, one at a time). Now and then stages unfreeze the layers of a task. Every output must
be finite and have a row for each text.

Before, during and after the run, each function and method of Keras and of `tf.data.Dataset` must be the same object.
`predict` alone is timed before and after the run, in seconds and in seconds of the CPU, which other processes of the
machine influence less, with Python's garbage collector and without it: each training step that TensorFlow ever traced
stays in memory, and a process grows with every `fit`, in one thread too. The row `plain Keras` is a `keras.Model`
without a part of this library, which no thread touches: what `predict` of it loses, any model of such a process does.
The exit status is 1 if a thread failed, if something was replaced, or if a task raises an error afterwards.
"""

import argparse
import collections
import contextlib
import gc
import json
import random
import sys
import threading
import time
import traceback
import types

import keras
import numpy as np

import keras_transfer as kt

WORDS = [*"abcdefghij", "good", "bad"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
SIZES = {"num_layers": 2, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32, "max_sequence_length": 16}
ROWS, BATCH = 24, 8


def sentences(random, rows=ROWS):
    return [random.choices(WORDS, k=random.randint(1, 12)) for _ in range(rows)]


class Member:
    """A task, and functions that draw its data.

    Args:
        make: Function that creates the task from an encoder and a preprocessor.
        label: Function that returns the label of a list of words, or None for a task without labels.
        text: Function that turns a list of words into what the task reads. Defaults to a text.
        rates: Boolean. Whether the task has a `LayerwiseOptimizer`. Defaults to `False`.
    """

    def __init__(self, make, label, text=" ".join, rates=False):
        encoder = kt.encoders.BertEncoder(len(VOCABULARY), **SIZES)
        self.task = make(encoder, kt.text.BertPreprocessor(VOCABULARY, sequence_length=16))
        self.label, self.text, self.lock = label, text, threading.Lock()
        self.task.compile(
            kt.optimizers.LayerwiseOptimizer(keras.optimizers.AdamW(1e-3), self.task) if rates else "auto"
        )

    def data(self, random):
        found = sentences(random)
        labels = [self.label(words) for words in found] if self.label else None
        return [self.text(words) for words in found], labels

    def fit(self, random):
        # A run with stages, which unfreeze the layers one after another, needs more steps than stages.
        stages = [kt.callbacks.GradualUnfreezing()] if random.random() < 0.1 else []
        epochs = 6 if stages else 2
        with self.lock:
            x, y = self.data(random)
            options = {"batch_size": BATCH, "epochs": epochs, "verbose": 0, "callbacks": stages}
            if self.label:
                options["validation_data"] = self.data(random)
            losses = self.task.fit(x, y, **options).history["loss"]
        check(len(losses) == epochs and np.isfinite(losses).all(), f"the losses are {losses}")

    def evaluate(self, random):
        with self.lock:
            found = self.task.evaluate(*self.data(random), batch_size=BATCH, verbose=0, return_dict=True)
        check(np.isfinite(found["loss"]), f"the loss is {found['loss']}")

    def predict(self, random):
        x, _ = self.data(random)
        if isinstance(self.task, kt.tasks.MaskedLM):
            x = self.task.reader.inputs(x)
            x = {**x, "mask_positions": np.ones((ROWS, 1), "int32")}
        with self.lock if keras.backend.backend() == "jax" else contextlib.nullcontext():
            found = self.task.predict(x, batch_size=BATCH, verbose=0)
        check(len(found) == ROWS, f"{len(found)} outputs for {ROWS} texts")
        check(all(np.isfinite(row).all() for row in found), "an output is not finite")


class Plain:
    """A model of Keras alone, as large as the encoder of a `Member`."""

    def __init__(self):
        ids = keras.Input([SIZES["max_sequence_length"]], dtype="int32")
        x = keras.layers.Embedding(len(VOCABULARY), SIZES["hidden_dim"])(ids)
        for _ in range(SIZES["num_layers"]):
            heads = keras.layers.MultiHeadAttention(SIZES["num_heads"], SIZES["hidden_dim"] // SIZES["num_heads"])
            x = keras.layers.LayerNormalization()(x + heads(x, x))
            inner = keras.layers.Dense(SIZES["intermediate_dim"], "gelu")(x)
            x = keras.layers.LayerNormalization()(x + keras.layers.Dense(SIZES["hidden_dim"])(inner))
        self.model = keras.Model(ids, keras.layers.Dense(2)(x[:, 0]))

    def predict(self, draw):
        ids = np.array([draw.choices(range(len(VOCABULARY)), k=SIZES["max_sequence_length"]) for _ in range(ROWS)])
        self.model.predict(ids, batch_size=BATCH, verbose=0)


TASKS = {
    "texts": lambda: Member(
        lambda encoder, preprocessor: kt.tasks.TextClassifier(encoder, num_classes=2, preprocessor=preprocessor),
        lambda words: int("good" in words),
    ),
    "more texts": lambda: Member(
        lambda encoder, preprocessor: kt.tasks.TextClassifier(encoder, num_classes=3, preprocessor=preprocessor),
        lambda words: len(words) % 3,
        rates=True,
    ),
    "numbers": lambda: Member(
        lambda encoder, preprocessor: kt.tasks.TextRegressor(encoder, preprocessor=preprocessor),
        lambda words: len(words) / 12,
    ),
    "words": lambda: Member(
        lambda encoder, preprocessor: kt.tasks.TokenClassifier(
            encoder, label_names=["LETTER", "WORD"], preprocessor=preprocessor
        ),
        lambda words: [int(len(word) > 1) for word in words],
        list,
    ),
    "masked": lambda: Member(kt.tasks.MaskedLM, None),
}


def check(right, message):
    if not right:
        raise AssertionError(message)


def functions():
    """Returns a dict from the names of all functions and methods of Keras and `tf.data.Dataset` to these objects."""
    found = {}
    for name, module in sys.modules.copy().items():  # Other threads import modules meanwhile.
        if name.split(".")[0] != "keras" and name != "tensorflow.python.data.ops.dataset_ops":
            continue
        for key, value in vars(module).copy().items():
            if isinstance(value, types.FunctionType):
                found[name, key] = value
            elif isinstance(value, type) and value.__module__ == name:
                methods = types.FunctionType | classmethod | staticmethod | property
                found |= {(name, key, own): v for own, v in vars(value).copy().items() if isinstance(v, methods)}
    return found


def replaced(before):
    """Returns the names of the functions that are other objects than before."""
    now = functions()
    return sorted(".".join(name) for name, value in before.items() if now.get(name) is not value)


def seconds_of_predict(found, repeats):
    """Returns the median seconds and CPU seconds of `predict` for each task, with the garbage collector and without."""
    medians = {}
    for name, member in found.items():
        member.predict(random.Random(0))
        seconds = {True: [], False: []}
        for call in range(2 * repeats):
            collecting = call % 2 == 0
            if not collecting:
                gc.disable()
            draw, began = random.Random(0), np.array([time.perf_counter(), time.process_time()])
            member.predict(draw)
            seconds[collecting].append([time.perf_counter(), time.process_time()] - began)
            gc.enable()
        medians[name] = np.array([np.median(seconds[collecting], axis=0) for collecting in seconds])
    return medians


def work(found, seed, end, calls, failures):
    draw = random.Random(seed)
    while time.monotonic() < end:
        name, method = draw.choice(list(found)), draw.choice(["fit", "evaluate", "predict", "predict"])
        try:
            getattr(found[name], method)(draw)
        except Exception as error:
            failures.append(f"{name}.{method}: {type(error).__name__}: {str(error)[:300]}")
            traceback.print_exc()
        calls[method] += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=30, help="calls of `predict` of each task that are timed")
    parser.add_argument("--tasks", nargs="+", help="names of the tasks, all by default")
    arguments = parser.parse_args()
    keras.utils.set_random_seed(0)
    found = {name: make() for name, make in TASKS.items() if name in (arguments.tasks or TASKS)}
    for member in found.values():  # Keras imports some of its modules when they are first used.
        member.fit(random.Random(0))
        member.evaluate(random.Random(0))
    timed = {**found, "plain Keras": Plain()}
    before = seconds_of_predict(timed, arguments.repeats)
    kept, during = functions(), set()
    calls, failures = collections.Counter(), []
    end = time.monotonic() + arguments.seconds
    threads = [
        threading.Thread(target=work, args=(found, seed, end, calls, failures)) for seed in range(arguments.threads)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        during |= set(replaced(kept))
        time.sleep(min(1.0, arguments.seconds / 4))
    after = seconds_of_predict(timed, arguments.repeats)
    for member in found.values():
        member.fit(random.Random(1))
    ratios = {name: (after[name] / before[name]).round(3).tolist() for name in timed}
    report = {
        "backend": keras.backend.backend(),
        "seconds": arguments.seconds,
        "threads": arguments.threads,
        "calls": dict(calls),
        "failures": failures[:10],
        "functions": len(kept),
        "replaced": sorted(during | set(replaced(kept))),
        "predict after / before (seconds, CPU seconds; below without the garbage collector)": ratios,
        "median ratios of the tasks": np.median([ratios[name] for name in found], axis=0).tolist(),
    }
    print(json.dumps(report))
    sys.exit(bool(failures or report["replaced"]))


if __name__ == "__main__":
    main()
