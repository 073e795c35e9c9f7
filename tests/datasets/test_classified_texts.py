"""IMDB's reviews from the official folder, and AG's news from the official files."""

import pytest

from keras_transfer.datasets import load_ag_news, load_imdb, read_table


def write_imdb(folder, skip=None):
    for number, (split, name) in enumerate((split, name) for split in ("train", "test") for name in ("neg", "pos")):
        (folder / split / name).mkdir(parents=True)
        for review in (10, 9) if f"{split}/{name}" != skip else ():
            text = f"{split} {name} {review}<br />é"
            (folder / split / name / f"{review}_{number + 1}.txt").write_text(text, "utf-8")


def test_reviews_are_read_in_the_order_of_their_numbers_negative_ones_first(tmp_path, caplog):
    write_imdb(tmp_path)
    data = load_imdb(tmp_path)
    assert list(data) == ["train", "test"] and data.label_names == ["neg", "pos"]
    expected = [f"train {name} {number}<br />é" for name in ("neg", "pos") for number in (9, 10)]
    assert data.train == (expected, [0, 0, 1, 1])
    assert "neg has 2 rows. The official file has 12,500." in caplog.text


def test_a_class_without_reviews_and_a_file_with_another_name_are_errors(tmp_path):
    write_imdb(tmp_path, skip="test/pos")
    with pytest.raises(FileNotFoundError, match=r"must contain test/pos with reviews. Get aclImdb_v1.tar.gz"):
        load_imdb(tmp_path)
    (tmp_path / "test/pos/readme.txt").write_text("?")
    with pytest.raises(ValueError, match=r"Expected files NUMBER_RATING.txt. Received: .*readme.txt"):
        load_imdb(tmp_path)


def test_imdb_as_compressed_json_lines_has_its_published_sizes(data_dir):
    for split in ("train", "test"):
        texts, labels = read_table(data_dir("imdb") / f"{split}.jsonl.gz", "text", label_column="label")
        assert len(texts) == 25000 and labels.count(1) == labels.count(0) == 12500


def test_news_have_a_title_and_a_description_with_quotes_and_backslashes_of_the_file(tmp_path):
    rows = '"3","Stocks ""rise""","Up, and\\up."\n"4","New phone","It rings."\n"1","Talks","They met."\n'
    (tmp_path / "train.csv").write_text(rows)
    data = load_ag_news(tmp_path)
    assert list(data) == ["train"] and data.train.texts[0] == 'Stocks "rise" Up, and\\up.'
    assert [data.label_names[label] for label in data.train.labels] == ["Business", "Sci/Tech", "World"]


@pytest.mark.parametrize(
    "rows, message",
    [
        ('"5","Title","Text"\n', "line 1: Expected a class from 1 to 4. Received: '5'"),
        ("", "Expected at least one row"),
    ],
)
def test_a_mistake_in_the_news_is_one_error(tmp_path, rows, message):
    (tmp_path / "test.csv").write_text(rows)
    with pytest.raises(ValueError, match=message):
        load_ag_news(tmp_path)
