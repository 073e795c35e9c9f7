"""Self-training: a task labels texts, and learns from the labels of which it is sure."""

import operator
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from keras_transfer.adaptation.fine_tuning import fine_tune
from keras_transfer.core.expect import FLAG, FRACTION, RATE, Rule, expect, expects, instance_of, integer, optional
from keras_transfer.tasks import ClassNames, TextClassifier
from keras_transfer.text import to_columns
from keras_transfer.training import TrainingCheckpoint

_AUGMENT = ("word_dropout", "tf_idf")
AUGMENT = Rule(
    f"one of {_AUGMENT}, a function of a text, or a list of texts",
    lambda value: value in _AUGMENT if isinstance(value, str) else callable(value) or hasattr(value, "__len__"),
    ("dropout", 1),
)


@expects(augment=AUGMENT, rate=RATE)
def augment_texts(
    texts: Any, augment: str | Callable | Sequence = "word_dropout", *, rate: float = 0.1, seed: int | None = None
) -> list[str]:
    """Returns a changed version of each text, which should still have the same label.

    Args:
        texts: List, array or column of strings.
        augment: `"word_dropout"`, which drops words; `"tf_idf"`, which replaces words that say little about the text
            with words that say little about others; a function of a text that returns another; or a list with a text
            for each, such as a back-translation. Defaults to `"word_dropout"`.
        rate: Float between 0 and 1. Fraction of the words that are dropped or replaced, on average. Defaults to `0.1`.
        seed: Integer. Seed of what is drawn. Defaults to `None`, which follows `keras.utils.set_random_seed`.

    Returns:
        List of strings.

    Raises:
        ValueError: If `texts` are pairs, or if a list has another number of texts.

    Example:
    ```python
    texts = ["What is the capital of France?", "What is an acronym?"]
    keras_transfer.adaptation.augment_texts(texts, rate=0.2, seed=1)
    ```

    Source: https://arxiv.org/abs/1904.12848, section 2.2 and appendix C.
    """
    columns = to_columns(texts)
    expect(not isinstance(columns, tuple), "Only single texts can be augmented, no pairs.", texts=texts)
    texts = columns.tolist()
    if callable(augment):
        return [augment(text) for text in texts]
    if not isinstance(augment, str):
        augment = list(augment)
        rule = "`augment` must have one text for each text."
        expect(len(augment) == len(texts), rule, texts=len(texts), augment=len(augment))
        return augment
    random = np.random.default_rng(np.random.randint(2**31) if seed is None else seed)
    rows = [text.split() for text in texts]
    if augment == "tf_idf":
        return [" ".join(words) for words in _replaced(rows, rate, random)]
    return [" ".join([word for word in words if random.random() >= rate] or words) for words in rows]


def _replaced(rows, rate, random):
    """Yields lists of words in which words with a low TF-IDF score are replaced with others whose score is low."""
    documents = {}
    for words in rows:
        for word in dict.fromkeys(words):  # The order of a set differs between processes.
            documents[word] = documents.get(word, 0) + 1
    rarity = {word: np.log(len(rows) / count) for word, count in documents.items()}
    scores = [np.array([words.count(word) / len(words) * rarity[word] for word in words]) for words in rows]
    totals = dict.fromkeys(documents, 0.0)
    for words, values in zip(rows, scores):
        totals.update({word: totals[word] + value for word, value in zip(words, values)})  # once for each text
    vocabulary = list(totals)
    chances = _from_the_top(np.array(list(totals.values())))
    for words, values in zip(rows, scores):
        changes = random.random(len(words)) < rate * len(words) * _from_the_top(values)
        drawn = iter(random.choice(len(vocabulary), changes.sum(), p=chances))
        yield [vocabulary[next(drawn)] if change else word for word, change in zip(words, changes)]


def _from_the_top(scores):
    """Returns the distances of scores from the highest one as shares, which are equal if all scores are."""
    distances = scores.max(initial=0) - scores
    return distances / distances.sum() if distances.any() else np.full(len(scores), 1 / max(len(scores), 1))


