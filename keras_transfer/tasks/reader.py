"""Readers: which raw data a task accepts, and how it becomes batches."""

import keras
import numpy as np

from keras_transfer.core.expect import expect
from keras_transfer.data import column_batches
from keras_transfer.text import Preprocessor, is_text, preprocess, to_columns

ALL_ROWS = 2**31  # With this batch size, all rows are one batch.
_NAMES = {"texts": "single texts", "pairs": "pairs of texts"}

_ADVICE = {
    "texts": "Pass texts as a list; a tuple of two is one pair",
    "pairs": "Pass a tuple of two columns, `(texts, other_texts)`",
}


class Reader:
    """Accepts texts, or pairs of texts as a tuple of two columns.

    A reader is the component of a `Task` that decides which raw data it accepts, how this data becomes batches, and how
    the outputs of these batches become one output for each row. A subclass for other data overrides some of the
    methods, usually `accepts`, `columns`, `batches` and `inputs`.

    Args:
        preprocessor: Callable from texts to the encoder's inputs, or `None` if only prepared data is used.
        instead: String. What answers for raw data if `predict` only accepts prepared inputs. Defaults to `None`, since
            it accepts both.

    Attributes:
        takes_either: Boolean. Whether single texts and pairs of texts are both valid, and mean something different.
        takes_texts: Boolean. Whether a row may be a single text.
        takes_pairs: Boolean. Whether a row may be a pair of texts.
        takes_lists: Boolean. Whether a row may have a list of strings, such as words or choices.
        takes_windows: Boolean. Whether the task splits the rows of a `text.WindowPreprocessor`.
        makes: Tuple of strings. Inputs of the encoder that the reader makes instead of the preprocessor.
        instead_of_call: String. What answers for raw data if the model cannot be called on it, since a row of the user
            may have several rows of inputs, or needs targets. `None` if it can.
        fitted_on: String. Whether the task was trained on `"texts"` or `"pairs"`, or `None` if it is unknown.

    Example:
    ```python
    preprocessor = keras_transfer.text.BertPreprocessor(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good"], sequence_length=8)
    keras_transfer.tasks.Reader(preprocessor).accepts(["good", "good good"])  # True
    ```
    """

    takes_either = False
    takes_texts = takes_pairs = True
    takes_lists = takes_windows = False
    makes: tuple[str, ...] = ()
    instead_of_call: str | None = None
    fitted_on: str | None = None

    def __init__(self, preprocessor, instead=None):
        self.preprocessor, self.instead = preprocessor, instead

    def require(self):
        """Raises a `ValueError` if raw data cannot be prepared, because there is no preprocessor."""
        rule = "Raw text requires a preprocessor. Create the task with `preprocessor=...`, or pass token ids."
        expect(self.preprocessor is not None, rule, preprocessor=None)

    def require_whole(self, action):
        """Raises a `ValueError` if the task is a component of another one, and cannot be saved.

        The reader of such a component overrides this. By default, a task is whole.

        Args:
            action: String. What cannot be done, such as `"saved"`.
        """

    def accepts(self, x):
        """Returns whether a value is raw data in memory that this reader can prepare.

        Args:
            x: Any value that a method of the task has received.

        Returns:
            Boolean. By default, texts are accepted.
        """
        return is_text(x)

    def check(self, x, method):
        """Raises a `ValueError` if data cannot be used for a method.

        By default, all data that the reader accepts can be used for all methods, except for `predict` with `instead`.

        Args:
            x: What the method has received.
            method: String, such as `"fit"`, `"evaluate"` or `"predict"`.
        """
        if self.instead is not None and method.startswith("predict") and self.accepts(x):
            raise ValueError(f"`{method}` requires prepared inputs. Use {self.instead}. Received: {x!r:.100}")

    def columns(self, x):
        """Returns raw data as columns that can be sliced.

        Args:
            x: Raw data that `accepts` accepts.

        Returns:
            An array or a list, or a tuple of these.
        """
        self.require_columns(x)
        return to_columns(x)

    def require_columns(self, x):
        """Raises a `ValueError` if raw data is one column although rows must be pairs.

        Args:
            x: Raw data.
        """
        if not self.takes_texts and not isinstance(x, tuple):
            raise ValueError(f"Rows must be pairs of texts: a tuple of two columns. Received: {type(x).__name__}")

    def batch_of(self, parts):
        """Returns `(x, y, sample_weight)`, or the first of these, as data in memory, for a batch of a loader.

        torch collates columns into tuples and several columns into a list, while `fit` expects a tuple of columns.

        Args:
            parts: Tuple. What the loader has yielded.

        Returns:
            Tuple of at most three values.
        """
        x, *others = (list(part) if isinstance(part, tuple) else part for part in parts)
        if isinstance(x, list) and x and all(map(_is_list, x)):
            x = tuple(list(column) for column in x)
        return x, *others

    def batches(self, columns, y, **options):
        """Returns raw data with its labels as batches of the encoder's inputs.

        Args:
            columns: What `columns` returns.
            y: Encoded labels, or `None`.
            **options: `batch_size`, `shuffle` and `sample_weight`.

        Returns:
            `text.Batches`.
        """
        return column_batches(columns, y, preprocessor=self.preprocessor, **options)

    def inputs(self, x):
        """Returns the encoder's inputs of one batch of raw data, padded to the longest text if the preprocessor can.

        Args:
            x: Raw data.

        Returns:
            Dict of tensors.
        """
        rule = f"The task can be called on prepared inputs only. Use {self.instead_of_call}."
        expect(self.instead_of_call is None, rule, x=x)
        self.require()
        self.require_columns(x)
        columns = x if isinstance(x, tuple) else (x,)
        columns = [[part] if isinstance(part, (str, bytes)) else part for part in columns]
        return for_backend(encode_texts(self, *columns))

    def restore(self, data, predict):
        """Returns the outputs for batches in the order of the rows.

        Args:
            data: `text.Batches`.
            predict: Function from batches to their outputs. Its method `by_row` returns a list of the outputs of each
                row, for outputs of different lengths.

        Returns:
            Array with the outputs of each row, or a list or dict of arrays.
        """
        restore = data.restorer()
        return restore(predict(data))

    def nothing(self, model, columns):
        """Returns the outputs of a model for data without rows, which are never passed to it.

        Args:
            model: The `Task`.
            columns: What `columns` returns, or a dict of arrays for prepared data.

        Returns:
            Arrays `[0, ...]`.
        """
        return no_outputs(model, columns)

    def in_one_batch(self, x):
        """Returns the encoder's inputs of raw data in memory, as the only batch of `batches`.

        Args:
            x: Raw data.

        Returns:
            Dict of arrays.
        """
        self.require()
        return self.batches(self.columns(x), None, batch_size=ALL_ROWS, shuffle=False)[0][0]


