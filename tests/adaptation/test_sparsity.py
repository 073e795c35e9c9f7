"""Zeros by magnitude and by movement: schedules and scores by hand, what stays 0, resuming, and lottery tickets."""

import contextlib

import keras
import numpy as np
import pytest
from keras import ops

from keras_transfer.adaptation import Movement, WeightPruning, add_adapters, merge_adapters, unfreeze
from keras_transfer.callbacks import TrainingCheckpoint
from keras_transfer.tasks import TextClassifier
from tests.errors import check_errors
from tests.tasks import tiny

TEXTS, LABELS = tiny.examples(24)


def classifier():
    model = tiny.classifier()
    model.compile(keras.optimizers.Adam(0.01))
    return model


def kernels(model):
    """The kernels of the only block by the names of their layers."""
    block = model.encoder.blocks[0]
    layers = {"fused": block.attention.query_key_value, "output": block.attention.output_dense}
    layers |= {"inner": block.feed_forward.inner, "outer": block.feed_forward.outer}
    return {name: ops.convert_to_numpy(layer.kernel).copy() for name, layer in layers.items()}


def zeros(values):
    return float((values == 0).mean())


class Record(keras.callbacks.Callback):
    """Records the zeros of a kernel after each step."""

    def on_train_begin(self, logs=None):
        self.found = []

    def on_train_batch_end(self, batch, logs=None):
        self.found.append(kernels(self.model)["inner"] == 0)


@pytest.mark.core
def test_zeros_grow_by_the_cubic_schedule_and_stay_exactly_zero(tmp_path):
    model, record = classifier(), Record()
    pruning = WeightPruning(0.8, begin_step=2, end_step=6, frequency=2, targets=["query", "inner"])
    before = kernels(model)
    model.fit(TEXTS, LABELS, epochs=3, batch_size=8, callbacks=[pruning, record], verbose=0)
    assert len(record.found) == 9
    half = 0.8 * (1 - 0.5**3)
    expected = [0, 0, 0, half, half, 0.8, 0.8, 0.8, 0.8]
    assert [found.mean() for found in record.found] == pytest.approx(expected, abs=1 / 512)
    for earlier, later in zip(record.found, record.found[1:]):
        assert not (earlier & ~later).any()  # What is pruned remains so.
    found = kernels(model)
    parts = np.split(found["fused"], 3, axis=1)
    assert [zeros(part) for part in parts] == pytest.approx([0.8, 0, 0], abs=1 / 256)
    assert all(zeros(found[name]) == zeros(before[name]) == 0 for name in ("output", "outer"))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(kernels(loaded)["inner"], found["inner"])


def test_the_smallest_weights_are_pruned_and_no_others_change(eagerly):
    model = classifier()
    model.compile(keras.optimizers.SGD(0.0))
    outer, weights = model.encoder.blocks[0].feed_forward.outer.kernel, model.get_weights()
    pruning = WeightPruning(0.25, end_step=1, targets="outer")
    model.fit(TEXTS[:8], LABELS[:8], callbacks=[pruning], batch_size=8, verbose=0)
    place = next(place for place, weight in enumerate(model.weights) if weight is outer)
    before, after = weights.pop(place), ops.convert_to_numpy(outer)
    others = [ops.convert_to_numpy(weight) for weight in model.weights if weight is not outer]
    assert tiny.difference(others, weights) == 0
    kept = after != 0
    assert kept.sum() == 384 and np.abs(before[kept]).min() > np.abs(before[~kept]).max()
    np.testing.assert_array_equal(after[kept], before[kept])


@pytest.mark.core
def test_a_lottery_ticket_has_the_first_weights_and_keeps_its_zeros(eagerly):
    model = classifier()
    start = model.get_weights()
    first = kernels(model)
    model.fit(TEXTS, LABELS, callbacks=[WeightPruning(0.5, end_step=3)], batch_size=8, verbose=0)
    pruned = kernels(model)["inner"]
    model.set_weights([np.where(now == 0, 0, first) for now, first in zip(model.get_weights(), start)])
    np.testing.assert_array_equal(kernels(model)["inner"], np.where(pruned != 0, first["inner"], 0))
    others = [place for place, weight in enumerate(model.weights) if "kernel" not in weight.path]
    assert tiny.difference([model.get_weights()[place] for place in others], [start[place] for place in others]) == 0
    model.compile(keras.optimizers.Adam(0.01))
    model.fit(TEXTS, LABELS, callbacks=[WeightPruning(0.0)], batch_size=8, verbose=0)
    after = kernels(model)["inner"]
    np.testing.assert_array_equal(after == 0, pruned == 0)
    assert np.abs(after - first["inner"])[pruned != 0].max() > 1e-3


# === Movement ===


def with_large_weights():
    keras.utils.set_random_seed(0)
    encoder = tiny.encoder(initializer_range=0.3)
    return TextClassifier(encoder, tiny.preprocessor(), num_classes=2, dropout=0.0)


