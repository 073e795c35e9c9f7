"""One page about a model: what it gets right, what its layers have, where it looks, and what breaks it."""

import contextlib
import dataclasses
import functools
import hashlib
import html
import io
import json
import logging
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_transfer.analysis import page, tables
from keras_transfer.analysis.attention import attention_weights
from keras_transfer.analysis.attribution import attribute
from keras_transfer.analysis.behavior.acceptability import minimal_pairs
from keras_transfer.analysis.behavior.checklist import check_behavior
from keras_transfer.analysis.behavior.perturbations import perturbation_curve
from keras_transfer.analysis.probing.probes import Probe
from keras_transfer.analysis.reporting import report
from keras_transfer.analysis.result import Result
from keras_transfer.analysis.scores import fraction_with_interval
from keras_transfer.analysis.similarity import layer_similarity, moved_layers
from keras_transfer.analysis.stored_states import subject_of
from keras_transfer.core.arrays import data_digest, to_numpy, whole_column
from keras_transfer.core.expect import expect, expects, integer
from keras_transfer.core.files import atomic_file
from keras_transfer.tasks import Seq2SeqLM, Task, count_rows
from keras_transfer.text import is_sentences, is_text
from keras_transfer.version import __version__

log = logging.getLogger("keras_transfer")
KEPT = "sections.jsonl"
CONFIDENCE = 0.95
TYPED = 500  # Number of rows with typing errors.
TESTED = 3  # Probes are tested on a third of the rows.
ATTENDED = 16  # Number of texts whose attention is kept in memory.


@dataclasses.dataclass
class Subject:
    """What the sections read: the models, and the rows of the data that were drawn.

    `before` is the other model, `y` and `trees` are `None` without labels or without trees.
    """

    model: Any
    before: Any
    x: Any
    y: Any
    trees: Any
    pairs: Any
    tests: Any
    preprocessor: Any
    examples: int

    def rows(self, places):
        """Returns some rows of the data."""
        places = [place for place in places if place < count_rows(self.x)]
        return tuple(_take(column, places) for column in self.x) if isinstance(self.x, tuple) else _take(self.x, places)

    @property
    def rival(self):
        """The other model, if it answers the same question, or `None`."""
        names = [getattr(each, "label_names", None) for each in (self.model, self.before)]
        return self.before if type(self.before) is type(self.model) and names[0] == names[1] else None

    @property
    def has_classes(self):
        """Whether `report` accepts the model and the labels."""
        tags_words, several = hasattr(self.model, "predict_words"), getattr(self.model, "multi_label", False)
        is_classifier = isinstance(self.model, Task) and (self.model.labels.one_of or several) and not tags_words
        return is_classifier and self.y is not None

    @functools.cached_property
    def report(self):
        """The report on the model, from which sections take its mistakes."""
        return report(self.model, self.x, self.y, num_examples=self.examples)


class NotForThisModel(ValueError):
    """Says why a section has no meaning."""


class Section(NamedTuple):
    """A section of the page.

    Attributes:
        title: String.
        about: String. What the section shows, and what it does not.
        cost: Integer. About how many seconds it takes, for the progress bar.
        find: Function from a `Subject` to a list of results: `Result`s, with their `plot` as a picture, tables, or
            objects with `_repr_html_`.
        reasons: Tuple of exceptions that say why the section has no meaning.
    """

    title: str
    about: str
    cost: int
    find: Callable[[Subject], list]
    reasons: tuple = (ValueError, ImportError)


@dataclasses.dataclass
class FoundSection:
    """A section of an `Inspection`.

    Attributes:
        title: String.
        text: String. Its results as text.
        html: String. Its results as HTML.
        reason: String that says why the section has no meaning for the model, or `None`.
        results: List of the objects that the functions of `analysis` return. Empty if the section was computed by an
            earlier call, which left its text and HTML in the folder.
    """

    title: str
    text: str
    html: str
    reason: str | None = None
    results: Sequence[Any] = ()


class Content(NamedTuple):
    """HTML with a line of text that says what it is."""

    text: str
    html: str

    def __str__(self):
        return tables.shorten(self.text, 100)

    def _repr_html_(self):
        return self.html


