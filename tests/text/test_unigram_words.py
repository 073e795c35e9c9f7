"""The words and the white space of `UnigramTokenizer`, with the pre-tokenizers and normalizers of its folders."""

import json

import pytest

from keras_transfer.text import Packing, TokenPreprocessor, UnigramTokenizer
from keras_transfer.text.tokenizers.sentencepiece_model import PieceType, SentencePieceModel, normalized
from tests.errors import check_errors
from tests.text.tokenizers.test_unigram import train_model

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

WHITE_SPACE = [
    *("", " ", "  ", "\t", "\u00a0", "the film", " the  film ", "the   film", "the\n\nfilm\t", "the \u00a0film"),
    *("a\r\nb", "a\x0bb", "a\x0cb", "a\x85b", "a\u00a0b", "a\u2003b", "a\u200bb", "a \u200b b", "\u3000a\u3000"),
    *("a \n", "\ufeffa", "\u2581", "\u2581\u2581a", "a\u2581b \u2581", "a \u00b4", "a\u00b4b", "a\x01b", "a \x01 b"),
    "a\u2028\u2029b",
]
TWO_SPACES = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
WHITE = {"type": "Replace", "pattern": {"Regex": r"\s{2,}|[\n\r\t]"}, "content": " "}
RIGHT = {"type": "Strip", "strip_left": False, "strip_right": True}
BOTH = {"type": "Strip", "strip_left": True, "strip_right": True}
NORMALIZERS = {  # the steps before and after the compiled normalization
    "nothing": ([], []),
    "SentencePiece": ([], [RIGHT, {**TWO_SPACES, "content": "\u2581"}]),
    "DeBERTa of Transformers 4": ([BOTH], [TWO_SPACES]),
    "DeBERTa of Transformers 5": ([WHITE, {"type": "NFC"}, RIGHT], []),
}


@pytest.fixture(scope="module")
def model():
    return train_model()


def without_normalization(model):
    return SentencePieceModel(SentencePieceModel.from_bytes(model).pieces).to_bytes()


def write_folder(folder, model, before, after, split):
    """Writes a `tokenizer.json`, and returns its tokenizer in Hugging Face's library."""
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = UnigramTokenizer(model, graphemes=True)
    TokenPreprocessor(tokenizer, Packing(end=["</s>"], pad="<s>")).save(folder)
    fast = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    compiled = (fast["normalizer"] or {"normalizers": []})["normalizers"]
    fast["normalizer"] = {"type": "Sequence", "normalizers": [*before, *compiled, *after]}
    metaspace = fast["pre_tokenizer"]["pretokenizers"][-1]
    fast["pre_tokenizer"] = fast["pre_tokenizer"] if split else metaspace
    (folder / "tokenizer.json").write_text(json.dumps(fast), "utf-8")
    return tokenizers.Tokenizer.from_str(json.dumps({**fast, "post_processor": None}))


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(("before", "after"), NORMALIZERS.values(), ids=NORMALIZERS)
def test_white_space_gives_the_ids_of_hugging_face(before, after, compiled, split, model, tmp_path):
    model = model if compiled else without_normalization(model)
    theirs = write_folder(tmp_path, model, before, after, split)
    loaded = TokenPreprocessor.load(tmp_path)
    loaded.save(tmp_path / "saved")
    expected = [encoding.ids for encoding in theirs.encode_batch(WHITE_SPACE)]
    for preprocessor in (loaded, TokenPreprocessor.load(tmp_path / "saved")):
        ids = preprocessor.tokenizer.tokenize(WHITE_SPACE).to_list()
        assert [text for text, *both in zip(WHITE_SPACE, ids, expected, strict=True) if both[0] != both[1]] == []
    assert loaded.tokenizer.keep_spaces is not split


def test_a_folder_of_deberta_with_only_a_model_without_normalization_keeps_white_space(model, tmp_path):
    (tmp_path / "spm.model").write_bytes(without_normalization(model))
    settings = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "<s>", "unk_token": "<unk>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "deberta-v2"}))
    tokenizer = TokenPreprocessor.load(tmp_path).tokenizer
    a, b, unknown = (tokenizer.token_to_id(piece) for piece in ("\u2581a", "b", "<unk>"))
    assert tokenizer.tokenize("a\u00a0b").numpy().tolist() == [a, unknown, b]


