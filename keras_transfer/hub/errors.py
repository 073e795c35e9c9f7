"""The exception for modules, and a short form of other exceptions for its message."""


class HubError(ValueError):
    """A module cannot be loaded or used as requested. The message says what to do."""


def one_line(error):
    """Returns an exception in one line: its type and the start of its message."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:1000]}"
