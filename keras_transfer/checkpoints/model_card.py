"""The model card: what a user says about a model, which becomes a `README.md` together with what the model knows."""

import dataclasses
import logging
import os
import pathlib
import re
from typing import Any

from keras_transfer.core.expect import PART, Rule, expect, expects, integer, number
from keras_transfer.core.files import atomic_file

log = logging.getLogger("keras_transfer")
CARD = "README.md"

MARK = (
    "<!-- keras_transfer wrote this file, and replaces it when the model is saved again. Delete this line to keep "
    "your changes. -->"
)

MOST_LABELS = 100  # in the text; the front matter has all

# What YAML 1.1 or 1.2 reads as something other than a string, such as the language code of Norwegian.
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"}

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")


def _listed(value):
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)


def _is_text(value):
    return isinstance(value, str) and bool(value.strip())


def _dict_of(words, is_right):
    """Returns the rule of a dict from strings to values of a kind."""

    def is_met(value):
        return isinstance(value, dict) and all(isinstance(key, str) and is_right(item) for key, item in value.items())

    return Rule(f"a dict from strings to {words}", is_met, (1, {"a": -0.5j}, {1: 1}))


_TEXT = Rule("a string that is not empty", _is_text, (1, "", " "))
_TEXTS = Rule(
    "a string or a list of strings",
    lambda value: isinstance(value, (str, list, tuple)) and all(map(_is_text, _listed(value))),
    (1, {"a": 1}, [1], ""),
)
_COUNTS = _dict_of("integers of at least 0", integer(0).is_met)
_FACTS = _dict_of(
    "strings, finite numbers or booleans", lambda value: isinstance(value, (str, bool)) or number().is_met(value)
)


