"""The settings of an encoder and of a head that must match when adapters are loaded from a file."""

import hashlib
import json
import logging

import keras
import numpy as np

from keras_transfer.training import layer_groups

log = logging.getLogger("keras_transfer")

# These encoder settings do not affect outputs or training, or follow from the shapes of the weights.
_NOT_COMPARED = {
    "adapters",
    "active_adapters",
    "adapter_layout",
    "frozen",
    "checkpoint_settings",
    "backbone",
    "pooling",
    "normalize",
    "dtype",
    "name",
    "trainable",
}
_NOT_COMPARED |= {"initializer_range", "max_sequence_length"}
# The same head weights give different answers with different values of these settings.
_OF_HEADS: tuple[str, ...] = (
    "num_classes",
    "num_targets",
    "multi_label",
    "label_names",
    "pooling",
    "normalize",
    "siamese",
    "crf",
)
_OF_HEADS += ("hidden_activation", "hidden_norm", "activation", "layer_norm_epsilon", "use_bias")
_OF_HEADS += ("prefix", "start_token", "tied")


def encoder_settings(encoder):
    """Returns the settings of an encoder that its weights do not determine, such as `num_heads`, as JSON values."""
    config = dict(encoder.get_config())
    if hasattr(encoder, "backbone"):
        config |= encoder.backbone.get_config()
    return {name: _plain(value) for name, value in config.items() if name not in _NOT_COMPARED}


def head_settings(model):
    """Returns the settings of a task that determine the meaning of its head, such as `label_names`, as JSON values."""
    found = {name: _plain(getattr(model, name)) for name in _OF_HEADS if hasattr(model, name)}
    if model.head_is_pretrained:  # The file does not contain it.
        digest = hashlib.sha256()
        for weight in (weight for group in layer_groups(model) if group.kind == "head" for weight in group.variables):
            digest.update(np.ascontiguousarray(keras.ops.convert_to_numpy(keras.ops.cast(weight, "float32"))))
        found["head_weights"] = digest.hexdigest()[:12]
    return {"head_name": model.checkpoint_head.name, **found} if hasattr(model, "checkpoint_head") else found


def check_encoder_settings(wanted, encoder, path):
    """Raises a `ValueError` if an encoder's settings differ from the settings in a file of adapters."""
    own = encoder_settings(encoder)
    wanted = {name: value for name, value in wanted.items() if name in own}
    if received := _differences(own, wanted):
        advice = {name: value for name, value in wanted.items() if own[name] != value}
        raise ValueError(
            "The adapters belong to an encoder with the same weights but different settings. Create the encoder with "
            f"the settings of the file, for example with `from_pretrained(..., encoder={advice})`. "
            f"Received: {received} in {str(path)!r}"
        )


def check_head_settings(wanted, model, path):
    """Raises a `ValueError` if the same head would give different answers in this task and in the one that saved it."""
    own, wanted = head_settings(model), dict(wanted)
    names, own_names = wanted.pop("label_names", None), own.get("label_names")
    if received := _differences(own, wanted):
        raise ValueError(
            "The settings of the task in the file do not match the model, so its head would give different answers. "
            f"Create the model with the settings of the file. Received: {received} in {str(path)!r}"
        )
    if names is None or own_names == names:
        return
    if own_names is None or len(own_names) != len(names) or not (_are_numbers(names) or _are_numbers(own_names)):
        order = " in the same order" if own_names is not None and sorted(own_names) == sorted(names) else ""
        raise ValueError(
            f"The head must have the labels of the file{order}, since its outputs follow them. Create the task with "
            f"`label_names={_cut(names)}`. Received: label_names={_cut(own_names)} in the model, and "
            f"{_cut(names)} in {str(path)!r}"
        )
    log.warning(
        "Either the file or the model does not name its labels, so they are matched by position: %s in the file, and "
        "%s in the model.",
        _cut(names),
        _cut(own_names),
    )


def _differences(own, wanted):
    """Returns the first settings that differ from those of a file, and both values, as a string."""
    others = [name for name, value in wanted.items() if own.get(name) != value]
    return ", ".join(f"{name}={own.get(name)!r} (file: {wanted[name]!r})" for name in others[:3])


def _are_numbers(names):
    """Returns whether names are the default names of a task that was created without names."""
    return names == [str(number) for number in range(len(names))]


def _cut(names):
    return names if names is None or len(names) <= 10 else f"[{', '.join(map(repr, names[:10]))}, ...]"


def _plain(value):
    """Returns a setting as JSON values, so that it equals the value from a file."""
    return json.loads(
        json.dumps(
            value, default=lambda part: keras.saving.serialize_keras_object(part) if callable(part) else str(part)
        )
    )
