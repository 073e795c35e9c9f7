"""Each mistake with a tagger is one clear error."""

import keras
import numpy as np
import pytest

from keras_transfer.metrics import EntityF1, WordAccuracy
from keras_transfer.tasks import TokenClassifier
from keras_transfer.text import ElmoPreprocessor, PlainText, word_batches
from tests.tasks.tagging.taggers import NAMES, bert, elmo, examples, tagger


@pytest.fixture(scope="module")
def model():
    model = tagger()
    model.compile("sgd", run_eagerly=True)
    return model


@pytest.fixture(scope="module")
def encoder():
    return bert()[0]


@pytest.mark.parametrize("names", ["NOUN", ["NOUN", "NOUN"], ["NOUN", 3], {"A", "B"}])
def test_names_must_be_at_least_two_and_different(encoder, names):
    with pytest.raises(ValueError, match="`label_names` must be a list of at least two different names. Received"):
        TokenClassifier(encoder, label_names=names)


@pytest.mark.parametrize("encoder", ["minilm-l6"])
def test_an_encoder_must_be_a_model(encoder):
    with pytest.raises(ValueError, match="`encoder` must be a model. Use `from_pretrained"):
        TokenClassifier(encoder, label_names=NAMES)


def test_an_encoder_without_a_vector_for_each_token_is_an_error():
    inputs = keras.Input((4,))
    encoder = keras.Model(inputs, {"pooled_output": keras.layers.Dense(3)(inputs)})
    with pytest.raises(ValueError, match="must return a vector for each token"):
        TokenClassifier(encoder, label_names=NAMES)


def test_a_mix_requires_hidden_states(encoder):
    inputs = keras.Input((None,), dtype="int32")
    embedding = keras.Model(inputs, keras.layers.Embedding(9, 4)(inputs))
    with pytest.raises(ValueError, match="The encoder provides no hidden states, but they are required"):
        TokenClassifier(embedding, label_names=NAMES, scalar_mix=True)
    with pytest.raises(
        ValueError, match="`scalar_mix` must be a boolean or a `layers.ScalarMix`. Received: scalar_mix='yes'"
    ):
        TokenClassifier(encoder, label_names=NAMES, scalar_mix="yes")


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([["a", "b"]], [["LETTER"]], "one label for each word. Received: 2 words, .* in sentence 0"),
        ([["a", "b"]], [["LETTER", "LETTRE"]], "Labels must be one of .* Received: 'LETTRE' for 'b' in sentence 0"),
        ([["a", 1]], [["LETTER", "LETTER"]], "in sentence 0. Texts must be strings, but 1 of 2"),
        ((["a"], ["b"]), [["LETTER"]], "must be a list of lists of words. Pairs are not supported"),
        ((["a"], ["LETTER"]), None, r"Pass labels as a separate argument: `fit\(sentences, labels\)`"),
        (["a b"], [["LETTER"]], "Received: 2 words, .* and 1 labels, .* in sentence 0"),
        (
            ["a", "good"],
            ["LETTER", "WORD"],
            r"Pass a single sentence as `\[words\]`.* Received: 'LETTER' at position 0",
        ),
        (["a", "good"], np.array([0, 1]), r"one list for each sentence.* Received: int64 of shape \(2,\)"),
        ([["a"], ["b"]], [["LETTER"], None], "Received: None at position 1"),
    ],
)
def test_sentences_and_labels_that_do_not_match_are_an_error(model, x, y, message):
    for method in (model.fit, model.evaluate):
        with pytest.raises(ValueError, match=message):
            method(x, y, verbose=0)


def test_labels_of_prepared_data_may_be_whole_floats_and_any_negative_number(model, eagerly):
    inputs = {name: np.ones((2, 3), "int32") for name in model.input}
    labels = np.array([[0, 1, -1], [2, -1, -1]])
    expected = model.evaluate(inputs, labels, verbose=0)
    for same in (labels.astype("float64"), np.where(labels < 0, -100, labels)):
        assert model.evaluate(inputs, same, verbose=0) == expected


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros(2, int), r"Received: int64 of shape \(2,\)"),
        (np.array([[0, -100, 2], [1, 3, -1]]), r"Received: 3 at position \(1, 1\)"),
        (np.full((2, 3), 0.5), r"Received: 0.5 at position \(0, 0\)"),
    ],
)
def test_invalid_labels_of_prepared_data_are_an_error(model, labels, message):
    inputs = {name: np.ones((2, 3), "int32") for name in model.input}
    with pytest.raises(ValueError, match="and negative at positions without a word. " + message):
        model.fit(inputs, labels, verbose=0)


