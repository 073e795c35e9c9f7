"""Behavioral tests: texts from templates, and how often a model fails to answer them as it should."""

import collections
import dataclasses
import itertools
import math
import string
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from keras_transfer.analysis.classification_report import class_positions
from keras_transfer.analysis.result import Result
from keras_transfer.analysis.scores import rate_columns, rate_of
from keras_transfer.core.expect import NotApplicableError, expect, expects, instance_of, integer, list_of, number
from keras_transfer.core.lines import shorten
from keras_transfer.core.names import did_you_mean
from keras_transfer.metrics import squad_scores


@expects(samples=integer(1), seed=integer(0))
def fill_templates(template: Any, *, samples: int | None = None, seed: int = 0, **lists: Sequence[Any]) -> Any:
    """Returns the texts of a template, one for each combination of values.

    Fields whose names end in a digit, such as `{name1}` and `{name2}`, have different values of one list, `name`.

    Args:
        template: String with fields in braces, or tuple of strings that are filled with the same values.
        samples: Integer. Number of combinations to draw, if there are more. Defaults to `None`, for all.
        seed: Integer. Seed of the combinations that are drawn. Defaults to `0`.
        **lists: List of values for each field.

    Returns:
        List of strings, or for a tuple of templates a tuple of lists of strings.

    Raises:
        ValueError: If a field has no list or too short a list, or if a list has no field.

    Example:
    ```python
    fill_templates = keras_transfer.analysis.fill_templates
    fill_templates("The {thing} was {how}.", thing=["food"], how=["good", "great"])
    x, changed = fill_templates(("{name1} met Ann.", "{name2} met Ann."), name=["Bob", "Eve"])
    ```

    Source: https://arxiv.org/abs/2005.04118
    """
    parts = template if isinstance(template, tuple) else (template,)
    fields = [field for part in parts for _, field, _, _ in string.Formatter().parse(part) if field is not None]
    fields = list(dict.fromkeys(fields))
    names = [field if field in lists else field.rstrip("0123456789") for field in fields]
    for field, name in zip(fields, names):
        rule = f"Each field of a template must have a list of values.{did_you_mean(field, list(lists))}"
        expect(name in lists, rule, field=field, lists=[*lists])
    for name, values in lists.items():
        expect(name in names, "Each list must have a field in the template.", unused=name, fields=fields)
        rule = f"`{name}` must be a list with a value for each of its fields, {names.count(name)} or more."
        expect(not isinstance(values, str) and len(values) >= names.count(name), rule, **{name: values})
    # Each number is the place of a value among those that the fields before leave of its list.
    sizes = [len(lists[name]) - names[:place].count(name) for place, name in enumerate(names)]
    drawn: Any = itertools.product(*map(range, sizes))
    if samples is not None and samples < math.prod(sizes):
        random, drawn = np.random.default_rng(seed), {}
        while len(drawn) < samples:
            drawn[tuple(random.integers(sizes).tolist())] = None
    rows = []
    for places in drawn:
        left = {name: list(values) for name, values in lists.items()}
        rows.append({field: left[name].pop(place) for field, name, place in zip(fields, names, places)})
    columns = tuple([part.format(**row) for row in rows] for part in parts)
    return columns if isinstance(template, tuple) else columns[0]


@dataclasses.dataclass(frozen=True)
class MinimumFunctionality:
    """A test of simple texts whose answers are known.

    Args:
        name: String. What is tested.
        x: List of texts or of lists of words, or a tuple of two columns for pairs and questions.
        expected: The right answer of all rows, or a list with one for each row: a label, a list of the labels of words,
            or for questions one right text or a list of several.

    Example:
    ```python
    keras_transfer.analysis.MinimumFunctionality("negation", ["It is not good."], "negative")
    ```
    """

    name: str
    x: Any
    expected: Any


@dataclasses.dataclass(frozen=True)
class Invariance:
    """A test of changes that must not change the answer, such as another name or a typo.

    Args:
        name: String. What is tested.
        x: List of texts or of lists of words, or a tuple of two columns for pairs and questions.
        changed: The same rows after the change.

    Example:
    ```python
    keras_transfer.analysis.Invariance("names", ["Bob is here."], ["Eve is here."])
    ```
    """

    name: str
    x: Any
    changed: Any


