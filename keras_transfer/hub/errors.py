"""The exception for modules, its rules, and short forms of other exceptions and of handles for its message."""

import functools
import re

from keras_transfer.core import expect as forms


class HubError(ValueError):
    """A module cannot be loaded or used as requested. The message says what to do."""


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


# The rules of modules, in the form of all rules.
expect = functools.partial(forms.expect, error=HubError)
raising = functools.partial(forms.raising, error=HubError, describe=one_line)
