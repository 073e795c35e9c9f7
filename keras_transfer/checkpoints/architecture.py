"""The record of an architecture: the names of its settings and weights in checkpoints, for loading and saving."""

import dataclasses
import os
import re
import types
from collections.abc import Callable, Mapping

import keras

from keras_transfer.checkpoints.tensors import (
    SAME,
    TRANSPOSED,
    CheckpointError,
    Entry,
    Within,
    check_all,
    expect,
)
from keras_transfer.text import TokenPreprocessor

# A layer's variables, their names in torch, and how torch stores them.
_PARTS = (
    ("kernel", "weight", TRANSPOSED),
    ("embeddings", "weight", SAME),
    ("gamma", "weight", SAME),
    ("bias", "bias", SAME),
    ("beta", "bias", SAME),
)


@dataclasses.dataclass(frozen=True)
class Architecture:
    """The checkpoints of one architecture, as tables that are read in both directions.

    Names with a dot (`"char_cnn.filters"`) refer to nested objects. Names of tensors do not include the prefix.

    Args:
        model_type: String. The name of the architecture, as in `config.json`.
        encoder_class: Class. The encoder that holds the weights. Its subclasses need their own records.
        settings: Tuple of `(argument, key, default)`: an argument of the encoder, its name in the configuration, and
            its value if the configuration lacks it (or a function of the configuration that returns this value), or the
            type (`int`) of a setting that it must have. An optional fourth element is a dict from the values in the
            configuration to those of the argument.
        tensors: Dict from the path of a layer or a variable of the encoder to the name of its tensors. A `*` stands
            for each item of a list. The name is a list if a layer holds several tensors side by side, and
            `(name, layout)` if a variable is not stored unchanged. The name and the layout may be functions of the
            encoder. The path is a tuple if a tensor holds several variables, stacked on the first axis. `Within` is the
            table of an object within the encoder.
        preprocessor_class: Class. The preprocessor of its checkpoints, or `None`. Defaults to `TokenPreprocessor`.
        format: String. The format that writes its checkpoints. Defaults to `"huggingface"`.
        model_class: String. The class of the encoder in Transformers. Defaults to `""`.
        aliases: Tuple of other values of `model_type` that are read. Defaults to `()`.
        part: `Architecture` of the same checkpoints for another encoder, such as one that holds only the weights of the
            encoder of an encoder-decoder. It is loaded if the configuration names its `model_class` or a class with one
            of its heads, if the user asks for its encoder, or if only it has a head for the task. Defaults to `None`.
        prefix: String. Prefix of the names of the encoder's tensors in a model with a head. Defaults to `""`.
        heads: Dict from `TaskHead.name` of a task to its `Head`. If a head cannot be loaded, only the prefix of the
            names of its tensors. Defaults to `{}`.
        tied: Dict from the name of a tensor to the name of the tensor that it is a copy of. Defaults to `{}`.
        ignored: Tuple of regular expressions that match the names of tensors that are not weights. Defaults to that of
            the position ids, 0, 1, 2, ...
        renamed: Dict from regular expressions of older names of tensors to their replacements. Defaults to `{}`.
        optional: Tuple of paths in `tensors` of layers that a checkpoint may lack. Each is also the name of the
            encoder's argument that says whether there is such a layer. Defaults to `()`.
        fixed: Dict of settings that the encoder does not have, each with the only value that can be loaded. Defaults to
            `{}`.
        assumed: Dict of those settings in `fixed` that a configuration must have, because the original assumes another
            value if they are missing. Defaults to `{}`.
        synonyms: Dict from other names of settings, which the original reads in their place, to the names in
            `settings`. A configuration that contains both must have the same value under them. Defaults to `{}`.
        read: Function of `(arguments, config)` that returns the arguments, if `settings` do not describe them
            completely.
        write: Function of `(config, encoder)` that returns the configuration; the inverse of `read`.
        extra_tensors: Function of an encoder that returns a dict of tensors that a checkpoint must have but the encoder
            does not have.
    """

    model_type: str
    encoder_class: type
    settings: tuple
    tensors: dict
    preprocessor_class: type | None = TokenPreprocessor
    format: str = "huggingface"
    model_class: str = ""
    aliases: tuple = ()
    part: "Architecture | None" = None
    prefix: str = ""
    heads: dict = dataclasses.field(default_factory=dict)
    tied: dict = dataclasses.field(default_factory=dict)
    ignored: tuple = (r"position_ids$",)
    renamed: dict = dataclasses.field(default_factory=dict)
    optional: tuple = ()
    fixed: dict = dataclasses.field(default_factory=dict)
    assumed: dict = dataclasses.field(default_factory=dict)
    synonyms: dict = dataclasses.field(default_factory=dict)
    read: Callable = lambda arguments, config: arguments
    write: Callable = lambda config, encoder: config
    extra_tensors: Callable = lambda encoder: {}

    def for_config(self, config: Mapping, source: str | os.PathLike) -> "Architecture":
        """Returns the record with the tables for a configuration, which a subclass may make of other records.

        Args:
            config: Dict. Content of `config.json`.
            source: String or path. The folder, which errors name.

        Returns:
            `Architecture`.
        """
        return self

    def for_encoder(self, encoder: keras.Model) -> "Architecture":
        """Returns the record with the tables for an encoder, which a subclass may make of other records.

        Args:
            encoder: Encoder to write.

        Returns:
            `Architecture`.
        """
        return self

    def arguments(self, config: Mapping, source: str | os.PathLike) -> dict:
        """Returns the encoder's arguments from a configuration.

        Args:
            config: Dict, the contents of `config.json`.
            source: String or path, for errors.

        Returns:
            A dict of keyword arguments.

        Raises:
            CheckpointError: If the configuration cannot be loaded. The error lists all problems.
        """
        problems = [
            f"`{other}` must be equal to `{key}`. Received: {other}={config[other]!r} and {key}={config[key]!r}"
            for other, key in self.synonyms.items()
            if None not in (config.get(other), config.get(key)) and config[other] != config[key]
        ]
        found, more = read_settings(self.settings, config, self.fixed, self.assumed)
        check_all(f"The configuration of {source} does not match {self.encoder_class.__name__}:", more + problems)
        return self.read(found, config)

    def configuration(self, encoder: keras.Model) -> dict:
        """Returns the configuration of an encoder.

        Args:
            encoder: `Encoder` of the class `encoder_class`.

        Returns:
            A dict, the contents of `config.json`.
        """
        config, ours = encoder.get_config(), {name for name, *_ in self.settings}
        cut = {name: config.get(name) for name in ("num_heads", "intermediate_dim")}
        cut = {name: value for name, value in cut.items() if isinstance(value, (list, tuple))}
        cut |= {name: config[name] for name in {"head_dim"} - ours if name in config}
        rule = (
            "Transformers cannot read an encoder whose heads are pruned, or whose blocks differ in size. Save the task "
            "with `save` or `export`, or prune only neurons, with `per_block=True`."
        )
        expect(not cut, rule, received=", ".join(f"{name}={value}" for name, value in cut.items()))
        config = write_settings(self.settings, config, type(encoder).__name__)
        for key, value in self.fixed.items():
            put_setting(config, key, value)
        return self.write(config, encoder)

    def entries(self, encoder: keras.Model) -> list:
        """Returns which variables are loaded from which tensors.

        Args:
            encoder: `Encoder` of the class `encoder_class`.

        Returns:
            A list of `Entry`s, one for each variable of the encoder.
        """
        entries = entries_of(encoder, self.tensors)
        check_covered(entries, encoder.weights, self.model_type, type(encoder).__name__)
        return entries

    @property
    def head_prefixes(self) -> dict:
        """Dict from the name of each head to a tuple of the prefixes of the names of its tensors."""
        prefixes = {name: getattr(head, "prefix", head) for name, head in self.heads.items()}
        return {name: (prefix,) if isinstance(prefix, str) else prefix for name, prefix in prefixes.items()}

    def plain_name(self, name: str) -> str:
        """Returns a tensor's name as in `tensors`: without the prefix, and renamed if it is an older one.

        Args:
            name: String. Name of a tensor in a file.

        Returns:
            String.
        """
        name = name.removeprefix(self.prefix)
        for pattern, replacement in self.renamed.items():
            name = re.sub(pattern, replacement, name)
        return name


