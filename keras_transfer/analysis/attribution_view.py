"""The scores that `attribute` returns: as a table, as colored texts, and tested by hiding the words that score most."""

import dataclasses
import functools
import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_transfer.analysis import page
from keras_transfer.analysis.result import Result
from keras_transfer.analysis.significance import bootstrap_interval
from keras_transfer.analysis.tables import visible
from keras_transfer.core.expect import FRACTION, expect, expects, integer, list_of, one_of
from keras_transfer.core.files import atomic_file
from keras_transfer.core.plots import BLUE, RED, new_axes

_SHOWN = 20  # Number of rows that a text or a notebook shows.


@dataclasses.dataclass(repr=False)
class Attributions(Result):
    """How much each token and each word adds to an output, which `attribute` returns.

    Printed, and in a notebook, it is the texts with colors: blue for words that add to the output, red for those that
    take from it.

    Attributes:
        method: String. The method.
        output: String, `"logit"` or `"probability"`.
        scores: List of float arrays `[tokens]`, one for each row. Special tokens have scores, too.
        prediction: Float array `[rows]`. The output for each row.
        removes: The rows, and the model that computes their outputs without some words.
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
    scores: list
    prediction: np.ndarray
    removes: Any = dataclasses.field(repr=False)
    baseline_prediction: np.ndarray | None = None
    delta: np.ndarray | None = None

    title = "Attributions"
    index = ("row", "position")

    @property
    def tokens(self) -> list:
        """List of lists of strings. The tokens of each row, which are words for methods that delete words."""
        return self.removes.question.tokens

    @property
    def words(self) -> list:
        """List of lists of strings. The words of each row."""
        return self.removes.question.words

    @property
    def target(self) -> list:
        """List of strings. What the output of each row stands for."""
        return self.removes.question.targets

    @functools.cached_property
    def word_scores(self) -> list:
        """List of float arrays `[words]`. The sum of the scores of the tokens of each word."""
        return [
            np.bincount(owner[owner >= 0], scores[owner >= 0], len(words))
            for owner, scores, words in zip(self.removes.question.owners, self.scores, self.words)
        ]

    @property
    def rows(self) -> list:
        """List of dicts with the `row`, the `position`, the `word`, its `score` and the `target`."""
        return [
            {"row": row, "position": place, "word": word, "score": float(score), "target": target}
            for row, (words, scores, target) in enumerate(zip(self.words, self.word_scores, self.target))
            for place, (word, score) in enumerate(zip(words, scores))
        ]

    def _cells(self):
        rows = [[str(r["row"]), r["target"], r["word"], f"{r['score']:+.4f}"] for r in self.rows]
        return ["row", "target", "word", "score"], rows

    def _notes(self):
        return [f"{self.method}, {self.output}"]

    def _heading(self, row):
        parts = [f"{self.target[row]}: {self.prediction[row]:.3g}"]
        if self.baseline_prediction is not None:
            parts.append(f"baseline {self.baseline_prediction[row]:.3g}, error {self.delta[row]:.0e}")
        others = self.scores[row].sum() - self.word_scores[row].sum()
        return ", ".join([*parts, *([f"special tokens {others:+.2g}"] if others else [])])

    def _parts(self, row):
        """Returns the score of each word as a part of the largest of its row."""
        scores = self.word_scores[row]
        return scores / max(np.abs(scores).max(initial=0), 1e-12)

    def __str__(self):
        colors = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        lines = []
        for row, words in enumerate(self.words[:_SHOWN]):
            shown = []
            for word, part, score in zip(words, self._parts(row), self.word_scores[row]):
                word = visible(word).replace("\n", " ")
                if not colors:
                    shown.append(f"{word}({score:+.2g})")
                else:  # Of 256 colors, from white to blue or red.
                    shade = round(4 * abs(part))
                    code = 16 + 36 * (5 - shade) + 6 * (5 - shade) + 5 if part > 0 else 16 + 180 + 7 * (5 - shade)
                    shown.append(f"\033[38;5;16;48;5;{code}m{word}\033[0m")
            lines += [f"[{row}] {visible(self._heading(row))}", "    " + " ".join(shown)]
        more = len(self.words) - _SHOWN
        return "\n".join([*lines, *([f"... {more:,} more rows"] if more > 0 else [])])

    __repr__ = __str__

    def _repr_html_(self):
        parts = []
        for row, words in enumerate(self.words[:_SHOWN]):
            rgb = ["0, 114, 178" if part > 0 else "213, 94, 0" for part in self._parts(row)]
            shades = [f"rgba({color}, {0.75 * abs(part):.2f})" for color, part in zip(rgb, self._parts(row))]
            titles = [f"{score:+.4f}" for score in self.word_scores[row]]
            heading = page.text_spans([self._heading(row)], [""])
            parts.append(f"{heading}\n{page.text_spans(words, shades, titles)}")
        more = len(self.words) - _SHOWN
        return "\n".join([*parts, *([f"<p>… {more:,} more rows</p>"] if more > 0 else [])])

    def to_html(self, path: Any) -> None:
        """Writes the colored texts as a page, one HTML file without scripts that opens offline.

        Args:
            path: String or path of the file.
        """
        note = "<p>Blue words add to the output, red ones take from it. The score of a word is under the pointer.</p>"
        body = f"<p>{self.method}, {self.output}</p>\n{self._repr_html_()}\n{note}"
        with atomic_file(path) as file:
            file.write(page.document(self.title, body).encode("utf-8", "replace"))

    def plot(self, row: int = 0) -> Any:
        """Plots the score of each word of a row as a bar.

        Args:
            row: Integer. Defaults to `0`.

        Returns:
            A `matplotlib.figure.Figure`.

        Raises:
            ImportError: If matplotlib is not installed.
            ValueError: If there is no such row.
        """
        expect(0 <= row < len(self.words), f"`row` must be from 0 to {len(self.words) - 1}.", row=row)
        words, scores = self.words[row], self.word_scores[row]
        axes = new_axes(5.0, 1.0 + 0.26 * len(words))
        axes.barh(range(len(words)), scores, color=[BLUE if score > 0 else RED for score in scores])
        axes.set_yticks(range(len(words)), [visible(word) for word in words], parse_math=False)
        axes.set(ylim=(len(words) - 0.5, -0.5), xlabel=f"score for {visible(self.target[row])}")
        return axes.figure

    @expects(fractions=list_of(FRACTION, 1), against=one_of("random"), seeds=integer(1), seed=integer(0))
    def deletion_curve(
        self,
        fractions: Sequence[float] = (0.1, 0.2, 0.3, 0.4, 0.5),
        *,
        against: str | None = "random",
        seeds: int = 5,
        seed: int = 0,
    ) -> "DeletionCurve":
        """Returns how far the output falls as the words with the highest scores are hidden, or deleted.

        Scores that name the words that the model uses lower the output faster than random words do. Methods that delete
        words delete them here, too. Others replace their tokens by those of the baseline.

        Args:
            fractions: List of floats. Parts of the words of each row that are hidden. Defaults to 10% to 50%.
            against: `"random"` for random words beside them, or `None`. Defaults to `"random"`.
            seeds: Integer. Number of random orders. Defaults to `5`.
            seed: Integer. Seed of the first one. Defaults to `0`.

        Returns:
            `DeletionCurve`.

        Example:
        ```python
        model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=["bad", "good"])
        print(keras_transfer.analysis.attribute(model, ["A fine film."], steps=10).deletion_curve(seeds=2))
        ```

        Source: DeYoung et al. 2020, "ERASER", comprehensiveness. https://arxiv.org/abs/1911.03429
        """
        owners, rows = self.removes.question.owners, np.arange(len(self.words))

        def falls(orders):
            found = []
            for fraction in fractions:
                chosen = [order[: int(np.ceil(fraction * len(order)))] for order in orders]
                places = [np.flatnonzero(np.isin(owner, words)) for owner, words in zip(owners, chosen)]
                found.append(self.prediction - self.removes.outputs(rows, places))
            return np.stack(found, axis=1)

        drops = falls([np.argsort(-scores, kind="stable") for scores in self.word_scores])
        if against is None:
            return DeletionCurve(list(fractions), drops)
        randoms = [np.random.default_rng([seed, number]) for number in range(seeds)]
        others = [falls([random.permutation(len(words)) for words in self.words]) for random in randoms]
        return DeletionCurve(list(fractions), drops, np.mean(others, axis=0))


@dataclasses.dataclass(repr=False)
class DeletionCurve(Result):
    """How far an output falls without the words that score most, which `Attributions.deletion_curve` returns.

    Attributes:
        fractions: List of floats. Parts of the words that are hidden.
        drops: Float array `[rows, fractions]`. The output before minus the output after.
        random: Float array of the same shape, the mean over random words, or `None`.

    Example:
    ```python
    curve = keras_transfer.analysis.DeletionCurve([0.1, 0.2], np.array([[1.0, 1.5], [0.8, 0.9]]))
    curve.rows[0]["drop"]  # 0.9
    ```
    """

    fractions: list
    drops: np.ndarray
    random: np.ndarray | None = None

    title = "Deletion curve"
    index = ("fraction",)

    @property
    def rows(self) -> list:
        """List of dicts: the mean drop of each fraction and of all (`"mean"`, the area), and its interval."""
        found = []
        for place, fraction in enumerate([*self.fractions, "mean"]):
            part = slice(place, place + 1) if place < len(self.fractions) else slice(None)
            own = self.drops[:, part].mean(axis=1)
            low, high = bootstrap_interval(own)
            found.append({"fraction": fraction, "drop": float(own.mean()), "low": float(low), "high": float(high)})
            if self.random is not None:
                other = self.random[:, part].mean(axis=1)
                low, high = bootstrap_interval(own - other)
                found[-1] |= {"random": float(other.mean()), "gain_low": float(low), "gain_high": float(high)}
        return found

    def _cells(self):
        heads = ["hidden words", "drop", "95% interval"]
        heads += [] if self.random is None else ["random words", "95% interval of the difference"]
        cells = []
        for row in self.rows:
            name = row["fraction"] if isinstance(row["fraction"], str) else f"{row['fraction']:.0%}"
            cells.append([name, f"{row['drop']:.3f}", f"[{row['low']:.3f}, {row['high']:.3f}]"])
            if self.random is not None:
                cells[-1] += [f"{row['random']:.3f}", f"[{row['gain_low']:.3f}, {row['gain_high']:.3f}]"]
        return heads, cells

    def plot(self) -> Any:
        """Plots the mean drop by the part of the words that is hidden.

        Returns:
            A `matplotlib.figure.Figure`.

        Raises:
            ImportError: If matplotlib is not installed.
        """
        axes = new_axes()
        axes.plot(self.fractions, self.drops.mean(axis=0), label="highest scores", marker="o", color=BLUE)
        if self.random is not None:
            axes.plot(self.fractions, self.random.mean(axis=0), "s--", label="random words", color=RED)
        axes.set(xlabel="part of the words that is hidden", ylabel="drop of the output")
        axes.legend()
        return axes.figure
