"""Changes of texts that a reader would hardly notice or not fall for, and how much worse a model answers after them."""

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_transfer.analysis.behavior.checklist import answers_of, check_labels, count_of, fill_templates
from keras_transfer.analysis.behavior.rates import Rates
from keras_transfer.core.expect import FRACTION, expect, expects, integer, list_of, one_of
from keras_transfer.core.plots import STYLES, new_axes
from keras_transfer.metrics import squad_scores

_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_NEXT = {key: row[max(at - 1, 0) : at] + row[at + 1 : at + 2] for row in _ROWS for at, key in enumerate(row)}


def _swap(word, random):
    places = [at for at in range(1, len(word) - 2) if word[at] != word[at + 1]]
    at = random.choice(places) if places else 0
    return word[:at] + word[at + 1] + word[at] + word[at + 2 :] if places else word


def _keyboard(word, random):
    places = [at for at in range(1, len(word) - 1) if word[at].lower() in _NEXT]
    at = random.choice(places) if places else 0
    key = random.choice(list(_NEXT[word[at].lower()])) if places else word[0]
    return word[:at] + (key.upper() if word[at].isupper() else key) + word[at + 1 :]


def _drop(word, random):
    at = random.integers(1, len(word) - 1)
    return word[:at] + word[at + 1 :]


def _middle(word, random):
    return word[0] + "".join(random.permutation(list(word[1:-1]))) + word[-1]


_TYPOS = {"swap": _swap, "keyboard": _keyboard, "drop": _drop, "middle": _middle}


@expects(rate=FRACTION, kind=one_of(*_TYPOS), seed=integer(0))
def typos(x: Any, rate: float = 0.1, *, kind: str = "swap", seed: int = 0) -> Any:
    """Returns texts in which some words have a typing error.

    Only words of at least four letters are changed, and their first and last letters stay, so texts remain readable.

    Args:
        x: A string, or a list or tuple of strings, also nested: lists of words, or a tuple of two columns for pairs.
        rate: Float between 0 and 1. Fraction of these words that have an error, on average. Defaults to `0.1`.
        kind: String. `"swap"` exchanges two neighboring letters, `"keyboard"` replaces a letter with one beside it on
            the QWERTY keyboard, `"drop"` leaves one out, and `"middle"` shuffles all inner letters. Defaults to
            `"swap"`.
        seed: Integer. Seed of what is drawn. Defaults to `0`.

    Returns:
        What `x` is, changed.

    Example:
    ```python
    keras_transfer.analysis.typos("What is the capital of France?", rate=1.0, kind="middle")
    ```

    Source: https://arxiv.org/abs/1711.02173
    """
    random = np.random.default_rng(seed)

    def changed(value):
        if isinstance(value, str):
            return re.sub(r"[^\W\d_]{4,}", lambda found: word_of(found.group()), value)
        return type(value)(map(changed, value)) if isinstance(value, tuple) else [changed(each) for each in value]

    def word_of(word):
        return _TYPOS[kind](word, random) if random.random() < rate else word

    return changed(x)


class Distracted(NamedTuple):
    """Questions whose contexts end in a sentence that looks like an answer.

    Attributes:
        questions, answers: Lists of those that were passed.
        contexts: List of strings. The contexts with one more sentence each. The places of answers are as before.
        rows: List of integers, the positions of the questions. The others have nothing to change.
    """

    questions: list
    contexts: list
    answers: list
    rows: list


_NAMES = ("Tarvik", "Melodore", "Quillan Bay", "Hadley Fenn", "Brackwater", "Ilsa Morrow", "Vandermeer")
_FAKES = {
    "who": ("Dean Marlow", "Clara Osgood", "Martin Ekwueme"),
    "when": ("in 1743", "in March 1868", "on a Tuesday in 1991"),
    "where": ("in Chicago", "near Lake Baikal", "in Trondheim"),
    "how many": ("17", "4,200", "83"),
    "how much": ("17 percent", "4,200 dollars", "83 tons"),
    "": ("the Kestrel project", "a copper harp", "the northern assembly"),
}
_QUESTION = re.compile(r"\b(how many|how much|who|whom|when|where|what|which|why|how)\b", re.IGNORECASE)


