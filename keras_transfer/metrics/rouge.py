"""ROUGE, the overlap of summaries with references, by the package rouge-score."""

import logging
import math
import re
from collections.abc import Sequence
from typing import Any

import keras

from keras_transfer.core.expect import expect
from keras_transfer.core.names import look_up
from keras_transfer.metrics.text_metric import TextMetric, missing_package

log = logging.getLogger("keras_transfer")

TYPES = ("rouge1", "rouge2", "rougeL", "rougeLsum")
LETTERS = re.compile(r"[a-z0-9]", re.IGNORECASE | re.ASCII)  # The package replaces all else by a space.


@keras.saving.register_keras_serializable(package="keras_transfer")
class Rouge(TextMetric):
    """ROUGE-1, ROUGE-2, ROUGE-L and ROUGE-Lsum: F-measures from 0 to 1, averaged over texts, by `rouge-score`.

    Of several references, the one with the highest F-measure counts. ROUGE-Lsum expects each sentence of a summary on a
    line of its own. The package ignores case and all characters except the letters a to z and digits, so that ROUGE of
    a text in another script is 0. A warning says so once. `Chrf` suits all scripts.

    Args:
        rouge_types: List of strings. Some of `"rouge1"` to `"rouge9"`, `"rougeL"` and `"rougeLsum"`. Defaults to
            `("rouge1", "rouge2", "rougeL", "rougeLsum")`.
        use_stemmer: Boolean. Whether words with the same English stem are equal, as in most papers on summaries.
            Defaults to `False`.
        name: String. Name of the metric. The results have the names of their types. Defaults to `"rouge"`.

    Call arguments:
        - `y_true`: List `[rows]` with the reference of each row, a string, or with a list of several references.
        - `y_pred`: List of strings `[rows]`. The generated text of each row.

    Raises:
        ImportError: If the package `rouge-score` is not installed.
        ValueError: If one of `rouge_types` is unknown or occurs twice, or if the texts are invalid.

    Example:
    ```python
    rouge = keras_transfer.metrics.Rouge(["rouge1", "rougeL"])
    rouge(["a dog barks"], ["a dog runs"])  # {"rouge1": 0.666..., "rougeL": 0.666...}
    ```

    Source: https://aclanthology.org/W04-1013
    """

    def __init__(self, rouge_types: Sequence[str] = TYPES, *, use_stemmer: bool = False, name: str = "rouge"):
        super().__init__(name)
        given = [rouge_types] if isinstance(rouge_types, str) else list(rouge_types)
        known = [*(f"rouge{order}" for order in range(1, 10)), "rougeL", "rougeLsum"]
        self.rouge_types = [look_up(each, known, "type of ROUGE") for each in given]
        rule = "`rouge_types` must be unique, at least one."
        expect(len(set(self.rouge_types)) == len(self.rouge_types) and self.rouge_types, rule, rouge_types=given)
        self.use_stemmer = use_stemmer
        try:
            from rouge_score.rouge_scorer import RougeScorer
        except ImportError as error:
            raise missing_package(type(self), "rouge-score", error) from error
        self._scorer = RougeScorer(self.rouge_types, use_stemmer=use_stemmer)
        self._warned = False

    @property
    def result_names(self) -> list[str]:
        return list(self.rouge_types)

    def score(self, y_true: Any, y_pred: Any) -> Any:
        self._warn_of_scripts(y_true)
        rows = [self._scorer.score_multi(references, text) for references, text in zip(y_true, y_pred)]
        return {each: math.fsum(row[each].fmeasure for row in rows) / len(rows) for each in self.rouge_types}

    def _warn_of_scripts(self, y_true):
        foreign = [row for row in y_true if all(each.strip() and not LETTERS.search(each) for each in row)]
        if foreign and not self._warned:
            self._warned = True
            log.warning(
                "ROUGE ignores all characters except a to z and digits, which %d of %d references do not have, such as "
                "%r. Use `metrics.Chrf` for other scripts.",
                len(foreign),
                len(y_true),
                foreign[0][0][:40],
            )
