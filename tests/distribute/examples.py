"""Two devices, and texts of similar length, whose batches have one shape: each new one is traced or compiled."""

import contextlib

import keras

from tests.tasks import tiny


@contextlib.contextmanager
def two_devices():
    """Distributes models created and used inside over the two CPU devices that `conftest.py` requests from JAX."""
    keras.distribution.set_distribution(keras.distribution.DataParallel())
    try:
        yield
    finally:
        keras.distribution.set_distribution(None)


def examples(count):
    """Returns texts of 7 to 14 words, which are padded to 16 tokens, and their labels."""
    found = [(text, label) for text, label in zip(*tiny.examples(4 * count)) if 7 <= len(text.split()) <= 14]
    texts, labels = zip(*found[:count], strict=True)
    assert len(texts) == count
    return list(texts), list(labels)
