"""Classification without training: a language model compares the likelihood of each label in a template."""

import re
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from keras_transfer.core.arrays import check_numbers
from keras_transfer.core.expect import expect
from keras_transfer.text import to_list

CONTENT_FREE = ("N/A", "[MASK]", "")  # The content-free inputs of Zhao et al. 2021.


_Task: Any = object  # To type checkers, the mixin has all attributes of the task that it is a part of.


class InContext(_Task):
    """A mixin for language models that chooses labels by likelihood, without training.

    A subclass implements `_score_labels(prompts, words, batch_size)`, which returns the log-likelihoods of words
    (strings) in prompts, an array `[prompts, words]`. A prompt is a tuple of the texts before and after the label.
    """

    reads_ahead = False  # Whether the model sees the text after the label.

    def classify(
        self,
        texts: Any,
        label_names: Sequence[str] | dict[Any, str],
        *,
        examples: Sequence[tuple[str, Any]] = (),
        template: str = "{text}\n{label}",
        separator: str = "\n\n",
        calibrate: bool = False,
        batch_size: int = 8,
    ) -> list[Any]:
        """Returns the most likely label of each text by zero-, one- or few-shot classification.

        The model receives the examples and then the text, each formatted with the template, and scores each label at
        `{label}`. A `CausalLM` sees only the text before the label (Brown et al. 2020). A `MaskedLM` has a mask token
        there and sees the text on both sides (PET, Schick & Schütze 2021). Each of its labels must be written as a
        single token.

        Args:
            texts: List of strings.
            label_names: List of strings that replace `{label}`, or a dict from labels to these strings (PET's
                verbalizer).
            examples: List of tuples `(text, label)`, which precede each text. Defaults to `()`, for none.
            template: String with one `{text}` and one `{label}`. For a `CausalLM`, `{label}` must be after `{text}`.
                Defaults to `"{text}\\n{label}"`.
            separator: String between examples. Defaults to `"\\n\\n"`, an empty line.
            calibrate: Boolean. Whether to divide the likelihoods by the likelihoods for content-free inputs ("N/A",
                "[MASK]" and ""), which corrects a bias toward certain labels (Zhao et al. 2021). Defaults to `False`.
            batch_size: Integer. Number of texts in a batch. For a `CausalLM`, each text counts once for each label.
                Defaults to `8`.

        Returns:
            List of labels, one for each text.

        Raises:
            ValueError: If the template lacks one of its fields, if an example has an unknown label, if a text is too
                long together with the examples, or, for a `MaskedLM`, if a label is not a single token or if a text
                contains the mask token.

        Example:
        ```python
        vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "film", "was", "good", "bad", ":", "it"]
        encoder = keras_transfer.encoders.TransformerEncoder(
            len(vocabulary), num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16, causal=True
        )
        model = keras_transfer.tasks.CausalLM(encoder, keras_transfer.text.BertPreprocessor(vocabulary))
        model.classify(["The film"], ["good", "bad"], examples=[("It", "bad")], template="{text} was {label}")
        ```

        Source: https://arxiv.org/abs/2005.14165, https://arxiv.org/abs/2001.07676, https://arxiv.org/abs/2102.09690
        """
        options: dict[str, Any] = {
            "examples": examples,
            "template": template,
            "separator": separator,
            "batch_size": batch_size,
        }
        scores = self.label_log_likelihoods(texts, label_names, **options)
        if calibrate:
            free = _log_softmax(self.label_log_likelihoods(self._texts_without_content(), label_names, **options))
            scores = _log_softmax(scores) - np.log(np.exp(free).mean(axis=0))
        names = list(label_names)
        check_numbers(scores)
        return [names[best] for best in scores.argmax(axis=1)]

    def label_log_likelihoods(
        self,
        texts: Any,
        label_names: Sequence[str] | dict[Any, str],
        *,
        examples: Sequence[tuple[str, Any]] = (),
        template: str = "{text}\n{label}",
        separator: str = "\n\n",
        batch_size: int = 8,
    ) -> np.ndarray:
        """Returns the log-likelihood of each label for each text.

        For a `CausalLM`, it is the sum over the tokens of the label. If a label changes how the end of the text before
        it is split into tokens, these tokens are included for all labels. For a `MaskedLM`, it is the log-likelihood of
        the label's token at the mask.

        Args:
            texts: List of strings.
            label_names: List of strings that replace `{label}`, or a dict from labels to these strings.
            examples: List of tuples `(text, label)`, which precede each text. Defaults to `()`, for none.
            template: String with one `{text}` and one `{label}`. Defaults to `"{text}\\n{label}"`.
            separator: String between examples. Defaults to `"\\n\\n"`, an empty line.
            batch_size: Integer. Number of texts in a batch. Defaults to `8`.

        Returns:
            Float64 array `[texts, labels]`.

        Raises:
            ValueError: If an argument is invalid, as for `classify`.
        """
        written = written_labels(label_names)
        parts = self._template_parts(template)
        unknown = [label for _, label in examples if label not in written]
        if unknown:
            raise ValueError(f"Labels of `examples` must be among {list(written)}. Received: {unknown[0]!r}")
        shots = "".join(f"{_fill(parts, text, written[label])}{separator}" for text, label in examples)
        at = parts.index("{label}")
        prompts = [(shots + _fill(parts[:at], text), _fill(parts[at + 1 :], text)) for text in to_list(texts)]
        return np.asarray(self._score_labels(prompts, list(written.values()), batch_size), "float64")

    def _template_parts(self, template):
        """Splits a template into a list of the two fields and the texts around them."""
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


def written_labels(label_names):
    """Returns a dict from labels, a list or such a dict, to the texts that represent them in prompts or targets."""
    rule = "`label_names` must contain at least two different strings."
    is_collection = isinstance(label_names, Collection) and not isinstance(label_names, str)
    expect(is_collection, rule, label_names=label_names)
    texts = list(label_names.values() if isinstance(label_names, dict) else label_names)
    are_texts = all(isinstance(text, str) and text for text in texts)
    expect(len(texts) > 1 and are_texts, rule, label_names=label_names)
    written = dict(label_names) if isinstance(label_names, dict) else dict(zip(texts, texts))
    expect(len(written) == len(label_names), rule, label_names=label_names)
    return written


def check_different(words, rows):
    """Raises a `ValueError` if two labels become the same tokens, so that their likelihoods are always equal."""
    known: dict[tuple, str] = {}
    for word, row in zip(words, rows):
        if (first := known.setdefault(tuple(np.asarray(row).tolist()), word)) is not word:
            raise ValueError(
                "Labels must become different tokens. Pass a dict from labels to other words, which the tokenizer "
                f"tells apart. Received: {first!r} and {word!r}, both with the ids {np.asarray(row).tolist()}"
            )


def _fill(parts, text, label=""):
    """Joins the parts of a template and replaces the fields with a text and a label."""
    return "".join({"{text}": text, "{label}": label}.get(part, part) for part in parts)


def _log_softmax(scores):
    scores = scores - scores.max(axis=1, keepdims=True)
    return scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
