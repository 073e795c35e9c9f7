"""Weak scaling of training: two processes with a core each against one, and the share of communication in a step.

    pip install -e .[jax]
    python -m benchmarks.steps.scaling [--backends jax] [--shapes tiny] [--workers 4] [--rows 32] [--rounds 3]

A classifier is trained with `fit` and the default optimizer on 32 texts of 64 token ids per process: of the shape of
all-MiniLM-L6-v2, and of BERT-tiny. Each process is pinned to a core. For each backend, these take turns:

- one: a process trains.
- apart: as many processes as `--workers` train at the same time, each its own model.
- together: as many processes train one model, connected by `kt.distribute.initialize()` over loopback.

The ratio of `together` is the efficiency of weak scaling: the time of a step of one process divided by that of all
together. The ratio of `apart` is what remains of it without communication, since the cores share memory. The difference
between `apart` and `together` is the time of communication, with what else differs: on TensorFlow, the optimizer is
fused in a single process only. More workers than cores take turns on them: then only the share of communication means
something. On JAX, set `JAX_COMPILATION_CACHE_DIR` and `JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0` for them, so that
each program is compiled once.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import time

import numpy as np

from benchmarks import harness

LENGTH, VOCABULARY = 64, 30522
STEPS = 2  # of a sample, after one that is not timed
SHAPES = {
    "minilm": {"num_layers": 6, "num_heads": 12, "hidden_dim": 384, "intermediate_dim": 1536},
    "tiny": {"num_layers": 2, "num_heads": 2, "hidden_dim": 128, "intermediate_dim": 512},
}
BAR = 0.85  # Smallest efficiency of two processes.


def main():
    """Runs the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backends", nargs="+", choices=["jax", "tensorflow"], default=["jax", "tensorflow"])
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rows", type=int, default=32, help="texts of a process in a step; defaults to 32")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--core", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.core is not None:
        return work(args.core, args.shapes, args.rows)
    cores = sorted(os.sched_getaffinity(0))
    for backend in args.backends:
        apart = [Process(backend, cores[index % len(cores)]) for index in range(args.workers)]
        together = [
            Process(backend, cores[index % len(cores)], config) for index, config in enumerate(clusters(args.workers))
        ]
        jobs = {"one": Job(apart[:1]), "apart": Job(apart), "together": Job(together)}
        try:
            samples = harness.take(jobs, args.shapes, args.rounds, warm=True, attempts=1)
        finally:
            for process in (*apart, *together):
                process.child.kill()
        for shape, by_name in samples.items():
            report(backend, shape, args, by_name)


def clusters(count):
    """Returns `TF_CONFIG` of each of several processes on this machine."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    workers = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    cluster = {"worker": workers}
    return [json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}}) for index in range(count)]


def report(backend, shape, args, samples):
    """Prints a table, the share of communication, and a JSON line."""
    result = harness.summary(f"{shape} on {backend}", samples, 1, "ms")
    rows = result["contenders"]
    result["communication"] = float(f"{1 - rows['apart']['ms'] / rows['together']['ms']:.3g}")
    megabytes = samples["one"][0]["weights_mb"]
    print(harness.table(result))
    share = f"{result['communication']:.1%} of a step of {args.workers} processes"
    print(f"communication: {share}, {megabytes:.0f} MB of weights")
    if args.workers == 2:
        print(f"efficiency of two processes: {rows['together']['ratio']:.3f} (bar: {BAR})")
    details = {"benchmark": "scaling", "workers": args.workers, "rows": args.rows, "weights_mb": megabytes, **result}
    print(json.dumps({**details, "machine": harness.machine()}), "\n", flush=True)


# === A process that trains ===


def work(core, shapes, rows):
    """Trains some steps of a shape for each line on the standard input, and answers with the seconds of each step."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keeps the output of libraries out of the answers
    os.sched_setaffinity(0, {core})  # before a library counts the cores
    import keras

    import keras_transfer as kt

    class Clock(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            float(logs["loss"])  # JAX may not have finished the step.
            times.append(time.perf_counter())

    devices, models = kt.distribute.initialize(seed=0), {}
    batch, random = rows * kt.distribute.processes_of()[1], np.random.default_rng(0)
    token_ids = random.integers(1000, VOCABULARY, ((STEPS + 1) * batch, LENGTH)).astype("int32")
    inputs = {"token_ids": token_ids, "segment_ids": np.zeros_like(token_ids), "padding_mask": np.ones_like(token_ids)}
    labels = random.integers(0, 2, len(token_ids))
    print(json.dumps(shapes), file=answers, flush=True)
    for line in sys.stdin:
        shape, times = line.strip(), []
        if shape not in models:
            with devices.scope():
                encoder = kt.encoders.BertEncoder(VOCABULARY, **SHAPES[shape])
                models[shape] = kt.tasks.TextClassifier(encoder, num_classes=2, pooling="mean")
                models[shape].compile(metrics=[])
        models[shape].fit(inputs, labels, batch_size=batch, verbose=0, callbacks=[Clock()])
        size = sum(4 * np.prod(weight.shape) for weight in models[shape].trainable_weights)
        answer = {"seconds": np.diff(times).tolist(), "cpu": harness.cpu_seconds(), "weights_mb": size / 1e6}
        print(json.dumps(answer), file=answers, flush=True)


class Process:
    """A process on one core, which is one of several or alone."""

    def __init__(self, backend, core, config=""):
        environment = {**harness.environment(), "KERAS_BACKEND": backend, "TF_CONFIG": config}
        environment |= {"CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}
        command = [sys.executable, "-m", "benchmarks.steps.scaling", *sys.argv[1:], "--core", str(core)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.child, self.cpu = subprocess.Popen(command, env=environment, cwd=harness.ROOT, **pipes), 0.0
        self.ready = False

    def start(self, shape):
        if not self.ready:
            self.answer()
            self.ready = True
        print(shape, file=self.child.stdin, flush=True)

    def answer(self):
        line = self.child.stdout.readline()
        if not line:
            raise SystemExit(f"A process stopped with exit status {self.child.wait()}; see above")
        return json.loads(line)


class Job:
    """Processes that work at the same time, as a contender of `harness.take`."""

    def __init__(self, processes):
        self.processes, self.measures = processes, list(SHAPES)

    def sample(self, shape):
        """Returns the median seconds of a step of the slowest process, and what `harness.take` needs."""
        before, began = harness.busy_seconds(), time.perf_counter()
        for process in self.processes:
            process.start(shape)
        answers = [process.answer() for process in self.processes]
        wall, cpu = time.perf_counter() - began, 0.0
        for process, answer in zip(self.processes, answers):
            cpu += answer["cpu"] - process.cpu
            process.cpu = answer["cpu"]
        seconds = max(np.median(answer["seconds"]) for answer in answers)
        others = max(0.0, harness.busy_seconds() - before - cpu) / (wall * harness.CORES)
        sample = {"seconds": seconds, "cpu_wall": cpu / wall, "others": others}
        print(f"{shape}, {len(self.processes)} processes: {sample}", file=sys.stderr, flush=True)
        return sample | {"weights_mb": answers[0]["weights_mb"]}


if __name__ == "__main__":
    main()
