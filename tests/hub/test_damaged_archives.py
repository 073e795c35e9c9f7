"""Archives that are cut, damaged or malicious are one error, and are read only once."""

import gzip
import io
import tarfile

import pytest

from keras_transfer.hub import HubError
from keras_transfer.hub.archives import unpack
from tests.hub.fetching import assert_refused, pack, tree, unpack_bytes

INTACT = "Expected an intact .tar or .tar.gz archive. Received: "
# Each member takes two blocks of 512 bytes, and two blocks of zeros follow.
THREE = pack(("a", b"first"), ("b", b"second"), ("c", b"third"), mode="w")[: 8 * 512]
END = bytes(1024)


@pytest.mark.parametrize("packed", [False, True])
def test_an_archive_that_is_cut_between_two_members_or_in_its_end_is_an_error(packed, tmp_path):
    compress = gzip.compress if packed else bytes
    assert tree(unpack_bytes(compress(THREE), tmp_path / "out")) == {"a": b"first", "b": b"second", "c": b"third"}
    for blocks in range(1, 8):
        message = f"{INTACT}EOFError: the end of the archive is missing"
        assert_refused(compress(THREE[: blocks * 512]), tmp_path / "cut", message)


@pytest.mark.parametrize("damage", [b"x" * 512, bytes(511) + b"x", bytes(512), bytes(1024)])
def test_an_archive_with_a_damaged_header_in_the_middle_is_an_error(damage, tmp_path):
    assert_refused(THREE[:1024] + damage + THREE[1024 + len(damage) :], tmp_path / "out", INTACT)


def test_a_flipped_bit_in_a_header_is_an_error(tmp_path):
    for place in range(1024, 1536, 16):
        content = bytearray(THREE)
        content[place] ^= 1
        assert_refused(bytes(content), tmp_path / "out", INTACT)


def test_bytes_after_the_end_of_an_archive_are_an_error(tmp_path):
    unpack_bytes(THREE + bytes(100), tmp_path / "out")
    for more in (b"x", bytes(512) + b"x", THREE):
        assert_refused(THREE + more, tmp_path / "out", f"{INTACT}.*bytes after the end of the archive")


def header(name, size=0, type=tarfile.REGTYPE):
    """Returns the block of a header. The size can be negative."""
    info = tarfile.TarInfo(name)
    info.size, info.type = size, type
    return info.tobuf(tarfile.GNU_FORMAT)


def pax(records, type=tarfile.XHDTYPE):
    """Returns an extended header with these bytes as its records."""
    return header("pax", len(records), type) + records + bytes(-len(records) % 512)


class CountingFile(io.BytesIO):
    """A file that counts the bytes that are read."""

    count = 0

    def read(self, size=-1):
        data = super().read(size)
        self.count += len(data)
        return data


@pytest.mark.parametrize(
    "member",
    [
        header("evil", -512),
        header("evil", -(2**60)),
        header("evil", -512, tarfile.DIRTYPE),
        header("evil", -512, tarfile.GNUTYPE_LONGNAME),
        header("evil", -512, tarfile.XHDTYPE),
        header("evil", -512, tarfile.XGLTYPE),
        pax(b"13 size=-512\n") + header("evil"),
    ],
    ids=["file", "far back", "folder", "long name", "pax", "global pax", "in pax"],
)
def test_a_member_of_negative_size_is_an_error_and_the_archive_is_read_once(member, tmp_path):
    (tmp_path / "out").mkdir()
    file = CountingFile(THREE[:2048] + member + END)
    with pytest.raises(HubError, match=f"{INTACT}ReadError: a member of negative size: -"):
        unpack(file, tmp_path / "out")
    assert file.count <= 2 + len(file.getvalue())


def test_a_comment_for_all_members_as_git_archive_writes_it_has_no_effect(tmp_path):
    comment = pax(b"52 comment=" + b"a" * 40 + b"\n", tarfile.XGLTYPE)
    assert tree(unpack_bytes(comment + THREE, tmp_path / "out")) == tree(unpack_bytes(THREE, tmp_path / "other"))


@pytest.mark.parametrize(
    "records", [b"x", b"99 path=x\n", b"3 path=x\n", b"10 path=xyz", b"0 path=x\n", b"12 size=abc\n", b"9" * 5000]
)
def test_a_damaged_extended_header_is_an_error(records, tmp_path):
    assert_refused(pax(records) + header("file") + END, tmp_path / "out", INTACT)


def test_an_extended_header_without_a_member_is_an_error(tmp_path):
    assert_refused(pax(b"10 path=x\n") + END, tmp_path / "out", f"{INTACT}ReadError: an extended header without")


@pytest.mark.parametrize("keyword", ["GNU.sparse.major", "GNU.sparse.map", "GNU.sparse.size"])
def test_a_sparse_file_in_pax_format_is_an_error(keyword, tmp_path):
    info = tarfile.TarInfo("sparse")
    info.pax_headers = {keyword: "1"}
    assert_refused(pack(info), tmp_path / "out", "Expected only files and folders")


def test_a_member_that_is_both_a_file_and_a_folder_is_an_error(tmp_path):
    assert_refused(pack(("a", b""), ("a/b", b"")), tmp_path / "one", INTACT)
    assert_refused(pack(("a/b", b""), ("a", b"")), tmp_path / "two", INTACT)
