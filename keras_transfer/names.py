"""Looks up names that a user passes, and suggests the closest one, or the equivalent of another library's name."""

import difflib
import inspect
import logging
import numbers
import re

from keras_transfer.foreign_names import equivalent

log = logging.getLogger("keras_transfer")

_MISSING = ("nan", "none", "null", "na", "n/a", "<na>", "#n/a")


def closest(name, names):
    """Returns the name that is most similar to `name`, ignoring case, or None if none is similar."""
    lower = {str(each).lower(): each for each in names}
    close = difflib.get_close_matches(str(name).lower(), lower, n=1)
    return lower[close[0]] if close else None


def did_you_mean(name, names):
    """Returns `" Did you mean 'label'?"` with the closest of the names, or an empty string."""
    near = closest(name, names)
    return "" if near is None else f" Did you mean {near!r}?"


def why_no_expression(pattern):
    """Returns `", which is not a regular expression: REASON"`, or an empty string for any other pattern."""
    try:
        re.compile(pattern)
    except (re.error, TypeError) as error:
        return f", which is not a regular expression: {error}" if isinstance(pattern, str) else ""
    return ""


def listed(names, most=10):
    """Returns names as a list in a string, of which only the first `most` are shown."""
    names = list(names)
    shown = ", ".join(map(repr, names[:most]))
    return f"[{shown}]" if len(names) <= most else f"[{shown}, ... and {len(names) - most:,} more]"


def check_one_of(argument, value, known, aliases=None):
    """Raises a `ValueError` if the value of an argument is not one of the known values.

    Args:
        argument: String. Name of the argument.
        value: Its value.
        known: Tuple of the known values.
        aliases: Dict from other names of values to names that resemble them, for the suggestion. Defaults to `None`.
    """
    known = tuple(known)
    if not any(value is each or (isinstance(value, str) and value == each) for each in known):
        hint = did_you_mean((aliases or {}).get(str(value), value), [each for each in known if each is not None])
        raise ValueError(
            f"Invalid value for argument `{argument}`. Expected one of {known}.{hint} Received: {argument}={value!r}"
        )


def look_up(name, names, what):
    """Returns the name that equals `name`, except for case, hyphens and underscores."""
    found = [each for each in names if _plain(each) == _plain(name)]
    if not found:
        raise ValueError(
            f"Unknown {what}.{did_you_mean(name, names)} Expected one of {list(names)}. Received: {name!r}"
        )
    return found[0]


def _plain(name):
    return str(name).lower().replace("-", "").replace("_", "")


def hint_for(name, known):
    """Returns a sentence on what to pass instead of an argument that does not exist, preceded by a space, or `""`."""
    found = equivalent(name, known)
    return did_you_mean(name, [each for each in known if each.isidentifier()]) if found is None else f" {found[1]}"


def argument_names(cls):
    """Returns the names of the arguments of the constructors of a class and of its bases, except those of Keras."""
    bases = [base for base in cls.__mro__ if "__init__" in vars(base) and not base.__module__.startswith("keras.")]
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = [
        each for base in bases if base is not object for each in inspect.signature(base.__init__).parameters.values()
    ]
    names = dict.fromkeys(each.name for each in parameters if each.kind in kinds)
    return [name for name in names if name != "self"]


def check_arguments(what, given, known):
    """Raises a `TypeError` for the first argument that does not exist, with what to pass instead.

    Args:
        what: String. What has the arguments, such as the name of a class.
        given: Dict of the arguments.
        known: List of the names of the arguments that exist.
    """
    for name, value in given.items():
        if name not in known:
            raise TypeError(
                f"`{what}` has no argument `{name}`.{hint_for(name, known)} Received: {name}={value!r:.100}"
            )


def check_spaces(names, received):
    """Raises a `ValueError` if two names of classes differ only in the spaces around them.

    It also logs a warning if two names differ only in case, or if one is a missing value in words, such as `nan`.

    Args:
        names: Iterable of strings.
        received: String. Where the names come from, the beginning of the error message.
    """
    found, names = {}, sorted(names)
    for name in names:
        other = found.setdefault(name.strip(), name)
        if other != name:
            raise ValueError(
                f"{received}: Names of classes must not differ only in the spaces around them. Remove these with "
                f"`label.strip()`. Received: {other!r} and {name!r}"
            )
    if missing := [name for name in names if name.strip().lower() in _MISSING]:
        log.warning(
            "%s: The class %r looks like a missing value. If it is one, leave out its rows, such as with "
            "`DataFrame.dropna(subset=[...])` before labels become strings.",
            received,
            missing[0],
        )
    by_lower = {}
    for name in names:
        by_lower.setdefault(name.lower(), []).append(repr(name))
    if alike := [" and ".join(group) for group in by_lower.values() if len(group) > 1]:
        log.warning(
            "%s: The classes %s%s differ only in case. If they are one class, convert the labels with `label.lower()`.",
            received,
            ", ".join(alike[:3]),
            f", and {len(alike) - 3:,} more groups," if len(alike) > 3 else "",
        )


def advice_on_label(label):
    """Returns what to do about a label that is neither a name nor an integer, as a sentence after a space, or `""`."""
    if type(label).__name__ in ("bool", "bool_"):  # Python's and NumPy's.
        return " Convert booleans to names with `labels.astype(str)`."
    if label is None or label != label:
        return " Leave out rows without a label, such as with `table.dropna(subset=[...])`."
    if not isinstance(label, numbers.Real) or isinstance(label, numbers.Integral):
        return ""
    if label % 1:
        return " For measurements, use a `TextRegressor`. If they are classes, convert them with `labels.astype(str)`."
    return (
        " A column of integers with an empty cell is float. Leave out the rows without a label, and convert the others "
        "with `labels.astype(int)`."
    )


def check_order(found, names):
    """Raises a `ValueError` if the names of classes in a file are those of a model in another order.

    Args:
        found: List of strings, dict of these for several heads, or `None`. The names in the file.
        names: The same for the model.
    """
    if isinstance(found, dict) and isinstance(names, dict):
        for head in found.keys() & names.keys():
            check_order(found[head], names[head])
    elif isinstance(found, list) and isinstance(names, list) and found != names and sorted(found) == sorted(names):
        raise ValueError(
            "The weights belong to a model with the same classes in another order, so their labels would be mixed up. "
            "Create the model with the `label_names` of the file, and rename its classes afterwards. "
            f"Received: a file with {listed(found)}, and a model with {listed(names)}"
        )
