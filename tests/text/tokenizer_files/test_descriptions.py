"""`tokenizer.json` and `tokenizer_config.json`: what a folder's Transformers does is done, and what differs is said."""

import json

import pytest

from keras_transfer.checkpoints import load_preprocessor
from keras_transfer.text import BertPreprocessor, TokenPreprocessor
from keras_transfer.text.bert_preprocessor import load_word_piece
from keras_transfer.text.tokenizer_files.tokenizer_folder import read_tokenizer_folder
from tests.errors import check_errors
from tests.helpers import logged
from tests.text.tokenizer_files.folders import KINDS, write_folder

pytest.importorskip("tensorflow_text")
pytest.importorskip("sentencepiece")
NEW, OLD = "5.24.0", "4.57.3"
# Classes of Transformers 5 that give no segments although their models read them.
WITHOUT_SEGMENTS = {"albert", "xlnet", "xlnet, no class", "bert, generic", "albert, generic"}


@pytest.fixture
def written(tmp_path):
    def written(kind, setting="agreeing", version=NEW, **settings):
        write_folder(tmp_path, kind, setting, version)
        path = tmp_path / "tokenizer_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))
        return tmp_path

    return written


def tokens(preprocessor, texts):
    """Returns the tokens of one row without padding."""
    inputs = preprocessor(texts, sequence_length="longest")
    return [preprocessor.vocabulary[index] for index in inputs["token_ids"].numpy()[0]]


@pytest.mark.parametrize(
    ("kind", "version"),
    [
        *((kind, OLD if kind in WITHOUT_SEGMENTS else NEW) for kind in KINDS),
        *((kind, version) for kind in ("bert", "roberta", "t5", "xlnet") for version in (OLD, None)),
    ],
)
def test_folders_whose_files_agree_are_read_without_a_warning(kind, version, written, caplog):
    read_tokenizer_folder(written(kind, version=version))
    assert logged(caplog, "disagree") == []


@pytest.mark.parametrize("version", [NEW, OLD])
@pytest.mark.parametrize("kind", ["bert", "bert, no class", "mpnet"])
def test_a_cased_tokenizer_json_is_lowercased_by_a_class_whose_settings_do_not_say_otherwise(
    kind, version, written, caplog
):
    folder = written(kind, "cased file", version)
    load = load_word_piece if kind != "mpnet" else TokenPreprocessor.load
    assert load(folder).tokenizer.lowercase
    [warning] = logged(caplog)
    assert "'lowercase': False" in warning and "without do_lower_case" in warning
    assert f"what Transformers {'.'.join(version.split('.')[:2])} does" in warning and "tokenizer='file'" in warning
    caplog.clear()
    assert not load(folder, tokenizer="file").tokenizer.lowercase
    assert load(folder, tokenizer="config").tokenizer.lowercase and not caplog.records
    assert not load(written(kind, "cased file, named", version)).tokenizer.lowercase and not caplog.records


@pytest.mark.parametrize("kind", ["bert", "mpnet"])
def test_a_cased_vocab_txt_without_a_setting_is_lowercased_as_by_transformers_with_a_warning(kind, tmp_path, caplog):
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<pad>", "<s>", "</s>", "<mask>"]
    (tmp_path / "vocab.txt").write_text("\n".join([*special, "The", "the", "film"]))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
    load = load_word_piece if kind != "mpnet" else TokenPreprocessor.load
    assert load(tmp_path).tokenize(["The film"]).to_list() == [[10, 11]]
    [warning] = logged(caplog)
    assert "upper-case letters" in warning and "`do_lower_case`" in warning and "tokenizer='file'" in warning
    caplog.clear()
    assert load(tmp_path, tokenizer="file").tokenize(["The film"]).to_list() == [[9, 11]]
    assert load(tmp_path, tokenizer="config").tokenizer.lowercase
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert not load(tmp_path).tokenizer.lowercase and not caplog.records


def test_the_case_that_a_user_names_needs_no_warning(tmp_path, caplog):
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nThe\n")
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    assert not BertPreprocessor.load(tmp_path, lowercase=False).lowercase and not caplog.records


def test_the_generic_class_follows_tokenizer_json(written, caplog):
    folder = written("bert, generic", "cased settings", OLD)
    assert load_word_piece(folder).tokenizer.lowercase
    assert "do_lower_case=False), and keras_transfer follows tokenizer.json" in caplog.text
    assert not load_word_piece(folder, tokenizer="config").tokenizer.lowercase


