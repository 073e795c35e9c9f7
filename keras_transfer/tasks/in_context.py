"""Classification by a language model that is not trained for it: the label that most likely follows the text."""

import numpy as np

from keras_transfer.tasks.token_lists import check_rows, token_rows
from keras_transfer.text.inputs import to_list

CONTENT_FREE = ("N/A", "[MASK]", "")  # As in Zhao et al. 2021.


class InContext:
    """A mixin for language models: labels by likelihood, without training (Brown et al. 2020)."""

    def classify(
        self, texts, labels, examples=(), template="{text}\n{label}", separator="\n\n", calibrate=False, batch_size=8
    ):
        """Returns the label of each text that is the most likely to follow it: zero-, one- or few-shot.

        The model reads the examples, and then the text, each written with the template, and scores each label in the
        place of `{label}`.

        Args:
            texts: List of strings.
            labels: List of strings, the labels as they are written in the place of `{label}`, or a dict from a label to
                how it is written.
            examples: List of tuples `(text, label)`, which the model reads before each text. Defaults to none.
            template: String with one `{text}` and one `{label}` after it. Defaults to `"{text}\\n{label}"`.
            separator: String between examples. Defaults to an empty line.
            calibrate: Boolean. Whether the likelihoods are divided by those for texts without content ("N/A", "[MASK]"
                and ""), which removes the preference for certain labels (Zhao et al. 2021). Defaults to `False`.
            batch_size: Integer. Number of texts with labels in a batch. Defaults to `8`.

        Returns:
            List of labels, one for each text.

        Raises:
            ValueError: If the template lacks one of its fields, if an example has an unknown label, or if a text is
                longer than the encoder's positions together with the examples.

        Example:
        ```python
        vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "film", "was", "good", "bad", ":", "it"]
        encoder = keras_transfer.encoders.TransformerEncoder(len(vocabulary), 1, 2, 8, 16, causal=True)
        model = keras_transfer.tasks.CausalLM(encoder, keras_transfer.text.BertPreprocessor(vocabulary))
        model.classify(["The film"], ["good", "bad"], examples=[("It", "bad")], template="{text} was {label}")
        ```

        Source: https://arxiv.org/abs/2005.14165, https://arxiv.org/abs/2102.09690
        """
        options = (labels, examples, template, separator, batch_size)
        scores = self.label_log_likelihoods(texts, *options)
        if calibrate:
            free = _log_softmax(self.label_log_likelihoods(list(CONTENT_FREE), *options))
            scores = _log_softmax(scores) - np.log(np.exp(free).mean(axis=0))
        names = list(labels)
        return [names[best] for best in scores.argmax(axis=1)]

    def label_log_likelihoods(
        self, texts, labels, examples=(), template="{text}\n{label}", separator="\n\n", batch_size=8
    ):
        """Returns the log-likelihood of each label after each text, a float64 array [texts, labels].

        It is the sum over the tokens of the label. If the label changes how the end of what is before it is split into
        tokens, those tokens count too, for all labels.

        Args:
            texts, labels, examples, template, separator, batch_size: As for `classify`.

        Raises:
            ValueError: As for `classify`.
        """
        written = dict(labels) if isinstance(labels, dict) else {label: label for label in labels}
        if len(written) < 2 or not all(isinstance(text, str) and text for text in written.values()):
            raise ValueError(f"`labels` must be at least two different strings. Received: labels={labels!r}")
        before, between, after = _fields(template)
        unknown = [label for _, label in examples if label not in written]
        if unknown:
            raise ValueError(f"Labels of `examples` must be among {list(written)}. Received: {unknown[0]!r}")
        shots = "".join(f"{before}{text}{between}{written[label]}{after}{separator}" for text, label in examples)
        starts = [f"{shots}{before}{text}{between}" for text in to_list(texts)]
        wholes = [start + text for start in starts for text in written.values()]
        rows = token_rows(self, wholes)
        check_rows(self, rows, "text with its examples")
        values = self.token_log_likelihoods(rows, batch_size)
        scores = np.zeros((len(starts), len(written)))
        for index, start in enumerate(token_rows(self, starts)):
            part = range(index * len(written), (index + 1) * len(written))
            common = min(_common(start, rows[row]) for row in part)
            scores[index] = [values[row][max(common - 1, 0) :].sum(dtype="float64") for row in part]
        return scores


def _fields(template):
    """Returns a template's text before `{text}`, between the two fields, and after `{label}`."""
    counts = [template.count(field) for field in ("{text}", "{label}")]
    if counts != [1, 1] or template.index("{text}") > template.index("{label}"):
        raise ValueError(
            f"`template` must contain '{{text}}' once and, after it, '{{label}}' once. Received: template={template!r}"
        )
    before, rest = template.split("{text}")
    return before, *rest.split("{label}")


def _common(first, second):
    """Returns the number of ids with which two arrays both begin."""
    length = min(len(first), len(second))
    different = np.flatnonzero(first[:length] != second[:length])
    return int(different[0]) if len(different) else length


def _log_softmax(scores):
    scores = scores - scores.max(axis=1, keepdims=True)
    return scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
