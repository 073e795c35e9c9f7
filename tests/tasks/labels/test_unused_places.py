"""Places without a label, such as padding, count in no loss that a task can be given."""

import keras
import numpy as np
import pytest

from keras_transfer.encoders import T5
from keras_transfer.losses import SmoothedCrossentropy, SparseCategoricalFocalCrossentropy
from keras_transfer.objectives import TokenMasking
from keras_transfer.tasks import MaskedLM, Seq2SeqLM, SpanExtractor
from keras_transfer.tasks.keras_losses import UsedPlaces, of_used_places
from tests.errors import check_errors
from tests.helpers import EAGER
from tests.tasks.tagging.taggers import examples, tagger
from tests.tasks.tiny import encoder, preprocessor

TEXTS = ["a b c d e f g", "a b", "good"]
LOGITS = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
LABELS = np.array([[1, 3, -1], [0, -1, -1]])
CROSSENTROPY = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def own_loss(y_true, y_pred):
    """A user's loss for each place, which does not know that some are unused."""
    return keras.ops.sum(keras.ops.square(y_pred), axis=-1)


def in_numpy(loss):
    """The losses of the three used places of `LABELS`."""
    logits, labels = LOGITS[LABELS >= 0], LABELS[LABELS >= 0]
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    right = logs[np.arange(3), labels]
    if loss is own_loss:
        return (logits**2).sum(-1)
    if isinstance(loss, SmoothedCrossentropy):
        return -0.9 * right - 0.1 * logs.mean(-1)
    return -right * (1 - np.exp(right)) ** 2 if isinstance(loss, SparseCategoricalFocalCrossentropy) else -right


LOSSES = [CROSSENTROPY, SmoothedCrossentropy(0.1), SparseCategoricalFocalCrossentropy(2.0), own_loss]


@pytest.mark.core
@pytest.mark.parametrize("loss", LOSSES, ids=["crossentropy", "smoothed", "focal", "own"])
def test_a_loss_is_the_mean_over_the_used_places(loss):
    expected = in_numpy(loss)
    weights = np.array([[1.0, 0.5, 1.0], [2.0, 1.0, 1.0]], "float32")
    found = of_used_places(loss, by_weight=False)
    np.testing.assert_allclose(found(LABELS, LOGITS), expected.mean(), rtol=1e-5)
    np.testing.assert_allclose(found(LABELS, LOGITS, weights), (expected * [1, 0.5, 2]).sum() / 3, rtol=1e-5)
    again = keras.losses.deserialize(keras.losses.serialize(found), {"own_loss": own_loss})
    np.testing.assert_allclose(again(LABELS, LOGITS), expected.mean(), rtol=1e-5)


def test_places_of_weight_zero_are_unused_if_the_weights_mark_padding():
    found = UsedPlaces(CROSSENTROPY, by_weight=True)
    labels, used = np.maximum(LABELS, 0), (LABELS >= 0).astype("float32")
    for weight in (1.0, 0.1):
        np.testing.assert_allclose(
            found(labels, LOGITS, weight * used), weight * in_numpy(CROSSENTROPY).mean(), rtol=1e-5
        )


@pytest.mark.parametrize("reduction", ["sum", "mean_with_sample_weight"])
def test_the_reduction_of_a_loss_is_kept(reduction):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=reduction)
    found, expected = of_used_places(loss, by_weight=False), in_numpy(loss)
    weights = np.array([[1.0, 0.5, 1.0], [2.0, 1.0, 1.0]], "float32")
    value = (expected * [1, 0.5, 2]).sum() / (1 if reduction == "sum" else 3.5)
    np.testing.assert_allclose(found(LABELS, LOGITS, weights), value, rtol=1e-5)


def test_a_loss_of_the_user_that_leaves_out_places_itself_is_not_changed():
    def of_rows(y_true, y_pred):
        return keras.ops.sum(keras.ops.cast(y_true >= 0, "float32"), axis=-1)

    np.testing.assert_allclose(of_used_places(of_rows, by_weight=False)(LABELS, LOGITS), 1.5)


def test_a_loss_without_a_name_runs_in_a_graph():
    model = tagger("vectors")
    model.compile("sgd", loss=lambda y_true, y_pred: keras.ops.sum(y_pred**2, axis=-1), metrics=None)
    assert model.evaluate(*examples(3), verbose=0) > 0


def masked_lm():
    return MaskedLM(encoder(), preprocessor(), objective=TokenMasking(seed=0)), (TEXTS,)


def seq2seq_lm():
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "head_dim": 4, "intermediate_dim": 8}
    return Seq2SeqLM(T5(17, dropout=0.0, **sizes), preprocessor()), (TEXTS, TEXTS[::-1])


