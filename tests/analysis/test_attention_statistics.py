"""What heads do on average, what reaches a vector through all layers, and the pages that show all heads."""

import html.parser
import importlib.util
import re

import numpy as np
import pytest

from keras_transfer.adaptation import Prefix, Prompt, add_adapters
from keras_transfer.analysis import AttentionWeights, attention_weights
from tests.errors import check_errors
from tests.tasks.tiny import classifier, two_blocks

FIRST = [[[1.0, 0.0, 0.0], [0.5, 0.25, 0.25], [0.0, 1.0, 0.0]], [[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.5, 0.5]]]
SECOND = [[[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 0.0]], [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]]


STATISTICS = ["first", "previous", "next", "self", "separators"]


def made(**options):
    """A block of two heads over a text of three tokens and one of two."""
    tokens, separators = [["[CLS]", "a", "[SEP]"], ["[CLS]", "[SEP]"]], [[2], [1]]
    return AttentionWeights([np.array([FIRST, SECOND])], tokens=tokens, separators=separators, **options)


def test_statistics_are_the_means_over_all_tokens_by_hand():
    rows = made().statistics().rows
    assert [(row["layer"], row["head"]) for row in rows] == [(0, 0), (0, 1)]
    expected = {
        "entropy": (0 + 1.5 + 0 + 1 + 1) / 5,
        "distance": (0 + 0.75 + 1 + 0.5 + 0.5) / 5,
        "first": (1 + 0.5 + 0 + 0.5 + 0.5) / 5,
        "previous": (0.5 + 1 + 0.5) / 3,  # Three tokens have one.
        "next": (0 + 0.25 + 0.5) / 3,
        "self": (1 + 0.25 + 0 + 0.5 + 0.5) / 5,
        "separators": (0 + 0.25 + 0 + 0.5 + 0.5) / 5,
    }
    assert {name: rows[0][name] for name in expected} == pytest.approx(expected, abs=1e-12)
    assert rows[1]["entropy"] == pytest.approx(1 / 5) and rows[1]["distance"] == pytest.approx((2 + 1 + 0.5) / 5)


def test_statistics_print_as_a_table_and_draw_a_point_for_each_head():
    found = made().statistics()
    lines = str(found).splitlines()
    assert lines[0].split() == ["layer", "head", "entropy", "distance", *STATISTICS]
    assert lines[2].split()[:4] == ["0", "0", "0.7", "0.55"] and lines[-1].startswith("Means over 5 tokens of 2 texts.")
    if importlib.util.find_spec("matplotlib"):
        [line] = found.plot().axes[0].lines
        assert line.get_xydata().tolist() == [[0, row["entropy"]] for row in found.rows]


@pytest.mark.core
def test_statistics_of_a_model_are_those_of_its_weights_without_the_keys_of_adapters():
    model = two_blocks()
    add_adapters(model, Prefix(3))
    found = attention_weights(model, ["a b good", "c"])
    assert found.separators == [[4], [2]]
    rows = found.statistics().rows
    assert [(row["layer"], row["head"]) for row in rows] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    for row in rows:
        sums = np.zeros(4)
        for text, count in enumerate((5, 3)):
            for query in range(count):
                weights = found.encoder[row["layer"]][text, row["head"], query].astype("float64")
                tokens = weights[3 : 3 + count]
                logs = [-weight * np.log2(weight) for weight in weights if weight > 0]
                sums += sum(logs), tokens @ np.abs(np.arange(count) - query), tokens[0], tokens[-1]
        given = [row[name] for name in ("entropy", "distance", "first", "separators")]
        np.testing.assert_allclose(given, sums / 8, rtol=1e-6)


def test_prepared_inputs_have_no_known_separators():
    model = classifier()
    inputs = {name: np.asarray(value) for name, value in model.preprocessor(["a b"]).items()}
    found = attention_weights(model.encoder, inputs).statistics()
    assert found.rows[0]["separators"] is None and str(found).splitlines()[0].split()[-1] == "self"


def test_rollout_is_the_product_of_the_layers_mixed_with_the_identity():
    weights = made()
    weights.encoder.append(np.array([SECOND, FIRST]))
    weights.tokens[1:] = [["[CLS]", "a", "[SEP]"]]
    weights.encoder = [layer[::-1] for layer in weights.encoder]
    first, second = np.mean(SECOND, axis=0), np.mean(FIRST, axis=0)
    first[2] = [0, 0, 0]  # Nothing but the residual connection.
    below = np.array([[0.5 * (i == j) + 0.5 * first[i, j] for j in range(3)] for i in range(3)])
    below[2] = [0, 0, 1]
    above = 0.5 * np.eye(3) + 0.5 * second
    expected = [[sum(above[i, k] * below[k, j] for k in range(3)) for j in range(3)] for i in range(3)]
    found = weights.rollout(row=0)
    np.testing.assert_allclose(found, [below, expected], atol=1e-12)
    np.testing.assert_allclose(found.sum(axis=-1), 1, atol=1e-12)


