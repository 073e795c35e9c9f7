"""Builds an encoder from a configuration and named tensors, for all formats."""

import collections
import contextlib
import dataclasses
import inspect
import re

import numpy as np

from keras_transfer.checkpoints.architecture import OF_LABELS, other_settings
from keras_transfer.checkpoints.heads import Head, check_supported, find_head
from keras_transfer.checkpoints.tensors import CheckpointError, expect, fill, log, raising, reading
from keras_transfer.core.names import argument_names, check_arguments
from keras_transfer.layers import replaced_weights
from keras_transfer.text import BertPreprocessor, LengthError, load_word_piece


@dataclasses.dataclass
class CheckpointReport:
    """Reports which tensors of a checkpoint were loaded, and which were not.

    Attributes:
        source: String. The file or folder.
        loaded: Integer. The number of tensors that the encoder holds.
        unused: List of names of tensors that the encoder does not need, such as pretraining heads.
        remarks: List of sentences on other differences between the encoder and the file.
        new: List of paths of weights that no checkpoint has, which must be trained. Empty for an encoder alone.
    """

    source: str
    loaded: int
    unused: list
    remarks: list
    new: list = dataclasses.field(default_factory=list)

    def __str__(self):
        unused = f"; not used: {', '.join(self.unused)}" if self.unused else ""
        new = f"; new: {', '.join(self.new)}" if self.new else ""
        return "; ".join([f"{self.source}: {self.loaded} tensors loaded{unused}{new}", *self.remarks])


def part_for(architecture, cls, config, head=None):
    """Returns the record that builds an encoder of a class: an architecture or its `part`.

    The configuration may name a class with one of the heads of the part. If the encoder is for a task, given by its
    `TaskHead.name`, the first record with a table for such a head is chosen.
    """
    part, own = architecture.part, architecture.encoder_class
    if part is None or not issubclass(part.encoder_class, cls) or cls is own:
        return architecture
    able = [each for each in (architecture, part) if isinstance(each.heads.get(head), Head)]
    if able and issubclass(able[0].encoder_class, cls):
        return able[0]
    heads = [each for each in part.heads.values() if isinstance(each, Head)]
    named = {part.model_class.removesuffix("Model") + suffix for each in heads for suffix in each.model_classes}
    classes = config.get("architectures")
    is_named = isinstance(classes, list) and bool(named.intersection(map(str, classes)))
    return part if is_named or not issubclass(own, cls) else architecture


class Format:
    """A checkpoint in one of the formats, whose description is read once for all its parts.

    A format sets `architecture` and `config`, and overrides `readers`. Where a part has other files, it overrides the
    method of that part.

    Attributes:
        folder: Path of the folder, which errors name.
        architecture: `Architecture` of its encoder.
        config: Dict of the settings of its encoder, with the names in `architecture`.
    """

    def __init__(self, folder):
        self.folder = folder

    def readers(self):
        """Returns a dict from the name of each tensor to a function that reads it."""
        raise NotImplementedError

    def encoder(self, cls, overrides, **wanted):
        """Returns the encoder, and the `FoundHead` of a task or None, as `build` does."""
        return build(self, cls, overrides, **wanted)

    def preprocessor(self, word_level=False, **overrides):
        """Returns the preprocessor, which may have to accept sentences as lists of words."""
        return build_preprocessor(self.architecture, self.folder, **overrides)

    def embedder(self):
        """Returns the `Modules` for a `TextEmbedder`, or None for a format without them."""
        return None


def build_preprocessor(architecture, folder, **overrides):
    """Returns the preprocessor of an architecture from a folder with tokenizer files."""
    cls = architecture.preprocessor_class
    rule = (
        f"keras_transfer cannot read the tokenizer of {folder}. Load the encoder alone with "
        "`Encoder.from_pretrained(source)`, and pass your own preprocessor to the task."
    )
    expect(cls is not None, rule, model_type=architecture.model_type)
    load = load_word_piece if cls is BertPreprocessor else cls.load
    inspect.signature(load).bind(folder, **overrides)  # An unknown argument is not an error of the folder.
    others = () if overrides.get("sequence_length") is None else (LengthError,)  # the user's, not the folder's
    rule = (
        f"The tokenizer of {folder} cannot be read. A task loads without it for prepared ids: "
        "`from_pretrained(source, preprocessor=None)`."
    )
    with raising(rule, FileNotFoundError), reading(f"The tokenizer of {folder}", *others, FileNotFoundError):
        return load(folder, **overrides)


