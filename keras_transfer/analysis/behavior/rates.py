"""Rates in the rows of a table: with an interval, and next to the rate of another model."""

from keras_transfer.analysis.scores import difference_with_interval, fraction_with_interval


def rate_of(name, values, before=None):
    """Returns the part of a row on values from 0 to 1, an array `[cases]`, and maybe on those of another model."""
    score = fraction_with_interval(float(values.sum()), len(values), 0.95)
    row = {name: score.value, "low": score.low, "high": score.high}
    if before is not None:
        change = difference_with_interval(before, values, 0.95)
        row |= {"before": float(before.mean()), "difference": change.value}
        row |= {"difference_low": change.low, "difference_high": change.high}
    return row


def rate_columns(name):
    """Returns the columns of a `Result` for what `rate_of` returns."""
    return {
        name: ".3f",
        "95% interval": (("low", "high"), ".3f"),
        "before": ".3f",
        "difference": "+.3f",
        "interval of difference": (("difference_low", "difference_high"), "+.3f"),
    }
