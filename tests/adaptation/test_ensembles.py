"""Ensembles answer with the mean of their members, from one file, and leave the members as they are."""

import functools

import keras
import numpy as np
import pytest

from keras_transfer import adaptation, serving
from keras_transfer.adaptation import Ensemble
from keras_transfer.data import fingerprint_of
from keras_transfer.hub import HubEncoder
from keras_transfer.tasks import TextClassifier, TextRegressor
from tests.errors import check_errors
from tests.helpers import in_graph, save_and_load
from tests.hub import tf1_modules
from tests.tasks import tiny

TEXTS = ["a b good", "bad", "c d e f g h i j a b c", "a good film"]
pytestmark = pytest.mark.usefixtures("eagerly")
LABELS = ["good", "bad", "bad", "good"]
NAMES = ["bad", "good"]


def randomized(model, seed):
    """The model with random weights, so that each seed answers differently."""
    random = np.random.default_rng(seed)
    for weight in model.weights:
        weight.assign(keras.ops.convert_to_numpy(weight) + random.normal(scale=0.3, size=weight.shape))
    return model


def classifier(seed=0, label_names=NAMES, **options):
    return randomized(tiny.classifier(num_classes=None, label_names=label_names, **options), seed)


def of_short_texts(seed):
    """A classifier of another family, whose tokenizer knows other words and reads fewer of them."""
    return randomized(tiny.of_words(["good", "bad", *"abc"], label_names=NAMES), seed)


def regressor(seed=0, num_targets=2, **options):
    model = TextRegressor(tiny.encoder(), tiny.preprocessor(), num_targets=num_targets, dropout=0.0, **options)
    return randomized(model, seed)


def over_one_encoder(adapters):
    """Three classifiers over one encoder, perhaps each with adapters of its own, of which the last ones are active."""
    encoder, preprocessor, models = tiny.encoder(), tiny.preprocessor(), []
    for seed in range(3):
        model = TextClassifier(encoder, preprocessor, label_names=NAMES, dropout=0.0)
        if adapters:
            adaptation.add_adapters(model, adapters, name=f"number_{seed}")
            for weight in model.trainable_weights:
                weight.assign(np.random.default_rng(seed).normal(size=weight.shape))
        models.append(model)
    return models


def values(model):
    return [np.array(keras.ops.convert_to_numpy(weight)) for weight in model.weights]


def softmax(logits):
    return np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)


@pytest.mark.core
def test_the_answer_is_the_mean_of_models_with_other_seeds_tokenizers_and_orders_of_classes():
    models = [classifier(0), classifier(1, NAMES[::-1]), of_short_texts(2)]
    own = [model.predict_proba(TEXTS) for model in models]
    own[1] = own[1][:, ::-1]
    before = [values(model) for model in models]
    ensemble = Ensemble(models)
    np.testing.assert_allclose(ensemble.predict_proba(TEXTS), np.mean(own, axis=0), atol=1e-6)
    assert ensemble.predict_labels(TEXTS) == [NAMES[row.argmax()] for row in np.mean(own, axis=0)]
    weighted = Ensemble(models, weights=[0.5, 0.3, 0.2]).predict_proba(TEXTS)
    np.testing.assert_allclose(weighted, np.tensordot([0.5, 0.3, 0.2], own, 1), atol=1e-6)
    for model, weights in zip(models, before):
        assert tiny.difference(values(model), weights) == 0


@pytest.mark.core
def test_the_loss_and_the_metrics_are_those_of_the_mean():
    models = [classifier(seed) for seed in range(2)]
    for model in models:
        model.compile()
    right = np.mean([model.predict_proba(TEXTS) for model in models], axis=0)[
        range(4), [NAMES.index(y) for y in LABELS]
    ]
    found = Ensemble(models).evaluate(TEXTS, LABELS, verbose=0, return_dict=True)
    assert found["loss"] == pytest.approx(-np.log(right).mean(), abs=1e-6)
    assert found["accuracy"] == (right > 0.5).mean()


