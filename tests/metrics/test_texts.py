"""Metrics of generated texts have the values of the packages that define them."""

import json
import sys

import keras
import numpy as np
import pytest
import sacrebleu
from rouge_score.rouge_scorer import RougeScorer

from keras_transfer.metrics import Bleu, Chrf, Rouge, Squad, Ter, TextMetric, squad_scores
from tests.errors import check_errors

METRICS = [Rouge, Bleu, Chrf, Ter, Squad]
TEXT = "The dog barks at a big cat , running home It's raining . Straße müde éclair 3.5 %"
WORDS = [*TEXT.split(), "\n"]


def corpus(count=40, references=3, seed=0):
    """Random texts with one to `references` references each, which share words with them."""
    random = np.random.default_rng(seed)

    def text(near=()):
        words = [*near, *random.choice(WORDS, random.integers(1, 12))]
        random.shuffle(words)
        return " ".join(words[: random.integers(1, 14)])

    texts = [text() for _ in range(count)]
    y_true = [[text(each.split(" ")) for _ in range(random.integers(1, references + 1))] for each in texts]
    texts[3] = ""
    return y_true, texts


def streams(y_true):
    """References as sacrebleu takes them, written out: one list for each number, None where a text has fewer."""
    most = max(map(len, y_true))
    return [[row[number] if number < len(row) else None for row in y_true] for number in range(most)]


@pytest.mark.parametrize("use_stemmer", [False, True])
def test_rouge_is_the_mean_of_the_packages_values(use_stemmer):
    types = ["rouge1", "rouge2", "rouge3", "rougeL", "rougeLsum"]
    y_true, y_pred = corpus()
    scorer = RougeScorer(types, use_stemmer=use_stemmer)
    rows = [scorer.score_multi(references, text) for references, text in zip(y_true, y_pred)]
    found = Rouge(types, use_stemmer=use_stemmer)(y_true, y_pred)
    assert found == {each: pytest.approx(np.mean([row[each].fmeasure for row in rows])) for each in types}
    assert found["rougeL"] != found["rougeLsum"]


@pytest.mark.parametrize(
    ("metric", "settings", "original"),
    [
        (Bleu, {}, sacrebleu.BLEU),
        (Bleu, {"tokenize": "intl", "lowercase": True, "smooth_method": "add-k", "smooth_value": 2}, sacrebleu.BLEU),
        (Bleu, {"tokenize": "char", "max_ngram_order": 3, "effective_order": True}, sacrebleu.BLEU),
        (Chrf, {}, sacrebleu.CHRF),
        (Chrf, {"word_order": 2, "char_order": 4, "beta": 3, "whitespace": True, "lowercase": True}, sacrebleu.CHRF),
        (Ter, {}, sacrebleu.TER),
        (Ter, {"normalized": True, "no_punct": True, "case_sensitive": True, "asian_support": True}, sacrebleu.TER),
    ],
)
def test_bleu_chrf_and_ter_are_those_of_sacrebleu(metric, settings, original):
    for references in (1, 3):
        y_true, y_pred = corpus(references=references)
        theirs, ours = original(**settings), metric(**settings)
        expected = theirs.corpus_score(y_pred, streams(y_true)).score
        for part in (slice(15), slice(15, None)):
            ours.update_state(y_true[part], y_pred[part])
        assert ours.result() == expected and expected > 0
        assert ours.signature == str(theirs.get_signature())
        ours.reset_state()
        assert np.isnan(ours.result())


def test_squad_has_exact_match_and_f1_of_squad_scores():
    y_true, y_pred = corpus()
    y_true[3], y_true[4] = [], [y_pred[4], "a dog"]
    expected = squad_scores(y_true, y_pred)
    found = Squad()(y_true, y_pred)
    assert found == {name: expected[name] for name in ("exact_match", "f1")}
    assert 0 < found["exact_match"] < found["f1"] < 100


@pytest.mark.parametrize("metric", METRICS)
def test_one_reference_needs_no_list_and_the_result_without_texts_is_nan(metric):
    y_true, y_pred = corpus(10, references=1)
    assert metric()([row[0] for row in y_true], np.array(y_pred)) == metric()(y_true, y_pred)
    empty = metric().result()
    names = metric().result_names
    assert list(empty if isinstance(empty, dict) else {metric().name: empty}) == list(names)
    assert all(np.isnan(value) for value in keras.tree.flatten(empty))
    metric()([], [])


