"""Kills one of two processes at random moments, restarts both until they end, and compares the ends bit for bit.

    pip install -e .[test,jax]
    python tools/process_kills.py --kills 20 --results kills.jsonl

A chain is one run of two processes with `keras-transfer launch` and `TrainingCheckpoint`. One of them, drawn by chance,
is killed with SIGKILL at a random moment of the training, also while it compiles or writes. The launcher must then end
the other one, with one message and an exit status, and the next launch resumes the run, until one reaches the end. Its
weights must equal those of an undisturbed run. The seed determines the moments. The same command goes on where it was
stopped. The exit status is 1 if a launch ends in another way or does not end in ten minutes, or an end differs.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
from kills import read

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
EPOCHS, MOST = 6, 4  # Epochs of a run, and kills of a chain.
LIMIT = 600  # Seconds of a launch.


def main(arguments=None):
    """Runs the chains from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="of each backend; defaults to 20")
    parser.add_argument("--backends", nargs="+", default=["tensorflow", "jax"], choices=["tensorflow", "jax"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=pathlib.Path, help="file to which a JSON line for each chain is added")
    args = parser.parse_args(arguments)
    done = read(args.results)
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        for backend in args.backends:
            folder, number = pathlib.Path(folder), sum(chain["backend"] == backend for chain in done)
            whole = None
            while sum(len(chain["seconds"]) for chain in done if chain["backend"] == backend) < args.kills:
                whole = whole or undisturbed(backend, folder / f"{backend}-whole")
                chain = {"backend": backend, **run_chain(backend, folder / "killed", f"{args.seed} {number}", *whole)}
                done.append(chain)
                number += 1
                print(json.dumps(chain), flush=True)
                if args.results:
                    with args.results.open("a") as file:
                        file.write(json.dumps(chain) + "\n")
                if chain["end"] != "equal":
                    break
    for backend in args.backends:
        chains = [chain for chain in done if chain["backend"] == backend]
        seconds = [each for chain in chains for each in chain["seconds"]]
        equal = sum(chain["end"] == "equal" for chain in chains)
        print(
            f"{backend}: {len(seconds)} kills in {len(chains)} chains, {equal} equal, last process ended at most "
            f"{max(seconds, default=0):.0f} s after the kill"
        )
    return int(any(chain["end"] != "equal" for chain in done))


def launch(backend, folder, *options):
    """Runs two processes, and returns the exit status, or None if they do not end, and what they print."""
    folder.mkdir(exist_ok=True)
    script = str(REPOSITORY / "tests/distribute/killed.py")
    environment = {**os.environ, "KERAS_BACKEND": backend, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment |= {"PYTHONPATH": str(REPOSITORY), "XLA_FLAGS": "--xla_backend_optimization_level=0"}
    command = [sys.executable, "-m", "keras_transfer", "launch", "--workers", "2", script, str(folder), *options]
    started = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        output, _ = started.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        end(started)
        return None, f"{started.communicate()[0]}\nThe processes did not end in {LIMIT} seconds."
    return started.returncode, output


def end(launcher):
    """Kills a launcher and its processes, each of which leads a group."""
    found = subprocess.run(["pgrep", "-P", str(launcher.pid)], stdout=subprocess.PIPE, text=True)
    launcher.kill()
    for process in found.stdout.split():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(process), signal.SIGKILL)


def undisturbed(backend, folder):
    """Returns the weights of a run without kills, and the seconds that it trains."""
    status, output = launch(backend, folder, "none", "0", str(EPOCHS))
    if status != 0:
        raise SystemExit(f"A run without kills failed on {backend}:\n{output[-4000:]}")
    return np.load(folder / "weights.npz"), float(re.search(r"trained in ([\d.]+) seconds", output)[1])


def run_chain(backend, folder, seed, weights, duration):
    """Kills and restarts a run until it ends, and returns the seconds from each kill to the end of all processes."""
    drawn, seconds = random.Random(f"{backend} {seed}"), []
    shutil.rmtree(folder, ignore_errors=True)
    while True:
        dies = ["none", "0"] if len(seconds) == MOST else [str(drawn.randrange(2)), f"{drawn.uniform(0, duration):.2f}"]
        status, output = launch(backend, folder, *dies, str(EPOCHS))
        if status == 0:
            break
        messages = re.findall(r"keras-transfer launch: process (\d) was ended by SIGKILL", output)
        if status is None or messages != [dies[0]] or dies[0] == "none":
            return {"seconds": seconds, "end": "failed", "log": output[-4000:]}
        seconds.append(round(time.time() - float(re.search(r"killed at ([\d.]+)", output)[1]), 1))
    found = np.load(folder / "weights.npz")
    equal = all((found[name] == weights[name]).all() for name in weights.files)
    return {"seconds": seconds, "end": "equal" if equal else "different"}


if __name__ == "__main__":
    raise SystemExit(main())
