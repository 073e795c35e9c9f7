"""Folders without `tokenizer.json` of encoder-decoders: ids, special tokens, sentinels and languages."""

import io
import json

import pytest

from keras_transfer.text import TokenPreprocessor
from keras_transfer.text.tokenizers.byte_bpe import byte_characters
from keras_transfer.text.tokenizers.sentencepiece_model import PieceType, SentencePieceModel
from tests.errors import check_errors
from tests.samples import characters, sample

pytest.importorskip("tensorflow_text")
sentencepiece = pytest.importorskip("sentencepiece")

TEXTS = [
    "the film was long and the cafe was small",
    "a long film, the best film. ab c",
    "x y z was a film ss i fi",
] * 20
# Letters between spaces, texts with spaces at their ends, ligatures and widths that the model's normalization changes.
STRINGS = [
    *(text[start:] for text in TEXTS[:3] for start in range(len(text))),
    *(f"a {character}b {character} film" for character in sample(characters(), 200)),
    *(
        "",
        " ",
        " the  film \n",
        "\ufb01lm \uff21\u3000\u2026",
        "x\u00a0y\u2003z",
        "the" * 20,
        "<pad> </s> <extra_id_0>",
    ),
]
CODES = ["ar_AR", "zh_CN", "en_XX", "de_DE"]


def train(**options):
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS),
        model_writer=file,
        vocab_size=60,
        hard_vocab_limit=False,
        minloglevel=2,
        **options,
    )
    return file.getvalue()


@pytest.fixture(scope="module")
def t5_model():
    return train(pad_id=0, eos_id=1, unk_id=2, bos_id=-1)


@pytest.fixture(scope="module")
def fairseq_model():
    return train(unk_id=0, bos_id=1, eos_id=2)


def load(folder, model_type, tokenizer_class, files, target=False, **settings):
    """Writes a folder, and returns its preprocessor."""
    for name, content in files.items():
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        (folder / name).write_bytes(content)
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": tokenizer_class, **settings}))
    return TokenPreprocessor.load(folder, target=target, sequence_length=16)


def packed(preprocessor, texts):
    """Returns the tokens of one row without padding."""
    inputs = preprocessor(texts)
    ids = inputs["token_ids"].numpy()[0][inputs["padding_mask"].numpy()[0] == 1]
    return [preprocessor.vocabulary[index] for index in ids]


