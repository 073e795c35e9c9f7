"""How a language model judges sentences: scores, minimal pairs, and words that could stand in place of another."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_transfer.analysis.result import Result
from keras_transfer.analysis.scores import rate_columns, rate_of
from keras_transfer.core.expect import TEXT, NotApplicableError, expect, expects, instance_of, integer, list_of
from keras_transfer.datasets import MinimalPairs
from keras_transfer.objectives import word_starts_of
from keras_transfer.tasks import BidirectionalLM, CausalLM, MaskedLM
from keras_transfer.text import to_list

_TOGETHER = 2048  # Number of sentences that are scored together.


@expects(batch_size=integer(1))
def sentence_scores(model: Any, texts: Any, *, batch_size: int = 64) -> np.ndarray:
    """Returns how likely sentences are under a language model.

    - `CausalLM`: the sum of the log-likelihoods of all tokens. The first one is predicted from a token in front of the
      text, as in the Language Model Evaluation Harness (`prefix="auto"` of `score`), if the vocabulary has one.
    - `MaskedLM`: the pseudo-log-likelihood. Each token is masked alone and predicted from all others.
    - `BidirectionalLM`: the sum of the log-likelihoods of both directions.

    Scores are sums, so longer sentences are less likely. Equal sentences are scored once, and a `CausalLM` multiplies
    equal beginnings of sentences with the vocabulary once.

    Args:
        model: One of these tasks, or a function from a list of strings to their scores, such as
            `lambda texts: model.score(texts, within_word=True).log_likelihoods`.
        texts: A string, or a list, array or table column of strings.
        batch_size: Integer. Number of rows in a batch of a task. Defaults to `64`.

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
    is_task = isinstance(model, keras.layers.Layer)
    rule = "`model` must be a `CausalLM`, a `MaskedLM` or a `BidirectionalLM`, or a function."
    fits = isinstance(model, (CausalLM, MaskedLM, BidirectionalLM)) if is_task else callable(model)
    expect(fits, rule, error=NotApplicableError, model=model)
    texts = to_list(texts)
    different = list(dict.fromkeys(texts))
    if is_task:
        options = {"prefix": "auto"} if isinstance(model, CausalLM) else {}
        found = model.score(different, batch_size=batch_size, **options).log_likelihoods
        found = found.sum(axis=1) if isinstance(model, BidirectionalLM) else found
    else:
        found = np.asarray(model(different), "float64")
        rule = "The function must return one score for each text."
        expect(found.shape == (len(different),), rule, shape=found.shape, texts=len(different))
        expect(not np.isnan(found).any(), "The function must return numbers.", scores=found)
    place = {text: index for index, text in enumerate(different)}
    return found[[place[text] for text in texts]]


