"""Checks of labels, weights and prepared inputs of a generator or a `tf.data.Dataset`, batch by batch."""

import types

import keras

from keras_transfer.arrays import check_weights, to_array
from keras_transfer.batches import Batches
from keras_transfer.tasks.inputs.streams import is_stream
from keras_transfer.text.base import is_text


def check_no_pairs(data, task_name):
    """Raises a `ValueError` if batches have labels of segment pairs, for a task that makes its own targets."""
    contents = data.contents if isinstance(data, Batches) and data.has_labels else None
    if contents is not None and contents.kind == "pairs" and contents.prepare is None:
        raise ValueError(
            f"A `{task_name}` has no head for pairs of segments. Use `tasks.BertPretraining`, or pass "
            "`corpus.blocks(...)`. Received: rows with labels of pairs"
        )


def check_no_windows(data, task):
    """Raises a `ValueError` if batches are windows of long texts, for a task that carries no state between them."""
    if hasattr(data, "num_streams") and not (hasattr(task, "streams") and hasattr(task.encoder, "empty_state")):
        raise ValueError(
            f"A `{type(task).__name__}` with a `{type(task.encoder).__name__}` expects independent rows of text. Only "
            "recurrent language models accept windows that continue each other. Pass `corpus.blocks(...)`. "
            f"Received: windows of {data.num_streams} streams"
        )


def checked_batches(task, data, method):
    """Makes a generator or `tf.data.Dataset` check the labels, prepared inputs and sample weights of each batch.

    Other data is returned unchanged.

    Args:
        task: `Task`.
        data: Dataset as `Task.dataset` returns it.
        method: String. `"fit"`, `"evaluate"` or `"predict"`. Labels are not checked for `"predict"`.
    """

    def check(labels, inputs):
        try:
            task.labels.check(labels, task.loss)
        except ValueError as error:
            raise _kept(task, f"Invalid labels in a batch of the dataset. {error}") from None
        try:
            task.labels.check_inputs(inputs if isinstance(inputs, dict) else {}, labels)
        except ValueError as error:
            raise _kept(task, f"Invalid inputs in a batch of the dataset. {error}") from None

    def check_weight(weights):
        try:
            for part in keras.tree.flatten(weights):
                check_weights(to_array(part))
        except ValueError as error:
            raise _kept(task, f"Invalid sample weights in a batch of the dataset. {error}") from None

    if isinstance(data, types.GeneratorType):
        unchecked = (lambda *values: None,) * 2
        return _checked_generator(data, *(unchecked if method == "predict" else (check, check_weight)))
    if is_stream(data) and hasattr(data, "map") and method != "predict":
        return _with_checked_labels(data, check, check_weight, bool(task.labels.made_inputs))
    return data


def _kept(task, message):
    """Returns an error that the task keeps, because TensorFlow reports errors in its functions without their types."""
    task.kept_error = ValueError(message)
    return task.kept_error


def _checked_generator(generator, check, check_weight):
    for batch in generator:
        inputs, labels, weights = (
            (*batch, None, None)[:3] if isinstance(batch, tuple) and batch else (batch, None, None)
        )
        if is_text(inputs):
            raise ValueError(
                "A generator must yield batches of prepared inputs and labels, `(inputs, labels)`. Pass raw texts as a "
                f"list: `fit(list(texts), labels)`. Received: a generator that yields {inputs!r:.100}"
            )
        if labels is not None:
            check(labels, inputs)
        if weights is not None:
            check_weight(weights)
        yield batch


def _with_checked_labels(dataset, check, check_weights, with_inputs):
    """Returns a `tf.data.Dataset` with the same batches that first calls functions on their labels and weights.

    This works on every backend, even if the labels are used in a compiled step, which cannot raise errors.

    Args:
        dataset: `tf.data.Dataset` of `(inputs, labels)` or `(inputs, labels, sample_weights)`. Any other dataset, or
            one whose labels are not dense tensors, is returned unchanged.
        check: Function that receives labels, a NumPy array or a dict of arrays, and a dict of inputs or `None`, and
            raises an error if they are invalid.
        check_weights: The same for sample weights. Weights that are not dense tensors are not checked.
        with_inputs: Boolean. Whether `check` needs the inputs.
    """
    import tensorflow as tf

    spec = dataset.element_spec
    if not isinstance(spec, tuple) or len(spec) < 2 or not _is_dense(spec[1], tf.TensorSpec):
        return dataset

    def after(check, values, *others):
        parts = tf.nest.flatten(values)

        def run(*arrays):
            check(*tf.nest.pack_sequence_as((values, *others), arrays))
            return arrays[: len(parts)]

        same = tf.numpy_function(run, tf.nest.flatten((values, *others)), [part.dtype for part in parts])
        for part, before in zip(same, parts):
            part.set_shape(before.shape)
        return tf.nest.pack_sequence_as(values, same)

    def checked(inputs, labels, *weights):
        weights = [after(check_weights, each) if _is_dense(each, tf.Tensor) else each for each in weights]
        seen = inputs if with_inputs and isinstance(inputs, dict) and _is_dense(inputs, tf.Tensor) else {}
        return inputs, after(check, labels, seen), *weights

    return dataset.map(checked)


def _is_dense(values, kind):
    return isinstance(values, kind) or (
        isinstance(values, dict) and bool(values) and all(isinstance(value, kind) for value in values.values())
    )
