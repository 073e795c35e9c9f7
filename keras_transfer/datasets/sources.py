"""Finds the files of datasets in folders, and says where to get each dataset if they are missing."""

import pathlib
import tomllib

SOURCES = tomllib.loads(pathlib.Path(__file__).with_suffix(".toml").read_text("utf-8"))


def split_files(folder, dataset, names=None, expected=None):
    """Returns a dict from the splits of a dataset to their files, for the splits that have one.

    Args:
        names: Dict from splits to the names that their file may have, patterns as for `Path.glob`. Defaults to `None`,
            those in the table.
        expected: String. The files that an error names if there is none. Defaults to `None`, the first name of each.
    """
    folder, found, source = pathlib.Path(folder), {}, SOURCES[dataset]
    names = names or source["splits"]
    for split, patterns in names.items():
        paths = [path for pattern in patterns for path in sorted(folder.glob(pattern)) if path.is_file()]
        if len(paths) > 1:
            raise ValueError(f"A split must have one file. Received: {[str(path) for path in paths]}")
        require(paths or not source.get("every"), folder, " or ".join(patterns), dataset)
        if paths:
            found[split] = paths[0]
    require(found, folder, expected or ", ".join(patterns[0] for patterns in names.values()), dataset)
    return found


def require(found, folder, expected, dataset):
    """Raises a `FileNotFoundError`, which says where to get a dataset, if its files were not found in a folder."""
    if not found:
        rule = f"The folder must contain {expected}. {SOURCES[dataset]['advice']}"
        raise FileNotFoundError(f"{rule} Received: {folder} with {_names_in(folder)}")


def _names_in(folder):
    folder = pathlib.Path(folder)
    return sorted(path.name for path in folder.glob("*"))[:8] if folder.is_dir() else "no such folder"


def existing_file(path, dataset=None):
    """Returns the path of a file as a `pathlib.Path`. If no dataset is named, it is the user's own."""
    path = pathlib.Path(path)
    if not path.is_file():
        advice = "" if dataset is None else f" {SOURCES[dataset]['advice']}"
        raise FileNotFoundError(
            f"The file does not exist.{advice} Received: {path} in a folder with {_names_in(path.parent)}"
        )
    return path