def test_accents_follow_the_settings_of_a_class(written, caplog):
    assert load_word_piece(written("bert", "settings keep accents")).tokenizer.strip_accents is False
    assert "strip_accents=False" in caplog.text


@pytest.mark.parametrize("version", [NEW, OLD])
@pytest.mark.parametrize(
    ("kind", "setting", "expected"),
    [
        ("roberta", "prefix in the settings", True),
        ("roberta", "prefix in the file", False),
        ("bart", "prefix in both", True),
        ("gpt2", "prefix in the settings", True),
        ("roberta, generic", "prefix in the file", {NEW: True, OLD: False}),  # 4.45 and later overwrite it.
    ],
)
def test_the_space_in_front_of_a_text_follows_the_settings(kind, setting, expected, version, written, caplog):
    expected = expected if isinstance(expected, bool) else expected[version]
    assert TokenPreprocessor.load(written(kind, setting, version)).tokenizer.add_prefix_space is expected
    if kind != "roberta, generic" and setting != "prefix in both":
        assert "add_prefix_space" in caplog.text


@pytest.mark.parametrize("kind", ["t5", "xlm-roberta", "albert", "camembert", "mt5, no class"])
@pytest.mark.parametrize("setting", ["Lowercase", "NFKC"])
def test_transformers_5_ignores_the_normalizer_of_a_file_with_pieces(kind, setting, written, caplog):
    agreeing = read_tokenizer_folder(written(kind))["tokenizer"].normalization
    step = "lowercase" if setting == "Lowercase" else setting
    caplog.clear()
    assert read_tokenizer_folder(written(kind, setting, OLD))["tokenizer"].normalization[0] == step
    assert "normalizer is" in caplog.text and "follows tokenizer.json" in caplog.text
    caplog.clear()
    folder = written(kind, setting, NEW)
    assert read_tokenizer_folder(folder)["tokenizer"].normalization == agreeing
    assert "follows tokenizer_config.json" in caplog.text
    assert read_tokenizer_folder(folder, choice="file")["tokenizer"].normalization[0] == step


def test_the_normalization_of_a_model_is_lost_in_mbart(written, caplog):
    folder = written("mbart", "NFKC")
    assert read_tokenizer_folder(folder)["tokenizer"].normalization == []
    assert "'NFKC'" in caplog.text


@pytest.mark.parametrize("kind", ["bert", "electra"])
def test_both_readers_of_a_folder_follow_the_same_template(kind, written, caplog):
    own = ["[PAD]", "film", "[PAD]"]
    folder = written(kind, "own template", OLD)
    one, other = load_preprocessor(folder), TokenPreprocessor.load(folder)
    assert tokens(one, ["film"]) == tokens(other, ["film"]) == own
    assert type(one) is TokenPreprocessor and one.packing == other.packing
    assert "template is [['[PAD]'], [], ['[PAD]']]" in caplog.text
    folder = written(kind, "own template", NEW)
    one, other = load_preprocessor(folder), TokenPreprocessor.load(folder)
    assert tokens(one, ["film"]) == tokens(other, ["film"]) == ["[CLS]", "film", "[SEP]"]
    assert type(one) is BertPreprocessor
    assert tokens(load_preprocessor(folder, tokenizer="file"), ["film"]) == own


def test_a_bert_with_a_template_of_its_own_is_saved_with_it(written, tmp_path):
    from keras_transfer.encoders import BertEncoder

    folder = written("bert", "own template", OLD)
    preprocessor = load_preprocessor(folder)
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 8}
    encoder = BertEncoder(vocabulary_size=preprocessor.vocabulary_size, **sizes)
    encoder.save_pretrained(tmp_path / "saved", preprocessor)
    again = load_preprocessor(tmp_path / "saved")
    assert tokens(again, ["film"]) == ["[PAD]", "film", "[PAD]"] and again.packing == preprocessor.packing


@pytest.mark.parametrize(
    ("kind", "version", "expected"),
    [
        ("bert", NEW, (0, 1)),
        ("bert, no class", NEW, (0, 1)),
        ("bert, generic", NEW, (0, 0)),
        ("bert, generic", OLD, (0, 1)),
        ("bert, generic", None, (0, 1)),
        ("albert", NEW, (0, 0)),
        ("albert", OLD, (0, 1)),
        ("xlnet", OLD, (0, 1, 2)),
        ("roberta", NEW, None),
    ],
)
def test_pairs_have_the_segments_that_the_class_returns(kind, version, expected, written, caplog):
    folder = written(kind, version=version)
    assert TokenPreprocessor.load(folder).packing.segments == expected
    assert ("segments is [0, 1]" in caplog.text) == (expected == (0, 0))
    if expected == (0, 0):
        assert TokenPreprocessor.load(folder, tokenizer="file").packing.segments == (0, 1)