def build(checkpoint, cls, overrides, remarks=(), head=None, new=False):
    """Returns the encoder of a checkpoint in a `Format`, with its report, and its `FoundHead` or None.

    Args:
        cls: Class. The encoder's class, or a base of it.
        head: String. `TaskHead.name` of the task that the encoder is for, or `None`.
        new: Boolean. Whether the task gets a new head.
    """
    config, source = checkpoint.config, checkpoint.folder
    architecture = part_for(checkpoint.architecture, cls, config, head)
    is_right, own = issubclass(architecture.encoder_class, cls), architecture.encoder_class
    expect(is_right, f"{source} is a checkpoint of {own.__name__}.", received=cls.__name__)
    cls = own
    check_arguments(cls.__name__, overrides, argument_names(cls))
    arguments = {**architecture.arguments(config, source), **overrides}
    with reading(source):
        readers = checkpoint.readers()
    given_remarks = list(remarks)
    readers, remarks = _weights(architecture, readers, source), list(remarks)
    found = None if new else find_head(architecture, head, config, readers, source)
    if found is None and not new:
        check_supported(architecture, head, readers, source)
    in_head = {} if found is None else found.readers
    not_loaded = [prefix for prefixes in architecture.head_prefixes.values() for prefix in prefixes]
    for part in architecture.optional:
        prefix = f"{architecture.tensors[part]}."
        if part not in overrides and not any(name.startswith(prefix) for name in readers):
            arguments[part] = False
            remarks.append(f"it has no {part}, so the encoder has none")
        if not arguments.get(part, True):
            not_loaded.append(prefix)
    unused = sorted(name for name in readers if name.startswith(tuple(not_loaded)) and name not in in_head)
    try:
        with replaced_weights():
            encoder = cls(**arguments)
    except Exception as error:  # of Keras and its backend, such as for invalid sizes
        if isinstance(error, TypeError) and overrides:  # an unknown argument
            raise
        raise CheckpointError(f"The settings of {source} do not fit {cls.__name__}. Received: {error}") from error
    extra = architecture.extra_tensors(encoder)
    used = {
        name: read
        for name, read in readers.items()
        if name not in unused and name not in in_head and not (name in extra and np.array_equal(read(), extra[name]))
    }
    fill(architecture.entries(encoder), used, source)
    _keep_settings(encoder, architecture, config, found)
    encoder.attached.report = CheckpointReport(str(source), len(used), unused, remarks)
    _log(encoder.attached.report, given_remarks)
    return encoder, found


_logged = set()  # A grid of runs loads the same checkpoint again and again.


def _log(report, warnings):
    """Logs the remarks of a format as warnings. What is normal, such as a pretraining head, is logged once, as INFO."""
    if warnings:
        log.warning("%s: %s", report.source, "; ".join(warnings))
    normal = [remark for remark in report.remarks if remark not in warnings]
    if report.unused:
        prefixes = sorted({name.rpartition(".")[0] or name for name in report.unused})
        names = prefixes[0] + (f" and {len(prefixes) - 1} more" if prefixes[1:] else "")
        normal.append(f"the layers of other heads are not used ({names})")
    if normal and report.source not in _logged:
        _logged.add(report.source)
        log.info("%s: %s", report.source, "; ".join(normal))


def _keep_settings(encoder, architecture, config, found):
    """Keeps the settings of a configuration that the encoder does not have, and that its head does not have."""
    if architecture.format != "huggingface":
        return
    of_head = [] if found is None else [key for _, key, *_ in found.head.settings]
    of_head += [] if found is None else [*OF_LABELS, *found.head.fixed, *found.head.written]
    with contextlib.suppress(CheckpointError):  # An overridden argument may have no name in a configuration.
        kept = other_settings(config, {**dict.fromkeys(of_head, ""), **architecture.configuration(encoder)})
        if kept:
            encoder.attached.files["config.json"] = kept


def _safe(read, name, source):
    def safe():
        with reading(f"The tensor {name} of {source}"):
            return read()

    return safe


def _weights(architecture, readers, source):
    """Returns the readers by plain names, without tensors that are copies of others or not weights."""
    names = [architecture.plain_name(name) for name in readers]
    twice = sorted(name for name, count in collections.Counter(names).items() if count > 1)
    expect(not twice, f"{source} must not contain a tensor under two names.", received=f"duplicates of {twice}")
    readers = {name: _safe(read, name, source) for name, read in zip(names, readers.values())}
    copies = {
        name
        for name, original in architecture.tied.items()
        if name in readers and original in readers and np.array_equal(readers[name](), readers[original]())
    }
    return {
        name: read
        for name, read in readers.items()
        if name not in copies and not any(re.search(pattern, name) for pattern in architecture.ignored)
    }