_architectures = {}  # by `model_type` and alias

# Other values of `model_type`. KerasHub loads these folders: its outputs were equal to Transformers' outputs.
CONVERTED_BY_KERAS_HUB = [
    "gemma",
    "gemma2",
    "gemma3_text",
    "llama",
    "mixtral",
    "qwen2",
    "qwen2_moe",
    "qwen3",
    "smollm3",
]


def register_architecture(architecture: Architecture) -> Architecture:
    """Registers the checkpoints of an architecture for `from_pretrained` and `save_pretrained`.

    Args:
        architecture: An `Architecture`, whose `model_type` and encoder class are not registered yet.

    Returns:
        The architecture.

    Raises:
        ValueError: If its `model_type`, one of its aliases, or its encoder class is already registered.

    Example:
    ```python
    import dataclasses

    from keras_transfer.checkpoints.architectures.bert import BERT

    @keras.saving.register_keras_serializable()
    class MyEncoder(keras_transfer.encoders.BertEncoder):
        pass

    record = dataclasses.replace(BERT, model_type="my-encoder", encoder_class=MyEncoder)
    keras_transfer.checkpoints.register_architecture(record)
    ```
    """
    names = (architecture.model_type, *architecture.aliases)
    taken = [name for name in names if name in _architectures]
    expect(not taken, "An architecture is already registered for this `model_type`.", model_type=taken)
    is_new = architecture.encoder_class not in {known.encoder_class for known in _all_records()}
    expect(
        is_new,
        "An architecture is already registered for this encoder.",
        encoder_class=architecture.encoder_class.__name__,
    )
    _architectures.update(dict.fromkeys(names, architecture))
    return architecture


