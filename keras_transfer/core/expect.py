"""The rules of arguments, declared where a public function begins, and the one form of the errors about them."""

import contextlib
import functools
import inspect
import numbers
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from keras_transfer.core.names import argument_names, check_arguments, did_you_mean

F = TypeVar("F")
_UNKNOWN = re.compile(  # What Python, a layer, and an optimizer of Keras say. A wrong name may leave another missing.
    r"got an unexpected keyword argument '(\w+)'|Unrecognized keyword arguments passed to \w+: \{'(\w+)'"
    r"|Arguments?(?:\(s\))? not recognized: \{'(\w+)'|missing \d+ required"
)


class NotApplicableError(ValueError):
    """A method has no meaning for a model or for its data, such as attention for a model without heads."""


class Rule(NamedTuple):
    """What the value of an argument must be.

    Args:
        words: String. What it must be, after "must be".
        is_met: Function that returns whether a value fits.
        wrong: Tuple of values that do not fit, with which a test calls whatever declares the rule.
        hint: Function that returns what helps for a wrong value, a sentence after a space, or `""`.
        convert: Function that returns the value in the form that the decorated function uses.
        error: Class of the error.
    """

    words: str
    is_met: Callable[[Any], bool]
    wrong: tuple = (None,)
    hint: Callable[[Any], str] = lambda value: ""
    convert: Callable[[Any], Any] = lambda value: value
    error: type[ValueError] = ValueError

    def check(self, name, value):
        """Returns the value of an argument, and raises a `ValueError` if it does not fit."""
        is_met = self.is_met(value)
        hint = "" if is_met else self.hint(value)  # Finding a similar name takes long.
        expect(is_met, f"`{name}` must be {self.words}.{hint}", error=self.error, **{name: value})
        return self.convert(value)


def expect(is_met, rule, /, *unnamed, error=ValueError, where=None, received=None, **values):
    """Raises an error with a rule, as one sentence, and the values that break it, unless it is met.

    Args:
        *unnamed: Values, which the message shows without a name, before those of `values`.
        error: Class of the error. Defaults to `ValueError`.
        where: String or path. The place in a file or in data that the message begins with. Defaults to `None`.
        received: String. What there is instead, in words. Defaults to `None`, the values.
    """
    if not is_met:
        place = "" if where is None else f"{where}: "
        if received is None:
            received = ", ".join([*map(shown, unnamed), *(f"{name}={shown(value)}" for name, value in values.items())])
        raise error(f"{place}{rule} Received: {received}")


@contextlib.contextmanager
def raising(
    rule, *causes, but=(), error=ValueError, where=None, describe=lambda cause: f"{type(cause).__name__}: {cause}"
):
    """A context in which exceptions, some or all but those in `but`, become the cause of an error with a rule."""
    try:
        yield
    except Exception as cause:
        if isinstance(cause, but) or (causes and not isinstance(cause, causes)):
            raise
        place = "" if where is None else f"{where}: "
        raise error(f"{place}{rule} Received: {describe(cause)}") from cause


def shown(value):
    """Returns a value as an error shows it: a shape as a tuple, an object without a text of its own as its class."""
    text = repr(tuple(value) if type(value).__name__ in ("TensorShape", "Size") else value)
    return f"a {type(value).__name__}" if " at 0x" in text else text[:200]


def expects(**rules: Rule) -> Callable[[F], F]:
    """Decorates a function, a constructor or a dataclass with the rules of its arguments, checked before it runs.

    A default always fits, so `None` is valid where it is the default. The error for an argument that does not exist
    says what to pass instead, also without rules.
    """

    def decorate(function):
        if isinstance(function, type):  # A dataclass, whose constructor stands nowhere.
            function.__init__ = decorate(function.__init__)
            return function
        signature = inspect.signature(function)
        defaults = {name: each.default for name, each in signature.parameters.items()}
        names = [name for name, each in signature.parameters.items() if each.kind is each.POSITIONAL_OR_KEYWORD]

        def fitting(name, value):
            fits = name not in rules or value is defaults[name]
            return value if fits else rules[name].check(name, value)

        @functools.wraps(function)
        def checked(*args, **kwargs):
            positional = [*map(fitting, names, args), *args[len(names) :]]
            named = {name: fitting(name, value) for name, value in kwargs.items()}
            with explained(function, kwargs, *args[:1]):
                return function(*positional, **named)

        checked.rules = rules  # A test calls each function with what its rules exclude.
        checked.__signature__ = signature  # Keras does not follow wrappers.
        return checked

    return decorate