def test_inputs_named_in_the_settings_count_more_than_the_class(written, caplog):
    assert TokenPreprocessor.load(written("bert, generic", "named inputs")).packing.segments == (0, 1)
    assert not caplog.records


def test_a_folder_written_by_transformers_5_without_its_model_is_known_by_its_backend(written):
    folder = written("bert", "own template", backend="tokenizers")
    (folder / "config.json").unlink()
    assert tokens(TokenPreprocessor.load(folder), ["film"]) == ["[CLS]", "film", "[SEP]"]


def test_added_tokens_that_only_the_settings_name_are_known(written, caplog):
    token = {"content": "was", "special": False, "lstrip": False, "rstrip": False, "single_word": False}
    folder = written("roberta", version=OLD, added_tokens_decoder={"999": token})
    tokenizer = read_tokenizer_folder(folder, choice="file")["tokenizer"]
    path, added = folder / "tokenizer_config.json", {str(tokenizer.vocabulary_size): token}
    path.write_text(json.dumps({**json.loads(path.read_text()), "added_tokens_decoder": added}))
    assert TokenPreprocessor.load(folder).tokenizer.added_tokens == ["was"]
    assert "added_tokens is [] in tokenizer.json and ['was'] by tokenizer_config.json" in caplog.text


def test_a_class_with_rules_that_are_not_known_here_is_named(written, caplog):
    folder = written("bert", tokenizer_class="FunnelTokenizer")
    TokenPreprocessor.load(folder)
    assert "by rules of its own for FunnelTokenizer" in caplog.text
    caplog.clear()
    TokenPreprocessor.load(folder, tokenizer="file")
    TokenPreprocessor.load(written("bert", version=OLD, tokenizer_class="FunnelTokenizer"), tokenizer="file")
    assert not caplog.records


def test_the_older_files_of_bert_are_read_by_both_readers(tmp_path):
    BertPreprocessor(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "film"], 16, lowercase=False).save(tmp_path)
    one, other = BertPreprocessor.load(tmp_path), TokenPreprocessor.load(tmp_path)
    assert one.packing == other.packing and not other.tokenizer.lowercase and other.sequence_length == 16
    assert one.vocabulary == other.vocabulary


@pytest.mark.parametrize("file", ["tokenizer.json", "tokenizer_config.json"])
def test_the_side_at_which_texts_are_truncated_is_read_and_written(file, written, tmp_path):
    folder = written("bert", "truncation_side" if file == "tokenizer_config.json" else "agreeing")
    if file == "tokenizer.json":
        fast = json.loads((folder / file).read_text())
        (folder / file).write_text(json.dumps({**fast, "truncation": {"direction": "Left", "max_length": 512}}))
    preprocessor = load_preprocessor(folder)
    assert preprocessor(["the film was long"], sequence_length=4)["token_ids"].numpy().tolist() == [
        [preprocessor.token_to_id(token) for token in ("[CLS]", "was", "long", "[SEP]")]
    ]
    preprocessor.save(tmp_path / "saved")
    assert TokenPreprocessor.load(tmp_path / "saved").packing == preprocessor.packing


def test_padding_on_the_left_is_read_where_positions_do_not_depend_on_it(written, caplog):
    for kind in ("roberta", "t5", "modernbert", "mpnet", "deberta-v2"):
        read_tokenizer_folder(written(kind, padding_side="left"))
    assert not caplog.records
    read_tokenizer_folder(written("gpt2", padding_side="left"))
    assert "pads on the left" in caplog.text


test_what_cannot_be_followed_is_an_error = check_errors(
    (
        lambda written: TokenPreprocessor.load(written("bert"), tokenizer="json"),
        "`tokenizer` must be 'file', 'config' or None ... Received: tokenizer='json'",
    ),
    (
        lambda written: BertPreprocessor.load(written("bert", "own template", OLD)),
        "adds other tokens than a `BertPreprocessor` ... `TokenPreprocessor.load` ... Received: ... start=('[PAD]',)",
    ),
    (
        lambda written: TokenPreprocessor.load(written("bert", padding_side="left")),
        "pads on the left ... positions in a bert model ... Received: padding_side='left'",
    ),
    (
        lambda written: TokenPreprocessor.load(written("bart", padding_side="left")),
        "positions in a bart model ... Received: padding_side='left'",
    ),
)
