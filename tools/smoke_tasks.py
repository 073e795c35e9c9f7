"""Tries every task with what is installed: a training step, predictions, files, and an export. See `smoke_wheel.py`."""

import pathlib
import sys
import tempfile
import time

import keras
import numpy as np
import tiny_tasks

import keras_transfer as kt


def try_task(name, folder):
    """Tries a task, and returns what was tried. Any failure is an error."""
    case, tried = tiny_tasks.CASES[name], ["fit", "answers", ".keras"]
    task = tiny_tasks.trained(name)
    expected = tiny_tasks.answers(task, case.questions)
    if not np.all(np.isfinite(expected)):
        raise RuntimeError(f"The answers must be finite. Received: {expected}")
    task.save(folder / "model.keras")
    again = keras.models.load_model(folder / "model.keras")
    np.testing.assert_allclose(tiny_tasks.answers(again, case.questions), expected, atol=1e-6)
    if case.checkpoint:
        task.save_pretrained(folder / "checkpoint")
        again = type(task).from_pretrained(folder / "checkpoint")
        np.testing.assert_allclose(tiny_tasks.answers(again, case.questions), expected, atol=1e-5)
        tried.append("checkpoint")
    # It compares the answers of the export with those of the task.
    kt.serving.export(task, folder / "served", pairs=case.pairs)
    return [*tried, "export"]


def main(names):
    failed = []
    for name in names or tiny_tasks.CASES:
        start = time.time()
        with tempfile.TemporaryDirectory() as folder:
            try:
                tried = try_task(name, pathlib.Path(folder))
                print(f"{name}: {', '.join(tried)} ({time.time() - start:.1f} s)", flush=True)
            except Exception as error:  # The other tasks are tried too.
                failed.append(name)
                print(f"{name}: FAILED, {type(error).__name__}: {error!s:.600}", flush=True)
    count = len(names or tiny_tasks.CASES) - len(failed)
    print(f"{count} tasks passed" + (f", {len(failed)} failed: {failed}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
