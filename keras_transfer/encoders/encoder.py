"""The encoder protocol: what every pretrained encoder takes, returns and can do."""

import dataclasses

import keras

from keras_transfer.layers.activations import serialize_activation

# What encoders call their outputs: ours and KerasHub's, then what TF Hub's BERT modules say.
_SEQUENCE_KEYS = ("sequence_output", "sequence_outputs")
_POOLED_KEYS = ("pooled_output",)
_HIDDEN_KEYS = ("encoder_outputs",)

# How `from_pretrained` and `save_pretrained` reach the formats: the room `checkpoints` fills it when it is imported.
checkpoint_functions = {}


@dataclasses.dataclass
class Encoded:
    """What an encoder says of a batch of texts, whatever the encoder.

    Attributes:
        sequence: [batch, length, dim], or None where the encoder makes one vector of a text and shows no more.
        pooled: [batch, dim], or None where the architecture has none.
        hidden_states: list of [batch, length, dim] (embeddings, then each block), or None where it shows none.
        mask: [batch, length], 1 for a real token, 0 for padding, or None where all are real.
    """

    sequence: object
    pooled: object = None
    hidden_states: list | None = None
    mask: object = None


def encode(encoder, inputs=None, hidden_states=False):
    """Runs an encoder and returns one `Encoded`, whether it answers with a dict or a bare tensor.

    Args:
        encoder: an encoder of ours, a KerasHub backbone, or any functional model of token ids.
        inputs: what the encoder takes; None for its own symbolic inputs: the graph that grows on the result is
            flat, with every layer of the encoder a layer of the new model.
        hidden_states: bool, whether to return them too.

    Returns:
        An `Encoded`.

    Raises:
        ValueError: the encoder returns neither a sequence nor a vector, or no hidden states although they were asked
            for.

    Example:
    ```python
    encoder = keras_transfer.encoders.TransformerEncoder(100, 2, 2, 8, 16, max_sequence_length=16)
    states = keras_transfer.encoders.encode(
        encoder, {"token_ids": [[5, 6, 0]], "padding_mask": [[1, 1, 0]]}, hidden_states=True
    ).hidden_states
    ```
    """
    symbolic = inputs is None
    inputs = encoder.input if symbolic else _tensors(select_inputs(inputs, encoder.input))
    hidden = _symbolic_hidden_states(encoder) if hidden_states else None
    if symbolic:
        outputs = encoder.output
    elif hidden is None:
        outputs = encoder(inputs)
    else:
        outputs, hidden = keras.Model(encoder.input, [encoder.output, hidden])(inputs)
    if not isinstance(outputs, dict):
        outputs = {_SEQUENCE_KEYS[0]: outputs}
    sequence, pooled = _first(outputs, _SEQUENCE_KEYS), _first(outputs, _POOLED_KEYS)
    if (sequence is None and pooled is None) or (sequence is not None and len(sequence.shape) != 3):
        shapes = {key: getattr(value, "shape", value) for key, value in outputs.items()}
        raise ValueError(
            f"an encoder returns [batch, length, dim] under one of {_SEQUENCE_KEYS}, or [batch, dim] under "
            f"{_POOLED_KEYS[0]}. Received: {shapes}"
        )
    hidden = hidden or _first(outputs, _HIDDEN_KEYS)
    if hidden_states and hidden is None:
        raise ValueError(f"hidden states were asked for, but the encoder shows none. Received: {encoder!r}")
    mask = inputs.get("padding_mask") if isinstance(inputs, dict) else None
    return Encoded(sequence, pooled, hidden, mask)


def _tensors(inputs):
    """Lists and arrays as tensors: Keras takes a dict of lists for a nested structure of numbers."""
    if isinstance(inputs, dict):
        return {key: keras.ops.convert_to_tensor(value) for key, value in inputs.items()}
    return keras.ops.convert_to_tensor(inputs)


def _first(outputs, keys):
    return next((outputs[key] for key in keys if key in outputs), None)


def _symbolic_hidden_states(encoder):
    if getattr(encoder, "hidden_states", None) is not None:
        return list(encoder.hidden_states)
    if blocks := getattr(encoder, "transformer_layers", None):  # KerasHub
        if any(isinstance(block, list) for block in blocks):  # ALBERT: one block, called many times
            return None
        tensors = [blocks[0].input, *(block.output for block in blocks)]
        return [keras.tree.flatten(tensor)[0] for tensor in tensors]  # a block also takes the mask
    return None


def select_inputs(inputs, wanted):
    """Leaves out what a model does not take of what a preprocessor made (segment ids, where it has no segments)."""
    if isinstance(inputs, dict) and isinstance(wanted, dict) and wanted.keys() < inputs.keys():
        return {key: inputs[key] for key in wanted}
    return inputs


def constructor_settings(arguments):
    """Returns the `settings` of an `Encoder` from `locals()` at the start of its constructor.

    They are the constructor's arguments in order, without those that `Encoder` keeps itself.
    """
    own = ("self", "pooling", "normalize", "dtype", "name", "trainable", "options", "__class__")
    return {name: value for name, value in arguments.items() if name not in own}


