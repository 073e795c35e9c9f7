"""A folder is written completely or not at all, and a file that is not JSON is named."""

import os

import pytest

from keras_transfer.core.files import atomic_folder, check_folder, read_json


def test_the_folder_appears_at_the_end(tmp_path):
    folder = tmp_path / "a" / "b"
    with atomic_folder(folder) as temporary:
        (temporary / "file.txt").write_text("new")
        assert not folder.exists()
    assert (folder / "file.txt").read_text() == "new"
    assert [path.name for path in folder.parent.iterdir()] == ["b"]


def test_the_folder_has_default_permissions(tmp_path):
    with atomic_folder(tmp_path / "whole"):
        pass
    (tmp_path / "other").mkdir()
    assert (tmp_path / "whole").stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_no_files(error, tmp_path):
    with pytest.raises(error), atomic_folder(tmp_path / "folder") as temporary:
        (temporary / "file.txt").write_text("half")
        raise error
    assert list(tmp_path.iterdir()) == []


def occupy(path, kind):
    """Creates a folder, a file or a link, and returns its content."""
    if kind == "folder":
        path.mkdir()
        (path / "old.txt").write_text("old")
    elif kind == "file":
        path.write_text("old")
    else:
        path.symlink_to(path.with_name("somewhere"))
    return look(path)


def look(path):
    if path.is_symlink():
        return os.readlink(path)
    return [(file.name, file.read_text()) for file in path.iterdir()] if path.is_dir() else path.read_text()


def test_a_folder_that_cannot_be_written_is_an_error_beforehand(tmp_path, monkeypatch):
    check_folder(tmp_path / "new" / "folder")
    check_folder(tmp_path, overwrite=True)
    (tmp_path / "file").touch()
    for folder, error, message in (
        (tmp_path / "file" / "folder", FileExistsError, "The parents of a folder must be folders.*file is a file"),
        (tmp_path, FileExistsError, "overwrite=True"),
        ("s3://bucket/folder", ValueError, "must be local"),
    ):
        with pytest.raises(error, match=message):
            check_folder(folder)
    for folder in (".", "..", "/"):
        with pytest.raises(ValueError, match="must have a name. Pass its path"):
            check_folder(folder, overwrite=True)
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # that of root is always true
    with pytest.raises(PermissionError, match="cannot be written. Choose another folder"):
        check_folder(tmp_path / "new" / "folder")


KINDS = pytest.mark.parametrize("kind", ["folder", "file", "broken link"])


@KINDS
def test_an_existing_path_is_an_error_and_stays(kind, tmp_path):
    path = tmp_path / "folder"
    before = occupy(path, kind)
    name = "folder" if kind == "folder" else "path"
    with pytest.raises(FileExistsError, match=rf"overwrite=True`. Received: {name}='.*folder'"), atomic_folder(path):
        pass
    assert look(path) == before and list(tmp_path.iterdir()) == [path]


@KINDS
def test_overwrite_replaces_an_existing_path(kind, tmp_path):
    path = tmp_path / "folder"
    occupy(path, kind)
    with atomic_folder(path, overwrite=True) as temporary:
        (temporary / "new.txt").write_text("new")
    assert look(path) == [("new.txt", "new")] and list(tmp_path.iterdir()) == [path]


@KINDS
def test_an_error_keeps_an_existing_path(kind, tmp_path):
    path = tmp_path / "folder"
    before = occupy(path, kind)
    with pytest.raises(ValueError), atomic_folder(path, overwrite=True):
        raise ValueError
    assert look(path) == before and list(tmp_path.iterdir()) == [path]


def test_a_link_to_a_folder_is_replaced_and_the_folder_stays(tmp_path):
    occupy(tmp_path / "elsewhere", "folder")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    with atomic_folder(link, overwrite=True) as temporary:
        (temporary / "new.txt").write_text("new")
    assert not link.is_symlink() and look(link) == [("new.txt", "new")]
    assert look(tmp_path / "elsewhere") == [("old.txt", "old")]


def test_a_folder_that_another_process_wrote_meanwhile_is_not_replaced(tmp_path):
    path = tmp_path / "folder"
    with pytest.raises(FileExistsError, match="The folder exists"), atomic_folder(path):
        before = occupy(path, "folder")
    assert look(path) == before and list(tmp_path.iterdir()) == [path]


def test_an_existing_file_is_called_a_file(tmp_path):
    occupy(tmp_path / "folder", "folder")
    (tmp_path / "file").write_text("a")
    for kind, name in (("folder", "folder"), ("file", "path")):
        with pytest.raises(FileExistsError, match=f"The {kind} exists. .* Received: {name}="):
            check_folder(tmp_path / kind)


def test_the_old_folder_is_restored_if_the_new_one_cannot_be_moved(tmp_path):
    path = tmp_path / "folder"
    before = occupy(path, "folder")
    with pytest.raises(OSError), atomic_folder(path, overwrite=True) as temporary:
        temporary.rmdir()
    assert look(path) == before and list(tmp_path.iterdir()) == [path]


def test_a_url_is_an_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="Received: folder='gs://bucket/served'"), atomic_folder("gs://bucket/served"):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"a": 1', "settings.json must be a JSON file. Received: "),
        ("[1]", "must contain a JSON object. Received: list"),
    ],
)
def test_a_file_that_is_not_the_expected_json_is_an_error_that_names_it(content, message, tmp_path):
    path = tmp_path / "settings.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        read_json(path)
    path.write_text('{"a": 1}')
    assert read_json(path) == {"a": 1}


def test_a_json_file_that_does_not_exist_is_an_error_that_names_it(tmp_path):
    with pytest.raises(ValueError, match=r"nowhere.json must be a JSON file. Received: .*No such file"):
        read_json(tmp_path / "nowhere.json")
