"""The quasi-recurrent network, whose gates do not depend on the state."""

from typing import Any

import keras
from keras import ops

from keras_transfer.core.expect import FRACTION, expects, integer
from keras_transfer.layers.basic.dropout import Dropout
from keras_transfer.layers.blocks.recurrent import Recurrent


@keras.saving.register_keras_serializable(package="keras_transfer")
class QRNN(Recurrent):
    """A quasi-recurrent layer: gates of all steps at once, and a weighted mean over time (Bradbury et al. 2017).

    With the input x_t and, with a window of 2, the one before it, each step computes

        z, f, o = [x_t, x_t-1] W + b                                        (W: `kernel`)
        c = sigmoid(f) * c + (1 - sigmoid(f)) * tanh(z)
        h = sigmoid(o) * c

    Only the last two lines run step after step, without a matrix product. Padding must be at the end of a text or,
    without `reverse`, in front of it. Outputs at padding are 0, and states do not change there. With `reverse`, the
    layer reads each text from its last real step to its first.

    Args:
        units: Integer. Width of the cell and of the output.
        window: Integer, 1 or 2. Number of inputs that the gates of a step see. Defaults to `2`.
        zoneout: Float between 0 and 1. Fraction of the cell that keeps its value in a step of training, where the gate
            is set to 1. Otherwise `1 - sigmoid(f)` is multiplied by `1 - zoneout`, its expectation. Defaults to `0.0`.
        weight_dropout: Float between 0 and 1. Fraction of the kernel that is set to 0 in training, the same for all
            steps and texts of a call, as in AWD-QRNN. Rounded as in `Dropout`. Defaults to `0.0`.
        reverse: Boolean. Whether to read the text backward. Defaults to `False`.
        seed: Integer. Seed of the random numbers. Defaults to `None`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        - `inputs`: Tensor of shape `[batch, length, dim]`.
        - `padding_mask`: Tensor of shape `[batch, length]`. 1 for a real step, 0 for padding. Defaults to `None`.
        - `initial_state`: List of the input before the first one, `[batch, (window - 1) * dim]`, and c `[batch,
          units]`. Defaults to `None`, zeros.
        - `return_state`: Boolean. Whether to return the last state too. Defaults to `False`.
        - `training`: Boolean. Whether to apply `zoneout` and `weight_dropout`. Defaults to `False`.

    Returns:
        A tensor of shape `[batch, length, units]`, or with `return_state` a tuple of it and both parts of the state.

    Raises:
        ValueError: If the inputs have no time step.

    Example:
    ```python
    layer = keras_transfer.layers.QRNN(8)
    outputs = layer(np.ones((2, 5, 3)), padding_mask=[[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]])
    ```

    Source: https://arxiv.org/abs/1611.01576; with weight drop, https://arxiv.org/abs/1803.08240.
    """

    @expects(units=integer(1), window=integer(1, 2), zoneout=FRACTION, weight_dropout=FRACTION)
    def __init__(
        self,
        units: int,
        *,
        window: int = 2,
        zoneout: float = 0.0,
        weight_dropout: float = 0.0,
        reverse: bool = False,
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.units, self.window, self.zoneout, self.reverse, self.seed = units, window, zoneout, reverse, seed
        self.weight_dropout = weight_dropout
        self.weight_drop = Dropout(weight_dropout, seed=seed, dtype=self.dtype_policy, name="weight_drop")
        self.random = keras.random.SeedGenerator(seed)
        self.pool = _Pool(units, self.compute_dtype)
        self.supports_masking = True

    def build(self, inputs_shape):
        shape = (inputs_shape[-1] * self.window, 3 * self.units)
        self.kernel = self.add_weight(shape, "glorot_uniform", name="kernel")
        self.bias = self.add_weight((3 * self.units,), "zeros", name="bias")

    @property
    def state_size(self) -> list[int]:
        """List of two integers, the widths of the state. Known when the layer is built."""
        return [self.kernel.shape[0] // self.window * (self.window - 1), self.units]

    def _widths(self, dim):
        return [self.units, (self.window - 1) * dim, self.units]

    def _read(self, inputs, mask, initial_state, return_state, training):
        inputs = ops.cast(inputs, self.compute_dtype)
        if initial_state is None:
            batch = ops.shape(inputs)[0]
            initial_state = [ops.zeros((batch, size), self.compute_dtype) for size in self.state_size]
        before, cell = initial_state
        kernel = self.weight_drop(ops.cast(self.kernel, self.compute_dtype), training=training)
        seen = inputs
        if self.window == 2:
            earlier = inputs[:, :-1]
            if mask is not None:  # Generation pads prompts in front.
                earlier = ops.where(mask[:, :-1, None], earlier, before[:, None])
            seen = ops.concatenate([inputs, ops.concatenate([before[:, None], earlier], axis=1)], axis=-1)
        z, forget, out = ops.split(ops.matmul(seen, kernel) + ops.cast(self.bias, self.compute_dtype), 3, axis=-1)
        new = 1 - ops.sigmoid(forget)
        if self.zoneout and training:
            kept = keras.random.uniform(ops.shape(new), seed=self.random) < self.zoneout
            new = ops.where(kept, ops.zeros_like(new), new)
        elif self.zoneout:
            new = new * (1 - self.zoneout)
        if mask is not None:
            new = ops.where(mask[:, :, None], new, ops.zeros_like(new))
        steps = ops.concatenate([1 - new, new * ops.tanh(z)], axis=-1)
        if inputs.shape[1] == 1:  # A step of a decoder needs no loop.
            last = self.pool(steps[:, 0], [cell])[0]
            cells = last[:, None]
        else:
            loop = {"return_sequences": True, "return_state": True, "dtype": self.dtype_policy, "name": "loop"}
            cells, last = keras.layers.RNN(self.pool, **loop)(steps, initial_state=[cell])
        return ops.sigmoid(out) * cells, _last_inputs(inputs, mask, before) if self.window == 2 else before, last


class _Pool:
    """The part of a step that depends on the one before: a sum that a gate weights."""

    def __init__(self, units, dtype):
        self.state_size, self.output_size, self.compute_dtype = [units], units, dtype

    def __call__(self, steps, states):
        kept, added = ops.split(steps, 2, axis=-1)
        cell = kept * states[0] + added
        return cell, [cell]

    call = __call__


def _last_inputs(inputs, mask, before):
    """Returns the last real input of each text, or the one before it if a text has none."""
    if mask is None:
        return inputs[:, -1]
    last = ops.max(ops.where(mask, ops.arange(ops.shape(mask)[1], dtype="int32"), -1), axis=1)
    found = ops.take_along_axis(inputs, ops.maximum(last, 0)[:, None, None], axis=1)[:, 0]
    return ops.where(last[:, None] >= 0, found, before)
