"""Exact match and F1 of answers, with the rules of the official script of SQuAD."""

import math
import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Any

import keras

from keras_transfer.core.expect import expect
from keras_transfer.metrics.text_metric import TextMetric

ARTICLES = re.compile(r"\b(a|an|the)\b")
WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def squad_scores(y_true: Any, y_pred: Any, *, no_answer_scores: Sequence[float] | None = None) -> dict:
    """Returns exact match and F1 of predicted answers in percent, as the official script of SQuAD 2.0 does.

    Both ignore case, punctuation, articles and white space. A prediction is compared with each of the right answers,
    and the best score counts. A question without an answer has the right answer `""`. For questions with answers, the
    scores equal those of SQuAD 1.1's script, unless an answer consists of articles and punctuation only.

    Args:
        y_true: List of lists of strings, or of objects with a string `text`, such as those that
            `keras_transfer.datasets.load_squad` returns. The right answers to each question, or an empty list if it has
            none.
        y_pred: List of strings. The predicted answer of each question, `""` for none.
        no_answer_scores: List of floats, higher if a question is less likely to have an answer. If given, the result
            contains the best thresholds. A prediction whose score is above the threshold becomes `""`. The threshold is
            `-inf` if all predictions should become `""`, for which the official script returns 0. Defaults to `None`.

    Returns:
        A dict with `"exact_match"`, `"f1"` and `"total"`, the number of questions. If some questions have no answer, it
        also has these three with the prefixes `"no_answer_"` and (if others have one) `"has_answer_"`. With
        `no_answer_scores`, it has `"best_exact_match"`, `"best_exact_match_threshold"`, `"best_f1"` and
        `"best_f1_threshold"`.

    Raises:
        ValueError: If there are no questions, if the numbers of questions differ, or if an answer has an invalid type.

    Example:
    ```python
    answers = [["Denver Broncos", "The Denver Broncos!"], []]
    scores = keras_transfer.metrics.squad_scores(answers, ["the Broncos", ""])
    scores["exact_match"], scores["f1"], scores["has_answer_f1"]  # (50.0, 83.33..., 66.66...)
    ```

    Source: Rajpurkar et al., "Know What You Don't Know: Unanswerable Questions for SQuAD", 2018; the evaluation scripts
    at https://rajpurkar.github.io/SQuAD-explorer.
    """
    y_true = [row if isinstance(row, str) else [getattr(each, "text", each) for each in row] for row in y_true]
    _check(y_true, y_pred, no_answer_scores)
    exact, f1 = zip(*(_best(right, given) for right, given in zip(y_true, y_pred)))
    has_answer = [bool(right) for right in y_true]
    scores = _means(exact, f1, range(len(y_true)))
    if not all(has_answer):
        for prefix, wanted in (("has_answer_", True), ("no_answer_", False)):
            rows = [row for row, has in enumerate(has_answer) if has == wanted]
            scores.update({prefix + key: value for key, value in _means(exact, f1, rows).items() if rows})
    if no_answer_scores is not None:
        for key, values in (("best_exact_match", exact), ("best_f1", f1)):
            scores[key], scores[f"{key}_threshold"] = _best_threshold(values, has_answer, y_pred, no_answer_scores)
    return scores


@keras.saving.register_keras_serializable(package="keras_transfer")
class Squad(TextMetric):
    """Exact match and F1 of generated answers in percent, as `squad_scores` computes them.

    Args:
        name: String. Name of the metric. The results are named `"exact_match"` and `"f1"`. Defaults to `"squad"`.

    Call arguments:
        - `y_true`: List `[rows]` with the answer to each question, a string, or with a list of several answers. An
          empty list stands for a question without an answer, to which the right text is `""`.
        - `y_pred`: List of strings `[rows]`. The generated answers.

    Raises:
        ValueError: If the texts are invalid.

    Example:
    ```python
    squad = keras_transfer.metrics.Squad()
    squad(["Denver Broncos", ["Paris", "Paris, France"]], ["the Broncos", "paris"])
    # {"exact_match": 50.0, "f1": 83.33...}
    ```

    Source: See `squad_scores`.
    """

    result_names = ("exact_match", "f1")  # type: ignore[assignment]
    needs_references = False

    def __init__(self, *, name: str = "squad"):
        super().__init__(name)

    def score(self, y_true: Any, y_pred: Any) -> Any:
        scores = squad_scores(y_true, y_pred)
        return {each: scores[each] for each in self.result_names}


def _check(answers, predictions, no_answer_scores):
    counts = [len(column) for column in (answers, predictions, no_answer_scores) if column is not None]
    rule = "There must be one prediction for each of the questions, at least 1."
    expect(counts[0] and len(set(counts)) <= 1, rule, counts=counts)
    for row, (right, given) in enumerate(zip(answers, predictions)):
        if isinstance(right, str) or not all(isinstance(answer, str) for answer in right):
            raise ValueError(
                f"`y_true` must be a list of lists of strings, one for each question. Received: {right!r} at "
                f"position {row}"
            )
        if not isinstance(given, str):
            raise ValueError(f"`y_pred` must be a list of strings. Received: {given!r} at position {row}")


def _best(answers, prediction):
    """Returns the highest exact match and F1 of a prediction over the right answers."""
    rights = [words for words in map(_words, answers) if words] or [[]]
    given = _words(prediction)
    return max(right == given for right in rights), max(_f1(right, given) for right in rights)


def _words(text):
    """Returns the words of an answer without case, punctuation and articles."""
    return ARTICLES.sub(" ", text.lower().translate(WITHOUT_PUNCTUATION)).split()


def _f1(right, given):
    if not right or not given:
        return float(right == given)
    return 2 * sum((Counter(right) & Counter(given)).values()) / (len(right) + len(given))


def _means(exact, f1, rows):
    exact, f1 = (100 * sum(values[row] for row in rows) / max(len(rows), 1) for values in (exact, f1))
    return {"exact_match": exact, "f1": f1, "total": len(rows)}


def _best_threshold(scores, has_answer, predictions, no_answer_scores):
    """Returns the best mean score in percent, and the threshold that reaches it, `-inf` if no prediction is kept."""
    current = best = has_answer.count(False)
    threshold = -math.inf
    for row in sorted(range(len(scores)), key=lambda row: no_answer_scores[row]):
        current += scores[row] if has_answer[row] else -bool(predictions[row])
        if current > best:
            best, threshold = current, float(no_answer_scores[row])
    return 100 * best / len(scores), threshold
