"""Each task answers as a LiteRT model as it does itself, with the runtime, `tokenizers` and NumPy alone."""

import json
import runpy
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_transfer import encoders, serving, tasks, text
from keras_transfer.datasets import load_demo_questions
from keras_transfer.serving.portable.kinds import kind_of, rows_for_test
from tests.tasks.tiny import encoder, preprocessor

pytest.importorskip("tensorflow")
pytest.importorskip("ai_edge_litert")
pytestmark = pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="converts TensorFlow's graphs")

TEXTS = ["good a", "a b c d e f g h i j a b c bad", "", "é 😀", "[SEP] [MASK] B"]
SENTENCES = [["good", "a"], ["a", "badly", "."], [*"abcdefghijabcdefghij"], ["b"]]  # One has several rows.


def Model(folder):
    """The model of a folder, as the program in it opens it."""
    return runpy.run_path(folder / "predict.py")["Model"](folder)


@pytest.fixture
def answers(tmp_path, capsys):
    """A function that exports a model, and returns what the export answers and what was measured."""

    def answers(model, texts, rows=None, **options):
        folder = serving.export(model, tmp_path / "small", format="litert", texts=texts, max_difference=1e-5, **options)
        printed, measured = capsys.readouterr().out, json.loads((folder / "export.json").read_text())["measured"]
        assert f"{folder}: " in printed and "largest difference" in printed
        assert ("equal labels" in printed) == (measured["equal_labels"] is not None)
        assert measured["texts"] == len(texts[0] if isinstance(texts, tuple) else texts)
        served = Model(folder)
        nothing = served.predict([])
        assert all(len(values) == 0 for values in nothing.values())
        found = served.predict([*zip(*texts)] if isinstance(texts, tuple) else texts, batch_size=2)
        assert list(found) == list(nothing)
        return found, measured

    return answers


def task(cls, reader=None, **options):
    keras.utils.set_random_seed(0)
    return cls(encoder(), reader or preprocessor(sequence_length=8), **options)


def test_several_classes_for_each_pair(answers):
    model = task(tasks.TextClassifier, label_names=["x", "y"], multi_label=True, thresholds=[0.0, 0.5])
    pairs = TEXTS, TEXTS[::-1]
    found, measured = answers(model, pairs, pairs=True)
    assert found["labels"] == model.predict_labels(pairs)
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(pairs), atol=1e-5)
    assert measured["equal_labels"] == 1


def test_numbers(answers):
    model = task(tasks.TextRegressor, num_targets=2)
    found, measured = answers(model, TEXTS)
    np.testing.assert_allclose(found["values"], model.predict(TEXTS, verbose=0), atol=1e-5)
    assert measured["equal_labels"] is None


def test_a_label_for_each_word(answers, tmp_path):
    model = task(tasks.TokenClassifier, label_names=["x", "y", "z"])
    found, measured = answers(model, SENTENCES)
    expected = model.predict_words(SENTENCES)
    assert found["labels"] == [[label for _, label in sentence] for sentence in expected]
    assert measured["equal_labels"] == 1
    with pytest.raises(ValueError, match=r"Each word must have a token.*Received at position 1: .*, word 1"):
        Model(tmp_path / "small").predict([["a"], ["b", "\u00ad", "c"]])


