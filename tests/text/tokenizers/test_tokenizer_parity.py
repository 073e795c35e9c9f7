"""The vocabularies of GPT and GPT-2 give the ids of Hugging Face `tokenizers`, for real texts and all characters."""

import csv
import functools
import gzip
import json

import pytest

from keras_transfer.text import ByteBPETokenizer, GPTTokenizer
from keras_transfer.text.tokenizers.bpe import read_merges, tokens_of
from tests.samples import characters, sample
from tests.text.tokenizers.test_byte_bpe import HARD
from tests.text.tokenizers.test_gpt import hugging_face as hugging_face_gpt
from tests.tokenizing import differing_ids

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")
tokenizers = pytest.importorskip("tokenizers")


@pytest.fixture(scope="module", params=["gpt2", "gpt1"])
def different(request, data_dir):
    """Returns a function from texts to those whose ids differ."""
    folder = data_dir("vocabs") / request.param
    [vocabulary], [merges] = folder.glob("encoder*.json"), folder.glob("vocab*.bpe")
    vocabulary, merges = tokens_of(json.loads(vocabulary.read_text("utf-8"))), read_merges(merges)
    if request.param == "gpt1":
        ours, theirs = GPTTokenizer(vocabulary, merges), hugging_face_gpt(vocabulary, merges)
    else:
        ours = ByteBPETokenizer(vocabulary, merges)
        ids = {token: index for index, token in enumerate(vocabulary)}
        theirs = tokenizers.Tokenizer(tokenizers.models.BPE(ids, merges))
        theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)

    tokenize = tf.function(ours.tokenize, input_signature=[tf.TensorSpec([None], tf.string)])
    return functools.partial(differing_ids, tokenize, theirs)


def test_hard_texts_get_the_same_ids(different):
    assert not different(HARD)


@pytest.mark.slow
def test_texts_of_sst2_imdb_wikitext_and_ud_get_the_same_ids(different, data_dir):
    texts = []
    for split in ("train", "dev", "test"):
        with open(data_dir("glue/SST-2") / f"{split}.tsv", encoding="utf-8") as file:
            texts += [row["sentence"] for row in csv.DictReader(file, delimiter="\t", quoting=3)]
    with gzip.open(next(data_dir("imdb").glob("*test*")), "rt", encoding="utf-8") as file:
        texts += [json.loads(line)["text"] for line, _ in zip(file, range(5_000), strict=False)]
    texts += (data_dir("wikitext-2") / "wiki.valid.tokens").read_text("utf-8").split("\n")
    for path in sorted(data_dir("ud_english_ewt").glob("*.conllu")):
        texts += [line[9:] for line in path.read_text("utf-8").split("\n") if line.startswith("# text = ")]
    assert len(texts) == 70_042 + 5_000 + 3_761 + 16_622
    assert not different(sample(texts, 10))


@pytest.mark.slow
def test_characters_get_the_same_ids(different):
    assert not different([f"a{char}b {char} {char * 2}" for char in characters()])