class Encoder(keras.Model):
    """Base of the encoders: a functional model from token ids to vectors.

    A subclass's constructor has three parts: the layers, the functional model, and the attributes that
    `layer_groups()` reads.

    Args:
        inputs: Dict of `keras.Input`s: `token_ids`, `segment_ids` and `padding_mask`, each `[batch, length]` int32; or
            `text`, `[batch]` strings.
        outputs: Dict of `sequence_output` `[batch, length, dim]` and, where the architecture has one, `pooled_output`
            `[batch, dim]`.
        hidden_states: List of the embeddings and of each block's output, each `[batch, length, dim]`.
        pooling: String, one of `"first"`, `"mean"` and `"max"`. How the checkpoint makes one vector of a text, as
            sentence-transformers checkpoints do. Defaults to `None`, which is not specified.
        normalize: Boolean. Whether that vector is scaled to length 1. Defaults to `False`.
        dtype: Dtype or policy of all layers. Defaults to `None`, the global policy.
        name: String. Name of the model. Defaults to `None`.
        trainable: Boolean. Whether the weights train. Defaults to `True`.
        settings: Dict of the arguments of the subclass's constructor in order, from `constructor_settings(locals())`.
            They become attributes and the config. Defaults to `None`, no settings.

    Raises:
        ValueError: If `pooling` is unknown.
    """

    POOLINGS = ("first", "mean", "max")

    def __init__(
        self,
        inputs,
        outputs,
        hidden_states,
        pooling=None,
        normalize=False,
        dtype=None,
        name=None,
        trainable=True,
        settings=None,
    ):
        # No **kwargs: Keras ignores the ones of a functional model that it does not know.
        super().__init__(inputs=inputs, outputs=outputs, name=name)
        self.trainable = trainable  # now that the layers are there; Keras's own argument does not reach them
        if pooling not in (None, *self.POOLINGS):
            raise ValueError(
                f"Invalid value for argument `pooling`. Expected one of {self.POOLINGS} or None. "
                f"Received: pooling={pooling!r}"
            )
        self.dtype_policy = keras.dtype_policies.get(dtype or keras.config.dtype_policy())
        self.settings = dict(settings or {})
        for argument, value in self.settings.items():
            setattr(self, argument, value)
        self.hidden_states = hidden_states
        self.pooling = pooling
        self.normalize = normalize

    def call(self, inputs, training=None, mask=None):
        return super().call(select_inputs(inputs, self.input), training=training, mask=mask)

    def layer_groups(self):
        """Returns the encoder's layers or weights in order as a list of `(name, kind, layers)`."""
        raise NotImplementedError(f"{type(self).__name__} must implement `layer_groups()`.")

    def get_config(self):
        return {
            **{
                name: serialize_activation(value) if callable(value) else value for name, value in self.settings.items()
            },
            "pooling": self.pooling,
            "normalize": self.normalize,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            "name": self.name,
            "trainable": self.trainable,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        if isinstance(config.get("dtype"), dict):
            config["dtype"] = keras.dtype_policies.deserialize(config["dtype"])
        return cls(**config)

    @classmethod
    def from_pretrained(cls, source, **overrides):
        """Builds the encoder that a checkpoint describes and loads its weights.

        Args:
            source: A Hugging Face folder (`config.json`, `model.safetensors`), a sentence-transformers folder, a
                folder with a Google TensorFlow checkpoint, `"hf://organisation/name"`, the name of a packaged
                encoder (`"minilm-l6"`), a folder with a KerasHub preset, or `"keras_hub://"` and what KerasHub's
                `from_preset` takes (`"keras_hub://bert_tiny_en_uncased"`).
            **overrides: Arguments of the class that differ from the checkpoint's (`dropout=0.0`, `dtype=...`).

        Returns:
            The encoder. Its attribute `checkpoint_report` says what was used and what was not. For a KerasHub preset,
            the `keras_hub.models.Backbone` that KerasHub loads, without a report.

        Raises:
            CheckpointError: If the checkpoint cannot be read, is of another architecture, or does not fit.

        Example:
        ```python
        encoder = keras_transfer.encoders.BertEncoder.from_pretrained("minilm-l6")
        ```
        """
        return checkpoint_functions["load"](source, cls, **overrides)

    def save_pretrained(self, folder, preprocessor=None, overwrite=False):
        """Writes the encoder as a checkpoint, which `from_pretrained` and the original library load.

        Transformers' `AutoModel` loads the folder with the same outputs and, if `preprocessor` is given, its
        `AutoTokenizer` with the same ids. ELMo's files are those of the original.

        Args:
            folder: String or path. It is written as a whole or not at all.
            preprocessor: The encoder's preprocessor, whose vocabulary and settings are written too. Defaults to
                `None`, which writes the encoder alone.
            overwrite: Boolean. Whether to replace a folder that exists. Defaults to `False`.

        Raises:
            FileExistsError: If the folder exists and `overwrite=False`.
            CheckpointError: If no format holds such an encoder or preprocessor. A subclass of an encoder needs an
                `Architecture` of its own.
        """
        checkpoint_functions["save"](self, folder, preprocessor=preprocessor, overwrite=overwrite)
