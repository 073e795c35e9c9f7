"""`save_pretrained`: encoders load bit-identically, and folders are written completely or not at all."""

import json

import numpy as np
import pytest

from keras_transfer.checkpoints import CheckpointError, load_preprocessor
from keras_transfer.encoders import (
    T5,
    AlbertEncoder,
    BertEncoder,
    ElmoEncoder,
    GPT2Encoder,
    XLNetEncoder,
)
from keras_transfer.tasks import BertPretraining, CausalLM, PermutationLM, Seq2SeqLM, TextClassifier
from keras_transfer.text import BertPreprocessor, ElmoPreprocessor
from tests.checkpoints.folders import assert_same_outputs

SMALL = {"vocabulary_size": 12, "num_layers": 2, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
SMALL |= {"max_sequence_length": 10, "initializer_range": 0.3}
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "The", "film", "##s"]
TEXTS = ["The films", "the film the film the film the film"]


def without_name(encoder):
    return {**encoder.get_config(), "name": None}


@pytest.mark.parametrize(
    "arguments",
    [
        {"attention_dropout": 0.2, "num_segments": 3, "layer_norm_epsilon": 1e-6},
        {"attention_dropout": 0.1, "activation": "gelu_tanh", "pooling": "mean", "normalize": True},
        {"attention_dropout": 0.1, "pooler": False, "pooling": "max"},
        {"attention_dropout": 0.1, "num_segments": 0, "activation": "relu", "pooling": "first"},
    ],
    ids=str,
)
def test_a_saved_encoder_loads_bit_identically(arguments, tmp_path):
    encoder = BertEncoder(**SMALL, **arguments)
    encoder.save_pretrained(tmp_path / "saved")
    again = BertEncoder.from_pretrained(tmp_path / "saved")
    assert without_name(again) == without_name(encoder)
    assert_same_outputs(again, encoder)


def test_an_encoder_without_segments_writes_the_table_of_zeros_that_transformers_needs(tmp_path):
    from safetensors.numpy import load_file

    BertEncoder(**SMALL, num_segments=0).save_pretrained(tmp_path / "saved")
    table = load_file(tmp_path / "saved" / "model.safetensors")["embeddings.token_type_embeddings.weight"]
    np.testing.assert_array_equal(table, np.zeros((1, 8)))
    assert json.loads((tmp_path / "saved" / "config.json").read_text())["type_vocab_size"] == 1


def test_weights_of_a_half_precision_encoder_are_written_as_float32(tmp_path):
    encoder = BertEncoder(**SMALL, dtype="bfloat16")
    encoder.save_pretrained(tmp_path / "saved")
    again = BertEncoder.from_pretrained(tmp_path / "saved", dtype="bfloat16")
    for ours, theirs in zip(again.weights, encoder.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_folder_that_exists_stays_as_it_is(tmp_path):
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=r"overwrite=True"):
        BertEncoder(**SMALL).save_pretrained(tmp_path / "saved")
    assert [path.name for path in tmp_path.rglob("*")] == ["saved", "notes.txt"]
    assert (tmp_path / "saved" / "notes.txt").read_text() == "mine"


def test_overwrite_replaces_all_of_a_folder(tmp_path):
    BertEncoder(**SMALL, pooling="mean").save_pretrained(tmp_path / "saved")
    second = BertEncoder(**SMALL, attention_dropout=0.1)
    second.save_pretrained(tmp_path / "saved", overwrite=True)
    assert sorted(path.name for path in (tmp_path / "saved").iterdir()) == ["config.json", "model.safetensors"]
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]
    assert_same_outputs(BertEncoder.from_pretrained(tmp_path / "saved"), second)


@pytest.mark.parametrize("exists", [False, True])
def test_an_error_in_the_middle_of_writing_leaves_nothing_behind(exists, tmp_path, monkeypatch):
    import safetensors.numpy

    if exists:
        (tmp_path / "saved").mkdir()
        (tmp_path / "saved" / "notes.txt").write_text("mine")

    def full_disk(tensors, file, metadata=None):
        file.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(safetensors.numpy, "save_file", full_disk)
    with pytest.raises(OSError, match="No space left"):
        BertEncoder(**SMALL).save_pretrained(tmp_path / "saved", overwrite=True)
    assert [path.name for path in tmp_path.rglob("*")] == (["saved", "notes.txt"] if exists else [])


def test_an_activation_that_transformers_lacks_is_an_error(tmp_path):
    with pytest.raises(
        CheckpointError, match=r"can be written only if `activation` is one of .*Received: activation='mish'"
    ):
        BertEncoder(**SMALL, activation="mish").save_pretrained(tmp_path / "saved")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("options", [{}, {"pooling": "mean", "normalize": True}], ids=str)
