"""Settings in the files of a tokenizer: the ids are those of the original, or an error names the setting."""

import json

import pytest

from keras_transfer.text import (
    BertPreprocessor,
    ByteBPETokenizer,
    GPTTokenizer,
    Packing,
    TokenPreprocessor,
    WordPieceTokenizer,
)
from keras_transfer.text.tokenizers.byte_bpe import byte_characters

pytest.importorskip("tensorflow_text")

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "film", "##s"]
ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", *byte_characters(), "\u0120\u0120", "fi"]
MERGES = [("\u0120", "\u0120"), ("f", "i")]
BERT_PACKING = Packing(["[CLS]"], ["[SEP]"], ["[SEP]"], "[PAD]", (0, 1))
ADDED = {"id": 8, "content": "film", "single_word": False, "lstrip": False, "rstrip": False}


def write_word_piece(folder):
    TokenPreprocessor(WordPieceTokenizer(PIECES), BERT_PACKING).save(folder)


def write_byte_bpe(folder, added=()):
    tokenizer = ByteBPETokenizer([*dict.fromkeys([*ROBERTA, *added])], MERGES, added_tokens=added)
    TokenPreprocessor(tokenizer, Packing(["<s>"], ["</s>"], ["</s>"], "<pad>", (0, 1))).save(folder)


def write_gpt(folder):
    tokenizer = GPTTokenizer(["<unk>", "a", "b</w>", "ab</w>"], [("a", "b</w>")])
    TokenPreprocessor(tokenizer, Packing(pad="<unk>")).save(folder)


def change(folder, part, value, file="tokenizer.json"):
    """Sets a part of a file of settings, or updates it if both are dicts."""
    path = folder / file
    settings = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    old = settings.get(part)
    settings[part] = {**old, **value} if isinstance(value, dict) and isinstance(old, dict) else value
    path.write_text(json.dumps(settings), "utf-8")


BERT_SETTINGS = {
    "clean_text": ("normalizer", {"clean_text": False}, "normalizer clean_text=False .expected True"),
    "handle_chinese_chars": ("normalizer", {"handle_chinese_chars": False}, "normalizer handle_chinese_chars=False"),
    "another normalizer": ("normalizer", {"type": "NFKC"}, "normalizer 'NFKC' .expected 'BertNormalizer'"),
    "two normalizers": (
        "normalizer",
        {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "BertNormalizer"}]},
        r"normalizer 'NFKC' \+ 'BertNormalizer'",
    ),
    "no normalizer": ("normalizer", None, "normalizer None"),
    "pre-tokenizer": ("pre_tokenizer", {"type": "WhitespaceSplit"}, "pre_tokenizer 'WhitespaceSplit'"),
    "digits": (
        "pre_tokenizer",
        {"type": "Sequence", "pretokenizers": [{"type": "BertPreTokenizer"}, {"type": "Digits"}]},
        r"pre_tokenizer 'BertPreTokenizer' \+ 'Digits'",
    ),
}


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        *BERT_SETTINGS.values(),
        ("model", {"max_input_chars_per_word": 20}, "model max_input_chars_per_word=20 .expected 100"),
        ("added_tokens", [{**ADDED, "special": False}], r"added tokens that are not special.*\['film'\]"),
    ],
)
def test_a_word_piece_tokenizer_with_other_rules_is_an_error_that_names_them(part, value, message, tmp_path):
    write_word_piece(tmp_path)
    assert BertPreprocessor.load(tmp_path).vocabulary == PIECES
    change(tmp_path, part, value)
    with pytest.raises(ValueError, match=message):
        BertPreprocessor.load(tmp_path)


@pytest.mark.parametrize(
    ("write", "setting"), [(write_word_piece, "clean_text"), (write_gpt, "clean_text"), (write_gpt, "lowercase")]
)
def test_a_tokenizer_of_any_kind_with_the_rules_of_bert_has_no_other_ones(write, setting, tmp_path):
    write(tmp_path)
    change(tmp_path, "normalizer", {setting: False})
    with pytest.raises(ValueError, match=f"normalizer {setting}=False"):
        TokenPreprocessor.load(tmp_path)


def test_parts_of_a_tokenizer_json_can_be_in_a_sequence_of_one(tmp_path):
    write_word_piece(tmp_path)
    normalizer = json.loads((tmp_path / "tokenizer.json").read_text())["normalizer"]
    change(tmp_path, "normalizer", None)
    change(tmp_path, "normalizer", {"type": "Sequence", "normalizers": [normalizer]})
    change(tmp_path, "pre_tokenizer", {"type": "Sequence", "pretokenizers": [{"type": "BertPreTokenizer"}]})
    assert BertPreprocessor.load(tmp_path).vocabulary == PIECES


