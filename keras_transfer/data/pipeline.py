"""Batches in the form in which Keras's methods are fastest: a `tf.data.Dataset` on TensorFlow."""

import keras
import numpy as np

from keras_transfer.core.lazy import tf


def as_pipeline(data, may_end_early=False):
    """Returns `Batches` on TensorFlow, or a `Stream`, in the form that Keras's methods should receive.

    Anything else is returned unchanged. Without the spec of a pipeline, Keras would infer which axes vary from the
    first two batches, trace a step again if it is wrong, and let TensorFlow tune the pipeline. At the end of each
    epoch, TensorFlow would wait for the thread that tunes it, which sleeps for up to a minute.

    The pipeline follows the epoch of the batches, which the `Progress` of a run counts: Keras starts it more often than
    once per epoch. If an epoch may end early, such as a resumed one, a pipeline that is read only once is slower.
    """
    if hasattr(data, "for_keras"):
        return data.for_keras()
    if keras.backend.backend() != "tensorflow" or not hasattr(data, "planned"):
        return data
    return read_ahead(_by_index(data, may_end_early), data)


def read_ahead(dataset, made_from):
    """Returns a `tf.data.Dataset` that prepares two batches ahead and knows the data that it was made from."""
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    found = dataset.prefetch(2).with_options(options)
    found.made_from = made_from
    return found


def _by_index(data, may_end_early):
    """Returns a `tf.data.Dataset` that reads batches by their index. `from_generator` takes three times as long."""
    spec, epoch, count = _spec(data), {}, len(data.planned())
    leaves = tf.nest.flatten(spec)
    may_end_early = may_end_early or len(data) < count

    def begin():
        epoch["batches"] = data.pinned()

    def is_there(index):
        if index == 0:
            begin()
        return np.bool_(index < len(epoch["batches"]))

    def read(index):
        if index == 0 and not may_end_early:
            begin()
        return tf.nest.flatten(epoch["batches"][index])

    def check(index):
        return tf.ensure_shape(tf.numpy_function(is_there, [index], tf.bool), [])

    def batch(index):
        arrays = tf.numpy_function(read, [index], [leaf.dtype for leaf in leaves])
        shaped = [tf.ensure_shape(array, leaf.shape) for array, leaf in zip(arrays, leaves)]
        return tf.nest.pack_sequence_as(spec, shaped)

    check, batch = map(tf.autograph.experimental.do_not_convert, (check, batch))
    indices = tf.data.Dataset.range(count)
    return of_at_most(indices.take_while(check).map(batch), count) if may_end_early else indices.map(batch)


def of_at_most(dataset, count):
    """Returns a `tf.data.Dataset` whose length is said to be `count`, but which may end earlier."""
    # `assert_cardinality` would raise an error at an early end. To TensorFlow, this choice is infinite, so `take` gives
    # it the length `count`. In fact, it ends when the dataset does.
    always_first = tf.data.Dataset.from_tensors(np.int64(0)).repeat()
    either = tf.data.Dataset.choose_from_datasets([dataset, dataset.repeat()], always_first, stop_on_empty_dataset=True)
    return either.take(count)


def times_class_weights(sample_weight, labels, class_weight, of_places=False):
    """Returns sample weights multiplied by the weights of the classes, which Keras does not accept together.

    Args:
        labels: Array of integers `[rows]`, or of one-hot labels `[rows, classes]`.
        of_places: Boolean. Whether labels are integers `[rows, places]`, negative at unused places. Defaults to
            `False`.
    """
    labels, table = np.asarray(labels), np.array([class_weight[i] for i in range(len(class_weight))], "float32")
    if not of_places:
        labels = labels.argmax(axis=1) if labels.ndim == 2 and labels.shape[1] > 1 else labels.reshape(-1)
    weights = table[np.maximum(labels, 0).astype(int)]
    if sample_weight is None:
        return weights
    sample_weight = np.asarray(sample_weight, "float32")
    axes = max(sample_weight.ndim, weights.ndim)
    weights, sample_weight = (each.reshape(*each.shape, *[1] * (axes - each.ndim)) for each in (weights, sample_weight))
    return weights * sample_weight


def _spec(data):
    """Returns the structure of `tf.TensorSpec`s of a batch. An axis varies if it differs between two lengths."""
    ends = data.pinned(data.extremes())
    rows = data.options.batch_size if data.options.drop_remainder else None

    def spec(one, other):
        shape = [size if size == same else None for size, same in zip(one.shape[1:], other.shape[1:])]
        return tf.TensorSpec([rows, *shape], one.dtype)

    return tf.nest.map_structure(spec, ends[0], ends[1])
