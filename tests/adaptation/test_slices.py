"""Slices: the model and its loss against NumPy, what trains, files, exports, and mistakes."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transfer.adaptation import SliceClassifier, add_adapters
from keras_transfer.checkpoints import WordVectors
from keras_transfer.encoders import WordVectorEncoder
from keras_transfer.serving import export
from keras_transfer.text import WordPreprocessor
from tests.errors import check_errors
from tests.tasks import tiny

TEXTS, LABELS = ["good a b c d", "bad", "a good", "bad b c", "a b"], ["good", "bad", "good", "bad", "new"]
NAMES, SLICES = (
    ["bad", "good", "new"],
    {"short": lambda text: len(text.split()) < 3, "hard": np.array([1, 0, 0, 0, 1]) > 0},
)
SLICES_OF = {"short": np.array([SLICES["short"](text) for text in TEXTS]), "hard": SLICES["hard"]}


def sliced(names=NAMES, slices=("short", "hard"), **options):
    keras.utils.set_random_seed(0)
    encoder = tiny.encoder(initializer_range=0.3)
    return SliceClassifier(
        encoder, tiny.preprocessor(), label_names=names, slices=slices, dropout=0.0, pooling="pooled", **options
    )


def arrays(layer):
    return [ops.convert_to_numpy(weight).astype("float64") for weight in layer.weights]


def log_softmax(values):
    return values - np.log(np.exp(values).sum(axis=-1, keepdims=True))


def parts_of(model, texts=TEXTS, multi_label=False):
    """The logits of the answers, of the experts `[texts, slices, classes]` and of the indicators, with NumPy."""
    inputs = model.reader.in_one_batch(texts)
    pooled = ops.convert_to_numpy(model.encoder(inputs)["pooled_output"]).astype("float64")
    names = ("slice_indicators", "slice_experts", "slice_logits", "logits")
    (q, q0), (e, e0), (p, p0), (w, w0) = (arrays(model.get_layer(name)) for name in names)
    indicators = pooled @ q + q0
    experts = (pooled @ e + e0).reshape(len(texts), indicators.shape[1], -1)
    logits = experts @ p + p0
    if multi_label:
        confidence = np.abs(logits).mean(axis=-1)
    else:
        likely = np.exp(log_softmax(logits)).max(axis=-1)
        confidence = np.log(likely / (1 - likely))
    attention = np.exp(log_softmax(indicators + confidence))
    return np.einsum("tk,tkh->th", attention, experts) @ w + w0, logits, indicators


def expected_loss(model, labels=LABELS, weight=1.0, experts_weight=1.0):
    answers, experts, indicators = parts_of(model)
    places = [NAMES.index(label) for label in labels]
    members = [np.ones(5, bool), [SLICES["short"](text) for text in TEXTS], SLICES["hard"]]
    found = -log_softmax(answers)[range(5), places].mean()
    for slice_, inside in enumerate(map(np.array, members)):
        signs = np.where(inside, 1, -1)
        found += weight * np.log1p(np.exp(-signs * indicators[:, slice_])).mean()
        found += experts_weight * weight * -log_softmax(experts[:, slice_])[range(5), places][inside].mean()
    return found


def train(model, labels=LABELS, weight=1.0, optimizer=None, **options):
    both = model.with_slices(weight)
    both.compile(optimizer or keras.optimizers.SGD(0.0))
    y = model.slice_labels(TEXTS, labels, SLICES)
    return both.fit(TEXTS, y, batch_size=5, verbose=0, **options).history


@pytest.mark.core
def test_the_experts_are_weighted_by_indicators_and_confidence_and_learn_from_their_slices(eagerly):
    model = sliced()
    np.testing.assert_allclose(model.predict(TEXTS, verbose=0), parts_of(model)[0], atol=1e-5)
    found = train(model, weight=0.5)
    assert found["loss"][0] == pytest.approx(expected_loss(model, weight=0.5), rel=1e-5)
    right = model.predict(TEXTS, verbose=0).argmax(axis=1) == [1, 0, 1, 0, 2]
    assert found["label_accuracy"][0] == pytest.approx(right.mean())


def twice(y_true, y_pred):
    return 2 * keras.losses.sparse_categorical_crossentropy(y_true, y_pred, from_logits=True)


def test_one_loss_is_that_of_the_labels_and_the_experts(eagerly):
    model = sliced()
    both, y = model.with_slices(), model.slice_labels(TEXTS, LABELS, SLICES)
    both.compile(loss=twice)
    found = both.evaluate(TEXTS, y, verbose=0, return_dict=True)["loss"]
    indicators = expected_loss(model, experts_weight=0.0) - expected_loss(model, weight=0.0)
    assert found == pytest.approx(2 * (expected_loss(model) - indicators) + indicators, rel=1e-5)
    both.compile(loss=dict.fromkeys(("all", "short", "hard")))
    found = both.evaluate(TEXTS, y, verbose=0, return_dict=True)["loss"]
    assert found == pytest.approx(expected_loss(model, weight=0.0), rel=1e-5)


@pytest.mark.core
def test_all_weights_but_frozen_ones_move(eagerly):
    model = sliced()
    model.encoder.trainable = False
    before = [ops.convert_to_numpy(weight) for weight in model.weights]
    train(model, optimizer=keras.optimizers.SGD(0.1))
    frozen = {id(weight) for weight in model.encoder.weights}
    for weight, old in zip(model.weights, before, strict=True):
        assert (ops.convert_to_numpy(weight) == old).all() == (id(weight) in frozen), weight.path


def test_several_labels_of_a_text_have_experts_too(eagerly):
    model = sliced(multi_label=True)
    answers, experts, indicators = parts_of(model, multi_label=True)
    np.testing.assert_allclose(model.predict(TEXTS, verbose=0), answers, atol=1e-5)
    labels = [["good"], [], ["bad", "good"], ["new"], []]
    signs = np.array([[1 if name in row else -1 for name in NAMES] for row in labels])
    each = [np.log1p(np.exp(-signs * logits)).mean(axis=-1) for logits in (answers, *experts.transpose(1, 0, 2))]
    inside = np.array([[True] * 5, [SLICES["short"](text) for text in TEXTS], SLICES["hard"]])
    expected = each[0].mean() + np.log1p(np.exp(np.where(inside.T, -1, 1) * indicators)).mean(axis=0).sum()
    expected += sum(losses[members].mean() for losses, members in zip(each[1:], inside))
    assert train(model, labels)["loss"][0] == pytest.approx(expected, rel=1e-5)


def test_weights_of_texts_count_for_all_heads(eagerly):
    model, weights = sliced(), np.array([1.0, 1.0, 0.0, 1.0, 1.0])  # The third text is in no slice.
    found = train(model, sample_weight=weights)
    answers, experts, _ = parts_of(model)
    place = [NAMES.index(label) for label in LABELS]
    losses = [-log_softmax(logits)[range(5), place] for logits in (answers, experts[:, 1])]
    indicator = np.log1p(np.exp(np.where(SLICES_OF["short"], -1, 1) * parts_of(model)[2][:, 1]))
    assert found["label_loss"][0] == pytest.approx((weights * losses[0]).mean(), rel=1e-5)
    inside = SLICES_OF["short"] / SLICES_OF["short"].sum()
    expected = (weights * indicator).mean() + (weights * losses[1] * inside).sum()
    assert found["short_loss"][0] == pytest.approx(expected, rel=1e-5)


@pytest.mark.core
def test_files_and_adapted_encoders_answer_without_slices(tmp_path, eagerly):
    model = sliced(expert_dim=5)
    add_adapters(model, "lora")
    train(model, optimizer=keras.optimizers.SGD(0.1))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.slices == ["short", "hard"] and loaded.get_layer("slice_experts").units == 15
    np.testing.assert_allclose(loaded.predict(TEXTS, verbose=0), model.predict(TEXTS, verbose=0), atol=1e-6)
    assert loaded.predict_labels(TEXTS) == model.predict_labels(TEXTS)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="exports with TensorFlow")
def test_an_export_answers_like_the_model(tmp_path):
    import tensorflow as tf

    words = WordPreprocessor(tiny.WORDS, sequence_length=8)
    vectors = WordVectors(tiny.WORDS, np.random.default_rng(0).normal(size=(len(tiny.WORDS), 4)))
    encoder = WordVectorEncoder.from_vectors(vectors)
    model = SliceClassifier(encoder, words, label_names=NAMES[:2], slices=["short"])
    export(model, tmp_path / "served", verbose=0)
    served = tf.saved_model.load(str(tmp_path / "served")).signatures["serving_default"]
    found = served(text=tf.constant(TEXTS))
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(TEXTS), atol=1e-6)


def labels_of(slices, texts=TEXTS, labels=LABELS):
    return lambda: sliced().slice_labels(texts, labels, slices)


test_what_does_not_fit_is_an_error_before_anything_runs = check_errors(
    (lambda: sliced(slices=["a", "a"]), "`slices` must be different names other than 'all' and 'label'"),
    (lambda: sliced(slices=["all"]), "other than 'all' and 'label'"),
    (lambda: sliced(slices=[]), "a list of at least 1"),
    (labels_of({"short": len}), "the names of the slices of the model, ['short', 'hard'] ... slices=['short']"),
    (labels_of({**SLICES, "short": lambda text: False}), "some of the texts, and not all ... 'short', members=0"),
    (labels_of({**SLICES, "short": np.ones(5, bool)}), "and not all ... members=5, texts=5"),
    (labels_of({**SLICES, "short": [True]}), "`slices['short']` must be a function, or a column, with True or False"),
    (labels_of({**SLICES, "short": len}), "True or False for each text ... texts=5"),
    (labels_of(SLICES, labels=LABELS[:4]), "for each text ... texts=5, labels=4"),
    (labels_of(SLICES, labels=["evil"] * 5), "evil"),
    (
        lambda: sliced().with_slices().compile(metrics=["f1"]),
        "Head 'all': A slice has no metrics. Pass those of the labels as {'label': [...]}. Received: metrics=[['f1']]",
    ),
    (lambda: sliced(windows="mean").with_slices(), "cuts texts into `windows` cannot have further heads"),
    (lambda: sliced().save_pretrained("folder"), "The head of a SliceClassifier cannot be written"),
)
