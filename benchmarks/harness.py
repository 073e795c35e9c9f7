"""Times contenders side by side: they take turns, each in its own process, and ratios have confidence intervals.

A benchmark is a file with a function for each contender. The function imports its library, prepares the work, and
returns a dict from the name of a measure to a function without arguments that does the work once:

    def ours():
        model = ...
        return {"step": lambda: model.train_on_batch(x, y)}

    if __name__ == "__main__":
        harness.main(__doc__, {"keras_transfer": ours, "keras_hub": theirs})

The others are compared with the first contender: the ratio is its time divided by the other's. `--against FOLDER`
compares it with itself in another checkout of the project: the benchmark and this file remain those of this one.
"""

import argparse
import collections
import importlib.metadata
import json
import math
import os
import pathlib
import platform
import resource
import subprocess
import sys
import threading
import time

import numpy as np

ROOT = pathlib.Path(__file__).parents[1]
CORES = os.cpu_count()
SAMPLE = 0.5  # Seconds. A sample repeats the work until it lasts this long.
BUSY = 0.05  # Largest fraction of the machine that other processes may use during a sample.
ATTEMPTS = 4  # Largest number of attempts to take a sample while the machine is busy.
INTERVAL_ROUNDS = 6  # From this many rounds on, their extremes contain the median with a probability of 95 %.


def main(description, contenders, measures=None, rounds=15, warm_up=2, per_call=1, unit="ms", options=None):
    """Runs a benchmark from the command line and prints a table and a JSON line for each measure.

    Args:
        description: String. The benchmark's docstring.
        contenders: Dict from a name to a function that returns `{measure: function}`.
        measures: List of strings. Measures to take. Defaults to `None`, all of the first contender.
        rounds: Integer. Number of samples of each measure and contender. Defaults to `15`.
        warm_up: Integer. Number of calls before the first sample. 0 times the first call too. Defaults to `2`.
        per_call: Integer. Number of steps or documents in one call. Defaults to `1`.
        unit: String. `"ms"` or `"s"` for the time of one step, or the name of what a call processes, such as
            `"documents"`, for the number per second. Defaults to `"ms"`.
        options: Dict from a name to the keywords of `add_argument`. The contenders take the values as arguments of
            these names. Defaults to `None`.

    Returns:
        `{measure: result}`, as in the JSON lines, or `None` in a contender's own process.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contenders", nargs="+", choices=contenders, default=list(contenders))
    parser.add_argument("--measures", nargs="+", default=measures)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--attempts", type=int, default=ATTEMPTS, help="to take a sample while the machine is busy")
    parser.add_argument("--json", type=pathlib.Path, help="file to append the JSON lines to")
    parser.add_argument(
        "--against", type=checkout_folder, help="folder of another checkout, where the first contender takes turns too"
    )
    for name, keywords in (options or {}).items():
        parser.add_argument(f"--{name.replace('_', '-')}", **keywords)
    parser.add_argument("--worker", choices=contenders, help=argparse.SUPPRESS)
    parser.add_argument("--package-of", type=checkout_folder, default=ROOT, help=argparse.SUPPRESS)
    args = parser.parse_args()
    chosen = {name: getattr(args, name) for name in options or {}}
    if args.worker:
        use_package(args.package_of)
        return work(contenders[args.worker], chosen, warm_up)
    workers = {name: Worker(name, ROOT) for name in args.contenders}
    if args.against is not None:
        workers[str(args.against)] = Worker(args.contenders[0], args.against.resolve())
    try:
        samples = take(workers, args.measures, args.rounds, warm_up > 0, args.attempts)
    finally:
        for worker in workers.values():
            worker.process.kill()
    results = {measure: summary(measure, by_name, per_call, unit) for measure, by_name in samples.items()}
    for result in results.values():
        print(table(result), flush=True)
        line = json.dumps({"benchmark": pathlib.Path(sys.argv[0]).stem, **chosen, **result, "machine": machine()})
        print(line, "\n", flush=True)
        if args.json:
            with args.json.open("a") as file:
                file.write(line + "\n")
    return results


def checkout_folder(folder):
    """Returns the path of another checkout, given as an argument of the command."""
    if not (pathlib.Path(folder) / "keras_transfer" / "__init__.py").exists():
        raise argparse.ArgumentTypeError(f"Expected a folder that contains keras_transfer/. Received: {folder}")
    return pathlib.Path(folder)


# === In a contender's process ===


def use_package(folder):
    """Makes `keras_transfer` that of a checkout, also in child processes that start in its folder.

    `benchmarks` is imported already, and remains that of this one.
    """
    if "keras_transfer" in sys.modules:
        raise SystemExit("A benchmark must import keras_transfer in its contenders. Received: an import before them")
    sys.path.insert(0, str(folder))
    os.environ["PYTHONPATH"] = python_path(folder)


def python_path(folder):
    """Returns the variable PYTHONPATH with a folder before the others."""
    return os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))


def work(contender, options, warm_up):
    """Prepares a contender, then takes a sample of a measure for each line on the standard input."""
    answers, sys.stdout = sys.stdout, sys.stderr  # keeps the output of libraries out of the answers
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
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # MB on Linux
        answer = {"seconds": wall / count, "wall": wall, "cpu": cpu, "peak_mb": peak}
        print(json.dumps(answer), file=answers, flush=True)


def cpu_seconds():
    """Returns the CPU seconds that this process and its finished children have used."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


