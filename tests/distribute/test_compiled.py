"""`jit_compile=True` computes what the plain graph does; a step with static shapes suits a TPU."""

import keras
import numpy as np
import pytest

from keras_transfer.distribute import check_tpu_ready
from keras_transfer.optimizers import FusedAdamW
from keras_transfer.tasks import TextClassifier
from keras_transfer.text import batches
from tests.distribute.examples import examples
from tests.tasks import tiny

tf = pytest.importorskip("tensorflow")

TEXTS, LABELS = examples(37)  # four full batches and one of 5


def run(**options):
    """Trains a classifier compiled with these options for 20 steps, and returns its losses, weights and predictions."""
    keras.utils.set_random_seed(0)
    encoder = tiny.encoder(initializer_range=0.2)
    model = TextClassifier(encoder, num_classes=2, preprocessor=tiny.preprocessor(), pooling="max", dropout=0.0)
    model.compile(keras.optimizers.SGD(0.03, momentum=0.9), **options)
    start = model.get_weights()
    data = batches(
        TEXTS, LABELS, preprocessor=model.preprocessor, batch_size=8, seed=0
    ).few_lengths()  # as a compiled step needs them
    losses = model.fit(data, epochs=4, verbose=0).history["loss"]
    assert int(model.optimizer.iterations.numpy()) == 20
    few = TEXTS[:8], LABELS[:8]
    return {
        "start": start,
        "losses": losses,
        "weights": model.get_weights(),
        "evaluate": model.evaluate(*few, batch_size=8, verbose=0),
        "predict": model.predict(few[0], batch_size=8, verbose=0),
    }


@pytest.mark.slow
def test_compiled_by_xla_a_classifier_learns_and_predicts_the_same_from_raw_texts():
    plain, compiled = run(jit_compile=False), run(jit_compile=True, steps_per_execution=4)
    assert tiny.difference(compiled["weights"], plain["start"]) > 1e-2
    assert tiny.difference(compiled["weights"], plain["weights"]) < 1e-5
    for name in ("losses", "evaluate", "predict"):
        np.testing.assert_allclose(compiled[name], plain[name], atol=1e-5)


# Requirements of TPUStrategy


def whole_batches():
    return tf.data.Dataset.from_tensor_slices((TEXTS, LABELS)).batch(16, drop_remainder=True)


def test_full_batches_of_raw_texts_reach_the_step_as_ids_of_one_static_shape():
    seen = []

    class Recording(TextClassifier):
        def train_step(self, data):
            seen.append(keras.tree.map_structure(lambda x: (x.dtype.name, tuple(x.shape)), data))
            return super().train_step(data)

    model = Recording(tiny.encoder(), tiny.preprocessor(), num_classes=2)
    model.compile("sgd")
    model.fit(whole_batches(), verbose=0)
    ids = dict.fromkeys(("token_ids", "segment_ids", "padding_mask"), ("int32", (16, 32)))
    assert seen == [(ids, ("int32", (16,)))]


def test_full_batches_of_raw_texts_are_ready_for_a_tpu_and_batches_with_a_remainder_are_not():
    encoder = tiny.encoder(dtype="mixed_bfloat16", dropout=0.1)
    model = TextClassifier(encoder, num_classes=2, preprocessor=tiny.preprocessor(), pooling="concat")
    model.compile(FusedAdamW(1e-3, global_clipnorm=1.0), steps_per_execution=8, jit_compile=True)
    report = check_tpu_ready(model, whole_batches(), replicas=8)
    assert report.ok, str(report)
    assert np.isfinite(model.train_on_batch(TEXTS[:16], LABELS[:16])).all()
    remainder = tf.data.Dataset.from_tensor_slices((TEXTS, LABELS)).batch(16)
    assert [finding.kind for finding in check_tpu_ready(model, remainder).findings] == ["shapes"]
