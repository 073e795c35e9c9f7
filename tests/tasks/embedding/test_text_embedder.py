"""A text embedder returns a vector for each text, searches, and learns from texts that belong together."""

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import layer_groups
from keras_transfer.checkpoints import WordVectors
from keras_transfer.encoders import ElmoEncoder, WordVectorEncoder
from keras_transfer.losses import (
    ContrastiveLoss,
    CosineSimilarityLoss,
    MatryoshkaLoss,
    MultipleNegativesRankingLoss,
    TripletLoss,
)
from keras_transfer.tasks import TextEmbedder
from keras_transfer.text import ElmoPreprocessor, WordPreprocessor, part_batches
from tests.helpers import EAGER, save_and_load
from tests.tasks.tiny import WORDS, classifier, difference, encoder, ids_of, message, preprocessor

pytestmark = pytest.mark.usefixtures("eagerly")

TEXTS = ["a b", "good", "c d e f g h", "a bad i j", "good good a"]
OTHERS = ["a c b", "good b", "c d e f", "bad i", "a good"]
THIRD = ["h i j", "bad bad", "a", "good f e", "b c d e"]


def embedder(loss=None, **options):
    """An embedder of one block; if there is a loss, one of word vectors, compiled to run eagerly."""
    keras.utils.set_random_seed(0)
    if loss is None:
        return TextEmbedder(encoder(initializer_range=0.3), preprocessor(), **options)
    vectors = WordVectors(WORDS, np.random.default_rng(0).normal(scale=0.2, size=(len(WORDS), 16)))
    model = TextEmbedder(WordVectorEncoder.from_vectors(vectors), WordPreprocessor(WORDS, sequence_length=8), **options)
    model.compile(keras.optimizers.SGD(0.01), loss, run_eagerly=EAGER)
    return model


# === Vectors ===


def test_the_vectors_are_those_of_each_text_alone_in_the_order_of_the_texts():
    model = embedder()
    vectors = model.embed(TEXTS, batch_size=2, verbose=0)
    assert vectors.shape == (5, 16) and vectors.dtype == "float32"
    for text, vector in zip(TEXTS, vectors, strict=True):
        np.testing.assert_allclose(model.embed(text, verbose=0), [vector], atol=1e-5)
    assert model.embed([], verbose=0).shape == (0, 16)
    assert model.predict(([], []), verbose=0).shape == (0, 2, 16)


def test_the_default_pooling_is_that_of_the_checkpoint_then_the_mean():
    assert embedder().pooling == "mean" and not embedder().normalize
    model = TextEmbedder(encoder(pooling="first", normalize=True), preprocessor())
    assert (model.pooling, model.normalize) == ("first", True)
    assert not TextEmbedder(encoder(pooling="first", normalize=True), normalize=False).normalize


@pytest.mark.parametrize("pooling", ["first", "mean", "pooled"])
def test_every_pooling_sees_the_real_tokens_only(pooling):
    model = embedder(pooling=pooling, normalize=True)
    short, long = (ids_of(model, TEXTS[:1]), model.preprocessor(TEXTS[:1], sequence_length=32))
    np.testing.assert_allclose(model(short), model(long), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(model(short), axis=1), 1, rtol=1e-5)


def test_a_classifier_embeds_as_the_embedder_over_its_encoder():
    model = classifier(pooling="mean")
    ours = TextEmbedder(model.encoder, model.preprocessor)
    np.testing.assert_array_equal(model._embedder()(ids_of(model, TEXTS)), ours(ids_of(model, TEXTS)))


def test_the_progress_bar_is_that_of_keras(capsys):
    model = embedder()
    model.run_eagerly = True
    model.embed(TEXTS, batch_size=2, verbose=1)
    assert "3/3" in capsys.readouterr().out


def test_similarities_are_the_cosines_of_all_texts_and_vectors():
    model = embedder()
    first, second = model.embed(TEXTS, verbose=0), model.embed(OTHERS[:3], verbose=0)
    expected = (first @ second.T) / np.outer(np.linalg.norm(first, axis=1), np.linalg.norm(second, axis=1))
    np.testing.assert_allclose(model.similarity(TEXTS, OTHERS[:3], verbose=0), expected, atol=1e-5)
    np.testing.assert_allclose(model.similarity(7 * first, second, verbose=0), expected, atol=1e-5)