class TextReader(Reader):
    """Accepts texts or pairs of texts, which are packed into one sequence. A task is trained on one of the two.

    Args:
        preprocessor: Callable from texts to the encoder's inputs, or `None` if only prepared data is used.
        instead: String. What answers for raw data if `predict` only accepts prepared inputs. Defaults to `None`, since
            it accepts both.

    Example:
    ```python
    preprocessor = keras_transfer.text.BertPreprocessor(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good"], sequence_length=8)
    reader = keras_transfer.tasks.TextReader(preprocessor)
    batches = reader.batches(reader.columns(["good", "good good"]), None, batch_size=2, shuffle=False)
    batches[0][0]["token_ids"].shape  # (2, 4)
    ```
    """

    takes_either = True


def encode_texts(task, *texts):
    """Returns the encoder's inputs of a batch of texts or pairs of texts, for the signature of an export.

    They are padded to the longest text only, if the preprocessor can.

    Args:
        task: Object with a `preprocessor`, such as a `Task`.
        *texts: One or two string tensors `[batch]`.

    Returns:
        Dict of tensors.

    Example:
    ```python
    preprocessor = keras_transfer.text.BertPreprocessor(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good"], sequence_length=8)
    reader = keras_transfer.tasks.TextReader(preprocessor)
    keras_transfer.tasks.encode_texts(reader, tf.constant(["good good"]))["token_ids"].shape  # (1, 4)
    ```
    """
    texts = texts if len(texts) > 1 else texts[0]
    options = {"sequence_length": "longest"} if isinstance(task.preprocessor, Preprocessor) else {}
    return preprocess(task.preprocessor, texts, **options)


