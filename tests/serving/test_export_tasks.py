"""The export of each task answers raw text as the model does, without this package, for empty requests too."""

import dataclasses
import json

import keras
import numpy as np
import pytest

from keras_transfer import encoders, serving, tasks
from keras_transfer.adaptation import add_adapters, set_active_adapter
from keras_transfer.serving.by_adapter import signatures_by_adapter
from tests.adaptation.adapters.adapter_models import randomize
from tests.errors import check_errors
from tests.helpers import eager
from tests.tasks import tiny
from tests.tasks.classification import test_multiple_choice as choices
from tests.tasks.tagging.test_word_chain import random_tagger
from tests.tasks.tiny import encoder, preprocessor

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

TEXTS = ["good a", "a b c d e f g h i j a b c bad", "", "é 😀"]
NOTHING = tf.constant([], tf.string)


@pytest.fixture
def ask(process_without_this_package, tmp_path):
    """A function that exports a model, and returns its folder, the names of its signatures and its answers."""

    def ask(model, request, **options):
        folder = serving.export(model, tmp_path / "1", **options)
        found = process_without_this_package("tests.serving.alone:answers", folder, request, "serving_default")
        return folder, found["signatures"], found["outputs"]

    return ask


def table_of(folder, **columns):
    """The answers of a `Predictor` to a table, in batches of two rows."""
    return serving.Predictor(folder, {name: name for name in columns}, batch_size=2)(columns)


def serve(folder):
    """The default signature of an export."""
    return tf.saved_model.load(folder).signatures["serving_default"]


def task(cls, **options):
    keras.utils.set_random_seed(0)
    return cls(encoder(), preprocessor(sequence_length=8), **options)


# === Classification ===


def test_several_labels_of_long_texts(ask):
    model = task(tasks.TextClassifier, num_classes=3, multi_label=True, thresholds=[0.0, 1.0, 0.5], windows="max")
    folder, signatures, answer = ask(model, TEXTS, label_names=["x", "y", "z"])
    assert signatures == ["serving_default", "tokens"]
    with eager():
        np.testing.assert_allclose(answer["probabilities"], model.predict_proba(TEXTS), atol=1e-5)
    np.testing.assert_array_equal(np.array(answer["chosen"])[:, :2], [[1, 0]] * len(TEXTS))
    assert serve(folder)(text=NOTHING)["chosen"].shape == (0, 3)


def test_numbers_of_siamese_pairs(ask):
    model = task(tasks.TextRegressor, num_targets=2, siamese=True)
    folder, signatures, answer = ask(model, {"text": TEXTS, "text_pair": TEXTS[::-1]}, pairs=True)
    assert signatures == ["embed", "serving_default"]
    with eager():
        expected = model.predict((TEXTS, TEXTS[::-1]), verbose=0)
    np.testing.assert_allclose(answer["values"], expected, atol=1e-5)
    np.testing.assert_allclose(table_of(folder, text=TEXTS, text_pair=TEXTS[::-1])["values"], expected, atol=1e-5)


def test_multiple_choice_gives_the_choice_of_the_model(ask):
    model, ((contexts, options), _) = choices.task(), choices.examples(6, longest=9)
    folder, signatures, answer = ask(model, {"context": contexts, "choices": options})
    with eager():
        logits = model.predict((contexts, options), verbose=0)
        assert answer["choice"] == model.predict_choices((contexts, options))
    assert signatures == ["serving_default", "tokens"]
    assert answer["choice_id"] == logits.argmax(1).tolist()
    np.testing.assert_allclose(answer["probabilities"], tf.nn.softmax(logits), atol=1e-5)
    served = serve(folder)
    assert served(context=NOTHING, choices=tf.zeros((0, 3), tf.string))["choice"].shape == (0,)
    with pytest.raises(tf.errors.InvalidArgumentError, match="same batch size"):
        served(context=tf.constant(["a"]), choices=tf.constant([["b", "c"], ["d", "e"]]))


# === Words and spans ===


def test_a_random_field_gives_the_most_likely_sequences(ask):
    model, texts = random_tagger(), ["a good, bad abc d", "", "abc", "a good , " * 40]
    folder, _, answer = ask(model, texts)
    with eager():
        expected, logits = model.predict_words(texts), model.predict(texts[:1], verbose=0)[0]
    for i, pairs in enumerate(expected):
        assert answer["words"][i][: len(pairs)] == [word for word, _ in pairs]
        assert answer["label"][i][: len(pairs)] == [tag for _, tag in pairs]
        assert set(answer["label_id"][i][len(pairs) :]) <= {-1}
    assert table_of(folder, text=texts)["label"].tolist() == answer["label"]
    expected = model.random_field.marginals(logits[None])[0]
    np.testing.assert_allclose(answer["probabilities"][0][: len(logits)], expected, atol=1e-5)
    empty = tf.saved_model.load(folder).signatures["words"](words=tf.zeros((2, 0), tf.string))
    assert empty["label"].shape == (2, 0)


