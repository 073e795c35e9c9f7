"""`CausalLM.generate` on strings: detokenization, stop strings, bad words, and pieces of text."""

import numpy as np
import pytest

from keras_transfer.encoders import TransformerEncoder
from keras_transfer.tasks import CausalLM
from keras_transfer.text import BertPreprocessor

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcd", "##e", "##fg", "##hé", "the", "film"]
SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16, "max_sequence_length": 24}


@pytest.fixture(scope="module")
def model():
    """A model that writes the words of its vocabulary in an arbitrary order."""
    encoder = TransformerEncoder(len(VOCABULARY), **SIZES, norm="pre", causal=True)
    random = np.random.default_rng(3)
    for weight in encoder.weights:
        weight.assign(weight + random.normal(scale=0.8, size=weight.shape))
    return CausalLM(encoder, BertPreprocessor(VOCABULARY, sequence_length=16), max_length=16)


def written(model, prompt, **options):
    return model.generate(prompt, **{"end_token": None, **options})


def test_a_continuation_is_the_text_of_the_tokens_after_the_prompt(model, traced):
    tokens = model.preprocessor.tokenize(["the film", "a"]).to_list()
    ids = written(model, [[2, *row] for row in tokens])
    pieces = [f" {token}" if not token.startswith("##") else token[2:] for token in VOCABULARY]
    pieces = ["" if token in ("[PAD]", "[CLS]", "[SEP]") else piece for token, piece in zip(VOCABULARY, pieces)]
    found = written(model, ["the film", "a"])
    assert found == ["".join(pieces[index] for index in row) for row in ids]
    assert written(model, "the film") == found[0]
    assert len(set(found)) == 2 and all(len(row) > 8 for row in ids)


@pytest.mark.parametrize("length", [1, 4])
def test_the_text_ends_before_a_stop_string_wherever_the_borders_of_tokens_are(model, traced, length):
    whole = written(model, "the film")
    assert len(whole) > length + 1
    for begin in range(0, len(whole) - length, 8):
        stop = whole[begin : begin + length]
        assert written(model, "the film", stop=["zzz", stop]) == whole[: whole.index(stop)]


def test_the_pieces_of_a_text_are_reported_when_they_are_certain(model, eagerly):
    whole = written(model, "the film")
    stop = next(whole[i : i + 3] for i in range(6, len(whole)) if whole.index(whole[i : i + 3]) == i)
    pieces = []
    found = written(model, "the film", stop=stop, on_token=lambda index, piece: pieces.append(piece))
    assert "".join(pieces) == found == whole[: whole.index(stop)]
    assert len(pieces) > 1


def test_bad_words_do_not_occur(model, traced):
    [words] = [set(text.split()) for text in written(model, ["the film"])]
    bad = sorted(words & {"film", "the", *"abcd"})[0]
    assert bad not in written(model, "the film", bad_words=[bad]).split()


def test_the_last_token_of_the_packing_ends_a_text(model, traced):
    def ids(end, model=model):
        return written(model, [[2, 11]], end_token=end, no_repeat_ngram=1, max_length=10)[0]

    whole = ids(None)
    early, late = [token for token in whole if token > 3][:2]  # No token occurs twice.
    until_early, until_late = (whole[: whole.index(token) + 1] for token in (early, late))
    assert ids(VOCABULARY[late]) == until_late
    assert ids([VOCABULARY[late], early]) == until_early
    swapped = list(VOCABULARY)
    swapped[3], swapped[late] = swapped[late], swapped[3]
    packed = CausalLM(model.encoder, BertPreprocessor(swapped, sequence_length=16), max_length=16)
    assert ids("auto", packed) == until_late
