"""Everything wrong with a module or its handle raises a `HubError`, and no file is left behind."""

import dataclasses
import pathlib
import shutil
import tarfile

import pytest

from keras_transfer.hub import HubError
from keras_transfer.hub.module import load
from tests.hub.fetching import Server, pack, pack_folder, save_module, tree


@dataclasses.dataclass
class Bench:
    """Ingredients of a bad input: a copy of a good SavedModel, a server, and a folder for other files."""

    module: pathlib.Path
    server: Server
    folder: pathlib.Path

    def archive(self, content):
        """Returns the path of an archive with the given bytes."""
        path = self.folder / "module.tar.gz"
        path.write_bytes(content)
        return path

    def archive_with(self, *members):
        """Returns the path of an archive with the given members followed by the good module."""
        files = [(str(path.relative_to(self.module)), path.read_bytes()) for path in files_of(self.module)]
        return self.archive(pack(*members, *files))

    def serve(self, answer):
        """Returns a URL with the given answer."""
        self.server.answers["/module.tar.gz"] = answer
        return f"{self.server.url}/module.tar.gz"


def files_of(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def changed(name, change):
    """A good module with the bytes of one file changed."""

    def make(bench):
        (bench.module / name).write_bytes(change((bench.module / name).read_bytes()))
        return bench.module

    return make


def without(name):
    def make(bench):
        path = bench.module / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        return bench.module

    return make


def half(content):
    return content[: len(content) // 2]


def garbled(content):
    return bytes(byte ^ 0x55 for byte in content)


def cached_but_garbled(bench):
    """A module in the cache with all its files, one of them damaged, and no server for its URL."""
    url = bench.serve(pack_folder(bench.module))
    folder = load(url)[2]
    (folder / "saved_model.pb").write_bytes(garbled((folder / "saved_model.pb").read_bytes()))
    return url


def header(name, type, link=""):
    member = tarfile.TarInfo(name)
    member.type, member.linkname = type, link
    return member


GRAPH, INDEX, DATA = "saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"

# Name -> (function that creates the handle, options, regular expression for the message). What `resolve` and `unpack`
# refuse is in `tests/hub/transport`; here is one of each kind, and what only TensorFlow notices.
BAD = {
    # Missing, truncated and corrupted modules.
    "an empty folder": (lambda b: b.folder, {}, r"no saved_model.pb .found: ..\)"),
    "half a graph": (changed(GRAPH, half), {}, "TensorFlow .* cannot load the module .*download it again"),
    "a garbled graph": (changed(GRAPH, garbled), {}, "TensorFlow .* cannot load the module .*download it again"),
    "a garbled graph in the cache": (cached_but_garbled, {}, "delete the folder if it is in the cache"),
    "no variables": (without("variables"), {}, "no variables/variables.index"),
    "a garbled index": (changed(INDEX, garbled), {}, "TensorFlow .* cannot load the module .*download it again"),
    "garbled data": (changed(DATA, garbled), {}, "TensorFlow .* cannot load the module .*download it again"),
    # Wrong names.
    "an unknown form of handle": (lambda b: "use/4", {}, "Expected a folder, a .tar.gz archive, a URL.*'use/4'"),
    "unknown tags": (lambda b: b.module, {"tags": ["train"]}, r"sets of `tags`, not \['train'\].*\['serve'\]"),
    "an unreachable host": (lambda b: "http://127.0.0.1:1/x", {}, "Cannot download .*URLError"),
    "an invalid URL": (lambda b: "http://[127.0.0.1/x", {}, "Cannot download .*ValueError"),
    # Archives that are damaged or contain something else.
    "no archive": (lambda b: b.archive(b"GIF89a" + bytes(5000)), {}, "Expected an intact .tar"),
    "a truncated archive": (lambda b: b.archive(half(pack_folder(b.module))), {}, "Expected an intact .tar"),
    "two modules": (
        lambda b: b.archive(pack(("a/saved_model.pb", b"graph"), ("b/saved_model.pb", b"graph"))),
        {},
        "must contain one complete module.*'a', 'b'",
    ),
    # Attacks.
    "a member above": (lambda b: b.archive_with(("../../../x", b"evil")), {}, "members inside.*'../../../x'"),
    "a symbolic link out": (
        lambda b: b.archive_with(header("assets", tarfile.SYMTYPE, "../../.."), ("assets/x", b"evil")),
        {},
        "no links.*'assets'",
    ),
    "a hard link out": (
        lambda b: b.archive_with(header("x", tarfile.LNKTYPE, f"{b.module}/saved_model.pb"), ("x", b"evil")),
        {},
        "no links.*'x'",
    ),
    "a pipe": (lambda b: b.archive_with(header("x", tarfile.FIFOTYPE)), {}, "no links, devices or pipes.*'x'"),
    "a bomb": (
        lambda b: b.archive_with(("zeros", bytes(5_000_000))),
        {"max_bytes": 1_000_000},
        "Expected at most 1,000,000 bytes when unpacked",
    ),
}


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return save_module(tmp_path_factory.mktemp("good") / "module")


@pytest.mark.parametrize("name", BAD)
def test_a_bad_module_raises_one_error_and_leaves_no_files(name, good, server, cache_dir, tmp_path):
    make, options, message = BAD[name]
    (tmp_path / "made").mkdir()
    cache_dir.mkdir()
    bench = Bench(shutil.copytree(good, tmp_path / "module"), server, tmp_path / "made")
    handle = make(bench)
    before = tree(tmp_path)
    with pytest.raises(HubError, match=message) as error:
        load(handle, **options)
    assert type(error.value) is HubError
    assert tree(tmp_path) == before


def test_the_unchanged_module_loads_in_each_form(good, server, cache_dir, tmp_path):
    bench = Bench(good, server, tmp_path)
    folder = load(good)[2]
    assert tree(load(bench.archive_with(("assets", None)))[2]) == tree(folder)
    assert tree(load(bench.serve(pack_folder(good)))[2]) == tree(folder)
