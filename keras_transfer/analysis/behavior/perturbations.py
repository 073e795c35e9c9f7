"""Changes of texts that a reader would hardly notice or not fall for, and how much worse a model answers after them."""

import functools
import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_transfer.analysis.behavior import checklist
from keras_transfer.analysis.result import PlottedResult, Result
from keras_transfer.analysis.scores import rate_columns, rate_of
from keras_transfer.core.expect import FRACTION, expect, expects, instance_of, integer, list_of, one_of
from keras_transfer.core.plots import STYLES

_KINDS = ("swap", "middle", "random", "keyboard")
_KEYBOARD = zip(("qwertyuiop", "asdfghjkl", "zxcvbnm"), (0.0, 0.25, 0.75))  # How far right each row begins.
_PLACES = {key: (y, x + at) for y, (row, at) in enumerate(_KEYBOARD) for x, key in enumerate(row)}
_NEXT = {a: [b for b in _PLACES if 0 < math.dist(_PLACES[a], _PLACES[b]) < 1.3] for a in _PLACES}


@expects(rate=FRACTION, kind=one_of(*_KINDS), seed=integer(0))
def typos(x: Any, rate: float = 0.1, *, kind: str = "swap", seed: int = 0) -> Any:
    """Returns texts in which some words have an error, one of the four kinds of Belinkov and Bisk (2018).

    Args:
        x: A string, or a list or tuple of strings, also nested: lists of words, or a tuple of two columns for pairs.
        rate: Float between 0 and 1. Fraction of the words that have an error, on average. Defaults to `0.1`.
        kind: String. `"swap"` exchanges two neighboring letters, and `"middle"` shuffles letters, but not the first and
            the last. `"random"` shuffles all letters of a word, and `"keyboard"` replaces one with a neighbor on the
            QWERTY keyboard. Defaults to `"swap"`.
        seed: Integer. Seed of what is drawn. Defaults to `0`.

    Returns:
        What `x` is, changed. Other columns than tuples become lists.

    Example:
    ```python
    keras_transfer.analysis.typos("What is the capital of France?", rate=1.0, kind="middle")
    ```

    Source: https://arxiv.org/abs/1711.02173
    """
    random = np.random.default_rng(seed)
    words = re.compile(r"[^\W\d_]{4,}" if kind in ("swap", "middle") else r"[^\W\d_]+")

    def changed(value):
        if isinstance(value, str):
            return words.sub(lambda found: _typo(found[0], kind, random) if random.random() < rate else found[0], value)
        return (tuple if isinstance(value, tuple) else list)(map(changed, value))

    return changed(x)


def _typo(word, kind, random):
    """Returns a word with an error, or as it is if none of its letters can be changed."""
    if kind in ("middle", "random"):
        first, last = (1, len(word) - 1) if kind == "middle" else (0, len(word))
        return word[:first] + "".join(random.permutation(list(word[first:last]))) + word[last:]
    if kind == "swap":
        places = [at for at in range(1, len(word) - 2) if word[at] != word[at + 1]]
    else:
        places = [at for at, letter in enumerate(word) if letter.lower() in _NEXT]
    if not places:
        return word
    at = random.choice(places)
    if kind == "swap":
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    key = random.choice(_NEXT[word[at].lower()])
    return word[:at] + (key.upper() if word[at].isupper() else key) + word[at + 1 :]


_NAMES = ("Tarvik", "Melodore", "Quillan Bay", "Hadley Fenn", "Brackwater", "Ilsa Morrow", "Vandermeer")
_FAKES = {
    "who": ("Dean Marlow", "Clara Osgood", "Martin Ekwueme"),
    "when": ("in 1743", "in March 1868", "on a Tuesday in 1991"),
    "where": ("in Chicago", "near Lake Baikal", "in Trondheim"),
    "how many": ("17", "4,200", "83"),
    "how much": ("17 percent", "4,200 dollars", "83 tons"),
    "": ("the Kestrel project", "a copper harp", "the northern assembly"),
}
_QUESTION = re.compile(r"\b(how many|how much|whom?|when|where|what|which|why|how)\b", re.IGNORECASE)


