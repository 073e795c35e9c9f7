"""The examples that predict folders of Parquet files on engines, with two workers, of which one dies, and the guide."""

import os
import pathlib
import runpy
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from keras_transfer import serving
from tests.pages import REPOSITORY, run_page

pytest.importorskip("tensorflow_text")
pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

FILES, ROWS = 12, 25
LIMIT_SECONDS = 1200  # for one run on a busy machine
NOT_INSTALLED = {"ray": "needs Ray Data", "spark": "needs Spark", "beam": "needs Apache Beam"}
MODULES = {"ray": "ray", "spark": "pyspark", "beam": "apache_beam"}


@pytest.fixture
def data(tmp_path):
    """A folder with 300 texts."""
    random = np.random.default_rng(0)
    (tmp_path / "data").mkdir()
    for part in range(FILES):
        texts = [" ".join(random.choice(["the", "film", "was", "good", "bad"], 1 + row % 9)) for row in range(ROWS)]
        table = pyarrow.table({"id": range(part * ROWS, (part + 1) * ROWS), "review": texts})
        parquet.write_table(table, tmp_path / "data" / f"part-{part:02}.parquet")
    return tmp_path / "data"


def line(engine, exported, folder, **options):
    """The arguments of an example."""
    options = {"model": exported, "data": folder, "column": "review", "output": folder.parent / "out", **options}
    script = str(REPOSITORY / "examples" / f"predict_{engine}.py")
    return [script, *(part for name, value in options.items() for part in (f"--{name}", str(value)))]


def start(engine, exported, data):
    """A process of an example, whose output is in the file `log` beside the data.

    Ray gives up if its own processes need more than 30 seconds to start, as they do on a busy machine.
    """
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "HOME": str(data.parent), "RAY_AUTH_MODE": "disabled"}
    environment["RAY_worker_register_timeout_seconds"] = str(LIMIT_SECONDS)
    path, command = data.parent / "log", [sys.executable, *line(engine, exported, data)]
    for _ in range(10):
        with open(path, "w") as log:
            process = subprocess.Popen(command, env=environment, cwd=data.parent, stdout=log, stderr=log)
        if engine != "ray":
            break
        while process.poll() is None and "Started a local Ray instance" not in path.read_text():
            time.sleep(0.1)
        if "timed out during startup" not in path.read_text():
            break
    return process


def end(process, data):
    """Waits for an example, and returns its status and its output."""
    status = process.wait(LIMIT_SECONDS)
    return status, (data.parent / "log").read_text()


def check(exported, data):
    """Checks that the output has each row once, in order, with the labels that a `Predictor` finds."""
    predict, found = serving.Predictor(exported, "review"), []
    paths = sorted(path for path in (data.parent / "out").iterdir() if path.name[0] not in "._")
    assert [path.name for path in paths] == sorted(path.name for path in data.iterdir())
    for path in paths:
        before, after = parquet.read_table(data / path.name), parquet.read_table(path)
        assert after.select(before.column_names).equals(before)
        expected = predict({"review": before["review"].to_pylist()})
        assert after["label"].to_pylist() == list(expected["label"])
        np.testing.assert_allclose(after["probabilities"].to_pylist(), expected["probabilities"], atol=1e-5)
        found += after["id"].to_pylist()
    assert found == list(range(FILES * ROWS))


def writer_of(folder):
    """`(process, file)` of a process that is writing a file in a folder now, or None."""
    for link in pathlib.Path("/proc").glob("[0-9]*/fd/*"):
        try:
            target = pathlib.Path(os.readlink(link))
        except OSError:
            continue
        if target.parent == folder and target.suffix == ".tmp":
            return int(link.parts[2]), target
    return None


