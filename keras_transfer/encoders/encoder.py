"""The encoder protocol: what every pretrained encoder accepts, returns and can do."""

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_transfer.core.arrays import expect_each
from keras_transfer.core.door import NamesElsewhere
from keras_transfer.core.expect import NotApplicableError, expect, one_of, raising
from keras_transfer.distribute import write_together
from keras_transfer.encoders.attached import IN_CONFIG, Attached
from keras_transfer.encoders.quantization import Quantizes
from keras_transfer.encoders.traced import TracesAgain
from keras_transfer.encoders.weight_facts import LoadsOwnWeights, store_weight_facts, without_weight_facts
from keras_transfer.keras_internals import ReachesAllLayers
from keras_transfer.layers import PositionEmbedding, get_activation, serialize_activation

# Names of encoders' outputs: in this package and KerasHub, then in TF Hub's BERT modules.
_SEQUENCE_KEYS = ("sequence_output", "sequence_outputs")

_POOLED_KEYS = ("pooled_output",)
_HIDDEN_KEYS = ("encoder_outputs",)


@dataclasses.dataclass
class Encoded:
    """The outputs of any encoder for a batch of texts.

    Attributes:
        sequence: Tensor of shape `[batch, length, dim]`, or `None` if the encoder returns only one vector per text.
        pooled: Tensor of shape `[batch, dim]`, or `None` if the architecture has none.
        hidden_states: List of tensors of shape `[batch, length, dim]` (embeddings, then each block), or `None` if the
            encoder does not provide them.
        mask: Tensor of shape `[batch, length]`, 1 for a real token, 0 for padding, or `None` if all are real.
    """

    sequence: object
    pooled: object = None
    hidden_states: list | None = None
    mask: object = None


def encode(encoder: keras.Model, inputs: Any = None, hidden_states: bool = False) -> Encoded:
    """Runs an encoder that returns a dict or a single tensor, and returns its outputs as an `Encoded`.

    Args:
        encoder: An `Encoder`, a KerasHub backbone, or any functional model of token ids.
        inputs: The encoder's inputs. Defaults to `None`, its own symbolic inputs: a model built on the result is flat
            and contains every layer of the encoder.
        hidden_states: Boolean. Whether to return the hidden states too. Defaults to `False`.

    Returns:
        An `Encoded`.

    Raises:
        ValueError: If the encoder returns neither a sequence nor a vector, if it is an encoder-decoder or a
            `keras.Sequential`, or if `hidden_states=True` and it does not provide them.

    Example:
    ```python
    encoder = keras_transfer.encoders.TransformerEncoder(
        100, num_layers=2, num_heads=2, hidden_dim=8, intermediate_dim=16, max_sequence_length=16
    )
    states = keras_transfer.encoders.encode(
        encoder, {"token_ids": [[5, 6, 0]], "padding_mask": [[1, 1, 0]]}, hidden_states=True
    ).hidden_states
    ```
    """
    rule = (
        "A `Sequential` cannot be an encoder, because its inputs have no names. If it does not begin "
        "with `keras.Input((None,), dtype='int32')`, add this, and pass the functional model "
        "`keras.Model({'token_ids': encoder.inputs[0]}, encoder.outputs[0])`. Its output must have the shape "
        "[batch, length, dim]."
    )
    expect(not isinstance(encoder, keras.Sequential), rule, encoder=encoder)
    rule = (
        "An encoder-decoder returns vectors of two texts. Use its `encoder` for tasks that read one text, or a "
        "`Seq2SeqLM`."
    )
    names = encoder.output if isinstance(encoder.output, dict) else ()
    expect("decoder_sequence_output" not in names, rule, error=NotApplicableError, encoder=encoder)
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
    rule = (
        f"Encoders must return a [batch, length, dim] tensor under one of {_SEQUENCE_KEYS}, or a [batch, dim] tensor "
        f"under '{_POOLED_KEYS[0]}'. For one vector per text, return a dict: `keras.Model(inputs, "
        f"{{'{_POOLED_KEYS[0]}': vectors}})`."
    )
    fits = pooled is not None if sequence is None else len(sequence.shape) == 3
    expect(fits, rule, **{key: getattr(value, "shape", value) for key, value in outputs.items()})
    hidden = hidden or _first(outputs, _HIDDEN_KEYS)
    rule = "The encoder provides no hidden states, but they are required."
    if hidden_states:
        expect(hidden is not None, rule, error=NotApplicableError, encoder=encoder)
    mask = inputs.get("padding_mask") if isinstance(inputs, dict) else None
    return Encoded(sequence, pooled, hidden, mask)


