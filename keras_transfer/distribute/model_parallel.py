"""Weights that several devices of JAX share: which axis of which weight is divided among them."""

import math
import re

import keras

from keras_transfer.core.expect import expect
from keras_transfer.distribute.processes import processes_of

# The end of a weight's path -> the axes of which one is divided. Of several, it is the first that can be.
_AXES = {
    r"attention/(query|key|value|query_key_value|key_value|position)/kernel": (1,),  # the heads
    r"attention/(query|key|value|query_key_value|key_value)/bias": (0,),
    r"attention/output/kernel": (0,),
    r"feed_forward/(inner|gate)/kernel": (1,),
    r"feed_forward/(inner|gate)/bias": (0,),
    r"feed_forward/outer/kernel": (0,),
    r"token_embedding/embeddings": (0, 1),  # the vocabulary, or the width
}


class ModelParallel(keras.distribution.ModelParallel):
    """A distribution that divides the weights of Transformers among devices, for models too large for one. JAX only.

    Attention is divided by heads, feed-forward layers by their inner width, and token embeddings by the vocabulary, or
    by the width if the vocabulary cannot be divided evenly. All other weights are whole on each device: norms, the
    biases of outputs, adapters and heads. The variables of an optimizer are divided like their weights. The results
    are those of one device, up to rounding.

    Args:
        device_mesh: `keras.distribution.DeviceMesh`. The axis `batch_dim_name` divides the rows of each batch, the axis
            `model_dim_name` the weights. With `fsdp=True`, it need not have the latter.
        batch_dim_name: String. Name of the axis for rows. Defaults to `"batch"`.
        model_dim_name: String. Name of the axis for weights. Defaults to `"model"`.
        fsdp: Boolean. Whether the devices that share the rows of a batch also share the weights. Of each kernel and
            table, in any model, the largest axis that they can divide evenly is divided. A table or kernel without one
            stays whole. Each step then sends more data. Defaults to `False`.
        layout_map: `keras.distribution.LayoutMap` for weights that are divided differently. Defaults to `None`.

    Raises:
        ValueError: If the mesh has no such axes, if there are several processes, or, when a model is created, if a
            weight cannot be divided evenly.

    Example:
    ```python
    def train(texts, labels):
        mesh = keras.distribution.DeviceMesh((2, 4), ["batch", "model"])  # of eight devices
        devices = keras_transfer.distribute.ModelParallel(mesh)
        keras.distribution.set_distribution(devices)
        model = keras_transfer.tasks.TextClassifier.from_pretrained("bert-large-uncased", num_classes=2)
        model.compile()
        model.fit(texts, labels, batch_size=32)
    ```

    Reference: [Shoeybi et al., 2019](https://arxiv.org/abs/1909.08053), and for `fsdp`
    [Rajbhandari et al., 2020](https://arxiv.org/abs/1910.02054).
    """

    def __init__(
        self,
        device_mesh: keras.distribution.DeviceMesh,
        *,
        batch_dim_name: str = "batch",
        model_dim_name: str = "model",
        fsdp: bool = False,
        layout_map: keras.distribution.LayoutMap | None = None,
    ):
        backend = keras.backend.backend()
        expect(backend == "jax", "Only JAX can divide weights among devices.", backend=backend)
        names = device_mesh.axis_names
        expected = [batch_dim_name] if fsdp else [batch_dim_name, model_dim_name]
        expect(set(expected) <= set(names), f"The mesh must have the axes {expected}.", axis_names=names)
        processes = processes_of()[1]
        rule = (
            "`ModelParallel` needs all of its devices in one process. Use `keras_transfer.distribute.initialize()` for "
            "models of which each device has all weights."
        )
        expect(processes == 1, rule, processes=processes)
        layouts = keras.distribution.LayoutMap(device_mesh) if layout_map is None else layout_map
        super().__init__(layout_map=layouts, batch_dim_name=batch_dim_name, auto_shard_dataset=False)
        self._names = model_dim_name, batch_dim_name if fsdp else None

    def get_variable_layout(self, variable: keras.Variable) -> keras.distribution.TensorLayout:
        """Returns the layout of a variable.

        Args:
            variable: `keras.Variable`.

        Returns:
            A `keras.distribution.TensorLayout`.
        """
        layout = super().get_variable_layout(variable)
        if layout is not super().get_variable_layout(variable):  # Keras made both, because nobody has chosen one.
            axes = _axes_of(variable.path, variable.shape, self.device_mesh, *self._names)
            layout = keras.distribution.TensorLayout(axes, self.device_mesh)
        _check(variable.path, variable.shape, layout)
        return layout


