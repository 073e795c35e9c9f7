"""Processes that predict parts of a table, and return the predictions in the order of its rows."""

import collections
import contextlib
import itertools
import multiprocessing
import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

AHEAD = 2  # Number of parts to read ahead for each process.


@contextlib.contextmanager
def start(workers):
    """Yields a function `(function, parts)` that calls a function in processes, which start when they are needed.

    It yields `(kept, function(argument))` for each part `(kept, argument)`, in order, and reads few parts ahead.
    Functions, arguments and results are pickled.
    """
    context = multiprocessing.get_context("spawn")  # TensorFlow does not work after a fork.
    executor = ProcessPoolExecutor(workers, context, initializer=_begin)

    def map_in_order(function, parts):
        parts, running = iter(parts), collections.deque()
        while True:
            for kept, argument in itertools.islice(parts, AHEAD * workers - len(running)):
                running.append((kept, executor.submit(function, argument)))
            if not running:
                return
            kept, future = running.popleft()
            yield kept, future.result()

    try:
        yield map_in_order
    except BrokenProcessPool:
        raise ChildProcessError(
            "A process ended before it had predicted its texts, possibly because there was no memory left. Each has "
            f"a copy of the model. Pass fewer `--workers`. Received: --workers {workers}"
        ) from None
    finally:
        executor.shutdown(cancel_futures=True)


def _begin():
    """Lets only the first process handle Ctrl-C, and ends this process when the first one ends for any reason."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()
