"""The base class of results whose rows have a rate, with its interval and that of another model."""

from keras_transfer.analysis.result import Result
from keras_transfer.analysis.scores import difference_with_interval, fraction_with_interval


class Rates(Result):
    """Base class of tables of rates.

    A subclass sets `names`, the names in the rows that stand before the rate, and `rate`, its name.
    """

    names: tuple[str, ...] = ()
    rate = "accuracy"

    def _rate(self, values, before=None):
        """Returns the part of a row about values from 0 to 1, an array `[cases]`, and maybe about another model's."""
        score = fraction_with_interval(float(values.sum()), len(values), 0.95)
        row = {self.rate: score.value, "low": score.low, "high": score.high}
        if before is None:
            return row
        change = difference_with_interval(before, values, 0.95)
        row |= {"before": float(before.mean()), "difference": change.value}
        return {**row, "difference_low": change.low, "difference_high": change.high}

    def _cells(self):
        heads = [*self.names, self.rate, "95% interval"]
        heads += ["before", "difference", "95% interval"] if "before" in self.rows[0] else []
        return heads, [self._shown(row) for row in self.rows]

    def _shown(self, row):
        cells = [f"{row[name]:,}" if isinstance(row[name], int) else str(row[name]) for name in self.names]
        cells += [f"{row[self.rate]:.3f}", f"{row['low']:.3f} to {row['high']:.3f}"]
        if "before" in row:
            cells += [f"{row['before']:.3f}", f"{row['difference']:+.3f}"]
            cells += [f"{row['difference_low']:+.3f} to {row['difference_high']:+.3f}"]
        return cells
