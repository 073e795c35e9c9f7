"""Scores of words: in closed form, complete, equal to loops over `predict` and to captum's, of pieces, and shown."""

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_transfer.analysis import attribute
from keras_transfer.analysis.attribution import rule_points
from keras_transfer.encoders import BertEncoder
from keras_transfer.tasks import TextClassifier
from tests.tasks import tiny

TEXTS = ["a good b c", "bad d e f g h i bad"]
GRADIENTS = ("integrated_gradients", "gradient_x_input", "smoothgrad")


def curved(**options):
    """A classifier whose output is far from linear in the vectors of the tokens."""
    keras.utils.set_random_seed(0)
    encoder = tiny.encoder(num_layers=2, initializer_range=0.3)
    return TextClassifier(encoder, tiny.preprocessor(), **{"num_classes": 3, "dropout": 0.0, **options})


# === Right values ===


@pytest.mark.core
@pytest.mark.parametrize("rule", ["gauss_legendre", "riemann_trapezoid"])
def test_integrated_gradients_of_a_linear_model_are_those_by_hand(rule):
    model = tiny.of_vectors()
    found = attribute(model, ["good a b", "bad"], target=1, steps=3, rule=rule)
    vectors = to_numpy(model.encoder.token_embedding.embeddings)
    kernel = to_numpy(model.get_layer("logits").kernel)[:, 1]
    for words, scores, places in zip([["good", "a", "b"], ["bad"]], found.word_scores, [[2, 4, 5], [3]]):
        np.testing.assert_allclose(scores, (vectors[places] - vectors[0]) @ kernel / len(words), atol=1e-6)
    np.testing.assert_allclose(found.delta, 0, atol=1e-6)
    zero = attribute(model, ["good"], target=1, steps=2, baseline="zero")
    assert zero.word_scores[0][0] == pytest.approx(vectors[2] @ kernel, abs=1e-6)


@pytest.mark.core
def test_scores_sum_to_the_difference_from_the_baseline(eagerly):
    model = curved()
    for options in ({}, {"baseline": "mask"}, {"output": "probability"}, {"layer": 1}):
        found = attribute(model, TEXTS, target=[0, "2"], steps=50, **options)
        change = found.prediction - found.baseline_prediction
        np.testing.assert_allclose([row.sum() for row in found.scores], change, rtol=0.01)
        assert np.abs(change).min() > 1e-3 and found.target == ["0", "2"]
    logits = model.predict(TEXTS, verbose=0)
    found = attribute(model, TEXTS, steps=2)
    np.testing.assert_allclose(found.prediction, logits.max(axis=1), atol=1e-5)


@pytest.mark.parametrize("rule", ["gauss_legendre", "riemann_left", "riemann_middle", "riemann_right"])
def test_the_weights_of_a_rule_integrate_a_line_to_the_error_of_the_rule(rule):
    points, weights = rule_points(rule, 4)
    expected = {"gauss_legendre": 0.5, "riemann_left": 0.375, "riemann_middle": 0.5, "riemann_right": 0.625}[rule]
    assert weights.sum() == pytest.approx(1) and points @ weights == pytest.approx(expected)


def test_a_trapezoid_reaches_both_ends_and_weighs_them_half():
    points, weights = rule_points("riemann_trapezoid", 5)
    np.testing.assert_allclose(points, [0, 0.25, 0.5, 0.75, 1])
    np.testing.assert_allclose(weights, [0.125, 0.25, 0.25, 0.25, 0.125])


@pytest.mark.core
def test_more_steps_than_rows_of_a_batch_give_the_same_scores(eagerly):
    model = curved()
    few, many = (attribute(model, TEXTS, steps=7, batch_size=size) for size in (3, 64))
    for one, other in zip(few.scores, many.scores):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.core
def test_the_gradient_times_the_input_is_the_limit_of_smoothgrad_without_noise(eagerly):
    model = tiny.of_vectors()
    kernel = to_numpy(model.get_layer("logits").kernel)[:, 0]
    vectors = to_numpy(model.encoder.token_embedding.embeddings)
    for method in ("gradient_x_input", "smoothgrad"):
        found = attribute(model, ["good a"], method=method, target=0, noise=0.0)
        np.testing.assert_allclose(found.word_scores[0], vectors[[2, 4]] @ kernel / 2, atol=1e-6)
    curve = curved()
    exact, noisy = (attribute(curve, TEXTS, method="smoothgrad", noise=noise).scores[0] for noise in (0.0, 0.3))
    assert np.abs(exact - noisy).max() > 1e-3


def test_occlusion_and_erasure_are_differences_of_predictions(eagerly):
    model = curved()
    words = TEXTS[1].split()
    logit = model.predict(TEXTS[1:], verbose=0)[0]
    hidden = attribute(model, TEXTS, method="occlusion", baseline="mask", target=1).word_scores[1]
    inputs = {name: np.array(values) for name, values in model.preprocessor(TEXTS[1:]).items()}
    for place in range(len(words)):
        changed = {**inputs, "token_ids": inputs["token_ids"].copy()}
        changed["token_ids"][0, place + 1] = tiny.VOCABULARY.index("[MASK]")
        assert hidden[place] == pytest.approx(logit[1] - model.predict(changed, verbose=0)[0, 1], abs=1e-5)
    deleted = attribute(model, TEXTS, method="erasure", target=1).word_scores[1]
    texts = [" ".join(words[:place] + words[place + 1 :]) for place in range(len(words))]
    np.testing.assert_allclose(deleted, logit[1] - model.predict(texts, verbose=0)[:, 1], atol=1e-5)


@pytest.mark.parity
def test_integrated_gradients_are_those_of_captum(tmp_path):
    attr = pytest.importorskip("captum.attr", reason="is compared with: pip install 'keras_transfer[parity]'")
    torch = pytest.importorskip("torch")
    import transformers

    config = transformers.BertConfig(
        vocab_size=len(tiny.VOCABULARY), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, num_labels=3,
        intermediate_size=32, initializer_range=0.3, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        max_position_embeddings=32,
    )  # fmt: skip
    torch.manual_seed(0)
    theirs = transformers.BertForSequenceClassification(config).eval()

    theirs.save_pretrained(tmp_path)
    encoder = BertEncoder.from_pretrained(tmp_path)
    model = TextClassifier(encoder, tiny.preprocessor(), num_classes=3, dropout=0.0)
    logits = model.get_layer("logits")
    logits.kernel.assign(theirs.classifier.weight.detach().numpy().T)
    logits.bias.assign(theirs.classifier.bias.detach().numpy())
    rules = {"gauss_legendre": "gausslegendre", "riemann_middle": "riemann_middle", "riemann_right": "riemann_right"}
    for rule, name in rules.items():
        found = attribute(model, TEXTS, target=2, steps=20, rule=rule)
        for text, scores in zip(TEXTS, found.scores):
            inputs = {key: np.array(value).astype("int64") for key, value in model.preprocessor([text]).items()}
            real = int(inputs["padding_mask"].sum())
            ids = torch.tensor(inputs["token_ids"][:, :real])
            baseline = torch.where((ids == 2) | (ids == 3), ids, 0)
            explainer = attr.LayerIntegratedGradients(lambda ids: theirs(ids).logits, theirs.bert.embeddings)
            expected = explainer.attribute(ids, baseline, target=2, n_steps=20, method=name)
            np.testing.assert_allclose(scores, expected.sum(-1)[0].detach().numpy(), atol=1e-4)
