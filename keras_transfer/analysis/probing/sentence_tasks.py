"""Probing tasks for whole sentences, made of a treebank after those of SentEval."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from keras_transfer.analysis.probing.trees import TREES, check_trees, tree_depths
from keras_transfer.core.expect import expect, expects, integer, one_of
from keras_transfer.datasets import Split

LENGTHS = ((5, 8), (9, 12), (13, 16), (17, 20), (21, 25), (26, 28))  # The bins of SentEval.
DEEPEST, RANKS = 7, slice(100, 130)  # Of words by their frequency in sentences.


def _length(row):
    bins = [f"{low}-{high}" for low, high in LENGTHS if low <= len(row["words"]) <= high]
    return row["words"], bins[0] if bins else None


def _tree_depth(row):
    return row["words"], str(min(tree_depths(row["heads"]).max(), DEEPEST))


def _word_content(row):
    found = [word for word in row["words"] if word in row["content"]]
    return row["words"], found[0] if len(found) == 1 else None


def _bigram_shift(row):
    words = list(row["words"])
    places = [  # Of different words that are no punctuation.
        place
        for place, (one, other) in enumerate(itertools.pairwise(words))
        if one.lower() != other.lower() and one.isalnum() and other.isalnum()
    ]
    if not places or row["random"].random() < 0.5:
        return words, "original" if places else None
    place = row["random"].choice(places)
    words[place : place + 2] = words[place + 1], words[place]
    return words, "inverted"


def _odd_word(row):
    words, places = list(row["words"]), [i for i, tag in enumerate(row["tags"]) if tag in ("NOUN", "VERB")]
    if not places or row["random"].random() < 0.5:
        return words, "original" if places else None
    place = row["random"].choice(places)
    others = row["of_tag"][row["tags"][place]]
    words[place] = others[row["random"].integers(len(others))]
    return words, "original" if words[place] == row["words"][place] else "changed"


def _coordination_inversion(row):
    heads, relations, tags, words = (row[name] for name in ("heads", "relations", "tags", "words"))
    root = heads.index(0)
    second = [i for i, head in enumerate(heads) if head == root + 1 and relations[i] == "conj" and tags[i] == "VERB"]
    link = [i for i, head in enumerate(heads) if second and head == second[0] + 1 and relations[i] == "cc"]
    end = len(words) - (tags[-1] == "PUNCT")
    if len(second) != 1 or not link or not 0 < link[0] < second[0] or tags[root] != "VERB" or root > link[0]:
        return words, None
    if row["random"].random() < 0.5:
        return words, "original"
    return [*words[link[0] + 1 : end], words[link[0]], *words[: link[0]], *words[end:]], "inverted"


def _feature(name, relation=None):
    """Returns a task: the value of a feature of the finite root, or of its only dependent with a relation."""

    def task(row):
        root = row["heads"].index(0)
        places = [i for i, head in enumerate(row["heads"]) if head == root + 1 and row["relations"][i] == relation]
        places = [root] if relation is None else places
        if len(places) != 1:
            return row["words"], None
        features = dict(each.split("=") for each in row["features"][places[0]].split("|") if "=" in each)
        value = features.get(name) if relation or features.get("VerbForm") == "Fin" else None
        return row["words"], value if value in ("Past", "Pres", "Sing", "Plur") else None

    return task


TASKS: dict[str, Callable] = {
    "length": _length,
    "word_content": _word_content,
    "bigram_shift": _bigram_shift,
    "tree_depth": _tree_depth,
    "tense": _feature("Tense"),
    "subject_number": _feature("Number", "nsubj"),
    "object_number": _feature("Number", "obj"),
    "odd_word": _odd_word,
    "coordination_inversion": _coordination_inversion,
}


@expects(name=one_of(*TASKS), trees=TREES, seed=integer(0))
def sentence_task(name: str, trees: Any, *, features: Sequence | None = None, seed: int = 0) -> Split:
    """Makes a probing task for `Probe("sentence")` of a treebank, after a task of SentEval.

    The tasks are not SentEval's own, whose sentences are from books and were balanced: scores differ.

    - `"length"`: the number of words, in SentEval's six bins.
    - `"word_content"`: which one of 30 words the sentence contains.
    - `"bigram_shift"`: whether two neighboring words were exchanged.
    - `"tree_depth"`: the depth of the dependency tree, at most 7.
    - `"tense"`, `"subject_number"`, `"object_number"`: a feature of the finite main verb, its subject, or its object.
    - `"odd_word"`: whether a noun or a verb was replaced by a random one.
    - `"coordination_inversion"`: whether two coordinated clauses were exchanged.

    Args:
        name: String, one of the names above.
        trees: `datasets.Trees`, such as `read_trees(path)`.
        features: List of lists of strings, the features of each word, for the tasks of features, such as
            `read_conllu(path, field="feats").labels`. Defaults to `None`.
        seed: Integer. Seed of what is exchanged or replaced. Defaults to `0`.

    Returns:
        `datasets.Split` of texts, whose words are joined by spaces, and names as labels. Sentences that do not fit the
        task are left out.

    Raises:
        ValueError: If there is no such task, if it needs `features`, or if no sentence fits.

    Example:
    ```python
    trees = keras_transfer.datasets.Trees([["Dogs", "bark"]], [[2, 0]], [["nsubj", "root"]], [["NOUN", "VERB"]])
    features = [["Number=Plur", "Tense=Pres|VerbForm=Fin"]]
    keras_transfer.analysis.sentence_task("subject_number", trees, features=features)
    ```

    Source: Conneau et al. 2018, https://arxiv.org/abs/1805.01070.
    """
    check_trees(trees, "trees")
    columns = {**dict(zip(("words", "heads", "relations", "tags"), trees)), "features": features or trees.words}
    if name in ("tense", "subject_number", "object_number"):
        fits = features is not None and [*map(len, features)] == [*map(len, trees.words)]
        rule = f'The task {name!r} needs `features` of each word, such as `read_conllu(path, field="feats").labels`.'
        expect(fits, rule, features=None if features is None else len(features))
    counts = Counter(word for words in trees.words for word in set(words) if word.isalpha() and word.islower())
    of_tag = defaultdict(list)
    for word, tag in sorted({pair for pairs in zip(trees.words, trees.tags) for pair in zip(*pairs)}):
        of_tag[tag].append(word)
    content = {word for word, _ in counts.most_common()[RANKS]}
    shared = {"content": content, "of_tag": of_tag, "random": np.random.default_rng(seed)}
    rows = (TASKS[name]({**shared, **dict(zip(columns, row))}) for row in zip(*columns.values()))
    found = [(" ".join(words), label) for words, label in rows if label is not None]
    expect(found, f"No sentence fits the task {name!r}.", sentences=len(trees.words))
    return Split(*map(list, zip(*found)))
