"""Long texts in windows: every token is read, and one answer is made of all windows of a text."""

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import cache_features
from keras_transfer.tasks import TextClassifier, TextEmbedder, TextRegressor
from keras_transfer.text import BertPreprocessor, WindowPreprocessor
from tests.helpers import save_and_load
from tests.tasks.tiny import VOCABULARY, encoder, preprocessor

LENGTH = 8  # of a window, of which 6 are tokens of a text
TEXTS = ["good a", "a b c d e f g h i j a b c bad", "a b c d e f", "", "a b c d e f g good"]


def classifier(windows="mean", **options):
    keras.utils.set_random_seed(0)
    model = TextClassifier(
        encoder(),
        num_classes=2,
        preprocessor=preprocessor(sequence_length=LENGTH),
        dropout=0.0,
        windows=windows,
        **options,
    )
    layer = model.get_layer("logits")
    layer.kernel.assign(layer.kernel * 50.0)
    return model


def windows_of(tokens, overlap=1):
    """The windows of a list of tokens: full ones, and the last ends with the text."""
    starts = [0]
    while starts[-1] + 6 < len(tokens):
        starts.append(min(starts[-1] + 6 - overlap, len(tokens) - 6))
    return [tokens[start : start + 6] for start in starts]


def test_each_of_several_outputs_is_joined():
    model = classifier()
    two = model.over(model.input, {"one": model.output, "half": model.output / 2}, model.reader, "two")
    outputs, expected = two.predict(TEXTS, verbose=0), model.predict(TEXTS, verbose=0)
    np.testing.assert_allclose(outputs["one"], expected, atol=1e-6)
    np.testing.assert_allclose(outputs["half"], expected / 2, atol=1e-6)


def test_windows_overlap_and_the_last_ends_with_the_text():
    windows = WindowPreprocessor(preprocessor(sequence_length=LENGTH), overlap=1)
    ids = {token: place for place, token in enumerate(VOCABULARY)}
    inputs = {name: value.numpy() for name, value in windows(TEXTS).items()}
    expected = [windows_of(text.split()) for text in TEXTS]
    longest = max(map(len, expected))
    assert inputs["token_ids"].shape == (len(TEXTS), longest * LENGTH)
    for row, mask, parts in zip(inputs["token_ids"], inputs["padding_mask"], expected, strict=True):
        found = [ids_of[kept == 1] for ids_of, kept in zip(np.split(row, longest), np.split(mask, longest))]
        found = [part.tolist() for part in found if len(part)]
        assert found == [[2, *(ids[token] for token in part), 3] for part in parts]
    short = windows(TEXTS[:1])["token_ids"]
    np.testing.assert_array_equal(short, preprocessor()(TEXTS[:1], sequence_length="longest")["token_ids"])
    assert windows(TEXTS[1])["token_ids"].shape == inputs["token_ids"][0].shape
    assert windows([])["token_ids"].shape[0] == 0


@pytest.mark.core
@pytest.mark.parametrize("windows", ["mean", "max"])
def test_the_logits_of_a_text_are_the_mean_or_the_maximum_of_those_of_its_windows(windows, eagerly):
    model = classifier(windows)
    plain = TextClassifier(model.encoder, num_classes=2, preprocessor=preprocessor(sequence_length=LENGTH), dropout=0.0)
    plain.get_layer("logits").set_weights(model.get_layer("logits").get_weights())
    expected = []
    for text in TEXTS:
        logits = plain.predict([" ".join(part) for part in windows_of(text.split())], verbose=0)
        expected.append(logits.mean(axis=0) if windows == "mean" else logits.max(axis=0))
    np.testing.assert_allclose(model.predict(TEXTS, verbose=0), expected, atol=1e-5)
    np.testing.assert_allclose(model.predict(TEXTS, batch_size=2, verbose=0), expected, atol=1e-5)


@pytest.mark.slow
def test_it_learns_from_the_end_of_long_texts_which_truncation_loses():
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 64)
    texts = [" ".join([*random.choice(list("abcdefghij"), 9), ["bad", "good"][label]]) for label in labels]
    model = classifier("max")
    model.compile(keras.optimizers.Adam(0.01))
    model.fit(texts, labels, epochs=15, batch_size=16, verbose=0)
    assert model.evaluate(texts, labels, verbose=0, return_dict=True)["accuracy"] > 0.9


def test_a_file_restores_the_windows(eagerly):
    model = classifier()
    loaded = save_and_load(model)
    assert loaded.windows == "mean" and loaded.preprocessor.get_config()["overlap"] == 1
    np.testing.assert_array_equal(loaded.predict(TEXTS, verbose=0), model.predict(TEXTS, verbose=0))


def test_the_exported_signature_answers_for_whole_texts(eagerly):
    import tensorflow as tf

    model = classifier()
    signatures = model.signatures()
    assert list(signatures) == ["serving_default", "tokens"]
    answer = tf.function(signatures["serving_default"].function)(text=tf.constant(TEXTS))
    np.testing.assert_allclose(answer["probabilities"], model.predict_proba(TEXTS), atol=1e-5)


def test_a_checkpoint_holds_the_preprocessor_of_a_window(tmp_path, eagerly):
    model = classifier(pooling="pooled")
    model.save_pretrained(tmp_path / "saved")
    loaded = TextClassifier.from_pretrained(tmp_path / "saved", windows="mean", dropout=0.0)
    np.testing.assert_allclose(loaded.predict(TEXTS, verbose=0), model.predict(TEXTS, verbose=0), atol=1e-5)
    assert TextRegressor.from_pretrained(tmp_path / "saved", num_targets=1, head="new", windows="max").windows == "max"


def test_what_has_no_windows_is_one_clear_error():
    with pytest.raises(ValueError, match="must be a `TokenPreprocessor`.*Received: preprocessor=None"):
        TextClassifier(encoder(), num_classes=2, windows="mean")
    with pytest.raises(ValueError, match="must be at most 32, the encoder's number of positions"):
        TextClassifier(encoder(), num_classes=2, preprocessor=preprocessor(sequence_length=64), windows="mean")
    with pytest.raises(ValueError, match="from 0 to 5, since a window has room for 6 tokens. Received: overlap=6"):
        WindowPreprocessor(BertPreprocessor(VOCABULARY, sequence_length=LENGTH), overlap=6)
    windows = WindowPreprocessor(preprocessor(sequence_length=LENGTH))
    with pytest.raises(ValueError, match="A `WindowPreprocessor` requires `windows`"):
        TextClassifier(encoder(), num_classes=2, preprocessor=windows)
    with pytest.raises(ValueError, match="A `TextEmbedder` does not accept a `WindowPreprocessor`"):
        TextEmbedder(encoder(), windows)
    model = classifier()
    with pytest.raises(ValueError, match="does not support pairs"):
        model.predict((["a"], ["b"]), verbose=0)
    with pytest.raises(ValueError, match="cannot be used with pairs"):
        model.signatures(pairs=True)
    with pytest.raises(ValueError, match="must be None or 'longest'.*Received: sequence_length=4"):
        model.preprocessor(["a"], sequence_length=4)
    with pytest.raises(ValueError, match="of a task with `windows`.* cannot be cached"):
        cache_features(model, ["a"], [0], below="head")