class Inspection:
    """A page about a model, which `inspect` returns.

    Attributes:
        sections: Dict from names to `(title, text, html, reason, results)`, where `results` are the objects that the
            functions of `analysis` return, and `reason` says why a section has no meaning for the model.
        facts: Dict of strings. The models and the data.
    """

    def __init__(self, sections: dict[str, FoundSection], facts: dict[str, str]) -> None:
        self.sections, self.facts = sections, facts

    def __str__(self):
        parts = [", ".join(f"{name}: {value}" for name, value in self.facts.items())]
        for section in self.sections.values():
            parts.append(f"{section.title}\n{'=' * len(section.title)}\n{section.reason or section.text}")
        return "\n\n".join(parts)

    __repr__ = __str__

    def _repr_html_(self):
        facts = tables.Table("Models and data", ["", ""], [[*fact] for fact in self.facts.items()], texts=True)
        links = " · ".join(f'<a href="#{name}">{html.escape(each.title)}</a>' for name, each in self.sections.items())
        parts = [f"<nav>{links}</nav>", page.section(facts)]
        for name, section in self.sections.items():
            about = f"<p>{html.escape(SECTIONS[name].about)}</p>"
            content = section.html if section.reason is None else f"<p>{_escaped(section.reason)}</p>"
            parts.append(f'<section id="{name}"><h1>{html.escape(section.title)}</h1>{about}{content}</section>')
        return "\n".join(parts)

    def to_html(self, path: str | pathlib.Path, title: str = "Inspection") -> pathlib.Path:
        """Writes the page, one HTML file with pictures, which needs no other file, no script and no connection.

        Without Matplotlib (`pip install matplotlib`), the page has no pictures, and only the tables.

        Args:
            path: String or path. File to write. An existing file is replaced. Parent folders are created.
            title: String. Title of the page. Defaults to `"Inspection"`.

        Returns:
            `path` as a `pathlib.Path`.

        Raises:
            OSError: If the file cannot be written. It is then unchanged.
        """
        return page.write(path, title, self._repr_html_())


@expects(examples=integer(1), rows=integer(2))
def inspect(
    model: Any,
    data: Any,
    against: Any = None,
    *,
    pairs: Any = None,
    tests: Sequence[Any] = (),
    preprocessor: Any = None,
    examples: int = 8,
    rows: int = 1000,
    folder: Any = None,
    verbose: str | int = "auto",
) -> Inspection:
    """Makes one page about a model: its scores, its layers, where it looks, and what breaks it.

    Each section is what a function of `analysis` returns for the model with its defaults. A section that has no meaning
    for the model says why in one line. Call the function itself for other settings.

    Args:
        model: Task, or encoder with `preprocessor`.
        data: `(x, y)` as for `model.fit`, texts or lists of words without labels, or `datasets.Trees`. Use data that
            the model was not trained on.
        against: Task or encoder to compare with, such as the start of the fine-tuning. Defaults to `None`.
        pairs: `datasets.MinimalPairs`, for a language model. Defaults to `None`.
        tests: List of tests, as for `check_behavior`. Defaults to none.
        preprocessor: Preprocessor of an encoder. Defaults to `None`, that of the task `model`.
        examples: Integer. Number of examples of each kind. Defaults to `8`.
        rows: Integer. Number of rows that are drawn from more data. Defaults to `1000`.
        folder: String or path. Folder for finished sections, where the same call continues after its process was
            killed. Sections of other models or data in it are replaced. Defaults to `None`, for no folder.
        verbose: `"auto"`, `0` (silent), `1` (progress bar with the time left) or `2` (one line). Defaults to `"auto"`.

    Returns:
        An `Inspection`, which prints as text, and which `to_html(path)` writes as a page.

    Raises:
        ValueError: If `model` or `against` is neither a task nor an encoder with a preprocessor, if there are no rows,
            if rows and labels differ in number, or if a label is unknown to a classifier.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=["bad", "good"])
    texts, labels = ["What a film!", "What a bore.", "Not bad."], ["good", "bad", "good"]
    inspection = keras_transfer.analysis.inspect(model, (texts, labels))
    inspection.to_html("inspection.html")
    ```
    """
    preprocessor = preprocessor or getattr(model, "preprocessor", None)
    models = [each for each in (model, against) if each is not None]
    for each in models:
        subject_of(each, preprocessor)
    subject, count = _subject(data, rows, model, against, pairs, tests, preprocessor, examples)
    read = [column for column in (subject.x, subject.y, subject.trees, pairs) if column is not None]
    made_of = {"version": __version__, "models": [*map(_digest, models)], "data": data_digest(read)}
    made_of |= {"examples": examples, "tests": repr(tests)}
    path = None if folder is None else pathlib.Path(folder) / KEPT
    found = {} if path is None else _read(path, made_of)
    bar = keras.utils.Progbar(sum(section.cost for section in SECTIONS.values()), unit_name="part")
    bar.verbose, done = 1 if verbose == "auto" else verbose, 0
    for name, section in SECTIONS.items():
        if name not in found:
            found[name] = _found(section, subject)
            if path is not None:
                _write(path, made_of, found)
        done += section.cost
        bar.update(done)
    shown = f"{count_rows(subject.x):,}" + (f" of {count:,}, drawn at random" if count > rows else "")
    facts = {"model": _name(model), **({} if against is None else {"against": _name(against)}), "rows": shown}
    return Inspection({name: found[name] for name in SECTIONS}, facts)