@pytest.mark.parametrize(
    ("file", "key", "content"),
    [
        ("added_tokens.json", "newword", 8),
        ("tokenizer_config.json", "added_tokens_decoder", {"8": {**ADDED, "content": "newword", "special": False}}),
    ],
)
def test_added_tokens_beside_a_vocab_txt_are_read_and_must_be_special(file, key, content, tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join([*PIECES, ""]))
    change(tmp_path, key, content, file)
    with pytest.raises(ValueError, match=r"added tokens that are not special.*\['newword'\]"):
        BertPreprocessor.load(tmp_path)
    change(tmp_path, "additional_special_tokens", ["newword"], "special_tokens_map.json")
    if file == "tokenizer_config.json":
        change(tmp_path, key, {"8": {**content["8"], "special": True}}, file)
    assert BertPreprocessor.load(tmp_path).vocabulary == [*PIECES, "newword"]


def test_a_vocab_txt_and_a_tokenizer_json_that_disagree_are_an_error(tmp_path):
    write_word_piece(tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join([*PIECES[:-2], "##s", "film"]))
    with pytest.raises(ValueError, match="same id. Received: 'film' with the id 6, and with the id 7"):
        BertPreprocessor.load(tmp_path)


@pytest.mark.parametrize("file", ["tokenizer_config.json", "config.json"])
def test_a_tokenizer_class_with_its_own_rules_is_an_error(file, tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES))
    for name in ("BertJapaneseTokenizer", "KoBertTokenizer"):
        change(tmp_path, "tokenizer_class", name, file)
        with pytest.raises(ValueError, match=f"rules that keras_transfer does not implement.*'{name}'"):
            BertPreprocessor.load(tmp_path)
    change(tmp_path, "tokenizer_class", "BertTokenizerFast", file)
    assert BertPreprocessor.load(tmp_path).vocabulary == PIECES


@pytest.mark.parametrize(
    ("kind", "segments"),
    [("gpt2", None), ("openai-gpt", None), ("roberta", None), ("deberta-v2", None), ("albert", (0, 1))],
)
def test_segments_of_a_tokenizer_json_are_read_only_for_models_that_have_them(kind, segments, tmp_path):
    write_byte_bpe(tmp_path)
    settings = {"pad_token": "<pad>", "tokenizer_class": "TokenizersBackend"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
    loaded = TokenPreprocessor.load(tmp_path)
    assert loaded.packing.segments == segments
    loaded.save(tmp_path / "saved")
    names = json.loads((tmp_path / "saved" / "tokenizer_config.json").read_text())["model_input_names"]
    assert ("token_type_ids" in names) == (segments is not None)


def test_added_tokens_of_a_byte_level_tokenizer_win_over_tokens_with_the_same_bytes(tmp_path):
    added = ["\u00e9", "  "]
    write_byte_bpe(tmp_path, added)
    tokenizer = TokenPreprocessor.load(tmp_path).tokenizer
    e, spaces = (tokenizer.token_to_id(token) for token in added)
    f, i, x = (tokenizer.token_to_id(letter) for letter in "fix")
    fi, space = tokenizer.token_to_id("fi"), tokenizer.token_to_id("\u0120")
    ids = tokenizer.tokenize(["\u00e9x\u00e9", "fi  x", "f   i"])
    assert ids.to_list() == [[e, x, e], [fi, spaces, x], [f, spaces, space, i]]
    texts = ["\u00e9x\u00e9", "fi  x", "f   i"]
    assert [text.decode("utf-8") for text in tokenizer.detokenize(ids).numpy()] == texts


def test_added_tokens_beside_a_vocab_json_are_matched_in_texts(tmp_path):
    ByteBPETokenizer(ROBERTA, MERGES).save_assets(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "roberta"}')
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<mask>": len(ROBERTA), "newword": len(ROBERTA) + 1}))
    tokenizer = TokenPreprocessor.load(tmp_path).tokenizer
    assert tokenizer.added_tokens == ["newword"]
    assert tokenizer.tokenize("newword").numpy().tolist() == [len(ROBERTA) + 1]


@pytest.mark.parametrize(
    ("form", "token", "normalized", "message"),
    [
        ("NFC", "|x|", False, None),
        ("NFC", "xy", False, "with normalized=True. Received: 'xy'"),
        ("NFKC", "|x|", False, "with normalized=True"),
        ("NFC", "xy", True, None),
        ("NFC", "e\u0301", True, "must not change added tokens"),
    ],
)
def test_added_tokens_that_a_normalization_can_change_are_an_error(form, token, normalized, message, tmp_path):
    tokenizer = ByteBPETokenizer([*ROBERTA, token], MERGES, normalization=form, added_tokens=[token])
    TokenPreprocessor(tokenizer, Packing(pad="<pad>")).save(tmp_path)
    added = json.loads((tmp_path / "tokenizer.json").read_text("utf-8"))["added_tokens"]
    change(tmp_path, "added_tokens", [{**each, "normalized": normalized} for each in added])
    if message is None:
        assert TokenPreprocessor.load(tmp_path).tokenizer.added_tokens == [token]
    else:
        with pytest.raises(ValueError, match=message):
            TokenPreprocessor.load(tmp_path)
