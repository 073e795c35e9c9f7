"""`EntityF1` equals seqeval's F1 over batches, for words that are not adjacent and in `fit`."""

import json
from functools import partial

import keras
import numpy as np
import pytest

from keras_transfer.metrics import EntityF1, entity_report
from tests.errors import check_errors
from tests.metrics.cases import CROSSENTROPY, pass_through, run_metric_test
from tests.samples import REFERENCES

SEQEVAL = json.loads((REFERENCES / "seqeval.json").read_text("utf-8"))
SCHEMES = dict(SEQEVAL["schemes"])
LABELS = SCHEMES["IOBES"]


def logits(predicted, classes):
    return np.eye(classes, dtype="float32")[predicted]


def batch(document, random):
    """Labels [4, 20] with gaps between the words and random predictions in them, and logits."""
    names = SCHEMES[document["scheme"]]
    true = np.full((4, 20), -1, "int32")
    predicted = random.integers(0, len(names), true.shape)
    for row, texts in enumerate(zip(document["true"], document["predicted"])):
        wanted, given = ([names.index(label) for label in text.split()] for text in texts)
        places = np.sort(random.choice(20, len(wanted), replace=False))
        true[row, places], predicted[row, places] = wanted, given
    return true, logits(predicted, len(names))


def scores(metric):
    return [float(metric.result()), metric.precision, metric.recall]


def expected(row):
    return pytest.approx([row["f1"], row["precision"], row["recall"]], abs=1e-6)


def random_batches(count):
    """Labels and logits that mostly agree, with gaps, in batches of different lengths."""
    random, classes, batches = np.random.default_rng(0), len(LABELS), []
    for i in range(count):
        true = random.integers(-1, classes, (4, 9 + i)).astype("int32")
        other = random.integers(0, classes, true.shape)
        batches.append((true, logits(np.where(random.random(true.shape) < 0.2, other, true), classes)))
    return batches


def as_names(true, outputs):
    """Converts them to lists of names for `entity_report`."""
    both = (true, outputs.argmax(-1))
    return [[[LABELS[label] for label in row[real]] for row, real in zip(labels, true >= 0)] for labels in both]


def test_scores_equal_those_of_seqeval_even_if_words_are_not_adjacent():
    random = np.random.default_rng(0)
    for document in SEQEVAL["documents"]:
        metric = EntityF1(SCHEMES[document["scheme"]])
        metric.update_state(*batch(document, random))
        assert scores(metric) == expected(document["report"]["micro"]), document


def test_predictions_at_negative_labels_do_not_count():
    metric = EntityF1(["O", "B-A", "I-A"])
    # "B-A I-A O" is found despite [CLS], later pieces and padding between its words.
    metric.update_state([[-1, 1, -1, 2, 0, -1, -1]], logits([[1, 1, 0, 2, 0, 1, 2]], 3))
    assert scores(metric) == [1, 1, 1]
    metric.update_state([[-1] * 7], logits([[1, 2, 0, 1, 2, 0, 1]], 3))
    assert scores(metric) == [1, 1, 1]


def test_labels_without_o_and_rows_with_one_word_are_supported():
    metric = EntityF1(["B-A", "I-A"])
    metric.update_state([[0], [1], [-1]], logits([[0], [0], [0]], 2))
    assert scores(metric) == [1, 1, 1]


def test_a_weight_of_0_removes_a_word_and_an_entity_has_the_weight_of_its_first_word():
    true, outputs = random_batches(1)[0]
    hidden, masked = EntityF1(LABELS), EntityF1(LABELS)
    weights = (np.arange(true.shape[1]) % 3 > 0) * np.ones_like(true)
    hidden.update_state(true, outputs, weights)
    masked.update_state(np.where(weights > 0, true, -1), outputs)
    assert scores(hidden) == scores(masked)
    rows, kept = EntityF1(LABELS), EntityF1(LABELS)
    rows.update_state(true, outputs, [1, 0, 0, 1])
    kept.update_state(true[[0, 3]], outputs[[0, 3]])
    assert scores(rows) == scores(kept)
    heavy = EntityF1(["O", "B-A", "B-B"])
    heavy.update_state([[1, 0, 2]], logits([[1, 0, 1]], 3), [[3.0, 1.0, 1.0]])
    assert scores(heavy) == [0.75, 0.75, 0.75]


@pytest.mark.parametrize(
    ("length", "jit_compile"), [pytest.param(None, True, marks=pytest.mark.core), (None, False), (12, False)]
)
def test_fit_and_evaluate_equal_the_report_with_and_without_xla(length, jit_compile):
    jit_compile = jit_compile and keras.backend.backend() != "torch"  # torch has no XLA
    model = pass_through((length, len(LABELS)), CROSSENTROPY, metrics=[EntityF1(LABELS)], jit_compile=jit_compile)
    true, outputs = random_batches(4)[3]
    report = entity_report(*as_names(true, outputs))["micro"]
    assert 0.4 < report["f1"] < 0.9
    # Two batches. The second is smaller, unless XLA would compile each size.
    size = 2 if jit_compile else 3
    logs = model.evaluate(outputs, true, batch_size=size, verbose=0, return_dict=True)
    assert logs["entity_f1"] == pytest.approx(report["f1"], abs=1e-6)
    history = model.fit(outputs, true, batch_size=size, verbose=0).history
    assert history["entity_f1"] == [pytest.approx(report["f1"], abs=1e-6)]
    assert scores(model.metrics[1].metrics[0]) == expected(report)


def test_it_is_a_well_behaved_metric():
    true, outputs = random_batches(3)[2]
    report = entity_report(*as_names(true, outputs))["micro"]
    assert 0.4 < report["f1"] < 0.9
    run_metric_test(partial(EntityF1, np.array(LABELS)), "entity_f1", true, outputs, report["f1"], loss=CROSSENTROPY)
    assert EntityF1.from_config(EntityF1(np.array(LABELS)).get_config()).label_names == LABELS


test_invalid_label_names_are_an_error = check_errors(
    (["NOUN", "VERB"], "O, or B, I, E or S ... (B-PER). Received: label='NOUN'"),
    (["O"], "unique and contain at least one entity label, such as 'B-PER'. Received: "),
    (["O", "B-A", "B-A"], "unique and contain at least one entity label, such as 'B-PER'. Received: "),
    call=EntityF1,
)
test_other_shapes_are_an_error = check_errors(
    (((1, 4), (1, 4, 3)), "2 classes, ['O', 'B-A']. Received: y_pred=(1, 4, 3)"),
    (((1, 4, 1), (1, 4, 2)), "the shape [batch, length] and `y_pred` ... Received: "),
    (((1, 4), (1, 5, 2)), "the shape [batch, length] and `y_pred` ... Received: "),
    (((4,), (4, 2)), "the shape [batch, length] and `y_pred` ... Received: "),
    call=lambda true, outputs: EntityF1(["O", "B-A"]).update_state(np.zeros(true, "int32"), np.zeros(outputs)),
)
