"""A corpus of a column of a table: Parquet and Arrow files, and datasets of Hugging Face."""

import pytest

from keras_transfer.datasets import read_table
from tests.data.test_corpus import build, content, documents


@pytest.mark.parametrize("kind", ["parquet", "arrow file", "arrow stream"])
def test_a_parquet_or_arrow_file_gives_the_same_corpus(kind, tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow")
    texts, suffix = documents(6), kind.split()[0]
    table, path = pyarrow.table({"id": range(6), "body": texts}), tmp_path / f"a.{suffix}"
    if kind == "parquet":
        pytest.importorskip("pyarrow.parquet").write_table(table, path)
    else:
        writer = pyarrow.ipc.new_file if kind == "arrow file" else pyarrow.ipc.new_stream
        with writer(path, table.schema) as file:
            file.write_table(table, max_chunksize=4)
    corpus = build(tmp_path / "corpus", path, text_column="body")
    assert content(corpus) == content(build(tmp_path / "of texts", texts))
    split = read_table(path, "body", label_column="id")
    assert (split.texts, split.labels) == (texts, list(range(6)))
    with pytest.raises(ValueError, match=rf"a.{suffix}: Expected a column 'text'.* Received: \['id', 'body'\]"):
        build(tmp_path / "other", path)
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(ValueError, match=rf"a.{suffix}: Expected a complete {suffix.title()} file. Received: "):
        build(tmp_path / "cut", path, text_column="body")


def test_a_column_of_a_dataset_gives_the_same_corpus(tmp_path):
    datasets = pytest.importorskip("datasets", reason="needs the package datasets")
    texts = documents(6)
    corpus = build(tmp_path / "corpus", datasets.Dataset.from_dict({"text": texts})["text"])
    assert content(corpus) == content(build(tmp_path / "of texts", texts))