@pytest.mark.parametrize(
    ("preprocessor", "message"),
    [
        (PlainText(), "a preprocessor that takes words.* Received: preprocessor=.*PlainText"),
        (ElmoPreprocessor(), "the encoder's input 'token_ids' .* Received: ElmoPreprocessor, which returns"),
    ],
)
def test_a_preprocessor_that_does_not_fit_is_an_error(encoder, preprocessor, message):
    with pytest.raises(ValueError, match=message):
        TokenClassifier(encoder, preprocessor, label_names=NAMES)


def test_the_number_of_characters_must_match_the_encoder():
    with pytest.raises(ValueError, match=r"the encoder's input 'character_ids' of shape \(None, None, 8\)"):
        TokenClassifier(elmo()[0], ElmoPreprocessor(max_characters=12), label_names=NAMES)


@pytest.mark.parametrize("x", [None, {"token_ids": [[1]]}])
def test_predict_words_requires_sentences_or_texts(model, x):
    with pytest.raises(ValueError, match="must be a list of lists of words, or texts. Received"):
        model.predict_words(x)


def test_the_answer_of_another_task_names_that_of_a_tagger(model):
    with pytest.raises(AttributeError, match="`TokenClassifier` has no method `predict_labels`.*with `predict_words`"):
        model.predict_labels([["a"]])
    assert not hasattr(model, "predict_labels")
    with pytest.raises(AttributeError, match="has no attribute 'colour'"):
        print(model.colour)


def test_a_loss_of_one_hot_labels_is_an_error(model):
    for loss in (keras.losses.CategoricalCrossentropy(from_logits=True), "mse"):
        with pytest.raises(ValueError, match=r"Labels are integers \[batch, length\], so `loss` must accept integers"):
            model.compile("sgd", loss=loss)


@pytest.mark.parametrize(
    "options",
    [
        {"metrics": ["mse"]},
        {"metrics": [keras.metrics.SparseCategoricalAccuracy()]},
        {"metrics": {"logits": ["mse"]}},
        {"weighted_metrics": ["mse"]},
    ],
)
def test_a_metric_that_counts_padding_is_an_error(model, options):
    with pytest.raises(ValueError, match="Metrics must ignore the label -1"):
        model.compile("sgd", **options)


def test_accuracy_is_that_of_words():
    words, tags = examples(4)
    model = tagger()
    right = [best == tag for row, of in zip(model.predict_words(words), tags) for (_, best), tag in zip(row, of)]
    for options in ({"metrics": ["accuracy"]}, {"metrics": {"logits": "acc"}}, {"weighted_metrics": ["accuracy"]}):
        model.compile("sgd", run_eagerly=True, **{"metrics": None, **options})
        assert model.evaluate(words, tags, verbose=0)[1] == pytest.approx(np.mean(right))
    model.compile("sgd", run_eagerly=True, metrics=[WordAccuracy(name="words")])
    assert "words" in model.evaluate(words, tags, verbose=0, return_dict=True)


def test_names_that_are_only_partly_labels_of_entities_give_a_warning(encoder, caplog):
    model = TokenClassifier(encoder, label_names=["O", "B-X", "I-X", "L-X"])
    model.compile("sgd")
    assert "`EntityF1` is not used" in caplog.text and "L-X" in caplog.text
    with pytest.raises(ValueError, match="Labels must be O, or B, I, E or S"):
        EntityF1(NAMES)


def test_a_stream_of_texts_or_of_words_has_a_label_for_each_word(model, eagerly):
    tf = pytest.importorskip("tensorflow")
    texts = tf.data.Dataset.from_tensor_slices((["a b"], [[0, 0]])).batch(1)
    words = tf.data.Dataset.from_tensors((tf.ragged.constant([["a", "b"], ["c"]]), tf.ragged.constant([[0, 1], [1]])))
    for stream, data in ((texts, ([["a", "b"]], [[0, 0]])), (words, ([["a", "b"], ["c"]], [[0, 1], [1]]))):
        expected = model.evaluate(*data, verbose=0)[0]
        assert model.evaluate(stream, verbose=0)[0] == pytest.approx(expected, rel=1e-6)
    wrong = tf.data.Dataset.from_tensor_slices((["a b"], [[0, 0, 0]])).batch(1)
    with pytest.raises(ValueError, match="one label for each word. Received: 2 words"):
        model.evaluate(wrong, verbose=0)


def test_the_outputs_of_a_part_of_the_rows_cannot_be_joined_to_sentences(model):
    data = word_batches(examples(8)[0], preprocessor=model.preprocessor, batch_size=2)
    for part in (data.shard(0, 2), data.take(2)):
        with pytest.raises(ValueError, match="the batches must contain all rows.* Received: rows='4 of 8'"):
            model.predict(part, verbose=0)
