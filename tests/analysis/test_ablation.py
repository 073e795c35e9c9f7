"""What is lost without a head, a neuron or a layer, against pruned tasks and means by hand, and weights put back."""

import importlib.util

import keras
import numpy as np
import pytest
from keras import ops

from keras_transfer.adaptation import LoRA, add_adapters, prune
from keras_transfer.analysis import ablate
from keras_transfer.analysis.ablation import _means
from keras_transfer.encoders import (
    T5,
    AlbertEncoder,
    AWDLSTMEncoder,
    GPT2Encoder,
    ModernBertEncoder,
    TransformerEncoder,
    XLNetEncoder,
)
from keras_transfer.tasks import CausalLM, TextClassifier, TextRegressor, TokenClassifier
from tests.errors import check_errors
from tests.tasks import tiny

TEXTS, LABELS = ["good a b c d", "bad", "a good", "bad b c"], [1, 0, 1, 0]


def classifier(cls=TextClassifier, encoder=None, of_encoder=(), **options):
    keras.utils.set_random_seed(0)
    options = {"num_classes": 2, **options} if cls is TextClassifier else options
    sizes = {"num_layers": 2, "num_heads": 4, "initializer_range": 0.3, "intermediate_dim": 8}
    encoder = tiny.encoder(**({} if encoder is None else {"cls": encoder}), **{**sizes, **dict(of_encoder)})
    return cls(encoder, tiny.preprocessor(), **options)


def eager(model):
    return ops.convert_to_numpy(model(tiny.ids_of(model, TEXTS)))


def logits_of(model, **options):
    """The logits of the whole model, and those without each part, as the metric sees them."""
    found = []

    def metric(task, x, y):
        assert y is None
        found.append(task.predict(x, verbose=0))
        return np.zeros(len(x))

    ablate(model, TEXTS, metric=metric, verbose=0, **options)
    return found


@pytest.mark.core
def test_without_a_head_or_a_neuron_the_logits_are_those_of_the_pruned_task():
    model = classifier()
    before = [ops.convert_to_numpy(weight) for weight in model.weights]
    whole, *heads = logits_of(model, which={0: [1, 3], 1: [0]})
    np.testing.assert_array_equal(whole, model.predict(TEXTS, verbose=0))
    for found, cut in zip(heads, ({0: [1]}, {0: [3]}, {1: [0]}), strict=True):
        np.testing.assert_allclose(found, eager(prune(model, heads=cut)), atol=1e-6)
    _, found = logits_of(model, part="neurons", which={1: [5]})
    np.testing.assert_allclose(found, eager(prune(model, neurons={1: [5]})), atol=1e-6)
    assert all((old == ops.convert_to_numpy(new)).all() for old, new in zip(before, model.weights))


@pytest.mark.core
def test_the_mean_of_a_head_over_all_tokens_takes_its_place(eagerly):
    model, block = classifier(), 1
    inputs = tiny.ids_of(model, TEXTS)
    state = ops.convert_to_numpy(keras.Model(model.encoder.input, model.encoder.hidden_states[block])(inputs))
    attention, mask = model.encoder.blocks[block].attention, ops.convert_to_numpy(inputs["padding_mask"]) == 1
    projected = state @ ops.convert_to_numpy(attention.query_key_value.kernel)
    query, key, value = np.split(projected + ops.convert_to_numpy(attention.query_key_value.bias), 3, axis=-1)
    part = slice(2 * 4, 3 * 4)  # The third of four heads of width 4.
    scores = np.where(mask[:, None], query[..., part] @ key[..., part].transpose(0, 2, 1) / 2, -np.inf)
    weights = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    mean = (weights @ value[..., part])[mask].mean(axis=0)
    _, found = logits_of(model, by="mean", which={block: [2]})
    kernel, bias = (ops.convert_to_numpy(weight).copy() for weight in attention.output_dense.weights)
    bias += mean @ kernel[part]
    kernel[part] = 0
    attention.output_dense.set_weights([kernel, bias])
    np.testing.assert_allclose(found, model.predict(TEXTS, verbose=0), atol=1e-5)


