"""TF Hub modules as encoders: BERT-like ones, and those that return one vector per text."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Self

import keras

from keras_transfer.encoders import Encoder
from keras_transfer.hub.errors import HubError, expect
from keras_transfer.hub.hub_layer import HubLayer
from keras_transfer.hub.tensors import describe
from keras_transfer.hub.trust import from_trusted_config

# Names of the encoder's inputs in modules. Modules of 2019 use `input_ids` and `segment_ids`.
TOKEN_INPUTS = {
    "input_word_ids": "token_ids",
    "input_ids": "token_ids",
    "input_mask": "padding_mask",
    "input_type_ids": "segment_ids",
    "segment_ids": "segment_ids",
}


@keras.saving.register_keras_serializable(package="keras_transfer")
class HubEncoder(Encoder):
    """A TF Hub module as an encoder for any task.

    A BERT-like module accepts and returns dicts, whose keys are renamed to `Encoder`'s. The hidden states are
    the outputs of its blocks (`encoder_outputs`), without the embeddings. A text embedding module accepts strings and
    returns one vector per text, which is the pooled output.

    Args:
        handle: String or path. The module's folder, archive or URL.
        arguments: Dict of JSON values. Additional arguments for each call of the module. Defaults to `None`.
        tags: String or list of strings. Variant of the module to load. Defaults to `None`, the only variant.
        signature: String. Signature of the module to call, such as `"tokens"` for a BERT-like module of 2019. Defaults
            to `None`, the module itself.
        sha256: String. Expected checksum of the handle's archive. Defaults to `None`, no check.
        trainable: Boolean. Whether to train the module. Defaults to `True`.
        pooling: String. How a text's token vectors are pooled, as for `Encoder`. Defaults to `None`, not specified.
        name: String. Name of the encoder. Defaults to `None`.

    Inputs: `token_ids`, `padding_mask` and, if the module accepts them, `segment_ids`, each [batch, length] int32; or
        `text` [batch] strings.

    Outputs: `sequence_output` [batch, length, dim] and `pooled_output` [batch, dim], or only the latter.

    Raises:
        HubError: If the module cannot be loaded, or does not have the inputs and outputs of an encoder.
        ValueError: If `pooling` is unknown.
        RuntimeError: If the backend is not TensorFlow.

    Example:
    ```python
    module = tf.Module()
    module.table = tf.Variable(tf.ones([10, 4]), name="table")
    signature = [tf.TensorSpec([None], tf.string)]
    module.__call__ = tf.function(lambda text: tf.gather(module.table, tf.strings.length(text) % 10), signature)
    tf.saved_model.save(module, "module")
    encoder = keras_transfer.hub.HubEncoder("module")
    model = keras_transfer.tasks.TextClassifier(encoder, num_classes=2)
    model.predict(["A fine film."])
    ```
    """

    def __init__(
        self,
        handle: str | os.PathLike,
        *,
        arguments: Mapping | None = None,
        tags: str | Sequence[str] | None = None,
        signature: str | None = None,
        sha256: str | None = None,
        trainable: bool = True,
        pooling: str | None = None,
        name: str | None = None,
    ):
        as_dict = True if signature else None
        options: dict[str, Any] = {
            "arguments": arguments,
            "tags": tags,
            "signature": signature,
            "signature_outputs_as_dict": as_dict,
        }
        module = HubLayer(handle, trainable, **options, sha256=sha256, name="module")

        # === Functional model ===
        inputs, names = _inputs(module)
        outputs = module({theirs: inputs[ours] for theirs, ours in names.items()} if names else inputs["text"])
        outputs, hidden_states = _outputs(outputs)
        super().__init__(inputs, outputs, hidden_states, pooling, dtype="float32", name=name, trainable=trainable)

        # === Config ===
        self.module = module

    def layer_groups(self) -> list:
        return self.module.layer_groups()

    @classmethod
    def from_pretrained(cls, source: str | os.PathLike, **overrides: Any) -> Self:
        """Returns the encoder of a module, as calling the class does.

        Args:
            source: String or path. The module's handle.
            **overrides: Arguments of the constructor.

        Returns:
            A `HubEncoder`.
        """
        return cls(source, **overrides)

    def get_config(self):
        config, base = self.module.get_config(), super().get_config()
        ours = {key: config[key] for key in ("handle", "arguments", "tags", "signature", "sha256", "trainable")}
        return {**ours, **{key: base[key] for key in ("pooling", "name")}}

    @classmethod
    def from_config(cls, config, custom_objects=None, safe_mode=None):
        return from_trusted_config(cls, config, safe_mode)


def _inputs(module):
    """Returns the encoder's symbolic inputs, and a dict from the module's names to ours, empty for a text input."""
    for spec in module.input_specs:
        if isinstance(spec, dict) and spec.keys() <= TOKEN_INPUTS.keys() and _ranks(spec) == {2}:
            names = {name: TOKEN_INPUTS[name] for name in spec}
            shapes = {ours: spec[name].shape[1:] for name, ours in names.items()}
            return {ours: keras.Input(shape, dtype="int32", name=ours) for ours, shape in shapes.items()}, names
        leaves = keras.tree.flatten(spec)
        if len(leaves) == 1 and leaves[0].dtype.name == "string" and _ranks(spec) == {1}:
            return {"text": keras.Input((), dtype="string", name="text")}, {}
    raise HubError(
        "The module of an encoder must take strings [batch], or a dict of ids [batch, length] with keys among "
        f"{sorted(TOKEN_INPUTS)}. "
        f"Received: a module that takes {' or '.join(map(describe, module.input_specs)) or 'unspecified inputs'}"
    )


def _ranks(spec):
    return {leaf.shape.rank for leaf in keras.tree.flatten(spec)}


def _outputs(outputs):
    """Returns the encoder's outputs, and the hidden states of its blocks if the module returns them, or else None."""
    if not isinstance(outputs, dict):
        outputs = {"default": outputs}
    sequence = outputs.get("sequence_output", outputs.get("sequence_outputs"))
    pooled = outputs.get("pooled_output", outputs.get("default"))
    found = {}
    if sequence is not None:
        found["sequence_output"] = sequence
    if pooled is not None and len(pooled.shape) == 2:
        found["pooled_output"] = pooled
    rule = (
        "The module of an encoder must return `sequence_output` [batch, length, dim], `pooled_output` [batch, dim] or "
        "one vector per text."
    )
    expect(found, rule, received=describe(outputs))
    return found, list(outputs.get("encoder_outputs", ())) or None