def layout_map(
    model: keras.Model,
    device_mesh: keras.distribution.DeviceMesh,
    *,
    model_dim_name: str = "model",
    fsdp_dim_name: str | None = None,
) -> keras.distribution.LayoutMap:
    """Returns how `ModelParallel` divides the weights of a model: a path and a layout for each weight that it divides.

    Args:
        model: Keras model. Its weights stay where they are.
        device_mesh: `keras.distribution.DeviceMesh`.
        model_dim_name: String. Name of the axis for weights. Defaults to `"model"`.
        fsdp_dim_name: String. Name of the axis of `fsdp=True`. Defaults to `None`, for none.

    Returns:
        `keras.distribution.LayoutMap`, which `keras.distribution.ModelParallel` also accepts for another model with
        the same paths.

    Raises:
        ValueError: If a weight cannot be divided evenly.

    Example:
    ```python
    mesh = keras.distribution.DeviceMesh((1, 1), ["batch", "model"], devices=["cpu:0"])
    encoder = keras_transfer.encoders.BertEncoder(
        8, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16, max_sequence_length=8
    )
    layouts = keras_transfer.distribute.layout_map(encoder, mesh)
    print(layouts["block_0/attention/output/kernel"].axes)  # ('model', None)
    ```
    """
    layouts = keras.distribution.LayoutMap(device_mesh)
    for weight in model.weights:
        axes = _axes_of(weight.path, weight.shape, device_mesh, model_dim_name, fsdp_dim_name)
        if any(axes) and layouts[weight.path] is None:
            layouts[weight.path] = axes
            _check(weight.path, weight.shape, layouts[weight.path])
    return layouts


def _axes_of(path, shape, mesh, model_dim_name, fsdp_dim_name):
    """Returns the names of the axes of a mesh that divide the axes of a weight, None for those that stay whole."""
    sizes = dict(zip(mesh.axis_names, mesh.shape, strict=True))
    axes = [None] * len(shape)
    choices = next((axes for end, axes in _AXES.items() if re.search(f"(^|[/_]){end}$", path)), ())
    if choices and model_dim_name in sizes:
        even = [axis for axis in choices if shape[axis] % sizes[model_dim_name] == 0]
        axes[(even or choices)[0]] = model_dim_name
    if fsdp_dim_name is not None and len(shape) > 1:
        even = [axis for axis, size in enumerate(shape) if axes[axis] is None and size % sizes[fsdp_dim_name] == 0]
        if even:
            axes[max(even, key=lambda axis: shape[axis])] = fsdp_dim_name
    return tuple(axes)


def _check(path, shape, layout):
    """Raises a `ValueError` if a layout does not divide a weight evenly."""
    if not isinstance(layout, keras.distribution.TensorLayout):
        return
    sizes = dict(zip(layout.device_mesh.axis_names, layout.device_mesh.shape, strict=True))
    for axis, name in enumerate(layout.axes):
        if name is not None and (axis >= len(shape) or shape[axis] % sizes[name]):
            size = shape[axis] if axis < len(shape) else None
            raise ValueError(
                f"The axis {name!r} of the mesh has {sizes[name]} devices, which cannot divide the weight {path!r} "
                f"evenly. Use a mesh whose axis {name!r} is a divisor{'' if size is None else f' of {size}'}, such as "
                f"{math.gcd(size or 1, sizes[name])}. Received: shape={tuple(shape)}, divided along axis {axis}"
            )
