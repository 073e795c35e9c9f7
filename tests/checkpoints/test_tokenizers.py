"""A folder's tokenizer and its encoder fit together, for every architecture that reads a `TokenPreprocessor`."""

import json

import numpy as np
import pytest

from keras_transfer.checkpoints import load_preprocessor
from keras_transfer.checkpoints.architecture import architecture_of
from keras_transfer.tasks import TextClassifier
from keras_transfer.text import ByteBPETokenizer, GPTTokenizer, Packing, TokenPreprocessor, WordPieceTokenizer
from keras_transfer.text.tokenizers.byte_bpe import byte_characters
from keras_transfer.text.tokenizers.sentencepiece_model import PieceType, SentencePieceModel

pytest.importorskip("tensorflow_text")

SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 32, "initializer_range": 0.3}
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
BRACKETS = ["[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]", "<cls>", "<sep>"]


def write_byte_bpe(folder):
    ByteBPETokenizer([*SPECIAL, *byte_characters(), "fi", "<|endoftext|>"], [("f", "i")]).save_assets(folder)


def write_words(folder):
    letters = list("abcdefghilmt")
    vocabulary = ["<unk>", *letters, *(f"{letter}</w>" for letter in letters), "th"]
    GPTTokenizer(vocabulary, [("t", "h")]).save_assets(folder)


def write_sentencepiece(folder):
    normal = [(piece, -float(i), PieceType.NORMAL) for i, piece in enumerate(["\u2581the", "\u2581", *"abefhilmt"])]
    control = [(piece, 0.0, PieceType.CONTROL) for piece in [*SPECIAL, *BRACKETS] if piece != "<unk>"]
    model = SentencePieceModel([("<unk>", 0.0, PieceType.UNKNOWN), *control, *normal])
    (folder / "spiece.model").write_bytes(model.to_bytes())


def write_fast(tokenizer, start, end, pad):
    """Writes `tokenizer.json` with segments, and a configuration that does not name the inputs of the model."""

    def write(folder):
        TokenPreprocessor(tokenizer, Packing([start], [end], [end], pad, (0, 1))).save(folder)
        config = {"cls_token": start, "sep_token": end, "pad_token": pad, "model_max_length": 8}
        (folder / "tokenizer_config.json").write_text(json.dumps(config))

    return write


FOLDERS = {
    "albert": write_sentencepiece,
    "deberta-v2": write_sentencepiece,
    "gpt2": write_byte_bpe,
    "modernbert": write_fast(ByteBPETokenizer([*BRACKETS, *byte_characters()], []), "[CLS]", "[SEP]", "[PAD]"),
    "mpnet": write_fast(WordPieceTokenizer([*SPECIAL, "[UNK]", "the", "film", "a"]), "<s>", "</s>", "<pad>"),
    "openai-gpt": write_words,
    "roberta": write_byte_bpe,
    "xlnet": write_sentencepiece,
}


@pytest.mark.parametrize("name", FOLDERS)
def test_raw_text_reaches_the_encoder_with_exactly_its_inputs(name, tmp_path):
    record = architecture_of({"model_type": name}, name)
    encoder = record.encoder_class(vocabulary_size=300, **SIZES)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": name, **record.configuration(encoder)}))
    FOLDERS[name](tmp_path)
    preprocessor = load_preprocessor(tmp_path, sequence_length=8)
    model = TextClassifier(encoder, preprocessor, num_classes=2)
    inputs = {key: np.asarray(value) for key, value in preprocessor(["the film", "a"]).items()}
    assert inputs.keys() == encoder.input.keys()
    long, short = inputs["padding_mask"].sum(1)
    assert long > short
    logits = np.asarray(model(["the film", "a"]))
    assert np.abs(logits[0] - logits[1]).max() > 1e-3
    np.testing.assert_allclose(logits[1:], model(["a"]), atol=1e-5)  # without the padding to the longer text
