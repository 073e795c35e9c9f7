"""Runs code in a separate process: with several devices, with another backend, or without this package."""

import contextlib
import json
import os
import pathlib
import select
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[1]
LIMIT_SECONDS = 900  # for one call on a busy machine


def run(*arguments, **environment):
    """Runs Python with these arguments, and returns the JSON that it prints as its last line."""
    command = [sys.executable, *map(str, arguments)]
    child = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True)
    assert child.returncode == 0, child.stderr[-4000:]
    return json.loads(child.stdout.splitlines()[-1])


def shared_programs(folder):
    """Returns an environment in which processes share the programs that XLA compiles for JAX, in a folder."""
    return {
        "JAX_COMPILATION_CACHE_DIR": str(folder),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


class Worker:
    """A process that starts once and calls functions of the tests: `worker("tests.distribute.mirrored:main", folder)`.

    Args:
        *options: str, options of `tests.worker`.
        **environment: str, changes to its environment.
    """

    def __init__(self, *options, **environment):
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.worker", *options],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )

    def __call__(self, function, *arguments):
        """Returns the result of a function, converted to JSON and back."""
        answer = ""
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps([function, *arguments], default=str), file=self.process.stdin, flush=True)
            if select.select([self.process.stdout], [], [], LIMIT_SECONDS)[0]:
                answer = self.process.stdout.readline()
        if not answer:
            self.process.kill()
            self.errors.seek(0)
            raise AssertionError(f"no answer, and exit code {self.process.wait()}:\n{self.errors.read()[-4000:]}")
        kind, result = json.loads(answer)
        assert kind == "ok", result
        return result

    def stop(self):
        """Ends the process."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.errors.close()
