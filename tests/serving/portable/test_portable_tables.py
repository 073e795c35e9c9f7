"""`Predictor` and `FolderPredictor` answer with LiteRT exports as they do with SavedModels."""

import builtins
import pickle
import runpy
import shutil
import sys

import keras
import numpy as np
import pytest

from keras_transfer import serving, tasks
from keras_transfer.serving import exported
from tests.pages import REPOSITORY, run_page
from tests.tasks.tiny import encoder, preprocessor

pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")
pytest.importorskip("ai_edge_litert")
pytestmark = pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="converts TensorFlow's graphs")

TEXTS = ["good a", "a b c d e f g h i j a b c bad", "", "é 😀"]


def task(cls, **options):
    keras.utils.set_random_seed(0)
    return cls(encoder(), preprocessor(sequence_length=8), **options)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """A folder with the exports `litert` and `savedmodel` of a classifier of pairs with several labels."""
    folder = tmp_path_factory.mktemp("exports")
    model = task(tasks.TextClassifier, label_names=["x", "y"], multi_label=True)
    for format in ("litert", "savedmodel"):
        serving.export(model, folder / format, format=format, pairs=True)
    return folder


def same(found, expected):
    """Checks that two tables have the same columns, in the same order and of the same types."""
    assert list(found) == list(expected)
    for name, values in expected.items():
        if not isinstance(values, np.ndarray):
            assert found[name] == values
        elif values.dtype == np.float32:
            assert found[name].dtype == np.float32
            np.testing.assert_allclose(found[name], values, atol=1e-5)
        else:
            np.testing.assert_array_equal(found[name], values, strict=True)


@pytest.mark.parametrize("texts", [TEXTS, []])
def test_the_table_is_that_of_the_saved_model(classifier, texts):
    table = {"id": list(range(len(texts))), "a": texts, "b": texts[::-1]}
    litert, saved_model = (
        pickle.loads(pickle.dumps(serving.Predictor(classifier / format, ["a", "b"], batch_size=3)))(table)
        for format in ("litert", "savedmodel")
    )
    assert len(litert) > len(table) and len(litert["id"]) == len(texts)
    same(litert, saved_model)


def test_the_columns_of_answers_in_a_context_are_those_of_the_model(tmp_path):
    questions, contexts = ["good", "a b"], ["a b c d e f g h i j é bad", "b"]
    model = task(tasks.SpanExtractor, max_answer_length=3, overlap=1)
    folder = serving.export(model, tmp_path / "small", format="litert", texts=(questions, contexts))
    found = serving.Predictor(folder, {"question": "text", "context": "context"})(
        {"text": questions, "context": contexts}
    )
    assert list(found) == ["text", "context", "answer", "end", "score", "start"]
    assert found["answer"].tolist() == [answer["text"] for answer in model.answer(questions, contexts)]


def test_mistakes_are_one_clear_error(classifier, tmp_path, monkeypatch):
    folder, table = classifier / "litert", {"a": ["x"], "b": ["y"], "chosen": [1]}
    with pytest.raises(ValueError, match=r"each input of the signature: \['text', 'text_pair'\]"):
        serving.Predictor(folder, "a")(table)
    with pytest.raises(ValueError, match=r"must be one of \('serving_default',\). Received: signature='embed'"):
        serving.Predictor(folder, ["a", "b"], signature="embed")(table)
    with pytest.raises(ValueError, match=r"with the names of answers. .*Received: \['chosen'\]"):
        serving.Predictor(folder, ["a", "b"])(table)
    model = task(tasks.TokenClassifier, label_names=["x", "y"])
    tagger = serving.export(model, tmp_path / "tagger", format="litert", texts=[["a"]])
    with pytest.raises(ValueError, match="with lists of words. Received: .*TokenClassifier"):
        serving.Predictor(tagger)({"text": ["a"]})

    def without_runtime(name, *args, **options):
        if name.startswith("ai_edge_litert"):
            raise ImportError("No module named 'ai_edge_litert'")
        return find(name, *args, **options)

    find = builtins.__import__
    monkeypatch.setattr(exported, "_LOADED", {})
    monkeypatch.setattr(builtins, "__import__", without_runtime)
    with pytest.raises(ImportError, match=r"format 'litert'. Run `pip install keras_transfer\[litert\]`"):
        serving.Predictor(folder, ["a", "b"])(table)


def test_a_folder_of_tables_knows_the_files_of_the_export(classifier, tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    (tmp_path / "data").mkdir()
    parquet.write_table(pyarrow.table({"a": TEXTS, "b": TEXTS}), tmp_path / "data" / "0.parquet")
    model = shutil.copytree(classifier / "litert", tmp_path / "model")
    job = serving.FolderPredictor(serving.Predictor(model, ["a", "b"]), tmp_path / "data", tmp_path / "answers")
    assert job("0.parquet") == len(TEXTS) and job.pending() == []
    found = parquet.read_table(tmp_path / "answers" / "0.parquet").column_names
    assert found == ["a", "b", "chosen", "probabilities"]
    (model / "tokenizer.json").write_text("{}")
    with pytest.raises(FileExistsError, match="differs in its model"):
        serving.FolderPredictor(job.predict, tmp_path / "data", tmp_path / "answers").pending()


def test_the_server_in_the_examples_answers(tmp_path, monkeypatch):
    pytest.importorskip("httpx")
    testclient = pytest.importorskip("fastapi.testclient")
    model = task(tasks.TextClassifier, label_names=["x", "y"])
    monkeypatch.setenv("EXPORT", str(serving.export(model, tmp_path / "small", format="litert")))
    monkeypatch.setattr(sys, "path", list(sys.path))
    client = testclient.TestClient(runpy.run_path(str(REPOSITORY / "examples" / "serve_fastapi.py"))["app"])
    found = client.post("/predict", json={"texts": TEXTS}).json()
    assert found["label"] == model.predict_labels(TEXTS)
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(TEXTS), atol=1e-5)
    assert client.post("/predict", json={"texts": [1]}).status_code == 422
    sys.modules.pop("predict")


@pytest.mark.parametrize("folder", [None, "saved_model"])
def test_the_server_in_the_examples_says_which_folder_it_needs(folder, tmp_path, monkeypatch):
    pytest.importorskip("fastapi")
    monkeypatch.delenv("EXPORT", raising=False)
    if folder:
        monkeypatch.setenv("EXPORT", str(tmp_path / folder))
    with pytest.raises(SystemExit, match="Set EXPORT to a folder .* Received: EXPORT="):
        runpy.run_path(str(REPOSITORY / "examples" / "serve_fastapi.py"))


@pytest.mark.slow
def test_the_script_in_the_guide_to_small_models_runs(tmp_path, monkeypatch, minilm):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))  # The page adds its export.
    names = run_page("production/small_and_fast.md")
    assert sys.modules.pop("predict").__file__.endswith("small/predict.py")
    assert names["answers"]["label"] == ["HUM", "NUM"]
    assert names["exported"] == pytest.approx(names["original"], abs=0.05)
