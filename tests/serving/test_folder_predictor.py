"""`FolderPredictor`: Parquet files in and out, each whole or not at all, and a run that continues."""

import datetime
import os
import pickle

import numpy as np
import pytest

from keras_transfer import serving
from keras_transfer.serving import folder_predictor

pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")
pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

TEXTS = ["the film was good", "bad films", "", "good " * 20, "😀 good", "the bad film", "good"]


def table(texts=TEXTS):
    """A table with columns of types that only Arrow has."""
    days = pyarrow.array([datetime.date(2020, 1, 1 + row) for row in range(len(texts))])
    tags = pyarrow.array([["a"] * row for row in range(len(texts))], pyarrow.list_(pyarrow.string()))
    return pyarrow.table({"id": range(len(texts)), "review": texts, "day": days, "tags": tags})


@pytest.fixture
def data(tmp_path):
    """A folder with two files, one of which is in a folder within it."""
    (tmp_path / "data" / "more").mkdir(parents=True)
    parquet.write_table(table(), tmp_path / "data" / "a.parquet")
    parquet.write_table(table(TEXTS[:1]), tmp_path / "data" / "more" / "b.parquet")
    return tmp_path / "data"


@pytest.fixture
def job(exported, data, tmp_path):
    return serving.FolderPredictor(serving.Predictor(exported, "review", batch_size=2), data, tmp_path / "out")


def run(job):
    return {name: job(name) for name in job.pending()}


def test_a_copy_writes_all_files_with_their_columns_and_the_answers_in_order(job, exported, tmp_path, monkeypatch):
    monkeypatch.setattr(folder_predictor, "ROWS", 3)  # several parts
    assert run(pickle.loads(pickle.dumps(job))) == {"a.parquet": 7, "more/b.parquet": 1}
    found = parquet.read_table(tmp_path / "out" / "a.parquet")
    assert found.column_names == ["id", "review", "day", "tags", "label", "label_id", "probabilities"]
    assert found.select(["id", "review", "day", "tags"]).equals(table())
    expected = serving.Predictor(exported, "review")({"review": TEXTS})
    assert found["label"].to_pylist() == list(expected["label"])
    assert found["label_id"].type == pyarrow.int32() and found["label_id"].to_pylist() == list(expected["label_id"])
    np.testing.assert_allclose(found["probabilities"].to_pylist(), expected["probabilities"], atol=1e-5)
    assert parquet.read_table(tmp_path / "out" / "more" / "b.parquet")["id"].to_pylist() == [0]


def test_a_second_run_writes_only_what_is_missing_or_older_than_its_original(job, data, tmp_path):
    run(job)
    assert job.pending() == []
    (tmp_path / "out" / "a.parquet").unlink()
    assert job.pending() == ["a.parquet"]
    later = (tmp_path / "out" / "more" / "b.parquet").stat().st_mtime + 10
    os.utime(data / "more" / "b.parquet", (later, later))
    assert job.pending() == ["a.parquet", "more/b.parquet"]


def test_a_file_without_rows_has_the_types_of_answers(job, data, tmp_path):
    parquet.write_table(table([]), data / "a.parquet")
    assert run(job)["a.parquet"] == 0
    empty, other = (parquet.read_schema(tmp_path / "out" / name) for name in ("a.parquet", "more/b.parquet"))
    assert empty.field("probabilities") == other.field("probabilities")
    assert empty.field("label_id").type == pyarrow.int32()


def test_answers_of_several_axes_are_lists_of_lists():
    values = np.arange(24, dtype="float32").reshape(2, 3, 4)
    assert folder_predictor._as_arrow(values).to_pylist() == values.tolist()
    assert folder_predictor._as_arrow(values[:, :0]).to_pylist() == [[], []]
    assert folder_predictor._as_arrow(np.array([["a", ""], ["b", "c"]], object)).to_pylist() == [["a", ""], ["b", "c"]]


def test_a_mistake_in_a_row_names_the_file_and_leaves_nothing_behind(job, data, tmp_path, monkeypatch):
    monkeypatch.setattr(folder_predictor, "ROWS", 2)
    parquet.write_table(table(["good", "bad", "film", None]), data / "a.parquet")
    with pytest.raises(ValueError, match=r"a.parquet, in the rows from 2 on: .* Received at row 1: None"):
        run(job)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["_predictor.json"]


def test_a_column_that_is_missing_is_an_error_before_any_file_is_predicted(job, data, tmp_path):
    parquet.write_table(pyarrow.table({"reviews": ["a"]}), data / "more" / "b.parquet")
    with pytest.raises(ValueError, match="b.parquet: There is no column 'review'. Did you mean 'reviews'"):
        job.pending()
    (data / "more" / "b.parquet").write_bytes(b"no Parquet")
    with pytest.raises(ValueError, match="b.parquet must be a Parquet file"):
        job.pending()


def test_a_folder_without_parquet_files_is_an_error(exported, data, tmp_path):
    predict = serving.Predictor(exported, "review")
    (tmp_path / "empty").mkdir()
    for folder in ("empty", "nowhere"):
        with pytest.raises(FileNotFoundError, match="must be a folder with .parquet files"):
            serving.FolderPredictor(predict, tmp_path / folder, tmp_path / "out")
    with pytest.raises(ValueError, match="`output` must be another folder than `data`"):
        serving.FolderPredictor(predict, data, tmp_path / "out" / ".." / "data")


def test_a_folder_with_other_files_is_an_error(job, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=r"must be empty or contain answers .* with \['notes.txt'\]"):
        job.pending()
    (tmp_path / "out" / "notes.txt").rename(tmp_path / "out" / "a.parquet")
    with pytest.raises(FileExistsError, match="that this class has not written"):
        job.pending()


def test_answers_of_another_model_or_signature_are_an_error(job, exported, data, tmp_path, make_classifier):
    run(job)
    other = serving.export(make_classifier(pooling="mean"), tmp_path / "other", label_names=["a", "b", "c"])
    with pytest.raises(FileExistsError, match="contains answers with another model. Choose another folder"):
        serving.FolderPredictor(serving.Predictor(other, "review"), data, tmp_path / "out").pending()
    predict = serving.Predictor(exported, "review", signature="embed")
    with pytest.raises(FileExistsError, match="another signature"):
        serving.FolderPredictor(predict, data, tmp_path / "out").pending()
