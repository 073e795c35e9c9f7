"""Cross-entropies for integer labels: their values by hand, and their errors."""

import keras
import numpy as np
import pytest

from keras_transfer.losses import SmoothedCrossentropy, SparseCategoricalFocalCrossentropy

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
