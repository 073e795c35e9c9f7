"""Running an export in a separate process, and comparing it with the original model."""

import json
import pathlib
import signal
import subprocess
import sys
import tempfile

import numpy as np

BATCH = 32

MEASURE_FILE = pathlib.Path(__file__).with_name("measure.py")  # It runs without this library.


def prove(kind, function, folder, rows, limits):
    """Runs the export of a folder, and returns the measurements.

    Args:
        limits: Dict of `max_difference`, the largest absolute difference of an output (a logit, a value, an entry of an
            embedding), and `min_equal_labels`, the smallest share of equal labels, each `None` for no limit.

    Returns:
        Dict of `megabytes`, the size of the folder; `milliseconds_of_1` and `milliseconds_of_32`, the median time of so
        many texts in one thread; `texts`, their number; `max_difference`, the largest difference of the outputs; and
        `equal_labels`, the share of equal labels, `None` if the task has no labels.
    """
    own = _outputs(kind, function, rows)
    found, times = _run(folder, rows, kind.compared)
    for row, (ids, own_ids) in enumerate(zip(found["ids"], own["ids"], strict=True)):
        if not np.array_equal(ids, own_ids):
            raise ValueError(
                "The tokenizer.json must split texts like the model's tokenizer. Use `format='savedmodel'`, which "
                f"contains it. Received: {ids.tolist()} instead of {own_ids.tolist()}, in row {row}"
            )
    outputs, own_outputs = found["output"], own["output"]
    if found["places"] is not None:
        outputs, own_outputs = ([each[row][at] for row, at in found["places"]] for each in (outputs, own_outputs))
    measured = {
        "megabytes": sum(file.stat().st_size for file in folder.iterdir()) / 1e6,
        **times,
        "texts": len(rows),
        "max_difference": float(np.max([np.abs(x - y).max(initial=0) for x, y in zip(outputs, own_outputs)])),
        "equal_labels": _equal_labels(kind, rows, outputs, own_outputs),
    }
    most, least = limits["max_difference"], limits["min_equal_labels"]
    found = None
    if most is not None and not measured["max_difference"] <= most:
        found = f"largest difference {measured['max_difference']:.4g}, limit {most:g}"
    elif least is not None and not measured["equal_labels"] >= least:
        found = f"equal labels {measured['equal_labels']:.4f}, limit {least:g}"
    if found:
        raise ValueError(
            "The export differs from the model by more than the limit, so no folder was written. Export without "
            f"`quantization`, or relax the limit if such answers are good enough. Received: {found}"
        )
    return measured


def _run(folder, rows, output):
    """Returns the ids and outputs of an export by row and the places of words, and a dict of times."""
    with tempfile.TemporaryDirectory() as scratch:
        given, result = pathlib.Path(scratch) / "texts.json", pathlib.Path(scratch) / "found.npz"
        given.write_text(json.dumps(rows), "utf-8")
        command = [
            sys.executable,
            "-B",
            "-P",
            str(MEASURE_FILE),
            str(folder),
            str(given),
            output,
            str(result),
            str(BATCH),
        ]
        run = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace")
        if run.returncode:
            found = run.stderr.strip()[-1500:]
            if run.returncode < 0:
                found = f"signal {-run.returncode} ({signal.strsignal(-run.returncode)}), {found!r}"
            raise ValueError(
                "The runtime cannot run the model that the converter has written, or its answers are not finite, so no "
                f"folder was written. Received: {found}"
            )
        with np.load(result) as file:
            found = {name: np.split(file[name], np.cumsum(file[f"{name} sizes"])[:-1]) for name in ("ids", "output")}
            found["places"] = file.get("places")
            return found, {name: float(file[name]) for name in ("milliseconds_of_1", "milliseconds_of_32")}


def _outputs(kind, function, rows):
    """Returns the ids and the outputs of the model by row."""
    found = {"ids": [], "output": []}
    for start in range(0, len(rows), BATCH):
        inputs = kind.inputs(rows[start : start + BATCH])
        values = np.asarray(function(**{name: inputs[name] for name in kind.model.input})[kind.compared])
        for ids, size, row in zip(np.asarray(inputs["token_ids"]), np.sum(inputs["padding_mask"], axis=1), values):
            found["ids"].append(ids[:size])
            found["output"].append(row[:size] if row.ndim > 1 else row)
    return found


def _equal_labels(kind, rows, outputs, own_outputs):
    """Returns the share of equal labels, or `None` if there are none."""
    if not kind.has_labels:
        return None
    labels = kind.labels(rows, outputs), kind.labels(rows, own_outputs)
    return float(np.mean(np.concatenate([np.ravel(x == y) for x, y in zip(*labels)])))
