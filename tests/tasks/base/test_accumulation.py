"""Accumulated gradients: batches of any numbers of rows and labels make the update of one large batch."""

import warnings

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import L2SP
from keras_transfer.callbacks import TrainingCheckpoint
from keras_transfer.keras_internals import optimizers
from keras_transfer.optimizers import FusedAdamW, LayerwiseOptimizer
from keras_transfer.tasks import TextClassifier, TokenClassifier
from tests.adaptation.adapters import adapter_models as models
from tests.helpers import EAGER
from tests.tasks.tiny import difference

LENGTHS = np.array([3, 9, 1, 6, 2])  # Batches of two rows have 12, 7 and 2 words.
REAL = np.arange(9) < LENGTHS[:, None]
IDS = np.where(REAL, np.random.default_rng(0).integers(5, 20, REAL.shape), 0).astype("int32")
ROWS = {"token_ids": IDS, "segment_ids": 0 * IDS, "padding_mask": REAL.astype("int32")}
CLASSES = np.array([0, 1, 1, 0, 1])
TARGETS = np.where(REAL, IDS % 2, -1)
WITHOUT = np.where(np.arange(5)[:, None] // 2 == 1, -1, TARGETS)  # The second batch has no labels.
WEIGHTS = {"sample_weight": np.array([1.0, 2.0, 0.5, 0.0, 3.0]), "class_weight": {0: 2.0, 1: 0.5}}
WORDS = {"sample_weight": REAL.astype("float32")}
MASKED = {"mask_positions": np.where(REAL, np.arange(9), -1).astype("int32")}
DECODED = {"decoder_token_ids": IDS[:, ::-1] % 7 + 5, "decoder_padding_mask": ROWS["padding_mask"]}
CASES = {
    "classifier": (models.classifier, {}, CLASSES, {}),
    "weights of rows and classes": (models.classifier, {}, CLASSES, WEIGHTS),
    "tagger": (models.tagger, {}, TARGETS, {}),
    "a batch without labels": (models.tagger, {}, WITHOUT, {}),
    "causal language model": (models.language_model, {}, IDS % 7, WORDS),
    "masked language model": (models.masked, MASKED, TARGETS, {}),
    "sequence to sequence": (models.writer, DECODED, IDS % 7, WORDS),
}


def sgd(task, **options):
    return keras.optimizers.SGD(0.5, **options)


def fused(task, **options):
    return FusedAdamW(0.1, epsilon=0.1, **options)


def compiled(make=models.classifier, optimizer=sgd, steps=None, **options):
    task = make()
    options = {"metrics": [], "run_eagerly": EAGER, **options}
    task.compile(optimizer(task, gradient_accumulation_steps=steps), **options)
    return task


def fit(task, size, *callbacks, more=None, y=CLASSES, epochs=1, **options):
    x = {name: values for name, values in {**ROWS, **(more or {})}.items() if name in task.input}
    options = {"batch_size": size, "epochs": epochs, "shuffle": False, "verbose": 0, **options}
    task.fit(x, y, callbacks=[*callbacks], **options)
    return task.get_weights()


def on_rows(task, *parts, y=CLASSES):
    for part in parts:
        task.train_on_batch({name: ROWS[name][part] for name in task.input}, y[part])
    return task.get_weights()


def assert_equal(found, expected, start):
    assert difference(found, expected) < 1e-6
    assert difference(expected, start) > 1e-3


@pytest.mark.core
@pytest.mark.parametrize("case", CASES)
@pytest.mark.report("Batches of few tokens count as much as others.", "transformers#34191", "torchtune#1875")
def test_batches_of_two_two_and_one_row_make_the_update_of_five_rows(case):
    make, more, y, options = CASES[case]
    eagerly = EAGER and case != "a batch without labels"
    found = fit(compiled(make, steps=3, run_eagerly=eagerly), 2, more=more, y=y, **options)
    assert_equal(found, fit(compiled(make), 5, more=more, y=y, **options), make().get_weights())


@pytest.mark.core
def test_an_update_of_two_epochs_and_the_last_one_of_a_run_are_those_of_their_rows():
    found = fit(compiled(steps=4, run_eagerly=False), 2, epochs=2)
    task = compiled()
    assert_equal(found, on_rows(task, [0, 1, 2, 3, 4, 0, 1], [2, 3, 4]), models.classifier().get_weights())


@pytest.mark.core
def test_all_places_of_a_language_model_count_without_weights():
    def trained(*lengths, steps=None):
        task = compiled(models.language_model, steps=steps)
        for length in lengths:
            x = {name: ROWS[name][[0, 0, 0], :length] for name in task.input}
            task.train_on_batch(x, IDS[[0, 1, 3], :length] % 7)
        return task.get_weights()

    found, parts = trained(9, 2, steps=2), (trained(9), trained(2))
    assert_equal(found, [(9 * a + 2 * b) / 11 for a, b in zip(*parts)], models.language_model().get_weights())


def test_a_compiled_step_of_fused_adamw_makes_the_update_of_the_large_batch():
    found = fit(compiled(optimizer=fused, steps=3, run_eagerly=False), 2, epochs=2)
    assert_equal(found, fit(compiled(optimizer=fused), 5, epochs=2), models.classifier().get_weights())


def test_a_step_of_xla_makes_the_update_of_the_large_batch():
    def tagger():
        return TokenClassifier(models.encoder(num_layers=1), label_names=["A", "B"], dropout=0.0)

    found = on_rows(compiled(tagger, steps=2, jit_compile=True, run_eagerly=False), [0, 1], [2, 3], y=TARGETS)
    assert_equal(found, on_rows(compiled(tagger), [0, 1, 2, 3], y=TARGETS), tagger().get_weights())


@pytest.mark.core
@pytest.mark.parametrize("kind", ["clipped", "a penalty"])
def test_gradients_are_clipped_and_penalized_as_those_of_the_large_batch(kind):
    def optimizer(task, **options):
        if kind == "clipped":
            return sgd(task, global_clipnorm=0.1, **options)
        return LayerwiseOptimizer(sgd(task, **options), task, penalty=L2SP(0.3, new_strength=0.1))

    found = fit(compiled(optimizer=optimizer, steps=3), 2, epochs=2)
    expected = fit(compiled(optimizer=optimizer), 5, epochs=2)
    assert_equal(found, expected, models.classifier().get_weights())


class Crash(keras.callbacks.Callback):
    def __init__(self, steps):
        super().__init__()
        self.steps = steps

    def on_train_batch_end(self, batch, logs=None):
        self.steps -= 1
        if not self.steps:
            raise KeyError("crash")


@pytest.mark.core
@pytest.mark.parametrize(("save_every", "crash"), [(1, 3), ("epoch", 5)])
def test_a_run_that_resumes_between_two_updates_ends_with_the_same_weights(save_every, crash, tmp_path):
    with pytest.raises(KeyError, match="crash"), TrainingCheckpoint(tmp_path, save_every=save_every) as saved:
        fit(compiled(steps=4), 2, saved, Crash(crash), epochs=2)
    found = fit(compiled(steps=4), 2, TrainingCheckpoint(tmp_path, save_every=save_every), epochs=2)
    assert_equal(found, fit(compiled(steps=4), 2, epochs=2), models.classifier().get_weights())


@pytest.mark.core
@pytest.mark.parametrize("is_old", [False, True])
def test_a_file_keeps_the_gradients_that_wait_for_an_update_unless_it_lacks_their_numbers_of_labels(is_old, tmp_path):
    task = compiled(steps=2)
    if is_old:
        object.__setattr__(task, "labels_of_update", None)
    on_rows(task, [0, 1, 2, 3])
    task.save_weights(tmp_path / "a.weights.h5")
    loaded = compiled(steps=2, run_eagerly=EAGER and not is_old)
    loaded.optimizer.build(loaded.trainable_variables)
    loaded.load_weights(tmp_path / "a.weights.h5")
    expected = on_rows(compiled(), [4] if is_old else [0, 1, 2, 3, 4])
    assert_equal(on_rows(loaded, [4]), expected, models.classifier().get_weights())


def test_a_training_checkpoint_without_numbers_of_labels_loads(tmp_path):
    old = compiled(steps=3)
    object.__setattr__(old, "labels_of_update", None)
    with pytest.raises(KeyError, match="crash"), TrainingCheckpoint(tmp_path, save_every=1) as saved:
        fit(old, 2, saved, Crash(3))
    task = compiled(steps=3)
    on_rows(task, [0, 1])
    found = fit(task, 2, TrainingCheckpoint(tmp_path, save_every=1))
    assert_equal(found, on_rows(compiled(), [4]), models.classifier().get_weights())


def scaled(task, **options):
    return keras.optimizers.LossScaleOptimizer(sgd(task, **options), initial_scale=4.0)


def crossentropy(**options):
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"optimizer": scaled},
        {"loss": crossentropy(reduction="sum")},
        {"loss": crossentropy(reduction="mean_with_sample_weight")},
    ],
)
def test_with_a_scaled_loss_or_one_that_is_no_mean_each_batch_counts_the_same(options):
    found = fit(compiled(steps=2, **options), 4)
    options.pop("optimizer", None)
    parts = [on_rows(compiled(**options), part) for part in ([0, 1, 2, 3], [4])]
    expected = [(one + other) / 2 for one, other in zip(*parts)]
    assert_equal(found, expected, models.classifier().get_weights())


