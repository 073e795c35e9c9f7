"""A span extractor trains on questions, contexts and answers, and answers with the text of the context."""

import json
import zipfile

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import estimate_fisher, layer_groups
from keras_transfer.encoders import TransformerEncoder
from keras_transfer.tasks import SpanExtractor
from keras_transfer.text import BertPreprocessor, span_batches
from tests.helpers import EAGER, outputs_of, save_and_load
from tests.tasks.tiny import VOCABULARY, encoder, preprocessor

LONG = "a b c d e f g h i j " * 4


def extractor(**options):
    keras.utils.set_random_seed(0)
    return SpanExtractor(encoder(), preprocessor(), **options)


def prepared(rows=2, length=6):
    """Inputs of a model, in which a question of one token is before the context, and the last token is padding."""
    random = np.random.default_rng(0)
    ids = random.integers(5, len(VOCABULARY), (rows, length))
    mask = np.array([1] * (length - 1) + [0])
    answers = np.array([1, 0, 0] + [1] * (length - 4) + [0])
    columns = {"token_ids": ids, "segment_ids": np.zeros_like(ids), "padding_mask": mask, "answer_mask": answers}
    return {name: np.broadcast_to(column, (rows, length)).astype("int32") for name, column in columns.items()}


def examples(count, seed):
    """Contexts of letters in which the answer is the word "good", and its first character."""
    random = np.random.default_rng(seed)
    contexts = []
    for _ in range(count):
        words = random.choice(list("abcdefghij"), random.integers(3, 12)).tolist()
        words.insert(random.integers(0, len(words)), "Good")
        contexts.append(" ".join(words))
    return (["bad"] * count, contexts), [("Good", context.index("Good")) for context in contexts]


# === The model ===


def test_padding_and_the_question_can_be_no_answer():
    logits = outputs_of(extractor(), prepared())
    assert logits.shape == (2, 2, 6) and logits.dtype == np.float32
    assert (logits[:, :, [1, 2, 5]] == -3e4).all() and (np.abs(logits[:, :, [0, 3, 4]]) < 100).all()


@pytest.mark.core
def test_the_loss_is_the_mean_of_the_two_cross_entropies():
    model = extractor()
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=EAGER)
    inputs, labels = prepared(), np.array([[3, 4], [0, 0]], "int32")
    logits = outputs_of(model, inputs)
    before = [keras.ops.convert_to_numpy(weight).copy() for weight in model.trainable_weights]
    weights = np.array([1.0, 3.0], "float32")
    result = model.train_on_batch(inputs, labels, weights, return_dict=True)
    chosen = np.take_along_axis(logits, labels[:, :, None], -1)[..., 0]
    losses = np.log(np.exp(logits).sum(-1)) - chosen
    assert float(result["loss"]) == pytest.approx((losses * weights[:, None]).mean(), abs=1e-4)
    assert float(result["accuracy"]) == pytest.approx((logits.argmax(-1) == labels).mean())
    moved = [(keras.ops.convert_to_numpy(w) != old).any() for w, old in zip(model.trainable_weights, before)]
    unused = ["segment" in w.path or "pooler" in w.path for w in model.trainable_weights]
    assert all(one or two for one, two in zip(moved, unused, strict=True))


def test_the_head_is_one_layer_with_two_rows():
    groups = layer_groups(extractor())
    assert [group.name for group in groups] == ["embeddings", "block_0", "head"]
    assert [(weight.path, tuple(weight.shape)) for weight in groups[-1].variables] == [
        ("logits/kernel", (16, 2)),
        ("logits/bias", (2,)),
    ]


def test_a_saved_model_has_the_same_settings_and_logits():
    options = {"dropout": 0.2, "hidden_activation": "gelu", "hidden_norm": True}
    model = extractor(doc_stride=7, max_answer_length=5, no_answer_threshold=0.5, **options)
    loaded = save_and_load(model)
    assert loaded.get_config() == model.get_config()
    assert (loaded.doc_stride, loaded.max_answer_length, loaded.no_answer_threshold, loaded.dropout) == (7, 5, 0.5, 0.2)
    np.testing.assert_array_equal(outputs_of(loaded, prepared()), outputs_of(model, prepared()))


def test_a_file_with_the_earlier_name_of_the_distance_of_windows_loads(tmp_path):
    model = extractor(doc_stride=7)
    model.save(tmp_path / "model.keras")
    with zipfile.ZipFile(tmp_path / "model.keras") as new, zipfile.ZipFile(tmp_path / "old.keras", "w") as old:
        for name in new.namelist():
            content = new.read(name)
            if name == "config.json":
                config = json.loads(content)
                config["config"]["stride"] = config["config"].pop("doc_stride")
                del config["config"]["overlap"]
                content = json.dumps(config)
            old.writestr(name, content)
    loaded = keras.saving.load_model(tmp_path / "old.keras")
    assert (loaded.doc_stride, loaded.overlap) == (7, None)
    np.testing.assert_array_equal(outputs_of(loaded, prepared()), outputs_of(model, prepared()))


