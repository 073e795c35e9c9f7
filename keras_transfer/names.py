"""Looks up names that a user passes, and suggests the closest one if a name does not exist."""

import difflib


def closest(name, names):
    """Returns the name that is most similar to `name`, ignoring case, or None if none is similar."""
    lower = {str(each).lower(): each for each in names}
    close = difflib.get_close_matches(str(name).lower(), lower, n=1)
    return lower[close[0]] if close else None


def did_you_mean(name, names):
    """Returns `" Did you mean 'label'?"` with the closest of the names, or an empty string."""
    near = closest(name, names)
    return "" if near is None else f" Did you mean {near!r}?"


def listed(names, most=10):
    """Returns names as a list in a string, of which only the first `most` are shown."""
    names = list(names)
    shown = ", ".join(map(repr, names[:most]))
    return f"[{shown}]" if len(names) <= most else f"[{shown}, ... and {len(names) - most:,} more]"


def look_up(name, names, what):
    """Returns the name that equals `name`, except for case, hyphens and underscores.

    Raises:
        ValueError: If there is none. `what` is the kind of the name in the error message.
    """
    found = [each for each in names if _plain(each) == _plain(name)]
    if not found:
        raise ValueError(
            f"Unknown {what}.{did_you_mean(name, names)} Expected one of {list(names)}. Received: {name!r}"
        )
    return found[0]


def _plain(name):
    return str(name).lower().replace("-", "").replace("_", "")
