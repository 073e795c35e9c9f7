"""LSTM with a projection and clipping, as in ELMo and language models of its time."""

from typing import Any

import keras
from keras import ops

from keras_transfer.core.expect import FRACTION, POSITIVE, expect, expects, integer
from keras_transfer.layers.basic.config import ConfigOfArguments
from keras_transfer.layers.basic.dropout import Dropout


class Recurrent(ConfigOfArguments, keras.layers.Layer):
    """Base class of the layers that read texts step by step, which `_read` does, without their padding or backward."""

    def call(self, inputs, padding_mask=None, initial_state=None, return_state=False, training=False):
        expect(inputs.shape[1] != 0, "Inputs must have at least one time step.", inputs=inputs.shape)
        mask = None if padding_mask is None else ops.cast(padding_mask, "bool")
        inputs = reversed_texts(inputs, mask) if self.reverse else inputs
        outputs, *state = self._read(inputs, mask, initial_state, return_state, training)
        outputs = reversed_texts(outputs, mask) if self.reverse else outputs
        if mask is not None:
            outputs = ops.where(mask[:, :, None], outputs, ops.zeros_like(outputs))
        return (outputs, *state) if return_state else outputs

    def compute_output_spec(self, inputs, *args, return_state=False, **kwargs):
        batch, length, dim = inputs.shape
        width, *sizes = self._widths(dim)
        shapes = [(batch, length, width), *((batch, size) for size in sizes)]
        outputs = tuple(keras.KerasTensor(shape, self.compute_dtype) for shape in shapes)
        return outputs if return_state else outputs[0]


