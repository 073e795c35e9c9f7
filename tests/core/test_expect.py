"""The rules of arguments: each one that is declared anywhere in the package excludes what it says."""

import importlib
import inspect
import pkgutil

import numpy as np
import pytest

import keras_transfer
from keras_transfer.core.expect import (
    FLAG,
    FRACTION,
    expect,
    expects,
    integer,
    list_of,
    number,
    one_of,
    optional,
    raising,
)
from tests.errors import rule


@expects(rate=FRACTION, size=integer(1), pooling=one_of("first", "mean"))
def pool(rate, size=None, *, pooling="mean"):
    return rate, size, pooling


def test_a_value_that_fits_is_passed_on():
    assert pool(0.5) == (0.5, None, "mean")
    assert pool(1, 3, pooling="first") == (1, 3, "first")
    assert list(inspect.signature(pool).parameters) == ["rate", "size", "pooling"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"rate": 2}, "`rate` must be a number between 0 and 1. Received: rate=2"),
        ({"rate": "x"}, "`rate` must be a number between 0 and 1. Received: rate='x'"),
        ({"rate": 1, "size": 0}, "`size` must be an integer of at least 1. Received: size=0"),
        (
            {"rate": 1, "pooling": "frst"},
            "`pooling` must be one of ('first', 'mean'). Did you mean 'first'? Received: pooling='frst'",
        ),
    ],
)
def test_a_value_that_does_not_fit_is_named(arguments, message):
    with pytest.raises(ValueError) as error:
        pool(**arguments)
    assert str(error.value) == message


@expects()
def load(source, *, label_names=None, **options):
    return inner(**options)


def inner():
    return next(iter(()))


def test_an_argument_that_does_not_exist_is_explained_also_without_rules():
    with pytest.raises(TypeError, match="`load` has no argument `num_labels`.*label_names.* Received: num_labels=2"):
        load("x", num_labels=2)
    with pytest.raises(TypeError, match="`load` has no argument `label_nam`. Did you mean 'label_names'?"):
        load(label_nam=["a"])  # `source` is missing, too.
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'source'"):
        load(label_names=["a"])


def test_other_errors_of_a_function_with_rules_stay_as_they_are():
    with pytest.raises(StopIteration):
        load("x")
    with pytest.raises(ZeroDivisionError):
        expects()(lambda size: 1 // size)(size=0)


def test_a_rule_of_several_arguments_names_all_of_them():
    with pytest.raises(ValueError, match="`heads` must divide `dim`. Received: dim=5, heads=2"):
        expect(5 % 2 == 0, "`heads` must divide `dim`.", dim=5, heads=2)


@pytest.mark.parametrize(
    "values, message",
    [
        ({"error": KeyError, "received": "no files"}, "Expected a file. Received: no files"),
        ({"where": "a.csv, line 2", "label": 1}, "a.csv, line 2: Expected a file. Received: label=1"),
    ],
)
def test_a_rule_has_its_own_error_place_and_words(values, message):
    with pytest.raises(values.get("error", ValueError)) as error:
        expect(False, "Expected a file.", **values)
    assert error.value.args == (message,)


def test_a_value_without_a_name_is_shown_as_it_is():
    with pytest.raises(ValueError, match="Expected a name. Received: 'a', b=1$"):
        expect(False, "Expected a name.", "a", b=1)


def test_an_exception_of_a_block_is_the_cause_of_its_rule():
    rule, message = raising("Expected JSON.", KeyError, error=RuntimeError, where="x.json"), "x.json: Expected JSON."
    with pytest.raises(RuntimeError, match=f"{message} Received: KeyError: 'a'$") as error, rule:
        raise KeyError("a")
    assert isinstance(error.value.__cause__, KeyError)
    with pytest.raises(ZeroDivisionError), raising("Expected JSON.", KeyError):
        raise ZeroDivisionError


@pytest.mark.parametrize(
    "each, words",
    [
        (integer(), "an integer"),
        (integer(1, 3), "an integer from 1 to 3"),
        (number(), "a number"),
        (number(0, below=1), "a number at least 0 and below 1"),
        (number(above=0), "a number above 0"),
        (FLAG, "True or False"),
        (optional(integer(2)), "an integer of at least 2, or None"),
        (list_of(integer(1), 2), "a list of at least 2, each of them an integer of at least 1"),
    ],
)
def test_a_rule_says_what_it_means_and_excludes_its_examples(each, words):
    assert each.words == words
    assert not any(map(each.is_met, each.wrong))


def test_a_value_of_numpy_is_one_of_python():
    assert one_of(None, "mean").is_met(np.str_("mean")) and not one_of(1, "mean").is_met(True)
    assert type(integer(1).check("size", np.int64(2))) is int and type(FRACTION.check("rate", np.float32(0.5))) is float
    with pytest.raises(ValueError, match=r"Received: size=np.float64\(2.0\)"):
        integer(1).check("size", np.float64(2))


def declared():
    """Yields each function of the package that declares rules, with its name."""
    for info in pkgutil.walk_packages(keras_transfer.__path__, "keras_transfer."):
        if info.name.endswith("__main__"):
            continue
        module = importlib.import_module(info.name)
        for owner in [module, *(each for each in vars(module).values() if isinstance(each, type))]:
            for name, value in vars(owner).items():
                function = inspect.unwrap(getattr(value, "__func__", value), stop=lambda each: "rules" in vars(each))
                if "rules" in getattr(function, "__dict__", {}) and function.__module__ == info.name:
                    yield f"{info.name}.{getattr(owner, '__qualname__', '')}.{name}", function


@rule
def test_each_declared_rule_excludes_what_it_says():
    for name, function in declared():
        for argument, each in function.rules.items():
            if (parameter := inspect.signature(function).parameters.get(argument)) is None:
                yield f"{name} has no argument {argument}"
                continue
            for value in (each for each in each.wrong if each is not parameter.default):
                try:
                    function(**{argument: value})
                except ValueError as error:
                    if f"`{argument}` must be {each.words}." not in str(error):
                        yield f"{name}({argument}={value!r}): {error}"
                except TypeError as error:
                    yield f"{name}({argument}={value!r}): {error}"
                else:
                    yield f"{name}({argument}={value!r}) is accepted"