@expects(seed=integer(0))
def add_distractors(
    questions: Sequence[str], contexts: Sequence[str], answers: Sequence[Any], *, seed: int = 0
) -> Distracted:
    """Adds to each context a sentence that answers another, similar question.

    As in AddSent, the numbers and names of the question are replaced, so that the sentence contradicts no answer, and a
    made-up answer takes the place of the question word. Here, no parser and no person mends the grammar, so it is a
    rougher test than AddSent's.

    Args:
        questions: List of strings, in English.
        contexts: List of strings.
        answers: List of lists of right answers, strings or objects with a string `text`, such as from
            `datasets.load_squad`. No sentence contains one of them.
        seed: Integer. Seed of what is drawn. Defaults to `0`.

    Returns:
        `Distracted`. Questions without a question word, number or name, in which nothing can be changed, are left out.

    Raises:
        ValueError: If the columns differ in length.

    Example:
    ```python
    found = keras_transfer.analysis.add_distractors(
        ["Where did Ann Lee live in 1920?"], ["Ann Lee lived in Rome."], [["Rome"]]
    )
    found.contexts[0]  # "Ann Lee lived in Rome. In Chicago did Melodore live in 1937." or similar
    ```

    Source: https://arxiv.org/abs/1707.07328
    """
    sizes = {"questions": len(questions), "contexts": len(contexts), "answers": len(answers)}
    expect(len({*sizes.values()}) == 1, "There must be one context and one list of answers for each question.", **sizes)
    random, rows, changed = np.random.default_rng(seed), [], []
    for row, question in enumerate(questions):
        right = [getattr(each, "text", each).lower() for each in answers[row]]
        drawn = (_statement(question, random) for _ in range(5))  # Another draw may avoid the answers.
        fitting = (each for each in drawn if each and not any(part in each.lower() for part in right if part))
        if (statement := next(fitting, None)) is not None:
            rows.append(row)
            changed.append(f"{contexts[row]} {statement}")
    return Distracted([questions[row] for row in rows], changed, [answers[row] for row in rows], rows)


def _statement(question, random):
    """Returns a question about other things as a statement, or `None` if it has nothing to replace."""
    word = _QUESTION.search(question)
    if word is None:
        return None
    before, after = question[: word.start()], question[word.end() :].rstrip(" ?")
    kinds = _FAKES.get(word.group().lower(), _FAKES["who" if word.group().lower() == "whom" else ""])
    parts = [re.sub(r"\d+", lambda found: _other_number(found.group(), random), part) for part in (before, after)]
    named = re.sub(r"(?<=\s)[A-Z][\w'-]*(?:\s+[A-Z][\w'-]*)*", lambda _: str(random.choice(_NAMES)), parts[1])
    if [before, after] == [parts[0], named]:
        return None
    found = f"{parts[0]}{random.choice(kinds)}{named}."
    return found[0].upper() + found[1:]


def _other_number(digits, random):
    """Returns another number with as many digits, of which only the last two change."""
    head, tail = digits[:-2], digits[-2:]
    first, end = 0 if head or len(tail) == 1 else 10, 10 ** len(tail)
    other = first + (int(tail) - first + random.integers(1, end - first)) % (end - first)
    return head + str(other).zfill(len(tail))


class OverlapPairs(NamedTuple):
    """Premises and hypotheses whose words overlap completely.

    Attributes:
        premises, hypotheses: Lists of strings.
        labels: List of strings, `"entailment"` or `"non-entailment"`.
        heuristics: List of strings: `"lexical overlap"`, `"subsequence"` or `"constituent"`.
    """

    premises: list
    hypotheses: list
    labels: list
    heuristics: list


