"""`AWDQRNNEncoder`: AWD-LSTM with quasi-recurrent layers, as a language model with a state, and in folders."""

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as numpy_of

from keras_transfer.encoders import AWDQRNNEncoder, Encoder
from keras_transfer.tasks import CausalLM
from keras_transfer.text import Packing, TokenPreprocessor, WordPieceTokenizer
from tests.helpers import run_encoder_test

IDS = np.arange(18).reshape(3, 6) % 12


SIZES = {"vocabulary_size": 12, "embedding_dim": 4, "units": 6, "num_layers": 2}
RATES = ("embedding_dropout", "input_dropout", "hidden_dropout", "output_dropout", "weight_dropout")


def make(**options):
    keras.utils.set_random_seed(0)
    return AWDQRNNEncoder(**SIZES, **options)


def test_it_is_a_well_behaved_encoder_of_layers_with_a_window_of_2_and_of_1():
    encoder = make()
    run_encoder_test(AWDQRNNEncoder, {**SIZES, **dict.fromkeys(RATES, 0.0)})
    assert [(block.window, block.units) for block in encoder.blocks] == [(2, 6), (1, 4)]
    assert [block.state_size for block in encoder.blocks] == [[4, 6], [0, 4]]


@pytest.mark.core
def test_steps_from_a_state_give_the_vectors_of_the_whole_text():
    encoder = make()
    inputs = {"token_ids": IDS, "padding_mask": np.ones_like(IDS)}
    whole = numpy_of(encoder(inputs)["sequence_output"])
    found, state = [], encoder.empty_state(batch_size=3)
    for part in np.split(IDS, 3, axis=1):
        vectors, state = encoder.step(part, state)
        found.append(numpy_of(vectors))
    np.testing.assert_allclose(np.concatenate(found, axis=1), whole, atol=1e-6)


def test_a_language_model_carries_its_state_and_writes(eagerly):
    model = CausalLM(make(), streams=3)
    model.compile(keras.optimizers.SGD(0.1))
    window = {"token_ids": IDS, "padding_mask": np.ones_like(IDS), "begins": np.ones((3, 1), "int32")}
    targets, weights = np.roll(IDS, -1, axis=1), np.ones(IDS.shape, "float32")
    assert np.isfinite(model.train_on_batch(window, targets, weights)[0])
    carried = numpy_of(model.carried_state.states[0][0].value)
    np.testing.assert_allclose(carried, numpy_of(model.encoder.token_embedding(IDS[:, -1])), atol=0.5)
    [written] = model.generate([[3, 4]], max_new_tokens=3)
    ids = [3, 4]
    for token in written:
        logits = model({"token_ids": np.array([ids]), "padding_mask": np.ones((1, len(ids)), "int32")})
        assert token == numpy_of(logits)[0, -1].argmax()
        ids.append(token)


def test_a_folder_restores_it(tmp_path, eagerly):
    tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", *"abcdefghij"])
    model = CausalLM(make(weight_dropout=0.3), TokenPreprocessor(tokenizer, Packing()))
    model.save_pretrained(tmp_path / "model")
    again = Encoder.from_pretrained(tmp_path / "model")
    assert type(again) is AWDQRNNEncoder and again.weight_dropout == 0.3
    for weight, expected in zip(again.trainable_weights, model.encoder.trainable_weights, strict=True):
        np.testing.assert_array_equal(numpy_of(weight), numpy_of(expected))
    loaded, options = CausalLM.from_pretrained(tmp_path / "model"), {"max_new_tokens": 3}
    assert loaded.generate("a b", **options) == model.generate("a b", **options)