def test_logits_are_averaged_too_and_so_are_several_labels_and_numbers():
    models = [classifier(seed) for seed in range(2)]
    logits = np.mean([model.predict(TEXTS, verbose=0) for model in models], axis=0)
    np.testing.assert_allclose(Ensemble(models, average="logits").predict(TEXTS, verbose=0), logits, atol=1e-6)

    options = {"label_names": ["x", "y", "z"], "multi_label": True}
    models = [classifier(seed, **options, thresholds=[0.4 + seed / 10] * 3) for seed in range(3)]
    expected = np.mean([model.predict_proba(TEXTS) for model in models], axis=0)
    ensemble = Ensemble(models)
    np.testing.assert_allclose(ensemble.predict_proba(TEXTS), expected, atol=1e-6)
    names = [[name for name, value in zip("xyz", row) if value >= 0.5] for row in expected]
    assert ensemble.predict_labels(TEXTS) == names

    models = [regressor(seed) for seed in range(2)]
    expected = np.mean([model.predict(TEXTS, verbose=0) for model in models], axis=0)
    ensemble = Ensemble(models)
    np.testing.assert_allclose(ensemble.predict(TEXTS, verbose=0), expected, atol=1e-6)
    assert "no classes. Use `predict`" in tiny.message(lambda: ensemble.predict_labels(TEXTS))


def test_pairs_separate_texts_and_windows_are_read_as_the_members_read_them():
    pairs = TEXTS, TEXTS[::-1]
    for siamese in (False, True):
        models = [classifier(seed, siamese=siamese) for seed in range(2)]
        expected = np.mean([model.predict_proba(pairs) for model in models], axis=0)
        ensemble = Ensemble(models)
        np.testing.assert_allclose(ensemble.predict_proba(pairs), expected, atol=1e-6)
        served = in_graph(ensemble.signatures(pairs=True)["serving_default"], *pairs)
        np.testing.assert_allclose(served["probabilities"], expected, atol=1e-6)
    short = tiny.preprocessor(sequence_length=8)
    windows = randomized(TextClassifier(tiny.encoder(), short, label_names=NAMES, dropout=0.0, windows="max"), 3)
    expected = (windows.predict_proba(TEXTS) + classifier().predict_proba(TEXTS)) / 2
    np.testing.assert_allclose(Ensemble([windows, classifier()]).predict_proba(TEXTS), expected, atol=1e-6)


@pytest.mark.parametrize("adapters", [None, "lora:r=2"])
def test_members_over_one_encoder_share_it_also_in_a_file(adapters):
    models = over_one_encoder(adapters)
    encoder, ensemble = models[0].encoder, Ensemble(models)
    of_heads = sum(model.get_layer("logits").count_params() for model in models)
    assert ensemble.count_params() == encoder.count_params() + of_heads + 3
    found, active = ensemble.predict_proba(TEXTS), encoder.active_adapters
    loaded = save_and_load(ensemble)
    assert len({(id(model.encoder), id(model.preprocessor)) for model in loaded.members}) == 1
    np.testing.assert_array_equal(loaded.predict_proba(TEXTS), found)
    assert encoder.active_adapters == active
    if adapters:  # The ensemble has not changed what a member does by itself.
        assert "changed through another task" in tiny.message(lambda: models[0].predict_proba(TEXTS))
    expected, fingerprint = [], fingerprint_of(ensemble)
    for model in models:
        if adapters:
            adaptation.set_active_adapter(model, model.head_adapters.given)
        assert fingerprint_of(ensemble) == fingerprint  # It answers the same, whichever adapters are active.
        expected.append(model.predict_proba(TEXTS))
    np.testing.assert_allclose(found, np.mean(expected, axis=0), atol=1e-6)
    if adapters:
        adaptation.remove_adapters(models[2])
        for use in (lambda: ensemble.predict_proba(TEXTS), ensemble.get_config):
            assert "(since removed: ['number_0']), and an encoder with the active adapters []" in tiny.message(use)


def test_a_file_has_the_members_the_weights_and_the_names():
    ensemble = Ensemble([classifier(0), of_short_texts(1)], weights=[0.25, 0.75], average="logits", name="both")
    ensemble.label_names = ["negative", "positive"]
    loaded = save_and_load(ensemble)
    assert (loaded.name, loaded.average, loaded.member_weights) == ("both", "logits", [0.25, 0.75])
    assert loaded.label_names == ["negative", "positive"] and loaded.get_config() == ensemble.get_config()
    np.testing.assert_array_equal(loaded.predict(TEXTS, verbose=0), ensemble.predict(TEXTS, verbose=0))
    assert loaded.evaluate(TEXTS, [0, 1, 1, 0], verbose=0) == ensemble.evaluate(TEXTS, [0, 1, 1, 0], verbose=0)


