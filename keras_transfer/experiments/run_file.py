"""The results of runs as lines of JSON, so that a comparison continues after it was killed."""

import json
import math
import os
import pathlib

from keras_transfer.files import naming

LATER = ("metrics",)  # settings that files of earlier versions lack


class RunFile:
    """The results of finished runs, in memory and, if there is a path, in a file.

    The first line of the file contains the settings that all runs share. Each further line is the result of a run. An
    incomplete last line, written by a process that was killed, is removed.

    Args:
        path: Path of the file, or `None`. The file may already exist.
        settings: Dict of JSON values that all runs share.

    Attributes:
        runs: List of dicts, the results so far.
    """

    def __init__(self, path, settings):
        self.path = None if path is None else pathlib.Path(path)
        self.runs = []
        if self.path is None:
            return
        if self.path.exists():
            self._read(settings)
        if not self.path.exists() or not self.path.stat().st_size:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._append({"settings": settings})

    def add(self, run):
        """Adds the result of a run."""
        if self.path is not None:
            self._append(run)
        self.runs.append(run)

    def _append(self, line):
        before = self.path.stat().st_size if self.path.exists() else None
        try:
            with naming(self.path), self.path.open("ab") as file:
                file.write(f"{json.dumps(line)}\n".encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            if before is None:
                self.path.unlink(missing_ok=True)
            else:
                os.truncate(self.path, before)
            raise

    def _read(self, settings):
        data = self.path.read_bytes()
        end = data.rfind(b"\n") + 1
        lines = []
        for number, line in enumerate(data[:end].splitlines(), 1):
            try:
                lines.append(json.loads(line))
            except ValueError:
                lines.append(None)
            if not isinstance(lines[-1], dict) or ("settings" in lines[-1]) != (number == 1):
                raise ValueError(
                    "`results` must be a new file, or one that `compare` wrote. "
                    f"Received: {str(self.path)!r}, whose line {number} is {line[:80]!r}"
                )
        if end == 0 and data and not b'{"settings": '.startswith(data[:13]):
            raise ValueError(f"`results` must be a new file, or one that `compare` wrote. Received: {str(self.path)!r}")
        absent = {key: settings[key] for key in LATER if lines and key in settings and key not in lines[0]["settings"]}
        if lines and (different := _differences({**absent, **lines[0]["settings"]}, settings)):
            raise ValueError(
                "The file contains runs with different settings. Choose another file for `results`. "
                f"Received: results={str(self.path)!r}, with {'; '.join(different)}"
            )
        if end < len(data):
            os.truncate(self.path, end)
        self.runs = lines[1:]


def _differences(before, now, name=""):
    """Returns descriptions of the settings that differ."""
    if isinstance(before, dict) and isinstance(now, dict):
        found = []
        for key in dict.fromkeys([*before, *now]):
            found += _differences(before.get(key), now.get(key), f"{name} {key}".strip())
        return found
    numbers = isinstance(before, float) and isinstance(now, float)
    # Another processor may round the initial weights differently.
    same = math.isclose(before, now, rel_tol=1e-6) if numbers else before == now
    return [] if same else [f"{name} {before!r} instead of {now!r}"]