@expects(
    name=_TEXT,
    description=_TEXT,
    language=_TEXTS,
    license=_TEXT,
    base_model=_TEXT,
    datasets=_TEXTS,
    tags=_TEXTS,
    pipeline_tag=_TEXT,
    data_size=_COUNTS,
    training=_FACTS,
    confidence=PART,
    evaluated_on=_TEXT,
    limits=_TEXTS,
)
@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelCard:
    """What you know about a model and the model does not: its language, license, data, training and scores.

    Pass it to `save_pretrained` or `push_to_hub` of a task. It becomes the `README.md` of the folder, which the
    Hugging Face hub shows and indexes. The task adds its class, labels, encoder, versions and a snippet that loads it.
    What you leave out is not in the card.

    Args:
        name: String. Title of the card. Defaults to `None`, the name of the folder.
        description: String. Text in Markdown that follows the title. Defaults to `None`, a sentence on the task.
        language: String or list of strings. ISO 639 codes, such as `"en"`. Defaults to `None`.
        license: String. Identifier of the hub, such as `"apache-2.0"`. Defaults to `None`.
        base_model: String. Name on the hub of the model that was fine-tuned. Defaults to `None`, the encoder's source
            if it was `"minilm-l6"` or a name with `hf://`.
        datasets: String or list of strings. Names of the training data on the hub. Defaults to `()`.
        tags: String or list of strings. Further tags. Defaults to `()`.
        pipeline_tag: String. The hub's name of the task, such as `"translation"`. Defaults to `None`, that of the task.
        data_size: Dict from the name of a split to its number of rows, such as `{"train": 720}`. Defaults to `None`.
        training: Dict from names to values, such as `{"recipe": "bert", "seed": 0}`. Defaults to `None`.
        metrics: Dict from the name of a metric to its value or to `(value, low, high)`, an interval. A report of
            `analysis.report` can be passed instead: the card then has its metrics and its confidence. Defaults to
            `None`.
        confidence: Float between 0 and 1. Confidence of the intervals. Defaults to `0.95`, or to that of the report.
        evaluated_on: String. The data that the metrics come from, such as `"144 held-out questions"`. Defaults to
            `None`, unknown data.
        limits: String or list of strings. Sentences on what the model must not be used for. Defaults to `()`.

    Raises:
        ValueError: If a value has a different type, a metric is not finite or outside of its interval, or `confidence`
            is not between 0 and 1 or differs from that of the report.

    Example:
    ```python
    card = keras_transfer.checkpoints.ModelCard(
        language="en", license="apache-2.0", data_size={"train": 720}, metrics={"accuracy": (0.944, 0.894, 0.972)}
    )
    model = keras_transfer.tasks.TextEmbedder.from_pretrained("minilm-l6")
    model.save_pretrained("embedder", card=card, overwrite=True)
    ```

    Source: Mitchell et al. 2019, "Model Cards for Model Reporting". https://arxiv.org/abs/1810.03993
    """

    name: str | None = None
    description: str | None = None
    language: str | list | None = None
    license: str | None = None
    base_model: str | None = None
    datasets: str | list | tuple = ()
    tags: str | list | tuple = ()
    pipeline_tag: str | None = None
    data_size: dict | None = None
    training: dict | None = None
    metrics: object = None
    confidence: float | None = None
    evaluated_on: str | None = None
    limits: str | list | tuple = ()

    def __post_init__(self):
        own = getattr(self.metrics, "confidence", None)
        rule = "The intervals of a report have its confidence. Leave `confidence` out, or pass it to the report."
        expect(own is None or self.confidence in (None, own), rule, confidence=self.confidence, report=own)
        self._scores()

    def _scores(self):
        """Returns a dict from the name of each metric to `(value, low, high)`, without an interval `(value,)`."""
        given = getattr(self.metrics, "metrics", self.metrics)
        if given is None:
            return {}
        rule = "`metrics` must be a dict from names to numbers or to `(value, low, high)`, or a report."
        expect(isinstance(given, dict), rule, metrics=given)
        is_report = given is not self.metrics
        rule = "Each metric must be a finite number or `(value, low, high)` with low <= value <= high."
        found = {}
        for name, value in given.items():
            is_name = isinstance(name, str)
            values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
            if is_report and is_name and not _is_score(values):
                continue  # A report has NaN for what its data does not define.
            expect(is_name and _is_score(values), rule, metrics={name: value})
            found[name] = tuple(float(number) for number in values)
        return found

    def _to_text(self, facts, name):
        """Returns the content of the `README.md`."""
        title = self.name or name
        front = f"---\n{to_yaml(self._metadata(facts, title))}---"
        return "\n\n".join([front, MARK, *self._parts(facts, title)]) + "\n"

    def write(
        self, facts: Any, folder: str | os.PathLike, name: str, replaced: str | os.PathLike | None = None
    ) -> bool:
        """Writes `README.md` into a folder, unless there is one that somebody has written or edited.

        Args:
            facts: `ModelFacts` of the model.
            folder: Path of an existing folder.
            name: String. Title, unless the card has one.
            replaced: Path of a folder that `folder` will replace, whose own `README.md` is kept. Defaults to `None`.

        Returns:
            Whether the card was written. Otherwise, a warning was logged.
        """
        if keep_own_card(folder if replaced is None else replaced, folder):
            return False
        with atomic_file(pathlib.Path(folder) / CARD) as file:
            file.write(self._to_text(facts, name).encode("utf-8", "backslashreplace"))
        return True

    def _metadata(self, facts, title):
        """Returns the front matter as a dict, with what this library adds under its own key."""
        tag = self.pipeline_tag or facts.pipeline_tag
        scores = {metric: [float(f"{part:.6g}") for part in found] for metric, found in self._scores().items()}
        known = {
            "language": self.language,
            "license": self.license,
            "library_name": "keras_transfer",
            "pipeline_tag": tag,
            "base_model": self.base_model or facts.base_model,
            "datasets": list(_listed(self.datasets)),
            "tags": list(dict.fromkeys(["keras", "keras_transfer", *facts.tags, *_listed(self.tags)])),
            "metrics": list(scores),
        }
        known = {key: list(value) if isinstance(value, tuple) else value for key, value in known.items() if value}
        if scores:
            data = list(_listed(self.datasets))
            result = {
                "task": {"type": tag or "other"},
                "dataset": {"name": self.evaluated_on or "Unknown", "type": data[0] if len(data) == 1 else "unknown"},
                "metrics": [{"type": metric, "value": found[0], "name": metric} for metric, found in scores.items()],
            }
            known["model-index"] = [{"name": title, "results": [result]}]
        intervals = {metric: found[1:] for metric, found in scores.items() if len(found) == 3}
        own = {
            "task": facts.task,
            "labels": list(facts.labels),
            "data_size": self.data_size,
            "training": {**facts.training, **(self.training or {})},
            "intervals": {"confidence": self._confidence(), **intervals} if intervals else None,
            "versions": facts.versions,
        }
        return {**known, "keras_transfer": {key: value for key, value in own.items() if value}}

    def _parts(self, facts, title):
        """Yields the paragraphs of the text."""
        yield f"# {_plain(title)}"
        yield facts.summary if self.description is None else self.description.strip()
        base = self.base_model or facts.base_model
        details = {"task": f"`{facts.task}`", **facts.details}
        details |= {"base model": base, "language": ", ".join(_listed(self.language)), "license": self.license}
        yield _table(("", ""), [(key, value) for key, value in details.items() if value])
        if facts.labels:
            shown = [_plain(label) for label in facts.labels[:MOST_LABELS]]
            more = len(facts.labels) - len(shown)
            yield f"## Labels\n\n{', '.join(shown)}" + (f", and {more} more" if more else "")
        if self.data_size or self.datasets:
            rows = [(split, f"{count:,} rows") for split, count in (self.data_size or {}).items()]
            rows += [("dataset", dataset) for dataset in _listed(self.datasets)]
            yield f"## Data\n\n{_table(('', ''), rows)}"
        if training := {**facts.training, **(self.training or {})}:
            yield f"## Training\n\n{_table(('', ''), training.items())}"
        if scores := self._scores():
            header = ("metric", "value")
            rows = [(metric, f"{found[0]:.4g}") for metric, found in scores.items()]
            if any(found[1:] for found in scores.values()):
                header = (*header, f"{100 * self._confidence():.4g}% interval")
                intervals = [f"{found[1]:.4g} to {found[2]:.4g}" if found[1:] else "" for found in scores.values()]
                rows = [(*row, interval) for row, interval in zip(rows, intervals)]
            on = f"Measured on {_plain(self.evaluated_on)}.\n\n" if self.evaluated_on else ""
            yield f"## Metrics\n\n{on}{_table(header, rows)}"
        for heading, code in facts.usage.items():
            yield f"## {heading}\n\n```python\n{code.strip()}\n```"
        if limits := [*facts.limits, *_listed(self.limits)]:
            yield "## Limits\n\n" + "\n".join(f"- {' '.join(sentence.split())}" for sentence in limits)
        if facts.versions:
            yield "## Versions\n\n" + ", ".join(f"{package} {version}" for package, version in facts.versions.items())

    def _confidence(self):
        return self.confidence or getattr(self.metrics, "confidence", 0.95)


