"""Classification as text generation: the most likely one of several labels as the target."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_transfer.arrays import check_numbers
from keras_transfer.tasks.continuations import check_different, written_labels
from keras_transfer.text.base import to_list

_Task: Any = object  # To type checkers, the mixin has all attributes of the task that it is a part of.


class LabelsAsTargets(_Task):
    """A mixin for `Seq2SeqLM` that chooses the most likely one of given targets."""

    def classify(self, texts: Any, label_names: Sequence[str] | dict[Any, str], *, batch_size: int = 8) -> list[Any]:
        """Returns the label that the model would most likely write for each text.

        This is "rank classification" (Sanh et al. 2022): the answer is always one of the labels. The likelihood of a
        label is the product over its tokens, so long labels are less likely in a model that was not trained with these
        labels.

        Args:
            texts: A string or a list of strings, the sources. The model adds its prefix.
            label_names: List of strings, or a dict from labels to the strings that the model writes for them.
            batch_size: Integer. Number of rows in a batch. Each text is a row for each label. Defaults to `8`.

        Returns:
            List of labels, one for each text.

        Raises:
            ValueError: If there are fewer than two different labels, or if the task has no preprocessor.

        Example:
        ```python
        vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "film", "was", "good", "bad"]
        encoder = keras_transfer.encoders.T5(9, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16)
        preprocessor = keras_transfer.text.BertPreprocessor(vocabulary)
        model = keras_transfer.tasks.Seq2SeqLM(encoder, preprocessor, prefix="sentiment: ")
        model.classify(["The film was good"], {"positive": "good", "negative": "bad"})
        ```

        Source: https://arxiv.org/abs/2110.08207, section 5
        """
        names = [*written_labels(label_names)]
        scores = check_numbers(self.label_log_likelihoods(texts, label_names, batch_size=batch_size))
        return [names[best] for best in scores.argmax(axis=1)]

    def label_log_likelihoods(
        self, texts: Any, label_names: Sequence[str] | dict[Any, str], *, batch_size: int = 8
    ) -> np.ndarray:
        """Returns the log-likelihood of each label as the target of each text.

        Args:
            texts: A string or a list of strings, the sources. The model adds its prefix.
            label_names: List of strings, or a dict from labels to the strings that the model writes for them.
            batch_size: Integer. Number of rows in a batch. Each text is a row for each label. Defaults to `8`.

        Returns:
            Float64 array `[texts, labels]`.

        Raises:
            ValueError: If there are fewer than two different labels, or if the task has no preprocessor.
        """
        texts, words = to_list(texts), [*written_labels(label_names).values()]
        self.reader.require()
        own = self.target_preprocessor or self.preprocessor
        check_different(words, np.asarray(own(words)["token_ids"]))
        sources = [text for text in texts for _ in words]
        return self.score(sources, words * len(texts), batch_size=batch_size).reshape(len(texts), len(words))