def token_states(encoder):
    """Returns the outputs of an encoder, with hidden states that have a vector for each token of its inputs."""
    adapters = [kind for kinds in getattr(encoder, "adapters", {}).values() for kind in kinds]
    rule = "Adapters of the kind `Prompt` add hidden states that belong to no token. Use another kind."
    expect(not any(kind.lengthens for kind in adapters), rule, error=NotApplicableError, adapters=adapters)
    return encode(encoder, hidden_states=True)


def above(model, layer=0, advice=""):
    """Returns a hidden state of a task's encoder, and the model from it and the task's inputs to the task's outputs."""
    encoder = model.encoder
    if "decoder_sequence_output" in encoder.output:  # The half that reads.
        encoder = encoder.encoder
    states = token_states(encoder).hidden_states
    rule = f"`layer` must be a hidden state of the encoder, from 0 to {len(states) - 1}."
    expect(0 <= layer < len(states), rule, layer=layer)
    inputs = model.input.values() if isinstance(model.input, dict) else model.inputs
    rule = "The blocks of the encoder share a layer, so only `layer=0` can be used."
    with raising(rule, ValueError, error=NotApplicableError):
        upper = keras.Model([states[layer], *inputs], model.output)
    rule = f"The outputs of the model must depend on `hidden_states[{layer}]` of its encoder. {advice}"
    expect({*model.operations} - {*upper.operations}, rule, error=NotApplicableError, encoder=model.encoder)
    return states[layer], upper


def _tensors(inputs):
    """Converts lists and arrays to tensors, because Keras treats a dict of lists as nested numbers."""
    if isinstance(inputs, dict):
        return {key: keras.ops.convert_to_tensor(value) for key, value in inputs.items()}
    return keras.ops.convert_to_tensor(inputs)


def _first(outputs, keys):
    return next((outputs[key] for key in keys if key in outputs), None)


def _symbolic_hidden_states(encoder):
    if getattr(encoder, "hidden_states", None) is not None:
        return list(encoder.hidden_states)
    if blocks := getattr(encoder, "transformer_layers", None):  # A KerasHub backbone has them.
        if any(isinstance(block, list) for block in blocks):  # ALBERT calls the same block many times.
            return None
        tensors = [blocks[0].input, *(block.output for block in blocks)]
        return [keras.tree.flatten(tensor)[0] for tensor in tensors]  # A block also has the mask as input.
    return None


def select_inputs(inputs, wanted):
    """Drops the inputs from a preprocessor that a model does not accept, such as segment ids."""
    if isinstance(inputs, dict) and isinstance(wanted, dict) and wanted.keys() < inputs.keys():
        return {key: inputs[key] for key in wanted}
    return inputs


def constructor_settings(arguments):
    """Returns the `settings` of an `Encoder`, the constructor's own arguments, from `locals()` at its start."""
    own = ("self", "pooling", "normalize", "dtype", "name", "trainable", "kwargs", "__class__")
    return {name: value for name, value in arguments.items() if name not in own}