def words():
    return tagger(), examples(3)


@pytest.mark.parametrize("make", [words, masked_lm, seq2seq_lm])
def test_weights_of_rows_count_for_all_places_of_prepared_data(make):
    tf = pytest.importorskip("tensorflow")
    model, data = make()
    model.compile("sgd", weighted_metrics=["accuracy"], run_eagerly=True)
    inputs, labels, *marks = model.dataset(*data, batch_size=8)[0]
    rows = np.array([1.0, 0.5, 0.0], "float32")[: len(labels)]
    places = np.broadcast_to(rows[:, None], labels.shape) * (marks[0] if make is seq2seq_lm else 1)
    expected = model.evaluate(inputs, labels, sample_weight=places, verbose=0)
    stream = tf.data.Dataset.from_tensor_slices((inputs, labels, rows)).batch(8)
    assert model.evaluate(inputs, labels, sample_weight=rows, verbose=0) == pytest.approx(expected, rel=1e-5)
    assert model.evaluate(stream, verbose=0) == pytest.approx(expected, rel=1e-5)
    assert model.test_on_batch(inputs, labels, rows) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("make", [words, masked_lm, seq2seq_lm])
def test_the_loss_that_errors_recommend_is_the_default_loss(make):
    keras.utils.set_random_seed(0)
    model, data = make()
    found = {}
    for loss in ("auto", CROSSENTROPY, "label_smoothing", SmoothedCrossentropy(0.0), "focal"):
        model.compile("sgd", loss=loss, metrics=None, run_eagerly=EAGER)
        found[str(loss)] = model.evaluate(*data, verbose=0)
    default, crossentropy, smoothed, unsmoothed, focal = found.values()
    assert crossentropy == pytest.approx(default, rel=1e-5)
    assert unsmoothed == pytest.approx(default, rel=1e-5)
    assert default * 0.9 < smoothed != default and focal < default


def test_the_loss_of_a_tagger_does_not_depend_on_padding():
    sentences, tags = examples(2)
    sentences, tags = [sentences[0], sentences[0] * 3], [tags[0], tags[0] * 3]
    model = tagger()
    model.compile("sgd", loss="label_smoothing", metrics=None, run_eagerly=EAGER)
    alone = [model.evaluate([row], [names], verbose=0) for row, names in zip(sentences, tags)]
    counts = [len(row) for row in sentences]
    assert model.evaluate(sentences, tags, verbose=0) == pytest.approx(np.average(alone, weights=counts), rel=1e-4)


def test_sample_weights_scale_the_loss_and_the_steps_of_a_sequence_to_sequence_model():
    losses, changes = [], []
    for weight in (1.0, 0.1):
        keras.utils.set_random_seed(0)
        model, data = seq2seq_lm()
        before = model.get_weights()
        model.compile(keras.optimizers.SGD(0.1), run_eagerly=EAGER, metrics=None)
        weights = np.full(3, weight)
        losses.append(model.evaluate(*data, sample_weight=weights, verbose=0))
        model.fit(*data, sample_weight=weights, shuffle=False, verbose=0)
        changes.append(sum(np.abs(b - a).sum() for a, b in zip(before, model.get_weights())))
    assert losses[1] == pytest.approx(0.1 * losses[0], rel=1e-4)
    assert changes[1] == pytest.approx(0.1 * changes[0], rel=1e-2)


def test_sample_weights_scale_the_losses_of_the_pretrained_language_models():
    model, data = seq2seq_lm()
    inputs, targets, used = model.dataset(*data, batch_size=3)[0]
    layer = model._language_models
    whole, part = (float(layer(inputs, targets, weight * used)) for weight in (1.0, 0.1))
    assert part == pytest.approx(0.1 * whole, rel=1e-4)


IGNORING = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=2)

test_a_loss_that_does_not_fit_places_is_an_error = check_errors(
    (lambda: tagger().compile("sgd", loss=IGNORING), "must ignore the label -1 ... leave `ignore_class` out"),
    (
        lambda: SpanExtractor(encoder(), preprocessor()).compile("sgd", loss=SmoothedCrossentropy()),
        "cannot be a `SmoothedCrossentropy` ... positions where no answer can be",
    ),
)


def test_the_focal_loss_of_a_span_extractor_is_evaluated(eagerly):
    model = SpanExtractor(encoder(), preprocessor())
    model.compile("sgd", loss="focal", metrics=None)
    assert 0 < model.evaluate((["a", "b"], ["a b c", "c d"]), [("a", 0), None], verbose=0) < 5