def test_an_overlap_replaces_the_distance_and_is_saved():
    model = extractor(overlap=3)
    assert (model.doc_stride, model.overlap, extractor().doc_stride) == (None, 3, 128)
    assert SpanExtractor.from_config(model.get_config()).overlap == 3


def test_the_earlier_name_of_the_distance_of_windows_is_an_error_with_both_names():
    with pytest.raises(TypeError, match="no argument `stride`. Pass `doc_stride=...`.*or `overlap=...`"):
        SpanExtractor.from_pretrained("minilm-l6", head="new", stride=128)


def test_wrong_arguments_are_an_error():
    vectors = keras.Input((None, 4))
    of_vectors = keras.Model(vectors, keras.layers.Dense(4)(vectors))
    for function, message in (
        (lambda: SpanExtractor("minilm-l6"), r"`encoder` must be a model. Use `from_pretrained\(...\)`"),
        (lambda: SpanExtractor(of_vectors), "must accept a dict of inputs and return a vector for each token"),
        (
            lambda: SpanExtractor(encoder(), lambda texts: texts),
            "must be a `BertPreprocessor`.*=a function",
        ),
        (lambda: extractor(doc_stride=4, overlap=2), "either `doc_stride`.*Received: doc_stride=4, overlap=2"),
        (lambda: SpanExtractor(encoder(), preprocessor(sequence_length=64)), "must be at most 32"),
    ):
        with pytest.raises(ValueError, match=message):
            function()


# === Training ===


def test_it_learns_to_find_a_marked_word(eagerly):
    model = extractor()
    model.compile(keras.optimizers.Adam(0.02))
    model.fit(*examples(96, seed=1), epochs=2, batch_size=16, verbose=0)
    texts, answers = examples(32, seed=2)
    found = model.answer(*texts)
    right = [(answer["text"], answer["start"]) == expected for answer, expected in zip(found, answers)]
    assert np.mean(right) > 0.8
    assert all(
        context[answer["start"] : answer["end"]] == answer["text"]
        for answer, context in zip(found, texts[1], strict=True)
    )
    assert model.evaluate(texts, answers, verbose=0, return_dict=True)["accuracy"] > 0.8


@pytest.mark.report("Questions without an answer cannot be trained on.", "transformers#154")
def test_questions_without_an_answer_and_long_contexts_train(eagerly):
    model = extractor(doc_stride=10)
    model.compile(keras.optimizers.SGD(0.1))
    texts, answers = (["a", "b c", "d"], [LONG, "a good b", ""]), [("j", 18), None, []]
    history = model.fit(texts, answers, sample_weight=[1.0, 2.0, 1.0], validation_split=0.4, verbose=0).history
    assert np.isfinite(history["loss"]).all() and np.isfinite(history["val_loss"]).all()
    data = model.dataset(texts, answers, batch_size=2)
    assert sum(len(labels) for _, labels in data) == 3 + 1 + 1
    assert sum((labels > 0).all(axis=1).sum() for _, labels in data) == 1


def test_wrong_data_are_one_clear_error():
    import tensorflow as tf

    model = extractor()
    model.compile(run_eagerly=True)
    texts = (["a"], ["a b"])
    stream = tf.data.Dataset.from_tensor_slices(((["a"], ["b"]),)).batch(1)
    for function, message in (
        (lambda: model.fit(texts, [("b", 0)]), "Did you mean start=2"),
        (lambda: model.fit(["a"], [None]), r"must be a tuple of two lists, `\(questions, contexts\)`"),
        (lambda: model.fit(stream), r"`fit` requires a dataset of `\(inputs, labels\)`"),
        (lambda: model.fit(prepared(), np.zeros((2, 3), "int32")), r"integers \[batch, 2\].*shape \(2, 3\)"),
        (lambda: model.fit(prepared(), np.array([[0, 0], [3, 5]])), "`answer_mask` is 1.*Received: 5 in row 1"),
        (lambda: model.evaluate(prepared(), np.array([[3, 9], [0, 0]])), "9 in row 0, which has 6 positions"),
        (lambda: model.predict(texts), r"Use `answer\(questions, contexts\)` for texts"),
        (lambda: model.answer("a " * 40, "b"), "must leave room for its context.*at position 0"),
        (lambda: model.signatures(pairs=True), "Leave `pairs` out"),
    ):
        with pytest.raises(ValueError, match=message):
            function()