def test_the_scales_of_float8_layers_are_the_largest_of_the_batches():
    def parts_of(steps):
        tasks = [compiled(steps=steps, run_eagerly=False) for _ in range(1 if steps else 2)]
        for task in tasks:
            task.quantize("float8")
        return tasks

    (task,), others = parts_of(2), parts_of(None)
    found = on_rows(task, [0, 1, 2, 3], [4])
    parts = [on_rows(other, part) for other, part in zip(others, ([0, 1, 2, 3], [4]))]
    scales = [getattr(weight, "overwrite_with_gradient", False) for weight in task.weights]
    assert any(scales)
    expected = [np.maximum(*pair) if scale else sum(pair) / 2 for scale, pair in zip(scales, zip(*parts))]
    assert difference(found, expected) < 1e-6
    (task,) = parts_of(3)
    on_rows(task, [0, 1, 2, 3], [4])
    optimizers.apply_gradients(task.optimizer, task.trainable_variables)  # As at the end of a run.
    last = [weight for weight, scale in zip(task.get_weights(), scales) if scale]
    assert difference(last, [weight for weight, scale in zip(expected, scales) if scale]) < 1e-6


def test_a_loss_in_another_precision_than_float32_is_weighted():
    class InFloat64(TextClassifier):
        def compute_loss(self, *args, **options):
            return keras.ops.cast(super().compute_loss(*args, **options), "float64")

    def make():
        return InFloat64(models.encoder(), num_classes=2, dropout=0.0)

    expected = fit(compiled(), 5)
    assert_equal(fit(compiled(make, steps=3), 2), expected, models.classifier().get_weights())


@pytest.mark.core
def test_a_task_of_frozen_weights_runs():
    task = compiled(steps=2, run_eagerly=False)
    task.trainable = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Keras warns on some backends.
        found = on_rows(task, [0, 1], [2, 3])
    assert difference(found, models.classifier().get_weights()) == 0
