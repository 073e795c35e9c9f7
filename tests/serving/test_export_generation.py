"""An exported `CausalLM` continues prompts."""

import pytest

from keras_transfer import serving
from keras_transfer.encoders import TransformerEncoder
from keras_transfer.tasks import CausalLM
from keras_transfer.text import BertPreprocessor

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcd", "##e", "##f", "the", "film"]
SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16, "max_sequence_length": 16}


def small(sampler):
    encoder = TransformerEncoder(len(VOCABULARY), **SIZES, norm="pre", causal=True, initializer_range=0.8)
    return CausalLM(encoder, BertPreprocessor(VOCABULARY, sequence_length=16), sampler=sampler, max_length=10)


def test_an_export_continues_prompts_as_generate_does(tmp_path):
    import tensorflow as tf

    model, prompts = small("greedy"), ["the film", "", "a b c d"]
    folder = serving.export(model, tmp_path / "served")
    served = tf.saved_model.load(str(folder)).signatures["serving_default"]
    found = served(text=tf.constant(prompts))["continuation"].numpy()
    assert [text.decode("utf-8") for text in found] == model.generate(prompts)
    assert served(text=tf.constant([], tf.string))["continuation"].shape == (0,)
    [long] = served(text=tf.constant(["a " * 40]))["continuation"].numpy()
    assert len(long.decode("utf-8").split()) <= 1


def test_a_random_sampler_cannot_be_exported(tmp_path):
    with pytest.raises(ValueError, match="needs a sampler without random numbers.* Received: TopP"):
        serving.export(small("top_p"), tmp_path / "served")
