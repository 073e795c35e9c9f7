"""Kills training runs at random moments, restarts them until they end, and compares the ends bit for bit.

    pip install -e .[test,jax]
    python tools/kills.py --kills 200 --results kills.jsonl

A chain is one run with `TrainingCheckpoint`, in a configuration (encoder, stages, penalty, gradient accumulation,
moving averages, backend). Two encoders are those of language models that train on a corpus: on packed rows (`blocks`),
and on windows of long texts with a carried state (`streams`). Its process is killed with SIGKILL at a random moment,
and the next process resumes it, until one reaches the end. Its weights, optimizer slots and counts must equal those of
an uninterrupted run that wrote no training checkpoints. Most kills are timed from the first write of a process, the
others from its beginning, when it builds the model, restores or compiles. The process notes when a write begins and
ends, which shows whether the kill interrupted it.

The seed determines the moments. The state of a process at these moments depends on the machine. Run the command again
to resume: chains in the results file are not run again. The exit code is 1 if an end differs or a process fails.
"""

import argparse
import collections
import dataclasses
import itertools
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
KILLED = -9
SAVE_EVERY = 1  # Batches. Much of a run is writing.
EARLY = 0.15  # Fraction of the kills that are timed from the beginning of a process.


@dataclasses.dataclass(frozen=True)
class Configuration:
    """The configuration of the run of a chain."""

    backend: str = "tensorflow"
    encoder: str = "letters"
    stages: str | None = "gradual"
    penalty: str | None = None
    accumulation: int | None = None
    ema: bool = False

    def __str__(self):
        parts = (self.encoder, self.stages, self.penalty, self.accumulation and f"{self.accumulation} batches")
        return ", ".join([self.backend, *filter(None, (*parts, self.ema and "averages"))])

    def options(self):
        return {name: value for name, value in dataclasses.asdict(self).items() if name != "backend"}


def configurations(backends, encoders=None):
    """Returns the configurations, all or those with some encoders, in the order in which chains take them."""
    rows = [
        {},
        {"penalty": "l2sp", "ema": True},
        {"stages": None, "accumulation": 2},
        {"encoder": "transformer", "stages": "chain", "penalty": "ewc"},
        {"encoder": "transformer", "accumulation": 2, "ema": True},
        {"encoder": "blocks", "stages": None},
        {"encoder": "streams", "stages": None},
    ]
    rows = [row for row in rows if encoders is None or row.get("encoder", "letters") in encoders]
    return [Configuration(backend, **row) for row in rows for backend in backends]


