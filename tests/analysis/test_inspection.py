"""An inspection makes one page of all analyses, continues after its process was killed, and shows hostile text."""

import functools
import html.parser
import re

import numpy as np
import pytest

from keras_transfer.analysis import Direction, Invariance, inspect, inspection
from keras_transfer.datasets import MinimalPairs, Trees
from keras_transfer.encoders import TransformerEncoder
from keras_transfer.tasks import CausalLM, MaskedLM, SpanExtractor, TextRegressor, TokenClassifier
from keras_transfer.text import Packing, TokenPreprocessor
from tests.errors import check_errors
from tests.tasks import tiny

VOID = ("meta", "br", "path", "use", "rect", "line", "circle", "polyline", "stop", "image")
NAMES = ["bad", "good"]
HOSTILE = "<script>alert(1)</script> \u202egood $x_1$ &amp; a\x00b \U0001f600"


def balanced(page):
    """The names of the elements of a page, which are closed in their order."""
    parser, opened, seen = html.parser.HTMLParser(), [], []

    def start(tag, attributes):
        seen.append(tag)
        opened.extend([] if tag in VOID else [tag])

    def end(tag):
        assert tag in VOID or opened.pop() == tag, tag

    parser.handle_starttag, parser.handle_endtag = start, end
    parser.handle_startendtag = lambda tag, attributes: seen.append(tag)
    parser.feed(page)
    assert opened == []
    return seen


@pytest.fixture
def only_scores(monkeypatch):
    monkeypatch.setattr(inspection, "SECTIONS", {"scores": inspection.SECTIONS["scores"]})


@pytest.fixture
def data():
    texts, labels = tiny.examples(30)
    return texts, [NAMES[label] for label in labels]


def vectors(**options):
    return tiny.of_words([*NAMES, *"abcdef"], label_names=NAMES, **options)


def test_scores_are_those_of_the_report_and_of_the_model_before(only_scores, data, eagerly):
    model, before = vectors(), vectors()
    model.weights[-1].assign([0.0, 99.0])  # It answers "good" to everything,
    before.weights[-1].assign([99.0, 0.0])  # and this one "bad".
    found = inspect(model, data, before, verbose=0)
    report, gains = found.sections["scores"].results
    good = data[1].count("good")
    assert report.metrics["accuracy"].value == good / 30
    assert gains.rows[0][:4] == ["all rows", "30", str(good), str(30 - good)]
    assert found.facts["rows"] == "30" and f"Is it right?\n============\n30 rows, 2 classes, {good} " in str(found)
    alone = inspect(model, data, before.encoder, verbose=0)
    assert len(alone.sections["scores"].results) == 1


def test_rows_are_drawn_from_all_of_the_data_with_their_labels(only_scores, data, eagerly):
    found = inspect(vectors(), data, rows=10, verbose=0)
    [report] = found.sections["scores"].results
    assert found.facts["rows"] == "10 of 30, drawn at random"
    drawn = {example.text[0]: example.label for example in report.hardest}
    assert len(drawn) == 8 and drawn.items() <= dict(zip(*data)).items()
    pairs = inspect(tiny.classifier(label_names=NAMES), ((data[0], data[0][::-1]), data[1]), rows=10, verbose=0)
    first, second = pairs.sections["scores"].results[0].hardest[0].text
    assert data[0].index(first) == 29 - data[0].index(second)


def test_a_tagger_is_scored_by_its_words(only_scores, eagerly):
    model = TokenClassifier(tiny.encoder(), tiny.preprocessor(), label_names=["X", "Y"])
    sentences, tags = [["a", "b"], ["good"], ["bad", "c"]], [["X", "Y"], ["X"], ["Y", "Y"]]
    predicted = [label for sentence in model.predict_words(sentences) for _, label in sentence]
    right = sum(label == name for label, name in zip(predicted, ["X", "Y", "X", "Y", "Y"]))
    trees = Trees(sentences, [[0, 1], [0], [0, 1]], [["root", "obj"], ["root"], ["root", "obj"]], tags)
    for given in ((sentences, tags), (sentences, [[0, 1], [0], [1, 1]]), trees):
        [found] = inspect(model, given, model, verbose=0).sections["scores"].results
        assert found.rows[0][2:4] == ["5", f"{right / 5:.3f}"] and found.rows[0][5] == f"{right / 5:.3f}"