_TEMPLATES = (
    ("lexical overlap", True, "The {n1} was {v} by the {n2}.", "The {n2} {v} the {n1}."),
    ("lexical overlap", True, "The {n1} who the {n2} {v1} {v2} the {n3}.", "The {n2} {v1} the {n1}."),
    ("lexical overlap", False, "The {n1} {v} the {n2}.", "The {n2} {v} the {n1}."),
    ("lexical overlap", False, "The {n1} was {v} by the {n2}.", "The {n1} {v} the {n2}."),
    ("subsequence", True, "The {n1} and the {n2} {v} the {n3}.", "The {n2} {v} the {n3}."),
    ("subsequence", True, "The {a} {n} {i} near the {place}.", "The {a} {n} {i}."),
    ("subsequence", False, "The {n1} near the {n2} {i}.", "The {n2} {i}."),
    ("subsequence", False, "The {n1} heard the {n2} {i}.", "The {n1} heard the {n2}."),
    ("constituent", True, "The {n1} knew that the {n2} {i}.", "The {n2} {i}."),
    ("constituent", True, "Because the {n1} {i1}, the {n2} {i2}.", "The {n1} {i1}."),
    ("constituent", False, "The {n1} claimed that the {n2} {i}.", "The {n2} {i}."),
    ("constituent", False, "If the {n1} {i1}, the {n2} {i2}.", "The {n1} {i1}."),
)
_WORDS = {
    "n": "judge doctor lawyer student actor author banker senator manager tourist artist professor",
    "v": "stopped helped admired called avoided thanked recommended supported",
    "i": "slept danced arrived waited laughed shouted",
    "a": "tall happy famous quiet young angry",
    "place": "door river bank station tower window",
}


@expects(count=integer(len(_TEMPLATES), 4800), seed=integer(0))
def overlap_pairs(count: int = 600, *, seed: int = 0) -> OverlapPairs:
    """Returns premises and hypotheses for a test of shortcuts in natural language inference, as in HANS.

    Every word of a hypothesis is in its premise. A model that judges by their overlap answers `"entailment"` always,
    which is right in half of the pairs. Labels follow from the twelve templates, which are written after HANS.

    Args:
        count: Integer from 12 to 4,800. Number of pairs. Defaults to `600`.
        seed: Integer. Seed of the words. Defaults to `0`.

    Returns:
        `OverlapPairs`.

    Example:
    ```python
    pairs = keras_transfer.analysis.overlap_pairs(12)
    pairs.premises[0], pairs.hypotheses[0], pairs.labels[0], pairs.heuristics[0]
    ```

    Source: https://arxiv.org/abs/1902.01007
    """
    found = OverlapPairs([], [], [], [])
    for place, (heuristic, is_entailed, *texts) in enumerate(_TEMPLATES):
        samples = (count + len(_TEMPLATES) - 1 - place) // len(_TEMPLATES)
        used = {name: words.split() for name, words in _WORDS.items() if re.search(rf"{{{name}\d?}}", texts[0])}
        premises, hypotheses = fill_templates(tuple(texts), samples=samples, seed=seed + place, **used)
        found.premises.extend(premises)
        found.hypotheses.extend(hypotheses)
        found.labels.extend(["entailment" if is_entailed else "non-entailment"] * samples)
        found.heuristics.extend([heuristic] * samples)
    return found


@expects(rates=list_of(FRACTION, 1), seed=integer(0))
def perturbation_curve(
    model: Any,
    x: Any,
    y: Any,
    *,
    kinds: Sequence[str] | Mapping[str, Callable] = ("swap", "keyboard", "drop", "middle"),
    rates: Sequence[float] = (0.1, 0.3, 0.5),
    against: Any = None,
    seed: int = 0,
) -> "PerturbationCurve":
    """Returns the accuracy of a model on texts with more and more changes.

    The words of a tagger count one by one. Answers to questions count by SQuAD's exact match, and only the questions
    have typing errors.

    Args:
        model: `TextClassifier`, `TokenClassifier` or `SpanExtractor`, or a function from `x` to a list of answers.
        x: Texts, lists of words, or a tuple of two columns.
        y: The right answers: labels, their positions, lists of labels, or for questions lists of right answers.
        kinds: List of kinds of `typos`, or a dict of functions `(x, rate, seed)` that return changed data. Defaults to
            all kinds.
        rates: List of floats between 0 and 1. Defaults to `(0.1, 0.3, 0.5)`. The accuracy without changes is added.
        against: Another model, for the accuracy before. Defaults to `None`.
        seed: Integer. Seed of the changes. Defaults to `0`.

    Returns:
        `PerturbationCurve`.

    Raises:
        ValueError: If `x` and `y` differ in length, if the model lacks a label, or if a kind is unknown.

    Example:
    ```python
    model = lambda texts: ["what" in text for text in texts]
    print(keras_transfer.analysis.perturbation_curve(model, ["what is it", "it is what"], [True, True]))
    ```

    Source: https://arxiv.org/abs/1711.02173
    """
    if not isinstance(kinds, Mapping):
        for kind in kinds:
            one_of(*_TYPOS).check("kinds", kind)
        kinds = {kind: functools.partial(_with_typos, model, kind) for kind in kinds}
    expect(len(y) == count_of(x), "There must be one right answer for each row.", rows=count_of(x), answers=len(y))
    models = [model] if against is None else [model, against]
    rights = [_named(each, y) for each in models]
    changed = [("none", 0.0, x)]
    changed += [(name, rate, change(x, rate, seed)) for name, change in kinds.items() for rate in rates]
    found = [(*row, [_correct(*both, row[-1]) for both in zip(models, rights)]) for row in changed]
    return PerturbationCurve([(kind, rate, *values) for kind, rate, _, values in found])


