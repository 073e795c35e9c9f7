"""`keras-transfer inspect` writes the page of a model next to another one, and checks its options first."""

import json
import re

import pytest

from keras_transfer.analysis import inspection
from keras_transfer.encoders import T5
from keras_transfer.tasks import Seq2SeqLM, SpanExtractor, TextRegressor, TokenClassifier
from keras_transfer_command import main
from tests.tasks import tiny

NAMES = ["bad", "good"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(inspection, "SECTIONS", {"scores": inspection.SECTIONS["scores"]})
    for name in ("after", "before"):
        tiny.of_words([*NAMES, *"abc"], label_names=NAMES).save(f"{name}.keras")
    texts, labels = tiny.examples(30)
    rows = [json.dumps({"text": text, "label": NAMES[label]}) for text, label in zip(texts, labels)]
    (tmp_path / "data.jsonl").write_text("\n".join(rows))
    return tmp_path


def test_the_page_of_a_model_has_its_scores_and_those_of_another_one(folder, capsys):
    line = ["inspect", "after.keras", "--data", "data.jsonl", "--against", "before.keras", "--rows", "20"]
    assert main([*line, "--folder", "kept", "--report", "pages/page.html"]) == 0
    printed = capsys.readouterr().out
    assert "20 rows, 2 classes" in printed and "rows: 20 of 30, drawn at random" in printed
    assert "Rows that are right" in printed and printed.endswith("The page is in pages/page.html\n")
    assert "<title>Inspection of after.keras</title>" in (folder / "pages" / "page.html").read_text("utf-8")
    assert (folder / "kept" / inspection.KEPT).exists()
    assert main(["inspect", "after.keras", "--data", "data.jsonl", "--no-labels"]) == 0
    assert "The data has no labels." in capsys.readouterr().out and (folder / "inspection.html").exists()


def test_taggers_readers_and_models_that_write_read_the_files_of_their_tasks(folder, capsys, eagerly):
    parts = tiny.encoder(), tiny.preprocessor()
    TokenClassifier(*parts, label_names=["NOUN", "VERB"]).save("tagger.keras")
    SpanExtractor(*parts).save("reader.keras")
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
    Seq2SeqLM(T5(len(tiny.VOCABULARY), **sizes), parts[1]).save("writer.keras")
    trees = [line.replace(" ", "\t") for line in ("1 a _ NOUN _ _ 2 nsubj _ _", "2 b _ VERB _ _ 0 root _ _")]
    (folder / "trees.conllu").write_text("\n".join([*trees, "", *trees, ""]))
    (folder / "tags.conll").write_text("a NOUN\nb VERB\n\nbad VERB\n")
    question = {"id": "1", "question": "a b", "context": "c good", "answers": {"text": ["good"], "answer_start": [2]}}
    (folder / "questions.json").write_text(json.dumps([question]))
    (folder / "sources.csv").write_text("text,label\na b,good\nc,bad\n")
    TextRegressor(*parts, num_targets=2).save("regressor.keras")
    (folder / "words.conllu").write_text("1 a _ _ _ _ _ _ _ _\n".replace(" ", "\t"))  # Without trees and tags.
    assert main(["inspect", "tagger.keras", "--data", "words.conllu", "--no-labels"]) == 0
    assert main(["inspect", "regressor.keras", "--data", "sources.csv", "--label-column", "a", "b"]) == 1
    assert "Pass `--no-labels`. Received: label_column=['a', 'b'], num_targets=2" in capsys.readouterr().err
    for model, data, found in (
        ("tagger", "trees.conllu", r"none +0\.0 +4 "),
        ("tagger", "tags.conll", r"none +0\.0 +3 "),
        ("reader", "questions.json", r"none +0\.0 +1 "),
        ("writer", "sources.csv", r"A Seq2SeqLM predicts no classes\."),
    ):
        assert main(["inspect", f"{model}.keras", "--data", data]) == 0
        assert re.search(found, capsys.readouterr().out)
        assert main(["inspect", f"{model}.keras", "--data", data, "--no-labels"]) == 0
        assert "The data has no labels." in capsys.readouterr().out
    assert main(["inspect", "tagger.keras", "--data", "tags.conll", "--label-column", "tag"]) == 1
    assert "Leave out the options of tables. Received: ('text', ['tag']," in capsys.readouterr().err


@pytest.mark.parametrize(
    "line, error",
    [
        (["none.keras", "--data", "data.jsonl"], "The model does not exist. Received: none.keras"),
        (["after.keras", "--data", "data.jsonl", "--report", "data.jsonl/a.html"], "Received: --report=data.jsonl"),
        (["after.keras", "--data", "data.jsonl", "--against", "no-such-encoder"], "no-such-encoder"),
        (["after.keras", "--data", "data.jsonl", "--label-column", "kind"], "There is no column 'kind'"),
    ],
)
def test_a_mistake_is_one_error(folder, capsys, line, error):
    assert main(["inspect", *line]) == 1
    found = capsys.readouterr().err
    assert found.startswith("keras-transfer inspect: error: ") and error in found
    assert not (folder / "inspection.html").exists()
