"""Runs a script in several processes of this machine that train together, and ends all of them if one fails."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

PATIENCE = 15  # The other processes have this number of seconds to end.


def launch(script, arguments, workers):
    """Runs a script in several processes, whose lines of output begin with the number of the process.

    The processes find each other through `TF_CONFIG`, which `keras_transfer.distribute.initialize` reads. The result is
    0, the status of the first process that failed, or 128 plus the number of the signal that ended it.
    """
    if not pathlib.Path(script).is_file():
        raise FileNotFoundError(f"The script must be a file. Received: {script}")
    addresses = [f"127.0.0.1:{port}" for port in _free_ports(workers)]
    children, lock = [], threading.Lock()
    with _forwarded_signals(children):
        for index in range(workers):
            config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
            environment = {**os.environ, "TF_CONFIG": json.dumps(config), "PYTHONUNBUFFERED": "1"}
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
            command = [sys.executable, str(script), *arguments]
            children.append(subprocess.Popen(command, env=environment, start_new_session=True, **pipes))
        readers = [threading.Thread(target=_copy, args=(index, child, lock)) for index, child in enumerate(children)]
        for reader in readers:
            reader.start()
        status = _wait(children)
        for reader in readers:
            reader.join()
    return status


def _free_ports(count):
    """Returns the numbers of unused ports."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _copy(index, child, lock):
    """Prints the lines of a process."""
    for line in child.stdout:
        with lock:
            print(f"[{index}] {line}", end="" if line.endswith("\n") else "\n", flush=True)


def _wait(children):
    """Waits for all processes, stops the others if one fails, and returns the exit status."""
    codes = [None]
    while None in codes and not any(codes):
        time.sleep(0.1)
        codes = [child.poll() for child in children]
    if not any(codes):
        return 0
    failed = next(index for index, code in enumerate(codes) if code)
    others = [index for index, code in enumerate(codes) if code is None]
    code = codes[failed]
    ending = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"failed with the exit status {code}"
    stopped = f" The processes {others} are stopped." if others else ""
    print(f"keras-transfer launch: process {failed} {ending}.{stopped}", file=sys.stderr, flush=True)
    for index in others:
        _stop(children[index])
    return 128 - code if code < 0 else code


def _stop(child):
    """Ends a process and its children."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):  # It has ended by itself.
            os.killpg(child.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):  # It ignores the signal, but cannot ignore the next one.
            child.wait(PATIENCE)
            return


@contextlib.contextmanager
def _forwarded_signals(children):
    """Passes Ctrl-C and SIGTERM on to the processes, so that they can write training checkpoints."""

    def forward(number, frame):
        for child in children:
            if child.poll() is None:
                child.send_signal(number)

    before = {number: signal.signal(number, forward) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