def _with_typos(model, kind, x, rate, seed):
    """Returns data with typing errors, which are only in the questions if a model finds answers in contexts."""
    questions, *contexts = x if hasattr(model, "answer") else (x,)
    changed = typos(questions, rate, kind=kind, seed=seed)
    return (changed, *contexts) if contexts else changed


def _named(model, y):
    """Returns the right answers of a model with names of labels, in which positions are replaced with names."""
    names = getattr(model, "label_names", None) or []
    if getattr(model, "multi_label", False):
        return [[names[place] for place in np.flatnonzero(row)] for row in model.labels.encode(y)]

    def named(label):
        if isinstance(label, (list, tuple)):
            return [named(each) for each in label]
        return names[label] if isinstance(label, (int, np.integer)) and 0 <= label < len(names) else label

    y = [named(label) for label in y]
    check_labels(model, y)
    return y


def _correct(model, y, x):
    """Returns which answers of a model are right, a boolean array `[rows]`, or `[words]` of a tagger."""
    answers = answers_of(model, x)
    if hasattr(model, "answer"):
        return np.array([squad_scores([right], [answer])["exact_match"] > 0 for right, answer in zip(y, answers)])
    if hasattr(model, "predict_words"):
        return np.array([each == label for right, answer in zip(y, answers) for each, label in zip(answer, right)])
    return np.array([answer == right for answer, right in zip(answers, y)], bool)


class PerturbationCurve(Rates):
    """The accuracy of a model on texts with more and more changes, which `perturbation_curve` returns.

    Args:
        found: List of tuples: a kind of change, its rate, which answers are right (a boolean array), and maybe those
            of another model.

    Attributes:
        rows: List of dicts with the `change`, its `rate`, the number of `cases`, and `accuracy` with its 95% interval
            `low` and `high`. With another model, `before` is its accuracy, and `difference` has the interval
            `difference_low` and `difference_high`. The first row is without changes.

    Example:
    ```python
    model = lambda texts: [len(text) for text in texts]
    curve = keras_transfer.analysis.perturbation_curve(model, ["what"], [4], kinds=["drop"], rates=[1.0])
    curve.rows[1]["accuracy"]  # 0.0
    ```
    """

    title = "Accuracy after changes"
    index, names = ("change", "rate"), ("change", "rate", "cases")

    def __init__(self, found: Sequence[tuple]) -> None:
        self.rows = [
            {"change": kind, "rate": rate, "cases": len(values), **self._rate(values, *before)}
            for kind, rate, values, *before in found
        ]

    def plot(self) -> Any:
        """Plots the accuracy by the rate of each change, with its interval, and that of the other model dashed.

        Returns:
            A `matplotlib.figure.Figure`.

        Raises:
            ImportError: If matplotlib is not installed.
        """
        axes, (start, *others) = new_axes(), self.rows
        for kind, style in zip(dict.fromkeys(row["change"] for row in others), STYLES * len(others)):
            rows = [start, *(row for row in others if row["change"] == kind)]
            rates = [row["rate"] for row in rows]
            axes.plot(rates, [row["accuracy"] for row in rows], **style, label=kind)
            axes.fill_between(
                rates, *([row[end] for row in rows] for end in ("low", "high")), alpha=0.12, color=style["color"]
            )
            if "before" in start:
                axes.plot(rates, [row["before"] for row in rows], color=style["color"], linestyle=":", alpha=0.6)
        axes.set(xlabel="fraction of words that are changed", ylabel="accuracy")
        axes.legend(frameon=False)
        return axes.figure