def _subject(data, rows, model, against, *others):
    """Returns the `Subject` with at most so many rows of the data, and the number of all rows."""
    trees = data if hasattr(data, "heads") else None
    x, y = (data.words, data.tags) if trees is not None else data if isinstance(data, tuple) else (data, None)
    x = tuple(map(_column, x)) if isinstance(x, tuple) else _column(x)
    rule = "`data` must be `(x, y)`, or `x`: texts, pairs of texts, or lists of words."
    expect(is_text(x) or is_sentences(x), rule, data=type(x).__name__)
    y, count = None if y is None else _column(y), count_rows(x)
    expect(count, "`data` must have at least one row.", rows=count)
    expect(y is None or len(y) == count, "Each row must have a label.", rows=count, labels=y is None or len(y))
    if count > rows:
        places = np.sort(np.random.default_rng(0).choice(count, rows, replace=False))
        take = functools.partial(_take, places=places)
        x, y = tuple(map(take, x)) if isinstance(x, tuple) else take(x), None if y is None else take(y)
        trees = None if trees is None else type(trees)(*map(take, trees))
    return Subject(model, against, x, y, trees, *others), count


def _column(values):
    values = whole_column(values)
    return values if isinstance(values, (str, list)) or getattr(values, "ndim", 1) > 1 else list(values)


def _take(column, places):
    return [column[place] for place in places] if isinstance(column, list) else column[places]


def _name(model):
    encoder = getattr(model, "encoder", model)
    inner = "" if encoder is model else f" over {type(encoder).__name__}"
    return f"{type(model).__name__}{inner}, {model.count_params():,} weights"


def _digest(model):
    """Returns a digest of the class and the weights of a model."""
    digest = hashlib.blake2b(type(model).__name__.encode(), digest_size=8)
    for weight in model.weights:
        digest.update(np.ascontiguousarray(to_numpy(weight)).reshape(-1).view("uint8").data)
    return digest.hexdigest()


def _escaped(text):
    return html.escape(tables.visible(text))


# === Finished sections ===


def _found(section, subject):
    """Returns a section, or the reason why it has no meaning."""
    try:
        results = [result for result in section.find(subject) if result is not None]
    except section.reasons as error:
        return FoundSection(section.title, "", "", f"Left out. {error}")
    with contextlib.redirect_stdout(io.StringIO()):  # Text without the colors of a terminal.
        text = "\n\n".join(map(_text, results))
    return FoundSection(section.title, text, "\n".join(map(_html, results)), results=results)


def _text(result):
    return f"{result.title}\n{result}" if isinstance(result, Result) else str(result)


def _html(result):
    """Returns a result as HTML, with its picture."""
    if isinstance(result, tables.Table):
        return page.section(result)
    if type(result).__dict__.get("_repr_html_") or not isinstance(result, Result):
        return result._repr_html_()
    drawn = page.picture(result.plot) if hasattr(result, "plot") else ""
    return page.section(result.table(), drawn)


def _read(path, made_of):
    """Returns the finished sections in a file by name, if they are of the same models, data and version."""
    try:
        first, *lines = map(json.loads, path.read_text("utf-8").splitlines())
        return {line.pop("name"): FoundSection(**line) for line in lines} if first == made_of else {}
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        if not isinstance(error, FileNotFoundError):
            log.warning("%s has no sections of an inspection, and is replaced.", path)
        return {}


def _write(path, made_of, found):
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [made_of, *({"name": name, **vars(section), "results": ()} for name, section in found.items())]
    with atomic_file(path) as file:
        file.writelines(f"{json.dumps(line)}\n".encode() for line in lines)


# === The sections ===


def _scores(subject):
    model, x, y = subject.model, subject.x, subject.y
    if y is None or not isinstance(model, Task):
        raise NotForThisModel("The data has no labels." if y is None else "An encoder predicts no labels.")
    if hasattr(model, "predict_words"):
        return _word_scores(subject)
    if not subject.has_classes:
        raise NotForThisModel(f"A {type(model).__name__} predicts no classes. Use `model.evaluate(x, y)`.")
    other = subject.rival
    return [subject.report, None if other is None else subject.report.compare_with(report(other, x, y))]


def _word_scores(subject):
    """Returns how many words a tagger tags right, and how many more than before."""
    labels = [label for sentence in subject.y for label in sentence]
    of_names = isinstance(labels[0], str)

    def right(model):
        predicted = [label for sentence in model.predict_words(subject.x) for _, label in sentence]
        names = labels if of_names else [model.label_names[label] for label in labels]
        return np.array([label == name for label, name in zip(predicted, names, strict=True)])

    found = right(subject.model)
    score = fraction_with_interval(int(found.sum()), len(found), CONFIDENCE)
    rows = [["accuracy", f"{score.value:.4f}", tables.interval(score)]]
    table = tables.Table(f"{len(found):,} words", ["", "value", "95% interval"], rows)
    if subject.rival is None:
        return [table]
    return [table, tables.gains_table({"all words": np.arange(len(found))}, right(subject.rival), found, CONFIDENCE)]


