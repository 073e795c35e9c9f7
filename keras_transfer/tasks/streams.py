"""A `tf.data.Dataset` as the data of a task: its contents, its texts as prepared inputs, and their targets."""

import logging
from collections.abc import Mapping

import keras
import numpy as np

from keras_transfer.data import Batches, no_weights, of_at_most
from keras_transfer.distribute import agree, replicas_of
from keras_transfer.tasks.loader_position import CountBatches
from keras_transfer.text import preprocess

log = logging.getLogger("keras_transfer")


def is_stream(x):
    """Returns whether `x` is a `tf.data.Dataset`, without importing TensorFlow."""
    return type(x).__module__.startswith("tensorflow.") and hasattr(x, "element_spec")


def lacks_labels(x):
    """Returns whether `x` is a `tf.data.Dataset` of inputs without labels."""
    return is_stream(x) and not (isinstance(x.element_spec, tuple) and len(x.element_spec) > 1)


def stream_without_float64(dataset):
    """Returns a `tf.data.Dataset` with float64 labels and weights converted to float32, and any other unchanged."""
    spec = dataset.element_spec
    parts = keras.tree.flatten(spec[1:]) if isinstance(spec, tuple) else []
    is_wide = any(getattr(part, "dtype", None) == "float64" for part in parts)
    if not is_wide or keras.config.floatx() == "float64":
        return dataset
    import tensorflow as tf

    def narrow(values):
        return tf.cast(values, "float32") if values.dtype == "float64" else values

    return dataset.map(lambda x, *rest: (x, *tf.nest.map_structure(narrow, rest)))


def texts_of_stream(dataset):
    """Returns a tuple of the specs of a stream's texts, one or two, or an empty tuple if it contains anything else."""
    spec = dataset.element_spec
    inputs = spec[0] if isinstance(spec, tuple) and len(spec) in (2, 3) else spec
    texts = inputs[0] if isinstance(inputs, tuple) and len(inputs) == 1 else inputs
    texts = texts if isinstance(texts, tuple) else (texts,)
    return texts if all(getattr(part, "dtype", None) == "string" for part in texts) else ()


def read_when_asked(dataset):
    """Returns a stream that requests a batch from its source only when it is asked for one, without prefetching.

    A thread that prefetches would continue for a while after the first batch was taken, and advance the loader.
    """
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = False
    return dataset.with_options(options)


def preprocess_stream(preprocessor, dataset):
    """Converts a `tf.data.Dataset` of batches of texts to the encoder's inputs, and returns any other unchanged."""
    spec, texts = dataset.element_spec, texts_of_stream(dataset)
    if not texts:
        return dataset
    if isinstance(spec, tuple) and len(spec) > 1 and getattr(spec[1], "dtype", None) == "string":
        raise ValueError(
            "Labels of a dataset must be numbers, such as the positions of names in `label_names`. Convert "
            "names before you make the dataset: `model.labels.encode(names)`. Pairs of texts without labels must be "
            f"nested: `((text, text_pair),)`. Received: {spec}"
        )
    if any(len(text.shape) != 1 for text in texts):
        raise ValueError(f"A `tf.data.Dataset` of texts must be batched: `dataset.batch(32)`. Received: {spec}")

    def prepare(x, *rest):
        x = preprocess(preprocessor, x)
        return (x, *rest) if rest else x

    ahead = dataset.options().autotune.enabled is not False  # `read_when_asked` turns it off.
    return dataset.map(prepare, num_parallel_calls=-1).prefetch(-1) if ahead else dataset.map(prepare)


def log_length(preprocessor, dataset):
    """Logs the length to which the texts of a stream are padded, which is not that of their longest text."""
    length = getattr(preprocessor, "sequence_length", None)
    if length is not None and texts_of_stream(dataset):
        log.info(
            "The texts of the `tf.data.Dataset` are padded to %d tokens, the `sequence_length` of the preprocessor. If "
            "all are shorter, pass a smaller `sequence_length` to the preprocessor or to `from_pretrained()`.",
            length,
        )


def lacks_targets(data, made=()):
    """Returns whether batches or a stream have inputs without labels, and none of the inputs whose names are in `made`.

    Anything else, such as a generator, counts as having targets.
    """
    if isinstance(data, Batches):
        return not data.has_labels and not set(made) & set(data.inputs)
    return lacks_labels(data) and not set(made) & set(input_names_of(data) or ())


def input_names_of(data):
    """Returns the names of the inputs of batches or of a stream, or `None` if there are no names."""
    if isinstance(data, Batches):
        return None if data.contents.prepare else list(data.inputs)
    if not is_stream(data):
        return None
    spec = data.element_spec
    inputs = spec[0] if isinstance(spec, tuple) and spec else spec
    return list(inputs) if isinstance(inputs, Mapping) else None


def with_targets(data, make, seed=None, task=None):
    """Returns the same rows with the targets of an objective, different ones in each epoch.

    The seed, the epoch and the number of a batch determine the random draws of the objective. The epoch of a stream is
    the epoch of `fit`, or otherwise the number of earlier iterations.

    Args:
        data: `Batches`, or a `tf.data.Dataset` of dicts of the encoder's inputs, optionally with labels.
        make: Function that returns an item, given the inputs of a batch, a `np.random.Generator` and the labels, if
            there are any.
    """
    return data.with_targets(make, seed) if isinstance(data, Batches) else _stream_with_targets(data, make, seed, task)


