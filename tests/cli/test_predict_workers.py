"""`keras-transfer predict --workers`: several processes, with the same output as one."""

import concurrent.futures
import functools
import os
import time

import pytest

from keras_transfer.cli import predictions, worker_pool
from keras_transfer_command import main
from tests.tasks.tiny import of_vectors


def wait(seconds):
    time.sleep(seconds)
    if seconds == 0.04:
        raise ValueError("an error of one part")
    return seconds


@pytest.fixture
def threads(monkeypatch):
    """Threads in place of processes."""
    pool = lambda workers, *_, **__: concurrent.futures.ThreadPoolExecutor(workers)  # noqa: E731
    monkeypatch.setattr(worker_pool, "ProcessPoolExecutor", pool)


def test_results_come_in_the_order_of_the_parts_and_few_parts_are_read_ahead(threads):
    read, most = [], 0
    seconds = [0.03, 0.0, 0.02, 0.01] * 5

    def parts():
        for part in enumerate(seconds):
            read.append(part)
            yield part

    with worker_pool.start(2) as map_in_order:
        for count, (kept, result) in enumerate(map_in_order(wait, parts())):
            assert (kept, result) == (count, seconds[count])
            most = max(most, len(read) - count)
    assert len(read) == count + 1 == 20 and most <= 2 * worker_pool.AHEAD


def test_an_error_of_one_part_is_raised(threads):
    with pytest.raises(ValueError, match="an error of one part"), worker_pool.start(2) as map_in_order:
        list(map_in_order(wait, enumerate([0.0, 0.04, 0.0])))


@pytest.fixture
def predict(tmp_path, monkeypatch):
    """A function that runs `predict` on 70 texts in parts of 10, and returns the status."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(predictions, "ROWS", 10)
    of_vectors().save("model.keras")
    rows = "".join(f"{row},{'good ' * (row % 7)}bad {'abcdef'[row % 6]}\n" for row in range(70))
    (tmp_path / "a.csv").write_text(f"id,text\n{rows}")
    return lambda *arguments: main(["predict", "model.keras", "--data", "a.csv", *arguments])


@pytest.mark.slow
def test_two_workers_write_the_same_file_as_one(predict, tmp_path):
    assert predict("--output", "one.csv") == 0
    assert predict("--output", "two.csv", "--workers", "2") == 0
    one, two = (
        [line.split(",") for line in (tmp_path / name).read_text().splitlines()] for name in ("one.csv", "two.csv")
    )
    assert len(two) == 71 and len({row[3] for row in two}) > 10  # so that another order would be seen
    assert [row[:3] for row in two] == [row[:3] for row in one]
    for row, other in zip(two[1:], one[1:], strict=True):
        assert float(row[3]) == pytest.approx(float(other[3]), abs=2e-6)  # in steps of 1e-6


@pytest.mark.slow
def test_a_process_that_dies_is_one_line_of_error_and_leaves_no_file(predict, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(worker_pool, "_begin", functools.partial(os._exit, 3))
    before = {path.name for path in tmp_path.iterdir()}
    assert predict("--output", "two.csv", "--workers", "2") == 1
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("keras-transfer")]
    [error] = lines
    assert "error: A process ended before it had predicted its texts" in error and "--workers 2" in error
    assert {path.name for path in tmp_path.iterdir()} == before
