"""A corpus that cannot be written leaves nothing that is taken for one, and the same call goes on later."""

import errno
import fcntl

import numpy as np
import pytest

from keras_transfer.text import Corpus, Packing, TokenPreprocessor
from tests.data.test_corpus import build, documents, preprocessor


def test_a_full_disk_leaves_no_half_a_file_and_the_same_call_goes_on(tmp_path, monkeypatch):
    save, calls = np.save, []

    def full(file, array):
        calls.append(array)
        save(file, array)
        if len(calls) == 5:  # the second file of the second shard
            raise OSError(errno.ENOSPC, "No space left on device")

    folder = tmp_path / "corpus"
    with monkeypatch.context() as patched:
        patched.setattr(np, "save", full)
        with pytest.raises(OSError, match="No space left on device"):
            build(folder)
    names = {"corpus.json", "00000.json", *(f"0000{n}.ids.npy" for n in (0, 1))}
    names |= {f"00000.{column}.npy" for column in ("documents", "lines")}
    assert {path.name for path in folder.iterdir()} == names
    with pytest.raises(ValueError, match="not complete. Call `Corpus.build` again .* Received: complete_shards=1"):
        Corpus.load(folder)
    assert build(folder).num_documents == len(documents())


def test_after_an_error_in_the_first_texts_the_folder_is_empty_and_a_corrected_source_is_accepted(tmp_path):
    path, folder = tmp_path / "a.txt", tmp_path / "corpus"
    path.write_bytes(b"a\n\nb\xff")
    with pytest.raises(ValueError, match="line 3: Expected UTF-8"):
        build(folder, path)
    assert not any(folder.iterdir())
    path.write_bytes(b"a\n\nb")
    assert build(folder, path).num_documents == 2


def test_an_empty_file_of_a_corpus_is_an_error_and_so_is_a_corpus_without_the_segments_of_the_task(tmp_path):
    words = TokenPreprocessor(preprocessor().tokenizer, Packing(["[CLS]"], ["[SEP]"], ["[SEP]"]), sequence_length=16)
    corpus = Corpus.build(documents(), words, tmp_path / "corpus", verbose=0)
    with pytest.raises(ValueError, match="Build it again .* Received: a corpus without segments"):
        corpus.blocks(8).check_preprocessor(preprocessor())
    (tmp_path / "corpus" / "00000.lines.npy").write_bytes(b"")
    with pytest.raises(ValueError, match="missing, cut or damaged"):
        Corpus.load(tmp_path / "corpus")


def test_only_one_process_at_a_time_builds_in_a_folder(tmp_path):
    with (tmp_path / ".lock").open("w") as file:  # as another process does
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(RuntimeError, match="Only one process at a time can write .* Received: folder="):
            build(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == [".lock"]
    assert build(tmp_path).num_documents == len(documents())
