"""`keras-transfer inspect` writes the page of a model next to another one, and checks its options first."""

import json

import pytest

from keras_transfer.analysis import inspection
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
