"""The data of a `TokenClassifier`: sentences as lists of words, or texts, which the preprocessor splits into words."""

import logging

import numpy as np

from keras_transfer.batches import word_batches
from keras_transfer.tasks.inputs import Reader
from keras_transfer.tasks.tagging.word_chain import warn_of_impossible
from keras_transfer.text.base import is_sentences, is_text, to_sentences

log = logging.getLogger("keras_transfer")


class WordReader(Reader):
    """Accepts sentences. A sentence that is too long becomes several rows, and `restore` joins their outputs.

    Args:
        preprocessor: Preprocessor, as for `Reader`.
        labels: `WordTags`, with the names of the word labels.
    """

    in_memory = (
        "A `tf.data.Dataset` must contain ids. For words and their labels, use `text.word_batches(sentences, labels, "
        "preprocessor=model.preprocessor, label_names=model.label_names)` instead."
    )

    def __init__(self, preprocessor, labels):
        super().__init__(preprocessor)
        self.labels = labels

    def accepts(self, x):
        return is_sentences(x) or is_text(x)

    def columns(self, x):
        if is_sentences(x):
            return to_sentences(x)
        if isinstance(x, tuple):
            raise ValueError(
                "Sentences must be a list of lists of words. Pairs are not supported. Pass labels as a separate "
                f"argument: `fit(sentences, labels)`. Received: {x!r:.100}"
            )
        self.require()
        sentences = self.preprocessor.words(x)
        _warn_of_words(sentences)
        return sentences

    def batch_of(self, parts):
        # Sentences must be lists, because a tuple is a pair of columns.
        return tuple(list(part) if isinstance(part, tuple) else part for part in parts)

    def batches(self, columns, y, sample_weight, batch_size, shuffle):
        options = {"shuffle": shuffle, "sample_weight": sample_weight, "label_names": self.labels.names}
        batches = word_batches(columns, y, preprocessor=self.preprocessor, batch_size=batch_size, **options)
        if self.labels.field is not None:
            warn_of_impossible(batches, self.labels.names, self.labels.field.allowed)
        return batches

    def inputs(self, x):
        raise ValueError(
            "A `TokenClassifier` can be called on prepared inputs only, since a long sentence has several rows. Use "
            f"`predict` or `predict_words` for sentences and texts. Received: {x!r:.100}"
        )

    def restore(self, data, predict):
        if data.contents.places is None:
            return super().restore(data, predict)
        logits = np.zeros((len(data.contents.places.row), len(self.labels.names)), "float32")
        for part, outputs in predict.parts(data):
            words, found = part.contents.places.word_outputs(part.order, outputs)
            logits[words] = found
        return data.contents.places.per_sentence(logits)

    def nothing(self, model, columns):
        return super().nothing(model, columns) if isinstance(columns, dict) else []


def _warn_of_words(sentences):
    """Logs a warning if there are several texts of one word each, which are probably the words of one sentence."""
    if len(sentences) > 1 and all(len(words) == 1 for words in sentences):
        log.warning(
            "Each of the %d texts is a single word, and is treated as a separate sentence. If they are the words of "
            "one sentence, pass `[words]`. The first are %.100s.",
            len(sentences),
            [words[0] for words in sentences[:3]],
        )
