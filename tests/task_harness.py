"""What every task must do: train, keep the order of rows, survive files, and refuse what it cannot read."""

import keras
import numpy as np
import pytest

from tests.helpers import EAGER, eager, save_and_load, unbuilt


@eager()  # Each task is traced where it learns.
def run_task_test(make, x, y, outputs=None, answer=None):
    """Checks a task.

    Args:
        make: function that returns the task over a new encoder, the same each time.
        x: raw data of at least three rows, as `fit` takes them.
        y: their labels, or None if the task makes its targets.
        outputs: function of the task and raw data that returns a list or an array with the outputs of each row. By
            default `predict`.
        answer: function of the task and raw data that returns its answers in plain Python, one for each row.
    """
    task = make()
    outputs = outputs or (lambda task, rows: task.predict(rows, verbose=0))
    first = _rows(x, slice(1))

    # Not compiled, without a preprocessor, and without rows.
    with pytest.raises(ValueError, match="Call `compile` before `fit`"):
        task.fit(x, y)

    # The order of rows is kept, whatever their lengths and the size of the batches.
    every, alone = outputs(task, x), outputs(task, first)
    assert len(every) == _count(x)
    np.testing.assert_allclose(np.asarray(every[0]), np.asarray(alone[0]), atol=1e-5)

    # What trains moves, what is frozen is bit-identical.
    frozen = next(layer for layer in task.encoder.layers if layer.weights)
    frozen.trainable = False
    task.compile(keras.optimizers.SGD(0.1), run_eagerly=EAGER)
    before = {id(weight): keras.ops.convert_to_numpy(weight) for weight in task.weights}
    history = task.fit(x, y, batch_size=2, epochs=2, verbose=0).history
    assert np.isfinite(history["loss"]).all() and unbuilt(task) == []
    still = {id(weight) for weight in frozen.weights}
    changed = [weight for weight in task.weights if (keras.ops.convert_to_numpy(weight) != before[id(weight)]).any()]
    assert changed and not [weight.path for weight in changed if id(weight) in still]

    # One batch trains and is evaluated as the rows that it has.
    assert np.isfinite(task.train_on_batch(x, y)).all()
    loss = task.evaluate(x, y, batch_size=_count(x), verbose=0, return_dict=True)["loss"]
    draws = hasattr(task, "objective")  # An objective draws other tokens for each call.
    assert draws or task.test_on_batch(x, y, return_dict=True)["loss"] == pytest.approx(loss, rel=1e-4)

    # A file has the same outputs and answers, and keeps what is frozen.
    loaded = save_and_load(task)
    assert type(loaded) is type(task) and loaded.get_config() == task.get_config()
    for ours, theirs in zip(outputs(task, x), outputs(loaded, x), strict=True):
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))
    if answer is not None:
        found = answer(task, x)
        assert len(found) == _count(x) and answer(loaded, x) == found
    assert [weight.trainable for weight in loaded.weights] == [weight.trainable for weight in task.weights]

    # It has a signature for raw text.
    signatures = task.signatures(pairs=task.fitted_on == "pairs" or getattr(task, "siamese", False))
    assert set(signatures) and all(signature.inputs for signature in signatures.values())


def _rows(x, part):
    return tuple(column[part] for column in x) if isinstance(x, tuple) else x[part]


def _count(x):
    return len(x[0] if isinstance(x, tuple) else x)
