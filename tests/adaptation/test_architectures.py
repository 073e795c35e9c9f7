"""Gradual unfreezing and layer-wise rates on the encoder of each architecture."""

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import layer_groups
from keras_transfer.callbacks import GradualUnfreezing
from keras_transfer.encoders import Encoder
from keras_transfer.optimizers import LayerwiseOptimizer
from keras_transfer.tasks import TextClassifier
from tests.architecture import FIXTURES
from tests.helpers import EAGER
from tests.training.runs.staging_models import Watch

NAMES = ["albert", "deberta-v2_convolution", "xlnet"]


@pytest.mark.parametrize("name", NAMES)
def test_groups_thaw_from_the_top_and_train_at_their_own_rates(name):
    encoder = Encoder.from_pretrained(
        FIXTURES / name, dropout=0.0, **({} if name == "xlnet" else {"attention_dropout": 0.0})
    )
    model = TextClassifier(encoder, num_classes=2, dropout=0.0)
    arrays = np.load(FIXTURES / name / "outputs.npz")
    inputs = {key: arrays[key] for key in encoder.input}
    groups = layer_groups(model)
    model.compile(LayerwiseOptimizer(keras.optimizers.SGD(0.1), model, decay=0.5), run_eagerly=EAGER)
    watch, epochs = Watch(), len(groups)
    model.fit(inputs, np.array([0, 1]), epochs=epochs, verbose=0, callbacks=[GradualUnfreezing(steps=1), watch])
    for step, moved in enumerate(watch.steps):
        thawed = {group.name for group in groups[-1 - step :]}
        assert {group.name for group in groups if moved & {v.path for v in group.variables}} == thawed
    multipliers = [model.optimizer.rates[group.name] for group in groups]
    np.testing.assert_allclose(multipliers, 0.5 ** np.arange(len(groups))[::-1])