def _stream_with_targets(dataset, make, seed, task):
    import tensorflow as tf

    if isinstance(dataset.element_spec, tuple) and len(dataset.element_spec) > 2:
        raise no_weights(f"a `tf.data.Dataset` of {dataset.element_spec}")
    fits = 0 if task is None else epochs_trained(task)
    state = {"objective": seed, "reading": 0, "fits": fits, "fixed": False, "position": None}
    state["seed"] = agree(np.random.randint(2**31), task) if seed is None else seed

    def generate():
        reading = state["reading"]
        state["reading"] += not state["fixed"]
        for number, inputs in enumerate(dataset.as_numpy_iterator()):
            number += 0 if state["position"] is None else state["position"].began
            inputs, *labels = inputs if isinstance(inputs, tuple) else (inputs,)
            try:
                item = make(inputs, np.random.default_rng([state["seed"], reading, number]), *labels)
            except BaseException as error:
                if task is not None:
                    task.kept_error = error  # TensorFlow reports it without its type.
                raise
            yield item

    first = next(generate(), None)
    if first is None:
        raise ValueError("`x` must have at least one batch. Received: a `tf.data.Dataset` without any")
    state["reading"] = 0
    spec = tf.nest.map_structure(lambda array: tf.TensorSpec([None] * array.ndim, array.dtype), first)
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    found, count = tf.data.Dataset.from_generator(generate, output_signature=spec), dataset.cardinality()
    if count >= 0:
        found = of_at_most(found, count)  # A resumed epoch has fewer batches.
    found = found.prefetch(2).with_options(options)
    found.draws = state
    return found


def with_weights_of_places(dataset, class_weight):
    """Returns a stream of `(x, y)` with the weights of the classes in `y`, which is negative at unused places."""
    import tensorflow as tf

    table = tf.constant([class_weight[i] for i in range(len(class_weight))], "float32")
    return dataset.map(lambda x, y: (x, y, tf.gather(table, tf.maximum(y, 0))))


def of_all_places(labels, weights):
    """Returns weights of rows as weights of all places of their labels [rows, places], and others unchanged."""
    if np.ndim(weights) != 1 or np.ndim(labels) != 2:
        return weights
    return np.broadcast_to(np.asarray(weights)[:, None], labels.shape)


def with_weights_of_all_places(data):
    """Returns prepared batches or a stream with the weights that `of_all_places` returns, and others unchanged."""
    if isinstance(data, Batches):
        weights = data.sample_weight if data.contents.prepare else of_all_places(data.labels, data.sample_weight)
        return data if weights is data.sample_weight else data.replace(sample_weight=weights)
    spec = data.element_spec if is_stream(data) else None
    ranks = [getattr(getattr(part, "shape", None), "rank", None) for part in spec] if isinstance(spec, tuple) else []
    if ranks[1:] != [2, 1]:
        return data
    import tensorflow as tf

    return draws_like(data.map(lambda x, y, weights: (x, y, tf.broadcast_to(weights[:, None], tf.shape(y)))), data)


def fix_targets(dataset):
    """Makes a stream from `with_targets` draw the same targets in all evaluations. Anything else is left unchanged."""
    if (state := getattr(dataset, "draws", None)) is not None:
        state.update(fixed=True, reading=0, seed=state["objective"] or 0)


def epochs_trained(task):
    """Returns in how many epochs a task was trained, so that another `fit` with the same seed draws other targets."""
    return sum(record.epochs for record in task.fits)


def draws_like(found, dataset):
    """Returns a stream that iterates over `dataset`, after giving it the same random draws and epochs."""
    if hasattr(dataset, "draws"):
        found.draws = dataset.draws
    return found


def begins_at(found, position):
    """Returns a stream that iterates over a loader, after registering its `LoaderPosition`, or `None`."""
    if is_stream(found) and position is not None:
        found.loader_position = position
        if hasattr(found, "draws"):
            found.draws["position"] = position
    return found


def position_of_stream(dataset):
    """Returns the position that `begins_at` registered for a stream, and `None` for anything else."""
    return getattr(dataset, "loader_position", None)


def epochs_of_stream(dataset):
    """Returns a list of the callbacks that report the progress of `fit` to a stream, for streams that need it."""
    position = position_of_stream(dataset)
    epochs = [_Epochs(dataset.draws)] if hasattr(dataset, "draws") else []
    return epochs if position is None else [*epochs, CountBatches(position)]


class _Epochs(keras.callbacks.Callback):
    """Makes a stream draw the targets of the current epoch of `fit`, also in a run that is resumed in a later one."""

    def __init__(self, state):
        super().__init__()
        self.state, self.last = state, -1

    def on_epoch_begin(self, epoch, logs=None):
        self.state["reading"], self.last = self.state["fits"] + epoch, epoch

    def on_train_end(self, logs=None):
        self.state["fits"] += self.last + 1


def check_stream_shares(task, dataset, method):
    """Raises a `ValueError` if the replicas must share each batch of a stream of texts evenly but cannot."""
    texts = texts_of_stream(dataset)
    if not texts:  # Keras shards prepared inputs.
        return
    (replicas, evenly), size = replicas_of(task), texts[0].shape[0]
    if (method == "fit" or evenly) and (size or 1) % replicas:
        raise ValueError(
            f"The batch size must be a multiple of the number of replicas, {replicas}. Use "
            f"`dataset.batch(batch_size, drop_remainder=True)`. Received: {dataset.element_spec}"
        )
