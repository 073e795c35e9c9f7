"""The base class of preprocessors: Keras layers, run by TensorFlow, that turn raw text into a model's inputs."""

import operator

import keras

from keras_transfer.core.expect import expect
from keras_transfer.text.inputs import check_pair, to_list
from keras_transfer.text.tensorflow import tf

DEFAULT_LENGTH = 128


class LengthError(ValueError):
    """Raised if `sequence_length` is invalid, which is no fault of the files that a preprocessor is loaded from."""

    # TensorFlow raises an error of `Dataset.map` under its own type only if it has this constructor.
    __init__ = Exception.__init__


class Preprocessor(keras.layers.Layer):
    """A layer that turns raw text into model inputs; the base class of all preprocessors.

    It can be called on strings, mapped over a `tf.data.Dataset`, traced into a SavedModel, and called on
    `keras.Input(shape=(), dtype="string")` in a functional model. On every Keras backend it computes with TensorFlow on
    the CPU and returns TensorFlow tensors.

    A subclass implements `call(texts, sequence_length)`, which receives string tensors (a tuple of two for pairs), and
    `compute_output_spec` for functional models.

    Args:
        name: String. Name of the layer.
    """

    def __init__(self, name: str | None = None):
        super().__init__(name=name)
        self.built = True

    def __call__(self, texts, sequence_length=None, training=None):
        """Returns the model inputs of texts. Functional models pass `training`, which has no effect."""
        if _is_symbolic(texts):
            # A `.keras` file stores the tuple of a pair as a list.
            texts = tuple(texts) if isinstance(texts, list) else texts
            return super().__call__(texts, sequence_length=sequence_length)
        # `Layer.__call__` would convert to tensors of Keras's backend, but JAX has no strings.
        with tf.device("CPU:0"):
            return self.call(as_text_tensors(texts), sequence_length=sequence_length)

    def _check_single(self, texts):
        if isinstance(texts, tuple):
            raise ValueError(f"`{type(self).__name__}` does not support pairs of texts. Received: a pair")


def _is_symbolic(texts):
    parts = texts[:2] if isinstance(texts, (tuple, list)) else (texts,)
    return any(isinstance(part, keras.KerasTensor) for part in parts)


def preprocess(preprocessor, texts, **options):
    """Calls a preprocessor (of this library or of KerasHub, or a function) on texts or pairs of texts."""
    # KerasHub's preprocessors interpret a tuple as (texts, labels) and return the labels, unless `y` is passed.
    if isinstance(texts, tuple) and any(cls.__module__.startswith("keras_hub.") for cls in type(preprocessor).__mro__):
        options["y"] = None
    return preprocessor(texts, **options)


def is_longest(sequence_length):
    """Returns whether rows are padded to the longest text of a batch."""
    return isinstance(sequence_length, str) and sequence_length == "longest"


def checked_length(sequence_length, min_length=1):
    """Returns a sequence length as an `int`."""
    try:
        length = operator.index(sequence_length)
    except TypeError:
        length = 0
    if length < min_length:
        raise LengthError(
            f"`sequence_length` must be an integer of at least {min_length}. A call also accepts 'longest' or None. "
            "To map a dataset of (texts, labels), use `ds.map(lambda x, y: (preprocessor(x), y))`. "
            f"Received: sequence_length={sequence_length!r}"
        )
    return length


def batch_shape(texts):
    """Returns the shape of symbolic texts or pairs: `()` or `(batch,)`."""
    shape = (texts[0] if isinstance(texts, tuple) else texts).shape
    rule = 'Texts in a functional model must be scalars: use `keras.Input(shape=(), dtype="string")`.'
    expect(len(shape) <= 1, rule, shape=shape)
    return shape


def as_text_tensors(texts):
    """Returns raw text as a string tensor of rank 0 or 1, and pairs as a tuple of two."""
    if not isinstance(texts, tuple):
        return _as_text_tensor(texts)
    check_pair(texts)
    first, second = (_as_text_tensor(part) for part in texts)
    rule = "The two parts of a pair must contain the same number of texts."
    expect(first.shape.is_compatible_with(second.shape), rule, first=first.shape, second=second.shape)
    return first, second


def _as_text_tensor(texts):
    if not tf.is_tensor(texts):
        values = to_list(texts)
        return tf.constant(values[0] if isinstance(texts, (str, bytes)) else values, tf.string)
    expect(isinstance(texts, tf.Tensor) and texts.dtype == tf.string, "Texts must be a tensor of strings.", texts=texts)
    rule = (
        "A tensor of texts must have shape [batch] or []. In a functional model, use "
        '`keras.Input(shape=(), dtype="string")`.'
    )
    expect(texts.shape.rank in (0, 1), rule, texts=texts.shape)
    return texts


def import_tensorflow_text():
    """Returns the module `tensorflow_text`."""
    try:
        import tensorflow_text
    except ImportError as error:
        raise ImportError(
            "Tokenization requires TensorFlow Text: `pip install tensorflow-text` (the same minor version as "
            f"TensorFlow). Received: {error}"
        ) from error
    return tensorflow_text
