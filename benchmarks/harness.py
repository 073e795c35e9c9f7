"""Side-by-side timing: each contender in a process of its own, turn by turn, and ratios with their interval.

A benchmark is a file with a function for each contender. It imports its library, prepares, and returns a dict from the
name of a measure to a function without arguments that does the work once:

    def ours():
        model = ...
        return {"step": lambda: model.train_on_batch(x, y)}

    if __name__ == "__main__":
        harness.main(__doc__, {"keras_transfer": ours, "keras_hub": theirs})

The first contender is the one that the others are compared with: the ratio is its time over the other's.
"""

import argparse
import importlib.metadata
import json
import math
import os
import pathlib
import platform
import subprocess
import sys
import time

import numpy as np

CORES = os.cpu_count()
SAMPLE = 0.5  # seconds: a sample repeats the work until it lasts this long
BUSY = 0.05  # the share of the machine that others may use during a sample
ATTEMPTS = 4  # samples of a busy machine are taken again, at most so often
INTERVAL_ROUNDS = 6  # from so many on the extremes of the rounds hold the median with 95 %


def main(description, contenders, measures=None, rounds=15, warm_up=2, per_call=1, unit="ms", options=None):
    """Runs a benchmark from the command line and prints a table and a JSON line for each measure.

    Args:
        description: str, the benchmark's docstring.
        contenders: dict from a name to a function that returns `{measure: function}`.
        measures: list of str, those to take; None for all of the first contender's.
        rounds: int, samples of each.
        warm_up: int, calls before the first sample; 0 for work that is to be timed from its first call on.
        per_call: int, how many steps or documents one call does.
        unit: `"ms"` or `"s"`, the time of one of them; or their name, for how many are done in a second.
        options: dict from a name to what `add_argument` takes: the contenders get their values by these names.

    Returns:
        `{measure: result}`, as in the JSON lines; in a contender's own process None.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contenders", nargs="+", choices=contenders, default=list(contenders))
    parser.add_argument("--measures", nargs="+", default=measures)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--json", type=pathlib.Path, help="file to which the JSON lines are added")
    for name, keywords in (options or {}).items():
        parser.add_argument(f"--{name.replace('_', '-')}", **keywords)
    parser.add_argument("--worker", choices=contenders, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return work(contenders[args.worker], {name: getattr(args, name) for name in options or {}}, warm_up)
    workers = {name: Worker(name) for name in args.contenders}
    try:
        samples = take(workers, args.measures, args.rounds, warm=warm_up > 0)
    finally:
        for worker in workers.values():
            worker.process.kill()
    results = {measure: summary(measure, by_name, per_call, unit) for measure, by_name in samples.items()}
    for result in results.values():
        print(table(result), flush=True)
        line = json.dumps({"benchmark": pathlib.Path(sys.argv[0]).stem, **result, "machine": machine()})
        print(line, "\n", flush=True)
        if args.json:
            with args.json.open("a") as file:
                file.write(line + "\n")
    return results


# === In a contender's process ===


def work(contender, options, warm_up):
    """Prepares a contender, then takes a sample of a measure for each line on the standard input."""
    answers, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no answer
    functions = contender(**options)
    repeats = {}
    print(json.dumps(list(functions)), file=answers, flush=True)
    for line in sys.stdin:
        measure = line.strip()
        function = functions[measure]
        if warm_up and measure not in repeats:
            for _ in range(warm_up):
                function()
            start = time.perf_counter()
            function()
            repeats[measure] = max(1, math.ceil(SAMPLE / (time.perf_counter() - start)))
        count = repeats.get(measure, 1)
        start, cpu = time.perf_counter(), cpu_seconds()
        for _ in range(count):
            function()
        wall, cpu = time.perf_counter() - start, cpu_seconds() - cpu
        answer = {"seconds": wall / count, "wall": wall, "cpu": cpu}
        print(json.dumps(answer), file=answers, flush=True)


def cpu_seconds():
    """Seconds of CPU that this process and its finished children have used."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


# === In the process that compares ===


class Worker:
    """A contender in its process, which waits for the name of a measure and answers with a sample."""

    def __init__(self, name):
        self.name = name
        command = [sys.executable, sys.argv[0], *sys.argv[1:], "--worker", name]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.measures = self._answer()

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} stopped with exit status {self.process.wait()}; see above")
        return json.loads(line)

    def sample(self, measure):
        """One sample: seconds of one call, cpu/wall, the share of the machine that others used (None: not known)."""
        before = busy_seconds()
        print(measure, file=self.process.stdin, flush=True)
        answer = self._answer()
        after = busy_seconds()
        others = None if before is None else max(0.0, after - before - answer["cpu"]) / (answer["wall"] * CORES)
        sample = {"seconds": answer["seconds"], "cpu_wall": answer["cpu"] / answer["wall"], "others": others}
        print(f"{measure}, {self.name}: {sample}", file=sys.stderr, flush=True)
        return sample