@expects(tolerance=number(0))
@dataclasses.dataclass(frozen=True)
class Direction:
    """A test of changes that must change the answer in one direction: one of `more`, `less` and `function` says which.

    Args:
        name: String. What is tested.
        x: List of texts or of lists of words, or a tuple of two columns for pairs and questions.
        changed: The same rows after the change.
        more: String. A label whose probability must not fall. Defaults to `None`.
        less: String. A label whose probability must not rise. Defaults to `None`.
        function: Function of the answers before and after the change to whether they are right. Defaults to `None`.
        tolerance: Float. By how much the probability of a label may still fall or rise. Defaults to `0.0`.

    Example:
    ```python
    keras_transfer.analysis.Direction("praise", ["It was fine."], ["It was fine. I love it."], more="positive")
    ```
    """

    name: str
    x: Any
    changed: Any
    more: str | None = None
    less: str | None = None
    function: Callable[[Any, Any], Any] | None = None
    tolerance: float = 0.0

    def __post_init__(self):
        given = [name for name in ("more", "less", "function") if getattr(self, name) is not None]
        expect(len(given) == 1, "Exactly one of `more`, `less` and `function` is required.", given=given)


Failure = collections.namedtuple("Failure", ("x", "changed", "expected", "answer", "answer_after"))
TEST = instance_of((MinimumFunctionality, Invariance, Direction), "a MinimumFunctionality, Invariance or Direction")


@expects(tests=list_of(TEST))
def check_behavior(model: Any, tests: Sequence[Any], *, against: Any = None, verbose: str | int = "auto") -> Result:
    """Returns how often a model fails tests of its behavior, as in CheckList.

    Answers are the labels of a classifier, the labels of the words of a tagger, of which all must be right, and the
    texts that answer questions, which are compared by SQuAD's exact match.

    Args:
        model: `TextClassifier`, `TokenClassifier` or `SpanExtractor`, or a function from `x` to a list of answers.
        tests: List of `MinimumFunctionality`, `Invariance` and `Direction` tests.
        against: Another model, for the failures before. Defaults to `None`.
        verbose: `"auto"`, `0` (silent), `1` (progress bar) or `2` (one line). Defaults to `"auto"`.

    Returns:
        A `Result` with a row for each `test`: its `kind`, the number of `cases` and `failures`, `failure rate` with its
        95% interval `low` to `high` (Wilson), and `examples`, a list of `(x, changed, expected, answer, answer_after)`
        for all failures. With another model, `before` is its rate, and `difference` has the interval `difference_low`
        to `difference_high` (Newcombe).

    Raises:
        ValueError: If columns differ in length, if the model lacks a label, or if it is of another kind.

    Example:
    ```python
    test = keras_transfer.analysis.MinimumFunctionality("length", ["a", "bb"], [1, 2])
    print(keras_transfer.analysis.check_behavior(lambda texts: [len(text) for text in texts], [test]))
    ```

    Source: https://arxiv.org/abs/2005.04118
    """
    rows, notes = [], []
    bar = keras.utils.Progbar(len(tests), verbose=1 if verbose == "auto" else verbose, unit_name="test")
    for test in tests:
        failed, examples = _run(model, test)
        row = {"test": test.name, "kind": type(test).__name__, "cases": len(failed), "failures": len(examples)}
        row |= rate_of("failure rate", failed, None if against is None else _run(against, test)[0])
        rows.append(row | {"examples": examples})
        notes += [f"{test.name}: {_told(each)}" for each in examples[:1]]
        bar.add(1)
    columns = {"test": "", "kind": "", "cases": "", "failures": "", **rate_columns("failure rate")}
    return Result(rows, columns, title="Behavior", index=("test",), notes=notes)