def test_several_labels_are_right_in_all_sections_if_all_of_a_row_are(monkeypatch, data, eagerly):
    monkeypatch.setattr(inspection, "SECTIONS", {n: inspection.SECTIONS[n] for n in ("scores", "behavior")})
    model = vectors(multi_label=True)
    model.weights[-1].assign([9.0, -9.0])  # It answers "bad" to everything.
    labels = [["bad"], ["good"], ["bad", "good"]] * 10
    for y in (labels, [[1, 0], [0, 1], [1, 1]] * 10, np.array([[1, 0], [0, 1], [1, 1]] * 10)):
        sections = inspect(model, (data[0], y), verbose=0).sections
        assert sections["scores"].results[0].metrics["subset_accuracy"].value == 1 / 3
        assert sections["behavior"].results[0].rows[0]["accuracy"] == 1 / 3


def test_a_section_without_meaning_says_why(only_scores, data, eagerly):
    regressor = TextRegressor(tiny.encoder(), tiny.preprocessor())
    for model, given, reason in (
        (vectors(), data[0], "Left out. The data has no labels."),
        (tiny.encoder(), data, "Left out. An encoder predicts no labels."),
        (regressor, (data[0], [0.5] * 30), "Left out. A TextRegressor predicts no classes."),
    ):
        found = inspect(model, given, preprocessor=tiny.preprocessor(), verbose=0)
        assert found.sections["scores"].reason.startswith(reason) and reason in str(found)
        assert reason in found._repr_html_() and found.sections["scores"].results == ()


def test_a_fault_of_a_section_is_an_error_and_no_reason_to_leave_it_out(monkeypatch, data):
    def find(subject):
        raise ValueError("A fault.")

    monkeypatch.setattr(inspection, "SECTIONS", {"a": ("A", "About a.", find)})
    with pytest.raises(ValueError, match="^A fault.$"):
        inspect(vectors(), data, verbose=0)


def test_attention_and_words_of_both_models_stand_side_by_side(monkeypatch, data, eagerly):
    monkeypatch.setattr(inspection, "SECTIONS", {n: inspection.SECTIONS[n] for n in ("attention", "words")})
    model, before = (tiny.classifier(label_names=NAMES) for _ in range(2))
    model.weights[-1].assign([-9.0, 9.0])
    before.weights[-1].assign([9.0, -9.0])  # It answers "bad" to everything.
    found = inspect(model, data, before, examples=3, verbose=0)
    statistics, others, weights, _ = found.sections["attention"].results
    assert statistics.rows == others.rows and weights.tokens[0][0] == "[CLS]"
    ours, theirs = found.sections["words"].results
    assert {*ours.target} == {*theirs.target} == {"good"}  # The label that the model predicts.
    np.testing.assert_allclose(ours.prediction - theirs.prediction, 18.0, rtol=1e-4)
    html = found._repr_html_()
    assert html.count('<div class="both"') == html.count("<p>model</p>") == html.count("<p>against</p>") == 3
    balanced(f"<main>{html}</main>")
    text = str(found)
    assert text.index("model: Attributions") < text.index("against: Attributions")
    alone = inspect(model, data, before.encoder, examples=3, verbose=0).sections
    assert len(alone["attention"].results) == 4 and len(alone["words"].results) == 1
    reason = "Left out for `against`. A BertEncoder gives no such answers."
    assert reason in alone["words"].html and reason in alone["words"].text


