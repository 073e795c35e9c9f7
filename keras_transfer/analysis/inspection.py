"""One page about a model: what it gets right, what its layers have, where it looks, and what breaks it."""

import contextlib
import dataclasses
import functools
import html
import io
import json
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from keras_transfer.analysis import page, tables
from keras_transfer.analysis.attention import attention_weights
from keras_transfer.analysis.attribution import attribute
from keras_transfer.analysis.attribution_rows import tags_of
from keras_transfer.analysis.behavior.acceptability import minimal_pairs
from keras_transfer.analysis.behavior.checklist import check_behavior
from keras_transfer.analysis.behavior.perturbations import perturbation_curve
from keras_transfer.analysis.probing.probes import Probe
from keras_transfer.analysis.probing.structural_probe import StructuralProbe
from keras_transfer.analysis.relations import relation_heads
from keras_transfer.analysis.reporting import report
from keras_transfer.analysis.result import Result
from keras_transfer.analysis.similarity import layer_similarity, moved_layers
from keras_transfer.analysis.stored_states import subject_of
from keras_transfer.core.arrays import data_digest, whole_column
from keras_transfer.core.expect import NotApplicableError, expect, expects, integer
from keras_transfer.core.files import atomic_file
from keras_transfer.data import fingerprint_of
from keras_transfer.datasets import Trees
from keras_transfer.tasks import (
    Seq2SeqLM,
    SpanExtractor,
    Task,
    TextClassifier,
    TokenClassifier,
    count_rows,
    take_rows,
)
from keras_transfer.text import is_sentences, is_text, to_columns, to_sentences
from keras_transfer.version import __version__

KEPT, MODELS = "sections.json", ("model", "against")
TYPED = 500  # Number of rows with typing errors.
ATTENDED = 16  # Number of texts whose attention is kept in memory.
PARSED = 200  # Number of trees whose relations heads may follow.


@dataclasses.dataclass
class Subject:
    """What the sections read: the models, and the rows that were drawn; `None` for what there is not."""

    model: Any
    before: Any
    x: Any
    y: Any
    trees: Any
    pairs: Any
    tests: Any
    preprocessor: Any
    examples: int

    def first(self, count):
        """Returns the first rows, and their labels."""
        return take_rows((self.x, self.y), np.arange(min(count, count_rows(self.x))))

    def reader_of(self, model):
        """Returns the preprocessor with which a model reads the rows."""
        return getattr(model, "preprocessor", None) or self.preprocessor

    def both(self, find, join=lambda found, other: [*map(list, zip(found, other))]):
        """Returns the results of a function for the model, joined with those for the other one, if it has any.

        Args:
            join: Function of both lists of results. Defaults to the list of their pairs, which stand side by side.
        """
        found = find(self.model)
        try:
            return found if self.before is None else join(found, find(self.before))
        except NotApplicableError as error:
            return [*found, f"Left out for `against`. {error}"]

    @property
    def rival(self):
        """The other model, if it answers the same question."""
        names = [getattr(each, "label_names", None) for each in (self.model, self.before)]
        return self.before if type(self.before) is type(self.model) and names[0] == names[1] else None

    @functools.cached_property
    def report(self):
        """The report on a classifier and its labels, or `None` for other models."""
        if self.y is None or not isinstance(self.model, TextClassifier):
            return None
        return report(self.model, self.x, self.y, num_examples=self.examples)


@dataclasses.dataclass
class Section:
    """A section of the page with its results, or with the reason why it is left out."""

    title: str
    about: str
    text: str = ""
    html: str = ""
    reason: str | None = None
    results: Sequence[Any] = ()