def with_scores():
    model = unfreeze(add_adapters(with_large_weights(), Movement(["inner", "value"])))
    return model, model.encoder.attached.slots


@pytest.mark.core
def test_scores_and_weights_make_the_steps_of_the_paper(eagerly):
    model, slots = with_scores()
    plain = with_large_weights()
    before = plain.predict(TEXTS[:8], verbose=0)
    np.testing.assert_allclose(model.predict(TEXTS[:8], verbose=0), before, atol=1e-6)
    random, rate = np.random.default_rng(0), 0.5
    block = plain.encoder.blocks[0]
    layers = {"inner": block.feed_forward.inner, "value": block.attention.query_key_value}
    masked = {}
    for slot in slots:
        [adapter], [name] = slot.adapters.values(), slot.adapters["default"].parts
        mask = random.random(adapter.masks[0].shape) < 0.5
        adapter.masks[0].assign(mask)
        start, size = adapter.parts[name]
        kernel = ops.convert_to_numpy(slot.base.kernel).copy()
        whole = np.ones(kernel.shape, bool)
        whole[:, start : start + size] = mask
        masked[name] = kernel, whole, adapter, slot, slice(start, start + size)
        layers[name].kernel.assign(kernel * whole)
    for each in (model, plain):
        each.compile(keras.optimizers.SGD(rate))
        each.fit(TEXTS[:8], LABELS[:8], batch_size=8, verbose=0)
    for name, (kernel, mask, adapter, slot, part) in masked.items():
        gradient = (kernel * mask - ops.convert_to_numpy(layers[name].kernel)) / rate  # dL/dW'
        assert np.abs(gradient[:, part]).max() > 1e-3
        scores = ops.convert_to_numpy(adapter.scores[0])
        np.testing.assert_allclose(scores, (-rate * gradient * kernel)[:, part], atol=1e-6)
        np.testing.assert_allclose(slot.base.kernel, kernel - rate * gradient * mask, atol=1e-6)


@pytest.mark.core
def test_the_lowest_scores_are_masked_and_merged_as_zeros(tmp_path, eagerly):
    model, slots = with_scores()
    model.compile(keras.optimizers.SGD(0.1))
    pruning = WeightPruning(0.75, end_step=6, frequency=1)
    model.fit(TEXTS, LABELS, epochs=2, batch_size=8, callbacks=[pruning], verbose=0)
    for slot in slots:
        [adapter] = slot.adapters.values()
        scores, mask = (ops.convert_to_numpy(values[0]) for values in (adapter.scores, adapter.masks))
        assert mask.mean() == 0.25 and scores[mask].min() >= scores[~mask].max()
    answers = model.predict(TEXTS, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded.predict(TEXTS, verbose=0), answers, atol=1e-6)
    merge_adapters(model)
    np.testing.assert_allclose(model.predict(TEXTS, verbose=0), answers, atol=1e-6)
    assert zeros(kernels(model)["inner"]) == 0.75
    assert [zeros(part) for part in np.split(kernels(model)["fused"], 3, axis=1)] == [0, 0, 0.75]


# === Resuming ===


class Stop(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if int(self.model.optimizer.iterations) == 4:
            raise KeyboardInterrupt


def run(folder, stops):
    keras.utils.set_random_seed(0)
    encoder = tiny.encoder(layer_drop=0.5)
    model = TextClassifier(encoder, tiny.preprocessor(), num_classes=2)
    unfreeze(add_adapters(model, Movement(["query"]))).compile(keras.optimizers.Adam(0.01))
    options = {"end_step": 5, "frequency": 1}
    callbacks = [WeightPruning(0.5, **options), WeightPruning(0.5, targets=["inner"], **options)]
    callbacks += [TrainingCheckpoint(folder, save_every=2), *([Stop()] if stops else [])]
    with contextlib.suppress(KeyboardInterrupt):
        model.fit(TEXTS, LABELS, epochs=2, batch_size=8, callbacks=callbacks, verbose=0)
    return [ops.convert_to_numpy(weight) for weight in model.weights]


@pytest.mark.core
def test_a_killed_run_resumes_with_the_same_zeros_masks_and_skipped_blocks(tmp_path, eagerly):
    whole = run(tmp_path / "whole", stops=False)
    run(tmp_path / "killed", stops=True)
    for weight, expected in zip(run(tmp_path / "killed", stops=False), whole, strict=True):
        np.testing.assert_array_equal(weight, expected)


# === Mistakes ===


def fit(callback):
    return lambda: classifier().fit(TEXTS, LABELS, batch_size=8, callbacks=[callback], verbose=0)


test_a_mistake_is_an_error = check_errors(
    (lambda: WeightPruning(0.5, 4, 4), "`end_step` must be after `begin_step`"),
    (fit(WeightPruning(0.5, end_step=4)), "The run must reach `end_step` ... end_step=4, steps=3"),
    (fit(WeightPruning(0.5, end_step=3, targets="outter")), "A target matches no dense layer"),
)
