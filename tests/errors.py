"""Tables of mistakes and the errors they lead to, and rules with all that breaks them: a row or a line for each."""

import inspect

import pytest


def check_errors(*rows, error=ValueError, call=None):
    """Returns a test with one case per row, which checks that a mistake leads to an error that explains it.

    ```python
    test_a_mistake_is_one_clear_error = check_errors(
        (lambda: Dropout(-1), "between 0 and 1 ... Received: rate=-1"),
        (lambda tmp_path: load(tmp_path / "x"), FileNotFoundError, "No such folder"),
    )
    test_a_wrong_size_is_an_error = check_errors((0, "Received: size=0"), (None, "Received: size=None"), call=Pool)
    ```

    Args:
        *rows: tuples: a function that makes the mistake, optionally the class of the error (or a tuple of classes), and
            the pieces of the message in their order, as plain text, in which " ... " stands for any text. A function
            may name fixtures as its parameters. Parameters with defaults, as in `lambda k=k: ...`, are no fixtures.
            The ids of the cases are the messages. If they do not say what the mistake is, pass one dict instead, from
            the mistake in words to its row. One list is the same as its rows.
        error: class of the errors of all rows that do not name one. Defaults to `ValueError`.
        call: function that makes the mistakes if rows begin with its argument, or with a tuple of its arguments,
            instead of a function. Its further parameters are fixtures. Defaults to `None`.
    """
    table = rows[0] if isinstance(rows[0], dict) else {}
    rows = list(table.values()) or (rows[0] if isinstance(rows[0], list) else rows)
    ids = [str(mistake) for mistake in table] or [" ... ".join(_pieces(row)) for row in rows]

    @pytest.mark.parametrize("row", rows, ids=ids)
    def test(row, request):
        mistake, values = (call, row[0] if isinstance(row[0], tuple) else row[:1]) if call else (row[0], ())
        fixtures = [request.getfixturevalue(name) for name in _parameters(mistake)[len(values) :]]
        with pytest.raises(error if isinstance(row[1], str) else row[1]) as caught:
            mistake(*values, *fixtures)
        check_message(caught.value, *_pieces(row))

    return test


def rule(offenders):
    """Makes a test of a generator: it fails with a line for each thing that breaks the rule."""

    def test():
        found = list(offenders())
        assert not found, "\n" + "\n".join(map(str, found))

    test.__name__, test.__doc__ = offenders.__name__, offenders.__doc__
    return test


def check_message(error, *pieces):
    """Checks that an error's message contains all pieces of plain text, in their order. See `check_errors`."""
    message, place = str(error), 0
    for piece in " ... ".join(pieces).split(" ... "):
        found = message.find(piece, place)
        if found < 0:
            where = f" after {message[:place]!r}" if place else ""
            pytest.fail(f"The message must contain {piece!r}{where}. Received: {message!r}")
        place = found + len(piece)


def _pieces(row):
    return row[1:] if isinstance(row[1], str) else row[2:]


def _parameters(function):
    if not inspect.isfunction(function):
        return []
    parameters = inspect.signature(function).parameters.values()
    return [parameter.name for parameter in parameters if parameter.default is parameter.empty]