@dataclasses.dataclass(repr=False)
class Inspection(page.Page):
    """A page about a model, which `inspect` returns.

    `to_html` draws pictures if Matplotlib is installed, and otherwise shows the tables alone.

    Attributes:
        sections: Dict from names to `(title, text, html, reason, results)`. `results` are the objects that the
            functions of `analysis` return, none if an earlier call left the section in the folder. `reason` says why a
            section has no meaning for the model.
        facts: Dict of strings. The models and the data.
    """

    sections: dict[str, Section]
    facts: dict[str, str]
    title = "Inspection"

    def __repr__(self):
        parts = [", ".join(f"{name}: {value}" for name, value in self.facts.items())]
        for section in self.sections.values():
            parts.append(f"{section.title}\n{'=' * len(section.title)}\n{section.reason or section.text}")
        return "\n\n".join(parts)

    def _repr_html_(self):
        facts = tables.Table("Models and data", ["", ""], [[*fact] for fact in self.facts.items()], texts=True)
        links = " · ".join(f'<a href="#{name}">{html.escape(each.title)}</a>' for name, each in self.sections.items())
        parts = [f"<nav>{links}</nav>", page.section(facts)]
        for name, each in self.sections.items():
            about = html.escape(tables.visible(each.reason or each.about))
            parts.append(f'<h1 id="{name}">{html.escape(each.title)}</h1>\n<p>{about}</p>\n{each.html}')
        return "\n".join(parts)


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
        data: `(x, y)` as for `model.fit`, `x` or `(x, None)` without labels, or `datasets.Trees`, whose tags are the
            labels. Use data that was not in the training.
        against: Task or encoder to compare with, such as the start of the fine-tuning. Defaults to `None`.
        pairs: `datasets.MinimalPairs`, for a language model. Defaults to `None`.
        tests: List of tests, as for `check_behavior`. Defaults to none.
        preprocessor: Preprocessor of an encoder. Defaults to `None`, that of the task `model`.
        examples: Integer. Number of examples of each kind. Defaults to `8`.
        rows: Integer. Number of rows that are drawn from more data. Defaults to `1000`.
        folder: String or path. Folder of finished sections, where the same call continues after it was killed. Those
            of other models or data are replaced. Defaults to `None`.
        verbose: `"auto"`, `0` (silent), `1` (progress bar with the time left) or `2` (one line). Defaults to `"auto"`.

    Returns:
        An `Inspection`, which prints as text, and which `to_html(path)` writes as a page.

    Raises:
        ValueError: If `model` or `against` is neither a task nor an encoder with a preprocessor, if there are no rows,
            if rows and labels differ in number, or if a label is unknown to a classifier or a tagger.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=["bad", "good"])
    texts, labels = ["What a film!", "What a bore.", "Not bad."], ["good", "bad", "good"]
    inspection = keras_transfer.analysis.inspect(model, (texts, labels))
    inspection.to_html("inspection.html")
    ```
    """
    rule = "`against` must be a task or an encoder. Labels belong to the data: `inspect(model, (x, y))`."
    expect(against is None or isinstance(against, keras.Model), rule, against=type(against).__name__)
    preprocessor = preprocessor or getattr(model, "preprocessor", None)
    models = [each for each in (model, against) if each is not None]
    for each in models:
        subject_of(each, preprocessor)
    (x, y), trees = _columns(data), data if isinstance(data, Trees) else None
    count = count_rows(x)
    if count > rows:
        drawn = np.sort(np.random.default_rng(0).choice(count, rows, replace=False))
        x, y, trees = take_rows((x, y, trees), drawn)
        trees = None if trees is None else Trees(*trees)
    subject = Subject(model, against, x, y, trees, pairs, tests, preprocessor, examples)
    path = None if folder is None else pathlib.Path(folder) / KEPT
    digest = path and _digest(models, subject)
    found = _read(path, digest) if path else {}
    if any(callable(part) for test in tests for part in vars(test).values()):
        found.pop("behavior", None)  # The digest does not know whether a function has changed.
    if not found:
        _ = subject.report  # A label that the model does not have is an error here, not in a section.
    bar = keras.utils.Progbar(len(SECTIONS), verbose=1 if verbose == "auto" else verbose, unit_name="section")
    for name, section in SECTIONS.items():
        if name not in found:
            found[name] = _found(*section, subject)
            if path:
                kept = {name: {**vars(section), "results": ()} for name, section in found.items()}
                with atomic_file(path) as file:
                    file.write(json.dumps([digest, kept]).encode())
        bar.add(1)
    facts = {"rows": f"{rows:,} of {count:,}, drawn at random" if count > rows else f"{count:,}"}
    for name, each in zip(MODELS, models):
        parts = dict.fromkeys(type(part).__name__ for part in (each, getattr(each, "encoder", each)))
        facts[name] = f"{' over '.join(parts)}, {each.count_params():,} weights"
    return Inspection({name: found[name] for name in SECTIONS}, facts)


def _columns(data):
    """Returns texts or sentences, and their labels or `None`, as lists and arrays."""
    x, y = (data.words, data.tags) if isinstance(data, Trees) else data if isinstance(data, tuple) else (data, None)
    rule = "`data` must be `(x, y)`, or `x`: texts, pairs of texts, or lists of words, at least one."
    expect((is_text(x) or is_sentences(x)) and count_rows(x), rule, data=type(x).__name__)
    x, y = to_sentences(x) if is_sentences(x) else to_columns(x), whole_column(y)
    y = y if y is None or isinstance(y, list) or getattr(y, "ndim", 1) > 1 else list(y)
    rule = "Each row must have a label."
    expect(y is None or len(y) == count_rows(x), rule, rows=count_rows(x), labels=y is None or len(y))
    return x, y


def _digest(models, subject):
    """Returns a digest of all that the sections depend on."""
    reader = getattr(subject.preprocessor, "get_config", dict)()
    parts = [fingerprint_of(each, [each.get_config(), reader]) for each in models]
    tests = [{name: part for name, part in vars(test).items() if not callable(part)} for test in subject.tests]
    data = [subject.x, subject.y, subject.trees, subject.pairs]
    return data_digest([__version__, parts, *data, tests, subject.examples])


def _found(title, about, find, subject):
    """Returns a section, or the reason why it has no meaning."""
    try:
        found = [result for result in find(subject) if result is not None]
    except (NotApplicableError, ImportError) as error:
        return Section(title, about, reason=f"Left out. {error}")
    with contextlib.redirect_stdout(io.StringIO()):  # Text without the colors of a terminal.
        text = "\n\n".join(map(_text, found))
    results = [each for result in found for each in (result if isinstance(result, list) else [result])]
    results = [each for each in results if not isinstance(each, str)]  # The reasons why others are left out.
    return Section(title, about, text, "\n".join(map(_html, found)), results=results)


def _some_of(*finds):
    """Returns the results of functions, and the reasons of those that have none, the first as an error if none has."""
    found, errors = [], []
    for find in finds:
        try:
            found += find()
        except NotApplicableError as error:
            errors.append(error)
    if not found:
        raise errors[0]
    return [*found, *(f"Left out. {error}" for error in errors)]


def _text(result):
    """Returns a result, or those of both models, as text."""
    if isinstance(result, list):
        return "\n\n".join(f"{name}: {_text(each)}" for name, each in zip(MODELS, result))
    return f"{result.title}\n{result}" if isinstance(result, Result) else str(result)


def _html(result):
    """Returns a result, or those of both models side by side, as HTML with pictures."""
    if isinstance(result, list):
        half = '<div style="flex: 1 1 24em; min-width: 0; max-width: 100%; overflow-x: auto">'
        columns = (f"{half}<p>{name}</p>{_html(each)}</div>" for name, each in zip(MODELS, result))
        return f'<div class="both" style="display: flex; flex-wrap: wrap; gap: 0 2em">{"".join(columns)}</div>'
    if isinstance(result, str):
        return f"<p>{html.escape(tables.visible(result))}</p>"
    if isinstance(result, tables.Table):
        return page.section(result)
    if type(result)._repr_html_ is not Result._repr_html_:
        return result._repr_html_()
    return page.section(result.table(), page.picture(result.plot) if hasattr(result, "plot") else "")


def _read(path, digest):
    """Returns the finished sections in a file by name, if they are of the same models, data and version."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        kept, sections = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return {name: Section(**section) for name, section in sections.items()} if kept == digest else {}


SECTIONS: dict[str, tuple[str, str, Callable]] = {}


def _section(title, about):
    """Adds a function, which returns the results for a `Subject`, to the sections."""

    def add(find):
        SECTIONS[find.__name__.strip("_")] = (title, about, find)
        return find

    return add


@_section("Is it right?", "Scores with intervals, and the rows that this model gains and loses against the other one.")
def _scores(subject):
    model, other = subject.model, subject.rival
    if subject.y is None or not isinstance(model, Task):
        raise NotApplicableError("The data has no labels." if subject.y is None else "An encoder predicts no labels.")
    if subject.report is not None:
        second = None if other is None else report(other, subject.x, subject.y)
        return [subject.report, None if second is None else subject.report.compare_with(second)]
    if not (hasattr(model, "predict_words") or hasattr(model, "answer")):
        raise NotApplicableError(f"A {type(model).__name__} predicts no classes. Use `model.evaluate(x, y)`.")
    return [perturbation_curve(model, subject.x, subject.y, kinds={}, against=other, verbose=0).table()]


@_section("Which layer knows the labels?", "Linear probes on held-out rows. What can be read is not always used.")
def _probes(subject):
    if subject.y is None:
        raise NotApplicableError("The data has no labels to probe for.")
    if isinstance(subject.model, (Seq2SeqLM, SpanExtractor)):
        raise NotApplicableError("Texts that a model writes or finds are no classes to probe for.")
    order = np.random.default_rng(0).permutation(len(subject.y))
    parts = np.split(order, [-(-len(order) // 3)])
    test, train = (take_rows((subject.x, subject.y), rows) for rows in parts)
    probe = Probe("token" if is_sentences(subject.x) else "sentence")
    plain = dataclasses.replace(probe, controls=())

    def sweep(model):
        options = {"preprocessor": subject.reader_of(model), "verbose": 0}
        return [(probe if model is subject.model else plain).sweep(model, train, test=test, **options)]

    def parse(model):
        test_trees, train_trees = (Trees(*take_rows(subject.trees, rows)) for rows in parts)
        options = {"preprocessor": subject.reader_of(model), "verbose": 0}
        return [StructuralProbe().sweep(model, train_trees, test=test_trees, **options)]

    def sweeps():
        return subject.both(sweep, lambda found, other: [*found, found[0].compare_with(other[0])])

    return _some_of(sweeps, *([] if subject.trees is None else [lambda: subject.both(parse)]))


@_section("What did the layers become?", "How far each has moved, and which are alike. What differs may be of no use.")
def _layers(subject):
    model, before, x = subject.model, subject.before, subject.x
    options = {"preprocessor": subject.preprocessor, "verbose": 0}
    same = before is not None and len({type(getattr(each, "encoder", each)) for each in (model, before)}) == 1
    similar = layer_similarity(model, x, before, **options)
    return [moved_layers(before, model, x, **options) if same else None, similar]


@_section("Where do its heads look?", "What a head reads, which is not why the model gives its answer.")
def _attention(subject):
    x, y = subject.first(ATTENDED)
    some = None if subject.trees is None else Trees(*(column[:PARSED] for column in subject.trees))
    writes = isinstance(subject.model, Seq2SeqLM)

    def look(model):
        reader, targets = subject.reader_of(model), y if writes and isinstance(model, Seq2SeqLM) else None
        weights = attention_weights(model, x, targets, preprocessor=reader)
        return [weights.statistics(), weights]

    def follow(model):
        return [relation_heads(model, some, preprocessor=subject.reader_of(model), verbose=0)]

    finds = [look] if some is None else [follow, look]
    return _some_of(*(lambda find=find: subject.both(find) for find in finds))


@_section("Which words decide?", "Blue ones speak for the answer, red ones against it. Absent words have no score.")
def _words(subject):
    x, _ = subject.first(subject.examples)
    if subject.report is not None:
        shown = (*subject.report.hardest, *subject.report.confident_mistakes)
        x = take_rows(subject.x, np.array([*dict.fromkeys(each.position for each in shown)]))
    answers = None
    if subject.rival is not None and isinstance(subject.model, TextClassifier):  # Both explain the same label.
        answers = subject.model.predict_proba(x).argmax(axis=-1).tolist()
    if subject.rival is not None and isinstance(subject.model, TokenClassifier):
        answers = [*zip(*tags_of(subject.model, subject.model.reader.columns(x), None)[:2])]

    def explain(model):
        if not isinstance(model, type(subject.model)):
            raise NotApplicableError(f"A {type(model).__name__} gives no such answers.")
        return [attribute(model, x, target=answers, verbose=0)]

    return subject.both(explain)


@_section("Does it behave?", "Accuracy after typing errors, and your tests. They say nothing about what none asks.")
def _behavior(subject):
    if subject.y is None and not subject.tests:
        raise NotApplicableError("The data has no labels, and there are no `tests`.")
    curve, options = None, {"against": subject.rival, "verbose": 0}
    if subject.y is not None:
        curve = perturbation_curve(subject.model, *subject.first(TYPED), kinds=["swap"], **options)
    return [curve, check_behavior(subject.model, subject.tests, **options) if subject.tests else None]


@_section("Which of two sentences is more likely?", "How often it is the acceptable one. Half is chance.")
def _pairs(subject):
    if subject.pairs is None:
        raise NotApplicableError("There are no minimal pairs. Pass `pairs`, with a language model.")
    return [minimal_pairs(subject.model, subject.pairs, against=subject.rival, verbose=0)]