def originals(model, offset=0, unknown=0):
    """Returns the ids of SentencePiece, moved by `offset`."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    rows = processor.encode(STRINGS)
    return [[unknown if index == processor.unk_id() else index + offset for index in row] for row in rows]


def test_t5_has_the_ids_of_sentencepiece_and_its_sentinels_are_found_by_name(t5_model, tmp_path):
    preprocessor = load(tmp_path, "t5", "T5Tokenizer", {"spiece.model": t5_model}, extra_ids=100)
    assert preprocessor.tokenize(STRINGS).to_list() == originals(t5_model, unknown=2)
    sentinels = preprocessor.tokenizer.sentinel_ids
    size = preprocessor.vocabulary_size
    assert sentinels == list(range(size - 1, size - 101, -1)) and preprocessor.token_to_id("<extra_id_0>") == size - 1
    assert (preprocessor.pad_id, preprocessor.token_to_id("</s>")) == (0, 1)


def test_the_sentinels_of_mt5_are_pieces_of_its_model(t5_model, tmp_path):
    model = SentencePieceModel.from_bytes(t5_model)
    count = len(model.pieces)
    model.pieces += [(f"\u2581<extra_id_{index}>", 0.0, PieceType.USER_DEFINED) for index in range(9, -1, -1)]
    preprocessor = load(tmp_path, "mt5", "T5Tokenizer", {"spiece.model": model.to_bytes()}, extra_ids=0)
    assert preprocessor.tokenizer.sentinel_ids == list(range(count + 9, count - 1, -1))
    assert preprocessor.vocabulary_size == count + 10
    assert packed(preprocessor, (["a"], ["b"])) == ["\u2581a", "</s>", "\u2581", "b", "</s>"]


def test_byt5_adds_three_to_each_byte(tmp_path):
    preprocessor = load(tmp_path, "t5", "ByT5Tokenizer", {}, extra_ids=125)
    assert preprocessor.tokenize(STRINGS).to_list() == [[byte + 3 for byte in s.encode()] for s in STRINGS]
    assert preprocessor.tokenizer.sentinel_ids == list(range(259, 384)) and preprocessor.vocabulary_size == 384
    assert preprocessor(["a"], sequence_length=3)["token_ids"].numpy().tolist() == [[100, 1, 0]]
    # A folder that Transformers wrote names its tokens with their ids.
    names = ["<pad>", "</s>", "<unk>"]
    ids = {**{str(i): {"content": name, "special": False} for i, name in enumerate(names)}}
    ids |= {"259": {"content": "<extra_id_0>", "special": True}}
    preprocessor = load(tmp_path, "t5", "ByT5Tokenizer", {}, added_tokens_decoder=ids)
    assert preprocessor.tokenizer.sentinel_ids == [259] and preprocessor.vocabulary_size == 260
    preprocessor.save(str(tmp_path / "copy"))
    assert (
        TokenPreprocessor.load(tmp_path / "copy").tokenize(STRINGS).to_list()
        == preprocessor.tokenize(STRINGS).to_list()
    )


def test_bart_is_a_byte_level_bpe_with_the_packing_of_roberta(tmp_path):
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *byte_characters(), "fi", "<mask>"]
    files = {"vocab.json": {token: i for i, token in enumerate(tokens)}, "merges.txt": b"#version: 0.2\nf i\n"}
    preprocessor = load(tmp_path, "bart", "BartTokenizer", files)
    assert packed(preprocessor, (["fil"], ["a"])) == ["<s>", "fi", "l", "</s>", "</s>", "a", "</s>"]
    assert preprocessor.tokenizer.mask_id == 261


@pytest.mark.parametrize(("name", "expected"), [("MBart", "\u2581a </s> en_XX"), ("MBart50", "en_XX \u2581a </s>")])
def test_the_language_of_mbart_is_chosen_for_each_request(fairseq_model, tmp_path, name, expected):
    files = {"sentencepiece.bpe.model": fairseq_model}
    preprocessor = load(tmp_path, "mbart", f"{name}Tokenizer", files, tgt_lang="ar_AR")
    assert preprocessor.tokenize(STRINGS).to_list() == originals(fairseq_model, offset=1, unknown=3)
    pieces = len(SentencePieceModel.from_bytes(fairseq_model).pieces)
    assert preprocessor.token_to_id("ar_AR") == pieces + 1
    assert preprocessor.vocabulary_size == pieces + 1 + (25 if name == "MBart" else 52) + 1
    assert preprocessor.vocabulary[-1] == "<mask>" and {*CODES} < {*preprocessor.tokenizer.language_codes}
    assert " ".join(packed(preprocessor, ["a"])) == expected
    german = preprocessor.with_language("de_DE")
    assert " ".join(packed(german, ["a"])) == expected.replace("en_XX", "de_DE")
    assert german.with_language("en_XX").packing == preprocessor.packing
    target = TokenPreprocessor.load(tmp_path, target=True)
    assert " ".join(packed(target, ["a"])) == expected.replace("en_XX", "ar_AR")
    preprocessor.save(tmp_path / "copy", target=german)
    config = json.loads((tmp_path / "copy" / "tokenizer_config.json").read_text())
    assert "cls_token" not in config and "padding_side" not in config  # A language code is no role.
    again = TokenPreprocessor.load(tmp_path / "copy"), TokenPreprocessor.load(tmp_path / "copy", target=True)
    assert [each.packing for each in again] == [preprocessor.packing, german.packing]
    assert again[1].tokenize(STRINGS).to_list() == preprocessor.tokenize(STRINGS).to_list()


def test_pegasus_has_103_tokens_in_front_of_its_pieces(t5_model, tmp_path):
    preprocessor = load(tmp_path, "pegasus", "PegasusTokenizer", {"spiece.model": t5_model})
    assert preprocessor.tokenize(STRINGS).to_list() == originals(t5_model, offset=103, unknown=105)
    assert preprocessor.vocabulary[:5] == ["<pad>", "</s>", "<mask_1>", "<mask_2>", "<unk_2>"]
    assert packed(preprocessor, (["a"], ["a"])) == ["\u2581a", "\u2581a", "</s>"]


def test_marian_has_a_model_for_sources_and_one_for_targets(t5_model, fairseq_model, tmp_path):
    source, target = (sentencepiece.SentencePieceProcessor(model_proto=model) for model in (t5_model, fairseq_model))
    pieces = [source.id_to_piece(index) for index in range(3, source.get_piece_size())][:-4]  # It lacks some of them.
    only_target = ["\u2581xyz"]
    tokens = ["</s>", "<unk>", *pieces[::-1], *only_target, ">>deu<<", "<pad>"]
    ids = {token: index for index, token in enumerate(tokens)}
    files = {"source.spm": t5_model, "target.spm": fairseq_model, "vocab.json": ids}
    found = load(tmp_path, "marian", "MarianTokenizer", files)
    assert found.tokenize(STRINGS).to_list() == [
        [ids.get(t, 1) for t in source.encode(s, out_type=str)] for s in STRINGS
    ]
    assert packed(found, (["a"], ["a"])) == ["\u2581a", "\u2581a", "</s>"]
    assert packed(found.with_language(">>deu<<"), ["a"]) == [">>deu<<", "\u2581a", "</s>"]
    targets = TokenPreprocessor.load(tmp_path, target=True)
    assert targets.tokenize(STRINGS).to_list() == [
        [ids.get(t, 1) for t in target.encode(s, out_type=str)] for s in STRINGS
    ]
    with pytest.raises(ValueError, match=r"has a tokenizer of sources and one of targets.*save\(folder, target="):
        found.save(tmp_path / "copy")
    found.with_language(">>deu<<").save(tmp_path / "copy", target=targets)
    assert json.loads((tmp_path / "copy" / "vocab.json").read_text()) == ids
    for name in ("source.spm", "target.spm"):
        assert (tmp_path / "copy" / name).read_bytes() == files[name]
    again = TokenPreprocessor.load(tmp_path / "copy")
    assert again.language == ">>deu<<" and again.tokenize(STRINGS).to_list() == found.tokenize(STRINGS).to_list()
    again = TokenPreprocessor.load(tmp_path / "copy", target=True)
    assert again.language is None and again.tokenize(STRINGS).to_list() == targets.tokenize(STRINGS).to_list()


test_what_is_not_supported_is_named = check_errors(
    (
        lambda tmp_path: load(tmp_path, "mbart", "MBart50Tokenizer", {}),
        FileNotFoundError,
        "must contain tokenizer.json, or one SentencePiece model (*.model)",
    ),
    (
        lambda tmp_path: load(tmp_path, "marian", "MarianTokenizer", {"vocab.json": {}}),
        FileNotFoundError,
        "must contain tokenizer.json, or vocab.json and source.spm",
    ),
    (
        lambda tmp_path: load(tmp_path, "m2m_100", "NllbTokenizer", {}),
        "'xlnet'], or another one with a tokenizer.json. Received: tokenizer_class='NllbTokenizer'",
    ),
    (
        lambda tmp_path: load(tmp_path, "t5", "ByT5Tokenizer", {}).with_language("de_DE"),
        "must be one of the language codes of the tokenizer, []. Received: language='de_DE'",
    ),
)
