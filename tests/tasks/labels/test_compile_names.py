"""`compile` takes the names of this library's losses and metrics, and an unknown name is an error with a suggestion."""

import keras
import numpy as np
import pytest

from keras_transfer import metrics
from keras_transfer.tasks import TextClassifier, TextRegressor
from keras_transfer.text import batches
from tests.helpers import EAGER
from tests.tasks.tagging.taggers import tagger
from tests.tasks.tiny import of_vectors

TEXTS, LABELS = ["good", "bad a", "good b"], [1, 0, 1]


@pytest.fixture(scope="module")
def model():
    return of_vectors()


@pytest.fixture(scope="module")
def regressor(model):
    return TextRegressor(model.encoder, model.preprocessor, num_targets=1, dropout=0.0)


def test_metrics_have_names_as_losses_have(model):
    expected = {
        "f1": metrics.F1Score,
        "precision": metrics.Precision,
        "matthews_correlation": metrics.MatthewsCorrelation,
    }
    for names in (list(expected), ["F1", "Precision", "Matthews_Correlation"]):
        model.compile("sgd", metrics=names, run_eagerly=EAGER)
        found = model.evaluate(TEXTS, LABELS, verbose=0, return_dict=True)
        logits = model.predict(TEXTS, verbose=0)
        for name, make in expected.items():
            metric = make()
            metric.update_state(np.array(LABELS), logits)
            assert found[name] == pytest.approx(float(metric.result()))


def test_names_of_metrics_depend_on_the_task(model, regressor):
    regressor.compile("sgd", metrics=["spearman_correlation", "mae"], run_eagerly=EAGER)
    found = regressor.evaluate(TEXTS, [0.1, 0.5, 0.3], verbose=0, return_dict=True)
    assert set(found) == {"loss", "spearman_correlation", "mae"}
    several = TextClassifier(model.encoder, model.preprocessor, num_classes=2, multi_label=True)
    several.compile("sgd", metrics={"logits": ["f1", "accuracy"]}, weighted_metrics=["auc"], run_eagerly=EAGER)
    assert {"f1", "auc"} <= set(several.evaluate(TEXTS, [[0, 1], [1, 0], [1, 1]], verbose=0, return_dict=True))
    words = tagger("vectors")
    assert "entity_f1" in words.labels.named_metrics


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metrics": ["recal"]}, r"Unknown metric. Did you mean 'recall'\? .*'f1'.* Received: metric='recal'"),
        ({"weighted_metrics": ["acuracy"]}, "Unknown metric. Did you mean 'accuracy'"),
        ({"loss": "focale"}, r"Unknown loss. Did you mean 'focal'\? .* Received: loss='focale'"),
    ],
)
def test_an_unknown_name_is_an_error_with_a_suggestion(options, message, model):
    with pytest.raises(ValueError, match=message):
        model.compile("sgd", **options)


# === Labels of shape [rows, 1] ===


def test_labels_may_have_an_axis_of_one_in_one_call_and_not_in_the_next(regressor):
    tf = pytest.importorskip("tensorflow")
    labels = np.array(LABELS, "float32")
    regressor.compile(keras.optimizers.SGD(0.0))
    regressor.fit(TEXTS, labels[:, None], verbose=0)
    history = regressor.fit(TEXTS, labels, verbose=0).history
    assert history["loss"][0] == pytest.approx(regressor.evaluate(TEXTS, labels, verbose=0)[0])
    stream = tf.data.Dataset.from_tensor_slices((TEXTS, labels[:, None])).batch(3)
    expected = regressor.evaluate(stream, verbose=0)
    for y in (labels, labels[:, None].tolist()):
        assert regressor.evaluate(TEXTS, y, verbose=0) == pytest.approx(expected)


def test_labels_with_an_axis_of_one_lose_it_in_every_form(model):
    column = np.array(LABELS)[:, None]
    data = batches(TEXTS, column, preprocessor=model.preprocessor)
    for made in (model.dataset(TEXTS, column), model.dataset(TEXTS, column.tolist()), model.dataset(data)):
        assert np.array(made.labels).tolist() == LABELS
    assert data.labels.shape == (3, 1)
