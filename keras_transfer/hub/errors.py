"""The exception for modules, and short forms of other exceptions and of handles for its message."""

import re


class HubError(ValueError):
    """A module cannot be loaded or used as requested. The message says what to do."""


def require(is_met, rule, received):
    """Raises a `HubError` with a rule, as one sentence, and what was received instead, unless it is met."""
    if not is_met:
        raise HubError(f"{rule} Received: {received}")


def one_line(error):
    """Returns an exception in one line: its type and the start of its message, without secrets in URLs."""
    text = " ".join(str(error).split())[:1000]
    return f"{type(error).__name__}: {re.sub(r'[a-zA-Z][a-zA-Z0-9+.-]*://[^ ]+', lambda url: shown(url[0]), text)}"


def shown(handle):
    """Returns a handle as messages show it: a URL without its user name, password, query and fragment."""
    handle = str(handle)
    if "://" not in handle:
        return handle
    return re.sub(r"(?s)[?#].*", "?...", re.sub(r"(?<=://)[^/?#]*@", "...@", handle))