class Encoder(ReachesAllLayers, LoadsOwnWeights, TracesAgain, Quantizes, keras.Model, metaclass=NamesElsewhere):
    """Base class of the encoders, functional models from token ids to vectors.

    A subclass's constructor has three parts: the layers, the functional model, and the attributes that
    `layer_groups()` uses.

    Args:
        inputs: Dict of `keras.Input`s: `token_ids`, `segment_ids` and `padding_mask`, each `[batch, length]` int32; or
            `text`, `[batch]` strings.
        outputs: Dict of `sequence_output` `[batch, length, dim]` and, where the architecture has one, `pooled_output`
            `[batch, dim]`.
        hidden_states: List of the embeddings and of each block's output, each `[batch, length, dim]`.
        pooling: String, one of `"first"`, `"last"`, `"mean"`, `"max"`, `"weighted_mean"` and `"mean_sqrt"`; see
            `layers.SequencePooling`. How the checkpoint pools a text into one vector, as sentence-transformers
            checkpoints specify. Defaults to `None`, not specified.
        normalize: Boolean. Whether that vector is scaled to length 1. Defaults to `False`.
        dtype: Dtype or policy of all layers. Defaults to `None`, the global policy.
        name: String. Name of the model. Defaults to `None`.
        trainable: Boolean. Whether the weights train. Defaults to `True`.
        settings: Dict of the arguments of the subclass's constructor in order, from `constructor_settings(locals())`.
            They become attributes and the config. Defaults to `None`, no settings.

    Raises:
        ValueError: If `pooling` is unknown.
    """

    # From the largest widths to the rates of `default_learning_rate`.
    LEARNING_RATES: dict[float, float] = {128: 3e-4, 256: 2e-4, 512: 1e-4, 768: 5e-5, math.inf: 2e-5}
    POOLINGS: tuple[str, ...] = ("first", "last", "mean", "max", "weighted_mean", "mean_sqrt")

    def __init__(
        self,
        inputs: Mapping,
        outputs: Mapping,
        hidden_states: Sequence,
        pooling: str | None = None,
        normalize: bool = False,
        dtype: Any = None,
        name: str | None = None,
        trainable: bool = True,
        settings: Mapping | None = None,
    ):
        # There is no **kwargs because Keras ignores unknown arguments of a functional model.
        super().__init__(inputs=inputs, outputs=outputs, name=name)
        # Keras's own argument does not reach the layers.
        if self.trainable != trainable:  # type: ignore[has-type]
            self.trainable = trainable
        one_of(None, *self.POOLINGS).check("pooling", pooling)
        self.dtype_policy = keras.dtype_policies.get(dtype or keras.config.dtype_policy())
        self.settings = dict(settings or {})
        for argument, value in self.settings.items():
            setattr(self, argument, value)
        self.hidden_states = hidden_states
        self.pooling = pooling
        self.normalize = normalize
        self.attached = Attached(self)

    def call(self, inputs, training=None, mask=None):
        return super().call(select_inputs(inputs, self.input), training=training, mask=mask)

    def generate(self, *args: Any, **kwargs: Any) -> None:
        """Raises an `AttributeError` that names the tasks that write texts, because an encoder does not.

        Args:
            *args: Any arguments, which are ignored.
            **kwargs: Any keyword arguments, which are ignored.

        Raises:
            AttributeError: If it is called.
        """
        raise AttributeError(
            "An encoder returns vectors. Tasks write texts: `kt.tasks.Seq2SeqLM(encoder, preprocessor).generate(...)` "
            "for an encoder-decoder, or `kt.tasks.CausalLM` for an encoder whose tokens see only earlier ones. "
            f"Received: `generate` of {type(self).__name__}"
        )

    @property
    def default_learning_rate(self) -> float:
        """Peak learning rate at which all weights of an encoder of this width and family fine-tune well with AdamW.

        1e-4 for a width of 384 is measured (`benchmarks.fine_tuning.methods`), the other widths are rounded from the
        ranges that their authors searched (Devlin et al. 2018; Turc et al. 2019, https://arxiv.org/abs/1908.08962).
        """
        width = keras.tree.flatten(self.output)[-1].shape[-1]
        return next(rate for largest, rate in self.LEARNING_RATES.items() if width <= largest)

    def layer_groups(self) -> list:
        """Returns the encoder's layers or weights in order, from the inputs to the outputs.

        A fourth element, `False`, is for layers that are not pretrained.

        Returns:
            A list of `(name, kind, layers)`. A fourth element, `False`, marks layers that are not pretrained.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `layer_groups()`.")

    def attention_weights(self, inputs: Mapping) -> dict:
        """Returns the weights of attention that the encoder computes; see `analysis.attention_weights`.

        Args:
            inputs: Dict of tensors, one for each input of the encoder.

        Returns:
            A dict with the key `encoder`, and for an encoder-decoder also `decoder` and `cross`: lists with a float32
            tensor `[batch, heads, queries, keys]` for each block.

        Raises:
            ValueError: If the encoder has none.
        """
        raise ValueError(
            "The attention weights can only be computed for the Transformers of `keras_transfer.encoders`. "
            f"Received: {type(self).__name__}"
        )

    # === What hangs on it ===

    @property
    def adapters(self) -> dict:
        """Dict from the names of adapters to lists of their kinds, such as `adaptation.LoRA`."""
        return self.attached.adapters

    @property
    def active_adapters(self) -> tuple:
        """Tuple of the names of the adapters that are applied, in order."""
        return self.attached.active

    @property
    def checkpoint_report(self) -> Any:
        """The `CheckpointReport` of an encoder that was loaded from a checkpoint, and otherwise `None`."""
        return self.attached.report

    def adapters_changed(self) -> None:
        """Is called after other adapters have become the active ones."""

    # === Files ===

    def get_config(self):
        settings = {
            name: serialize_activation(value) if callable(value) else value for name, value in self.settings.items()
        }
        return {
            **settings,
            **self.attached.config(),
            "pooling": self.pooling,
            "normalize": self.normalize,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            "name": self.name,
            "trainable": self.trainable,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config, attached = dict(config), {name: config[name] for name in IN_CONFIG if name in config}
        if isinstance(config.get("dtype"), dict):
            config["dtype"] = keras.dtype_policies.deserialize(config["dtype"])
        encoder = cls(**{name: value for name, value in config.items() if name not in attached})
        encoder.attached.restore(attached)
        return encoder

    def weight_facts(self) -> dict:
        """Returns what files of weights say about the encoder.

        Returns:
            Dict of JSON values.
        """
        return self.attached.facts()

    def save_own_variables(self, store):
        super().save_own_variables(store)
        store_weight_facts(store, self.weight_facts())

    def checked_variables(self, store: Any) -> dict:
        """Returns what `save_own_variables` of Keras has written, after the facts in a file have been compared.

        Args:
            store: Dict-like store of a file.

        Returns:
            Dict of arrays.
        """
        return without_weight_facts(store, self.weight_facts())

    def load_own_variables(self, store):
        super().load_own_variables(self.checked_variables(store))

    @classmethod
    def from_pretrained(cls, source: str | os.PathLike, **overrides: Any) -> Any:
        """Builds the encoder that a checkpoint describes and loads its weights.

        Args:
            source: A Hugging Face folder (`config.json`, `model.safetensors`), a sentence-transformers folder, a
                folder with a Google TensorFlow checkpoint, `"hf://organization/name"`, the name of a packaged
                encoder (`"minilm-l6"`), a folder with a KerasHub preset, or `"keras_hub://"` and what KerasHub's
                `from_preset` accepts (`"keras_hub://bert_tiny_en_uncased"`).
            **overrides: Arguments of the class that differ from the checkpoint's (`dropout=0.0`, `dtype=...`).

        Returns:
            The encoder. Its attribute `checkpoint_report` lists the weights that were used and those that were not.
            For a KerasHub preset, the `keras_hub.models.Backbone` that KerasHub loads, without a report.

        Raises:
            CheckpointError: If the checkpoint cannot be read, has another architecture, or does not match the encoder.

        Example:
        ```python
        encoder = keras_transfer.encoders.BertEncoder.from_pretrained("minilm-l6")
        ```
        """
        from keras_transfer.checkpoints import load

        return load(source, cls, **overrides)

    def save_pretrained(self, folder: str | os.PathLike, preprocessor: Any = None, *, overwrite: bool = False) -> None:
        """Writes the encoder as a checkpoint that `from_pretrained` and the original library can load.

        Transformers' `AutoModel` loads the folder with the same outputs and, if `preprocessor` is given, its
        `AutoTokenizer` with the same ids. ELMo is written in the original's format.

        Args:
            folder: String or path. Folder to write. It is written completely or not at all.
            preprocessor: The encoder's preprocessor, whose vocabulary and settings are written too. Defaults to
                `None`, which writes the encoder alone.
            overwrite: Boolean. Whether to replace a folder that exists. Defaults to `False`.

        Raises:
            FileExistsError: If the folder exists and `overwrite=False`.
            CheckpointError: If no format supports the encoder or the preprocessor. A subclass of an encoder needs its
                own `Architecture`.
        """
        from keras_transfer.checkpoints import save

        write_together(lambda path: save(self, path, preprocessor=preprocessor, overwrite=overwrite), folder, self)


def check_ids(encoder, arrays):
    """Raises a `ValueError` if ids are not rows of the encoder's tables; a negative id would count from the end."""
    decoder = getattr(encoder, "decoder", None)
    counts = {
        "token_ids": getattr(encoder, "vocabulary_size", None),
        "segment_ids": getattr(encoder, "num_segments", None),
        "decoder_token_ids": None if decoder is None else decoder.token_embedding.input_dim,
    }
    for name, count in counts.items():
        ids = arrays.get(name)
        if ids is None:
            continue
        if ids.dtype.kind not in "iub":
            expect_each(ids == np.round(ids), f"`{name}` must be integers.", ids)
        elif count:
            rule = f"`{name}` must be from 0 to {count - 1}, because the encoder has {count} of them."
            expect_each((ids >= 0) & (ids < count), rule, ids)
        for table in encoder.layers if name != "segment_ids" else ():
            if isinstance(table, PositionEmbedding):
                table.check_length(ids.shape[-1])


def initializer_on(encoder):
    """Returns the initializer of a dense layer on an encoder."""
    return keras.initializers.TruncatedNormal(stddev=getattr(encoder, "initializer_range", 0.02))


def dense_on(encoder, units, activation, **options):
    """Returns a dense layer on an encoder, or on another object with its settings, and by default with its `dtype`."""
    options = {"dtype": encoder.dtype_policy, **options}
    return keras.layers.Dense(units, get_activation(activation), kernel_initializer=initializer_on(encoder), **options)