Memory = collections.namedtuple("Memory", ["anonymous", "mapped", "highest"])


def memory():
    """Returns the memory of this process in MB, on Linux: anonymous pages, pages of files, and the most of both."""
    status = dict(line.split(":", 1) for line in pathlib.Path("/proc/self/status").read_text("utf-8").splitlines())
    return Memory(*(int(status[name].split()[0]) / 1024 for name in ("RssAnon", "RssFile", "VmHWM")))


class OwnMemory:
    """A context that samples the memory of this process, without pages of files, on Linux.

    Attributes:
        added: Float. The most MB that the process has held beyond what it held before.
    """

    def __enter__(self):
        self.added, self.before, self.done = 0.0, memory().anonymous, threading.Event()
        self.thread = threading.Thread(target=self._sample, daemon=True)
        self.thread.start()
        return self

    def _sample(self):
        while not self.done.wait(0.05):
            self.added = max(self.added, memory().anonymous - self.before)

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()


# === In the process that compares ===


def environment():
    """Returns the variables of a process that finds `benchmarks` in this checkout, wherever it is started."""
    return {**os.environ, "PYTHONPATH": python_path(ROOT)}


class Worker:
    """A contender in its own process, which reads the name of a measure and answers with a sample."""

    def __init__(self, name, checkout):
        self.name = f"{name} of {checkout}"
        command = [sys.executable, pathlib.Path(sys.argv[0]).resolve(), *sys.argv[1:], "--worker", name]
        command += ["--package-of", checkout]
        self.process = subprocess.Popen(
            command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.measures = self._answer()

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} stopped with exit status {self.process.wait()}; see above")
        return json.loads(line)

    def sample(self, measure):
        """Returns the seconds of a call, cpu/wall, and the fraction of the machine used by others (None if unknown)."""
        before = busy_seconds()
        print(measure, file=self.process.stdin, flush=True)
        answer = self._answer()
        after = busy_seconds()
        others = None if before is None else max(0.0, after - before - answer["cpu"]) / (answer["wall"] * CORES)
        sample = {"seconds": answer["seconds"], "cpu_wall": answer["cpu"] / answer["wall"], "others": others}
        sample["peak_mb"] = answer["peak_mb"]
        print(f"{measure}, {self.name}: {sample}", file=sys.stderr, flush=True)
        return sample


def take(workers, measures, rounds, warm, attempts=ATTEMPTS):
    """Returns `{measure: {contender: [sample of each round]}}`. Contenders take turns in a rotating order."""
    names = list(workers)
    samples = {}
    for measure in measures or workers[names[0]].measures:
        taking = [name for name in names if measure in workers[name].measures]
        if not taking:
            known = sorted({known for worker in workers.values() for known in worker.measures})
            raise SystemExit(f"Invalid value for --measures. Expected some of {known}. Received: {measure!r}")
        for name in taking if warm else ():  # warms up, and is not recorded
            workers[name].sample(measure)
        samples[measure] = {name: [] for name in taking}
        for i in range(rounds):
            for name in taking[i % len(taking) :] + taking[: i % len(taking)]:
                tries = []
                while len(tries) < attempts and not (tries and (tries[-1]["others"] or 0.0) <= BUSY):
                    tries.append(workers[name].sample(measure))
                samples[measure][name].append(min(tries, key=lambda sample: sample["others"] or 0.0))
    return samples


