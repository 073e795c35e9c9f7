"""Labels of words from other forms: other schemes of entity labels, and spans of characters."""

import logging
import numbers
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from keras_transfer.core.expect import expect
from keras_transfer.core.lines import shorten
from keras_transfer.datasets.conllu import TaggedSentences
from keras_transfer.metrics import entities
from keras_transfer.text import WordPreprocessor, character_offsets

log = logging.getLogger("keras_transfer")

PREFIXES = {"L": "E", "U": "S", "W": "S", "M": "I"}  # Of BILOU, BMEWO and BMES, as BIOES has them.
LABELS = ("label", "labels", "type", "tag", "entity", "entity_group")  # Names of the label of a span in common files.


def to_bio(labels: Sequence, label_names: Sequence[str] | None = None) -> list:
    """Returns entity labels of any common scheme as BIO labels, with `B-` at each beginning and `I-` after it.

    It reads IOB1 (`B-` only between adjacent entities), IOE, IO, BIOES, BILOU, BMES and BMEWO.

    Args:
        labels: List of sentences, each a list of labels: `O`, or a prefix, a dash and a type, such as `L-PER`; or
            integers, positions in `label_names`.
        label_names: List of strings. The names of labels that are integers. Defaults to `None`, for labels that are
            names.

    Returns:
        List of lists of strings, of the same lengths.

    Raises:
        ValueError: If a label has an invalid form, or if it is not a position in `label_names`.

    Example:
    ```python
    keras_transfer.datasets.to_bio([["I-PER", "I-PER", "O", "U-LOC"]])  # [["B-PER", "I-PER", "O", "B-LOC"]]
    ```

    Source: https://aclanthology.org/W09-1119
    """
    found = []
    for number, row in enumerate(labels):
        names = [_name(label, label_names, number) for label in row]
        bio = ["O"] * len(names)
        for kind, start, end in entities([_with_known_prefix(name) for name in names]):
            dash = "" if kind == "_" else f"-{kind}"
            bio[start:end] = [f"B{dash}", *[f"I{dash}"] * (end - start - 1)]
        found.append(bio)
    return found


def _name(label, label_names, number):
    if isinstance(label, numbers.Integral):
        if label_names is None or not 0 <= label < len(label_names):
            expected = "`label_names`, their names in order" if label_names is None else f"positions in {label_names}"
            raise ValueError(f"Labels that are numbers require {expected}. Received: {label!r} in sentence {number}")
        return label_names[label]
    expect(isinstance(label, str) and label, "Labels must be names or integers.", label=label, number=number)
    return label


def _with_known_prefix(name):
    return PREFIXES.get(name[0], name[0]) + name[1:] if name[1:2] in ("", "-") else name


def label_spans(texts: Sequence[str], spans: Sequence, *, split: str = "punctuation") -> TaggedSentences:
    """Returns words and BIO labels for texts with labeled spans of characters, as annotation tools write them.

    Texts are split into words as `TokenClassifier` splits them in prediction, so that training and prediction see the
    same words. A span that begins or ends inside a word gets the whole word, and a warning counts these.

    Args:
        texts: List of strings.
        spans: List of lists, the spans of each text: `(start, end, label)`, where `end` is exclusive, or dicts with
            `start`, `end` and `label`.
        split: String. How texts are split into words, the `split` of the tagger's preprocessor. Defaults to
            `"punctuation"`.

    Returns:
        `TaggedSentences`.

    Raises:
        ValueError: If there is not one list of spans for each text, if a span has another form or is not in its text,
            or if two spans contain the same word.

    Example:
    ```python
    texts, spans = ["Ada moved to New York."], [[(0, 3, "PER"), {"start": 13, "end": 21, "label": "LOC"}]]
    words, labels = keras_transfer.datasets.label_spans(texts, spans)
    labels  # [["B-PER", "O", "O", "B-LOC", "I-LOC", "O"]]
    ```
    """
    expect(len(texts) == len(spans), "`spans` must have one list for each text.", spans=len(spans), texts=len(texts))
    result, widened = TaggedSentences(WordPreprocessor(split=split).words(texts), []), []
    for number, (text, words, found) in enumerate(zip(texts, result.words, spans)):
        offsets, labels = character_offsets(text, words), ["O"] * len(words)
        for span in found:
            where = f"text {number}, span {shorten(span)}"
            start, end, label = _span(span, text, where)
            covered = [place for place, (first, last) in enumerate(offsets) if first < end and start < last]
            if not covered or any(labels[place] != "O" for place in covered):
                problem = "words of its own, since each word has one label" if covered else "at least one word"
                raise ValueError(f"A span must contain {problem}. Received: {where} of {shorten(text)}")
            whole = text[offsets[covered[0]][0] : offsets[covered[-1]][1]]
            if whole != text[start:end].strip():
                widened.append((text[start:end], whole, number))
            labels[covered[0] : covered[-1] + 1] = [f"B-{label}", *[f"I-{label}"] * (len(covered) - 1)]
        result.labels.append(labels)
    if widened:
        log.warning(
            "Spans that begin or end inside a word get the whole word: %d. The first is %r in %r of text %d.",
            len(widened),
            *widened[0],
        )
    return result


def _span(span, text, where):
    """Returns the start, the end and the label of a span."""
    if isinstance(span, Mapping):
        label = next((span[name] for name in LABELS if name in span), None)
        label = label[0] if isinstance(label, list) and len(label) == 1 else label
        span = (span.get("start"), span.get("end"), label)
    if not (
        isinstance(span, Sequence)
        and len(span) == 3
        and all(isinstance(place, numbers.Integral) for place in span[:2])
        and isinstance(span[2], str)
        and 0 <= span[0] < span[1] <= len(text)
    ):
        raise ValueError(
            f"A span must be (start, end, label), or a dict of these, with 0 <= start < end <= {len(text)}, the length "
            f"of its text. Received: {where}"
        )
    return span


def warn_of_other_schemes(labels: Sequence, path: Any) -> None:
    """Logs a warning if entity labels have the prefixes of BILOU or BMES, or if entities begin with `I-`."""
    for row in labels:
        for before, label in pairwise(["O", *row]):
            begins = label[0] == "I" and before[2:] != label[2:]
            if label[1:2] == "-" and (begins or label[0] in PREFIXES):
                log.warning(
                    "%s: Labels are not changed. Some, such as %r after %r, are not BIO labels. Convert them with "
                    "`datasets.to_bio(labels)`.",
                    path,
                    label,
                    before,
                )
                return