def test_accents_are_stripped_by_the_tables_of_hugging_face(model):
    tokenizers = pytest.importorskip("tokenizers")
    theirs = tokenizers.normalizers.StripAccents()
    texts = [f"a{chr(code)}" for code in (0x301, 0x8CB, 0x8D8, 0xCF3, 0x1CF2, 0x1AB0, 0x1ABF, 0x1DF6, 0x1133B, 0x1E08F)]
    stripped = UnigramTokenizer(model, normalization=["strip_accents"]).tokenize(texts)
    expected = UnigramTokenizer(model).tokenize([theirs.normalize_str(text) for text in texts])
    assert stripped.to_list() == expected.to_list()


@pytest.mark.parametrize(
    "change", [{"split": False}, {"prepend_scheme": "never"}, {"prepend_scheme": "first"}, {"replacement": "_"}]
)
def test_words_without_a_space_in_front_are_an_error(change, model, tmp_path):
    write_folder(tmp_path, model, [], [], split=True)
    fast = json.loads((tmp_path / "tokenizer.json").read_text("utf-8"))
    fast["pre_tokenizer"]["pretokenizers"][-1].update(change)
    (tmp_path / "tokenizer.json").write_text(json.dumps(fast))
    with pytest.raises(ValueError, match="must be 'Metaspace' with split=True"):
        TokenPreprocessor.load(tmp_path)


@pytest.mark.parametrize(("key", "value"), [("split_by_punct", True), ("add_prefix_space", False)])
def test_settings_of_a_folder_with_only_a_model_that_change_words_are_an_error(key, value, model, tmp_path):
    (tmp_path / "spiece.model").write_bytes(model)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "xlm-roberta"}))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({key: value}))
    with pytest.raises(ValueError, match=f"Expected {key}={not value}. Received: {key}={value}"):
        TokenPreprocessor.load(tmp_path)


UNKNOWN, A = ("<unk>", 0.0, PieceType.UNKNOWN), ("a", -1.0, PieceType.NORMAL)
BYTES = [(f"<0x{byte:02X}>", 0.0, PieceType.BYTE) for byte in range(256)]


test_a_model_that_tensorflow_text_refuses_is_an_error_of_the_constructor = check_errors(
    (([UNKNOWN, ("", -1.0, PieceType.NORMAL)], b""), "must not be empty or unused ... Received: '' ... index 1"),
    (([UNKNOWN, ("b", -1.0, PieceType.UNUSED), A], b""), "Received: 'b' of type UNUSED at index 1"),
    (([UNKNOWN, ("<0x00>", 0.0, PieceType.BYTE), A], b""), "a piece for each byte ... Received: of_bytes=1"),
    (([UNKNOWN, *BYTES, A], b""), "normalize white space. Received: kept=['\\t', '\\n', '\\x0b', '\\x0c', '\\r']"),
    (([UNKNOWN, ("<u>", 0.0, PieceType.UNKNOWN), A], b""), "one unknown piece. Received: unknown=['<unk>', '<u>']"),
    (([UNKNOWN, A], b"abc"), "must begin with the size of its trie"),
    call=lambda pieces, charsmap: UnigramTokenizer(SentencePieceModel(pieces, charsmap).to_bytes()),
)


test_steps_on_white_space_require_that_spaces_are_kept = check_errors(
    (
        lambda model: UnigramTokenizer(model, normalization=["strip_right"]),
        "require `keep_spaces=True`. Received: ['strip_right']",
    ),
    (
        lambda model: UnigramTokenizer(model, normalization=["model", "lowercase"], keep_spaces=True),
        "can follow 'model'",
    ),
)


def test_the_compiled_normalization_is_read(model):
    charsmap = SentencePieceModel.from_bytes(model).charsmap
    found = [normalized(charsmap, character) for character in "a\t\u00a0\u2581\x0b\ufb01\u00b4"]
    assert found == ["a", " ", " ", " ", "", "fi", " \u0301"]
