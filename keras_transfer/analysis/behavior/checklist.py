"""Behavioral tests: texts from templates, and how often a model fails to answer them as it should."""

import dataclasses
import itertools
import math
import string
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_transfer.analysis.behavior.rates import Rates
from keras_transfer.core.expect import expect, expects, integer, number
from keras_transfer.core.lines import shorten
from keras_transfer.core.names import did_you_mean


@expects(samples=integer(1), seed=integer(0))
def fill_templates(template: Any, *, samples: int | None = None, seed: int = 0, **lists: Sequence[Any]) -> Any:
    """Returns the texts of a template, one for each combination of values.

    Fields whose names end in a digit, such as `{name1}` and `{name2}`, have different values of one list, `name`.

    Args:
        template: String with fields in braces, or tuple of strings that are filled with the same values, such as the
            texts before and after a change.
        samples: Integer. Number of combinations to draw. Defaults to `None`, for all.
        seed: Integer. Seed of the combinations that are drawn. Defaults to `0`.
        **lists: List of values for each field.

    Returns:
        List of strings, or for a tuple of templates a tuple of lists of strings.

    Raises:
        ValueError: If a field has no list or an empty one, or if a list has no field.

    Example:
    ```python
    fill_templates = keras_transfer.analysis.fill_templates
    fill_templates("The {thing} was {how}.", thing=["food"], how=["good", "great"])
    x, changed = fill_templates(("{name1} met Ann.", "{name2} met Ann."), name=["Bob", "Eve"])
    ```

    Source: https://arxiv.org/abs/2005.04118
    """
    parts = template if isinstance(template, tuple) else (template,)
    fields = list(dict.fromkeys(field for part in parts for _, field, _, _ in string.Formatter().parse(part) if field))
    names = [field if field in lists else field.rstrip("0123456789") for field in fields]
    for field, name in zip(fields, names):
        rule = f"Each field of a template must have a list of values.{did_you_mean(field, list(lists))}"
        expect(name in lists, rule, field=field, lists=[*lists])
    unused = [name for name in lists if name not in names]
    expect(not unused, "Each list must have a field in the template.", unused=unused, fields=fields)
    for name, values in lists.items():
        rule = f"`{name}` must be a list of at least one value."
        expect(not isinstance(values, str) and len(values) > 0, rule, **{name: values})
    sizes = [len(lists[name]) for name in names]
    total, random = math.prod(sizes), np.random.default_rng(seed)
    if samples is None:
        places: Any = itertools.product(*map(range, sizes))
    else:  # Some combinations drop out, because they have the same value twice.
        drawn = random.permutation(total) if total < 2**20 else random.integers(total, size=32 * samples)
        places = zip(*(column.tolist() for column in np.unravel_index(drawn, sizes)))
    filled = dict.fromkeys(place for place in places if len({*zip(names, place)}) == len(place))
    rows = [
        {field: lists[name][at] for field, name, at in zip(fields, names, place)}
        for place in itertools.islice(filled, samples)
    ]
    columns = tuple([part.format(**row) for row in rows] for part in parts)
    return columns if isinstance(template, tuple) else columns[0]


@dataclasses.dataclass(frozen=True)
class MinimumFunctionality:
    """A test of simple texts whose answers are known.

    Args:
        name: String. What is tested.
        x: What the model answers, such as a list of texts, or a tuple of two columns for pairs.
        expected: The right answer, or a list with one for each row.

    Example:
    ```python
    keras_transfer.analysis.MinimumFunctionality("negation", ["It is not good."], "negative")
    ```
    """

    name: str
    x: Any
    expected: Any


@expects(tolerance=number(0))
@dataclasses.dataclass(frozen=True)
class Invariance:
    """A test of changes that must not change the answer, such as another name or a typo.

    Args:
        name: String. What is tested.
        x: What the model answers, such as a list of texts, or a tuple of two columns for pairs.
        changed: The same rows after the change.
        tolerance: Float. By how much an answer that is a number may change. Defaults to `0.0`.

    Example:
    ```python
    keras_transfer.analysis.Invariance("names", ["Bob is here."], ["Eve is here."])
    ```
    """

    name: str
    x: Any
    changed: Any
    tolerance: float = 0.0