def _all_records():
    """Returns the registered architectures and their parts."""
    return [*_architectures.values(), *(known.part for known in _architectures.values() if known.part is not None)]


def is_for_keras_hub(config):
    """Returns whether KerasHub converts the model of a Hugging Face configuration and no architecture here does."""
    name = config.get("model_type")
    return isinstance(name, str) and name in CONVERTED_BY_KERAS_HUB and name not in _architectures


def architecture_of(config, source, default=None):
    """Returns the architecture that a Hugging Face configuration names."""
    known = {name: record for name, record in _architectures.items() if record.format == "huggingface"}
    name, classes = config.get("model_type", default), config.get("architectures")
    if name is None and isinstance(classes, list) and classes:  # older files: "BertForMaskedLM"
        name = str(classes[0])
        stems = {record.model_class.removesuffix("Model"): record.model_type for record in reversed(known.values())}
        name = next((stems[stem] for stem in sorted(stems, reverse=True) if name.startswith(stem)), name)
    rule = (
        f"The architecture of {source} is not supported. Expected one of {sorted(known)}, or of "
        f"{CONVERTED_BY_KERAS_HUB}, which KerasHub converts."
    )
    expect(isinstance(name, str) and name in known, rule, name)
    found = known[name].for_config(config, source)
    is_part = found.part is not None and found.part.model_class != found.model_class
    return found.part if is_part and classes == [found.part.model_class] else found


def architecture_for(encoder):
    """Returns the architecture that writes encoders of exactly this class."""
    return architecture_of_class(type(encoder)).for_encoder(encoder)


def architecture_of_class(cls):
    """Returns the architecture that writes encoders of exactly one class."""
    known = {record.encoder_class: record for record in _all_records()}
    if cls in known:
        return known[cls]
    parents = [parent.__name__ for parent in cls.__mro__ if parent in known]
    advice = (
        f"A subclass of {parents[0]} needs its own `Architecture`. See `checkpoints.register_architecture`."
        if parents
        else f"Expected one of {sorted(known_class.__name__ for known_class in known)}."
    )
    raise CheckpointError(f"This encoder cannot be written as a checkpoint. {advice} Received: {cls.__name__}")


def entries_of(owner, tensors):
    """Returns an `Entry` for each variable of an object that a table such as `Architecture.tensors` names."""
    entries = []
    for paths, names in tensors.items():
        if isinstance(names, Within):
            inner = entries_of(getattr(owner, paths), names.tensors)
            entries += [dataclasses.replace(each, names=[names.prefix + name for name in each.names]) for each in inner]
            continue
        names, layout = names if isinstance(names, tuple) else (names, SAME)
        names = names(owner) if callable(names) else names
        layout = layout(owner) if callable(layout) else layout
        found = [_find(owner, path.split(".")) for path in ([paths] if isinstance(paths, str) else paths)]
        for owners in zip(*found, strict=True):
            indices, first = owners[0]
            filled = [_fill(name, indices) for name in ([names] if isinstance(names, str) else names)]
            is_variable = isinstance(first, keras.Variable)
            variables = [variable for _, variable in owners]
            entries += [Entry(variables, filled, layout)] if is_variable else _entries_of_layer(first, filled)
    return entries


def check_covered(entries, weights, model_type, owner):
    """Raises a `CheckpointError` if an object has a weight without an entry. `owner` is its name in the error."""
    covered = {id(variable) for entry in entries for variable in entry.variables}
    left = [weight.path for weight in weights if id(weight) not in covered]
    rule = f"The architecture {model_type!r} must name a tensor for every weight of {owner}."
    expect(not left, rule, received=f"no tensors for {left[:5]}")