def take(workers, measures, rounds, warm):
    """Returns `{measure: {contender: [sample of each round]}}`; the contenders take turns in a rotating order."""
    names = list(workers)
    samples = {}
    for measure in measures or workers[names[0]].measures:
        taking = [name for name in names if measure in workers[name].measures]
        if not taking:
            known = sorted({known for worker in workers.values() for known in worker.measures})
            raise SystemExit(f"the measures are {known}. Received: {measure!r}")
        for name in taking if warm else ():  # is no sample
            workers[name].sample(measure)
        samples[measure] = {name: [] for name in taking}
        for i in range(rounds):
            for name in taking[i % len(taking) :] + taking[: i % len(taking)]:
                tries = []
                while len(tries) < ATTEMPTS and not (tries and (tries[-1]["others"] or 0.0) <= BUSY):
                    tries.append(workers[name].sample(measure))
                samples[measure][name].append(min(tries, key=lambda sample: sample["others"] or 0.0))
    return samples


def busy_seconds():
    """CPU seconds that the whole machine has worked, or that its host took from it; None where no one says."""
    try:
        fields = [int(field) for field in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    except OSError:
        return None
    user, nice, system, _, _, interrupts, soft, steal = fields[:8]
    return (user + nice + system + interrupts + soft + steal) / os.sysconf("SC_CLK_TCK")


def summary(measure, samples, per_call, unit):
    """Medians, and for each other contender the ratio of the first one's time to its, with a bootstrap interval."""
    names = list(samples)
    seconds = {name: np.array([sample["seconds"] for sample in samples[name]]) for name in names}
    rows = {}

    def figure(value):
        return float(f"{value:.4g}")

    for name in names:
        median = float(np.median(seconds[name])) / per_call
        row = {unit: figure({"ms": 1e3 * median, "s": median}.get(unit, 1 / median))}
        row["cpu_wall"] = figure(np.median([sample["cpu_wall"] for sample in samples[name]]))
        if name != names[0]:
            row["ratio"] = figure(np.median(seconds[names[0]]) / np.median(seconds[name]))
            row["interval"] = [figure(bound) for bound in interval(seconds[names[0]], seconds[name])]
        rows[name] = row
    others = [sample["others"] for by_name in samples.values() for sample in by_name]
    quiet = None if None in others else max(others) <= BUSY
    return {"measure": measure, "unit": unit, "rounds": len(seconds[names[0]]), "quiet": quiet, "contenders": rows}


def interval(ours, theirs, draws=10_000):
    """The 95 % bootstrap interval of the ratio of medians, the rounds drawn in pairs; of few rounds the extremes."""
    if len(ours) < INTERVAL_ROUNDS:
        return np.min(ours / theirs), np.max(ours / theirs)
    rows = np.random.default_rng(0).integers(0, len(ours), (draws, len(ours)))
    ratios = np.median(ours[rows], axis=1) / np.median(theirs[rows], axis=1)
    return np.percentile(ratios, [2.5, 97.5])


def table(result):
    """The result of one measure as text."""
    unit, first = result["unit"], next(iter(result["contenders"]))
    head = unit if unit in ("ms", "s") else f"{unit}/s"
    kind = "95 % interval" if result["rounds"] >= INTERVAL_ROUNDS else "lowest to highest"
    lines = [
        f"{result['measure']} ({result['rounds']} rounds; ratio: the time of {first} over the other's)",
        f"{'':24}{head:>12}{'cpu/wall':>10}{'ratio':>8}   {kind}",
    ]
    for name, row in result["contenders"].items():
        line = f"{name:24}{row[unit]:>12,.{2 if row[unit] < 100 else 0}f}{row['cpu_wall']:>10.2f}"
        if "ratio" in row:
            line += f"{row['ratio']:>8.3f}   {row['interval'][0]:.3f} to {row['interval'][1]:.3f}"
        lines.append(line)
    if result["quiet"] is None:
        lines.append("Whether the machine was quiet is not known here.")
    elif not result["quiet"]:
        lines.append(f"The machine was not quiet: others used more than {BUSY:.0%} of it in some samples.")
    return "\n".join(lines)


def machine():
    """What the figures were measured on."""
    packages = ("keras", "tensorflow", "tensorflow-text", "keras-hub", "jax", "torch", "transformers", "tokenizers")
    versions = {"python": platform.python_version()}
    for package in packages:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {"cores": CORES, "processor": platform.machine(), "versions": versions}
