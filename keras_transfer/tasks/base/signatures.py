"""Signatures of exported tasks: functions of named tensors, independent of the format of the export."""

import dataclasses
from collections.abc import Callable

from keras import ops

from keras_transfer.text.base import Preprocessor, preprocess


@dataclasses.dataclass(frozen=True)
class Signature:
    """A function with which an exported task answers requests.

    Args:
        function: Function that takes tensors by the names in `inputs` and returns a dict of tensors. It is traced on
            the TensorFlow backend. Outputs may be ragged. For an output `label_id`, the export adds `label` with the
            names.
        inputs: Dict of `keras.KerasTensor`s, the shapes and dtypes of the inputs: all [batch], or all
            [batch, length, ...].
        shared_axes: Integer, 1 or 2. Number of leading axes that the outputs have in common with the inputs. Defaults
            to `1`.
        ragged: Boolean. Whether `function` takes its string input [batch, length] as a ragged tensor, without the ""
            that pad its rows. Defaults to `False`.
    """

    function: Callable
    inputs: dict
    shared_axes: int = 1
    ragged: bool = False


def encode_texts(task, *texts):
    """Returns the inputs of texts [batch], or of pairs of texts, padded only to the longest if the preprocessor can."""
    texts = texts if len(texts) > 1 else texts[0]
    options = {"sequence_length": "longest"} if isinstance(task.preprocessor, Preprocessor) else {}
    inputs = preprocess(task.preprocessor, texts, **options)
    return {name: inputs[name] for name in task.input}


def most_likely(logits):
    """Returns probabilities [..., classes] and the most likely class [...] as the outputs of a signature."""
    probabilities = ops.softmax(logits)
    return {"label_id": ops.cast(ops.argmax(probabilities, axis=-1), "int32"), "probabilities": probabilities}