@pytest.mark.core
@pytest.mark.parametrize("part", ["neurons", "layers"])
def test_the_mean_of_a_neuron_or_of_a_layer_over_all_tokens_takes_its_place(part, eagerly):
    model, block = classifier(), 1
    inputs = tiny.ids_of(model, TEXTS)
    real = ops.convert_to_numpy(inputs["padding_mask"]) == 1
    state = keras.Model(model.encoder.input, model.encoder.hidden_states[block])(inputs)
    layer = model.encoder.blocks[block]
    attended = layer.attention(state, padding_mask=inputs["padding_mask"])
    inner, outer = layer.feed_forward.inner, layer.feed_forward.outer
    neurons = keras.activations.gelu(inner(layer.attention_norm(state + attended)), approximate=False)
    if part == "neurons":
        _, found = logits_of(model, part=part, by="mean", which={block: [5]})
        kernel, bias = outer.get_weights()
        bias = bias + ops.convert_to_numpy(neurons)[real].mean(axis=0)[5] * kernel[5]
        outer.set_weights([np.where(np.arange(8)[:, None] == 5, 0, kernel), bias])
    else:
        _, found = logits_of(model, part=part, by="mean", which=[block])
        for dense, outputs in ((layer.attention.output_dense, attended), (outer, outer(neurons))):
            mean = ops.convert_to_numpy(outputs)[real].mean(axis=0)
            dense.set_weights([0 * dense.get_weights()[0], mean])
    np.testing.assert_allclose(found, model.predict(TEXTS, verbose=0), atol=1e-5)


@pytest.mark.core
def test_an_xlnet_without_a_neuron_or_a_layer_is_the_pruned_one(eagerly):
    model = classifier(encoder=lambda *args, max_sequence_length, **sizes: XLNetEncoder(*args, **sizes))
    _, found = logits_of(model, part="neurons", which={1: [5]})
    np.testing.assert_allclose(found, eager(prune(model, neurons={1: [5]})), atol=1e-6)
    inputs, lower = tiny.ids_of(model, TEXTS), prune(model, layers=[0]).encoder
    state = keras.Model(model.encoder.input, model.encoder.hidden_states[1])(inputs)
    np.testing.assert_allclose(*map(ops.convert_to_numpy, (lower(inputs)["sequence_output"], state)), atol=1e-6)


def test_the_means_of_an_xlnet_are_those_of_its_blocks(eagerly):
    model = classifier(encoder=lambda *args, max_sequence_length, **sizes: XLNetEncoder(*args, **sizes))
    inputs, block = tiny.ids_of(model, TEXTS), model.encoder.blocks[0]
    [kernel] = block.attention.output_dense.get_weights()
    block.attention.output_dense.set_weights([0 * kernel])  # The block reads each token alone.
    state = keras.Model(model.encoder.input, model.encoder.hidden_states[0])(inputs)
    neurons = keras.activations.gelu(block.feed_forward.inner(block.attention_norm(state)), approximate=False)
    expected = ops.convert_to_numpy(neurons)[ops.convert_to_numpy(inputs["padding_mask"]) == 1].mean(axis=0)
    np.testing.assert_allclose(_means(model, TEXTS, "neurons")[0][0], expected, atol=1e-6)


def test_heads_have_the_same_means_in_pairs_of_texts_that_are_read_alone(eagerly):
    siamese = classifier(siamese=True)
    means = _means(TextClassifier(siamese.encoder, tiny.preprocessor(), num_classes=2), TEXTS, "heads")
    np.testing.assert_allclose(_means(siamese, (TEXTS[:2], TEXTS[2:]), "heads"), means, atol=1e-6)


def test_heads_have_the_same_means_over_sentences_as_over_texts(eagerly):
    tagger, sentences = classifier(TokenClassifier, label_names=["A", "B"]), [text.split() for text in TEXTS]
    means = _means(TextClassifier(tagger.encoder, tiny.preprocessor(), num_classes=2), TEXTS, "heads")
    np.testing.assert_allclose(_means(tagger, sentences, "heads"), means, atol=1e-6)
    found = ablate(tagger, sentences, [["A"] * len(words) for words in sentences], by="mean", which={0: [1]}, verbose=0)
    assert 0 <= found.baseline <= 1