def _find(owner, path):
    """Returns a list of `(indices, layer or variable)` for everything that a path leads to, possibly nothing."""
    if owner is None or not path:
        return [] if owner is None else [((), owner)]
    part, *rest = path
    if part != "*":
        return _find(owner[int(part)] if part.isdigit() else getattr(owner, part, None), rest)
    items = {id(item): item for item in owner}.values()  # a shared block once
    return [((index, *indices), found) for index, item in enumerate(items) for indices, found in _find(item, rest)]


def _fill(name, indices):
    for index in indices:
        name = name.replace("*", str(index), 1)
    return name


def _entries_of_layer(layer, names):
    parts = [(getattr(layer, part, None), suffix, layout) for part, suffix, layout in _PARTS]
    return [
        Entry([variable], [f"{name}.{suffix}" for name in names], layout)
        for variable, suffix, layout in parts
        if variable is not None
    ]


# === Tables of settings, read in both directions ===


def read_settings(settings, config, fixed, assumed=types.MappingProxyType({})):
    """Returns a dict of the arguments that a configuration describes, and a list of sentences on its problems.

    The tables are those of an `Architecture` or a `Head`.
    """
    found, problems = {}, []
    for key, wanted in fixed.items():
        value = get_setting(config, key)
        if (assumed.get(key, wanted) if value is None else value) != wanted:
            received = (
                repr(value) if value is not None else f"no {key}, for which the original assumes {assumed[key]!r}"
            )
            problems.append(f"`{key}` must be {wanted!r}. Received: {received}")
    for argument, key, default, *names in settings:
        required = isinstance(default, type)
        default = default if required or not callable(default) else default(config)
        value = get_setting(config, key, None if required else default)
        if names and config.get(key, value) is None:  # For a name, the original does not replace `null`.
            value = None
        if value is None and required:
            problems.append(f"`{key}` is missing.")
        elif names and value not in list(names[0]):
            problems.append(f"`{key}` must be one of {sorted(names[0])}. Received: {value!r}")
        elif not _is_like(value, _kind(default)):
            kind = {list: "a list", int: "an integer"}.get(_kind(default), "a number")
            problems.append(f"`{key}` must be {kind}. Received: {value!r}")
        else:
            found[argument] = names[0][value] if names else value
    return found, problems


def write_settings(settings, arguments, owner):
    """Returns the configuration of arguments; the inverse of `read_settings`."""
    config = {}
    for argument, key, _, *names in settings:
        value = arguments[argument]
        if names:
            theirs = {ours: name for name, ours in reversed(names[0].items())}
            rule = f"A checkpoint of {owner} can be written only if `{argument}` is one of {sorted(theirs)}."
            expect(value in list(theirs), rule, received=f"{argument}={value!r}")
            value = theirs[value]
        put_setting(config, key, value)
    return config


# What describes a file and not the model, such as its types. Label names determine the number of labels.
_OF_FILES = {"architectures", "model_type", "dtype", "torch_dtype", "quantization_config", "transformers_version"}
_OF_FILES |= {"auto_map", "_name_or_path", "num_labels", "_num_labels"}
OF_LABELS = ("id2label", "label2id", "problem_type")


def other_settings(config, written):
    """Returns the settings of a configuration that an encoder does not have, to be written back with it.

    Args:
        written: Dict. The configuration that describes the encoder and the head. `None` in it stands for no value.
    """
    return {
        key: value
        for key, value in config.items()
        if key not in _OF_FILES
        and (key, value) != ("tie_word_embeddings", False)  # Ours are tied, so the file has only one of the tensors.
        and not key.startswith("keras_transfer_")
        and (key not in written or (written[key] is None and value is not None))
    }


def get_setting(config, key, default=None):
    """Returns the value under a name with dots. A `null` counts as missing."""
    for part in key.split("."):
        config = config.get(part) if isinstance(config, dict) else None
    return default if config is None else config


def put_setting(config, key, value):
    """Sets the value under a name with dots."""
    *path, last = key.split(".")
    for part in path:
        config = config.setdefault(part, {})
    config[last] = value


def _kind(default):
    return default if isinstance(default, type) else type(default)


def _is_like(value, kind):
    """Returns whether a setting has the type of its default. An integer is a number too."""
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, kind) or (kind is not list and isinstance(value, (int, float)))
