"""One run of a benchmark in a process of its own: its cores, the times of its steps, its cost and its answer."""

import time

START = time.perf_counter()  # before any library is imported
# ruff: noqa: E402

import json
import os
import resource
import sys


class Clock:
    """Records when steps and epochs end, in seconds since the start of the process, and what training takes.

    Training begins with the texts, when the model exists, and ends with the last step.
    """

    def __init__(self):
        self.epochs = []  # for each, its begin and the ends of its steps
        self.training = None  # seconds of wall and of CPU time

    def begin_training(self):
        self._began = time.perf_counter(), time.process_time()

    def end_training(self):
        wall, cpu = self._began
        self.training = time.perf_counter() - wall, time.process_time() - cpu

    def begin_epoch(self):
        self.epochs.append([time.perf_counter() - START])

    def end_step(self):
        self.epochs[-1].append(time.perf_counter() - START)

    def steady_epoch(self):
        """Returns the seconds of the last epoch, or of the first one as if its first step took as long as others."""
        last = self.epochs[-1]
        if len(self.epochs) > 1 or len(last) < 3:
            return last[-1] - last[0]
        return (last[-1] - last[1]) * (len(last) - 1) / (len(last) - 2)


def limit_threads(count):
    """Limits the process to `count` cores. `None` means all cores."""
    if count:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def usage():
    """Returns the cost of the process so far: seconds of wall and of CPU time, and its peak memory in MB."""
    return {
        "wall": time.perf_counter() - START,
        "cpu": time.process_time(),
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def answer(main):
    """Does the run that the command line names, and prints its figures, and what it ran on."""
    answers, sys.stdout = sys.stdout, sys.stderr  # keeps the output of libraries out of the answer
    figures = main(json.loads(sys.argv[1]))
    from benchmarks import harness

    print(json.dumps({**figures, "machine": harness.machine()}), file=answers)