def test_without_a_layer_that_normalizes_first_its_vectors_are_those_below(eagerly):
    model = classifier(encoder=TransformerEncoder, of_encoder={"norm": "pre"})
    found = logits_of(model, part="layers")
    for logits, kept in zip(found[1:], ([1], [0]), strict=True):
        np.testing.assert_allclose(logits, prune(model, layers=kept).predict(TEXTS, verbose=0), atol=1e-6)
    notes = [ablate(each, TEXTS, LABELS, part="layers", verbose=0)._notes() for each in (model, classifier())]
    assert [any("norms" in line for line in lines) for lines in notes] == [False, True]


def test_the_weights_are_put_back_after_an_error_too(eagerly):
    model, calls = classifier(), []

    def metric(task, x, y):
        calls.append(x)
        if len(calls) == 3:
            raise RuntimeError("stopped")
        return np.zeros(4)

    before = [ops.convert_to_numpy(weight) for weight in model.weights]
    with pytest.raises(RuntimeError, match="stopped"):
        ablate(model, TEXTS, metric=metric, verbose=0)
    assert len(calls) == 3 and all((old == ops.convert_to_numpy(w)).all() for old, w in zip(before, model.weights))


def test_the_change_is_the_mean_over_texts_with_its_interval(eagerly):
    scores = iter(np.array([[1, 0, 1, 1], [1, 0, 0, 1], [1, 0, 1, 1]], float))
    found = ablate(classifier(), TEXTS, metric=lambda *given: next(scores), which={1: [0, 2]}, verbose=0)
    first, second = found.rows
    assert found.baseline == 0.75 and [first["layer"], first["head"], second["head"]] == [1, 0, 2]
    assert [first["score"], first["change"], first["high"]] == [0.5, -0.25, 0.0] and -0.75 <= first["low"] < -0.25
    assert [second[name] for name in ("score", "change", "low", "high")] == [0.75, 0, 0, 0]
    assert str(found).splitlines()[2].split()[:4] == ["1", "0", "0.5000", "-0.2500"]


def test_a_classifier_is_right_or_wrong_and_a_tagger_has_a_fraction_of_right_words(eagerly):
    model = classifier(label_names=["bad", "good"])
    predicted = np.array(model.predict_labels(TEXTS))
    found = ablate(model, TEXTS, ["good", "bad", "good", "bad"], which={0: [0]}, verbose=0)
    assert found.baseline == np.mean(predicted == ["good", "bad", "good", "bad"])
    assert found.baseline == ablate(model, TEXTS, np.array(LABELS), which={0: [0]}, verbose=0).baseline
    found = ablate(model, TEXTS, np.array(LABELS), which={0: [0]}, metric="log_likelihood", verbose=0)
    expected = np.log(model.predict_proba(TEXTS)[range(4), LABELS]).mean()
    assert found.baseline == pytest.approx(expected, rel=1e-6)
    tagger = classifier(TokenClassifier, label_names=["A", "B"])
    words = [["good", "a", "b"], ["bad"]]
    names = [[name for _, name in sentence] for sentence in tagger.predict_words(words)]
    names[0][0] = {"A": "B", "B": "A"}[names[0][0]]
    assert ablate(tagger, words, names, part="layers", verbose=0).baseline == pytest.approx((2 / 3 + 1) / 2)


def test_a_language_model_has_the_metric_that_the_user_passes(eagerly):
    keras.utils.set_random_seed(0)
    model = CausalLM(tiny.encoder(GPT2Encoder, num_layers=2), tiny.preprocessor())
    found = ablate(model, TEXTS, metric=lambda task, x, y: task.score(x).log_likelihoods, samples=3, verbose=0)
    assert len(found.rows) == 4 and found.baseline < 0
    assert all(row["low"] <= row["change"] <= row["high"] for row in found.rows)


