"""What every preprocessor is: a Keras layer from raw text to model inputs, run by TensorFlow."""

import operator

import keras

from keras_transfer.text.inputs import check_pair, to_list

DEFAULT_LENGTH = 128


class Preprocessor(keras.layers.Layer):
    """A layer that turns raw text into model inputs; the base of all preprocessors.

    It can be called on strings, used in `tf.data.Dataset.map`, traced into a SavedModel, and called
    on `keras.Input(shape=(), dtype="string")` in a functional model. Whatever backend Keras has, it
    computes with TensorFlow on the CPU and returns TensorFlow tensors.

    A subclass writes `call(texts, sequence_length)`, which gets string tensors (a tuple of two for
    pairs), and `compute_output_spec` for functional models.

    Args:
        name: str.
    """

    def __init__(self, name=None):
        super().__init__(name=name)
        self.built = True

    def __call__(self, texts, sequence_length=None, training=None):
        """Returns the inputs of texts; functional models pass `training`, which changes nothing."""
        if _is_symbolic(texts):
            # In a `.keras` file the tuple of a pair has become a list.
            texts = tuple(texts) if isinstance(texts, list) else texts
            return super().__call__(texts, sequence_length=sequence_length)
        # Not through `Layer.__call__`, which makes tensors of Keras's backend: JAX has no strings.
        import tensorflow as tf

        with tf.device("CPU:0"):
            return self.call(as_text_tensors(texts), sequence_length=sequence_length)


def _is_symbolic(texts):
    parts = texts[:2] if isinstance(texts, (tuple, list)) else (texts,)
    return any(isinstance(part, keras.KerasTensor) for part in parts)


def preprocess(preprocessor, texts, **options):
    """Returns what a preprocessor makes of texts or pairs of texts, be it ours, KerasHub's or a function.

    Args:
        preprocessor: callable from texts to a dict of model inputs.
        texts: what it takes; for pairs a tuple of two.
        **options: further arguments of it.

    Example:
    ```python
    from keras_transfer.text.preprocessor import preprocess

    preprocessor = keras_transfer.text.BertPreprocessor(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "film"])
    preprocess(preprocessor, (["the film"], ["film"]), sequence_length=8)
    ```
    """
    # KerasHub's take a tuple for (texts, labels), and give the second back, unless the labels are named.
    if isinstance(texts, tuple) and any(cls.__module__.startswith("keras_hub.") for cls in type(preprocessor).__mro__):
        options["y"] = None
    return preprocessor(texts, **options)


def is_longest(sequence_length):
    """Whether a sequence length is that of the longest text of a batch."""
    return isinstance(sequence_length, str) and sequence_length == "longest"


def checked_length(sequence_length, least=1, why="a word"):
    """Returns a sequence length as an int.

    Raises:
        ValueError: it is none, or below the least, whose reason is `why`.
    """
    try:
        length = operator.index(sequence_length)
    except TypeError:
        length = 0
    if length < least:
        raise ValueError(
            f"sequence_length must be an int of at least {least} ({why}); in a "
            "call also 'longest' or None. To prepare a dataset of (texts, labels): "
            f"`ds.map(lambda x, y: (preprocessor(x), y))`. Received: {sequence_length!r}"
        )
    return length


def as_text_tensors(texts):
    """Returns raw text as a string tensor of rank 0 or 1, or for a pair as a tuple of two.

    Args:
        texts: str, or a list, array, column of a table or string tensor of them; or a tuple of two
            such, for a pair.

    Raises:
        ValueError: `texts` is anything else, or a pair whose parts have different lengths.
    """
    if not isinstance(texts, tuple):
        return _as_text_tensor(texts)
    check_pair(texts)
    first, second = (_as_text_tensor(part) for part in texts)
    if not first.shape.is_compatible_with(second.shape):
        raise ValueError(
            f"both parts of a pair need as many texts. Received: shapes {tuple(first.shape)} and {tuple(second.shape)}"
        )
    return first, second


def _as_text_tensor(texts):
    import tensorflow as tf

    if not tf.is_tensor(texts):
        values = to_list(texts)
        return tf.constant(values[0] if isinstance(texts, (str, bytes)) else values, tf.string)
    if not isinstance(texts, tf.Tensor) or texts.dtype != tf.string:
        raise ValueError(f"texts must be a tensor of strings. Received: {texts}")
    if texts.shape.rank not in (0, 1):
        raise ValueError(
            "a tensor of texts must have the shape [batch] or []; in a functional model, "
            f'`keras.Input(shape=(), dtype="string")`. Received: the shape {texts.shape}'
        )
    return texts


def import_tensorflow_text():
    """Returns the module `tensorflow_text`.

    Raises:
        ImportError: it is not installed.
    """
    try:
        import tensorflow_text
    except ImportError as error:
        raise ImportError(
            "turning text into ids needs TensorFlow Text: `pip install tensorflow-text` (the same "
            f"minor version as TensorFlow). Received: {error}"
        ) from error
    return tensorflow_text
