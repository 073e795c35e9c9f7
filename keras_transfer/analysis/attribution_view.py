"""The scores that `attribute` returns: as a table, as colored texts, and tested by hiding the words that score most."""

import dataclasses
import functools
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from keras_transfer.analysis import page
from keras_transfer.analysis.result import Result
from keras_transfer.analysis.significance import bootstrap_interval
from keras_transfer.analysis.tables import shorten
from keras_transfer.core.expect import FRACTION, expect, expects, integer, list_of
from keras_transfer.core.plots import BLUE, RED, new_axes

_ROWS, _LETTERS, _BARS = 20, 100, 60  # What is shown: rows, letters of a word, and words of a plot.


@dataclasses.dataclass(repr=False)
class Attributions(Result):
    """How much each token and each word adds to an output, which `attribute` returns.

    Printed, and in a notebook, it is the texts with colors: blue for words that add to the output, red for those that
    take from it. `rows` is a list of dicts, one for each word.

    Args:
        method: String. The method.
        output: String, `"logit"` or `"probability"`.
        target: List of strings. What the output of each row stands for.
        tokens: List of lists of strings. The tokens of each row, which are words for methods that delete words.
        words: List of lists of strings. The words of each row.
        owners: List of integer arrays `[tokens]`. The word of each token, or -1 for tokens that are never left out.
        scores: List of float arrays `[tokens]`. Special tokens have scores, too.
        prediction: Float array `[rows]`. The output for each row.
        without: Function of a list of rows and a list of lists of positions of tokens, which returns the output of each
            row without these tokens.
        baseline_prediction: Float array `[rows]`. The output for the baseline, or `None` for other methods than
            integrated gradients.
        delta: Float array `[rows]`. What the scores miss of the difference between the two, or `None`.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=["bad", "good"])
    why = keras_transfer.analysis.attribute(model, ["A fine film."], steps=10)
    why.to_html("why.html")
    why.deletion_curve(seeds=2)
    ```
    """

    method: str
    output: str
    target: list
    tokens: list
    words: list
    owners: list
    scores: list
    prediction: np.ndarray
    without: Callable
    baseline_prediction: np.ndarray | None = None
    delta: np.ndarray | None = None

    title = "Attributions"
    index = ("row", "position")
    columns = {"row": "", "target": "", "word": "", "score": "+.4f"}

    def _notes(self):
        return [f"{self.method}, {self.output}"]

    @functools.cached_property
    def word_scores(self) -> list:
        """List of float arrays `[words]`. The sum of the scores of the tokens of each word."""
        return [
            np.bincount(owner[owner >= 0], scores[owner >= 0], len(words))
            for owner, scores, words in zip(self.owners, self.scores, self.words)
        ]

    @property
    def rows(self) -> list:
        """List of dicts with the `row`, the `position`, the `word`, its `score` and the `target`."""
        return [
            {"row": row, "position": place, "word": word, "score": float(score), "target": target}
            for row, (words, scores, target) in enumerate(zip(self.words, self.word_scores, self.target))
            for place, (word, score) in enumerate(zip(words, scores))
        ]

    def _shown(self):
        """Yields for each row that is shown a heading, the words, their scores, and these as parts of the largest."""
        for row, (words, scores) in enumerate(zip(self.words[:_ROWS], self.word_scores)):
            heading = [f"{self.target[row]}: {self.prediction[row]:.3g}"]
            if self.baseline_prediction is not None:
                heading.append(f"baseline {self.baseline_prediction[row]:.3g}, error {self.delta[row]:.0e}")
            if others := self.scores[row].sum() - scores.sum():
                heading.append(f"special tokens {others:+.2g}")
            yield ", ".join(heading), words, scores, scores / max(np.abs(scores).max(initial=0), 1e-12)

    def __str__(self):
        colors, lines = sys.stdout.isatty() and "NO_COLOR" not in os.environ, []
        for row, (heading, words, scores, parts) in enumerate(self._shown()):
            shown = []
            for word, score, part in list(zip(words, scores, parts))[: page.WORDS]:
                word, shade = shorten(word, _LETTERS), 5 - round(4 * abs(part))
                # Of 256 colors, from white to blue or red.
                code = 21 + 42 * shade if part > 0 else 196 + 7 * shade
                shown.append(f"\033[38;5;16;48;5;{code}m{word}\033[0m" if colors else f"{word}({score:+.2g})")
            shown += [f"… {len(words) - page.WORDS:,} more words"] if len(words) > page.WORDS else []
            lines += [f"[{row}] {shorten(heading, 2 * _LETTERS)}", "    " + " ".join(shown)]
        more = len(self.words) - _ROWS
        return "\n".join([*lines, *([f"... {more:,} more rows"] if more > 0 else [])])

    __repr__ = __str__

    def _repr_html_(self):
        found = []
        for heading, words, scores, parts in self._shown():
            colors = [f"rgba({'0, 114, 178' if part > 0 else '213, 94, 0'}, {0.75 * abs(part):.2f})" for part in parts]
            found += [page.text_spans([heading], [""])]
            found += [page.text_spans(words, colors, [f"{score:+.4f}" for score in scores])]
        more = len(self.words) - _ROWS
        found += [f"<p>… {more:,} more rows</p>"] if more > 0 else []
        note = "<p>Blue words add to the output, red ones take from it. The score of a word is under the pointer.</p>"
        return "\n".join([f"<p>{self._notes()[0]}</p>", *found, note])

    def plot(self, row: int = 0) -> Any:
        """Plots the scores of the words of a row as bars, the 60 highest and lowest of a long text.

        Args:
            row: Integer. Defaults to `0`.

        Returns:
            A `matplotlib.figure.Figure`.

        Raises:
            ImportError: If matplotlib is not installed.
            ValueError: If there is no such row.
        """
        expect(0 <= row < len(self.words), f"`row` must be from 0 to {len(self.words) - 1}.", row=row)
        chosen = np.sort(np.argsort(-np.abs(self.word_scores[row]), kind="stable")[:_BARS])
        scores, words = self.word_scores[row][chosen], [shorten(self.words[row][place], 28) for place in chosen]
        axes = new_axes(5.0, 1.0 + 0.26 * len(words))
        axes.barh(range(len(words)), scores, color=[BLUE if score > 0 else RED for score in scores])
        axes.set_yticks(range(len(words)), words, parse_math=False)
        axes.set(ylim=(len(words) - 0.5, -0.5))
        axes.set_xlabel(f"score for {shorten(self.target[row], 60)}", parse_math=False)
        return axes.figure

    @expects(fractions=list_of(FRACTION, 1), seeds=integer(1), seed=integer(0))
    def deletion_curve(
        self, fractions: Sequence[float] = (0.1, 0.2, 0.3, 0.4, 0.5), *, seeds: int = 5, seed: int = 0
    ) -> Result:
        """Returns how far the output falls as the words with the highest scores are hidden, or deleted.

        Scores that name the words that the model uses lower the output faster than random words do. Methods that delete
        words delete them here, too. Others replace their tokens by those of the baseline.

        Args:
            fractions: List of floats. Parts of the words of each row that are hidden. Defaults to 10% to 50%.
            seeds: Integer. Number of random orders to compare with. Defaults to `5`.
            seed: Integer. Seed of the first one. Defaults to `0`.

        Returns:
            A table, whose `rows` are dicts with a `fraction`, the mean `drop`, that of `random` words, and intervals of
            the drop and of the difference. The last `fraction` is `"mean"`, the area.

        Example:
        ```python
        model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=["bad", "good"])
        print(keras_transfer.analysis.attribute(model, ["A fine film."], steps=10).deletion_curve(seeds=2))
        ```

        Source: DeYoung et al. 2020, "ERASER", comprehensiveness. https://arxiv.org/abs/1911.03429
        """
        rows, words = np.arange(len(self.words)), [np.unique(owner[owner >= 0]) for owner in self.owners]
        whole = self.without(rows, [[] for _ in rows])  # `prediction` may come from another trace.

        def falls(orders):
            """Returns an array `[fractions and their mean, rows]`."""
            found = []
            for fraction in fractions:
                chosen = [order[: int(np.ceil(fraction * len(order)))] for order in orders]
                places = [np.flatnonzero(np.isin(owner, own)) for owner, own in zip(self.owners, chosen)]
                found.append(whole - self.without(rows, places))
            return np.stack([*found, np.mean(found, axis=0)])

        drops = falls([own[np.argsort(-scores[own], kind="stable")] for own, scores in zip(words, self.word_scores)])
        randoms = [np.random.default_rng([seed, number]) for number in range(seeds)]
        others = np.mean([falls([random.permutation(own) for own in words]) for random in randoms], axis=0)
        found = []
        for fraction, own, other in zip([*fractions, "mean"], drops, others):
            values = [own.mean(), *bootstrap_interval(own), other.mean(), *bootstrap_interval(own - other)]
            names = ("drop", "low", "high", "random", "gain_low", "gain_high")
            found.append({"fraction": fraction, **dict(zip(names, map(float, values)))})
        columns = {
            "hidden words": ("fraction", ""),
            "drop": ".3f",
            "95% interval": (("low", "high"), ".3f"),
            "random words": ("random", ".3f"),
            "95% interval of the difference": (("gain_low", "gain_high"), ".3f"),
        }
        return Result(found, columns, title="Deletion curve", index=("fraction",))