def test_search_finds_the_texts_of_the_highest_cosines():
    model = embedder()
    corpus = TEXTS + OTHERS
    cosines = model.similarity(THIRD, corpus, verbose=0)
    scores, indices = model.search(THIRD, corpus, k=3, verbose=0)
    np.testing.assert_array_equal(indices, np.argsort(-cosines, axis=1)[:, :3])
    np.testing.assert_allclose(scores, -np.sort(-cosines, axis=1)[:, :3], atol=1e-6)
    again = model.search(model.embed(THIRD, verbose=0), model.embed(corpus, verbose=0), k=3)
    np.testing.assert_array_equal(again[1], indices)
    assert model.search([], corpus, k=2, verbose=0)[1].shape == (0, 2)


def test_of_equal_texts_search_returns_the_first():
    model = embedder()
    vectors = np.eye(16, dtype="float32")[[3, 1, 3, 3]]
    assert model.search(vectors[:1], vectors, k=2)[1].tolist() == [[0, 2]]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((["a"], ["b"], 0), "`k` must be an integer of at least 1. Received: k=0"),
        ((["a"], ["b"], 2), "`k` must be at most 1, the number of texts in the corpus. Received: k=2"),
        ((["a"], [], 1), "`corpus` must have at least one text. Received: no texts"),
        ((np.ones((1, 3)), np.ones((2, 4)), 1), "must have the same size. Received: 3 and 4"),
        ((np.ones(3), np.ones((2, 3)), 1), "vectors of shape [texts, dim]. Received: shape (3,)"),
        ((np.ones((1, 2)), [[1.0, 2.0], [np.nan, 0.0]], 1), "`corpus` must be finite. Received: array([nan,"),
        (((["a"], ["b"]), ["c"], 1), "`queries` must be one column of texts, such as a list. Received: a tuple of 2"),
    ],
)
def test_searches_that_have_no_answer_are_errors_before_any_text_is_embedded(arguments, expected, monkeypatch):
    monkeypatch.delattr(TextEmbedder, "embed")
    assert expected in message(lambda: embedder().search(*arguments[:2], k=arguments[2], verbose=0))


def test_arguments_and_methods_of_sentence_transformers_name_those_of_the_embedder():
    with pytest.raises(
        TypeError, match=r"`TextEmbedder.search` has no argument `top_k`. Pass `k=...`. Received: top_k=3"
    ):
        embedder().search(["a"], ["b"], top_k=3)
    with pytest.raises(AttributeError, match="no method `encode`. It answers with `embed`, `similarity`, `search`"):
        embedder().encode(["a"])


# === Prompts, dense layers and truncation ===

PROMPTS = {"query": "bad ", "document": "good a "}


def test_a_prompt_is_in_front_of_each_text():
    model = embedder(prompts=PROMPTS)
    plain = model.embed(TEXTS, verbose=0)
    for name, prompt in PROMPTS.items():
        expected = model.embed([prompt + text for text in TEXTS], verbose=0)
        np.testing.assert_array_equal(model.embed(TEXTS, verbose=0, prompt_name=name), expected)
        assert difference(plain, expected) > 1e-3
    assert model.embed([], verbose=0, prompt_name="query").shape == (0, 16)


def test_search_puts_the_prompts_of_queries_and_of_documents_in_front_of_texts():
    model = embedder(prompts=PROMPTS)
    queries, corpus = TEXTS[:2], OTHERS
    vectors = (
        model.embed(queries, prompt_name="query", verbose=0),
        model.embed(corpus, prompt_name="document", verbose=0),
    )
    for ours, theirs in zip(model.search(queries, corpus, k=3, verbose=0), model.search(*vectors, k=3), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_the_default_prompt_is_in_front_of_every_text_however_it_is_passed():
    import tensorflow as tf

    plain, model = embedder(), embedder(prompts=PROMPTS, default_prompt_name="query")
    expected = plain.predict([PROMPTS["query"] + text for text in TEXTS], verbose=0)
    stream = tf.data.Dataset.from_tensor_slices(TEXTS).batch(5)
    labelled = stream.map(lambda text: (text, tf.zeros(5)))
    for found in (
        model.embed(TEXTS, verbose=0),
        model.predict(TEXTS, verbose=0),
        model.predict(stream, verbose=0),
        model.predict(labelled, verbose=0),
        model.predict_on_batch(TEXTS),
        model(TEXTS),
        model((TEXTS, OTHERS))[:, 0],
    ):
        np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_allclose(
        model.embed(TEXTS, verbose=0, prompt_name="document"),
        plain.embed([PROMPTS["document"] + text for text in TEXTS], verbose=0),
        atol=1e-5,
    )


def test_dense_layers_are_between_the_pooling_and_the_normalization_and_vectors_are_truncated_last():
    dense = [{"units": 6, "activation": "tanh"}, {"units": 5, "use_bias": False}]
    model, plain = embedder(dense=dense, normalize=True, truncate_dim=3), embedder()
    assert [weight.path for weight in layer_groups(model)[-1].variables] == [
        "vector_dense_0/kernel",
        "vector_dense_0/bias",
        "vector_dense_1/kernel",
    ]
    kernel, bias, last = (keras.ops.convert_to_numpy(weight) for weight in model.weights[-3:])
    vectors = np.tanh(plain.embed(TEXTS, verbose=0) @ kernel + bias) @ last
    expected = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(model.embed(TEXTS, verbose=0), expected[:, :3], atol=1e-5)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"dense": [{"activation": "tanh"}]}, "a list of dicts of `units`.*at position 0"),
        ({"prompts": {"query": 3}}, "a dict from names to texts"),
        ({"prompts": PROMPTS, "default_prompt_name": "quer"}, "`default_prompt_name` .* Did you mean 'query'"),
    ],
)
def test_wrong_settings_of_vectors_are_errors(options, expected):
    with pytest.raises(ValueError, match=expected):
        embedder(**options)