def _probes(subject):
    """Returns the probes of the labels, and those of the other model."""
    if subject.y is None:
        raise ValueError("The data has no labels to probe for.")
    own = None if subject.before is None else getattr(subject.before, "preprocessor", None) or subject.preprocessor
    options = {"against": None if subject.before is None else (subject.before, own), "verbose": 0}
    order = np.random.default_rng(0).permutation(len(subject.y))
    test, train = (
        (subject.rows(places), _take(subject.y, places)) for places in np.split(order, [-(-len(order) // TESTED)])
    )
    probe = Probe("token" if is_sentences(subject.x) else "sentence")
    sweep = probe.sweep(subject.model, train, test=test, preprocessor=subject.preprocessor, **options)
    return [sweep, None if sweep.against is None else sweep.compare_with(sweep.against)]


def _layers(subject):
    model, before, x = subject.model, subject.before, subject.x
    options = {"preprocessor": subject.preprocessor, "verbose": 0}
    similar = layer_similarity(model, x, before, **options)
    same = before is not None and len({type(getattr(each, "encoder", each)) for each in (model, before)}) == 1
    return [moved_layers(before, model, x, **options) if same else None, similar]


def _words(subject):
    """Returns the words that the answers for the hardest and the most confidently mistaken rows depend on."""
    chosen = range(subject.examples)
    if subject.has_classes:
        found = (*subject.report.hardest, *subject.report.confident_mistakes)
        chosen = dict.fromkeys(example.position for example in found)
    return [attribute(subject.model, subject.rows(chosen))]


def _behavior(subject):
    """Returns the accuracy with typing errors, and the results of the user's tests."""
    if subject.y is None and not subject.tests:
        raise ValueError("The data has no labels, and there are no `tests`.")
    model, against, found = subject.model, subject.rival, []
    if subject.y is not None:
        places = range(min(TYPED, len(subject.y)))
        y = _take(subject.y, places)
        found = [perturbation_curve(model, subject.rows(places), y, kinds=["swap"], against=against)]
    return [*found, *([check_behavior(model, subject.tests, against=against)] if subject.tests else [])]


def _pairs(subject):
    if subject.pairs is None:
        raise ValueError("There are no minimal pairs. Pass `pairs`, with a language model.")
    return [minimal_pairs(subject.model, subject.pairs, against=subject.rival)]


def _attention(subject):
    x = subject.rows(range(ATTENDED))
    targets = subject.y[:ATTENDED] if isinstance(subject.model, Seq2SeqLM) and subject.y is not None else None
    if not isinstance(subject.model, Task):
        x = dict(subject.preprocessor(x))
    weights = attention_weights(subject.model, x, targets)
    kind = "cross" if weights.cross is not None else "encoder"
    shown = " ".join(weights.tokens[0])
    return [weights.statistics(), Content(f"The page has the heads for: {shown}", weights._view("heads", kind, 0))]


SECTIONS = {
    "scores": Section(
        "Is it right?",
        "Scores with intervals, and the rows that this model gains and loses against the other one.",
        15,
        _scores,
        (NotForThisModel,),
    ),
    "probes": Section(
        "Which layer knows the labels?",
        "Linear probes of the vectors of each layer, on held-out rows. That labels can be read from a layer does not "
        "say that the model uses them.",
        40,
        _probes,
    ),
    "layers": Section(
        "What did the layers become?",
        "How far the weights and the vectors of each layer moved, and which layers are alike (CKA). A low value may be "
        "due to a few directions that no later layer uses.",
        15,
        _layers,
    ),
    "attention": Section(
        "Where do its heads look?",
        "Means over a few texts. A weight says how much of a vector a head uses, not why the model gives its answer.",
        10,
        _attention,
    ),
    "words": Section(
        "Which words decide?",
        "Integrated gradients for the hardest rows and the most confident mistakes. They depend on the baseline, a "
        "text of padding, and say nothing about words that are not there.",
        30,
        _words,
    ),
    "behavior": Section(
        "Does it behave?",
        "The accuracy if letters are swapped in some words, and failures in tests of behavior. Few failures say "
        "nothing about what no test asks.",
        30,
        _behavior,
    ),
    "pairs": Section(
        "Which of two sentences is more likely?",
        "How often a language model prefers the acceptable sentence of a pair. Half of them is chance.",
        20,
        _pairs,
    ),
}
