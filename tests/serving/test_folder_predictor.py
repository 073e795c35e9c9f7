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


def test_a_second_run_writes_only_what_is_missing_or_whose_original_has_changed(job, data, tmp_path):
    run(job)
    assert job.pending() == []
    (tmp_path / "out" / "a.parquet").unlink()
    assert job.pending() == ["a.parquet"]
    os.utime(data / "more" / "b.parquet", (1, 1))  # another original, which is older than the answers
    assert job.pending() == ["a.parquet", "more/b.parquet"]
    assert run(job) == {"a.parquet": 7, "more/b.parquet": 1} and job.pending() == []
    parquet.write_table(table(), data / "more" / "b.parquet")
    os.utime(data / "more" / "b.parquet", (1, 1))  # of another size, at the same time
    assert job.pending() == ["more/b.parquet"]


def test_an_original_that_changes_while_it_is_read_is_pending_again(job, data, monkeypatch):
    batches = folder_predictor._batches

    def batches_of_a_file_that_changes(file):
        yield from batches(file)
        os.utime(data / "a.parquet", (1, 1))

    monkeypatch.setattr(folder_predictor, "_batches", batches_of_a_file_that_changes)
    job("a.parquet")
    assert job.pending() == ["a.parquet", "more/b.parquet"]


def test_folders_may_have_the_names_of_files(job, data, tmp_path):
    (data / "x.parquet").mkdir()
    parquet.write_table(table(), data / "x.parquet" / "part.parquet")
    assert run(job) == {"a.parquet": 7, "more/b.parquet": 1, "x.parquet/part.parquet": 7}
    assert job.pending() == []
    assert parquet.read_table(tmp_path / "out" / "x.parquet" / "part.parquet").num_rows == 7


def test_the_metadata_of_the_original_are_kept(job, data, tmp_path):
    parquet.write_table(table().replace_schema_metadata({"mine": "kept"}), data / "a.parquet")
    run(job)
    assert parquet.read_schema(tmp_path / "out" / "a.parquet").metadata[b"mine"] == b"kept"


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
    assert list((tmp_path / "out").iterdir()) == []


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


def test_a_folder_within_the_other_is_an_error(exported, data, tmp_path):
    predict = serving.Predictor(exported, "review")
    (tmp_path / "link").symlink_to(data)
    (tmp_path / "data-2").mkdir()
    for output in (tmp_path / "out" / ".." / "data", data / "out", tmp_path / "link" / "out", tmp_path):
        with pytest.raises(ValueError, match="`output` must be a different folder from `data`.* Received: .*output='"):
            serving.FolderPredictor(predict, data, output)
    serving.FolderPredictor(predict, data, tmp_path / "data-2")


def test_a_folder_with_other_files_is_an_error(job, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=r"must be empty or contain answers .* with \['notes.txt'\]"):
        job.pending()
    (tmp_path / "out" / "notes.txt").rename(tmp_path / "out" / "a.parquet")
    with pytest.raises(FileExistsError, match="that this class did not write"):
        job.pending()
    parquet.write_table(table(), tmp_path / "out" / "a.parquet")
    with pytest.raises(FileExistsError, match="that this class did not write"):
        job.pending()


def test_answers_of_another_signature_are_an_error(job, exported, data, tmp_path):
    run(job)
    predict = serving.Predictor(exported, "review", signature="embed")
    with pytest.raises(FileExistsError, match="differs in its signature"):
        serving.FolderPredictor(predict, data, tmp_path / "out").pending()


def test_a_model_that_is_replaced_writes_no_more_files(job, exported, tmp_path, monkeypatch):
    [name, other] = job.pending()
    job(name)
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "saved_model.pb").write_bytes(b"another graph")
    job = pickle.loads(pickle.dumps(job))
    answer = job.predict

    class Later:
        folder, text_columns, signature = str(tmp_path / "later"), answer.text_columns, answer.signature
        __call__ = staticmethod(answer)

    job.predict = Later()
    with pytest.raises(ValueError, match="The exported model must stay the same"):
        job(other)
    with pytest.raises(FileExistsError, match="differs in its model. Choose another folder"):
        serving.FolderPredictor(job.predict, job.data, job.output).pending()
    assert not (tmp_path / "out" / other).exists()


def test_columns_of_other_inputs_are_an_error_and_other_ways_to_write_them_are_not(job, exported, data, tmp_path):
    run(job)
    predict = serving.Predictor(exported, {"text": "review"})
    assert serving.FolderPredictor(predict, data, tmp_path / "out").pending() == []
    settings = [
        serving.FolderPredictor(serving.Predictor(exported, columns), data, tmp_path / "out").settings
        for columns in (["a", "b"], {"text_pair": "b", "text": "a"}, {"text": "b", "text_pair": "a"})
    ]
    assert settings[0] == settings[1] != settings[2]
    predict = serving.Predictor(exported, {"text_pair": "review"})
    with pytest.raises(FileExistsError, match="differs in its columns.* written with .*'text': 'review'"):
        serving.FolderPredictor(predict, data, tmp_path / "out").pending()
