"""`XLNetEncoder`: the protocol, its two streams, and the settings that it cannot have."""

import json
import shutil

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_transfer.checkpoints import CheckpointError
from keras_transfer.encoders import Encoder, XLNetEncoder, encode
from tests.architecture import FIXTURES
from tests.helpers import encoder_inputs, run_encoder_test, save_and_load

SMALL = {"vocabulary_size": 12, "num_layers": 2, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
SMALL |= {"initializer_range": 0.3}
FOLDER = FIXTURES / "xlnet"


def test_it_is_a_well_behaved_encoder():
    run_encoder_test(XLNetEncoder, SMALL)


@pytest.fixture(scope="module")
def two_streams():
    return XLNetEncoder.from_pretrained(FOLDER, two_streams=True)


@pytest.fixture(scope="module")
def inputs(two_streams):
    arrays = {**np.load(FOLDER / "outputs.npz"), **np.load(FOLDER / "two_streams.npz")}
    return {name: arrays[name] for name in two_streams.input}


@pytest.mark.core
def test_both_streams_equal_the_original(two_streams, inputs):
    expected, real = np.load(FOLDER / "two_streams.npz"), inputs["padding_mask"] == 1
    encoded = encode(two_streams, inputs, hidden_states=True)
    for ours, theirs in zip(encoded.hidden_states, expected["states"], strict=True):
        np.testing.assert_allclose(to_numpy(ours)[real], theirs[real], rtol=0, atol=1e-5)
    outputs = two_streams(inputs)
    np.testing.assert_allclose(to_numpy(outputs["sequence_output"])[real], expected["states"][-1][real], atol=1e-5)
    np.testing.assert_allclose(to_numpy(outputs["query_output"])[real], expected["query"][real], rtol=0, atol=1e-5)


def test_the_content_stream_of_visible_tokens_equals_that_of_an_encoder_without_the_other(two_streams, inputs):
    outputs = two_streams({**inputs, "attention_mask": np.ones_like(inputs["attention_mask"])})
    alone = XLNetEncoder.from_pretrained(FOLDER)(inputs)["sequence_output"]
    real = inputs["padding_mask"] == 1
    np.testing.assert_allclose(to_numpy(outputs["sequence_output"])[real], to_numpy(alone)[real], atol=1e-5)


def test_the_query_stream_does_not_depend_on_hidden_tokens(two_streams, inputs):
    mask = np.ones((2, 7, 7), "int32")
    mask[:, :, 3] = 0
    other = inputs["token_ids"].copy()
    other[0, 3] = 5
    before, after = (
        two_streams({**inputs, "attention_mask": mask, "token_ids": ids}) for ids in (inputs["token_ids"], other)
    )
    np.testing.assert_array_equal(after["query_output"], before["query_output"])
    assert np.abs(to_numpy(after["sequence_output"])[0, 3] - to_numpy(before["sequence_output"])[0, 3]).max() > 1e-3


def test_two_streams_survive_a_keras_file_and_train_the_start_of_the_query_stream(two_streams, inputs):
    reloaded = save_and_load(two_streams)
    np.testing.assert_array_equal(reloaded(inputs)["query_output"], two_streams(inputs)["query_output"])
    model = keras.Model(reloaded.input, reloaded.output["query_output"])
    model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=True)
    before = to_numpy(reloaded.streams.mask_embedding)
    model.train_on_batch(inputs, np.ones((2, 7, 8)))
    assert np.abs(to_numpy(reloaded.streams.mask_embedding) - before).max() > 0


def test_without_the_query_stream_its_start_is_kept_but_does_not_train():
    encoder = XLNetEncoder.from_pretrained(FOLDER)
    assert any(weight is encoder.streams.mask_embedding for weight in encoder.non_trainable_weights)
    encoder.trainable = False
    encoder.trainable = True
    assert not encoder.streams.mask_embedding.trainable


def test_texts_may_have_any_length():
    encoder = XLNetEncoder(**{**SMALL, "num_layers": 1})
    assert encoder(encoder_inputs(encoder, [[5] * 700]))["sequence_output"].shape == (1, 700, 8)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [("attn_type", "uni", "'bi'"), ("bi_data", True, "False"), ("clamp_len", 100, "-1"), ("untie_r", False, "True")],
)
def test_a_setting_of_another_kind_of_attention_is_an_error(key, value, expected, tmp_path):
    folder = shutil.copytree(FOLDER, tmp_path / "xlnet")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, key: value}))
    with pytest.raises(CheckpointError, match=f"`{key}` must be {expected}. Received: {value!r}"):
        Encoder.from_pretrained(folder)
