"""The rules of arguments, declared where a public function begins, and the one form of the errors about them."""

import functools
import inspect
import numbers
from collections.abc import Callable
from typing import Any, NamedTuple

from keras_transfer.core.names import did_you_mean


class Rule(NamedTuple):
    """What the value of an argument must be.

    Args:
        words: String. What it must be, after "must be".
        is_met: Function that returns whether a value fits.
        wrong: Tuple of values that do not fit, with which a test calls whatever declares the rule.
        hint: Function that returns what helps for a wrong value, a sentence after a space, or `""`.
    """

    words: str
    is_met: Callable[[Any], bool]
    wrong: tuple = (None,)
    hint: Callable[[Any], str] = lambda value: ""

    def check(self, name, value):
        """Returns the value of an argument, and raises a `ValueError` if it does not fit."""
        expect(self.is_met(value), f"`{name}` must be {self.words}.{self.hint(value)}", **{name: value})
        return value


def expect(is_met, rule, **received):
    """Raises a `ValueError` with a rule, as one sentence, and the values that break it, unless it is met."""
    if not is_met:
        raise ValueError(f"{rule} Received: {', '.join(f'{name}={value!r:.200}' for name, value in received.items())}")


def expects(**rules):
    """Decorates a function or a constructor with the rules of its arguments, which are checked before it runs.

    A default always fits, so `None` is valid where it is the default.
    """

    def decorate(function):
        signature = inspect.signature(function)
        names = list(signature.parameters)
        defaults = {name: parameter.default for name, parameter in signature.parameters.items()}

        @functools.wraps(function)
        def checked(*args, **kwargs):
            given = {**dict(zip(names, args)), **kwargs}
            for name in given.keys() & rules.keys():
                if given[name] is not defaults[name]:
                    rules[name].check(name, given[name])
            return function(*args, **kwargs)

        checked.rules = rules  # A test calls each function with what its rules exclude.
        checked.__signature__ = signature  # Keras does not follow wrappers.
        return checked

    return decorate


def integer(least: int | None = None, most: int | None = None) -> Rule:
    """Returns the rule of an integer, such as a size or a count."""
    bounds = (f" from {least} to {most}" if most is not None else f" of at least {least}") if least is not None else ""
    return Rule(
        f"an integer{bounds}",
        lambda value: (
            isinstance(value, numbers.Integral)
            and not isinstance(value, bool)
            and (least is None or value >= least)
            and (most is None or value <= most)
        ),
        (1.5, "1", True, *(() if least is None else (least - 1,)), *(() if most is None else (most + 1,))),
    )


def number(least: float = -float("inf"), most: float = float("inf"), *, above=None, below=None) -> Rule:
    """Returns the rule of a finite number in a range, whose ends `above` and `below` do not belong to it."""
    low = f"above {above}" if above is not None else f"at least {least}" if least > -float("inf") else ""
    high = f"below {below}" if below is not None else f"at most {most}" if most < float("inf") else ""
    words = " and ".join(each for each in (low, high) if each)
    if above is None and below is None and low and high:
        words = f"between {least} and {most}"

    def is_met(value):
        is_number = isinstance(value, numbers.Real) and not isinstance(value, bool) and abs(value) < float("inf")
        inside = is_number and least <= value <= most
        return bool(inside and (above is None or value > above) and (below is None or value < below))

    wrong = [least - 1 if low and above is None else above, most + 1 if high and below is None else below]
    return Rule(
        f"a number{' ' if words else ''}{words}",
        is_met,
        ("1", float("nan"), float("inf"), *(each for each in wrong if each is not None and abs(each) < float("inf"))),
    )


FRACTION = number(0, 1)
POSITIVE = number(above=0)
FLAG = Rule("True or False", lambda value: isinstance(value, bool), (0, "no", None))


def one_of(*values: Any) -> Rule:
    """Returns the rule of a value that is one of those given, with the most similar one as a hint."""
    known = [each for each in values if each is not None]
    return Rule(
        f"one of {values}",
        lambda value: any(value is each or (type(value) is type(each) and value == each) for each in values),
        ("no such value", 0.25),
        lambda value: did_you_mean(value, known),
    )


def optional(rule: Rule) -> Rule:
    """Returns a rule that `None` meets, too, for an argument with another default."""
    wrong = tuple(each for each in rule.wrong if each is not None)
    return rule._replace(words=f"{rule.words}, or None", is_met=lambda v: v is None or rule.is_met(v), wrong=wrong)


def list_of(rule: Rule, least: int = 0) -> Rule:
    """Returns the rule of a list or tuple whose items all meet a rule."""
    return Rule(
        f"a list{f' of at least {least}' if least else ''}, each of them {rule.words}",
        lambda value: isinstance(value, (list, tuple)) and len(value) >= least and all(map(rule.is_met, value)),
        (0.25, *([each] * max(least, 1) for each in rule.wrong)),
    )
