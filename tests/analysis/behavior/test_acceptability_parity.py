"""The scores of BLiMP's sentences are those of Transformers' models by the rules of lm-eval and minicons."""

import importlib.util
import json

import keras
import numpy as np
import pytest

from keras_transfer.analysis import sentence_scores
from keras_transfer.datasets import load_blimp
from keras_transfer.encoders import BertEncoder, GPT2Encoder
from keras_transfer.tasks import CausalLM, MaskedLM
from keras_transfer.text import BertPreprocessor, ByteBPETokenizer, Packing, TokenPreprocessor

pytestmark = pytest.mark.parity

SIZES = {"num_layers": 2, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32, "max_sequence_length": 64}


@pytest.fixture(scope="module")
def libraries():
    if importlib.util.find_spec("triton") is not None:
        pytest.skip("triton cannot be loaded beside TensorFlow: install the CPU build of torch")
    reason = "compares with Transformers on torch: run `make test-parity`"
    return [pytest.importorskip(name, reason=reason, exc_type=ImportError) for name in ("torch", "transformers")]


@pytest.fixture(scope="module")
def sentences(data_dir):
    pairs = load_blimp(data_dir("blimp") / "anaphor_gender_agreement.jsonl")
    return [text for pair in zip(pairs.good[:20], pairs.bad[:20]) for text in pair]


def spread(model):
    """The same model with weights that tell sentences apart."""
    for k, weight in enumerate(model.weights):
        weight.assign(np.random.default_rng(k).normal(0.0, 0.2, weight.shape))
    return model


def test_a_causal_model_scores_like_lm_eval(libraries, sentences, data_dir, tmp_path):
    torch, transformers = libraries
    folder = data_dir("vocabs") / "gpt2"
    ids = json.loads((folder / "encoder.json").read_text("utf-8"))
    merges = [line.split() for line in (folder / "vocab.bpe").read_text("utf-8").splitlines()[1:] if line]
    end = "<|endoftext|>"
    tokenizer = ByteBPETokenizer(sorted(ids, key=ids.get), merges, eos_token=end)
    keras.utils.set_random_seed(0)
    model = spread(CausalLM(GPT2Encoder(len(ids), **SIZES), TokenPreprocessor(tokenizer, Packing(pad=end), 64)))
    model.save_pretrained(tmp_path / "gpt2")
    theirs = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "gpt2").eval()
    expected = []
    for text in sentences:  # The task `blimp` has an empty context, and a space in front of each sentence.
        row = torch.tensor([[ids[end], *tokenizer.tokenize([f" {text}"]).to_list()[0]]])
        with torch.no_grad():
            logits = torch.log_softmax(theirs(row[:, :-1]).logits.double(), -1)
        expected.append(float(logits.gather(2, row[:, 1:, None]).sum()))
    found = sentence_scores(model, [f" {text}" for text in sentences])
    assert np.ptp(expected) > 1
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)


def test_a_masked_model_scores_like_minicons(libraries, sentences, data_dir, tmp_path):
    torch, transformers = libraries
    words = data_dir("vocabs") / "bert-base-uncased-vocab.txt"
    preprocessor = BertPreprocessor(words, sequence_length=64)
    keras.utils.set_random_seed(0)
    model = spread(MaskedLM(BertEncoder(preprocessor.vocabulary_size, **SIZES), preprocessor))
    model.save_pretrained(tmp_path / "bert")
    theirs = transformers.BertForMaskedLM.from_pretrained(tmp_path / "bert").eval()
    tokenizer = transformers.BertTokenizerFast(vocab=str(words))
    expected = []
    for text in sentences:
        row = torch.tensor(tokenizer(text)["input_ids"])
        places = torch.arange(1, len(row) - 1)
        rows = row.repeat(len(places), 1)
        rows[torch.arange(len(places)), places] = tokenizer.mask_token_id
        with torch.no_grad():
            logits = theirs(input_ids=rows).logits[torch.arange(len(places)), places].double()
        expected.append(float(torch.log_softmax(logits, -1).gather(1, row[places][:, None]).sum()))
    assert np.ptp(expected) > 1
    np.testing.assert_allclose(sentence_scores(model, sentences), expected, rtol=0, atol=1e-4)
