"""Trains each task on one device, on several and in several processes, and prints how far the weights differ.

    pip install -e .[test,jax]
    python tools/devices.py --output found
    python tools/devices.py --output found --setups jax jax-processes --tasks classifier lora

A setup is a backend and what trains: one device (`jax`, `tensorflow`), two processes of one device each
(`jax-processes`, `tensorflow-processes`), or the devices of one process: eight (`jax-devices`) or two replicas
(`tensorflow-replicas`). All of them train with the same rows in the same order and without dropout. The first setup of
a backend is compared with its others: the weights after the steps, the history, and for the classifier its metrics and
predictions for 1,009 texts. The exit status is 1 if anything differs by more than `--tolerance` or is not a number, or
if the weights did not move.

Each task of a setup has a file in the output folder, and the same command goes on where it was stopped.
"""

import argparse
import contextlib
import math
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np

import keras_transfer as kt

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
SETUPS = {
    "jax": {},
    "jax-processes": {"workers": 2},
    "jax-devices": {"devices": 8},
    "tensorflow": {},
    "tensorflow-processes": {"workers": 2},
    "tensorflow-replicas": {"devices": 2},
}
WORDS = [*"abcdefgh", "good", "bad"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
ROWS, BATCH, ODD = 77, 16, 1009  # Rows of an epoch, of a batch, and those that are evaluated and predicted.
EPOCH = -(-ROWS // BATCH)  # steps, the last of which is short
SIZES = {"num_layers": 2, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16, "dropout": 0.0}


def main(arguments=None):
    """Trains in all setups, and prints the differences."""
    args = parse(arguments)
    if args.train:
        train(args)
        return 0
    for file in (args.output / setup / f"{name}.npz" for setup in args.setups for name in args.tasks):
        if file.exists():
            load(file, args.steps)
    for setup in args.setups:
        run(setup, args)
    return compare(args)


def parse(arguments):
    """Returns the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, required=True, help="folder for the weights")
    parser.add_argument("--setups", nargs="+", choices=SETUPS, default=list(SETUPS))
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--steps", type=int, default=50, help="a multiple of the 5 of an epoch; defaults to 50")
    parser.add_argument("--tolerance", type=float, default=1e-5)
    parser.add_argument("--train", choices=SETUPS, help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.steps < 1 or args.steps % EPOCH:
        parser.error(f"--steps must be a positive multiple of {EPOCH}. Received: {args.steps}")
    return args


def run(setup, args):
    """Trains in one setup, in processes of their own."""
    backend = setup.split("-")[0]
    environment = {**os.environ, "KERAS_BACKEND": backend, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment |= {"PYTHONPATH": str(REPOSITORY), "XLA_FLAGS": "--xla_backend_optimization_level=0"}
    if setup == "jax-devices":
        environment["XLA_FLAGS"] += f" --xla_force_host_platform_device_count={SETUPS[setup]['devices']}"
    options = ["--train", setup, "--output", str(args.output), "--steps", str(args.steps), "--tasks", *args.tasks]
    command = [sys.executable]
    if workers := SETUPS[setup].get("workers"):
        command += ["-m", "keras_transfer", "launch", "--workers", str(workers)]
    subprocess.run([*command, __file__, *options], env=environment, check=True)


def train(args):
    """Trains all tasks in this process, which is one of its setup, and writes what came out."""

    scope, folder = start(args.train), args.output / args.train
    folder.mkdir(parents=True, exist_ok=True)
    for name in args.tasks:
        file = folder / f"{name}.npz"
        if kt.distribute.agree(int(file.exists())) or (name == "hub" and keras.backend.backend() != "tensorflow"):
            continue
        keras.utils.set_random_seed(0)
        with scope() as made:
            model, fit, others = TASKS[name](args.output)
        before = [np.array(weight) for weight in model.get_weights()]
        history = fit(args.steps)
        found = {f"weight {i}": weight for i, weight in enumerate(model.get_weights())}
        found |= {f"history {key}": np.array(values, float) for key, values in history.items()}
        found |= others()
        found["moved"] = max(np.abs(found[f"weight {i}"] - weight).max() for i, weight in enumerate(before))
        if kt.distribute.is_chief():
            np.savez(folder / ".half.npz", steps=args.steps, **found)
            (folder / ".half.npz").rename(file)
        kt.distribute.barrier()
        print(f"{args.train}: {name}: moved {found['moved']:.2g}", flush=True)
        del made


def start(setup):
    """Starts the devices of a setup, and returns a function that returns the context in which models are made."""

    devices = SETUPS[setup].get("devices")
    if setup == "jax-devices":
        keras.distribution.set_distribution(keras.distribution.DataParallel())
    elif setup == "tensorflow-replicas":
        import tensorflow as tf

        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * devices)
        return tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(devices)]).scope
    else:
        return kt.distribute.initialize(seed=0).scope
    return contextlib.nullcontext


def load(file, steps):
    """Returns the results of a task after so many steps. A file of another number of steps is an error message."""
    found = dict(np.load(file))
    if (other := found.pop("steps", None)) != steps:
        raise SystemExit(f"{file} must be of {steps} steps. Use another folder. Received: {other} steps")
    return found


def compare(args):
    """Prints the largest differences from one device, and returns 1 if one is too large, or if no weights moved."""
    failed = False
    for setup in args.setups:
        backend = setup.split("-")[0]
        if setup == backend or backend not in args.setups:
            continue
        for name in args.tasks:
            files = [args.output / each / f"{name}.npz" for each in (backend, setup)]
            if name == "hub" and backend != "tensorflow":
                continue
            one, several = (load(file, args.steps) for file in files)
            assert one.keys() == several.keys()
            moved = float(one.pop("moved"))
            largest = {}
            for key in one:
                kind = key.split()[0]
                difference = np.abs(np.asarray(one[key], "float64") - several[key]).max() if one[key].size else 0.0
                largest[kind] = float(np.maximum(largest.get(kind, 0.0), difference))  # Unlike `max`, it keeps NaN.
            failed |= not all(value <= args.tolerance for value in largest.values())
            failed |= not 0 < moved < math.inf
            shown = ", ".join(f"{kind} {value:.1e}" for kind, value in largest.items())
            print(f"{setup}: {name}: largest differences: {shown} (weights moved by {moved:.2g})", flush=True)
    return int(failed)


# === The tasks. Each function returns a model, a function that trains it, and one that returns other results. ===


def examples(count):
    """Returns texts of letters and words, and whether they are good."""
    random, texts = np.random.default_rng(0), []
    for row in range(count):
        words = random.choice(list("abcdefgh"), random.integers(7, 13)).tolist()
        texts.append(" ".join([*words, "good" if row % 2 else "bad"]))
    return texts, [row % 2 for row in range(count)]


def optimizer():
    """Returns Adam whose steps do not grow where a gradient is little more than rounding."""
    return keras.optimizers.Adam(0.01, epsilon=1e-3)


def preprocessor():
    return kt.text.BertPreprocessor(VOCABULARY, sequence_length=16)


def transformer(causal=False):
    return kt.encoders.TransformerEncoder(len(VOCABULARY), **SIZES, causal=causal, max_sequence_length=16)


def fit(model, texts, *targets, rows=ROWS, callbacks=None):
    """Returns a function that trains for so many steps, in epochs of five."""

    def run(steps):
        columns, epochs = [column[:rows] for column in (texts, *targets)], steps // EPOCH
        return model.fit(*columns, batch_size=BATCH, epochs=epochs, callbacks=callbacks, verbose=0).history

    return run


def of_texts():
    """Returns a classifier."""
    encoder = kt.encoders.BertEncoder(len(VOCABULARY), **SIZES, max_sequence_length=16)
    return kt.tasks.TextClassifier(encoder, preprocessor(), num_classes=2, dropout=0.0)


def classifier(folder):
    model, (texts, labels) = of_texts(), examples(ODD)
    model.compile(optimizer())

    def others():
        metrics = model.evaluate(texts, labels, batch_size=BATCH, verbose=0)
        logits = model.predict(texts, batch_size=BATCH, verbose=0)
        return {"metrics": np.array(metrics), "predictions": logits}

    return model, fit(model, texts, labels), others


def tagger(folder):
    encoder = kt.encoders.BertEncoder(len(VOCABULARY), **SIZES, max_sequence_length=16)
    model = kt.tasks.TokenClassifier(encoder, preprocessor(), label_names=["LETTER", "WORD"], dropout=0.0)
    model.compile(optimizer())
    words = [text.split() for text in examples(ODD)[0]]
    tags = [["WORD" if len(word) > 1 else "LETTER" for word in row] for row in words]

    def others():
        metrics = model.evaluate(words, tags, batch_size=BATCH, verbose=0)
        predictions = np.concatenate(model.predict(words, batch_size=BATCH, verbose=0))
        return {"metrics": np.array(metrics), "predictions": predictions}

    return model, fit(model, words, tags), others


def masked(folder):
    model = kt.tasks.MaskedLM(transformer(), preprocessor())
    model.compile(optimizer())
    return model, fit(model, examples(ROWS)[0]), dict


def causal(folder):
    model = kt.tasks.CausalLM(transformer(causal=True), preprocessor())
    model.compile(optimizer())
    return model, fit(model, examples(ROWS)[0]), dict


def seq2seq(folder):
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16, "dropout": 0.0}
    encoder = kt.encoders.Bart(len(VOCABULARY), **sizes, max_sequence_length=16)
    model = kt.tasks.Seq2SeqLM(encoder, preprocessor())
    model.compile(optimizer())
    texts = examples(ROWS)[0]
    return model, fit(model, texts, [" ".join(reversed(text.split())) for text in texts]), dict


class MostLikely(kt.layers.SampleTokens):
    """Replaces tokens by the most likely ones."""

    def call(self, token_ids, positions, logits):
        return super().call(token_ids, positions, 1e9 * logits)


def electra(folder):
    generator = kt.tasks.MaskedLM(transformer(), preprocessor())
    model = kt.tasks.ReplacedTokenDetection(transformer(), preprocessor(), generator=generator)
    if keras.backend.backend() == "tensorflow":  # Each replica draws tokens of its own.
        model.sample_tokens = MostLikely()
    model.compile(optimizer())
    return model, fit(model, examples(ROWS)[0]), dict


def lora(folder):
    model, (texts, labels) = of_texts(), examples(ROWS)
    kt.adaptation.add_adapters(model, "lora:2")
    model.compile(optimizer())
    return model, fit(model, texts, labels), dict


def stages(folder):
    """Gradual unfreezing with layer-wise rates and L2-SP."""
    model, (texts, labels) = of_texts(), examples(ROWS)
    layerwise = kt.optimizers.LayerwiseOptimizer(optimizer(), model, decay=0.5, penalty=kt.adaptation.L2SP(0.1))
    model.compile(layerwise)
    return model, fit(model, texts, labels, callbacks=[kt.callbacks.GradualUnfreezing(fraction=0.5)]), dict


def corpus(folder):
    """A language model on the blocks of a corpus."""
    packing = kt.text.Packing(end=["[SEP]"], pad="[PAD]")
    ids = kt.text.TokenPreprocessor(kt.text.WordPieceTokenizer(VOCABULARY), packing, sequence_length=16)
    model = kt.tasks.CausalLM(transformer(causal=True), ids)
    model.compile(optimizer())
    if kt.distribute.is_chief():
        kt.text.Corpus.build(examples(400)[0], ids, folder / "corpus", verbose=0)
    kt.distribute.barrier()
    blocks = kt.text.Corpus.load(folder / "corpus").blocks(16, batch_size=BATCH, seed=0)

    def run(steps):
        return model.fit(blocks, epochs=-(-steps // len(blocks)), verbose=0).history

    return model, run, dict


def hub(folder):
    """A classifier over a TF Hub module that trains."""
    from keras_transfer.hub import HubEncoder
    from tests.hub import saved_modules

    module = folder / "module"
    if kt.distribute.is_chief() and not module.exists():
        saved_modules.save_text_module(module, dropout=0.0)
    kt.distribute.barrier()
    model = kt.tasks.TextClassifier(HubEncoder(str(module), trainable=True), num_classes=2, dropout=0.0)
    model.compile(optimizer())
    # The moving mean of a module is the mean of those of the replicas, which is that of one device if all have equally
    # many rows. So no batch is short.
    texts, labels = examples(EPOCH * BATCH)
    return model, fit(model, texts, labels, rows=EPOCH * BATCH), dict


TASKS = {
    function.__name__: function
    for function in (classifier, tagger, masked, causal, seq2seq, electra, lora, stages, corpus, hub)
}

if __name__ == "__main__":
    raise SystemExit(main())
