"""Classification as text: which of several labels a model would write."""

from keras_transfer.tasks.base import check_numbers
from keras_transfer.tasks.continuations import written_labels
from keras_transfer.text.base import to_list


class LabelsAsTargets:
    """A mixin for `Seq2SeqLM`: the most likely one of given targets."""

    def classify(self, texts, label_names, *, batch_size=8):
        """Returns the label that the model would most likely write for each text, and never anything else.

        This is "rank classification" (Sanh et al. 2022). The likelihood of a label is the product over its tokens, so
        that long labels have lower ones in a model that was not trained with these labels.

        Args:
            texts: A string or a list of strings, the sources, which the model reads with its prefix.
            label_names: List of strings, or a dict from labels to the strings that the model writes for them.
            batch_size: Integer. Number of rows in a batch. Each text is a row for each label. Defaults to `8`.

        Returns:
            List of labels, one for each text.

        Raises:
            ValueError: If there are not at least two different labels, or if the task has no preprocessor.

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

    def label_log_likelihoods(self, texts, label_names, *, batch_size=8):
        """Returns the log-likelihood of each label as the target of each text, a float64 array [texts, labels].

        Args:
            texts, label_names, batch_size: See `classify`.

        Raises:
            ValueError: As for `classify`.
        """
        texts, words = to_list(texts), [*written_labels(label_names).values()]
        sources = [text for text in texts for _ in words]
        return self.score(sources, words * len(texts), batch_size=batch_size).reshape(len(texts), len(words))