@expects(seed=integer(0))
def add_distractors(
    questions: Sequence[str], contexts: Sequence[str], answers: Sequence[Any], *, seed: int = 0
) -> list[str]:
    """Returns contexts with a sentence at their ends that answers another, similar question.

    As in AddSent, the numbers and names of the question are replaced, and a made-up answer takes the place of the
    question word. Nobody mends its grammar, so it is a rougher test than AddSent's.

    Args:
        questions: List of strings, in English.
        contexts: List of strings.
        answers: List of lists of right answers, strings or objects with a string `text`. No new sentence has one.
        seed: Integer. Seed of what is drawn. Defaults to `0`.

    Returns:
        List of strings. The context of a question without a question word, a number or a name remains as it is.

    Raises:
        ValueError: If the columns differ in length.

    Example:
    ```python
    keras_transfer.analysis.add_distractors(["Where did Ann Lee live?"], ["Ann Lee lived in Rome."], [["Rome"]])
    # ["Ann Lee lived in Rome. In Chicago did Melodore live."] or similar
    ```

    Source: https://arxiv.org/abs/1707.07328
    """
    random, found = np.random.default_rng(seed), []
    for question, context, right in checklist.rows_of((questions, contexts, answers)):
        parts = [getattr(each, "text", each).lower() for each in right]
        drawn = filter(None, (_statement(question, random) for _ in range(5)))  # Another draw may avoid the answers.
        fitting = (f"{context} {each}" for each in drawn if not any(part in each.lower() for part in parts if part))
        found.append(next(fitting, context))
    return found


def _statement(question, random):
    """Returns a question about other things as a statement, or `None` if it has nothing to replace."""
    word = _QUESTION.search(question)
    if word is None:
        return None
    both = question[: word.start()], question[word.end() :].rstrip(" ?")
    # Another last digit, and another name for each group of capitalized words after the question word.
    before, after = (
        re.sub(r"\d(?!\d)", lambda at: str((int(at[0]) + random.integers(1, 10)) % 10), part) for part in both
    )
    after = re.sub(r"(?<=\s)[A-Z][\w'-]*(?:\s+[A-Z][\w'-]*)*", lambda _: str(random.choice(_NAMES)), after)
    if both == (before, after):
        return None
    statement = f"{before}{random.choice(_FAKES.get(word[0].lower().removesuffix('m'), _FAKES['']))}{after}."
    return statement[0].upper() + statement[1:]


_TEMPLATES = (
    ("lexical overlap", "entailment", "The {n1} was {v} by the {n2}.", "The {n2} {v} the {n1}."),
    ("lexical overlap", "entailment", "The {n1} who the {n2} {v1} {v2} the {n3}.", "The {n2} {v1} the {n1}."),
    ("lexical overlap", "non-entailment", "The {n1} {v} the {n2}.", "The {n2} {v} the {n1}."),
    ("lexical overlap", "non-entailment", "The {n1} was {v} by the {n2}.", "The {n1} {v} the {n2}."),
    ("subsequence", "entailment", "The {n1} and the {n2} {v} the {n3}.", "The {n2} {v} the {n3}."),
    ("subsequence", "entailment", "The {a} {n} {i} near the {place}.", "The {a} {n} {i}."),
    ("subsequence", "non-entailment", "The {n1} near the {n2} {i}.", "The {n2} {i}."),
    ("subsequence", "non-entailment", "The {n1} heard the {n2} {i}.", "The {n1} heard the {n2}."),
    ("constituent", "entailment", "The {n1} knew that the {n2} {i}.", "The {n2} {i}."),
    ("constituent", "entailment", "Because the {n1} {i1}, the {n2} {i2}.", "The {n1} {i1}."),
    ("constituent", "non-entailment", "The {n1} claimed that the {n2} {i}.", "The {n2} {i}."),
    ("constituent", "non-entailment", "If the {n1} {i1}, the {n2} {i2}.", "The {n1} {i1}."),
)
_WORDS = {
    "n": "judge doctor lawyer student actor author banker senator manager tourist artist professor",
    "v": "stopped helped admired called avoided thanked recommended supported",
    "i": "slept danced arrived waited laughed shouted",
    "a": "tall happy famous quiet young angry",
    "place": "door river bank station tower window",
}


@expects(samples=integer(1, 400), seed=integer(0))
def overlap_tests(samples: int = 50, *, seed: int = 0) -> list[checklist.MinimumFunctionality]:
    """Returns tests of shortcuts in natural language inference, as in HANS: pairs whose words overlap completely.

    Every word of a hypothesis is in its premise. A model that judges by their overlap answers `"entailment"` always.

    Args:
        samples: Integer from 1 to 400. Number of pairs of each template. Defaults to `50`.
        seed: Integer. Seed of the words. Defaults to `0`.

    Returns:
        List of six `MinimumFunctionality` tests with two templates each, such as `"subsequence, entailment"`. Half of
        the right answers are `"entailment"`, the others `"non-entailment"`.

    Example:
    ```python
    test = keras_transfer.analysis.overlap_tests(10)[1]
    test.name  # "lexical overlap, non-entailment"
    premises, hypotheses = test.x
    ```

    Source: https://arxiv.org/abs/1902.01007
    """
    found: dict[tuple, Any] = {}
    for place, (heuristic, label, *texts) in enumerate(_TEMPLATES):
        words = {name: words.split() for name, words in _WORDS.items() if re.search(rf"{{{name}\d?}}", texts[0])}
        pairs = checklist.fill_templates(tuple(texts), samples=samples, seed=seed + place, **words)
        for column, texts in zip(found.setdefault((heuristic, label), ([], [])), pairs):
            column.extend(texts)
    return [checklist.MinimumFunctionality(", ".join(kind), x, kind[1]) for kind, x in found.items()]