QUESTIONS = ["a", "good b", "", "c", "d"]
CONTEXTS = ["a b c d e f g h i j " * 4, "C\u00e1 d\u0301 \U0001f600 e", "Good, bad!", "", "x"]


def test_spans_are_those_of_the_model(tmp_path):
    keras.utils.set_random_seed(0)
    options = {"doc_stride": 8, "max_answer_length": 4, "no_answer_threshold": 0.0}
    model = tasks.SpanExtractor(encoder(initializer_range=1.0), preprocessor(), **options)
    model.get_layer("logits").kernel.assign(np.random.default_rng(3).normal(size=(16, 2)))
    folder = serving.export(model, tmp_path / "served")
    served = serve(folder)
    found = served(question=tf.constant(QUESTIONS), context=tf.constant(CONTEXTS))
    with eager():
        expected = model.answer(QUESTIONS, CONTEXTS)
    rows = table_of(folder, question=QUESTIONS, context=CONTEXTS)
    assert rows["answer"].tolist() == [answer["text"] for answer in expected]
    assert [text.decode("utf-8") for text in found["answer"].numpy()] == [answer["text"] for answer in expected]
    assert 1 < sum(answer["text"] != "" for answer in expected) < 5
    for name in ("start", "end"):
        assert found[name].numpy().tolist() == [answer[name] for answer in expected]
    np.testing.assert_allclose(found["score"], [answer["score"] for answer in expected], atol=1e-5)
    nothing = served(question=NOTHING, context=NOTHING)
    assert {name: value.shape.as_list() for name, value in nothing.items()} == {name: [0] for name in found}
    with pytest.raises(tf.errors.InvalidArgumentError, match="must leave room for its context"):
        served(question=tf.constant(["a " * 40]), context=tf.constant(["b"]))


# === Vectors ===


def test_the_vectors_of_texts(ask):
    model = tasks.TextEmbedder(encoder(initializer_range=0.3), preprocessor(), normalize=True)
    texts = ["a b", "good", "", "c d e f g h", "a bad i j " * 20]
    folder, signatures, answer = ask(model, texts)
    assert signatures == ["serving_default", "tokens"]
    with eager():
        np.testing.assert_allclose(answer["embedding"], model.embed(texts, verbose=0), atol=1e-5)
    np.testing.assert_allclose(table_of(folder, text=texts)["embedding"], answer["embedding"], atol=1e-5)


def test_each_prompt_has_a_signature_and_the_default_prompt_is_in_front_of_texts():
    options = {"dense": [{"units": 6, "activation": "tanh"}], "normalize": True, "truncate_dim": 4}
    options |= {"prompts": {"query": "bad ", "document": ""}, "default_prompt_name": "query"}
    model = tasks.TextEmbedder(encoder(initializer_range=0.3), preprocessor(), **options)
    served = model.signatures()
    assert set(served) == {"serving_default", "embed_query", "embed_document", "tokens"}
    for signature, prompt in (("serving_default", None), ("embed_query", "query"), ("embed_document", "document")):
        found = served[signature].function(text=tf.constant(["a b", "good"]))["embedding"]
        np.testing.assert_allclose(found, model.embed(["a b", "good"], verbose=0, prompt_name=prompt), atol=1e-5)


# === Text ===


def language_model(sampler):
    sizes = {"norm": "pre", "causal": True, "initializer_range": 0.8}
    decoder = encoder(encoders.TransformerEncoder, hidden_dim=8, intermediate_dim=16, **sizes)
    return tasks.CausalLM(decoder, preprocessor(sequence_length=16), sampler=sampler, max_length=10)


def test_prompts_are_continued_as_generate_does(tmp_path):
    model, prompts = language_model("greedy"), ["good bad", "", "a b c d"]
    served = serve(serving.export(model, tmp_path / "served"))
    found = served(text=tf.constant(prompts))["continuation"].numpy()
    with eager():
        assert [text.decode("utf-8") for text in found] == model.generate(prompts)
    assert served(text=NOTHING)["continuation"].shape == (0,)
    [long] = served(text=tf.constant(["a " * 40]))["continuation"].numpy()
    assert len(long.decode("utf-8").split()) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["greedy", "beam"])
