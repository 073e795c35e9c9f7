"""What a task answers in words is the same text in every alphabet, whatever the tokenizer."""

import functools

import keras
import numpy as np
import pytest

from keras_transfer.analysis import attention_weights
from keras_transfer.encoders import T5, GPT2Encoder, RobertaEncoder
from keras_transfer.serving.formats.savedmodel import make_signatures
from keras_transfer.tasks import (
    CausalLM,
    MaskedLM,
    ReplacedTokenDetection,
    Seq2SeqLM,
    SpanExtractor,
    TextClassifier,
    TokenClassifier,
)
from keras_transfer.text import Packing, TokenPreprocessor, WordPieceTokenizer, train_vocabulary
from tests.helpers import in_graph

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")
pytestmark = pytest.mark.usefixtures("eagerly")

TEXTS = [  # Latin with accents, Cyrillic, Arabic, Persian, Chinese, Devanagari, and emoji with a skin tone
    "café où gegrüßt",
    "привет большой мир",
    "كتاب جديد جميل",
    "پژوهش گرما چای",
    "中 文 好",
    "हिन्दी क्षत्रिय भाषा",
    "😀 👍🏽 🎉",
]
WORDS = [word for text in TEXTS for word in text.split()]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 4, "intermediate_dim": 8}
KINDS = ["wordpiece", "byte_bpe", "unigram"]


@functools.cache
def preprocessor(kind="wordpiece"):
    if kind == "wordpiece":
        tokenizer = WordPieceTokenizer([*SPECIAL, *WORDS], lowercase=False)
    else:
        if kind == "unigram":
            pytest.importorskip("sentencepiece")
        size = 300 if kind == "byte_bpe" else 110
        tokenizer = train_vocabulary(TEXTS * 2, kind, size, special_tokens=SPECIAL, lowercase=False)
    packing = Packing(start=["[CLS]"], end=["[SEP]"], between=["[SEP]"], pad="[PAD]")
    return TokenPreprocessor(tokenizer, packing, sequence_length=64)


def made(cls, kind="wordpiece", encoder=RobertaEncoder, **options):
    keras.utils.set_random_seed(0)
    found = preprocessor(kind)
    return cls(encoder(found.vocabulary_size, **SIZES), found, **options)


def tokens_of(kind):
    found = preprocessor(kind)
    return [[found.vocabulary[token] for token in row] for row in found.tokenize(TEXTS).to_list()]


@pytest.mark.parametrize("kind", KINDS)
def test_masks_are_filled_with_tokens_of_the_vocabulary(kind):
    vocabulary = preprocessor(kind).vocabulary
    found = made(MaskedLM, kind).fill_mask([f"{text} [MASK]" for text in TEXTS], k=len(vocabulary))
    for [candidates] in found:
        assert sorted(token for token, _ in candidates) == sorted(vocabulary)


@pytest.mark.parametrize("kind", ["wordpiece", "unigram"])
def test_detection_names_the_tokens_of_the_text(kind):
    found = made(ReplacedTokenDetection, kind).detect(TEXTS)
    assert [[token for token, _ in row] for row in found] == tokens_of(kind)
    assert not any(token.isascii() for row in tokens_of("wordpiece") for token in row)


@pytest.mark.parametrize("kind", ["byte_bpe"])
def test_attention_names_the_tokens_of_the_text(kind):
    found = attention_weights(made(MaskedLM, kind), TEXTS).tokens
    assert found == [["[CLS]", *row, "[SEP]"] for row in tokens_of(kind)]


@pytest.mark.parametrize(
    ("cls", "encoder", "kind"),
    [*((CausalLM, GPT2Encoder, kind) for kind in KINDS), (Seq2SeqLM, T5, "wordpiece")],
)
def test_texts_are_written_in_every_alphabet(cls, encoder, kind):
    model, streamed = made(cls, kind, encoder), [""] * len(TEXTS)

    def add(index, piece):
        streamed[index] += piece

    ascii_tokens = [[index] for index, token in enumerate(preprocessor(kind).vocabulary) if token.isascii()]
    written = model.generate(
        TEXTS, max_new_tokens=4, bad_words=ascii_tokens, sampler="top_p", seed=1, end_token=None, on_token=add
    )
    assert [text.strip() for text in streamed] == [text.strip() for text in written] and all(written)
    if kind == "wordpiece":
        assert {word for text in written for word in text.split()} <= set(WORDS)


def test_answers_are_parts_of_the_context():
    context = " ".join(TEXTS)
    for found in made(SpanExtractor).answer(TEXTS, [context] * len(TEXTS), k=5):
        spans = [(row["text"], row["start"], row["end"]) for row in found if row["start"] >= 0]
        assert spans and all(text and text == context[start:end] for text, start, end in spans)


def test_labels_come_back_as_they_are_written():
    model = made(TextClassifier, label_names=TEXTS)
    chosen = model.predict(TEXTS, verbose=0).argmax(axis=-1)
    assert model.predict_labels(TEXTS) == [TEXTS[index] for index in chosen]
    model.compile("sgd", run_eagerly=True)
    assert model.evaluate(TEXTS, list(TEXTS), verbose=0, return_dict=True)["accuracy"] == pytest.approx(
        (chosen == np.arange(len(TEXTS))).mean()
    )
    for cls, encoder in ((CausalLM, GPT2Encoder), (Seq2SeqLM, T5)):
        assert set(made(cls, encoder=encoder).classify(TEXTS, TEXTS)) <= set(TEXTS)
    words = [text.split()[0] for text in TEXTS]
    assert set(made(MaskedLM).classify(TEXTS, words)) <= set(words)


def test_words_and_their_labels_come_back_as_they_are_written():
    found = made(TokenClassifier, label_names=TEXTS).predict_words(TEXTS)
    assert [" ".join(word for word, _ in row) for row in found] == TEXTS
    assert {label for row in found for _, label in row} <= set(TEXTS)


def test_an_export_answers_in_the_same_words():
    model = made(MaskedLM)
    masked = [f"{text} [MASK]" for text in TEXTS]
    found = in_graph(model.signatures()["serving_default"], masked)["token"]
    expected = [[token for token, _ in row[0]] for row in model.fill_mask(masked)]
    assert [[token.decode() for token in row[0]] for row in found] == expected
    model = made(TextClassifier, label_names=TEXTS)
    found = make_signatures(model, TEXTS)["serving_default"](text=tf.constant(TEXTS))["label"].numpy()
    assert [label.decode() for label in found] == model.predict_labels(TEXTS)
