"""Scores of several seeds: kept as JSON lines, so that a command continues there, and shown with their intervals."""

import json


def kept(path):
    """Returns the values that a file contains as a dict from their names, which is empty without a file."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return {name: value for line in lines for name, value in json.loads(line).items()}


def keep(path, name, value):
    """Adds a named value to a file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({name: value}) + "\n")


def shown(values, sign="", digits=2):
    """Returns the mean of the values of all seeds with half of its 95% t interval, as text."""
    from keras_transfer.analysis import mean_interval

    mean, half = mean_interval(values)
    return f"{mean:{sign}.{digits}f}" + ("" if half is None else f" ± {half:.{digits}f}")  # One seed has no interval.
