"""Google's TensorFlow checkpoints: what is read, and the errors for damaged ones."""

import shutil

import numpy as np
import pytest

from keras_transfer.checkpoints import CheckpointError
from keras_transfer.encoders import BertEncoder
from tests.checkpoints.folders import assert_same_outputs

pytest.importorskip("tensorflow")
DATA = "bert_model.ckpt.data-00000-of-00001"


@pytest.fixture
def folder(data_dir, tmp_path):
    """A copy of the fixture that a test may damage."""
    copy = tmp_path / "google"
    copy.mkdir()
    for file in data_dir("bert_tf_ckpt_fixture").iterdir():
        if not file.name.endswith(".meta"):
            shutil.copyfile(file, copy / file.name)
    return copy


def test_heads_are_reported_and_optimizer_slots_are_not(folder):
    report = BertEncoder.from_pretrained(folder).checkpoint_report
    assert report.loaded == 39
    assert {name.split(".")[0] for name in report.unused} == {"cls"}
    assert not [name for name in report.unused if "adam" in name]


def test_it_can_be_saved_as_a_hugging_face_folder_with_the_same_outputs(folder, tmp_path):
    encoder = BertEncoder.from_pretrained(folder)
    encoder.save_pretrained(tmp_path / "saved")
    assert_same_outputs(BertEncoder.from_pretrained(tmp_path / "saved"), encoder)


def test_a_checkpoint_of_another_name_is_found(folder):
    expected = BertEncoder.from_pretrained(folder)
    for file in list(folder.glob("bert_model.ckpt.*")):
        file.rename(folder / file.name.replace("bert_model.ckpt", "model.ckpt-1000"))
    for ours, theirs in zip(BertEncoder.from_pretrained(folder).weights, expected.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_among_several_checkpoints_bert_model_is_loaded(folder):
    (folder / "model.ckpt-20.index").write_bytes(b"")
    assert BertEncoder.from_pretrained(folder).num_layers == 2


def test_several_checkpoints_of_other_names_are_an_error(folder):
    (folder / "bert_model.ckpt.index").rename(folder / "model.ckpt-10.index")
    (folder / "model.ckpt-20.index").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"one checkpoint.* Received: \['model.ckpt-10', 'model.ckpt-20'\]"):
        BertEncoder.from_pretrained(folder)


def test_a_folder_without_a_checkpoint_is_an_error(folder):
    (folder / "bert_model.ckpt.index").unlink()
    with pytest.raises(CheckpointError, match=r"one checkpoint, such as bert_model.ckpt.index .*Received: \[\]"):
        BertEncoder.from_pretrained(folder)


@pytest.mark.parametrize("damage", ["missing", "truncated", "changed"])
def test_damaged_data_is_an_error(folder, damage):
    data = bytearray((folder / DATA).read_bytes())
    (folder / DATA).unlink()
    if damage == "truncated":
        (folder / DATA).write_bytes(data[: len(data) // 2])
    if damage == "changed":
        data[:] = bytes(byte ^ 255 for byte in data)
        (folder / DATA).write_bytes(data)
    with pytest.raises(CheckpointError, match="must be a TensorFlow checkpoint|is damaged. The tensor"):
        BertEncoder.from_pretrained(folder)


def test_a_damaged_index_is_an_error(folder):
    (folder / "bert_model.ckpt.index").write_bytes(b"no index")
    with pytest.raises(CheckpointError, match="must be a TensorFlow checkpoint"):
        BertEncoder.from_pretrained(folder)
