"""Cross-entropies for integer labels: their values by hand, and their errors."""

import keras
import numpy as np
import pytest

from keras_transfer.losses import IntegerLabelsLoss, SmoothedCrossentropy, SparseCategoricalFocalCrossentropy
from keras_transfer.tasks.keras_losses import of_used_places

random = np.random.default_rng(0)
LABELS, LOGITS = random.integers(0, 4, 16), random.normal(size=(16, 4)).astype("float32")
LIKELY = np.exp(LOGITS) / np.exp(LOGITS).sum(1, keepdims=True)
OWN = LIKELY[np.arange(16), LABELS]


@pytest.mark.core
def test_the_focal_loss_weights_the_cross_entropy_by_what_is_missing_to_certainty():
    expected = (-((1 - OWN) ** 1.5) * np.log(OWN)).mean()
    for labels in (LABELS, LABELS[:, None], LABELS.astype("float32")):
        assert float(SparseCategoricalFocalCrossentropy(gamma=1.5)(labels, LOGITS)) == pytest.approx(expected, rel=1e-5)


def test_without_gamma_or_smoothing_both_are_the_cross_entropy():
    expected = -np.log(OWN).mean()
    for loss in (SparseCategoricalFocalCrossentropy(gamma=0.0), SmoothedCrossentropy(label_smoothing=0.0)):
        assert float(loss(LABELS, LOGITS)) == pytest.approx(expected, rel=1e-5)


def test_smoothed_targets_share_a_fraction_of_the_probability():
    targets = np.eye(4)[LABELS] * 0.8 + 0.2 / 4
    expected = -(targets * np.log(LIKELY)).sum(1).mean()
    assert float(SmoothedCrossentropy(label_smoothing=0.2)(LABELS, LOGITS)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    "loss", [SparseCategoricalFocalCrossentropy(1.0), SmoothedCrossentropy(0.3, reduction="sum", dtype="float16")]
)
def test_a_config_restores_the_loss(loss):
    other = keras.losses.deserialize(keras.losses.serialize(loss))
    assert other.get_config() == loss.get_config() and float(other(LABELS, LOGITS)) == float(loss(LABELS, LOGITS))


@keras.saving.register_keras_serializable("tests")
class Brier(IntegerLabelsLoss):
    """A user's loss, whose labels are one-hot."""

    def __init__(self, scale=1.0, **kwargs):
        super().__init__(**kwargs)
        self.scale = scale

    def of_one_hot(self, y_true, y_pred):
        return self.scale * keras.ops.sum((keras.ops.softmax(y_pred) - y_true) ** 2, axis=-1)


def test_a_loss_of_a_user_counts_the_used_places_of_a_tagger_and_is_saved_by_its_arguments():
    loss = Brier(2.0, name="brier")
    expected = 2 * ((LIKELY - np.eye(4)[LABELS]) ** 2).sum(1).mean()
    assert float(loss(LABELS, LOGITS)) == pytest.approx(expected, rel=1e-5)
    labels = np.concatenate([LABELS, [-1, -1]])[None]
    outputs = np.concatenate([LOGITS, np.ones((2, 4), "float32")])[None]
    assert float(of_used_places(loss, False)(labels, outputs)) == pytest.approx(expected, rel=1e-5)
    again = keras.losses.deserialize(keras.losses.serialize(loss))
    assert (type(again), again.scale, again.name, again.reduction) == (Brier, 2.0, "brier", "sum_over_batch_size")
