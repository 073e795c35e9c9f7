"""The folder of a training run.

It contains `run.json` (the settings, and whether the run is finished), `checkpoints` until then, and afterwards
`model.keras`, a model card and, for a classifier, `report.html`. A language model is a checkpoint in place of
`model.keras`, whose files `run.json` names, and its run has further contents.
"""

import contextlib
import json
import os
import pathlib
import shutil

from keras_transfer.core.files import atomic_file, check_folder, file_digest
from keras_transfer.core.folder_lock import lock_folder

TABLES = ("data", "validation_data")
STATE, MODEL, REPORT, CHECKPOINTS = "run.json", "model.keras", "report.html", "checkpoints"


def check_run(folder, settings, overwrite=False):
    """Returns whether a folder contains a run to continue, or raises an error if none can begin or continue there."""
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise FileExistsError(f"`--output` must be a folder, not a file. Received: {folder}")
    check_folder(folder, overwrite=os.path.isdir(folder))
    folder = pathlib.Path(folder)
    # A run that is killed at once leaves only its lock.
    if not os.path.lexists(folder) or (folder.is_dir() and {path.name for path in folder.iterdir()} <= {".lock"}):
        return False
    state = _read_state(folder)
    if state is None:
        raise FileExistsError(
            f"`--output` must be a new folder, or the folder of a run of the same command. Received: {folder}"
        )
    finished = state["finished"]
    # An omitted option is equal to one that did not exist when the run began.
    before, now = (
        {name: value for name, value in given.items() if value is not None and value is not False}
        for given in (state["settings"], settings)
    )
    if before == now and not finished:
        return True
    if overwrite or state.get("failed"):
        return False
    if finished:
        raise FileExistsError(
            f"The folder contains a finished run. Choose another one, or pass --overwrite. Received: {folder}"
        )
    names = [name for name in {**settings, **before} if before.get(name) != now.get(name)]
    different = [_difference(name, before, now.get(name)) for name in names]
    raise ValueError(
        "The folder contains a run with different settings. Use the same settings to continue it, choose another "
        f"folder, or pass --overwrite. Received: {folder}, where {', and '.join(different)}"
    )


@contextlib.contextmanager
def running(output, settings, overwrite=False, contents=(CHECKPOINTS,)):
    """A context in which a run begins or continues in its folder, which is yielded and which no other process can use.

    After an error before the first training checkpoint, a run with other settings may begin there: they may work.

    Args:
        contents: Names of the folders that an unfinished run may have. A new run removes them.
    """
    folder = pathlib.Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        lock = lock_folder(folder)
    except RuntimeError as error:
        raise ValueError(str(error)) from None
    try:
        if check_run(output, settings, overwrite):
            _change_state(folder, failed=False)
        else:
            for name in contents:
                _remove(folder / name)
            _change_state(folder, settings=settings, finished=False, failed=False)
        try:
            yield folder
        except Exception:
            if {path.name for path in folder.iterdir()} <= {".lock", STATE}:
                (folder / STATE).unlink()
            elif not any((folder / CHECKPOINTS).glob("*")):
                _change_state(folder, failed=True)
            raise
    finally:
        lock.release()
        if not any(folder.iterdir()):
            folder.rmdir()


def remove_old_model(folder):
    """Removes the files of a language model that an earlier run has written into the folder of a run."""
    for name in _read_state(folder).get("files", []):
        _remove(folder / name)
    _change_state(folder, files=[])


def name_files(folder, names):
    """Notes the names of the files of a language model, before a run writes them into its folder."""
    _change_state(folder, files=sorted(names))


def finish(folder):
    """Marks a run as finished, and removes its training checkpoints."""
    _change_state(folder, finished=True)
    shutil.rmtree(folder / CHECKPOINTS)


def is_unfinished(folder):
    """Returns whether a path is the folder of a run that is not finished."""
    state = _read_state(pathlib.Path(folder))
    return state is not None and not state["finished"]


def describe(data, validation_data, **options):
    """Returns the settings of a run: its options, and digests of its tables."""
    paths = dict(zip(TABLES, (data, validation_data)))
    return {**{name: path and file_digest(path) for name, path in paths.items()}, **options}


def describe_files(paths):
    """Returns the names of files, and digests of them."""
    return [[pathlib.Path(path).name, file_digest(path)] for path in paths]


def _change_state(folder, **changes):
    state = {**(_read_state(folder) or {}), **changes}
    with atomic_file(folder / STATE) as file:
        file.write(json.dumps(state, indent=2).encode() + b"\n")


def _read_state(folder):
    """Returns a dict of the `settings` of the run in a folder, whether it is `finished` and more.

    If the folder has no such file, or one that this command did not write, it is not that of a run: `None`.
    """
    try:
        state = json.loads((folder / STATE).read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return state if isinstance(state, dict) and {"settings", "finished"} <= state.keys() else None


def _remove(path):
    """Removes a file or a folder, if it exists."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _difference(name, before, value):
    option = f"--{name.replace('_', '-')}"
    if name in TABLES and value and before.get(name):
        return f"the content of {option} differs"
    return f"{option} was {before.get(name)!r} instead of {value!r}"