def test_one_export_answers_raw_texts_with_the_mean_of_five(tmp_path, process_without_this_package):
    module = HubEncoder(tf1_modules.folder("vocabulary"))  # It has a table, which the export must contain.
    models = [*map(classifier, range(2)), *map(of_short_texts, range(2)), TextClassifier(module, label_names=NAMES)]
    expected = np.mean([model.predict_proba(TEXTS) for model in models], axis=0)
    serving.export(Ensemble(models), tmp_path / "served")
    served = process_without_this_package(
        "tests.serving.alone:answers", str(tmp_path / "served"), TEXTS, "serving_default"
    )
    np.testing.assert_allclose(served["outputs"]["probabilities"], expected, atol=1e-6)
    assert served["outputs"]["label"] == [NAMES[row.argmax()] for row in expected]


@pytest.mark.core
def test_tuned_weights_have_the_highest_likelihood():
    ensemble = Ensemble([classifier(0), classifier(3)])
    chances = np.array([model.predict_proba(TEXTS)[range(4), [1, 0, 0, 1]] for model in ensemble.members], "float64")
    found = ensemble.tune_weights(TEXTS, LABELS)
    grid = np.linspace(0, 1, 1001)
    likelihoods = np.log(np.outer(grid, chances[0]) + np.outer(1 - grid, chances[1])).sum(axis=1)
    assert found == ensemble.member_weights and found[0] == pytest.approx(grid[likelihoods.argmax()], abs=2e-3)
    expected = np.tensordot(found, [model.predict_proba(TEXTS) for model in ensemble.members], 1)
    np.testing.assert_allclose(ensemble.predict_proba(TEXTS), expected, atol=1e-6)


def test_weights_are_tuned_with_several_labels_too():
    models = [classifier(seed, ["x", "y"], multi_label=True) for seed in (0, 5)]
    y = (models[1].predict_proba(TEXTS) > 0.5).astype(int)
    assert Ensemble(models).tune_weights(TEXTS, y)[1] > 0.9


def test_an_ensemble_teaches_one_model():
    teacher, student = Ensemble([classifier(0), of_short_texts(1)]), classifier(2, NAMES[::-1])
    losses = adaptation.distill(student, teacher, TEXTS * 4, alpha=1.0, epochs=4, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    judges = [regressor(seed, num_targets=1) for seed in range(2)]
    margins = [adaptation.teacher_margins(each, (TEXTS, LABELS, NAMES * 2), verbose=0) for each in judges]
    found = adaptation.teacher_margins(Ensemble(judges), (TEXTS, LABELS, NAMES * 2), verbose=0)
    np.testing.assert_allclose(found, np.mean(margins, axis=0), atol=1e-6)


def fitted_on(kind):
    model = classifier()
    model.fitted_on = kind
    return model


one, numbers = map(functools.cache, (classifier, regressor))  # Models for all mistakes, which change none.


test_what_cannot_be_combined_is_one_clear_error = check_errors(
    (lambda: Ensemble([]), "`models` must be a list of at least 1 ... Received: models=[]"),
    (lambda: Ensemble([keras.Sequential()]), "a `TextClassifier` or a `TextRegressor`"),
    (lambda: Ensemble([one(), numbers()]), "a regressor of 2 at position 1, and a classifier before it"),
    (lambda: Ensemble([numbers(), regressor(num_targets=1)]), "a regressor of 1 at position 1"),
    (lambda: Ensemble([one(), classifier(multi_label=True)]), "a classifier with `multi_label=True` at position 1"),
    (lambda: Ensemble([one(), classifier(siamese=True)]), "a classifier with `siamese=True` at position 1"),
    (
        lambda: Ensemble([one(), classifier(label_names=["bad", "fine"])]),
        "the same classes ... ['bad', 'fine'] at position 1, and ['bad', 'good'] before it",
    ),
    (lambda: Ensemble([fitted_on("pairs"), fitted_on("texts")]), "Received: fitted_on=['pairs', 'texts']"),
    (lambda: Ensemble([TextClassifier(tiny.encoder(), label_names=NAMES)]), "Raw text requires a preprocessor"),
    (lambda: Ensemble([one()], weights=[0.5, 0.5]), "`weights` must be 1 numbers with the sum 1"),
    (lambda: Ensemble([one(), one()], weights=[0.5, 0.6]), "the sum 1 ... Received: weights=[0.5, 0.6]"),
    (lambda: Ensemble([one()], average="votes"), "Received: average='votes'"),
    (lambda: Ensemble([one()]).fit(TEXTS, LABELS), "An ensemble does not train"),
    (lambda: Ensemble([one()], average="logits").tune_weights(TEXTS, LABELS), "Only weights of probabilities"),
    (lambda: Ensemble([numbers()]).tune_weights(TEXTS, [[1, 2]] * 4), "Only weights of probabilities"),
    (lambda: Ensemble([one()]).tune_weights(TEXTS, LABELS[:3]), "Received: labels=3, texts=4"),
)
