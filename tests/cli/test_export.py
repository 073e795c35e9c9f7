"""`keras-transfer export` writes what `classify` and TensorFlow Serving read, and `classify` reads all models."""

import keras
import pytest

from keras_transfer.tasks import TextRegressor
from keras_transfer_command import main
from tests.tasks.tiny import of_words

TEXTS = ["a a", "z y"]


def classifier(**options):
    keras.utils.set_random_seed(0)
    return of_words(list("abyz"), **options)


def regressor():
    model = classifier(num_classes=2)
    return TextRegressor(model.encoder, preprocessor=model.preprocessor)


KINDS = {
    "a label": lambda: classifier(label_names=["good", "bad film"]),
    "several labels": lambda: classifier(label_names=["film", "fun"], multi_label=True),
    "a number": regressor,
}


@pytest.fixture(params=KINDS)
def model(request, tmp_path, monkeypatch):
    """A saved model, whose file is `model.keras`."""
    monkeypatch.chdir(tmp_path)
    found = KINDS[request.param]()
    found.save("model.keras")
    return found


def lines_of(model):
    """The lines that `classify` should print."""
    if isinstance(model, TextRegressor):
        return [f"  {value:.4f}  {text}" for value, text in zip(model.predict(TEXTS, verbose=0)[:, 0], TEXTS)]
    answers = model.predict_labels(TEXTS)
    if model.multi_label:
        answers = [" | ".join(labels) or "-" for labels in answers]
        width = max(map(len, answers))
        return [f"  {answer:<{width}}  {text}" for answer, text in zip(answers, TEXTS)]
    width, highest = max(map(len, answers)), model.predict_proba(TEXTS).max(axis=1)
    return [f"  {answer:<{width}}  {one:4.0%}  {text}" for answer, one, text in zip(answers, highest, TEXTS)]


def test_an_exported_model_and_its_file_answer_the_same(model, capsys):
    assert main(["export", "model.keras", "--output", "served/1"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"The {type(model).__name__} is exported to served/1. Its signatures:\n")
    assert "  serving_default: text\n" in printed and printed.endswith('\nkeras-transfer classify served/1 "TEXT"\n')
    assert main(["info", "served/1"]) == 0
    assert 'ask it with `keras-transfer classify served/1 "TEXT"`' in capsys.readouterr().out
    for path in ("model.keras", ".", "served/1"):
        assert main(["classify", path, *TEXTS]) == 0
        assert capsys.readouterr().out.splitlines() == lines_of(model)


def test_an_exported_model_cannot_be_exported(tmp_path, capsys):
    for name in ("saved_model.pb", "export.json"):
        (tmp_path / name).touch()
        assert main(["export", str(tmp_path), "--output", "b"]) == 1
        assert "An exported model cannot be exported. Pass the folder" in capsys.readouterr().err
        (tmp_path / name).unlink()
