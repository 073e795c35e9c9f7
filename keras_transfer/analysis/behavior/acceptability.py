"""How a language model judges sentences: scores, minimal pairs, and words that could stand in place of another."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_transfer.analysis.behavior.rates import Rates
from keras_transfer.core.expect import TEXT, expect, expects, integer
from keras_transfer.datasets import MinimalPairs
from keras_transfer.tasks import BidirectionalLM, CausalLM, MaskedLM
from keras_transfer.text import to_list

_SCORERS = (CausalLM, MaskedLM, BidirectionalLM)


class Pair(NamedTuple):
    """A minimal pair and how a model judges it.

    Attributes:
        good, bad: Strings. The sentences.
        margin: Float. Score of the good sentence minus score of the bad one.
        phenomenon: String. Group of the pair.
    """

    good: str
    bad: str
    margin: float
    phenomenon: Any


@expects(batch_size=integer(1))
def sentence_scores(
    model: Any,
    texts: Any,
    *,
    prefix: str | int | None = "auto",
    batch_size: int = 64,
) -> np.ndarray:
    """Returns how likely sentences are under a language model.

    - `CausalLM`: the sum of the log-likelihoods of all tokens. The first one is predicted from a token in front of the
      text, as in the Language Model Evaluation Harness.
    - `MaskedLM`: the pseudo-log-likelihood. Each token is masked alone and predicted from all others.
    - `BidirectionalLM`: the sum of the log-likelihoods of both directions.

    Scores are sums, so longer sentences are less likely. Equal sentences are scored once.

    Args:
        model: One of these tasks, or a function from a list of strings to their scores, such as
            `lambda texts: model.score(texts, within_word=True).log_likelihoods`.
        texts: A string, or a list, array or table column of strings.
        prefix: String, integer or `None`. Token in front of each text, for a `CausalLM`, as in its `score`. Defaults to
            `"auto"`.
        batch_size: Integer. Number of rows in a batch. Defaults to `64`.

    Returns:
        Float64 array `[texts]`, natural logarithms.

    Raises:
        ValueError: If `model` is no language model, or if a text is empty or too long.

    Example:
    ```python
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "film", "ends", "end"]
    encoder = keras_transfer.encoders.BertEncoder(9, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16)
    model = keras_transfer.tasks.MaskedLM(encoder, keras_transfer.text.BertPreprocessor(words))
    keras_transfer.analysis.sentence_scores(model, ["the film ends", "the film end"])
    ```

    Source: https://arxiv.org/abs/1910.14659
    """
    is_function = callable(model) and not isinstance(model, keras.layers.Layer)
    expect(
        is_function or isinstance(model, _SCORERS),
        "`model` must be a `CausalLM`, a `MaskedLM` or a `BidirectionalLM`, whose head predicts tokens, or a function "
        "from texts to scores.",
        model=model,
    )
    texts = to_list(texts)
    different = list(dict.fromkeys(texts))
    if is_function:
        found = np.asarray(model(different), "float64")
        rule = "The function must return one score for each text."
        expect(found.shape == (len(different),), rule, shape=found.shape, texts=len(different))
    else:
        options = {"prefix": prefix} if isinstance(model, CausalLM) else {}
        found = model.score(different, batch_size=batch_size, **options).log_likelihoods
        found = found.sum(axis=1) if isinstance(model, BidirectionalLM) else found
    place = {text: index for index, text in enumerate(different)}
    return found[[place[text] for text in texts]]


@expects(batch_size=integer(1))
def minimal_pairs(
    model: Any,
    pairs: MinimalPairs | Mapping[str, MinimalPairs],
    *,
    by: Sequence[Any] | None = None,
    against: Any = None,
    prefix: str | int | None = "auto",
    batch_size: int = 64,
) -> "PairScores":
    """Returns how often a language model prefers the acceptable sentence of a pair.

    Both sentences are scored as a whole, as in BLiMP. A random model prefers the good one in half of the pairs.

    Args:
        model: Language model, or a function from texts to scores, as for `sentence_scores`.
        pairs: `MinimalPairs`, such as from `datasets.load_blimp`, or a dict of them, such as of a whole folder. The
            accuracy is computed for each phenomenon, or for each entry of a dict.
        by: List or array of values to group the pairs by instead. Defaults to `None`.
        against: Another model, for the accuracy before. Defaults to `None`.
        prefix: String, integer or `None`. Token in front of each text, for a `CausalLM`. Defaults to `"auto"`.
        batch_size: Integer. Number of rows in a batch. Defaults to `64`.

    Returns:
        `PairScores`.

    Raises:
        ValueError: If the columns differ in length, if the sentences of a pair are equal, or if `model` is no language
            model.

    Example:
    ```python
    pairs = keras_transfer.datasets.MinimalPairs(["the film ends"], ["the film end"], ["agreement"])
    print(keras_transfer.analysis.minimal_pairs(lambda texts: [-len(text) for text in texts], pairs))
    ```

    Source: https://arxiv.org/abs/1912.00582
    """
    if isinstance(pairs, Mapping):
        names = [name for name, each in pairs.items() for _ in each.good]
        good, bad = ([text for each in pairs.values() for text in each[part]] for part in (0, 1))
        pairs = MinimalPairs(good, bad, names)
    groups = pairs.phenomena if by is None else by
    lengths = {"good": len(pairs.good), "bad": len(pairs.bad), "phenomena" if by is None else "by": len(groups)}
    expect(len(set(lengths.values())) == 1, "All columns must have one value for each pair.", **lengths)
    expect(lengths["good"], "Expected at least one pair.", received="no pairs")
    for place, (good, bad) in enumerate(zip(pairs.good, pairs.bad)):
        expect(
            good != bad, "The sentences of a pair must differ.", received=f"{good!r:.200} twice, at position {place}"
        )

    def margins(scored):
        # The sentences of a pair are neighbors, so that a `MaskedLM` finds their equal rows.
        texts = [text for pair in zip(pairs.good, pairs.bad) for text in pair]
        scores = sentence_scores(scored, texts, prefix=prefix, batch_size=batch_size).reshape(-1, 2)
        return scores[:, 0] - scores[:, 1]

    return PairScores(pairs, list(groups), margins(model), None if against is None else margins(against))


class PairScores(Rates):
    """How often a language model prefers the acceptable sentence of a minimal pair, which `minimal_pairs` returns.

    Args:
        pairs: `MinimalPairs`.
        groups: List with the phenomenon, or another value, of each pair.
        margins: Float array `[pairs]`. Score of the good sentence minus score of the bad one.
        before: Float array `[pairs]`. The margins of another model. Defaults to `None`.

    Attributes:
        rows: List of dicts, one for each phenomenon and one for `"all"`, with the number of `pairs`, the number of
            `ties`, each of which counts as half, and `accuracy` with its 95% interval `low` and `high` (Wilson). With
            another model, `before` is its accuracy, and `difference` has the interval `difference_low` and
            `difference_high` (Newcombe, for pairs).
        accuracy: Float. The accuracy over all pairs.

    Example:
    ```python
    pairs = keras_transfer.datasets.MinimalPairs(["the films end"], ["the film end"], ["agreement"])
    scores = keras_transfer.analysis.minimal_pairs(lambda texts: [len(text) for text in texts], pairs)
    scores.accuracy  # 1.0
    ```
    """

    title = "Minimal pairs"
    index, names = ("phenomenon",), ("phenomenon", "pairs", "ties")

    def __init__(
        self, pairs: MinimalPairs, groups: Sequence[Any], margins: np.ndarray, before: np.ndarray | None = None
    ) -> None:
        self.pairs, self.groups, self.margins, self.before = pairs, groups, margins, before
        found: dict[Any, list[int]] = {}
        for place, group in enumerate(groups):
            found.setdefault(group, []).append(place)
        everything = {} if len(found) == 1 else {"all": range(len(groups))}
        self.rows = [self._row(name, np.array(places)) for name, places in {**found, **everything}.items()]
        self.accuracy = self.rows[-1]["accuracy"]

    def _row(self, name, places):
        right = _right(self.margins[places])
        before = None if self.before is None else _right(self.before[places])
        row = {"phenomenon": name, "pairs": len(places), "ties": int((right == 0.5).sum())}
        return row | self._rate(right, before)

    def examples(self, count: int = 10) -> list[Pair]:
        """Returns the pairs that the model gets wrong, the most clearly wrong first.

        Args:
            count: Integer. Number of pairs at most. Defaults to `10`.

        Returns:
            List of `Pair`s, without ties.
        """
        worst = [place for place in np.argsort(self.margins, kind="stable")[:count] if self.margins[place] < 0]
        return [
            Pair(self.pairs.good[place], self.pairs.bad[place], float(self.margins[place]), self.groups[place])
            for place in worst
        ]

    def _notes(self):
        return ["A model that knows nothing prefers the good sentence in 0.500 of the pairs. Ties count as half."]


def _right(margins):
    """Returns 1 where the good sentence is more likely, 0 where the bad one is, and 0.5 for ties."""
    return (np.sign(margins) + 1) / 2


@expects(text=TEXT, word=TEXT, k=integer(1))
def substitutes(
    model: Any, text: str, word: str, *, candidates: Sequence[str] | None = None, k: int = 10
) -> list[tuple[str, float]]:
    """Returns the words that a language model prefers in place of a word of a sentence.

    Args:
        model: Language model, or a function from texts to scores, as for `sentence_scores`.
        text: String. The sentence, which contains `word` once.
        word: String. The word to replace.
        candidates: List of strings. Words or phrases to compare. Defaults to `None`, for the most likely words of the
            vocabulary, which requires a `MaskedLM`.
        k: Integer. Number of words to return at most. Defaults to `10`.

    Returns:
        List of `(candidate, difference)`, the most likely first. `difference` is the log-likelihood of the changed
        sentence minus that of the original one: if it is positive, the model prefers the candidate.

    Raises:
        ValueError: If `text` does not contain `word` exactly once, or if `candidates` are required.

    Example:
    ```python
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "film", "ends", "begins"]
    encoder = keras_transfer.encoders.BertEncoder(9, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16)
    model = keras_transfer.tasks.MaskedLM(encoder, keras_transfer.text.BertPreprocessor(words))
    keras_transfer.analysis.substitutes(model, "the film ends", "ends", k=2)
    ```
    """
    parts = re.split(rf"(?<!\w){re.escape(word)}(?!\w)", text)
    expect(len(parts) == 2, "`text` must contain `word` exactly once.", word=word, text=text)
    if candidates is None:
        rule = "`candidates` are required, since only a `MaskedLM` finds words by itself."
        expect(isinstance(model, MaskedLM), rule, model=model)
        preprocessor = model.preprocessor
        wanted = min(4 * k + 10, preprocessor.vocabulary_size)  # Some tokens are no words.
        [[found]] = model.fill_mask([model.reader.mask_token.join(parts)], k=wanted)
        starts, ids = preprocessor.tokenizer.word_starts(), [preprocessor.token_to_id(token) for token, _ in found]
        texts = [preprocessor.detokenize([[id]]).numpy()[0].decode("utf-8").strip() for id in ids if starts[id]]
        candidates = [each for each in dict.fromkeys(texts) if each.isalpha() and each.lower() != word.lower()][:k]
    original, *found = sentence_scores(model, [text, *(each.join(parts) for each in candidates)])
    order = np.argsort(-np.array(found), kind="stable")[:k]
    return [(candidates[place], float(found[place] - original)) for place in order]