def test_a_prompt_that_does_not_exist_is_an_error():
    with pytest.raises(
        ValueError, match=r"one of \('document', 'query'\).*Did you mean 'query'\? Received: prompt_name='querry'"
    ):
        embedder(prompts=PROMPTS).embed(TEXTS, prompt_name="querry")


# === Training ===


LOSSES = {
    "ranking of triplets": (MultipleNegativesRankingLoss(symmetric=True), (TEXTS, OTHERS, THIRD), None),
    "cosine": (CosineSimilarityLoss(), (TEXTS, OTHERS), [1.0, 0.5, -1.0, 0.0, 1.0]),
    "matryoshka": (MatryoshkaLoss(MultipleNegativesRankingLoss(), [16, 4]), (TEXTS, OTHERS), None),
}


# Each loss has tests on every backend, so that one with labels and one without suffice here.
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.core] * (name in ("ranking of triplets", "cosine"))) for name in LOSSES],
)
def test_a_step_lowers_the_loss_that_the_vectors_have(name):
    loss, texts, labels = LOSSES[name]
    model = embedder(loss)
    parts = np.stack([model.embed(column, verbose=0) for column in texts], axis=1)
    expected = float(loss(np.zeros(5) if labels is None else np.array(labels), parts))
    start = model.get_weights()
    found = model.fit(texts, labels, batch_size=5, epochs=2, verbose=0).history["loss"]
    assert found[0] == pytest.approx(expected, rel=1e-3)
    assert found[-1] < found[0]
    assert difference(model.get_weights(), start) > 1e-5


def test_evaluate_and_validation_data_take_the_same_rows_as_fit():
    model = embedder(CosineSimilarityLoss())
    labels = [1.0, 0.5, -1.0, 0.0, 1.0]
    vectors = [model.embed(column, verbose=0) for column in (TEXTS, OTHERS)]
    expected = float(CosineSimilarityLoss()(np.array(labels), np.stack(vectors, axis=1)))
    assert model.evaluate((TEXTS, OTHERS), labels, batch_size=2, verbose=0) == pytest.approx(expected, rel=1e-4)
    history = model.fit((TEXTS, OTHERS), labels, validation_data=((TEXTS, OTHERS), labels), verbose=0).history
    assert history["val_loss"][0] < expected
    split = model.fit((TEXTS, OTHERS), labels, validation_split=0.4, verbose=0).history
    assert len(split["val_loss"]) == 1
    model = embedder(MultipleNegativesRankingLoss())
    expected = model.evaluate((TEXTS, OTHERS), verbose=0)
    history = model.fit((TEXTS, OTHERS), validation_data=((TEXTS, OTHERS), None), verbose=0).history
    assert history["val_loss"][0] < expected


def test_the_default_prompt_is_in_front_once_also_with_a_validation_split():
    found, labels, options = [], [1.0, 0.5, -1.0, 0.0, 1.0], {"shuffle": False, "verbose": 0}
    first, last = (
        (tuple(column[part] for column in (TEXTS, OTHERS)), labels[part]) for part in (slice(3), slice(3, 5))
    )
    for x, y, further in (((TEXTS, OTHERS), labels, {"validation_split": 0.4}), (*first, {"validation_data": last})):
        model = embedder(CosineSimilarityLoss(), prompts={"query": "good good "}, default_prompt_name="query")
        found.append(model.fit(x, y, **options, **further).history)
    assert found[0] == found[1]


