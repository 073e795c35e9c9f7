"""Classification by a language model that is not trained for it: the label that is the most likely in its place."""

import re

import numpy as np

from keras_transfer.text.inputs import to_list

CONTENT_FREE = ("N/A", "[MASK]", "")  # As in Zhao et al. 2021.


class InContext:
    """A mixin for language models: labels by likelihood, without training.

    A subclass implements `_score_labels(prompts, words, batch_size)`, which returns the log-likelihoods of words
    (strings) in prompts, an array [prompts, words]. A prompt is a tuple of what is written before and after the label.
    """

    reads_ahead = False  # Whether the model reads what is after the label.

    def classify(
        self, texts, labels, examples=(), template="{text}\n{label}", separator="\n\n", calibrate=False, batch_size=8
    ):
        """Returns the label of each text that is the most likely in its place: zero-, one- or few-shot.

        The model reads the examples, and then the text, each written with the template, and scores each label in the
        place of `{label}`. A `CausalLM` knows only what is before it (Brown et al. 2020). A `MaskedLM` has a mask token
        there and knows both sides (PET, Schick & Schütze 2021). Each of its labels must be written as a single token.

        Args:
            texts: List of strings.
            labels: List of strings, the labels as they are written in the place of `{label}`, or a dict from a label to
                how it is written (PET's verbalizer).
            examples: List of tuples `(text, label)`, which the model reads before each text. Defaults to none.
            template: String with one `{text}` and one `{label}`. For a `CausalLM`, `{label}` must be after `{text}`.
                Defaults to `"{text}\\n{label}"`.
            separator: String between examples. Defaults to an empty line.
            calibrate: Boolean. Whether the likelihoods are divided by those for texts without content ("N/A", "[MASK]"
                and ""), which removes the preference for certain labels (Zhao et al. 2021). Defaults to `False`.
            batch_size: Integer. Number of texts in a batch; for a `CausalLM`, of texts with labels. Defaults to `8`.

        Returns:
            List of labels, one for each text.

        Raises:
            ValueError: If the template lacks one of its fields, if an example has an unknown label, if a text is too
                long together with the examples, or, for a `MaskedLM`, if a label is not a single token or if a text
                contains the mask token.

        Example:
        ```python
        vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "film", "was", "good", "bad", ":", "it"]
        encoder = keras_transfer.encoders.TransformerEncoder(len(vocabulary), 1, 2, 8, 16, causal=True)
        model = keras_transfer.tasks.CausalLM(encoder, keras_transfer.text.BertPreprocessor(vocabulary))
        model.classify(["The film"], ["good", "bad"], examples=[("It", "bad")], template="{text} was {label}")
        ```

        Source: https://arxiv.org/abs/2005.14165, https://arxiv.org/abs/2001.07676, https://arxiv.org/abs/2102.09690
        """
        options = (labels, examples, template, separator, batch_size)
        scores = self.label_log_likelihoods(texts, *options)
        if calibrate:
            free = _log_softmax(self.label_log_likelihoods(self._texts_without_content(), *options))
            scores = _log_softmax(scores) - np.log(np.exp(free).mean(axis=0))
        names = list(labels)
        return [names[best] for best in scores.argmax(axis=1)]

    def label_log_likelihoods(
        self, texts, labels, examples=(), template="{text}\n{label}", separator="\n\n", batch_size=8
    ):
        """Returns the log-likelihood of each label for each text, a float64 array [texts, labels].

        For a `CausalLM`, it is the sum over the tokens of the label. If the label changes how the end of what is before
        it is split into tokens, those tokens count too, for all labels. For a `MaskedLM`, it is that of the label's
        token in the place of the mask.

        Args:
            texts, labels, examples, template, separator, batch_size: As for `classify`.

        Raises:
            ValueError: As for `classify`.
        """
        written = dict(labels) if isinstance(labels, dict) else {label: label for label in labels}
        if len(written) < 2 or not all(isinstance(text, str) and text for text in written.values()):
            raise ValueError(f"`labels` must be at least two different strings. Received: labels={labels!r}")
        parts = self._template_parts(template)
        unknown = [label for _, label in examples if label not in written]
        if unknown:
            raise ValueError(f"Labels of `examples` must be among {list(written)}. Received: {unknown[0]!r}")
        shots = "".join(f"{_fill(parts, text, written[label])}{separator}" for text, label in examples)
        at = parts.index("{label}")
        prompts = [(shots + _fill(parts[:at], text), _fill(parts[at + 1 :], text)) for text in to_list(texts)]
        return np.asarray(self._score_labels(prompts, list(written.values()), batch_size), "float64")

    def _template_parts(self, template):
        """Returns a template as a list of the two fields and what is around them."""
        parts = re.split(r"({text}|{label})", template)
        fields = parts[1::2]
        if fields != ["{text}", "{label}"] and not (self.reads_ahead and fields == ["{label}", "{text}"]):
            order = "" if self.reads_ahead else ", after it,"
            raise ValueError(
                f"`template` must contain '{{text}}' once and{order} '{{label}}' once. Received: template={template!r}"
            )
        return parts

    def _texts_without_content(self):
        return list(CONTENT_FREE)


def _fill(parts, text, label=""):
    """Returns a part of a template as it is written for a text and a label."""
    return "".join({"{text}": text, "{label}": label}.get(part, part) for part in parts)


def _log_softmax(scores):
    scores = scores - scores.max(axis=1, keepdims=True)
    return scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
