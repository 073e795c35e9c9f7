"""The pseudo-log-likelihood of a masked language model is that of masking by hand, and equal rows are computed once."""

import numpy as np
import pytest

from keras_transfer.encoders import BertEncoder
from keras_transfer.tasks import MaskedLM, masked_lm
from keras_transfer.text import BertPreprocessor, ByteBPETokenizer, Packing, TokenPreprocessor
from keras_transfer.text.tokenizers.byte_bpe import byte_characters
from tests.errors import check_errors
from tests.helpers import outputs_of
from tests.tasks.tiny import VOCABULARY, encoder

TEXTS = ["a b good", "a b bad", "ca d e f g", "a b good", "cab"]


@pytest.fixture(scope="module")
def model():
    found = MaskedLM(encoder(), BertPreprocessor(VOCABULARY, sequence_length=32))
    for k, weight in enumerate(found.weights):
        weight.assign(np.random.default_rng(k).normal(0.0, 0.3, weight.shape))
    return found


def by_hand(model, row, hidden, place):
    """The log-likelihood of the token at a place of a row of ids, in which some places are masked."""
    ids = np.array([row], "int32")
    ids[0, hidden] = model.preprocessor.mask_id
    inputs = {"token_ids": ids, "segment_ids": np.zeros_like(ids), "padding_mask": np.ones_like(ids)}
    logits = outputs_of(model, {**inputs, "mask_positions": np.array([[place]], "int32")})[0, 0].astype("float64")
    return logits[row[place]] - np.log(np.exp(logits).sum())


@pytest.mark.core
@pytest.mark.parametrize("batch_size", [4, 64])
def test_each_token_is_masked_alone_and_special_tokens_have_no_score(model, batch_size):
    found = model.score(TEXTS, batch_size=batch_size)
    rows = model.preprocessor.tokenize(TEXTS).to_list()
    for row, values in zip(rows, found.token_log_likelihoods, strict=True):
        row = [2, *row, 3]
        expected = [by_hand(model, row, [place], place) for place in range(1, len(row) - 1)]
        np.testing.assert_allclose(values, expected, atol=1e-5)
    sums = [values.sum() for values in found.token_log_likelihoods]
    np.testing.assert_allclose(found.log_likelihoods, sums, rtol=1e-6)
    assert found.pseudo_perplexity == pytest.approx(np.exp(-sum(sums) / sum(map(len, rows))), rel=1e-6)


def test_equal_rows_are_computed_once(model, monkeypatch):
    batches, predict = [], masked_lm.target_log_likelihoods

    def counted(task, given):
        batches.extend(given)
        return predict(task, batches)

    monkeypatch.setattr(masked_lm, "target_log_likelihoods", counted)
    model.score(["a b good", "a b bad", "a b good"], batch_size=1)
    assert len(batches) == 5  # Three of the first sentence, and two of the second, which shares "a b [MASK]".


def test_within_a_word_the_later_tokens_are_masked_too():
    model = MaskedLM(encoder(), BertPreprocessor(VOCABULARY[:-2] + ["##a", "##b"], sequence_length=32))
    [values] = model.score(["d cab e"], within_word=True).token_log_likelihoods
    row = [2, *model.preprocessor.tokenize(["d cab e"]).to_list()[0], 3]
    hidden = [[1], [2, 3, 4], [3, 4], [4], [5]]
    expected = [by_hand(model, row, some, place) for place, some in enumerate(hidden, 1)]
    np.testing.assert_allclose(values, expected, atol=1e-5)


def test_punctuation_is_no_part_of_the_word_before_it():
    special = ["<s>", "</s>", "<pad>", "<mask>"]
    tokenizer = ByteBPETokenizer([*special, *byte_characters()], [], mask_token="<mask>")
    packing = Packing(start=["<s>"], end=["</s>"], pad="<pad>", segments=(0, 1))
    encoder = BertEncoder(260, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16, max_sequence_length=16)
    model = MaskedLM(encoder, TokenPreprocessor(tokenizer, packing, 16))
    [values] = model.score(["b a."], within_word=True).token_log_likelihoods
    row = [0, *model.preprocessor.tokenize(["b a."]).to_list()[0], 1]
    expected = [by_hand(model, row, some, place) for place, some in enumerate([[1], [2, 3], [3], [4]], 1)]
    np.testing.assert_allclose(values, expected, atol=1e-5)


def test_padding_to_few_lengths_ends_at_the_sequence_length(monkeypatch):
    monkeypatch.setattr(masked_lm, "compiles_each_length", lambda: True)
    model = MaskedLM(encoder(max_sequence_length=6), BertPreprocessor(VOCABULARY, sequence_length=6))
    expected = [by_hand(model, [2, 5, 6, 7, 3], [place], place) for place in (1, 2, 3)]
    np.testing.assert_allclose(model.score(["a b c"]).token_log_likelihoods[0], expected, atol=1e-5)


def test_a_single_text_and_no_texts(model):
    assert model.score("a b good").log_likelihoods.shape == (1,)
    assert model.score([]).log_likelihoods.shape == (0,)


def short():
    return MaskedLM(encoder(), BertPreprocessor(VOCABULARY, sequence_length=4))


test_a_mistake_is_one_clear_error = check_errors(
    (lambda: short().score(["a b", "a b c"]), "Each text must have 1 to 2 tokens. ... 3 tokens at position 1"),
    (lambda: short().score(["a", ""]), "Received: 0 tokens at position 1"),
    (lambda: short().score((["a"], ["b"])), "`texts` must be a list of strings. Received: tuple"),
    (lambda: MaskedLM(encoder()).score(["a"]), "Raw text requires a preprocessor"),
)
