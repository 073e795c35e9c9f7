"""`memory_estimate` against the measured peak of training steps on JAX and the CPU.

    python -m benchmarks.steps.step_memory [--cases WORD ...]

Each case is a fresh process, since XLA and the allocator keep memory. It trains for two steps, which compiles the
program, notes its resident memory, trains for three more steps, and reads the highest resident memory during these
from Linux. `measured` is the difference, and what was resident before: the weights and the state of the optimizer.
`total` is the estimate, of which the columns before it are parts, and `ratio` is `total` as a fraction of `measured`.
"""

import argparse
import ctypes
import dataclasses
import gc
import json
import os
import pathlib
import subprocess
import sys

from benchmarks import harness

# Names and fields of the recipe.
OPTIONS = {
    "AdamW": {},
    "2 batches for an update": {"gradient_accumulation_steps": 2},
    "rematerialized": {"rematerialize": True},
    "2 batches, rematerialized": {"gradient_accumulation_steps": 2, "rematerialize": True},
    "LoRA": {"adapters": "lora:8"},
    "Adafactor": {"optimizer": "adafactor", "learning_rate": 1e-3},
}
CASES = [("classifier", 4, "AdamW"), ("classifier", 16, "AdamW"), ("language model", 8, "AdamW")]
CASES += [("classifier", 16, "2 batches for an update"), ("classifier", 16, "rematerialized")]
CASES += [("classifier", 16, "Adafactor"), ("language model", 8, "2 batches for an update"), ("classifier", 16, "LoRA")]
CASES += [("language model", 8, "rematerialized"), ("classifier", 16, "2 batches, rematerialized")]
CASES += [("language model", 8, "Adafactor"), ("language model", 32, "AdamW")]
LENGTH = 128


def model_of(shape):
    """Returns a model and the labels of a row of ids, of the shape of MiniLM or of a small GPT-2."""
    import keras_transfer as kt

    if shape == "classifier":
        sizes = {"num_layers": 6, "num_heads": 12, "hidden_dim": 384, "intermediate_dim": 1536}
        encoder = kt.encoders.BertEncoder(30522, **sizes, max_sequence_length=512)
        return kt.tasks.TextClassifier(encoder, num_classes=6)
    sizes = {"num_layers": 6, "num_heads": 8, "hidden_dim": 256, "intermediate_dim": 1024}
    return kt.tasks.CausalLM(kt.encoders.GPT2Encoder(8192, **sizes, max_sequence_length=512))


def batch_of(model, rows):
    """Returns inputs and labels of a batch of full length."""
    import numpy as np

    random = np.random.default_rng(0)
    ids = random.integers(5, 8000, (rows, LENGTH)).astype("int32")
    inputs = {name: np.ones_like(ids) if "mask" in name else np.zeros_like(ids) for name in model.input}
    labels = random.integers(0, 6, rows) if model.output.shape[-1] == 6 else np.roll(ids, -1, axis=1)
    return {**inputs, "token_ids": ids}, labels.astype("int32")


def run(shape, rows, option):
    """Returns the estimate, its parts and the measured peak of one case, in bytes."""
    import keras
    import numpy as np

    import keras_transfer as kt

    keras.utils.set_random_seed(0)
    model = model_of(shape)
    recipe = kt.adaptation.get_recipe("bert", **OPTIONS[option])
    recipe.prepare(model)
    model.compile(recipe.build_optimizer(model, total_steps=100))
    inputs, labels = batch_of(model, rows)

    def fit(steps):
        data = {name: np.concatenate([column] * steps) for name, column in inputs.items()}
        model.fit(data, np.concatenate([labels] * steps), batch_size=rows, verbose=0)

    fit(2)
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    variables = {id(each): each for each in [*model.variables, *model.optimizer.variables, *model.metrics_variables]}
    kept = sum(variable.value.nbytes for variable in variables.values())
    before = harness.memory()
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # The highest resident memory begins again.
    fit(3)
    measured = 2**20 * (harness.memory().highest - before.anonymous - before.mapped) + kept
    return {**dataclasses.asdict(kt.distribute.memory_estimate(model, (inputs, labels))), "measured": measured}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="*", default=[], help="only cases with one of these words")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        answers, sys.stdout = sys.stdout, sys.stderr
        print(json.dumps(run(*json.loads(args.run))), file=answers)
        return
    # The allocator gives large arrays back as soon as they are freed.
    settings = {"KERAS_BACKEND": "jax", "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    columns = ("weights", "optimizer", "gradients", "activations", "total", "measured")
    print(f"| case | {' | '.join(columns)} | ratio |\n| --- |{' ---: |' * (len(columns) + 1)}", flush=True)
    for case in CASES:
        name = "{}, {} rows, {}".format(*case)
        if args.cases and not any(word in name for word in args.cases):
            continue
        command = [sys.executable, "-m", "benchmarks.steps.step_memory", "--run", json.dumps(case)]
        done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, cwd=harness.ROOT)
        if done.returncode:
            raise SystemExit(done.stderr)
        found = json.loads(done.stdout.splitlines()[-1])
        sizes = " | ".join(f"{found[column] / 1e6:.0f} MB" for column in columns)
        print(f"| {name} | {sizes} | {found['total'] / found['measured']:.2f} |", flush=True)


if __name__ == "__main__":
    main()