def answers_of(model, x):
    """Returns the answers of a model to data in memory: labels, labels of words, texts, or what a function returns."""
    if hasattr(model, "predict_labels"):
        return model.predict_labels(x)
    if hasattr(model, "predict_words"):
        return [[label for _, label in words] for words in model.predict_words(x)]
    if hasattr(model, "answer"):
        expect(isinstance(x, tuple), "`x` must be a tuple of questions and contexts.", x=x)
        return [found["text"] for found in model.answer(*x)]
    rule = "The model must be a `TextClassifier`, a `TokenClassifier`, a `SpanExtractor` or a function."
    is_function = callable(model) and not isinstance(model, keras.layers.Layer)
    expect(is_function, rule, error=NotApplicableError, model=model)
    found = list(model(x))
    count = len(rows_of(x))
    expect(len(found) == count, "The function must return one answer for each row.", answers=len(found), rows=count)
    return found


def are_right(model, answers, expected):
    """Returns which answers are right, a list of booleans, or for a tagger of arrays `[words]`."""
    if hasattr(model, "answer"):
        expected = [[right] if isinstance(right, str) else right for right in expected]
        return [squad_scores([right], [answer])["exact_match"] > 0 for right, answer in zip(expected, answers)]
    if hasattr(model, "predict_words"):
        for place, (words, labels) in enumerate(zip(map(len, answers), map(len, expected))):
            expect(words == labels, "Each word must have a label.", position=place, words=words, labels=labels)
        columns = ([class_positions(row, model.label_names) for row in rows] for rows in (answers, expected))
        return [answer == right for answer, right in zip(*columns)]
    if isinstance(model, keras.layers.Layer):
        answers, expected = model.labels.encode(answers), model.labels.encode(expected)
        model.labels.check(expected)
    return [bool(np.all(answer == right)) for answer, right in zip(answers, expected)]


def rows_of(x):
    """Returns the rows of a column, or those of a tuple of columns as tuples."""
    sizes = [0 if isinstance(column, str) else len(column) for column in (x if isinstance(x, tuple) else (x,))]
    rule = "Data must be a list, or a tuple of lists with the same number of rows, at least one."
    expect(len({*sizes}) == 1 and sizes[0], rule, rows=sizes)
    return list(zip(*x)) if isinstance(x, tuple) else list(x)


def _run(model, test):
    """Returns which rows of a test fail, a boolean array, and the `Failure`s."""
    rows = rows_of(test.x)
    changed, after, expected = ([None] * len(rows) for _ in range(3))
    if isinstance(test, MinimumFunctionality):
        is_one = isinstance(test.expected, str) or not hasattr(test.expected, "__len__")
        expected = [test.expected] * len(rows) if is_one else list(test.expected)
    else:
        changed = rows_of(test.changed)
    sizes = (len(rows), len(expected), len(changed))
    expect(len({*sizes}) == 1, "All columns of a test must have the same number of rows.", test=test.name, rows=sizes)
    if isinstance(test, Direction) and test.function is None:
        label, names = test.less if test.more is None else test.more, [*getattr(model, "label_names", ())]
        rule = "`more` and `less` must be a label of a `TextClassifier`. Pass `function` for other models."
        expect(label in names, f"{rule}{did_you_mean(str(label), names)}", label=label, label_names=names)
        before, after = (model.predict_proba(x)[:, names.index(label)].tolist() for x in (test.x, test.changed))
        sign = 1 if test.less is None else -1
        right = [sign * (last - first) >= -test.tolerance for first, last in zip(before, after)]
    elif isinstance(test, MinimumFunctionality):
        before = answers_of(model, test.x)
        right = are_right(model, before, expected)
    else:
        before, after = (answers_of(model, x) for x in (test.x, test.changed))
        function = getattr(test, "function", None)
        right = map(function, before, after) if function else are_right(model, after, before)
    failed = np.array([not np.all(each) for each in right])
    found = map(Failure, rows, changed, expected, before, after)
    return failed, [failure for is_failure, failure in zip(failed, found) if is_failure]


def _told(failure):
    """Returns a failure as a line."""
    if failure.changed is None:
        return f"{shorten(failure.x)} -> {shorten(failure.answer)}, expected {shorten(failure.expected)}"
    first, last = (failure.x, failure.answer), (failure.changed, failure.answer_after)
    return ", but ".join(f"{shorten(row)} -> {shorten(answer)}" for row, answer in (first, last))
