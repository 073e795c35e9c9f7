"""`report` evaluates a model on labelled data, prints as text, and writes one page."""

import html.parser
import re
import sys
import xml.etree.ElementTree

import keras
import numpy as np
import pytest

from keras_transfer.analysis import ClassificationReport, report
from keras_transfer.tasks import TextEmbedder, TextRegressor, TokenClassifier
from tests.tasks.tiny import classifier, examples, of_vectors

NAMES = ["bad", "good"]


def test_a_classifier_is_evaluated_on_texts_and_names_of_labels(eagerly):
    model = classifier(label_names=NAMES)
    model.compile()
    texts, labels = examples(40)
    found = report(model, texts, [NAMES[label] for label in labels], slices={"word": "good"}, resamples=20)
    expected = model.evaluate(texts, labels, verbose=0, return_dict=True)["accuracy"]
    assert found.metrics["accuracy"].value == pytest.approx(expected)
    assert list(found.classes) == NAMES
    np.testing.assert_array_equal(found.predicted, model.predict(texts, verbose=0).argmax(axis=-1))
    assert found.slices[-1].rows.tolist() == [row for row, text in enumerate(texts) if "good" in text]
    assert found.hardest[0].text == (texts[found.hardest[0].position],)
    assert found._repr_html_().count("<table>") == str(found).count("\n\n") + 1  # in a notebook


def test_pairs_of_texts_are_evaluated(eagerly):
    model = classifier()
    found = report(model, (["good", "a"], ["b", "bad"]), [1, 0], resamples=2)
    assert sorted(example.text for example in found.hardest) == [("a", "bad"), ("good", "b")]


def test_any_keras_model_and_any_model_with_probabilities_is_evaluated(eagerly):
    x, labels = np.random.default_rng(0).normal(size=(30, 3)), np.arange(30) % 3
    inputs = keras.Input((3,))
    logits = keras.layers.Dense(3)(inputs)
    model, soft = keras.Model(inputs, logits), keras.Model(inputs, keras.layers.Softmax()(logits))
    first, second = report(model, x, labels), report(soft, x, labels, from_logits=False)
    np.testing.assert_allclose(first.probabilities, second.probabilities, atol=1e-6)
    assert first.label_names == ["0", "1", "2"] and first.slices == []

    class Probabilities:
        classes_ = np.array(["x", "y", "z"])

        def predict_proba(self, x):
            return first.probabilities

    found = report(Probabilities(), x, np.array(["x", "y", "z"])[labels])
    assert str(found) == str(report(model, x, labels, label_names=["x", "y", "z"]))


def test_the_hardest_examples_and_the_most_confident_mistakes_are_in_order():
    probabilities = [[0.6, 0.3, 0.1], [0.5, 0.1, 0.4], [0.1, 0.8, 0.1], [0.05, 0.05, 0.9], [0.34, 0.33, 0.33]]
    texts = list("abcde")
    found = ClassificationReport(
        [1, 1, 1, 0, 0],
        probabilities,
        texts=texts,
        label_names=list("xyz"),
        num_examples=3,
        resamples=2,
        from_logits=False,
    )
    assert [example.position for example in found.hardest] == [3, 1, 0]
    assert [example.position for example in found.confident_mistakes] == [3, 0, 1]
    assert found.hardest[0] == (3, "x", "z", 0.9, 0.05, ("d",))


def test_the_text_has_all_parts_and_the_same_examples_only_once():
    texts = ["a fine\x1b[31m\nfilm", *(f"text {number}" for number in range(9))]
    found = ClassificationReport(
        [0, 1] * 5, np.eye(2)[[0] * 10] * 3, texts=texts, label_names=NAMES, resamples=2, num_examples=5
    )
    text = str(found)
    assert text.startswith("10 rows, 2 classes, 5 predictions are right\n")
    assert re.search(r"^accuracy +0\.5000  \[", text, re.MULTILINE)
    assert re.search(r"^bad +0\.500 +1\.000 +0\.667 +5$", text, re.MULTILINE)
    for title in ("Confusion matrix", "Reliability", "Slices", "Hardest examples, which are also the most confident"):
        assert f"\n\n{title}" in text
    assert "\x1b" not in text and "Most confident mistakes" not in text
    perfect = ClassificationReport([0, 0], np.eye(2)[[0, 0]] * 3, resamples=2)
    assert "Slices" not in str(perfect) and "Most confident mistakes" not in str(perfect)