@expects(pairs=instance_of((MinimalPairs, Mapping), "`MinimalPairs`, or a dict of them"), batch_size=integer(1))
def minimal_pairs(
    model: Any,
    pairs: MinimalPairs | Mapping[str, MinimalPairs],
    *,
    against: Any = None,
    batch_size: int = 64,
    verbose: str | int = "auto",
) -> Result:
    """Returns how often a language model prefers the acceptable sentence of a pair.

    Both sentences are scored as a whole, as in BLiMP. A random model prefers the good one in half of the pairs.

    Args:
        model: Language model, or a function from texts to scores, as for `sentence_scores`. It gets the different
            sentences of all pairs in several parts.
        pairs: `MinimalPairs`, such as from `datasets.load_blimp`, or a dict of them.
        against: Another model, for the accuracy before. Defaults to `None`.
        batch_size: Integer. Number of rows in a batch of a task. Defaults to `64`.
        verbose: `"auto"`, `0` (silent), `1` (progress bar) or `2` (one line). Defaults to `"auto"`.

    Returns:
        A `Result` with a row for each `phenomenon`, or entry of a dict, and for `"all"`: the number of `pairs` and of
        `ties`, which count as half, `accuracy` with its 95% interval `low` to `high` (Wilson), and `examples`, a list
        of `(good, bad, margin)` for all pairs that the model gets wrong, the worst first. With another model, `before`
        is its accuracy, and `difference` has the interval `difference_low` to `difference_high` (Newcombe).

    Raises:
        ValueError: If the columns differ in length, if there are no pairs, or if `model` is no language model.

    Example:
    ```python
    pairs = keras_transfer.datasets.MinimalPairs(["the films end"], ["the film end"], ["agreement"])
    found = keras_transfer.analysis.minimal_pairs(lambda texts: [len(text) for text in texts], pairs)
    found.rows[-1]["accuracy"]  # 1.0
    ```

    Source: https://arxiv.org/abs/1912.00582
    """
    if isinstance(pairs, Mapping):
        names = [name for name, each in pairs.items() for _ in each.good]
        good, bad = ([text for each in pairs.values() for text in each[part]] for part in (0, 1))
        pairs = MinimalPairs(good, bad, names)
    lengths = dict(zip(("good", "bad", "phenomena"), map(len, pairs)))
    rule = "All columns must have one value for each pair, and there must be one pair."
    expect(len({*lengths.values()}) == 1 and lengths["good"], rule, **lengths)
    good, bad, phenomena = pairs
    # The sentences of a pair are neighbors, so that a `MaskedLM` finds their equal rows.
    texts = [*dict.fromkeys(text for pair in zip(good, bad) for text in pair)]
    models, margins = [each for each in (model, against) if each is not None], []
    options = {"verbose": 1 if verbose == "auto" else verbose, "unit_name": "sentence"}
    bar = keras.utils.Progbar(len(models) * len(texts), **options)
    for each in models:
        parts = (texts[start : start + _TOGETHER] for start in range(0, len(texts), _TOGETHER))
        found = []
        for part in parts:
            found.append(sentence_scores(each, part, batch_size=batch_size))
            bar.add(len(part))
        scores = dict(zip(texts, np.concatenate(found)))
        margins.append(np.array([scores[one] - scores[other] for one, other in zip(good, bad)]))
    groups: dict[Any, list[int]] = {}
    for place, phenomenon in enumerate(phenomena):
        groups.setdefault(phenomenon, []).append(place)
    rows = []
    for phenomenon, places in {**groups, **({"all": [*range(len(good))]} if len(groups) > 1 else {})}.items():
        row = {"phenomenon": phenomenon, "pairs": len(places), "ties": int((margins[0][places] == 0).sum())}
        row |= rate_of("accuracy", *((np.sign(each[places]) + 1) / 2 for each in margins))
        worst = sorted((place for place in places if margins[0][place] < 0), key=margins[0].__getitem__)
        rows.append(row | {"examples": [(good[place], bad[place], float(margins[0][place])) for place in worst]})
    note = "A model that knows nothing prefers the good sentence in 0.500 of the pairs. Ties count as half."
    columns = {"phenomenon": "", "pairs": "", "ties": "", **rate_columns("accuracy")}
    return Result(rows, columns, title="Minimal pairs", index=("phenomenon",), notes=[note])


@expects(text=TEXT, word=TEXT, candidates=list_of(TEXT), k=integer(1))
def substitutes(
    model: Any, text: str, word: str, *, candidates: Sequence[str] | None = None, k: int = 10
) -> list[tuple[str, float]]:
    """Returns the words that a language model prefers in place of a word of a sentence.

    Args:
        model: Language model, or a function from texts to scores, as for `sentence_scores`.
        text: String. The sentence, which contains `word` once.
        word: String. The word to replace.
        candidates: List of strings. Words or phrases. Defaults to `None`, for the likeliest words of a `MaskedLM`.
        k: Integer. Number of words to return at most. Defaults to `10`.

    Returns:
        List of `(candidate, difference)`, the likeliest first: the log-likelihood of the changed sentence minus that of
        the original one.

    Raises:
        ValueError: If `text` does not contain `word` exactly once, or if `candidates` are required.

    Example:
    ```python
    by_length = lambda texts: [-len(text) for text in texts]
    keras_transfer.analysis.substitutes(by_length, "the film ends", "ends", candidates=["end"])  # [("end", 1.0)]
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
        starts, ids = word_starts_of(preprocessor), [preprocessor.token_to_id(token) for token, _ in found]
        texts = [preprocessor.detokenize([[id]]).numpy()[0].decode("utf-8").strip() for id in ids if starts[id]]
        candidates = [each for each in dict.fromkeys(texts) if each.isalpha() and each.lower() != word.lower()][:k]
    original, *found = sentence_scores(model, [text, *(each.join(parts) for each in candidates)])
    order = np.argsort(-np.array(found), kind="stable")[:k]
    return [(candidates[place], float(found[place] - original)) for place in order]