def _is_list(values):
    """Returns whether values are a column of texts, of lists of texts, or of what a reader accepts instead."""
    return isinstance(values, (list, tuple)) or (isinstance(values, np.ndarray) and values.dtype.kind in "OSU")


def for_backend(inputs):
    """Converts a preprocessor's outputs, which are TensorFlow tensors, to a type that the backend accepts."""
    return inputs if keras.backend.backend() == "tensorflow" else {k: np.asarray(v) for k, v in inputs.items()}


def input_names(task):
    """Returns the names of a functional model's inputs, in their order."""
    return list(task.input) if isinstance(task.input, dict) else [tensor.name for tensor in task.inputs]


def no_outputs(task, columns):
    """Returns what `predict` returns for data without rows, arrays [0, ...] in the structure of the model's outputs.

    Columns of shape [0, length] determine the length of the outputs.
    """
    shapes = [column.shape for column in columns.values()] if isinstance(columns, dict) else []
    length = next((shape[1] for shape in shapes if len(shape) > 1), 0)

    def empty(output):
        shape = (0, *(length if size is None else size for size in output.shape[1:]))
        return keras.ops.convert_to_numpy(keras.ops.zeros(shape, output.dtype))

    return keras.tree.map_structure(empty, task.output)


def kind_of(task, data):
    """Returns the kind of a `Source`, `"texts"` or `"pairs"`, or `None` if it makes no difference."""
    return data.kind if data.kind in _NAMES and task.reader.takes_either else None


def check_kind(task, kind, expected):
    """Raises a `ValueError` if a task that was trained on one kind of texts would be used for the other."""
    if task.reader.takes_either and None not in (kind, expected) and kind != expected:
        raise ValueError(
            f"The model is trained on {_NAMES[expected]}. {_ADVICE[expected]}. Set `model.fitted_on = None` to use it "
            f"for {_NAMES[kind]} anyway. Received: {_NAMES[kind]}"
        )


def check_export(task, pairs):
    """Raises a `ValueError` if a task trained on single texts would be exported for pairs, or vice versa."""
    if task.reader.takes_either and task.fitted_on is not None and pairs != (task.fitted_on == "pairs"):
        raise ValueError(
            f"The model is trained on {_NAMES[task.fitted_on]}. Use `pairs={not pairs}`, or set "
            f"`model.fitted_on = None`. Received: pairs={pairs}"
        )


def check_no_pairs(data, task_name):
    """Raises a `ValueError` if batches have labels of segment pairs, for a task that makes its own targets."""
    if data.has_labels and data.kind == "pairs" and data.contents.prepare is None:
        raise ValueError(
            f"A `{task_name}` has no head for pairs of segments. Use `tasks.BertPretraining`, or pass "
            "`corpus.blocks(...)`. Received: rows with labels of pairs"
        )


def check_no_windows(data, task):
    """Raises a `ValueError` if batches are windows of long texts, for a task that carries no state between them."""
    if data.num_streams is not None and not (hasattr(task, "streams") and hasattr(task.encoder, "empty_state")):
        raise ValueError(
            f"A `{type(task).__name__}` with a `{type(task.encoder).__name__}` expects independent rows of text. Only "
            "recurrent language models accept windows that continue each other. Pass `corpus.blocks(...)`. "
            f"Received: windows of {data.num_streams} streams"
        )