@pytest.mark.parametrize("metric", METRICS)
def test_a_text_that_equals_its_reference_is_the_best_and_an_empty_one_the_worst(metric):
    texts = ["The dog barks at the cat.", "It is raining today, he said."]
    best, worst = ({"max": (1, 0), "min": (0, 1)})[metric.monitor_mode]
    scale = 1 if metric is Rouge else 100
    for y_pred, expected in ((texts, best), (["", ""], worst)):
        np.testing.assert_allclose(keras.tree.flatten(metric()(texts, y_pred)), expected * scale)


@pytest.mark.parametrize(
    "metric",
    [
        Rouge(["rouge2"], use_stemmer=True, name="other"),
        Bleu(tokenize="intl", smooth_method="floor", smooth_value=0.2, lowercase=True),
        Chrf(word_order=2),
        Ter(normalized=True),
        Squad(name="answers"),
    ],
)
def test_a_metric_can_be_made_again_from_its_config(metric):
    again = keras.saving.deserialize_keras_object(json.loads(json.dumps(keras.saving.serialize_keras_object(metric))))
    assert again.get_config() == metric.get_config() and again.name == metric.name
    assert again(*corpus()) == metric(*corpus())


def test_rouge_warns_once_of_texts_in_another_script(caplog):
    rouge = Rouge(["rouge1"])
    assert rouge(["собака", "a dog"], ["собака", "a dog"]) == {"rouge1": 0.5}
    rouge.result()
    assert [record.getMessage() for record in caplog.records] == [
        "ROUGE ignores all characters except a to z and digits, which 1 of 2 references do not have, such as 'собака'. "
        "Use `metrics.Chrf` for other scripts."
    ]


def test_a_metric_of_ones_own_needs_score_only():
    class Exact(TextMetric):
        def score(self, y_true, y_pred):
            return float(np.mean([text in references for references, text in zip(y_true, y_pred)]))

    assert Exact(name="exact")(["a", ["b", "c"]], ["a", "c"]) == 1.0
    with pytest.raises(NotImplementedError, match="TextMetric must implement `score`"):
        TextMetric()(["a"], ["a"])


def test_in_compile_the_error_names_the_callback():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)])
    model.compile("sgd", "mse", metrics=[Chrf()], run_eagerly=True)
    with pytest.raises(
        ValueError, match="compares lists of strings. To compute it in `fit`, pass it to `callbacks.GenerationMetrics`"
    ):
        model.evaluate(np.ones((2, 2)), np.ones((2, 2)), verbose=0)


test_mistakes_are_errors = check_errors(
    (lambda: Chrf()(["a"], ["a"], sample_weight=[2.0]), "without weights ... Received: sample_weight=[2.0]"),
    (lambda: Chrf()(["a", "b", "c"], ["a"]), "`y_true` and `y_pred` must have the same number of rows ... 3 and 1"),
    (lambda: Chrf()("a", ["a"]), "`y_true` must be a list with one row for each text. Received: y_true='a'"),
    (lambda: Chrf()(["a"], {"a": 1}), "`y_pred` must be a list with one row for each text"),
    (lambda: Chrf()(["a", 2], ["a", "b"]), "for each text. Received: 2 at position 1"),
    (lambda: Chrf()(["a", ["b", None]], ["a", "b"]), "Received: ['b', None] at position 1"),
    (lambda: Chrf()([[]], ["a"]), "a list of at least one string, for each text. Received: [] at position 0"),
    (lambda: Chrf()(["a"], [["a"]]), "`y_pred` must be a list of strings. Received: ['a'] at position 0"),
    (lambda: Chrf()(["a"], [b"a"]), "`y_pred` must be a list of strings. Received: b'a' at position 0"),
    (lambda: Rouge(["rouge1", "rogueL"]), "Unknown type of ROUGE. Did you mean 'rougeL'?"),
    (lambda: Rouge(["rouge1", "rouge1"]), "`rouge_types` must be unique"),
    (lambda: Rouge([]), "at least one. Received: rouge_types=[]"),
    (lambda: Bleu(tokenize="14a"), "Unknown value of `tokenize`. Did you mean '13a'?"),
    (lambda: Bleu(smooth_method="exponential"), "Unknown value of `smooth_method` ... Received: 'exponential'"),
    (lambda: Bleu().signature, "Call `result()` first"),
)


@pytest.mark.parametrize(
    ("metric", "module", "package"),
    [
        (Rouge, "rouge_score.rouge_scorer", "rouge-score"),
        *((cls, "sacrebleu", "sacrebleu") for cls in (Bleu, Chrf, Ter)),
    ],
)
def test_a_missing_package_is_one_error_that_says_what_to_install(metric, module, package, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"`{metric.__name__}` requires {package}: `pip install {package}`"):
        metric()
