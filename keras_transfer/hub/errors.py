"""The one exception of modules, and how its message names a cause."""


class HubError(ValueError):
    """A module cannot be loaded, or not be used as was asked; the message says what was tried and what to do."""


def described(error):
    """Returns an exception in one line: its type and the start of its message."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:1000]}"
