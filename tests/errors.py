"""Tables of mistakes and the errors they lead to, one row each instead of one test function each."""

import inspect

import pytest


def check_errors(table, error=ValueError):
    """Returns a test with one case per row, which checks that a mistake leads to an error that explains it.

    ```python
    test_a_mistake_is_one_clear_error = check_errors(
        {
            "a negative rate": (lambda: Dropout(-1), "between 0 and 1", "Received: rate=-1"),
            "a file for a folder": (lambda tmp_path: load(tmp_path / "x"), FileNotFoundError, "No such folder"),
        }
    )
    ```

    Args:
        table: dict from the mistake in words, which is the case's id, to a tuple: a function without arguments that
            makes the mistake, optionally the class of the error (or a tuple of classes), and the pieces of the
            message in their order, as plain text. A function may name fixtures as its parameters. Parameters with
            defaults, as in `lambda k=k: ...`, are no fixtures.
        error: class of the errors of all rows that do not name one. Defaults to `ValueError`.
    """

    @pytest.mark.parametrize("row", table.values(), ids=[str(mistake) for mistake in table])
    def test(row, request):
        mistake, *pieces = row
        expected = error if isinstance(pieces[0], str) else pieces.pop(0)
        arguments = [request.getfixturevalue(name) for name in _fixtures(mistake)]
        with pytest.raises(expected) as caught:
            mistake(*arguments)
        check_message(caught.value, *pieces)

    return test


def check_message(error, *pieces):
    """Checks that an error's message contains all pieces of plain text, in their order."""
    message, place = str(error), 0
    for piece in pieces:
        found = message.find(piece, place)
        if found < 0:
            where = f" after {message[:place]!r}" if place else ""
            pytest.fail(f"The message must contain {piece!r}{where}. Received: {message!r}")
        place = found + len(piece)


def _fixtures(function):
    if not inspect.isfunction(function):
        return []
    parameters = inspect.signature(function).parameters.values()
    return [parameter.name for parameter in parameters if parameter.default is parameter.empty]
