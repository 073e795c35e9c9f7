"""`Packing`, `WordPieceTokenizer` and `TokenPreprocessor`: the inputs of any architecture, described by data."""

import copy
import dataclasses
import json

import numpy as np
import pytest

from keras_transfer.text import BertPreprocessor, Packing, Tokenizer, TokenPreprocessor, WordPieceTokenizer, batches
from keras_transfer.text.bert_preprocessor import BERT_PACKING
from tests.errors import check_errors
from tests.tokenizing import run_tokenizer_test

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

VOCABULARY = ["<s>", "<pad>", "</s>", "[UNK]", "<mask>", "the", "film", "##s", "<", "s", ">"]
BERT_LIKE = Packing(["<s>"], ["</s>"], ["</s>"], "<pad>", segments=(0, 1))
ROBERTA = Packing(start=["<s>"], between=["</s>", "</s>"], end=["</s>"], pad="<pad>")


def roberta(**options):
    tokenizer = WordPieceTokenizer(VOCABULARY, mask_token="<mask>")
    return TokenPreprocessor(tokenizer, ROBERTA, **{"sequence_length": 8, **options})


def values(inputs):
    return {name: np.asarray(value).tolist() for name, value in inputs.items()}


def test_the_packing_of_roberta_has_two_separators_and_no_segments():
    assert values(roberta()(["The films"])) == {
        "token_ids": [[0, 5, 6, 7, 2, 1, 1, 1]],
        "padding_mask": [[1, 1, 1, 1, 1, 0, 0, 0]],
    }
    assert values(roberta()((["the"], ["films"]))) == {
        "token_ids": [[0, 5, 2, 2, 6, 7, 2, 1]],
        "padding_mask": [[1, 1, 1, 1, 1, 1, 1, 0]],
    }
    assert values(roberta()((["the", ""], ["film", ""]), sequence_length="longest"))["token_ids"] == [
        [0, 5, 2, 2, 6, 2],
        [0, 2, 2, 2, 1, 1],
    ]


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("packing", [BERT_LIKE, ROBERTA], ids=["BERT", "RoBERTa"])
def test_pairs_are_truncated_as_hugging_face_truncates_them(packing, side):
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.models.WordPiece({t: i for i, t in enumerate(VOCABULARY)}, unk_token="[UNK]")
    theirs = tokenizers.Tokenizer(model)
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    kind = tokenizers.processors.BertProcessing if packing is BERT_LIKE else tokenizers.processors.RobertaProcessing
    theirs.post_processor = kind(("</s>", 2), ("<s>", 0))
    preprocessor = TokenPreprocessor(roberta().tokenizer, dataclasses.replace(packing, truncation_side=side))
    first = [" ".join(["the", "films"] * 6)[: 5 * (i // 12)] for i in range(144)]
    second = [" ".join(["film", "the"] * 6)[: 5 * (i % 12)] for i in range(144)]
    for length in range(packing.num_special_tokens(2), 26):
        theirs.enable_truncation(length, strategy="longest_first", direction=side)
        theirs.enable_padding(length=length, pad_id=1, pad_token="<pad>")
        expected = theirs.encode_batch(list(zip(first, second, strict=True)))
        inputs = values(preprocessor((first, second), sequence_length=length))
        assert inputs["token_ids"] == [encoding.ids for encoding in expected]
        assert inputs["padding_mask"] == [encoding.attention_mask for encoding in expected]
        if packing is BERT_LIKE:
            assert inputs["segment_ids"] == [encoding.type_ids for encoding in expected]


def test_a_packing_can_add_no_tokens():
    plain = TokenPreprocessor(roberta().tokenizer, Packing(pad="<pad>"), sequence_length=3)
    assert values(plain(["the film", "", "the the the the"]))["token_ids"] == [[5, 6, 1], [1, 1, 1], [5, 5, 5]]
    assert values(plain((["the the"], ["film film"])))["token_ids"] == [[5, 6, 6]]
    rows = plain.encode_words([["the", "films", "film", "the"]])
    read = np.asarray(rows.inputs["token_ids"])[np.asarray(rows.row), np.asarray(rows.position)]
    assert read.tolist() == [5, 6, 6, 5]


def test_a_packing_with_the_token_for_classification_at_the_end_is_padded_on_the_left_by_transformers(tmp_path):
    for packing, expected in ((Packing([], ["</s>"], ["</s>", "<s>"], "<pad>"), "left"), (ROBERTA, None)):
        folder = tmp_path / str(expected)
        TokenPreprocessor(roberta().tokenizer, packing).save(folder)
        assert json.loads((folder / "tokenizer_config.json").read_text()).get("padding_side") == expected


def test_segment_ids_are_those_of_the_packing():
    packing = Packing(["<s>"], ["</s>"], ["</s>", "<s>"], "<pad>", segments=(2, 3))
    preprocessor = TokenPreprocessor(WordPieceTokenizer(VOCABULARY), packing, sequence_length=9)
    inputs = values(preprocessor((["the the"], ["film"])))
    assert inputs["token_ids"] == [[0, 5, 5, 2, 6, 2, 0, 1, 1]]
    assert inputs["segment_ids"] == [[2, 2, 2, 2, 3, 3, 3, 0, 0]]
    assert values(preprocessor(["the"]))["segment_ids"] == [[2, 2, 2, 2, 0, 0, 0, 0, 0]]


def test_the_position_of_a_word_counts_the_tokens_before_it():
    rows = roberta(sequence_length=5).encode_words([["the", "films", "", "film"], []])
    assert np.asarray(rows.inputs["token_ids"])[:, 0].tolist() == [0] * len(rows.sentence)
    read = np.asarray(rows.inputs["token_ids"])[np.asarray(rows.row), np.asarray(rows.position)]
    assert read.tolist() == [5, 6, 3, 6]


def test_wordpiece_is_a_well_behaved_tokenizer():
    tokenizer = WordPieceTokenizer(VOCABULARY, mask_token="<mask>")
    texts, expected = ["", "The films", "<s>", "the\u200b <x>"], [[], [5, 6, 7], [8, 9, 10], [5, 8, 3, 10]]
    run_tokenizer_test(tokenizer, texts, BERT_LIKE, expected, ["the films"])
    same = roberta()
    assert (same.pad_id, same.unk_id, same.mask_id, same.vocabulary_size) == (1, 3, 4, 11)


def test_the_bert_preprocessor_equals_wordpiece_with_its_packing():
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "film"]
    same = TokenPreprocessor(WordPieceTokenizer(vocabulary), BERT_PACKING, sequence_length=7)
    texts = (["The film", "x"], ["film", "the the the the"])
    assert values(same(texts)) == values(BertPreprocessor(vocabulary, sequence_length=7)(texts))


def test_a_custom_tokenizer_reads_the_vocabulary_that_it_wrote(tmp_path):
    class Words(Tokenizer):
        def _tokenize(self, texts):
            return tf.strings.split(texts)

    Words(["a", "b\u2028c"]).save_assets(tmp_path)
    again = Words()
    again.load_assets(tmp_path)
    assert again.vocabulary == ["a", "b\u2028c"]


test_a_mistake_is_one_clear_error = check_errors(
    (
        lambda: TokenPreprocessor(WordPieceTokenizer(["<s>", "the"]), ROBERTA),
        "must contain the special tokens <pad>, </s>, [UNK]. Received: 2 tokens",
    ),
    (lambda: WordPieceTokenizer(["the"]).tokenize("the"), "must contain the special tokens [UNK]"),
    (lambda: WordPieceTokenizer(VOCABULARY).tokenize((["a"], ["b"])), "`tokenize` does not take pairs"),
)


def test_a_config_has_no_vocabulary_and_a_copy_has_it(tmp_path):
    made = TokenPreprocessor.from_config(roberta().get_config())
    with pytest.raises(ValueError, match="no vocabulary.*`from_config` and `clone_model` lose it.*`copy.deepcopy`"):
        made(["the"])
    roberta().save_assets(tmp_path)
    made.load_assets(tmp_path)
    for same in (made, copy.deepcopy(roberta())):
        assert values(same(["the films"])) == values(roberta()(["the films"]))


def test_batches_can_use_it():
    inputs, _ = batches(["the film", "films"], [0, 1], preprocessor=roberta(), batch_size=2, shuffle=False)[0]
    assert set(inputs) == {"token_ids", "padding_mask"} and inputs["padding_mask"].sum() == 8