def test_the_preprocessor_is_saved_with_the_encoder(options, tmp_path):
    preprocessor = BertPreprocessor(VOCABULARY, sequence_length=6, lowercase=False, split="whitespace")
    BertEncoder(**SMALL, **options).save_pretrained(tmp_path / "saved", preprocessor)
    again = load_preprocessor(tmp_path / "saved")
    assert again.vocabulary == VOCABULARY
    assert {**again.get_config(), "name": preprocessor.name} == preprocessor.get_config()
    for key, ids in preprocessor(TEXTS).items():
        np.testing.assert_array_equal(again(TEXTS)[key], ids)


def test_a_task_is_saved_as_a_checkpoint_for_other_tasks(tmp_path):
    preprocessor = BertPreprocessor(VOCABULARY, sequence_length=6)
    task = TextClassifier(BertEncoder(**SMALL, attention_dropout=0.1), num_classes=2, preprocessor=preprocessor)
    task.save_pretrained(tmp_path / "saved")
    again = TextClassifier.from_pretrained(tmp_path / "saved", num_classes=3, head="new")
    assert_same_outputs(again.encoder, task.encoder)
    assert again.preprocessor.vocabulary == VOCABULARY
    with pytest.raises(FileExistsError, match="overwrite=True"):
        task.save_pretrained(tmp_path / "saved")
    task.save_pretrained(tmp_path / "saved", overwrite=True)


def test_elmo_is_saved_with_its_preprocessor(tmp_path):
    pytest.importorskip("h5py", reason="ELMo's files are HDF5")
    encoder = ElmoEncoder(embedding_dim=4, filters=[(1, 4), (2, 8)], projection_dim=8, units=16, max_characters=12)
    preprocessor = ElmoPreprocessor(7, max_characters=12, split="punctuation")
    encoder.save_pretrained(tmp_path / "saved", preprocessor)
    again = load_preprocessor(tmp_path / "saved")
    assert {**again.get_config(), "name": preprocessor.name} == preprocessor.get_config()
    with pytest.raises(CheckpointError, match="encoder's `max_characters`, 12. Received: max_characters=10"):
        encoder.save_pretrained(tmp_path / "other", ElmoPreprocessor(max_characters=10))


class OtherPreprocessor(BertPreprocessor):
    """A custom preprocessor."""


@pytest.mark.parametrize(
    ("preprocessor", "received"),
    [(ElmoPreprocessor(), "ElmoPreprocessor"), (OtherPreprocessor(VOCABULARY), "OtherPreprocessor"), (len, "builtin")],
    ids=["ELMo's", "a subclass", "a function"],
)
def test_a_preprocessor_that_the_checkpoint_cannot_hold_is_an_error(preprocessor, received, tmp_path):
    with pytest.raises(CheckpointError, match=rf"Expected BertPreprocessor. Write .* Received: {received}"):
        BertEncoder(**SMALL).save_pretrained(tmp_path / "saved", preprocessor)
    assert list(tmp_path.iterdir()) == []


def of_albert(preprocessor):
    return BertPretraining(AlbertEncoder(9, embedding_dim=4, **SIZES), preprocessor)


def of_gpt2(preprocessor):
    return CausalLM(GPT2Encoder(9, **SIZES), preprocessor)


def of_t5(preprocessor):
    return Seq2SeqLM(T5(9, head_dim=4, **SIZES), preprocessor)


def of_xlnet(preprocessor):
    return PermutationLM(XLNetEncoder(9, two_streams=True, **SIZES), preprocessor)


SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 8}


@pytest.mark.parametrize("make", [of_albert, of_gpt2, of_t5, of_xlnet])
def test_a_folder_of_any_architecture_keeps_a_bert_preprocessor(make, tmp_path):
    pytest.importorskip("tensorflow_text")
    task = make(BertPreprocessor(VOCABULARY, sequence_length=10, lowercase=False))
    task.save_pretrained(tmp_path / "saved")
    again = type(task).from_pretrained(tmp_path / "saved")
    assert again.preprocessor.sequence_length == 10
    for texts in (TEXTS, (TEXTS, TEXTS[::-1])):
        expected, found = task.preprocessor(texts), again.preprocessor(texts)
        for name in found:
            np.testing.assert_array_equal(found[name], expected[name])


def test_a_folder_that_cannot_keep_a_preprocessor_names_what_works(tmp_path):
    elmo = ElmoEncoder(embedding_dim=4, filters=[(1, 4)], projection_dim=4, units=4, num_layers=1, max_characters=8)
    with pytest.raises(CheckpointError, match=r"Expected ElmoPreprocessor.*model\.save\('model.keras'\).*BertPrepro"):
        elmo.save_pretrained(tmp_path / "saved", BertPreprocessor(VOCABULARY))
