"""A `tf.data.Dataset` as the data of a task: what it contains, and its texts as prepared inputs."""

from keras_transfer.distribute import replicas_of
from keras_transfer.text.base import preprocess


def is_stream(x):
    """Returns whether `x` is a `tf.data.Dataset`, without importing TensorFlow."""
    return type(x).__module__.startswith("tensorflow.") and hasattr(x, "element_spec")


def lacks_labels(x):
    """Returns whether `x` is a `tf.data.Dataset` of inputs alone."""
    return is_stream(x) and not (isinstance(x.element_spec, tuple) and len(x.element_spec) > 1)


def texts_of_stream(dataset):
    """Returns a tuple of the specs of a stream's texts, one or two, or an empty tuple if it contains something else."""
    spec = dataset.element_spec
    inputs = spec[0] if isinstance(spec, tuple) and len(spec) in (2, 3) else spec
    texts = inputs[0] if isinstance(inputs, tuple) and len(inputs) == 1 else inputs
    texts = texts if isinstance(texts, tuple) else (texts,)
    return texts if all(getattr(part, "dtype", None) == "string" for part in texts) else ()


def preprocess_stream(preprocessor, dataset):
    """Converts a `tf.data.Dataset` of batches of texts to the encoder's inputs, and returns any other unchanged.

    Raises:
        ValueError: If the texts are not batched, or if the labels are strings.
    """
    spec, texts = dataset.element_spec, texts_of_stream(dataset)
    if not texts:
        return dataset
    if isinstance(spec, tuple) and len(spec) > 1 and getattr(spec[1], "dtype", None) == "string":
        raise ValueError(
            "Labels must be numbers. Pairs of texts without labels must be nested: `((text, text_pair),)`. "
            f"Received: {spec}"
        )
    if any(len(text.shape) != 1 for text in texts):
        raise ValueError(f"A `tf.data.Dataset` of texts must be batched: `dataset.batch(32)`. Received: {spec}")

    def prepare(x, *rest):
        x = preprocess(preprocessor, x)
        return (x, *rest) if rest else x

    return dataset.map(prepare, num_parallel_calls=-1).prefetch(-1)


def check_stream_shares(task, dataset, method):
    """Raises a `ValueError` if the replicas must share each batch of a stream of texts evenly but cannot."""
    texts = texts_of_stream(dataset)
    if not texts:  # prepared inputs, which Keras shards
        return
    (replicas, evenly), size = replicas_of(task), texts[0].shape[0]
    if (method == "fit" or evenly) and (size or 1) % replicas:
        raise ValueError(
            f"The batch size must be a multiple of the number of replicas, {replicas}. Use "
            f"`dataset.batch(batch_size, drop_remainder=True)`. Received: {dataset.element_spec}"
        )