def _is_score(values):
    """Returns whether a tuple is a finite number, or such a number with an interval around it."""
    if len(values) not in (1, 3) or not all(map(number().is_met, values)):
        return False
    value, low, high = values if len(values) == 3 else values * 3
    return low <= value <= high


def keep_own_card(replaced, folder):
    """Keeps a folder's `README.md` that somebody has written or edited, with a warning. Returns whether there is one.

    Args:
        replaced: Path of the folder whose card would be lost, which need not exist.
        folder: Path of the folder that takes its place, or the same path.
    """
    own = pathlib.Path(replaced) / CARD
    if not own.is_file() or is_written_here(content := own.read_bytes()):
        return False
    with atomic_file(pathlib.Path(folder) / CARD) as file:
        file.write(content)
    log.warning(
        "%s was not written by keras_transfer, or was edited, and is kept. For a new model card, move it away first.",
        own,
    )
    return True


def remove_card(folder):
    """Removes the `README.md` of a folder, unless somebody has written or edited it."""
    card = pathlib.Path(folder) / CARD
    if card.is_file() and is_written_here(card.read_bytes()):
        card.unlink()


def is_written_here(content):
    """Returns whether the bytes of a `README.md` have the line that allows this library to replace it."""
    return MARK.encode() in content


def _plain(text):
    """Returns a text on one line, without characters that mean something in Markdown."""
    return re.sub(r"([\\`*_\[\]<>|#~])", r"\\\1", " ".join(str(text).split()))


def _table(header, rows):
    """Returns a table in Markdown. Code keeps its marks."""
    rows = [[cell if _is_code(cell) else _plain(cell) for cell in row] for row in [header, *rows]]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], f"|{' --- |' * len(header)}", *lines[1:]])


def _is_code(cell):
    return isinstance(cell, str) and re.fullmatch(r"`[\w.]+`", cell) is not None


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """What a task tells its model card.

    Args:
        pipeline_tag: String. The hub's name of the task, or None.
        details: Dict from names to values of what else is known of the model.
        training: Dict from names to values of what is known of its training.
        usage: Dict from titles to snippets of Python.
    """

    task: str
    summary: str
    pipeline_tag: str | None
    labels: tuple = ()
    base_model: str | None = None
    details: dict = dataclasses.field(default_factory=dict)
    training: dict = dataclasses.field(default_factory=dict)
    versions: dict = dataclasses.field(default_factory=dict)
    usage: dict = dataclasses.field(default_factory=dict)
    limits: tuple = ()
    tags: tuple = ()


def to_yaml(value, indent=""):
    """Returns a dict, list, string, number, boolean or None as lines of YAML, with a newline at the end.

    Strings are plain where this is safe, and in double quotes otherwise, with escapes for all that is not printable.
    """
    items = value.items() if isinstance(value, dict) else [("-", item) for item in value]
    lines = []
    for key, item in items:
        start = "- " if isinstance(value, list) else f"{_string(key)}: "
        if isinstance(item, (dict, list)) and item:
            block = to_yaml(item, indent + "  ")
            is_list = isinstance(value, list)  # whose items follow the dash
            lines.append(f"{indent}- {block.lstrip()}" if is_list else f"{indent}{_string(key)}:\n{block}")
        else:
            lines.append(f"{indent}{start}{_scalar(item)}\n")
    return "".join(lines)


def _scalar(value):
    if isinstance(value, (dict, list)):
        return "{}" if isinstance(value, dict) else "[]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return _string(value) if isinstance(value, str) else _number(value)


def _number(value):
    """Returns a number as YAML 1.1 and 1.2 read it: `1e-05` would be a string."""
    text = str(value)  # `repr` of a NumPy number names its type.
    mantissa, e, exponent = text.partition("e")
    return text if not e else f"{mantissa if '.' in mantissa else mantissa + '.0'}e{int(exponent):+d}"


def _string(text):
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character):
    if character in '"\\':
        return "\\" + character
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