def test_a_row_counts_as_its_sample_weight_says():
    model = embedder(TripletLoss())
    rows = (TEXTS, OTHERS, THIRD)
    alone = model.evaluate(tuple(column[1:2] for column in rows), verbose=0)
    weighted = model.evaluate(rows, sample_weight=[0, 1, 0, 0, 0], batch_size=5, verbose=0)
    assert weighted == pytest.approx(alone / 5, rel=1e-4)


def test_the_batches_of_ranking_may_be_made_before_and_have_a_seed():
    model = embedder(MultipleNegativesRankingLoss())
    data = part_batches(
        (TEXTS, OTHERS), None, preprocessor=model.preprocessor, batch_size=2, seed=0, drop_remainder=True
    )
    assert len(model.fit(data, epochs=2, verbose=0).history["loss"]) == 2
    assert len(data) == 2 and data.epoch > 0


def test_a_batch_of_one_pair_has_nothing_to_compare_and_is_an_error():
    model, one = embedder(MatryoshkaLoss(MultipleNegativesRankingLoss(), [8])), ([TEXTS[0]], [OTHERS[0]])
    for train in (
        lambda: model.fit((TEXTS, OTHERS), batch_size=1, verbose=0),
        lambda: model.fit(one, verbose=0),
        lambda: model.evaluate((TEXTS, OTHERS), batch_size=1, verbose=0),
        lambda: model.train_on_batch(one),
    ):
        error = message(train)
        assert "a batch needs at least 2 rows. Use a larger `batch_size`" in error and error.endswith("rows=1")
    assert model.predict(one, verbose=0).shape == model.predict_on_batch(one).shape == (1, 2, 16)


def test_a_hard_negative_is_enough_for_a_batch_of_one_row_and_other_losses_need_no_more():
    for loss, rows in (
        (MultipleNegativesRankingLoss(), (TEXTS, OTHERS, THIRD)),
        (CosineSimilarityLoss(), (TEXTS, OTHERS)),
    ):
        labels = [1.0] * 5 if loss.takes_labels else None
        assert embedder(loss).fit(rows, labels, batch_size=1, verbose=0).history["loss"][0] > 0


def test_equal_texts_in_a_batch_are_no_negatives():
    texts = (["a b", "a b", "c"], ["b", "b", "d"])
    model = embedder(MultipleNegativesRankingLoss(scale=1.0))
    anchors, positives = (np.stack([each / np.linalg.norm(each) for each in model.embed(list(part))]) for part in texts)
    scores = anchors @ positives.T
    scores[0, 1] = scores[1, 0] = -np.inf
    expected = np.mean(np.log(np.exp(scores).sum(1)) - np.diagonal(scores))
    assert model.evaluate(texts, verbose=0) == pytest.approx(expected, rel=1e-4)


def test_a_last_pair_alone_joins_the_batch_before_it_and_learns():
    model = embedder(MultipleNegativesRankingLoss())
    pairs = part_batches((TEXTS, OTHERS), None, preprocessor=model.preprocessor, batch_size=4, seed=0)
    data = model.dataset(pairs)
    for _ in range(3):
        assert [len(inputs["token_ids"]) for inputs, _ in (data[i] for i in range(len(data)))] == [5]
        assert sorted(data.order) == list(range(5))
        data.on_epoch_end()
    vectors = [model.embed(column, verbose=0) for column in (TEXTS, OTHERS)]
    expected = float(MultipleNegativesRankingLoss()(np.zeros(5), np.stack(vectors, axis=1)))
    assert model.evaluate((TEXTS, OTHERS), batch_size=4, verbose=0) == pytest.approx(expected, rel=1e-4)
    assert len(embedder(CosineSimilarityLoss()).dataset(pairs)) == 2


def test_one_batch_of_rows_trains_and_the_model_can_be_called_on_rows():
    model = embedder(MultipleNegativesRankingLoss())
    vectors = np.asarray(model((TEXTS, OTHERS)))
    assert vectors.shape == (5, 2, 16)
    np.testing.assert_allclose(vectors[:, 1], model.embed(OTHERS, verbose=0), atol=1e-5)
    np.testing.assert_allclose(model.predict((TEXTS, OTHERS), batch_size=2, verbose=0), vectors, atol=1e-5)
    np.testing.assert_allclose(model.predict_on_batch((TEXTS, OTHERS)), vectors, atol=1e-5)
    before = model.test_on_batch((TEXTS, OTHERS))
    for _ in range(4):
        model.train_on_batch((TEXTS, OTHERS))
    assert model.test_on_batch((TEXTS, OTHERS)) < before