@contextlib.contextmanager
def explained(function, given, *owner):
    """A context in which the error for an argument that a function or a class lacks says what to pass instead.

    Args:
        given: Dict of the arguments that were passed by name.
        owner: The object or the class of a method.
    """
    try:
        yield
        return
    except (TypeError, ValueError) as error:
        found = _UNKNOWN.search(str(error))
        if not found:
            raise
        what, known = _called(function, *owner)
        named = [*filter(None, found.groups())] or given
        unknown = {name: given[name] for name in named if name in given and name not in known}
        if not unknown:  # A function that this one calls lacks it.
            raise
    check_arguments(what, unknown, known)


def _called(function, *owner):
    """Returns the public name of a function or a class, and the arguments that it accepts, also by what it calls."""
    name = function.__name__
    if isinstance(function, type):
        name, owner = "__init__", (function,)
    elif "." not in function.__qualname__.rpartition("<locals>.")[2]:
        return name, argument_names(function)
    cls = owner[0] if isinstance(owner[0], type) else type(owner[0])
    called = cls.__name__ if name == "__init__" else f"{cls.__name__}.{name}"
    return called, argument_names(cls, name, of_keras=True)


def integer(least: int | None = None, most: int | None = None) -> Rule:
    """Returns the rule of an integer, such as a size or a count."""
    bounds = (f" from {least} to {most}" if most is not None else f" of at least {least}") if least is not None else ""

    def is_met(value):
        is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        return is_integer and (least is None or value >= least) and (most is None or value <= most)

    wrong = (1.5, "1", True, *(() if least is None else (least - 1,)), *(() if most is None else (most + 1,)))
    return Rule(f"an integer{bounds}", is_met, wrong, convert=int)


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
        convert=lambda value: getattr(value, "item", lambda: value)(),  # Configs are JSON, without numbers of NumPy.
    )


FRACTION = number(0, 1)
RATE = number(0, below=1)
PART = number(above=0, below=1)
POSITIVE = number(above=0)
TEXT = Rule("a string", lambda value: isinstance(value, str), (1, b"a", None))
FLAG = Rule("True or False", lambda value: isinstance(value, bool), (0, "no", None))


def one_of(*values: Any, aliases: Mapping | None = None) -> Rule:
    """Returns the rule of a value that is one of those given, with the one meant by an alias or a slip as a hint."""
    known, aliases = [each for each in values if each is not None], aliases or {}

    def is_met(value):  # A string of NumPy is a string, but `True` is not 1.
        alike = (each for each in values if isinstance(value, type(each)) and not isinstance(value, bool))
        return any(value is each for each in values) or any(value == each for each in alike)

    def hint(value):
        return did_you_mean(aliases.get(str(value), value), known)

    return Rule(f"one of {values}", is_met, ("no such value", 0.25), hint)


def instance_of(kind: type | tuple, words: str, error: type[ValueError] = ValueError) -> Rule:
    """Returns the rule of an instance of a class, or of one of several, that is described in words."""
    return Rule(words, lambda value: isinstance(value, kind), (object(), None), error=error)


def optional(rule: Rule, other: Any = None) -> Rule:
    """Returns a rule that another value meets, too, such as `None` for an argument with another default."""
    is_met = one_of(other).is_met
    wrong = tuple(each for each in rule.wrong if not is_met(each))
    return rule._replace(
        words=f"{rule.words}, or {other!r}",
        is_met=lambda value: is_met(value) or rule.is_met(value),
        wrong=wrong,
        convert=lambda value: value if is_met(value) else rule.convert(value),
    )


def list_of(rule: Rule, least: int = 0) -> Rule:
    """Returns the rule of a list or tuple whose items all meet a rule."""
    return Rule(
        f"a list{f' of at least {least}' if least else ''}, each of them {rule.words}",
        lambda value: isinstance(value, (list, tuple)) and len(value) >= least and all(map(rule.is_met, value)),
        (0.25, *([each] * max(least, 1) for each in rule.wrong)),
        convert=lambda value: type(value)(map(rule.convert, value)),
    )