def test_a_picture_has_a_point_with_an_interval_for_each_part(eagerly):
    if not importlib.util.find_spec("matplotlib"):
        pytest.skip("needs matplotlib: pip install 'keras_transfer[plots]'")
    found = ablate(classifier(), TEXTS, LABELS, which={0: [2], 1: [0]}, verbose=0)
    (points, *_), axes = found.plot().axes[0].lines, found.plot().axes[0]
    places, changes = points.get_data()
    np.testing.assert_allclose(places, [0.4, 0.6])
    assert changes.tolist() == [row["change"] for row in found.rows]
    assert axes.get_xlabel() == "layer and head" and axes.get_xticks().tolist() == [0, 1]
    axes = ablate(classifier(), TEXTS, LABELS, part="layers", verbose=0).plot().axes[0]
    assert axes.get_xlabel() == "layer" and axes.lines[0].get_xdata().tolist() == [0, 1]


def adapted():
    model = classifier()
    add_adapters(model, LoRA(2))
    return model


def tags(labels):
    return ablate(classifier(TokenClassifier, label_names=["A", "B"]), [["good", "a"], ["bad"]], labels, verbose=0)


def of(**options):
    return lambda: ablate(classifier(), TEXTS, LABELS, verbose=0, **options)


TINY = {"num_layers": 1, "num_heads": 2, "hidden_dim": 4, "intermediate_dim": 4}


def over(encoder):
    return lambda: ablate(TextClassifier(encoder(), tiny.preprocessor(), num_classes=2), TEXTS, LABELS, verbose=0)


test_a_mistake_is_one_clear_error = check_errors(
    (lambda: ablate(classifier(encoder=AlbertEncoder), TEXTS, LABELS), "with different blocks. ... AlbertEncoder"),
    (lambda: ablate(adapted(), TEXTS, LABELS), "without adapters"),
    (lambda: ablate(classifier().dataset(TEXTS, LABELS), TEXTS, LABELS), "`task` must be a task"),
    (lambda: ablate(classifier(), classifier().dataset(TEXTS), LABELS), "in memory. Received: x='Batches'"),
    (
        lambda: ablate(classifier(encoder=ModernBertEncoder), TEXTS, LABELS, by="mean"),
        "The heads have no biases, to which means could be added",
    ),
    (over(lambda: AWDLSTMEncoder(17, embedding_dim=4, units=4)), "one encoder-only Transformer ... AWDLSTMEncoder"),
    (over(lambda: T5(17, **TINY, start_token=0)), "one encoder-only Transformer ... T5"),
    (
        lambda: ablate(classifier(TextRegressor), TEXTS, [1.0] * 4),
        "Pass as `metric` a function ... Received: task='TextRegressor'",
    ),
    (of(part="neurons"), "Pass `which={layer: [neuron]}`. Received: which=None"),
    (of(part="layers", which={0: [1]}), "a list of layers for `part='layers'`"),
    (of(which=[0]), "a dict from layers to lists. Received: which=[0]"),
    (of(which={}), "a dict from layers to lists. Received: which={}"),
    (lambda: ablate(classifier(), TEXTS, LABELS[:3]), "each with a label. Received: texts=4, labels=3"),
    (lambda: ablate(classifier(), TEXTS, [*LABELS, 1]), "each with a label. Received: texts=4, labels=5"),
    (lambda: ablate(classifier(), [], []), "There must be texts, each with a label. Received: texts=0"),
    (of(metric=lambda *given: [np.nan] * 4), "a finite number for each text"),
    (of(part="layers", which=[-1]), "[1, 1] layers, numbered from 0. Received: -1, None"),
    (lambda: ablate(classifier(), TEXTS), "Pass as `metric` a function ... metric=None, y='NoneType'"),
    (lambda: tags([["A"], ["B"]]), "as many labels as words. Received: sentence=0, words=2, labels=1"),
    (of(which={2: [0]}), "The layers have [4, 4] heads, numbered from 0. Received: 2, 0"),
    (of(which={1: [0, 4]}), "numbered from 0. Received: 1, 4"),
    (of(metric=lambda *given: 0.5), "a finite number for each text. Received: array(0.5)"),
)
