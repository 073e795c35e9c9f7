"""Archives are unpacked only into their folder and up to a limit, and incomplete modules are recognized."""

import gzip
import io
import os
import random
import shutil
import struct
import tarfile

import pytest

from keras_transfer.hub.archives import find_module, why_incomplete
from tests.hub.fetching import assert_refused, pack, tree, unpack_bytes, write_stub


@pytest.mark.parametrize("mode", ["w", "w:gz"])
@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_files_and_folders_are_unpacked_unchanged(mode, format, tmp_path):
    stub = write_stub(tmp_path / "stub")
    (stub / "assets" / ("a_long_name_" * 12)).write_bytes(random.Random(0).randbytes(3_000_000))
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode, format=format) as archive:
        archive.add(stub, arcname=".")
    assert tree(unpack_bytes(file.getvalue(), tmp_path / "out")) == tree(stub)


def test_files_get_default_permissions_whatever_the_archive_contains(tmp_path):
    header = tarfile.TarInfo("program")
    header.mode = 0o6777
    out = unpack_bytes(pack(header), tmp_path / "out")
    (tmp_path / "other").touch()
    assert (out / "program").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_the_limit_of_bytes_is_exact_for_the_unpacked_size(tmp_path):
    size = 5_000_000
    bomb = pack(("zeros", bytes(size)))
    assert len(bomb) < size / 500
    whole = len(gzip.decompress(bomb))
    unpack_bytes(bomb, tmp_path / "out", max_bytes=whole)
    assert_refused(bomb, tmp_path / "out", rf"Expected at most {whole - 1:,} bytes", max_bytes=whole - 1)
    assert_refused(bomb, tmp_path / "out", r"Expected at most 1,000,000 bytes", max_bytes=1_000_000)
    assert (tmp_path / "out" / "zeros").stat().st_size < 1_000_000


def test_zeros_after_the_end_count_towards_the_limit(tmp_path):
    content = gzip.compress(pack(("file", b"x"), mode="w") + bytes(5_000_000))
    assert_refused(content, tmp_path / "out", r"Expected at most 1,000,000 bytes", max_bytes=1_000_000)


def test_the_limit_of_members_includes_folders(tmp_path):
    content = pack(*[("folder", None)] * 10_001)
    assert_refused(content, tmp_path / "out", "Expected at most 10,000 members")


def test_a_header_that_would_fill_the_memory_is_an_error(tmp_path):
    header = tarfile.TarInfo("file")
    header.pax_headers = {"comment": "x" * 2**25}
    content = pack(header, mode="w")
    assert_refused(content, tmp_path / "out", "Expected at most 33,554,432 bytes of extended headers. Received: ")


def test_thousands_of_headers_in_a_row_are_an_error(tmp_path):
    header = tarfile.TarInfo("././@PaxHeader")
    header.type = tarfile.XHDTYPE
    assert_refused(pack(*[header] * 10_000, ("file", b"")), tmp_path / "out", "Expected at most 10,000 members")


def test_a_sparse_file_of_a_terabyte_is_an_error(tmp_path):
    header = bytearray(tarfile.TarInfo("sparse").tobuf(tarfile.GNU_FORMAT))
    header[156:157] = tarfile.GNUTYPE_SPARSE
    header[483:495] = struct.pack(">BxxxQ", 0x80, 2**40)  # its real size, in base 256
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    content = bytes(header) + bytes(1024)
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        assert archive.getmember("sparse").size == 2**40
    assert_refused(content, tmp_path / "out", "Expected only files and folders")
    assert tree(tmp_path / "out") == {}


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/x", "\\x", "..\\x", "C:\\x", "C:x"])
def test_names_outside_the_folder_on_any_system_are_an_error(name, tmp_path):
    assert_refused(pack((name, b"evil")), tmp_path / "out", "Expected members inside the archive's folder")
    assert tree(tmp_path) == {"out": None}


