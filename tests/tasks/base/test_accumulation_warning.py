"""What `fit` says of accumulated gradients where batches count different numbers of labels."""

import keras
import pytest

from keras_transfer.tasks.checks import warn_of_accumulation
from tests.adaptation.adapters import adapter_models as models


@pytest.mark.parametrize(
    ("make", "steps", "said"),
    [(models.masked, 2, True), (models.tagger, 2, True), (models.classifier, 2, False), (models.masked, None, False)],
)
def test_batches_of_different_numbers_of_labels_are_a_warning(make, steps, said, caplog):
    model = make()
    model.compile(keras.optimizers.SGD(0.1, gradient_accumulation_steps=steps), metrics=[])
    warn_of_accumulation(model)
    assert ("Each of the 2 batches of an update counts the same" in caplog.text) == said
