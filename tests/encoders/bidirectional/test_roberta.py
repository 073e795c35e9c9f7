"""`RobertaEncoder`: the protocol, its positions and its one segment, and the folders that it is read from."""

import json
import shutil

import numpy as np
import pytest

from keras_transfer.checkpoints import CheckpointError, load_preprocessor
from keras_transfer.encoders import Encoder, RobertaEncoder
from keras_transfer.tasks import TextClassifier
from keras_transfer.text import ByteBPETokenizer, Packing, TokenPreprocessor
from keras_transfer.text.tokenizers.byte_bpe import byte_characters
from tests.architecture import FIXTURES
from tests.helpers import encoder_inputs

SMALL = {"vocabulary_size": 12, "num_layers": 2, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
SMALL |= {"max_sequence_length": 10, "initializer_range": 0.3}


def test_it_takes_no_segment_ids_and_its_table_of_positions_has_two_rows_more_than_positions():
    encoder = RobertaEncoder(**SMALL)
    assert sorted(encoder.input) == ["padding_mask", "token_ids"]
    assert tuple(encoder.position_embedding.embeddings.shape) == (12, 8)
    with pytest.raises(ValueError, match=r"at most 10 tokens.* Received: tokens=11"):
        encoder(encoder_inputs(encoder, [[1] * 11]))


@pytest.fixture
def folder(tmp_path):
    """A copy of the small checkpoint whose configuration a test may change."""

    def write(**changes):
        copy = shutil.copytree(FIXTURES / "roberta", tmp_path / "roberta")
        config = json.loads((copy / "config.json").read_text())
        (copy / "config.json").write_text(json.dumps({**config, **changes}))
        return copy

    return write


@pytest.mark.parametrize("model_type", ["xlm-roberta", "camembert"])
def test_its_relatives_load_as_the_same_class(model_type, folder):
    assert type(Encoder.from_pretrained(folder(model_type=model_type))) is RobertaEncoder


def test_an_old_configuration_without_a_model_type_is_recognized_by_its_architecture(folder):
    assert type(Encoder.from_pretrained(folder(model_type=None))) is RobertaEncoder


def test_several_segments_or_another_padding_id_are_one_error(folder):
    with pytest.raises(CheckpointError, match=r"`type_vocab_size` must be 1. Received: 2\n  `pad_token_id` must be 1"):
        Encoder.from_pretrained(folder(type_vocab_size=2, pad_token_id=0))


def test_a_folder_with_its_tokenizer_makes_a_classifier_of_raw_text(tmp_path):
    pytest.importorskip("tensorflow_text")
    vocabulary = ["<s>", "<pad>", "</s>", "<unk>", *byte_characters(), "th", "the", "<mask>"]
    tokenizer = ByteBPETokenizer(vocabulary, [("t", "h"), ("th", "e")], mask_token="<mask>")
    packing = Packing(["<s>"], ["</s>", "</s>"], ["</s>"], "<pad>")
    encoder = RobertaEncoder(**{**SMALL, "vocabulary_size": len(vocabulary)})
    encoder.save_pretrained(tmp_path / "saved", TokenPreprocessor(tokenizer, packing, 8))
    model = TextClassifier.from_pretrained(tmp_path / "saved", num_classes=2)
    ids = model.preprocessor(["the", "a" * 9])["token_ids"]
    assert np.array(ids).tolist() == [[0, 261, 2, *[1] * 5], [0, *[vocabulary.index("a")] * 6, 2]]
    assert model.predict(["the", "film"], verbose=0).shape == (2, 2)


def test_a_folder_without_a_tokenizer_is_an_error(folder):
    source = folder()
    for function in (load_preprocessor, lambda source: TextClassifier.from_pretrained(source, num_classes=2)):
        with pytest.raises(CheckpointError, match="must contain tokenizer.json, or vocab.json and merges.txt"):
            function(source)
