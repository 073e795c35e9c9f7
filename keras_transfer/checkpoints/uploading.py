"""Uploads of a model folder to the Hugging Face hub, through the package `huggingface-hub`."""

import logging
import os
import pathlib
import re

from keras_transfer.checkpoints.model_card import CARD, is_written_here
from keras_transfer.checkpoints.tensors import first_line
from keras_transfer.core.expect import expect, raising

log = logging.getLogger("keras_transfer")

_PART = r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?"


def push_to_hub(
    folder: str | os.PathLike,
    repo_id: str,
    *,
    private: bool | None = None,
    token: str | None = None,
    commit_message: str | None = None,
    revision: str | None = None,
) -> str:
    """Uploads a model folder to a repository of the Hugging Face hub, which is created if it does not exist.

    A `README.md` of the repository that somebody has written or edited there is kept, and a warning says so.

    This function was tested with a stand-in for `huggingface_hub.HfApi` of version 2.4, not with the hub itself.

    Args:
        folder: String or path. A folder that `save_pretrained` or `keras-transfer train` has written.
        repo_id: String. Name of the repository, `"name"` or `"organization/name"`.
        private: Boolean. Whether a new repository is private. Defaults to `None`, the default of the organization.
        token: String. Access token with the permission to write. Defaults to `None`, the token of `hf auth login` or
            of the environment variable `HF_TOKEN`.
        commit_message: String. Defaults to `None`, a message with the version of this library.
        revision: String. Name of a branch, which is created if it does not exist. Defaults to `None`, the main branch.

    Returns:
        String. The URL of the commit.

    Raises:
        ImportError: If `huggingface-hub` is not installed.
        FileNotFoundError: If `folder` is not a folder with files.
        ValueError: If `folder` is not a path, or `repo_id` is not the name of a repository.
        RuntimeError: If the hub refuses the upload or cannot be reached.

    Example:
    ```py
    url = keras_transfer.checkpoints.push_to_hub("classifier", "your-name/questions", private=True)
    ```
    """
    from keras_transfer.version import __version__

    rule = "`folder` must be a path. To upload a task, call its method `push_to_hub`."
    expect(isinstance(folder, (str, os.PathLike)), rule, folder=folder)
    folder = pathlib.Path(folder)
    has_files, rule = folder.is_dir() and any(folder.iterdir()), "`folder` must be a folder with a model's files."
    expect(has_files, rule, folder=str(folder), error=FileNotFoundError)
    api = check_repo_id(repo_id).HfApi(token=token)
    message = commit_message or f"Upload a model with keras_transfer {__version__}"
    with _uploading(repo_id):
        repo_id = api.create_repo(repo_id, private=private, repo_type="model", exist_ok=True).repo_id
        if revision is not None:
            api.create_branch(repo_id, branch=revision, repo_type="model", exist_ok=True)
        # The state of a run, and its lock, are of no use to others.
        ignored = [".*", "run.json", "checkpoints/*", *([CARD] if _keeps_card(api, repo_id, revision, folder) else [])]
        commit = api.upload_folder(
            repo_id=repo_id,
            folder_path=folder,
            commit_message=message,
            revision=revision,
            repo_type="model",
            ignore_patterns=ignored,
        )
    return commit.commit_url


def full_repo_id(repo_id, token):
    """Returns the name of a repository with its organization, which is that of the token's user if it has none."""
    hub = check_repo_id(repo_id)
    if "/" in repo_id:
        return repo_id
    with _uploading(repo_id):
        return f"{hub.HfApi(token=token).whoami()['name']}/{repo_id}"


def _uploading(repo_id):
    """Explains the errors of the hub's client, which raises a dozen types from three libraries."""
    rule = (
        f"The model was not uploaded to {repo_id!r}. Check the name, the network, and that your token can write to the "
        "repository (`hf auth login`)."
    )
    return raising(rule, error=RuntimeError, describe=first_line)


def check_repo_id(repo_id):
    """Returns the module `huggingface_hub`, if an upload to a repository can begin."""
    is_name = isinstance(repo_id, str) and re.fullmatch(rf"(?:{_PART}/)?{_PART}", repo_id)
    hint = f" Did you mean {repo_id.removeprefix('hf://')!r}?" if str(repo_id).startswith("hf://") else ""
    rule = f"`repo_id` must be 'name' or 'organization/name', of letters, digits, '-', '_' and '.'.{hint}"
    expect(is_name, rule, repo_id=repo_id)
    rule = f"Uploading {repo_id!r} requires huggingface_hub. Run `pip install huggingface-hub`."
    with raising(rule, ImportError, error=ImportError):
        import huggingface_hub
    return huggingface_hub


def _keeps_card(api, repo_id, revision, folder):
    """Returns whether a repository has a `README.md` that would be lost, and logs a warning if so."""
    local = folder / CARD
    if not local.exists() or not is_written_here(local.read_bytes()):
        return False  # The user's own file is uploaded as it is.
    if not api.file_exists(repo_id, CARD, repo_type="model", revision=revision):
        return False
    there = pathlib.Path(api.hf_hub_download(repo_id, CARD, repo_type="model", revision=revision)).read_bytes()
    if is_written_here(there):
        return False
    log.warning(
        "The README.md of %s was not written by keras_transfer, or was edited, and is kept. For a new model card, "
        "delete it there first.",
        repo_id,
    )
    return True
