"""From a configuration and named tensors to an encoder: what all formats share."""

import dataclasses
import re

import numpy as np

from keras_transfer.checkpoints import bert
from keras_transfer.checkpoints.tensors import CheckpointError, fill, log

# Hugging Face's `model_type` -> the module that knows the architecture's checkpoints.
ARCHITECTURES = {"bert": bert}


@dataclasses.dataclass
class CheckpointReport:
    """What became of a checkpoint's tensors.

    Attributes:
        source: str, the file or folder.
        loaded: int, tensors that are in the encoder now.
        unused: list of names of tensors that it has no use for (heads of the pretraining).
        remarks: list of sentences on what else is different from the file.
    """

    source: str
    loaded: int
    unused: list
    remarks: list

    def __str__(self):
        unused = f"; not used: {', '.join(self.unused)}" if self.unused else ""
        return "; ".join([f"{self.source}: {self.loaded} tensors loaded{unused}", *self.remarks])


def build(architecture, config, readers, source, cls, overrides, remarks=()):
    """Makes the encoder that a configuration describes and fills it with the tensors.

    Args:
        architecture: a module of `ARCHITECTURES`.
        config: dict, the configuration as Hugging Face writes it.
        readers: dict from tensor name to a function that reads it.
        source: what to call the checkpoint.
        cls: the class that was asked for: the architecture's own, or a base of it.
        overrides: dict of constructor arguments that differ.
        remarks: what the format has noticed.

    Returns:
        The encoder, with its `checkpoint_report`.

    Raises:
        CheckpointError: the class is another one, or the tensors do not fit.
    """
    if not issubclass(architecture.encoder_class, cls):
        raise CheckpointError(
            f"{source} is a checkpoint for {architecture.encoder_class.__name__}. Received: {cls.__name__}"
        )
    names = [_plain_name(name) for name in readers]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise CheckpointError(f"{source} holds tensors twice, with a prefix or an old name. Received: {twice}")
    readers, unused, remarks = dict(zip(names, readers.values())), [], list(remarks)
    for name in list(readers):
        if name.startswith(architecture.HEAD_PREFIXES):
            unused.append(name)
        if name in unused or name.endswith("position_ids"):  # 0, 1, 2, ...: no weights
            del readers[name]
    arguments = {**architecture.arguments(config, source), **overrides}
    if "pooler" not in overrides and not any(name.startswith(architecture.POOLER_PREFIX) for name in readers):
        arguments["pooler"] = False
        remarks.append("it has no pooler, so the encoder has none")
    elif not arguments.get("pooler", True):
        unused += [name for name in readers if name.startswith(architecture.POOLER_PREFIX)]
        readers = {name: read for name, read in readers.items() if name not in unused}
    encoder = architecture.encoder_class(**arguments)
    # What `save_pretrained` added for Transformers, which the encoder has not.
    for name, value in architecture.extra_tensors(encoder).items():
        if name in readers and np.array_equal(readers[name](), value):
            del readers[name]
    fill(architecture.entries(encoder), readers, source)
    encoder.checkpoint_report = CheckpointReport(str(source), len(readers), sorted(unused), remarks)
    if unused or remarks:
        log.warning("%s", encoder.checkpoint_report)
    return encoder


def _plain_name(name):
    """A tensor's name without the prefix of a model with heads, and with torch's names for a layer norm's weights."""
    name = re.sub(r"^bert\.", "", name)
    return re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name))


def architecture_of(config, source, default=None):
    """Returns the module for a configuration's `model_type`.

    Raises:
        CheckpointError: it names none or one that is not known.
    """
    name = config.get("model_type", default)
    if name is None and config.get("architectures"):
        name = re.match(r"[A-Z][a-z]+|.*", config["architectures"][0]).group().lower()
    if name not in ARCHITECTURES:
        raise CheckpointError(
            f"{source}: the architectures that can be loaded are {sorted(ARCHITECTURES)}. Received: {name!r}"
        )
    return ARCHITECTURES[name]
