"""Signatures of exported tasks: functions of named tensors, independent of the format of the export."""

import dataclasses
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Signature:
    """A function with which an exported task answers requests.

    Args:
        function: Function that accepts tensors by the names in `inputs` and returns a dict of tensors. It is traced on
            the TensorFlow backend. Outputs may be ragged. For an output `label_id`, the export adds `label` with the
            names.
        inputs: Dict of `keras.KerasTensor`s, the shapes and dtypes of the inputs: all `[batch]`, or all `[batch,
            length, ...]`.
        shared_axes: Integer, 1 or 2. Number of leading axes that the outputs have in common with the inputs. Defaults
            to `1`.
        input_axes: Integer, 1 or 2. Number of leading axes that several inputs have in common. Defaults to `2`.
        ragged: Boolean. Whether `function` expects its string input `[batch, length]` as a ragged tensor, without the
            `""` that pads its rows. Defaults to `False`.
    """

    function: Callable
    inputs: dict
    shared_axes: int = 1
    input_axes: int = 2
    ragged: bool = False