def test_embeddings_with_prompts_and_the_files_of_an_export(answers, tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    model = task(tasks.TextEmbedder, prompts={"query": "a b", "document": "c"}, default_prompt_name="query")
    found, _ = answers(model, TEXTS)
    np.testing.assert_allclose(found["embedding"], model.predict(TEXTS, verbose=0), atol=1e-5)
    names = {"export.json", "labels.json", "model.tflite", "predict.py", "tokenizer.json"}
    assert {file.name for file in (tmp_path / "small").iterdir()} == names
    documents = Model(tmp_path / "small").predict(TEXTS, prompt_name="document")["embedding"]
    np.testing.assert_allclose(documents, model.embed(TEXTS, prompt_name="document"), atol=1e-5)


def test_a_choice(answers, tmp_path):
    model, contexts = task(tasks.MultipleChoice), TEXTS[:3]
    choices = [["a", "b"], ["good bad", "d e"], ["bad", "good"]]
    found, _ = answers(model, (contexts, choices))
    assert found["choice"] == model.predict_choices((contexts, choices))
    served = Model(tmp_path / "small")
    for wrong in ([("a", "bc")], [("a",)], [("a", [])], [("a", ["b"], "c")], [("a", [1, 2])], (["a", "b"], ["c", "d"])):
        with pytest.raises(ValueError, match="This model expects a list of contexts and their choices."):
            served.predict(wrong)


def test_answers_in_contexts_of_several_windows(answers):
    model = task(tasks.SpanExtractor, max_answer_length=3, doc_stride=2, no_answer_threshold=0.0)
    questions, contexts = ["good", "a b"], ["a b c d e f g h i j e\u0301 bade\u0301", "b"]
    found, measured = answers(model, (questions, contexts))
    for row, best in enumerate(model.answer(questions, contexts)):
        assert (found["answer"][row], found["start"][row], found["end"][row]) == (
            best["text"],
            best["start"],
            best["end"],
        )
        assert found["score"][row] == pytest.approx(best["score"], abs=1e-5)
    assert measured["equal_labels"] == 1


@pytest.mark.report("BERT does not run from raw text in LiteRT.", "text#287", "tensorflow#49973", "tensorflow#46949")
def test_the_folder_answers_alone_and_refuses_what_it_does_not_take(answers, tmp_path):
    model = task(tasks.TextClassifier, label_names=["x", "y", "z"])
    found, measured = answers(model, TEXTS, min_equal_labels=1)
    assert found["label"] == model.predict_labels(TEXTS)
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(TEXTS), atol=1e-5)
    assert measured["equal_labels"] == 1
    folder = tmp_path / "small"
    served = Model(folder)
    for wrong in ("a", [["a", "b"]], [None], {"text": ["a"]}, {"a"}, None):
        with pytest.raises(ValueError, match="This model expects a list of texts. Received"):
            served.predict(wrong)
    for name, value in (("batch_size", 0), ("batch_size", 1.5), ("prompt_name", "query")):
        with pytest.raises(ValueError, match=f"`{name}` must be"):
            served.predict(["a"], **{name: value})
    with pytest.raises(ValueError, match="without lone surrogates. Received at position 1"):
        served.predict(["a", "\ud800"])
    compute = served.compute
    served.compute = lambda ids: {name: values * np.nan for name, values in compute(ids).items()}
    with pytest.raises(ValueError, match="must be finite numbers"):
        served.predict(["a"])
    program = "import runpy, sys; sys.modules.update(tensorflow=None, keras=None, keras_transfer=None); "
    program += f"sys.argv[1:] = {TEXTS}; runpy.run_path('predict.py', run_name='__main__')"
    answer = subprocess.run([sys.executable, "-P", "-c", program], cwd=folder, check=True, capture_output=True)
    lines = answer.stdout.decode("utf-8").splitlines()
    assert [json.loads(line)["label"] for line in lines] == model.predict_labels(TEXTS)


def test_packaged_texts_that_leave_room_test_an_export_without_texts():
    assert len(rows_for_test(kind_of(task(tasks.MultipleChoice)), None, False)) == 64
    assert (
        0 < len(rows_for_test(kind_of(task(tasks.SpanExtractor, preprocessor(sequence_length=12))), None, False)) < 64
    )


def test_answers_of_byte_level_bpe_begin_and_end_at_the_same_characters(answers):
    pytest.importorskip("tokenizers")
    keras.utils.set_random_seed(0)
    texts = load_demo_questions().train.texts
    tokenizer = text.train_vocabulary(texts, "byte_bpe", 350)
    reader = text.TokenPreprocessor(tokenizer, text.Packing(["[CLS]"], ["[SEP]"] * 2, ["[SEP]"]), 64)
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
    transformer = encoders.TransformerEncoder(tokenizer.vocabulary_size, **sizes)
    model = tasks.SpanExtractor(transformer, reader, max_answer_length=4)
    questions, contexts = ["a", "two", "who"] * 2, ["  a 👍🏽 café  b", *texts[:4], "中文 ½ \n x"]
    found, _ = answers(model, (questions, contexts))
    for row, best in enumerate(model.answer(questions, contexts)):
        assert (found["answer"][row], found["start"][row]) == (best["text"], best["start"])
        assert found["score"][row] == pytest.approx(best["score"], abs=1e-5)


@pytest.mark.parametrize("kind", ["byte_bpe", "unigram"])
def test_other_tokenizers_split_texts_pairs_and_words_alike(kind, answers):
    pytest.importorskip("tokenizers")
    pytest.importorskip("sentencepiece")
    texts = ["a good day", "  two  spaces, don't\n", "[CLS] 中文 ½ 👍🏽", ""]
    tokenizer = text.train_vocabulary(load_demo_questions().train.texts, kind, 350)
    reader = text.TokenPreprocessor(tokenizer, text.Packing(["[CLS]"], ["[SEP]"] * 2, ["[SEP]"]), 40)
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
    transformer = encoders.TransformerEncoder(tokenizer.vocabulary_size, **sizes)
    found, _ = answers(tasks.TextClassifier(transformer, reader, num_classes=2), (texts, texts[::-1]), pairs=True)
    assert len(found["label"]) == 4
    words = [sentence.split() for sentence in texts[:3]]
    found, _ = answers(tasks.TokenClassifier(transformer, reader, label_names=["x", "y"]), words, overwrite=True)
    assert [*map(len, found["labels"])] == [*map(len, words)]