def test_the_words_of_two_taggers_are_those_for_the_same_label(monkeypatch, eagerly):
    monkeypatch.setattr(inspection, "SECTIONS", {"words": inspection.SECTIONS["words"]})
    model, before = (TokenClassifier(tiny.encoder(), tiny.preprocessor(), label_names=["X", "Y"]) for _ in range(2))
    model.weights[-1].assign([-9.0, 9.0])
    before.weights[-1].assign([9.0, -9.0])  # It answers "X" to everything.
    ours, theirs = inspect(model, [["a", "b"], ["good"]], before, verbose=0).sections["words"].results
    assert ours.target == theirs.target and {target[-1] for target in ours.target} == {"Y"}


def test_what_has_a_meaning_is_shown_without_the_rest_of_its_section(monkeypatch, eagerly):
    monkeypatch.setattr(inspection, "SECTIONS", {"attention": inspection.SECTIONS["attention"]})
    words, tags = [["a"], ["good"]], [["X"], ["Y"]]  # Without a relation between two words.
    trees = Trees(words, [[0], [0]], [["root"], ["root"]], tags)
    found = inspect(tiny.encoder(), trees, preprocessor=tiny.preprocessor(), verbose=0).sections["attention"]
    assert found.reason is None and len(found.results) == 2 and "\n\nLeft out. " in found.text


@pytest.mark.slow
def test_trees_show_what_layers_and_heads_know_of_them(monkeypatch, eagerly):
    monkeypatch.setattr(inspection, "SECTIONS", {n: inspection.SECTIONS[n] for n in ("probes", "attention")})
    monkeypatch.setattr(inspection, "Probe", functools.partial(inspection.Probe, controls=[], seeds=1))
    words, tags = [["a", "b"], ["good", "c", "bad"]] * 10, [["X", "Y"], ["Y", "X", "Y"]] * 10
    trees = Trees(words, [[0, 1], [2, 0, 2]] * 10, [["root", "obj"], ["obj", "root", "obj"]] * 10, tags)
    encoder, options = tiny.encoder(), {"preprocessor": tiny.preprocessor(), "verbose": 0}
    found = inspect(encoder, trees, tiny.encoder(), rows=15, **options).sections
    sweep, gains, structure, before = found["probes"].results
    assert len(gains.rows) == 3 and [row["layer"] for row in sweep.rows[:2]] == ["embeddings", "block_0"]
    assert structure.trees.words == before.trees.words and len(structure.predictions) == 5
    heads, others, statistics, *_ = found["attention"].results
    assert heads.rows[0]["relation"] == others.rows[0]["relation"] == "all" and len(statistics.rows) == 2


def three(done, stop=None):
    """Sections that note when they run, one of which is killed."""

    def find(name):
        def run(subject):
            done.append(name)
            if name == stop:
                raise KeyboardInterrupt
            return [inspection.tables.Table(name, ["", "value"], [["x", str(len(done))]])]

        return run

    return {name: (name, f"About {name}.", find(name)) for name in "abc"}


def test_a_killed_call_continues_after_its_last_finished_section(monkeypatch, tmp_path, data):
    done, model = [], vectors()
    monkeypatch.setattr(inspection, "SECTIONS", three(done, stop="c"))
    with pytest.raises(KeyboardInterrupt):
        inspect(model, data, folder=tmp_path / "new", verbose=0)
    monkeypatch.setattr(inspection, "SECTIONS", three(done))
    found = inspect(model, data, folder=tmp_path / "new", verbose=0)
    assert done == ["a", "b", "c", "c"] and list(found.sections) == ["a", "b", "c"]
    assert "x      1" in found.sections["a"].text and "<td" in found.sections["b"].html
    inspect(model, data, folder=tmp_path / "new", verbose=0)
    assert len(done) == 4
    for changed in ({"examples": 3}, {"against": vectors()}, {"data": data[0]}):
        inspect(model, **{"data": data, "folder": tmp_path / "new", "verbose": 0, **changed})
    model.weights[-1].assign([1.0, 2.0])
    inspect(model, data, folder=tmp_path / "new", verbose=0)
    assert len(done) == 4 + 4 * 3
    (tmp_path / "new" / inspection.KEPT).write_text('{"half')
    inspect(model, data, folder=tmp_path / "new", verbose=0)
    assert len(done) == 4 + 5 * 3


