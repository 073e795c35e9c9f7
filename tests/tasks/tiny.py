"""A tiny classifier and texts that it can learn, for the tests of tasks."""

import keras
import numpy as np

from keras_transfer.checkpoints import WordVectors
from keras_transfer.encoders import BertEncoder, WordVectorEncoder
from keras_transfer.tasks import TextClassifier
from keras_transfer.text import BertPreprocessor, WordPreprocessor

WORDS = [*"abcdefghij", "good", "bad"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]


def preprocessor(**options):
    return BertPreprocessor(VOCABULARY, **{"sequence_length": 32, **options})


def encoder(cls=BertEncoder, **options):
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32, "max_sequence_length": 32}
    return cls(len(VOCABULARY), **{**sizes, "dropout": 0.0, **options})


def classifier(num_classes=2, num_layers=1, **options):
    keras.utils.set_random_seed(0)
    return TextClassifier(
        encoder(num_layers=num_layers), num_classes=num_classes, preprocessor=preprocessor(), dropout=0.0, **options
    )


def of_vectors():
    """A classifier over word vectors, whose steps are traced and whose files are loaded quickly."""
    keras.utils.set_random_seed(0)
    return of_words(["good", "bad", *"abcdef"], num_classes=2, dropout=0.0)


def of_words(words, **options):
    """A classifier over vectors of these words, with weights of the head that depend on the seed."""
    found = WordVectors(words, np.random.default_rng(0).normal(size=(len(words), 4)))
    preprocessor = WordPreprocessor(words, sequence_length=8)
    return TextClassifier(WordVectorEncoder.from_vectors(found), preprocessor=preprocessor, **options)


def two_blocks():
    """A classifier with a block in the middle of its layer groups."""
    return classifier(num_layers=2)


def ids_of(model, texts):
    return {key: keras.ops.convert_to_tensor(np.array(value)) for key, value in model.preprocessor(texts).items()}


def examples(count=64):
    """Texts of 3 to 20 words, one of which determines the label."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, count)
    texts = []
    for label in labels:
        words = random.choice(list("abcdefghij"), random.integers(2, 20)).tolist()
        words.insert(random.integers(0, len(words)), ["bad", "good"][label])
        texts.append(" ".join(words))
    return texts, labels.tolist()


def for_replicas():
    """A classifier without dropout, the same each time, to compare one device with two."""
    keras.utils.set_random_seed(0)
    model = TextClassifier(encoder(), num_classes=2, preprocessor=preprocessor(), dropout=0.0)
    model.compile(keras.optimizers.SGD(0.5))
    return model


def difference(ours, theirs):
    """The largest difference between two lists of arrays."""
    return float(max(np.abs(np.asarray(a) - b).max() for a, b in zip(ours, theirs, strict=True)))


def message(function):
    """The message of the `ValueError` that a call raises, or None if it raises none."""
    try:
        function()
    except ValueError as error:
        return str(error)
    return None