def test_only_controls_are_replaced_in_texts(tmp_path):
    kept, replaced = "a\u00a0b\u3000c d\u200d\u200ce", "\x1b\ud800\u202e\u2066"
    found = ClassificationReport([0, 1], [[2.0, 1], [2, 1]], texts=[kept, replaced], resamples=2)
    page = found.to_html(tmp_path / "page.html").read_text("utf-8")
    assert kept in page and "\ufffd" * 4 in page
    assert "a b c d\u200d\u200ce" in str(found) and "\ufffd" * 4 in str(found)
    assert not set(replaced) & set(page + str(found))


def test_many_classes_have_a_list_of_confusions_instead_of_the_matrix(tmp_path):
    labels = np.arange(60) % 30
    predicted = np.where(labels == 7, 3, labels)
    found = ClassificationReport(labels, np.eye(30)[predicted] * 5, resamples=2)
    assert re.search(r"Most frequent confusions\nlabel +predicted +rows\n7 +3 +2\n\n", str(found))
    assert "Most frequent confusions" in found.to_html(tmp_path / "page.html").read_text("utf-8")


class Tags(html.parser.HTMLParser):
    """Collects the tags of a page, and checks that each is closed."""

    VOID = {"meta", "line", "rect", "circle"}

    def __init__(self, page):
        super().__init__()
        self.open, self.seen, self.links = [], [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        self.links += [value for name, value in attributes if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_the_page_is_one_file_with_pictures_in_which_texts_are_escaped(tmp_path):
    texts = ["<script>alert(1)</script> & not", "a 'quote' \"here\"", "\x00long " * 500, "ö 你好"]
    found = ClassificationReport(
        [0, 1, 0, 1],
        [[2.0, 1], [2, 1], [1, 2], [0, 3]],
        texts=texts,
        label_names=["<b>", "&"],
        slices={"<i>\x1b": "not"},
        resamples=5,
    )
    path = found.to_html(tmp_path / "new" / "page.html", title="A & B")
    page = path.read_text("utf-8")
    tags = Tags(page)
    assert tags.links == [] and not {"script", "b", "i", "link", "img"} & set(tags.seen)
    assert tags.seen.count("table") == 7
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; not" in page and "<title>A &amp; B</title>" in page
    assert "你好" in page and not {"\x00", "\x1b"} & set(page) and "long " * 300 not in page
    pytest.importorskip("matplotlib")
    pictures = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert [xml.etree.ElementTree.fromstring(picture).tag.rpartition("}")[2] for picture in pictures] == ["svg"] * 2
    assert "accuracy of each slice" in pictures[1] and page == found.to_html(path, title="A & B").read_text("utf-8")


def test_without_matplotlib_the_page_has_the_tables(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    found = ClassificationReport([0, 1], np.eye(2) * 3, resamples=2)
    page = found.to_html(tmp_path / "page.html").read_text("utf-8")
    assert "Reliability" in page and "<svg" not in page


def test_a_page_replaces_an_older_one_and_an_error_leaves_nothing(tmp_path):
    found = ClassificationReport([0, 1], np.eye(2) * 3, resamples=2)
    (tmp_path / "page.html").write_text("old")
    assert "Reliability" in found.to_html(str(tmp_path / "page.html")).read_text("utf-8")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        found.to_html(tmp_path / "folder")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "page.html"]


@pytest.mark.parametrize(
    ("labels", "logits", "options", "message"),
    [
        ([0, 2], [[2, 1], [1, 2]], {}, "Labels must be integers from 0 to 1. Received: 2 at position 1"),
        ([0, 0.5], [[2, 1], [1, 2]], {}, "Received: 0.5 at position 1"),
        ([None, 0], [[2, 1], [1, 2]], {}, "Received: None at position 0"),
        (["a", "b"], [[2, 1], [1, 2]], {"label_names": ["a", "bb"]}, "Did you mean 'bb'. Received: 'b' at position 1"),
        ([0], [[2, 1], [1, 2]], {}, "Received: labels=1, count=2"),
        ([0, 1], [[2, 1], [1, 2]], {"texts": ["a"]}, r"Received: texts=\[1\], rows=2"),
        ([0, 1], [[2, 1], [1, 2]], {"label_names": ["a", "a"]}, "must be 2 different names"),
        ([0, 1], [[2, 1], [1, np.nan]], {}, "must be finite numbers. Received: .* at position 1"),
        ([0, 1], [[2], [1]], {}, r"Received: y_pred=\(2, 1\)"),
        ([], np.zeros((0, 2)), {}, r"at least one row and two classes. Received: y_pred=\(0, 2\)"),
        ([0, 1], [[0.9, 0.1], [0.2, 0.8]], {}, "Pass `from_logits=False`"),
        ([0, 1], [[0.9, 0.1], [0.2, 0.9]], {"from_logits": False}, "sum must be 1.* at position 1"),
    ],
)
def test_invalid_arguments_are_errors_that_name_the_first_offender(labels, logits, options, message):
    with pytest.raises(ValueError, match=message):
        ClassificationReport(labels, logits, **options)


def test_models_and_data_that_have_no_report_are_errors():
    model = of_vectors()
    with pytest.raises(
        ValueError, match="`x` must be data in memory, such as a list of texts. Received: x='generator'"
    ):
        report(model, (text for text in ["a"]), [0])
    with pytest.raises(
        ValueError,
        match="must be a Keras model or have `predict_proba`.* Received: model=a function",
    ):
        report(lambda x: x, ["a"], [0])
    model.multi_label = True
    with pytest.raises(ValueError, match="`from_logits` requires a model with one label .* Received: from_logits=True"):
        report(model, ["a"], [["0"]], from_logits=True)
    inputs = keras.Input((2,))
    with pytest.raises(ValueError, match=r"at least two classes. Received: \(3, 1\)"):
        report(keras.Model(inputs, keras.layers.Dense(1)(inputs)), np.ones((3, 2)), [0, 0, 0])


def many_classes(names, rows=300):
    random = np.random.default_rng(0)
    labels = random.integers(0, len(names), rows)
    logits = random.normal(size=(rows, len(names))) + 2.5 * np.eye(len(names))[labels]
    return ClassificationReport(labels, logits, label_names=names, resamples=20)


def test_of_many_classes_the_twenty_with_the_lowest_f1_are_shown():
    found = many_classes([f"intent {i}" for i in range(150)])
    [table] = re.findall(
        r"^Classes\n.*\n((?:intent .*\n)+)(The 20 of 150 classes with the lowest F1)", str(found), re.M
    )
    rows = [line.split() for line in table[0].splitlines()]
    shown = [float(row[4]) for row in rows]
    rest = [scores["f1"] for name, scores in found.classes.items() if scores["count"] and name not in table[0]]
    assert len(rows) == 20 and shown == sorted(shown) and len(found.classes) == 150
    assert max(shown) <= min(rest, default=1) + 0.0005


def test_the_page_shortens_long_labels_and_lets_the_browser_choose_the_direction_of_a_script(tmp_path):
    names = ["x" * 1000, "\u05e2\u05d1\u05e8\u05d9\u05ea", "good"]
    page = many_classes(names).to_html(tmp_path / "page.html").read_text("utf-8")
    shown = re.findall(r">([^<]*)</t[dh]>", page)
    assert max(map(len, shown)) == 80 and names[1] in shown
    assert f'title="{names[0]}">' in page and 'class="name" dir="auto"' in page


def test_a_report_requires_a_classifier_and_at_least_one_row():
    model = of_vectors()
    for task in (
        TextRegressor(model.encoder, model.preprocessor, num_targets=2),
        TextEmbedder(model.encoder, model.preprocessor),
        TokenClassifier(model.encoder, model.preprocessor, label_names=["O", "B-PER"]),
    ):
        with pytest.raises(ValueError, match=f"requires a classifier.* Received: {type(task).__name__}") as raised:
            report(task, ["good", "bad"], [0, 1])
        assert ("`metrics.entity_report`" in str(raised.value)) == isinstance(task, TokenClassifier)
    with pytest.raises(ValueError, match="must have at least one row. Received: rows=0"):
        report(model, [], [])