def test_prepared_rows_train_as_raw_ones():
    model = embedder(CosineSimilarityLoss())
    labels = np.array([1.0, 0.5, -1.0, 0.0, 1.0])
    inputs, _ = model.dataset((TEXTS, OTHERS), labels, batch_size=5)[0]
    expected = model.evaluate((TEXTS, OTHERS), labels, verbose=0)
    assert model.evaluate(inputs, labels, verbose=0) == pytest.approx(expected, rel=1e-4)


def test_an_encoder_of_characters_trains():
    keras.utils.set_random_seed(0)
    elmo = ElmoEncoder(embedding_dim=4, filters=[(1, 4), (2, 8)], projection_dim=8, units=16)
    model = TextEmbedder(elmo, ElmoPreprocessor(sequence_length=8))
    model.compile("sgd", run_eagerly=EAGER)
    start = model.get_weights()
    model.fit((TEXTS, OTHERS), verbose=0)
    assert difference(model.get_weights(), start) > 0


def test_an_embedder_survives_keras_files_with_its_loss():
    model = embedder(
        MatryoshkaLoss(MultipleNegativesRankingLoss(scale=5.0), [16, 8], weights=[1.0, 0.5]),
        pooling="max",
        normalize=True,
    )
    model.fit((TEXTS, OTHERS), verbose=0)
    again = save_and_load(model)
    assert again.get_config() == model.get_config()
    np.testing.assert_array_equal(again.embed(TEXTS, verbose=0), model.embed(TEXTS, verbose=0))
    assert again.loss.dims == [16, 8] and again.loss.loss.scale == 5.0
    again.run_eagerly = EAGER
    assert again.evaluate((TEXTS, OTHERS), verbose=0) == pytest.approx(
        model.evaluate((TEXTS, OTHERS), verbose=0), rel=1e-5
    )


# === Mistakes ===


@pytest.mark.parametrize(
    ("loss", "data", "expected"),
    [
        (None, (TEXTS, [1, 0, 1, 0, 1]), "`fit` expects rows of several texts: a tuple of columns"),
        (None, ((TEXTS,),), "at least two columns. Received: x=("),
        (None, ((TEXTS, OTHERS), [1, 0, 1, 0, 1]), "`MultipleNegativesRankingLoss` uses no labels. Leave out `y`."),
        (TripletLoss(), ((TEXTS, OTHERS),), "`TripletLoss` takes rows of 3 texts."),
        (CosineSimilarityLoss(), ((TEXTS, OTHERS),), "`fit` requires labels. Received: y=None"),
        (CosineSimilarityLoss(), ((TEXTS, OTHERS), [0, 1, 0, 5, 0]), "between -1 and 1. Received: 5 at position 3"),
        (ContrastiveLoss(), ((TEXTS, OTHERS), [0, 1, 0.5, 1, 0]), "must be 0 or 1. Received: 0.5 at position 2"),
        (MatryoshkaLoss(ContrastiveLoss(), [16]), ((TEXTS, OTHERS), [2, 1, 0, 1, 0]), "must be 0 or 1. Received: 2 at"),
        (MatryoshkaLoss(TripletLoss(), [17]), ((TEXTS, OTHERS, THIRD),), "at most the size of the vectors, 16."),
    ],
)
def test_rows_that_do_not_fit_the_loss_are_errors(loss, data, expected):
    model = embedder(MultipleNegativesRankingLoss() if loss is None else loss)
    start = model.get_weights()
    assert expected in message(lambda: model.fit(*data, verbose=0))
    assert difference(model.get_weights(), start) == 0


def test_class_weights_and_a_name_as_the_encoder_are_errors():
    model = embedder(MultipleNegativesRankingLoss())
    found = message(lambda: model.fit((TEXTS, OTHERS), class_weight={0: 1.0}))
    assert "`class_weight` requires labels that are classes" in found
    of_keras = ("mse", keras.losses.MeanSquaredError(), keras.losses.MeanSquaredError, keras.losses.cosine_similarity)
    for loss in of_keras:
        assert "`loss` must compare the vectors of a row" in message(lambda loss=loss: model.compile("sgd", loss))
    assert "Unknown loss." in message(lambda: model.compile("sgd", "focl"))
    assert "`train_on_batch` expects rows of several texts" in message(lambda: model.train_on_batch(TEXTS))
    assert "Use `from_pretrained(...)`" in message(lambda: TextEmbedder("minilm-l6"))
    assert "`pooling` must be one of ('pooled', 'first'" in message(lambda: embedder(pooling="avg"))