def test_kept_sections_are_those_of_the_same_settings_and_tests(monkeypatch, tmp_path, data):
    done, encoder = [], tiny.encoder()
    monkeypatch.setattr(inspection, "SECTIONS", three(done))
    for number, options in enumerate(
        (
            {"model": tiny.classifier(pooling="mean")},
            {"model": tiny.classifier(pooling="first")},
            {"model": encoder, "preprocessor": tiny.preprocessor()},
            {"model": encoder, "preprocessor": tiny.preprocessor(sequence_length=5)},
            {"tests": [Direction("praise", ["a"], ["b"], function=lambda first, last: True)]},
            {"tests": [Direction("praise", ["a"], ["c"], function=lambda first, last: True)]},
        )
    ):
        options = {"model": encoder, "preprocessor": tiny.preprocessor(), **options}
        for _ in range(2):  # The second call finds all sections.
            inspect(data=data[0], folder=tmp_path, verbose=0, **options)
            assert len(done) == 3 * (number + 1)


def test_hostile_text_is_shown_as_text(only_scores, tmp_path, eagerly):
    names = [f"good{HOSTILE}", "<b>bad"]
    model = tiny.of_words(["good", "bad"], label_names=names)
    texts = [HOSTILE, "good", "x" * 20_000, "<img src=x onerror=alert(1)>"] * 6
    found = inspect(model, (texts, names * 12), verbose=0)
    page = found.to_html(tmp_path / "folder" / "page.html", "<i>Title \u202e").read_text("utf-8")
    assert not {"script", "img", "b", "i"} & set(balanced(page))
    assert "&lt;script&gt;" in page and "\u202e" not in page and "\x00" not in page and len(page) < 2e6
    assert "\u202e" not in str(found)


def mistaken(count):
    """A classifier of two layers and its start, and a few rows with hostile texts."""
    texts, labels = tiny.examples(count)
    names = [f"good{HOSTILE}", "<b>bad"]
    model, before = (tiny.classifier(num_layers=2, label_names=names) for _ in range(2))
    for weight in model.trainable_weights:
        weight.assign(weight + 0.1 * np.random.default_rng(0).normal(size=weight.shape))
    return model, ([HOSTILE, "good <img src=x> " + "\u202e", *texts[2:]], [names[label] for label in labels]), before


@pytest.mark.slow
def test_all_sections_of_a_classifier_are_on_one_page_and_hostile_text_is_harmless(tmp_path, traced):
    pytest.importorskip("matplotlib", reason="draws pictures: pip install 'keras_transfer[plots]'")
    model, data, before = mistaken(40)
    tests = [Invariance(HOSTILE, ["good", "bad"], ["good a", HOSTILE])]
    found = inspect(model, data, before, tests=tests, folder=tmp_path, verbose=0)
    reasons = {name: section.reason for name, section in found.sections.items() if section.reason}
    assert list(reasons) == ["pairs"] and "Pass `pairs`" in reasons["pairs"]
    page = found.to_html(tmp_path / "page.html").read_text("utf-8")
    assert not {"script", "img", "b", "iframe", "link"} & set(balanced(page))
    assert page.count("<svg") > 5 and "\u202e" not in page and len(page) < 2e6
    assert not re.search(r"""(src|href)=["'](?!#|data:)|url\((?!#)""", page)  # Nothing is loaded.
    again = inspect(model, data, before, tests=tests, folder=tmp_path, verbose=0)
    assert again._repr_html_() == found._repr_html_() and str(again) == str(found)
    assert again.sections["layers"].results == []
    sweep, gains = found.sections["probes"].results
    assert [row["layer"] for row in sweep.rows] == ["embeddings", "block_0", "block_1", "mix"] and len(gains.rows) == 4
    moved, similar = found.sections["layers"].results
    assert all(row["weights"] > 0 for row in moved.rows) and similar.matrix.shape == (3, 3)