class Trainer:
    """A process with a backend that runs chains in forks of itself."""

    def __init__(self, backend, folder):
        self.folder, self.ends = folder, {}
        self.folder.mkdir()
        environment = {
            **os.environ,
            "KERAS_BACKEND": backend,
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep),
            "XLA_FLAGS": "--xla_backend_optimization_level=0",  # compiles twice as fast
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        command = [sys.executable, "-m", "tests.training.resume.checkpoint_child", str(folder), "-"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, cwd=REPOSITORY, env=environment, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
        )

    def run(self, **options):
        """Runs one process of a chain, and returns what `tests.training.resume.checkpoint_child` reports."""
        print(json.dumps(options), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"The training process ended. Received: exit code {self.process.wait()}")
        return json.loads(answer)

    def end(self, configuration):
        """Returns the digest of the weights of an uninterrupted run."""
        if configuration not in self.ends:
            whole = self.run(name="whole", checkpoint=False, **configuration.options())
            if whole["code"]:
                raise SystemExit(f"A run without training checkpoints failed: {configuration}\n{whole['log'][-4000:]}")
            self.ends[configuration] = whole["report"]["digest"]
        return self.ends[configuration]

    def stop(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def main(arguments=None):
    """Runs the chains from the command line."""
    args = parse(arguments)
    wanted, began = configurations(args.backends, args.encoders), time.monotonic()
    done = {(chain["chain"], chain["configuration"]): chain for chain in read(args.results)}
    # Numbers stand for other configurations if `--encoders` or `--backends` were others.
    names = {*map(str, wanted)}
    done = {key: chain for key, chain in done.items() if key[1] in names}
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        trainers = {}
        try:
            for number in itertools.count():
                kills = sum(len(chain["kills"]) for chain in done.values())
                if kills >= args.kills or time.monotonic() - began > args.seconds:
                    break
                name, configuration = f"{args.seed}/{number}", wanted[number % len(wanted)]
                if (name, str(configuration)) in done:
                    continue
                backend = configuration.backend
                if backend not in trainers:
                    trainers[backend] = Trainer(backend, pathlib.Path(folder) / backend)
                rng = random.Random(f"{args.seed} {number}")
                chain = run_chain(trainers[backend], configuration, rng, args.delay, args.most)
                done[name, str(configuration)] = chain = {"chain": name, "configuration": str(configuration), **chain}
                if args.results:
                    with args.results.open("a") as file:
                        file.write(json.dumps(chain) + "\n")
                inside = sum(kill["writing"] for kill in chain["kills"])
                print(f"{name}: {configuration}: {len(chain['kills'])} kills, {inside} in a write, {chain['end']}")
        finally:
            for trainer in trainers.values():
                trainer.stop()
    print(report(done))
    return int(any(chain["end"] != "equal" for chain in done.values()))


def parse(arguments):
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    add = parser.add_argument
    add("--kills", type=int, default=200, help="begin no chain after so many kills; defaults to 200")
    add("--seconds", type=float, default=3600.0, help="begin no chain after so many seconds; defaults to 3600")
    add("--seed", type=int, default=0, help="seed of the moments; defaults to 0")
    add("--backends", nargs="+", default=["tensorflow", "jax"], choices=["tensorflow", "jax", "torch"])
    names = ["letters", "transformer", "blocks", "streams"]
    add("--encoders", nargs="+", choices=names, help="only these; the last two are language models on a corpus")
    add("--delay", type=float, default=0.4, help="latest moment of a kill, in seconds after the first write")
    add("--most", type=int, default=8, help="most kills in a chain; defaults to 8")
    add("--results", type=pathlib.Path, help="file to which a JSON line for each chain is added")
    return parser.parse_args(arguments)


def run_chain(trainer, configuration, rng, delay, most):
    """Kills and restarts a run until it ends, and returns its kills and how it ended."""
    expected, kills = trainer.end(configuration), []
    options = {"name": "killed", "save_every": SAVE_EVERY, **configuration.options()}
    while True:
        early = rng.random() < EARLY
        moment = [rng.uniform(0, 4 * delay), "beginning"] if early else [rng.uniform(0, delay), "first write"]
        run = trainer.run(**options, **({"kill_after": moment} if len(kills) < most else {}))
        if run["code"] != KILLED:
            break
        kills.append({"writing": run["writes"].endswith("(")})
    shutil.rmtree(trainer.folder / "killed", ignore_errors=True)
    if run["code"]:
        return {"kills": kills, "end": "failed", "log": run["log"][-4000:]}
    return {"kills": kills, "end": "equal" if run["report"]["digest"] == expected else "different"}


def read(path):
    """Returns the chains in a results file, and removes a half-written last line of it."""
    if path is None or not path.exists():
        return []
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole)
    return [json.loads(line) for line in whole.splitlines()]


def report(done):
    """Returns a table of the chains by configuration."""
    rows = collections.defaultdict(collections.Counter)
    for chain in done.values():
        row = rows[chain["configuration"]]
        row["chains"] += 1
        row["kills"] += len(chain["kills"])
        row["writing"] += sum(kill["writing"] for kill in chain["kills"])
        row["equal"] += chain["end"] == "equal"
    total = sum(rows.values(), collections.Counter())
    width = max(map(len, [*rows, "configuration"]))
    lines = [f"{'configuration':{width}}  chains  kills  in a write  equal"]
    for name, row in [*sorted(rows.items()), ("all", total)]:
        share = f"{row['writing']} ({row['writing'] / max(row['kills'], 1):.0%})"
        lines.append(f"{name:{width}}  {row['chains']:6}  {row['kills']:5}  {share:>10}  {row['equal']:5}")
    others = [chain for chain in done.values() if chain["end"] != "equal"]
    lines += [f"{chain['chain']}: {chain['end']}: {chain['configuration']}\n{chain.get('log', '')}" for chain in others]
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