def busy_seconds():
    """Returns the CPU seconds used by all processes or stolen by the host, or None if they are unknown."""
    try:
        fields = [int(field) for field in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    except OSError:
        return None
    user, nice, system, _, _, interrupts, soft, steal = fields[:8]
    return (user + nice + system + interrupts + soft + steal) / os.sysconf("SC_CLK_TCK")


def summary(measure, samples, per_call, unit):
    """Returns medians, and each contender's ratio of the first one's time to its own, with a bootstrap interval.

    `cpu_ratio` is the same ratio of CPU seconds, which say more on a machine that is not quiet.
    """
    names = list(samples)
    seconds = {name: np.array([sample["seconds"] for sample in samples[name]]) for name in names}
    rows = {}

    def figure(value):
        return float(f"{value:.4g}")

    for name in names:
        median = float(np.median(seconds[name])) / per_call
        row = {unit: figure({"ms": 1e3 * median, "s": median}.get(unit, 1 / median))}
        row["cpu_wall"] = figure(np.median([sample["cpu_wall"] for sample in samples[name]]))
        peaks = [sample["peak_mb"] for sample in samples[name] if "peak_mb" in sample]
        row |= {"peak_mb": figure(max(peaks))} if peaks else {}
        if name != names[0]:
            row["ratio"] = figure(np.median(seconds[names[0]]) / np.median(seconds[name]))
            row["interval"] = [figure(bound) for bound in interval(seconds[names[0]], seconds[name])]
            row["cpu_ratio"] = figure(cpu_seconds_of(samples[names[0]]) / cpu_seconds_of(samples[name]))
        rows[name] = row
    others = [sample["others"] for by_name in samples.values() for sample in by_name]
    quiet = None if None in others else max(others) <= BUSY
    return {"measure": measure, "unit": unit, "rounds": len(seconds[names[0]]), "quiet": quiet, "contenders": rows}


def cpu_seconds_of(samples):
    """Returns the median of the CPU seconds of a call."""
    return np.median([sample["seconds"] * sample["cpu_wall"] for sample in samples])


def interval(ours, theirs, draws=10_000):
    """Returns the 95 % bootstrap interval of the ratio of medians over paired rounds, or the extremes of few rounds."""
    if len(ours) < INTERVAL_ROUNDS:
        return np.min(ours / theirs), np.max(ours / theirs)
    rows = np.random.default_rng(0).integers(0, len(ours), (draws, len(ours)))
    ratios = np.median(ours[rows], axis=1) / np.median(theirs[rows], axis=1)
    return np.percentile(ratios, [2.5, 97.5])


def table(result):
    """Returns the result of one measure as text."""
    unit, first = result["unit"], next(iter(result["contenders"]))
    head = unit if unit in ("ms", "s") else f"{unit}/s"
    kind = "95 % interval" if result["rounds"] >= INTERVAL_ROUNDS else "lowest to highest"
    lines = [
        f"{result['measure']} ({result['rounds']} rounds; ratio: the time of {first} divided by the other's)",
        f"{'':24}{head:>12}{'cpu/wall':>10}{'ratio':>8}{'of CPU':>8}   {kind}",
    ]
    for name, row in result["contenders"].items():
        line = f"{name:24}{row[unit]:>12,.{2 if row[unit] < 100 else 0}f}{row['cpu_wall']:>10.2f}"
        if "ratio" in row:
            line += (
                f"{row['ratio']:>8.3f}{row['cpu_ratio']:>8.3f}   {row['interval'][0]:.3f} to {row['interval'][1]:.3f}"
            )
        lines.append(line)
    if result["quiet"] is None:
        lines.append("It is not known whether the machine was quiet.")
    elif not result["quiet"]:
        lines.append(f"The machine was not quiet: other processes used more than {BUSY:.0%} of it in some samples.")
    return "\n".join(lines)


def machine():
    """Returns a description of the machine."""
    packages = ("keras", "tensorflow", "tensorflow-text", "keras-hub", "jax")
    packages += ("torch", "transformers", "tokenizers", "sentence-transformers")
    versions = {"python": platform.python_version()}
    for package in packages:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {"cores": CORES, "processor": platform.machine(), "versions": versions}