@expects(tolerance=number(0))
@dataclasses.dataclass(frozen=True)
class Direction:
    """A test of changes that must change the answer in one direction.

    Exactly one of `more`, `less` and `function` says what must hold.

    Args:
        name: String. What is tested.
        x: What the model answers, such as a list of texts, or a tuple of two columns for pairs.
        changed: The same rows after the change.
        more: String. A label whose probability must not fall. Defaults to `None`.
        less: String. A label whose probability must not rise. Defaults to `None`.
        function: Function of the answers before and after the change, which returns whether they are right. Defaults
            to `None`.
        tolerance: Float. By how much a probability may still fall or rise. Defaults to `0.0`.

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


class Failure(NamedTuple):
    """A row that a model answers wrong.

    Attributes:
        x: The row, or a tuple of its columns.
        changed: The row after the change, `None` without one.
        expected: The right answer, `None` if only changes are tested.
        answer: The answer of the model, or the probability of the label.
        answer_after: The same after the change, `None` without one.
    """

    x: Any
    changed: Any
    expected: Any
    answer: Any
    answer_after: Any


def check_behavior(model: Any, tests: Sequence[Any], *, against: Any = None) -> "BehaviorReport":
    """Returns how often a model fails tests of its behavior, as in CheckList.

    Answers are the labels of a classifier, the labels of the words of a tagger, and the texts that answer questions.
    Taggers are compared word by word, so a change must keep the number of words.

    Args:
        model: `TextClassifier`, `TokenClassifier` or `SpanExtractor`, or a function from `x` to a list of answers.
        tests: List of `MinimumFunctionality`, `Invariance` and `Direction` tests with different names.
        against: Another model, for the failures before. Defaults to `None`.

    Returns:
        `BehaviorReport`.

    Raises:
        ValueError: If columns differ in length, if the model lacks a label, if two tests have the same name, or if the
            model is of another kind.

    Example:
    ```python
    test = keras_transfer.analysis.MinimumFunctionality("length", ["a", "bb"], [1, 2])
    print(keras_transfer.analysis.check_behavior(lambda texts: [len(text) for text in texts], [test]))
    ```

    Source: https://arxiv.org/abs/2005.04118
    """
    names = [test.name for test in tests]
    expect(len({*names}) == len(names) > 0, "Tests must have different names, and there must be one.", names=names)
    for test in tests:
        sizes = [count_of(test.x), *([count_of(test.changed)] if hasattr(test, "changed") else [])]
        sizes += [len(test.expected)] if isinstance(getattr(test, "expected", None), list) else []
        rule = "All columns of a test must have the same number of rows, at least one."
        expect(len({*sizes}) == 1 and sizes[0], rule, test=test.name, rows=sizes)
    found = [_run(model, test) for test in tests]
    return BehaviorReport(tests, found, None if against is None else [_run(against, test) for test in tests])


class BehaviorReport(Rates):
    """How often a model fails tests of its behavior, which `check_behavior` returns.

    Args:
        tests: List of tests.
        found: List with the array of failures, `[rows]`, and the `Failure`s of each test.
        before: The same for another model. Defaults to `None`.

    Attributes:
        rows: List of dicts, one for each test, with its name `test`, its `kind`, the number of `cases` and `failures`,
            and `failure rate` with its 95% interval `low` and `high` (Wilson). With another model,
            `before` is its rate, and `difference` has the interval `difference_low` and `difference_high` (Newcombe).

    Example:
    ```python
    test = keras_transfer.analysis.Invariance("case", ["a", "b"], ["A", "B"])
    report = keras_transfer.analysis.check_behavior(lambda texts: [text == "a" for text in texts], [test])
    report.failures("case")[0].changed  # "A"
    ```
    """

    title = "Behavior"
    index, names, rate = ("test",), ("test", "kind", "cases", "failures"), "failure rate"

    def __init__(self, tests: Sequence[Any], found: Sequence[Any], before: Sequence[Any] | None = None) -> None:
        self._failures = {test.name: failures for test, (_, failures) in zip(tests, found)}
        self.rows = []
        for place, (test, (failed, _)) in enumerate(zip(tests, found)):
            row = {"test": test.name, "kind": _KINDS[type(test)], "cases": len(failed), "failures": int(failed.sum())}
            self.rows.append(row | self._rate(failed, None if before is None else before[place][0]))

    def failures(self, test: str, count: int | None = None) -> list[Failure]:
        """Returns what a model answers wrong in a test.

        Args:
            test: String. Name of the test.
            count: Integer. Number of failures at most. Defaults to `None`, for all.

        Returns:
            List of `Failure`s, in the order of the rows.

        Raises:
            ValueError: If there is no such test.
        """
        expect(test in self._failures, f"There is no such test.{did_you_mean(test, [*self._failures])}", test=test)
        return self._failures[test][:count]

    def _notes(self):
        return [f"{name}: {_told(failures[0])}" for name, failures in self._failures.items() if failures]


_KINDS = {MinimumFunctionality: "minimum functionality", Invariance: "invariance", Direction: "direction"}


def answers_of(model, x):
    """Returns the answers of a model to data in memory: labels, labels of words, texts, or what a function returns."""
    if hasattr(model, "predict_labels"):
        return model.predict_labels(x)
    if hasattr(model, "predict_words"):
        return [[label for _, label in words] for words in model.predict_words(x)]
    if hasattr(model, "answer"):
        return [found["text"] for found in model.answer(*x)]
    rule = "The model must be a `TextClassifier`, a `TokenClassifier`, a `SpanExtractor` or a function."
    expect(callable(model) and not isinstance(model, keras.layers.Layer), rule, model=model)
    found = list(model(x))
    rule = "The function must return one answer for each row."
    expect(len(found) == count_of(x), rule, answers=len(found), rows=count_of(x))
    return found


def count_of(x):
    """Returns the number of rows of a column, or of a tuple of columns."""
    sizes = {len(column) for column in x} if isinstance(x, tuple) else {len(x)}
    expect(len(sizes) == 1, "All columns must have the same number of rows.", rows=sorted(sizes))
    return sizes.pop()


def check_labels(model, labels):
    """Raises a `ValueError` if a model has names of labels, but not all of those given (strings, or lists of them)."""
    known = getattr(model, "label_names", None)
    for label in labels if known is not None else ():
        for each in label if isinstance(label, (list, tuple)) else [label]:
            rule = f"The model must have each label.{did_you_mean(str(each), list(known))}"
            expect(each in known, rule, label=each, label_names=list(known))


def _run(model, test):
    """Returns which rows of a test fail, a boolean array, and the `Failure`s."""
    count, after, expected = count_of(test.x), [None] * count_of(test.x), [None] * count_of(test.x)
    if isinstance(test, MinimumFunctionality):
        expected = test.expected if isinstance(test.expected, list) else [test.expected] * count
        check_labels(model, expected)
        before = answers_of(model, test.x)
        failed = [not _same(answer, right) for answer, right in zip(before, expected)]
    elif isinstance(test, Direction) and test.function is None:
        label, sign = (test.more, 1) if test.more is not None else (test.less, -1)
        rule = "`more` and `less` require a model with `predict_proba`. Pass `function` for other models."
        expect(hasattr(model, "predict_proba"), rule, model=model)
        check_labels(model, [label])
        place = list(model.label_names).index(label)
        before, after = (model.predict_proba(x)[:, place].tolist() for x in (test.x, test.changed))
        failed = [sign * (last - first) < -test.tolerance for first, last in zip(before, after)]
    else:
        before, after = (answers_of(model, x) for x in (test.x, test.changed))
        if isinstance(test, Direction):
            failed = [not test.function(*both) for both in zip(before, after)]
        else:
            failed = [not _same(*both, test.tolerance) for both in zip(before, after)]
    rows, changed = _rows_of(test.x), _rows_of(getattr(test, "changed", None)) or after
    everything = zip(failed, map(Failure, rows, changed, expected, before, after))
    return np.array(failed, bool), [failure for is_failure, failure in everything if is_failure]


def _rows_of(x):
    """Returns the rows of a column, or those of a tuple of columns as tuples."""
    return list(zip(*x)) if isinstance(x, tuple) else x if x is None else list(x)


def _same(answer, other, tolerance=0.0):
    """Returns whether two answers are the same, or numbers that differ by little."""
    is_number = all(isinstance(each, (int, float, np.number)) for each in (answer, other))
    return abs(answer - other) <= tolerance if is_number and tolerance else answer == other


def _told(failure):
    """Returns a failure as a line."""
    if failure.changed is None:
        return f"{shorten(failure.x)} -> {shorten(failure.answer)}, expected {shorten(failure.expected)}"
    first, last = (failure.x, failure.answer), (failure.changed, failure.answer_after)
    return ", but ".join(f"{shorten(row)} -> {shorten(answer)}" for row, answer in (first, last))
