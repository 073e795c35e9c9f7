"""A warning about texts that are longer than the sequence length of their preprocessor."""

import logging

import numpy as np

from keras_transfer.text.base import preprocess
from keras_transfer.text.preprocessors.word_level import WordLevelPreprocessor

log = logging.getLogger("keras_transfer")


def count_truncated(preprocessor, texts, inputs):
    """Returns the number of texts that were truncated, or 0 if there was a warning already.

    Args:
        preprocessor: Callable. If it has no fixed `sequence_length`, the result is 0. If it belongs to another library,
            texts that just fit are counted too.
        texts: List of strings, or a tuple of two for pairs.
        inputs: Dict of arrays [texts, length], the outputs of the preprocessor.
    """
    length, mask = getattr(preprocessor, "sequence_length", None), inputs.get("padding_mask")
    if mask is None or length != mask.shape[1] or getattr(preprocessor, "warned_of_truncation", False):
        return 0
    [full] = np.nonzero(np.sum(mask, axis=1) == length)
    if not len(full) or not isinstance(preprocessor, WordLevelPreprocessor):
        return len(full)
    columns = texts if isinstance(texts, tuple) else (texts,)
    columns = tuple([column[row] for row in full] for column in columns)
    longer = preprocess(preprocessor, columns if len(columns) > 1 else columns[0], sequence_length=length + 1)
    return int((np.sum(longer["padding_mask"], axis=1) > length).sum())


def warn_of_truncation(preprocessor, truncated, total):
    """Warns that texts were truncated, if any were, once for each preprocessor.

    Args:
        preprocessor: Callable with a `sequence_length`, if texts were truncated.
        truncated: Integer. Number of texts that were truncated.
        total: Integer. Number of all texts.
    """
    if not truncated or getattr(preprocessor, "warned_of_truncation", False):
        return
    preprocessor.warned_of_truncation = True
    log.warning(
        "%d of %d texts (%.0f%%) reach the sequence length of %d tokens and are truncated there. To read more of "
        "them, pass a larger `sequence_length` to the preprocessor or to `from_pretrained()`, up to the number of "
        "positions of the encoder.",
        truncated,
        total,
        100 * truncated / total,
        preprocessor.sequence_length,
    )
