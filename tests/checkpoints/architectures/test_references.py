"""Every hidden state of real checkpoints equals that of Transformers (references/make_*.py)."""

import numpy as np
import pytest

from keras_transfer.encoders import BertEncoder, Encoder, encode
from tests.samples import REFERENCES

STEP = 16  # minilm.npz holds every 16th dimension


def assert_equals(encoder, reference, prefix="", step=1):
    inputs = {name: reference[f"{prefix}{name}"] for name in ("token_ids", "segment_ids", "padding_mask")}
    real = inputs["padding_mask"] == 1
    encoded = encode(encoder, inputs, hidden_states=True)
    for ours, theirs in zip(encoded.hidden_states, reference[f"{prefix}states"], strict=True):
        np.testing.assert_allclose(np.array(ours)[real][:, ::step], theirs[real], rtol=0, atol=1e-4)
    sequence = reference[f"{prefix}states"][-1]
    np.testing.assert_allclose(np.array(encoded.sequence)[real][:, ::step], sequence[real], rtol=0, atol=1e-4)
    np.testing.assert_allclose(np.array(encoded.pooled)[:, ::step], reference[f"{prefix}pooled"], rtol=0, atol=1e-4)


@pytest.fixture(scope="module")
def encoder(minilm):
    return BertEncoder.from_pretrained(minilm)


@pytest.mark.parametrize("case", ["single", "pair", "batch"])
def test_all_minilm_equals_transformers(encoder, case):
    assert_equals(encoder, np.load(REFERENCES / "minilm.npz"), f"{case}/", STEP)


def test_all_minilm_defines_how_texts_are_pooled(encoder):
    assert (encoder.pooling, encoder.normalize) == ("mean", True)
    assert encoder.checkpoint_report.loaded == 103
    assert encoder.checkpoint_report.unused == []


@pytest.mark.slow
def test_saved_tensors_of_all_minilm_are_bit_identical_to_the_original_file(encoder, minilm, tmp_path):
    from safetensors.numpy import load_file

    from keras_transfer.checkpoints import resolve

    encoder.save_pretrained(tmp_path / "saved")
    original = load_file(resolve(minilm) / "model.safetensors")
    original.pop("embeddings.position_ids", None)
    saved = load_file(tmp_path / "saved" / "model.safetensors")
    assert saved.keys() == original.keys()
    for name, value in saved.items():
        assert value.dtype == np.float32
        np.testing.assert_array_equal(value, original[name], err_msg=name)


@pytest.mark.parametrize("cls", [BertEncoder, Encoder])
def test_a_google_checkpoint_equals_transformers(data_dir, cls):
    encoder = cls.from_pretrained(data_dir("bert_tf_ckpt_fixture"))
    assert type(encoder) is BertEncoder
    assert_equals(encoder, np.load(REFERENCES / "google_fixture.npz"))