def test_prepared_data_are_predicted_in_their_order(eagerly):
    model, inputs = extractor(), prepared(rows=5)
    np.testing.assert_allclose(model.predict(inputs, batch_size=2, verbose=0), outputs_of(model, inputs), atol=1e-6)
    data = model.dataset((["a", "b", "c"], [LONG, "a b", "c d e f"]), batch_size=2)
    logits = model.predict(data, verbose=0)
    expected = outputs_of(model, data.inputs)
    real = data.inputs["answer_mask"][:, None, :].repeat(2, axis=1) == 1
    np.testing.assert_allclose(logits[real], expected[real], atol=1e-5)


def test_the_fisher_information_takes_answers_behind_the_length_of_the_first_batch(eagerly):
    texts, answers = (["a"] * 2, ["b", "c d e f g h i j " * 2]), [("b", 0), ("j", 30)]
    model = extractor()
    data = span_batches(texts, answers, preprocessor=model.preprocessor, batch_size=1, shuffle=False)
    assert data[0][0]["token_ids"].shape[1] < data[1][1].max()
    for given in ((texts, answers), (data,)):
        fisher = estimate_fisher(model, *given, empirical=True)
        assert fisher["logits/kernel"].max() > 0


# === Answers ===


@pytest.fixture(scope="module")
def model():
    """A model with large weights, so that its answers differ."""
    keras.utils.set_random_seed(0)
    model = SpanExtractor(encoder(initializer_range=1.0), preprocessor(), doc_stride=8, max_answer_length=4)
    random = np.random.default_rng(3)
    model.get_layer("logits").kernel.assign(random.normal(size=(16, 2)))
    return model


def test_a_question_has_one_answer_and_a_list_of_questions_a_list(model, eagerly):
    [first, second] = model.answer(["a", "b"], [LONG, "C\u00e1 d\u0301 e"])
    assert model.answer("a", LONG) == pytest.approx(first)
    for answer, context in ((first, LONG), (second, "C\u00e1 d\u0301 e")):
        assert set(answer) == {"text", "score", "start", "end", "no_answer_score"}
        assert answer["text"] == context[answer["start"] : answer["end"]] != ""
        assert 0 < answer["score"] <= 1
    assert model.answer([], []) == []


def test_the_n_best_answers_are_in_the_order_of_their_scores_and_all_different(model, eagerly):
    best = model.answer("a", LONG, k=20)
    scores = [answer["score"] for answer in best]
    assert len(best) == 20 and scores == sorted(scores, reverse=True) and sum(scores) <= 1 + 1e-5
    assert len({(answer["start"], answer["end"]) for answer in best}) == 20
    assert all(len(answer["text"].split()) <= 4 for answer in best)
    assert model.answer("a", LONG) == pytest.approx(best[0])
    few = model.answer("a", "b c", k=20)
    assert sorted(answer["text"] for answer in few) == ["b", "b c", "c"]
    assert sum(answer["score"] for answer in few) == pytest.approx(1, abs=1e-5)


def test_an_empty_context_has_no_answer(model, eagerly):
    nothing = {"text": "", "score": 0.0, "start": -1, "end": -1, "no_answer_score": float("inf")}
    assert model.answer("a", "") == nothing
    assert model.answer(["a", "a"], ["", "b"], k=2)[0] == [nothing]


def test_the_threshold_decides_whether_there_is_an_answer(model, eagerly):
    try:
        score = model.answer("a", LONG)["no_answer_score"]
        for distance in (-0.01, 0.01):
            model.no_answer_threshold = score + distance
            assert (model.answer("a", LONG)["text"] == "") == (distance < 0)
        model.no_answer_threshold = -1e4
        answer = model.answer("a", LONG)
        assert (answer["text"], answer["start"], answer["end"]) == ("", -1, -1)
        assert answer["score"] == pytest.approx(1)
        found, nothing = model.answer(["a", "a"], ["b c", ""], k=9)
        assert [answer["start"] for answer in found].count(-1) == 1
        assert [answer["score"] for answer in nothing] == pytest.approx([1])
    finally:
        model.no_answer_threshold = None


def test_any_number_of_questions_get_the_answers_that_they_get_alone(model, eagerly):
    contexts = [LONG, *(LONG[2 * index : 2 * index + 20] for index in range(30))] * 3  # more than are searched at once
    answers = model.answer(["a"] * len(contexts), contexts, batch_size=64)
    assert len(answers) == 93
    for index in (31, 64):
        assert model.answer("a", contexts[index]) == pytest.approx(answers[index], abs=1e-4)


def test_answers_are_the_same_on_every_backend():
    pytest.importorskip("tensorflow_text")
    small = TransformerEncoder(
        len(VOCABULARY), num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16, max_sequence_length=16
    )
    model = SpanExtractor(small, BertPreprocessor(VOCABULARY, sequence_length=16))
    for weight in model.weights:
        weight.assign(np.random.default_rng(len(weight.path)).normal(size=weight.shape))
    answer = model.answer("a", "b C\u00e9 good bad e")
    assert answer["text"] == "b C\u00e9 good bad e"[answer["start"] : answer["end"]] != ""
