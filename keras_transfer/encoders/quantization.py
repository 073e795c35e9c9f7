"""Quantization of encoders and tasks by Keras. Their configs record it, so that their files can be loaded."""

import collections
import re

import keras

from keras_transfer.core.expect import expects, one_of
from keras_transfer.core.names import did_you_mean, listed, why_no_expression
from keras_transfer.keras_internals import layer_tracking
from keras_transfer.layers import Adapted

MODES = ("int8", "int4", "float8")


def by_path(parts):
    """Returns a dict from names to weights or layers: their paths, with a number if several have the same path.

    The weights of a generator and of a discriminator, for example, have the same paths.
    """
    found, counts = {}, collections.Counter()
    for part in parts:
        same = counts[part.path]
        counts[part.path] += 1
        found[f"{part.path}#{same}" if same else part.path] = part
    return found


class Quantizes:
    """A mixin for `Encoder` and `Task`, which are quantized as `keras.Model` is, and can then be saved and loaded."""

    @expects(mode=one_of(*MODES))
    def quantize(self, mode=None, config=None, filters=None):
        """Quantizes the token embedding and the dense layers, as `keras.Model.quantize` does.

        `.keras` files contain the quantization. `load_weights` reads the weights of a model that is quantized in the
        same way. An int8 file has about a quarter of the size, but on a CPU the model is slower. Quantize a model after
        training: the int8 and int4 matrices do not train, and the optimizer of a compiled model starts anew.

        Args:
            mode: String, `"int8"`, `"int4"` or `"float8"`. Defaults to `None`, the mode of `config`.
            config: `keras.quantizers.QuantizationConfig`. Which quantizers are used. Defaults to `None`, the mode's
                quantizers.
            filters: Regular expression, list of these, or function of a layer. Which layers are quantized: those in
                whose path an expression occurs (`"attention"`, `"block_0/feed_forward/inner"`), or for which the
                function returns `True`. Defaults to `None`, all of them.

        Raises:
            ValueError: If a filter matches nothing, if a layer is already quantized, or if the model has adapters.

        Example:
        ```python
        model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
        model.quantize("int8")
        model.save("quantized.keras")
        ```
        """
        inside = layer_tracking.layers_in(self)
        if any(isinstance(layer, Adapted) for layer in inside):
            raise ValueError(
                "A model with adapters cannot be quantized. Call `adaptation.merge_adapters` or `remove_adapters` "
                f"first. Received: quantize({mode!r}) for {self.name!r}"
            )
        chosen = _chosen(_quantizable(self, mode), filters)
        if done := [path for path, layer in chosen.items() if layer.quantization_mode is not None]:
            raise ValueError(
                "A layer can be quantized only once. Load the model that is not quantized to choose another mode. "
                f"Received: quantize({mode!r}) for {self.name!r}, in which {len(done)} of the {len(chosen)} layers are "
                f"already quantized with {chosen[done[0]].quantization_mode!r}: {listed(done, 3)}"
            )
        ids = {id(layer) for layer in chosen.values()}
        super().quantize(mode, config=config, filters=lambda layer: id(layer) in ids)
        optimizer = getattr(self, "optimizer", None)
        if optimizer is not None and optimizer.built:  # It is for weights that no longer exist.
            self.optimizer = type(optimizer).from_config(optimizer.get_config())
            self.optimizer.build(self.trainable_variables)


def quantization_of(model):
    """Returns what a model's config says of its quantization: `{"quantization": groups}`, or an empty dict.

    Each group is a dict of the `mode`, the `config` and the paths of the `layers` that are quantized in this way.
    """
    groups = {}
    for path, layer in _quantizable(model).items():
        if layer.quantization_mode is not None:
            config = keras.saving.serialize_keras_object(getattr(layer, "quantization_config", None))
            how = {"mode": layer.quantization_mode, "config": config}
            groups.setdefault(str(how), {**how, "layers": []})["layers"].append(path)
    return {"quantization": list(groups.values())} if groups else {}


def quantize_again(model, groups):
    """Quantizes the layers of a new model as they were in the model whose config contains the groups."""
    layers = _quantizable(model)
    for group in groups:
        config = keras.saving.deserialize_keras_object(group["config"])
        for layer in (layers[path] for path in group["layers"]):
            if layer.quantization_mode is None:  # Its encoder may have done it.
                layer.quantize(group["mode"], config=config)


def is_quantized(model):
    """Returns whether a layer of a model is quantized."""
    return any(layer.quantization_mode is not None for layer in layer_tracking.layers_in(model))


def _quantizable(model, mode=None):
    """Returns a dict from paths to the layers that Keras can quantize, in a mode if one is given."""
    found = {}
    for path, layer in by_path(layer_tracking.layers_in(model)).items():
        if "quantize" not in vars(type(layer)) or not layer.built or layer_tracking.layers_in(layer):
            continue  # Keras quantizes neither subclasses of its layers nor layers that contain others.
        if mode is None or mode in layer.variable_serialization_spec:
            found[path] = layer
    return found


def _chosen(layers, filters):
    """Returns the layers that match filters."""
    if filters is None:
        return layers
    is_one = isinstance(filters, str) or not hasattr(filters, "__iter__")
    patterns, chosen = [filters] if is_one else list(filters), set()
    for pattern in patterns or [None]:
        found = [path for path, layer in layers.items() if _matches(pattern, path, layer)]
        words = dict.fromkeys(word for path in layers for word in path.split("/"))
        hint = did_you_mean(pattern, words) if isinstance(pattern, str) else ""
        if not found:
            received = filters if pattern is None else pattern
            raise ValueError(f"{_expected(layers)}{hint} Received: {received!r}{why_no_expression(received)}")
        chosen.update(found)
    return {path: layer for path, layer in layers.items() if path in chosen}


def _matches(pattern, path, layer):
    if callable(pattern):
        return pattern(layer)
    try:
        return isinstance(pattern, str) and any(re.search(pattern, name) for name in (path, layer.name))
    except re.error:  # The error about a pattern that matches nothing says why it is no expression.
        return False


def _expected(layers):
    return (
        "A filter matches no layer that can be quantized. Expected a regular expression that occurs in one of the "
        f"paths {listed(layers)}, a list of these, or a function of a layer."
    )
