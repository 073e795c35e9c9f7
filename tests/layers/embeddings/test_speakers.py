"""`SpeakerEmbedding` finds the speaker of each token from the delimiters."""

import keras
import numpy as np
import pytest

from keras_transfer.encoders import Encoder, GPT2Encoder, TransformerEncoder
from keras_transfer.layers import SpeakerEmbedding
from keras_transfer.text import dialogue_inputs
from tests.helpers import run_layer_test

# Ids of a persona of two sentences, three utterances and a reply, between 1 (begin), 2 (end), 3 and 4 (speakers).
DIALOGUE = dialogue_inputs([[7, 8], [9]], [[5], [6, 7], [8]], [9, 5], bos=1, eos=2, speakers=(3, 4), ignored=0)


def test_the_speakers_are_the_segments_of_the_dialogue_and_their_embeddings_are_added():
    layer = SpeakerEmbedding(10, 4, speakers=[1, 3, 4])
    words = np.array([DIALOGUE.words])
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(layer.segments(words)), [DIALOGUE.segments])
    table = np.random.default_rng(0).normal(size=(10, 4)).astype("float32")
    layer.build((1, None))
    layer.embeddings.assign(table)
    expected = table[DIALOGUE.words] + table[DIALOGUE.segments]
    np.testing.assert_allclose(keras.ops.convert_to_numpy(layer(words))[0], expected, atol=1e-6)


def test_a_token_without_a_delimiter_belongs_to_the_one_who_replies():
    assert SpeakerEmbedding(10, 4, speakers=[1, 3, 4]).segments(np.array([[7], [3], [1]])).numpy().tolist() == [
        [4],
        [3],
        [3],
    ]


def test_an_encoder_encodes_a_dialogue_step_by_step_as_at_once():
    encoder = TransformerEncoder(
        10,
        num_layers=1,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=16,
        dropout=0.0,
        causal=True,
        speakers=[1, 3, 4],
        initializer_range=0.5,
    )
    words = np.array([DIALOGUE.words])
    whole = encoder({"token_ids": words, "padding_mask": np.ones_like(words)})["sequence_output"]
    start = len(DIALOGUE.words) - 3  # after the delimiter of the reply
    parts, cache = encoder.step(words[:, :start], encoder.empty_cache(1, words.shape[1]), 0)
    parts = [parts]
    for place in range(start, words.shape[1]):
        vectors, cache = encoder.step(words[:, place : place + 1], cache, place)
        parts.append(vectors)
    np.testing.assert_allclose(keras.ops.concatenate(parts, axis=1), whole, atol=1e-5)


def test_a_checkpoint_of_gpt_keeps_the_speakers(tmp_path):
    encoder = GPT2Encoder(10, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=32, speakers=[1, 3, 4])
    encoder.save_pretrained(tmp_path / "gpt2")
    again = Encoder.from_pretrained(tmp_path / "gpt2")
    assert again.speakers == [1, 3, 4]
    inputs = {"token_ids": np.array([DIALOGUE.words]), "padding_mask": np.ones((1, len(DIALOGUE.words)))}
    np.testing.assert_array_equal(again(inputs)["sequence_output"], encoder(inputs)["sequence_output"])


def test_it_is_saved_and_rejects_other_speakers():
    arguments = {"input_dim": 10, "output_dim": 4, "speakers": [1, 3, 4]}
    run_layer_test(SpeakerEmbedding, arguments, np.array([DIALOGUE.words]), output_shape=(1, len(DIALOGUE.words), 4))
    for speakers in (None, [1, 1, 2], [1, 2, 3, 4], [1, 2, 10]):
        with pytest.raises(ValueError, match="`speakers` must be three different ids from 0 to 9. Received"):
            SpeakerEmbedding(10, 4, speakers=speakers)