@expects(
    task=instance_of(TextClassifier, "a `TextClassifier`"),
    rounds=integer(1),
    threshold=FRACTION,
    balanced=FLAG,
    restart=FLAG,
    augment=optional(AUGMENT),
    rate=RATE,
)
def self_train(
    task: TextClassifier,
    x: Any,
    y: Any,
    unlabeled: Any,
    *,
    rounds: int = 1,
    threshold: float = 0.9,
    balanced: bool = False,
    restart: bool = True,
    augment: Any = None,
    rate: float = 0.1,
    weight: float = 1.0,
    folder: Any = None,
    **kwargs: Any,
) -> list[keras.callbacks.History]:
    """Trains a classifier on its own labels of other texts: pseudo-labels, or noisy-student self-training.

    First, `fine_tune` trains the task on the texts with labels. In each round, the task then predicts the other texts,
    and `fine_tune` trains it on the texts with labels and those of whose class it is sure. By default, a round begins
    with the weights that the task had before (noisy student).

    Args:
        task: `TextClassifier` of one class for each text.
        x: Texts, or a tuple of two columns for pairs, in memory.
        y: Labels of these texts.
        unlabeled: Texts without labels, in the same form.
        rounds: Integer. How often the texts are labeled. Defaults to `1`.
        threshold: Float between 0 and 1. Probability above which the task is sure of a class. Defaults to `0.9`.
        balanced: Boolean. Whether each class that occurs gets the same number of texts: the most probable ones, some of
            which a rare class repeats. Defaults to `False`.
        restart: Boolean. Whether each round begins with the first weights. `False` continues with the last ones, as
            pseudo-labels do. Defaults to `True`.
        augment: How the student's texts are changed, as for `augment_texts`. A list has a text for each of `unlabeled`.
            Defaults to `None`, unchanged texts.
        rate: Float between 0 and 1. Fraction of words that are changed. Defaults to `0.1`.
        weight: Float. Weight of a text without a label in the loss. Defaults to `1.0`.
        folder: String or path. Folder for a training checkpoint of each round. The same call then continues a run that
            was killed. Defaults to `None`, for no checkpoints.
        **kwargs: Other arguments of `fine_tune`, such as `recipe`, `validation_data` and `verbose`.

    Returns:
        List of a `History` for the texts with labels, and one for each round.

    Raises:
        ValueError: If `task` is not such a classifier, if `unlabeled` has another form than `x`, or if the task is sure
            of no text.

    Example:
    ```python
    task = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=["bad", "good"])
    more = ["A fine film.", "It never ends.", "Great fun."]
    texts = ["What a film!", "What a bore."]
    keras_transfer.adaptation.self_train(task, texts, ["good", "bad"], more, threshold=0.5, augment="word_dropout")
    ```

    Source: https://arxiv.org/abs/1911.04252; Lee 2013, "Pseudo-Label: The simple and efficient semi-supervised learning
    method for deep neural networks".
    """
    rule = "`task` must predict one class of each text, without `multi_label`."
    expect(isinstance(task.labels, ClassNames), rule, labels=type(task.labels).__name__)
    x, unlabeled = to_columns(x), to_columns(unlabeled)
    rule = "`unlabeled` must have the form of `x`: single texts, or pairs of texts."
    forms = ["pairs" if isinstance(columns, tuple) else "texts" for columns in (x, unlabeled)]
    expect(forms[0] == forms[1], rule, x=forms[0], unlabeled=forms[1])
    changed = unlabeled if augment is None else to_columns(augment_texts(unlabeled, augment, rate=rate))
    first, callbacks, histories = task.get_weights(), kwargs.pop("callbacks", None) or [], []
    labels = np.asarray(task.labels.encode(y))
    weights, data = None, (x, labels)
    for number in range(rounds + 1):
        if number:
            probabilities = keras.ops.softmax(task.predict(unlabeled, verbose=0))
            rows, found = confident(keras.ops.convert_to_numpy(probabilities), threshold, balanced)
            rule = "The task is sure of no text. Use a lower `threshold`, more `epochs`, or more texts with labels."
            expect(len(rows), rule, threshold=threshold, round=number)
            weights = np.repeat([1.0, weight], [len(labels), len(rows)])
            chosen = keras.tree.map_structure(operator.itemgetter(rows), changed)
            texts = keras.tree.map_structure(lambda *columns: np.concatenate(columns), x, chosen)
            data = texts, np.concatenate([labels, found])
            if restart:
                task.set_weights(first)
        own = [] if folder is None else [TrainingCheckpoint(pathlib.Path(folder) / f"round_{number}")]
        histories.append(fine_tune(task, *data, sample_weight=weights, callbacks=[*callbacks, *own], **kwargs))
    return histories


def confident(probabilities, threshold, balanced=False):
    """Returns the numbers of the rows whose best class is probable, and these classes, for all classes alike or not."""
    best, labels = probabilities.max(axis=1), probabilities.argmax(axis=1)
    rows = np.flatnonzero(best > threshold)
    if balanced and len(rows):
        rows = rows[np.argsort(-best[rows], kind="stable")]
        classes = np.unique(labels[rows])
        rows = np.concatenate(
            [np.resize(rows[labels[rows] == each], -(-len(rows) // len(classes))) for each in classes]
        )
    return rows, labels[rows]
