"""Looks up names that a user passes, and suggests the closest one, or what to use here for another library's name.

The pages in `docs/migration` list the same names of other libraries.
"""

import difflib
import functools
import inspect
import logging
import numbers
import pathlib
import re
import tomllib

log = logging.getLogger("keras_transfer")

_MISSING = ("nan", "none", "null", "na", "n/a", "<na>", "#n/a")

_FAMILY = re.compile(r"(?:TF|Flax)?[A-Z]\w*?(For[A-Z]\w+|LMHeadModel|Tokenizer(?:Fast)?|Config)")
_FAMILIES = {"LMHeadModel": "ForCausalLM", "Tokenizer": "Tokenizer", "TokenizerFast": "Tokenizer"}


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


def argument_names(function, method="__init__", *, of_keras=False):
    """Returns the names of the arguments of a function, or of a method of a class, by default of its constructor.

    Where a method accepts `**kwargs`, it passes them on, so the names of the next base's arguments follow.

    Args:
        of_keras: Boolean. Whether the methods of Keras's own classes count.
    """
    functions = [getattr(function, "__func__", function)]
    if isinstance(function, type):
        owners = [base for base in function.__mro__ if method in vars(base)]
        owners = [base for base in owners if of_keras or not base.__module__.startswith("keras.")]
        functions = [getattr(vars(base)[method], "__func__", vars(base)[method]) for base in owners]
    names = []
    for each in functions:
        parameters = inspect.signature(each).parameters.values()
        several = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        names += [parameter.name for parameter in parameters if parameter.kind not in several]
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            break
    return [name for name in dict.fromkeys(names) if name not in ("self", "cls")]


def check_arguments(what, given, known):
    """Raises a `TypeError` for the first argument that does not exist, with what to pass instead."""
    for name, value in given.items():
        if name not in known:
            raise TypeError(
                f"`{what}` has no argument `{name}`.{hint_for(name, known)} Received: {name}={value!r:.100}"
            )


def check_spaces(names, received):
    """Raises a `ValueError` if two names of classes differ only in the spaces around them.

    It also logs a warning if two names differ only in case, or if one is a missing value in words, such as `nan`.

    Args:
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


@functools.cache
def tables_of_names():
    """Returns the tables in `elsewhere.toml` as a dict, with a row `(names, own name, sentence)` for each argument."""
    tables = tomllib.loads(pathlib.Path(__file__).with_name("elsewhere.toml").read_text("utf-8"))
    renamed = [(*pair.split("="), "") for pair in tables["renamed"].split()]
    otherwise = [(names, "", sentence) for names, sentence in tables["otherwise"]]
    return {**tables, "arguments": [*map(tuple, tables["arguments"]), *renamed, *otherwise]}


def equivalent(name, known):
    """Returns the argument that replaces one of another library, and a sentence, or `None` if the table has no row.

    The argument is one of `known`, or `""` if the sentence names no argument of the function.
    """
    for foreign, own, sentence in tables_of_names()["arguments"]:
        if name in foreign.split() and (not own or own in known):
            if not sentence or sentence[0] == ",":
                sentence = f"Pass `{{}}=...`{sentence}."
            return own, sentence.replace("{}", own) if "encoder={" not in sentence else sentence
    return None


@functools.cache
def _own_names():
    """Returns a dict from the names of functions and classes of other libraries to what to use here."""
    return {foreign: own for own, names in tables_of_names()["names"].items() for foreign in names.split()}


def elsewhere(name):
    """Returns what to use instead of a function or a class of another library, as a string, or None."""
    by_name = _own_names()
    if name not in by_name and (found := _FAMILY.fullmatch(name)):
        name = f"AutoModel{_FAMILIES.get(found[1], found[1])}".replace("ModelTokenizer", "Tokenizer")
    own = by_name.get(name)
    return own if own is None or "`" in own else f"`{own}`"


def attribute_elsewhere(name, cls):
    """Returns what to use instead of a method or an attribute of a model of another library, or None."""
    for foreign, own in tables_of_names()["attributes"]:
        if name in foreign.split() and hasattr(cls, own):
            return f"`{own}`"
    return elsewhere(name)


def belongs(value, *accepted):
    """Returns a sentence on where an object belongs, preceded by a space, or `""` for one of an accepted kind."""
    cls, places = value if isinstance(value, type) else type(value), tables_of_names()["places"]
    for base in cls.__mro__:
        if base.__name__ in places and base.__module__.startswith(("keras.", "keras_transfer.")):
            kind, place = places[base.__name__]
            return "" if base.__name__ in accepted else f" `{cls.__name__}` is {kind}, which belongs in {place}."
    return ""