def test_a_compiled_loop_continues_prompts_as_generate_does(sampler, tmp_path, process_without_this_package):
    model, prompts = language_model(sampler), ["good bad", "", "a b c d"]
    folder = serving.export(model, tmp_path / "served", jit_compile=True)
    for some in (prompts, prompts[2:]):
        found = process_without_this_package("tests.serving.alone:answers", folder, some, "serving_default")
        assert found["outputs"]["continuation"] == model.generate(some)


# === Adapters ===


def test_the_signatures_of_a_model_compute_with_its_adapters():
    model = add_adapters(tiny.classifier(), ["houlsby:2", "lora:r=2", "prefix:2"])
    texts = ["a good film", "bad"]
    before = model.predict(texts)
    expected = randomize(model)(texts)
    assert np.abs(expected - before).max() > 1e-4
    found = model.signatures()["serving_default"].function(text=tf.constant(texts))["probabilities"]
    np.testing.assert_allclose(found, tf.nn.softmax(expected), atol=1e-6)


def test_each_row_of_a_request_names_its_adapter(tmp_path, capsys):
    model, texts, expected = tiny.classifier(), ["a good film", "bad", "good a b c"], {}
    kinds = ["prefix:2", "bitfit"]
    for name, spec in (("first", "houlsby:2"), ("second", kinds), ("same", kinds)):
        randomize(add_adapters(model, spec, name=name), name)
        model.get_layer("logits").bias.assign(np.random.default_rng(len(name)).normal(size=2))
        expected[name] = tf.nn.softmax(model(texts)).numpy()
    answer = serve(serving.export(model, tmp_path / "served", adapters=[*expected]))
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "Tracing the signature 'serving_default' for 3 adapters" and said[-1] == "Writing the SavedModel"
    for names in (["first", "second", "same"], ["same"] * 3, ["", "second", ""]):
        found = answer(text=tf.constant(texts), adapter=tf.constant(names))["probabilities"].numpy()
        rows = [expected[name or "first"][i] for i, name in enumerate(names)]
        np.testing.assert_allclose(found, rows, atol=1e-6)
    assert answer(text=NOTHING, adapter=NOTHING)["probabilities"].shape == (0, 2)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"must be one of .* Received:\] \[third\]"):
        answer(text=tf.constant(texts), adapter=tf.constant(["first", "third", ""]))
    facts = json.loads((tmp_path / "served" / "assets.extra" / "export.json").read_text("utf-8"))
    assert (facts["task"], facts["adapters"]) == ("TextClassifier", ["first", "second", "same"])
    expected = {"inputs": {"adapter": [None], "text": [None]}, "outputs": {"embedding": [None, 16]}}
    assert facts["signatures"]["embed"] == expected
    predict = serving.Predictor(tmp_path / "served", {"text": "text", "adapter": "customer"})
    with pytest.raises(
        ValueError, match=r"^`adapter` must be one of \['first', 'second', 'same'\]. Received: \[it's\]$"
    ):
        predict({"text": texts, "customer": ["first", "it's", "same"]})
    with pytest.raises(ValueError, match="at least two names"):
        serving.export(model, tmp_path / "other", adapters=["first"])


def test_adapters_of_the_same_kind_share_a_trace_and_not_their_weights():
    model, calls = tiny.classifier(), []
    for name in ("a", "b", "c", "other"):
        randomize(add_adapters(model, "lora:r=4" if name == "other" else "lora:r=2", name=name), name)
        model.get_layer("logits").bias.assign(np.random.default_rng(ord(name[0])).normal(size=2))
    texts, names = tf.constant(["a good", "bad", "b", "good"]), ["c", "a", "other", "b"]
    expected = []
    for text, name in zip(texts.numpy(), names):
        set_active_adapter(model, name)
        expected.append(tf.nn.softmax(model([text.decode()]))[0].numpy())
    signature = model.signatures()["serving_default"]
    counted = dataclasses.replace(signature, function=lambda **inputs: calls.append(0) or signature.function(**inputs))
    choose = signatures_by_adapter(model, {"answer": counted}, ["a", "b", "c", "other"])["answer"].function
    found = tf.function(choose, autograph=False)(text=texts, adapter=tf.constant(names))["probabilities"]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert len(calls) == 2  # one trace for each kind


test_what_has_no_answer_cannot_be_exported = check_errors(
    {
        "pairs of texts, which have no vector": (
            lambda: serving.export(tasks.TextEmbedder(encoder(), preprocessor()), "unwritten", pairs=True),
            "does not support pairs of texts",
        ),
        "a random sampler": (
            lambda: serving.export(language_model("top_p"), "unwritten"),
            "needs a sampler without random numbers",
            "Received: sampler=a TopP",
        ),
    }
)
