"""A tiny tagger with every kind of encoder, and sentences that it can learn."""

import keras
import numpy as np

from keras_transfer.checkpoints import WordVectors
from keras_transfer.encoders import BertEncoder, ElmoEncoder, WordVectorEncoder
from keras_transfer.tasks import TokenClassifier
from keras_transfer.text import BertPreprocessor, ElmoPreprocessor, WordPreprocessor

NAMES = ["LETTER", "WORD", "MARK"]
WORDS = [*"abcdefgh", "good", "bad", ","]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefgh", "##b", "##c", "good", "bad", ","]
SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32, "max_sequence_length": 24}


def bert(**options):
    encoder = BertEncoder(len(VOCABULARY), dropout=0.0, **{**SIZES, **options})
    return encoder, BertPreprocessor(VOCABULARY, sequence_length=24)


def elmo():
    sizes = {"projection_dim": 8, "units": 16, "num_layers": 1, "max_characters": 8}
    encoder = ElmoEncoder(embedding_dim=4, filters=[(1, 4), (2, 8)], dropout=0.0, **sizes)
    return encoder, ElmoPreprocessor(sequence_length=24, max_characters=8)


def vectors():
    found = WordVectors(WORDS, np.random.default_rng(0).normal(size=(len(WORDS), 8)))
    return WordVectorEncoder.from_vectors(found), WordPreprocessor(WORDS, sequence_length=24)


ENCODERS = {"bert": bert, "elmo": elmo, "vectors": vectors}


def tagger(kind="bert", names=NAMES, scalar_mix=False, crf=False, **options):
    """A tagger without dropout, the same each time; `options` are its encoder's."""
    keras.utils.set_random_seed(0)
    encoder, preprocessor = ENCODERS[kind](**options)
    return TokenClassifier(encoder, preprocessor, label_names=names, dropout=0.0, scalar_mix=scalar_mix, crf=crf)


def examples(count=32, longest=9):
    """Sentences of letters, two words and a punctuation mark, and the kind of each as its label."""
    random = np.random.default_rng(1)
    words = [random.choice(WORDS, random.integers(1, longest)).tolist() for _ in range(count)]
    return words, [["MARK" if w == "," else "WORD" if len(w) > 1 else "LETTER" for w in row] for row in words]