@keras.saving.register_keras_serializable(package="keras_transfer")
class ProjectedLSTM(Recurrent):
    """LSTM that projects its output, and clips its cell and its projection.

    With input x and state (h, c), each step computes

        i, f, g, o = x W + h U + b                   (W, U: `kernel`, `recurrent_kernel`; gates in Keras's order)
        c = clip(sigmoid(f + forget_bias) * c + sigmoid(i) * tanh(g), cell_clip)
        h = clip((sigmoid(o) * tanh(c)) P, projection_clip)

    Padding must be at the end of a text. Its outputs are 0, and it leaves the states unchanged. With `reverse`, the
    layer reads each text from its last real step to its first. Each output has the position of its input.

    `weight_dropout` is the weight drop of AWD-LSTM (Merity et al. 2018): each training call draws one mask for U. The
    mask is the same for all steps and all texts of the call, and kept weights are scaled. An AWD-LSTM has
    `forget_bias=0.0`.

    `gradient_length` is the truncated back-propagation through time of ULMFiT (BPT3C, Howard and Ruder 2018): in
    training, the layer reads the steps of a text before the last `gradient_length` ones first, and goes on in their
    state. The outputs are the same if padding follows the texts, but no gradient flows through the earlier steps, and
    their activations are not kept for it. With `reverse`, the steps that are read last are the first of the text.

    Args:
        units: Integer. Width of the cell.
        projection_dim: Integer. Width of the output. Defaults to `None`, no projection.
        cell_clip: Float. Largest magnitude of the cell. Defaults to `None`, no clipping.
        projection_clip: Float. Largest magnitude of the projection. Defaults to `None`, no clipping.
        forget_bias: Float. Added to the forget gate in addition to its learnt bias. Defaults to `1.0`.
        reverse: Boolean. Whether to read the text backward. Defaults to `False`.
        weight_dropout: Float between 0 and 1. Fraction of the weights of the recurrent kernel that are set to 0 in
            training, rounded as in `Dropout`. Defaults to `0.0`.
        seed: Integer. Seed of the random numbers of `weight_dropout`. Defaults to `None`.
        gradient_length: Integer. Number of the steps of each text, those read last, through which gradients flow.
            Defaults to `None`, all.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        - `inputs`: Tensor of shape `[batch, length, dim]`.
        - `padding_mask`: Tensor of shape `[batch, length]`. 1 for a real step, 0 for padding. Defaults to `None`.
        - `initial_state`: List of h `[batch, projection_dim or units]` and c `[batch, units]`. Defaults to `None`,
          zeros.
        - `return_state`: Boolean. Whether to return the last state too. Defaults to `False`.
        - `training`: Boolean. Whether to apply `weight_dropout`, and to use gradients that TensorFlow computes in half
          the time, with the same outputs. Defaults to `False`.

    Returns:
        A tensor of shape `[batch, length, projection_dim or units]`, or with `return_state` a tuple of it, h and c.

    Raises:
        ValueError: If the inputs have no time step.

    Example:
    ```python
    layer = keras_transfer.layers.ProjectedLSTM(8, projection_dim=4, cell_clip=3.0, projection_clip=3.0)
    outputs = layer(np.ones((2, 5, 3)), padding_mask=[[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]])
    ```

    Source: https://arxiv.org/abs/1402.1128; for the clipping, https://arxiv.org/abs/1602.02410; for weight drop,
    https://arxiv.org/abs/1708.02182; for the truncation, https://arxiv.org/abs/1801.06146, section 3.3.
    """

    @expects(
        units=integer(1),
        projection_dim=integer(1),
        cell_clip=POSITIVE,
        projection_clip=POSITIVE,
        weight_dropout=FRACTION,
        gradient_length=integer(1),
    )
    def __init__(
        self,
        units: int,
        *,
        projection_dim: int | None = None,
        cell_clip: float | None = None,
        projection_clip: float | None = None,
        forget_bias: float = 1.0,
        reverse: bool = False,
        weight_dropout: float = 0.0,
        seed: int | None = None,
        gradient_length: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.units, self.projection_dim = units, projection_dim
        self.cell_clip, self.projection_clip = cell_clip, projection_clip
        self.weight_dropout, self.seed, self.gradient_length = weight_dropout, seed, gradient_length
        self.cell = _Recurrence(units, projection_dim, cell_clip, projection_clip, dtype=self.dtype_policy, name="cell")
        self.forget_bias = float(forget_bias)
        self.reverse = reverse
        self.weight_drop = Dropout(weight_dropout, seed=seed, dtype=self.dtype_policy, name="weight_drop")
        self.supports_masking = True

    def build(self, inputs_shape):
        units = self.cell.units
        self.kernel = self.add_weight((inputs_shape[-1], 4 * units), "glorot_uniform", name="kernel")
        self.bias = self.add_weight((4 * units,), "zeros", name="bias")
        self.cell.build((*inputs_shape[:-1], 4 * units))

    @property
    def state_size(self) -> list[int]:
        """List of two integers, the widths of h and c."""
        return self.cell.state_size

    def _widths(self, dim):
        """Returns the widths of the outputs and of the parts of the state, given that of the inputs."""
        return [self.state_size[0], *self.state_size]

    def _read(self, inputs, mask, initial_state, return_state, training):
        """Returns the outputs and the parts of the last state, which matters only with `return_state`."""
        units = self.cell.units
        forget = ops.concatenate([ops.zeros(units), ops.full((units,), self.forget_bias), ops.zeros(2 * units)])
        bias = ops.cast(self.bias + ops.cast(forget, self.bias.dtype), inputs.dtype)
        # The loop transposes its inputs so that the steps come first. This and the last transposition here cancel each
        # other.
        gates = ops.transpose(ops.matmul(ops.transpose(inputs, (1, 0, 2)), self.kernel) + bias, (1, 0, 2))
        # Outputs at real steps do not depend on the padding after them. Only the last state does.
        within = mask if return_state else None
        steps, length = _Steps(self.cell, self.weight_drop, training), inputs.shape[1]
        if length == 1 and initial_state is not None:  # A step of a decoder needs no loop.
            return _single_step(steps, gates, within, initial_state)
        options = {"return_sequences": True, "return_state": True, "dtype": self.dtype_policy, "name": "loop"}
        loop = keras.layers.RNN(steps, **options)
        if training and self.gradient_length is not None and (length is None or length > self.gradient_length):
            return _in_two_parts(loop, gates, mask, initial_state, self.gradient_length)
        return loop(gates, mask=within, initial_state=initial_state)


@keras.saving.register_keras_serializable(package="keras_transfer")
class _Recurrence(ConfigOfArguments, keras.layers.Layer):
    """Holds the weights and settings of a step for `_Steps`."""

    def __init__(self, units, projection_dim, cell_clip, projection_clip, **kwargs):
        super().__init__(**kwargs)
        self.units, self.projection_dim = units, projection_dim
        self.cell_clip, self.projection_clip = cell_clip, projection_clip
        self.output_size = self.projection_dim or self.units
        self.state_size = [self.output_size, self.units]

    def build(self, gates_shape):
        self.recurrent_kernel = self.add_weight(
            (self.output_size, 4 * self.units), "orthogonal", name="recurrent_kernel"
        )
        if self.projection_dim is not None:
            self.projection = self.add_weight((self.units, self.projection_dim), "glorot_uniform", name="projection")


class _Steps:
    """The cell of one call's loop, which prepares the matrices once, before the first step.

    Each gate has its own matrix, so that TensorFlow can multiply by them on several cores in parallel.
    """

    def __init__(self, cell, weight_drop, training):
        # SavedModels cannot store a custom gradient, so models exported for inference use TensorFlow's gradient.
        self.product = _product if training else lambda inputs, matrix, transposed: ops.matmul(inputs, matrix)
        self.cell, self.state_size, self.output_size = cell, cell.state_size, cell.output_size
        self.compute_dtype = cell.compute_dtype
        both = lambda matrix: (matrix, ops.transpose(matrix))  # noqa: E731
        kernel = weight_drop(ops.cast(cell.recurrent_kernel, self.compute_dtype), training=training)
        self.gates = [both(matrix) for matrix in ops.split(kernel, 4, axis=1)]
        if cell.projection_dim is not None:
            self.projection = both(ops.cast(cell.projection, self.compute_dtype))

    def __call__(self, gates, states):
        """Computes one step from its input's contribution to the gates."""
        h, c = states
        cell = self.cell
        i, f, g, o = (own + self.product(h, *pair) for own, pair in zip(ops.split(gates, 4, axis=-1), self.gates))
        c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
        if cell.cell_clip is not None:
            c = ops.clip(c, -cell.cell_clip, cell.cell_clip)
        h = ops.sigmoid(o) * ops.tanh(c)
        if cell.projection_dim is not None:
            h = self.product(h, *self.projection)
            if cell.projection_clip is not None:
                h = ops.clip(h, -cell.projection_clip, cell.projection_clip)
        return h, [h, c]

    call = __call__


def _single_step(steps, gates, mask, state):
    """Returns the outputs `[batch, 1, dim]`, h and c of one step, which leaves the state as it is at padding."""
    outputs, new = steps(gates[:, 0], state)
    if mask is not None:
        new = [ops.where(mask, after, before) for after, before in zip(new, state)]
    return outputs[:, None], *new


def _in_two_parts(loop, gates, mask, state, gradient_length):
    """Returns what a loop returns, but no gradient flows through the steps before the last ones of each text."""
    length, kept = ops.shape(gates)[1], gradient_length
    if mask is None:
        mask = ops.ones(ops.shape(gates)[:2], "bool")
    ends = ops.sum(ops.cast(mask, "int32"), axis=1, keepdims=True)
    starts = ops.maximum(ends - kept, 0)
    if isinstance(length, int):
        early, kept = max(length - kept, 1), min(length, kept)
    else:  # The loop needs at least one step, which is masked if all texts are short.
        early, kept = ops.maximum(length - kept, 1), ops.minimum(length, kept)
    steps = ops.arange(length, dtype="int32")[None]
    first, *state = loop(gates[:, :early], mask=steps[:, :early] < starts, initial_state=state)
    first, *state = [ops.stop_gradient(values) for values in (first, *state)]
    places = starts + steps[:, :kept]
    last = _take_steps(gates, ops.minimum(places, length - 1))
    last, *state = loop(last, mask=places < ends, initial_state=state)
    first = ops.pad(first, [[0, 0], [0, length - early], [0, 0]])
    last = _take_steps(last, ops.clip(steps - starts, 0, kept - 1))
    return ops.where((steps < starts)[:, :, None], first, last), *state


@ops.custom_gradient
def _product(inputs, matrix, transposed):
    """Returns `matmul(inputs, matrix)`, with a gradient that uses the matrix transposed in advance.

    TensorFlow's own gradient transposes within the matmul of each step, which takes about six times as long.
    """

    def gradient(*arguments, upstream=None):
        # torch passes the product's arguments, and the gradient by name. The other backends pass only the gradient.
        left, _, across = (inputs, matrix, transposed) if upstream is None else arguments
        upstream = arguments[0] if upstream is None else upstream
        return ops.matmul(upstream, across), ops.matmul(ops.transpose(left), upstream), None

    return ops.matmul(inputs, matrix), gradient


def reversed_texts(inputs, mask):
    """Reverses each text's real steps in a `[batch, length, dim]` tensor and leaves its padding in place."""
    if mask is None:
        return ops.flip(inputs, axis=1)
    steps = ops.arange(ops.shape(inputs)[1], dtype="int32")[None]
    lengths = ops.sum(ops.cast(mask, "int32"), axis=1, keepdims=True)
    places = ops.where(steps < lengths, lengths - 1 - steps, steps)
    return _take_steps(inputs, places)


def _take_steps(inputs, places):
    """Returns the vectors of inputs [batch, length, dim] at places [batch, count] of each text."""
    batch, length, dim = ops.shape(inputs)
    rows = places + length * ops.arange(batch, dtype="int32")[:, None]
    return ops.take(ops.reshape(inputs, (-1, dim)), rows, axis=0)