@pytest.mark.core
def test_rollout_leaves_padding_and_the_keys_of_a_prefix_out_and_keeps_a_prompt():
    model = two_blocks()
    add_adapters(model, Prefix(3))
    found = attention_weights(model, ["a b good", "c"]).rollout(1)
    assert found.shape == (2, 3, 3)
    np.testing.assert_allclose(found.sum(axis=-1), 1, atol=1e-12)
    model = two_blocks()
    add_adapters(model, Prompt(2))
    assert attention_weights(model, ["a b good", "c"]).rollout(1).shape == (2, 5, 5)


class Balanced(html.parser.HTMLParser):
    """Counts tags, and fails if one is closed that is not the last one that was opened."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.texts = [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        self.texts.append(text.strip())


def test_the_page_of_heads_has_the_lines_of_all_weights_from_a_twentieth_on(tmp_path):
    page = Balanced(made().to_html(tmp_path / "new" / "heads.html").read_text("utf-8"))
    assert [tag for tag, _ in page.seen].count("details") == 1
    assert {"[CLS]", "a", "[SEP]", "layer 0", "head 0", "head 1"} <= set(page.texts)
    lines = [values["d"] for tag, values in page.seen if tag == "path"]
    middles = (7, 22, 37)
    drawn = {f"M68 {middles[i]}L108 {middles[j]}" for i in range(3) for j in range(3) if FIRST[0][i][j]}
    assert {f"M{line}" for line in "".join(lines[:3]).split("M")[1:]} == drawn  # The levels of 0.25, 0.5 and 1.
    assert lines[2] == "M68 7L108 7M68 37L108 22"


def test_two_texts_on_one_page_have_names_of_their_own():
    other = AttentionWeights([np.array([FIRST])], tokens=[["[CLS]", "b", "[SEP]"]])
    first, second = (re.search(r'<g id="(.*?)"', each._view("heads", None, 0))[1] for each in (made(), other))
    assert first != second and f'href="#{first}"' in made()._view("heads", None, 0)


def test_the_page_of_a_model_has_a_matrix_for_each_head_of_each_layer(tmp_path):
    weights = made(cross=[np.full((2, 3, 2, 3), 1 / 3)] * 2, written=[["x", "y"]] * 2)
    page = Balanced(weights.to_html(tmp_path / "model.html", "model").read_text("utf-8"))
    assert sum(tag == "rect" for tag, _ in page.seen) == 6 and {"x", "y", "layer 1, head 2"} <= set(page.texts)
    squares = [values["d"] for tag, values in page.seen if tag == "path"]
    assert squares == ["".join(f"M{key} {query}h1v1h-1z" for query in range(2) for key in range(3))] * 6


@pytest.mark.parametrize("view", ["heads", "model"])
def test_a_hostile_text_of_many_tokens_makes_a_small_page_without_scripts(view, tmp_path):
    tokens = ["<script>alert(1)</script>", "\u202eabc", '"><img onerror=x>', *["word" * 30] * 997]
    weights = AttentionWeights([np.full((1, 12, 1000, 1000), 0.06, "float16")] * 2, tokens=[tokens])
    content = weights.to_html(tmp_path / "page.html", view).read_text("utf-8")
    assert "<script" not in content and "<img" not in content and "\u202e" not in content
    page = Balanced(content)
    assert len(content) < 2e6 and any("Only the first 48 of 1,000 tokens" in text for text in page.texts)
    assert not any(name.startswith("on") or name == "src" for _, values in page.seen for name in values)


test_a_mistake_is_one_clear_error = check_errors(
    (lambda: made().statistics("cross"), "one of ('encoder',). Received: kind='cross'"),
    (lambda: made().rollout(2), "from -2 to 1. Received: row=2"),
    (lambda: made().rollout(kind="decoder"), "one of ('encoder',). ... Received: kind='decoder'"),
    (lambda: made().to_html("x.html", "matrix"), "one of ('heads', 'model'). Received: view='matrix'"),
    (lambda: made().to_html("x.html", row=5), "from -2 to 1. Received: row=5"),
)