def test_a_wrong_gzip_checksum_is_an_error(tmp_path):
    content = bytearray(gzip.compress(pack(("file", b"abc"), mode="w"), compresslevel=0))
    content[content.index(b"abc")] ^= 1
    assert_refused(
        bytes(content), tmp_path / "out", "Expected an intact .tar or .tar.gz archive. Received: BadGzipFile"
    )


@pytest.mark.parametrize("keep", [0, 100, 1500])
@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_a_truncated_archive_is_an_error(keep, mode, tmp_path):
    content = pack(("file", random.Random(0).randbytes(2000)), mode=mode)
    assert_refused(content[:keep], tmp_path / "out", "Expected an intact .tar or .tar.gz archive")


def write_variables(folder, *names):
    (folder / "variables").mkdir()
    for name in names:
        (folder / "variables" / name).write_bytes(b"values")


@pytest.mark.parametrize("op", [b"RestoreV2", b"VarHandleOp"])
@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ([], "no variables/variables.index, or an empty one"),
        (["variables.data-00000-of-00001"], "no variables/variables.index, or an empty one"),
        (["variables.index"], "no variables/variables.data-00000-of-00001"),
        (["variables.index", "variables.data-00000-of-00002"], "no variables/variables.data-00001-of-00002"),
        (
            ["variables.index", "variables.data-00000-of-99999999999"],
            "no variables/variables.data-00001-of-99999999999",
        ),
        (["variables.index", "variables.data-00000-of-00002", "variables.data-00001-of-00002"], None),
    ],
)
def test_a_graph_with_variables_needs_their_files(op, files, problem, tmp_path):
    module = write_stub(tmp_path / "module", graph=b"a graph with " + op)
    assert why_incomplete(module) == "no variables/variables.index, or an empty one"
    write_variables(module, *files)
    assert why_incomplete(module) == problem
    assert find_module(module) == (None if problem else module)


def test_an_empty_index_is_incomplete(tmp_path):
    module = write_stub(tmp_path / "module", graph=b"RestoreV2")
    write_variables(module, "variables.index", "variables.data-00000-of-00001")
    assert why_incomplete(module) is None
    (module / "variables" / "variables.index").write_bytes(b"")
    assert why_incomplete(module) == "no variables/variables.index, or an empty one"


def test_a_graph_without_variables_needs_no_variable_files(tmp_path):
    module = write_stub(tmp_path / "module")
    (module / "variables").mkdir()  # TF1 writes an empty folder
    assert why_incomplete(module) is None


def test_a_graph_in_text_format_is_complete(tmp_path):
    module = write_stub(tmp_path / "module")
    (module / "saved_model.pb").rename(module / "saved_model.pbtxt")
    assert why_incomplete(module) is None
    (module / "saved_model.pbtxt").write_bytes(b"")
    assert why_incomplete(module) == "an empty saved_model.pbtxt"


def test_the_error_of_a_folder_with_many_names_is_short(tmp_path):
    for i in range(1000):
        (tmp_path / f"name{i:04}").touch()
    assert why_incomplete(tmp_path).endswith("'name0009'] and 990 more)")


def test_the_real_modules_are_complete_only_with_all_their_files(data_dir, tmp_path):
    for name in ("use_lite_tf2_converted", "zh_segmenter_tf1hub"):
        module = data_dir(f"tfhub/{name}")
        assert find_module(module) == module
        for path in sorted(module.rglob("*")):
            if path.name not in ("variables", "fingerprint.pb", "tfhub_module.pb"):
                copy = shutil.copytree(module, tmp_path / name / path.name, copy_function=os.symlink)
                (copy / path.relative_to(module)).unlink()
                assert path.name in why_incomplete(copy)


def test_a_module_in_a_subfolder_is_found_if_it_is_the_only_one(tmp_path):
    write_stub(tmp_path / "a" / "one")
    (tmp_path / "a" / "README.md").touch()
    (tmp_path / "a" / "empty").mkdir()
    assert find_module(tmp_path / "a") == tmp_path / "a" / "one"
    write_stub(tmp_path / "a" / "two")
    assert find_module(tmp_path / "a") is None
    assert find_module(tmp_path / "missing") is None
