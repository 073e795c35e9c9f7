"""TF Hub modules behind the encoder protocol: BERT-like ones, and those that make one vector of a text."""

import keras

from keras_transfer.encoders import Encoder
from keras_transfer.hub.errors import HubError
from keras_transfer.hub.layer import HubLayer
from keras_transfer.hub.tensors import describe
from keras_transfer.hub.trust import trusted

# What modules call the inputs of the protocol; the second names are those of 2019.
TOKEN_INPUTS = {
    "input_word_ids": "token_ids",
    "input_ids": "token_ids",
    "input_mask": "padding_mask",
    "input_type_ids": "segment_ids",
    "segment_ids": "segment_ids",
}


@keras.saving.register_keras_serializable(package="keras_transfer")
class HubEncoder(Encoder):
    """A TF Hub module as an encoder that every task takes.

    A BERT-like module takes a dict of token ids and returns a dict; both are renamed to what the protocol says. Its
    hidden states are those of its blocks (`encoder_outputs`), without the embeddings. A text embedding module takes
    strings and returns one vector for each, which is the encoder's pooled output.

    Args:
        handle: as for `HubLayer`, which also says what the next four are.
        arguments, tags, signature, sha256: as for `HubLayer`; for a BERT-like module of 2019 `signature="tokens"`.
        trainable: bool, whether the module trains.
        pooling: as for `Encoder`.
        name: str.

    Inputs: `token_ids`, `padding_mask` and, where the module takes them, `segment_ids`, each [batch, length] int32; or
        `text` [batch] strings.

    Outputs: `sequence_output` [batch, length, dim] and `pooled_output` [batch, dim]; or the latter alone.

    Raises:
        HubError: the module cannot be loaded, or its inputs and outputs are not those of an encoder.
        ValueError: `pooling` is unknown.
        RuntimeError: the backend is not TensorFlow.

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
        handle,
        arguments=None,
        tags=None,
        signature=None,
        sha256=None,
        trainable=True,
        pooling=None,
        name=None,
    ):
        as_dict = True if signature else None
        options = {"arguments": arguments, "tags": tags, "signature": signature, "signature_outputs_as_dict": as_dict}
        module = HubLayer(handle, trainable, **options, sha256=sha256, name="module")

        # === Functional model ===
        inputs, names = _inputs(module)
        outputs = module({theirs: inputs[ours] for theirs, ours in names.items()} if names else inputs["text"])
        outputs, hidden_states = _outputs(outputs)
        super().__init__(inputs, outputs, hidden_states, pooling, dtype="float32", name=name, trainable=trainable)

        # === Config ===
        self.module = module

    def layer_groups(self):
        return self.module.layer_groups()

    @classmethod
    def from_pretrained(cls, source, **overrides):
        """Returns the encoder of a module: the class itself takes the handle, and so does this."""
        return cls(source, **overrides)

    def get_config(self):
        config, base = self.module.get_config(), super().get_config()
        ours = {key: config[key] for key in ("handle", "arguments", "tags", "signature", "sha256", "trainable")}
        return {**ours, **{key: base[key] for key in ("pooling", "name")}}

    @classmethod
    def from_config(cls, config, custom_objects=None, safe_mode=None):
        return trusted(cls, config, safe_mode)


def _inputs(module):
    """The protocol's symbolic inputs, and which of the module's names is which of them (none where it takes text)."""
    for spec in module.input_specs:
        if isinstance(spec, dict) and spec.keys() <= TOKEN_INPUTS.keys() and _ranks(spec) == {2}:
            names = {name: TOKEN_INPUTS[name] for name in spec}
            shapes = {ours: spec[name].shape[1:] for name, ours in names.items()}
            return {ours: keras.Input(shape, dtype="int32", name=ours) for ours, shape in shapes.items()}, names
        leaves = keras.tree.flatten(spec)
        if len(leaves) == 1 and leaves[0].dtype.name == "string" and _ranks(spec) == {1}:
            return {"text": keras.Input((), dtype="string", name="text")}, {}
    raise HubError(
        f"an encoder's module takes strings [batch], or a dict of ids [batch, length] among {sorted(TOKEN_INPUTS)}. "
        f"Received: a module that takes {' or '.join(map(describe, module.input_specs)) or 'whatever it is given'}"
    )


def _ranks(spec):
    return {leaf.shape.rank for leaf in keras.tree.flatten(spec)}


def _outputs(outputs):
    """The protocol's outputs, and the blocks' hidden states where the module shows them."""
    if not isinstance(outputs, dict):
        outputs = {"default": outputs}
    sequence = outputs.get("sequence_output", outputs.get("sequence_outputs"))
    pooled = outputs.get("pooled_output", outputs.get("default"))
    found = {}
    if sequence is not None:
        found["sequence_output"] = sequence
    if pooled is not None and len(pooled.shape) == 2:
        found["pooled_output"] = pooled
    if not found:
        raise HubError(
            "an encoder's module returns `sequence_output` [batch, length, dim], `pooled_output` [batch, dim], or one "
            f"vector for each text. Received: {describe(outputs)}"
        )
    return found, list(outputs.get("encoder_outputs", ())) or None