def kill_a_writer(process, folder):
    """Kills a process while it writes a file, and returns the file that it leaves."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if [*folder.glob(".*.tmp")] and (found := writer_of(folder)) is not None:
            os.kill(found[0], signal.SIGSTOP)  # It may have finished the file in the meantime.
            if found[1].exists():
                os.kill(found[0], signal.SIGKILL)
                return found[1]
            os.kill(found[0], signal.SIGCONT)
        time.sleep(0.02)
    raise AssertionError(f"no process has written a file: {(folder.parent / 'log').read_text()[-4000:]}")


@pytest.mark.slow
@pytest.mark.skipif(not pathlib.Path("/proc/self/fd").exists(), reason="finds the process by /proc")
def test_ray_predicts_each_row_once_even_if_an_actor_dies_and_a_second_run_has_nothing_to_do(exported, data):
    pytest.importorskip("ray.data", reason='needs Ray Data: pip install "ray[data]"')
    process = start("ray", exported, data)
    left = kill_a_writer(process, data.parent / "out")
    status, printed = end(process, data)
    assert status == 0, printed[-4000:]
    assert left.exists() and f"{FILES * ROWS} texts in " in printed
    check(exported, data)
    times = {path.name: path.stat().st_mtime_ns for path in (data.parent / "out").glob("*.parquet")}
    status, printed = end(start("ray", exported, data), data)
    assert status == 0 and printed.endswith("All files have answers.\n")
    assert times == {path.name: path.stat().st_mtime_ns for path in (data.parent / "out").glob("*.parquet")}


@pytest.mark.slow
def test_an_error_in_a_file_ends_ray_with_its_message_and_keeps_what_is_done(exported, data):
    pytest.importorskip("ray.data", reason='needs Ray Data: pip install "ray[data]"')
    parquet.write_table(pyarrow.table({"id": [0, 1], "review": ["good", None]}), data / "part-11.parquet")
    status, printed = end(start("ray", exported, data), data)
    assert status == 1
    [message] = [text for text in printed.splitlines() if text.startswith("error: ")]
    assert "part-11.parquet, in the rows from 0 on: Column 'review' must contain strings" in message
    assert not (data.parent / "out" / "part-11.parquet").exists()


@pytest.mark.slow
def test_spark_predicts_each_row_once(exported, data):
    pytest.importorskip("pyspark", reason="needs Spark: pip install pyspark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs a Java runtime")
    status, printed = end(start("spark", exported, data), data)
    assert status == 0 and f"{FILES * ROWS} texts in " in printed, printed[-4000:]
    check(exported, data)


@pytest.mark.slow
def test_beam_predicts_each_row_once(exported, data):
    pytest.importorskip("apache_beam", reason="needs Apache Beam: pip install apache-beam")
    status, printed = end(start("beam", exported, data), data)
    assert status == 0 and f"{FILES} files in " in printed, printed[-4000:]
    check(exported, data)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["ray", "spark", "beam"])
def test_a_mistake_is_one_line_of_error_before_the_engine_starts(engine, exported, data, monkeypatch):
    def message(**options):
        arguments = line(engine, exported, data, **options)
        monkeypatch.setattr(sys, "argv", arguments)
        with pytest.raises(SystemExit) as error:
            runpy.run_path(arguments[0], run_name="__main__")
        assert "\n" not in error.value.code
        return error.value.code

    with monkeypatch.context() as without:
        without.setitem(sys.modules, MODULES[engine], None)
        assert NOT_INSTALLED[engine] in message() and "pip install" in message()
    pytest.importorskip(MODULES[engine])
    empty = data.parent / "empty"
    empty.mkdir()
    assert "There is no column 'reviw'. Did you mean 'review'?" in message(column="reviw")
    assert "must be a folder with .parquet files" in message(data=empty)
    assert "must be an exported model" in message(model=empty)
    (empty / "notes.txt").write_text("mine")
    assert "must be empty or contain answers" in message(output=empty)


@pytest.mark.slow
def test_the_script_of_the_guide_runs(tmp_path, monkeypatch, small_minilm, capsys):
    pandas = pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    run_page("production/many_texts.md")
    assert pandas.read_parquet("answers")["id"].tolist() == list(range(32))
    assert "part-3.parquet 8" in capsys.readouterr().out