@expects(
    kinds=instance_of((list, tuple, Mapping), "a list of kinds, or a dict of functions"),
    rates=list_of(FRACTION, 1),
    seed=integer(0),
)
def perturbation_curve(
    model: Any,
    x: Any,
    y: Any,
    *,
    kinds: Sequence[str] | Mapping[str, Callable] = _KINDS,
    rates: Sequence[float] = (0.1, 0.3, 0.5),
    against: Any = None,
    seed: int = 0,
    verbose: str | int = "auto",
) -> Result:
    """Returns the accuracy of a model on texts with more and more changes.

    The words of a tagger count one by one. Answers to questions count by SQuAD's exact match, and only the questions
    have typing errors.

    Args:
        model: `TextClassifier`, `TokenClassifier` or `SpanExtractor`, or a function from `x` to a list of answers.
        x: Texts, lists of words, or a tuple of two columns.
        y: The right answers: labels, their positions, lists of labels, or for questions lists of right answers.
        kinds: List of kinds of `typos`, by default all, or a dict of functions `(x, rate, seed)` to changed data.
        rates: List of floats between 0 and 1. Defaults to `(0.1, 0.3, 0.5)`.
        against: Another model, for the accuracy before. Defaults to `None`.
        seed: Integer. Seed of the changes. Defaults to `0`.
        verbose: `"auto"`, `0` (silent), `1` (progress bar) or `2` (one line). Defaults to `"auto"`.

    Returns:
        A `Result` with a row for the data as it is, and one for each `change` and `rate`: the number of `cases`, and
        `accuracy` with its 95% interval `low` to `high` (Wilson). With another model, `before` is its accuracy, and
        `difference` has the interval `difference_low` to `difference_high` (Newcombe). `plot()` draws it.

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
        kinds = {kind: functools.partial(_with_typos, model, kind) for kind in kinds}
    count = len(checklist.rows_of(x))
    expect(len(y) == count, "There must be one right answer for each row.", rows=count, answers=len(y))
    rows, models = [], [model] if against is None else [model, against]
    changes = [("none", 0.0), *itertools.product(kinds, rates)]
    bar = keras.utils.Progbar(len(changes), verbose=1 if verbose == "auto" else verbose, unit_name="change")
    for kind, rate in changes:
        changed = x if kind == "none" else kinds[kind](x, rate, seed)
        answers = [checklist.answers_of(each, changed) for each in models]
        right = [np.hstack(checklist.are_right(each, found, y)) for each, found in zip(models, answers)]
        rows.append({"change": kind, "rate": rate, "cases": len(right[0]), **rate_of("accuracy", *right)})
        bar.add(1)
    columns = {"change": "", "rate": "", "cases": "", **rate_columns("accuracy")}
    return _Curve(rows, columns, title="Accuracy after changes", index=("change", "rate"))


def _with_typos(model, kind, x, rate, seed):
    """Returns data with errors, which are only in the questions if a model finds answers in contexts."""
    questions, *contexts = x if hasattr(model, "answer") else (x,)
    changed = typos(questions, rate, kind=kind, seed=seed)
    return (changed, *contexts) if contexts else changed


class _Curve(PlottedResult):
    """The accuracy of a model by the rate of each change, with its interval, and that of another model dotted."""

    def _draw(self, axes):
        start, *others = self.rows
        for kind, style in zip(dict.fromkeys(row["change"] for row in others), STYLES * len(others)):
            rows = [start, *(row for row in others if row["change"] == kind)]
            rates, *values = zip(*([row[name] for name in ("rate", "accuracy", "low", "high")] for row in rows))
            axes.plot(rates, values[0], **style, label=kind)
            axes.fill_between(rates, *values[1:], alpha=0.12, color=style["color"])
            if "before" in start:
                axes.plot(rates, [row["before"] for row in rows], color=style["color"], linestyle=":", alpha=0.6)
        axes.set(xlabel="fraction of words that are changed", ylabel="accuracy")
        axes.legend(frameon=False)