@pytest.mark.slow
def test_each_kind_of_model_has_the_sections_that_mean_something(monkeypatch, eagerly):
    quick = {name: section for name, section in inspection.SECTIONS.items() if name != "probes"}
    monkeypatch.setattr(inspection, "SECTIONS", quick)
    words, tags = [["a", "b"], ["good", "c", "bad"]] * 10, [["X", "Y"], ["Y", "X", "X"]] * 10
    trees = Trees(words, [[0, 1], [2, 0, 2]] * 10, [["root", "obj"], ["obj", "root", "obj"]] * 10, tags)
    parts = tiny.encoder(), tiny.preprocessor()
    texts, labels = tiny.examples(30)
    pairs = MinimalPairs(["a good", "b good"], ["a bad", "b bad"], ["x", "y"])
    writer = CausalLM(
        tiny.encoder(TransformerEncoder, causal=True), TokenPreprocessor(parts[1].tokenizer, Packing(pad="[PAD]"), 32)
    )
    for model, data, without in (
        (TokenClassifier(*parts, label_names=["X", "Y"]), trees, {"pairs"}),
        (MaskedLM(*parts), texts, {"scores", "words", "behavior"}),
        (TextRegressor(*parts), (texts, [0.5, 1.5] * 15), {"scores", "behavior", "pairs"}),
        (tiny.of_vectors(), (texts, labels), {"attention", "pairs"}),
        (tiny.classifier(), ((texts, texts[::-1]), labels), {"pairs"}),
        (tiny.classifier(siamese=True), ((texts, texts[::-1]), labels), {"words", "pairs"}),
        (SpanExtractor(*parts), ((texts, texts), [["good"]] * 30), {"pairs"}),
        (parts[0], (texts, labels), {"scores", "words", "behavior", "pairs"}),
        (TokenClassifier(*parts, label_names=["X", "Y"]), ([[], *words], [[], *tags]), {"words", "pairs"}),
        (
            tiny.classifier(windows="mean"),
            (["a " * 99, *texts], [0, *labels]),
            {"layers", "attention", "words", "pairs"},
        ),
        (writer, ["a " * 99, *texts], {"scores", "words", "behavior", "pairs"}),
        (writer, ["", *texts], {"scores", "words", "behavior", "pairs"}),
    ):
        options = {"preprocessor": parts[1]} if model is parts[0] else {}
        found = inspect(model, data, model, pairs=pairs if isinstance(model, MaskedLM) else None, verbose=0, **options)
        assert {name for name, section in found.sections.items() if section.reason} == without
        balanced(f"<main>{found._repr_html_()}</main>")


test_a_mistake_is_one_error = check_errors(
    (lambda: inspect("model", ["a"]), "`model` must be a task or an encoder. Received: model='model'"),
    (lambda: inspect(tiny.of_vectors(), ["a"], ["x"]), "`inspect(model, (x, y))`. Received: against='list'"),
    (lambda: inspect(tiny.encoder(), ["a"]), "An encoder does not hold its preprocessor"),
    (lambda: inspect(tiny.of_vectors(), (["a", "b"], [0])), "Each row must have a label. Received: rows=2, labels=1"),
    (lambda: inspect(tiny.of_vectors(), []), "`data` must"),
    (lambda: inspect(tiny.of_vectors(), (np.ones((3, 2)), [0, 1, 0])), "`data` must be `(x, y)`, or `x`: texts"),
    (lambda: inspect(vectors(), (["a", "b"], ["bad", "worse"])), "worse"),
)
