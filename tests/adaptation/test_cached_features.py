"""Cached features: training on them is training with the lower part frozen, for every task, encoder and length."""

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_transfer import encoders
from keras_transfer.adaptation import (
    add_adapters,
    cache_features,
    fine_tune,
    freeze,
    get_recipe,
    layer_groups,
    set_active_adapter,
)
from keras_transfer.serving import export
from keras_transfer.tasks import BertPretraining, CausalLM, MaskedLM, TextClassifier, TokenClassifier
from keras_transfer.text import batches
from tests.adaptation import cached
from tests.adaptation.cached import largest_difference, values
from tests.errors import check_errors
from tests.helpers import EAGER, logged
from tests.tasks import tiny

pytestmark = pytest.mark.usefixtures("eagerly")
SMALL = {"vocabulary_size": 12, "num_layers": 2, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
SMALL |= {"initializer_range": 0.3}
POSITIONS = {**SMALL, "dropout": 0.0, "max_sequence_length": 10}
BLOCKS = {
    "bert": (encoders.BertEncoder, POSITIONS),
    "albert": (encoders.AlbertEncoder, {**POSITIONS, "embedding_dim": 4}),
    "mpnet": (encoders.MPNetEncoder, POSITIONS),
    "deberta": (encoders.DebertaV2Encoder, {**POSITIONS, "num_buckets": 4, "conv_kernel_size": 3}),
    "modernbert": (encoders.ModernBertEncoder, {**SMALL, "max_sequence_length": 10, "window": 1}),
    "xlnet": (encoders.XLNetEncoder, {**SMALL, "dropout": 0.0}),
    "gpt2": (encoders.GPT2Encoder, POSITIONS),
    "elmo": (
        encoders.ElmoEncoder,
        {"embedding_dim": 4, "filters": [(1, 4)], "projection_dim": 4, "units": 8, "max_characters": 8, "dropout": 0.0},
    ),
}


@pytest.fixture(scope="module")
def model():
    """A classifier with a frozen block and one that trains, which tests must not change."""
    return cached.classifier()


@pytest.fixture(scope="module")
def part(model):
    """Its upper part, and the cached features."""
    upper, features = cache_features(model, cached.texts(model), below="block_1", verbose=0)
    upper.compile("sgd", run_eagerly=EAGER)
    return upper, features


def trained(model, data, epochs=2):
    model.compile(keras.optimizers.Adam(1e-2), run_eagerly=EAGER)
    history = model.fit(data, epochs=epochs, verbose=0)
    return history.history["loss"]


@pytest.mark.parametrize(
    ("make", "data", "below"),
    [
        pytest.param(cached.classifier, cached.texts, "block_1", marks=pytest.mark.core),
        (cached.classifier, cached.pairs, "head"),
        pytest.param(cached.tagger, cached.sentences, "block_1", marks=pytest.mark.core),
        (lambda below: cached.classifier(below, scalar_mix=True), cached.texts, "block_1"),
    ],
    ids=["classifier", "pairs, head", "tagger", "scalar mix"],
)
def test_training_on_cached_features_equals_training_with_the_lower_part_frozen(make, data, below):
    whole, other = make(below), make(below)
    start = values(whole.weights)
    for weight, value in zip(other.weights, start):
        weight.assign(value)
    upper, features = cache_features(whole, data(whole), below=below, verbose=0)
    assert (
        len({len(row[0]["padding_mask"][0]) for row in features.replace(inferred=False)}) > 1
    )  # batches of several lengths
    losses, expected = trained(upper, features), trained(other, data(other))
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    assert largest_difference(values(whole.weights), values(other.weights)) < 1e-5
    moved = [(a != b).any() for a, b in zip(values(whole.weights), start)]
    assert any(moved) and not any(own for weight, own in zip(whole.weights, moved) if not weight.trainable)


MARKS = {"deberta": pytest.mark.core, **dict.fromkeys(("mpnet", "modernbert", "gpt2"), pytest.mark.slow)}


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=MARKS.get(kind, ())) for kind in BLOCKS])
def test_an_encoder_computes_the_same_from_its_cached_lower_part(kind):
    cls, arguments = BLOCKS[kind]
    below = "head" if kind in ("albert", "elmo", "xlnet") else "block_1"
    for task in (TextClassifier, TokenClassifier) if kind == "bert" else (TextClassifier,):
        model, data = cached.of_encoder(cls(**arguments), task, below)
        upper, features = cache_features(model, data, below=below, verbose=0)
        assert upper.count_params() < model.count_params()
        for (inputs, _), (stored, _) in zip(data, features, strict=True):
            ours, theirs = upper(stored), model(inputs)
            real = to_numpy(inputs["padding_mask"])[:, :, None] if task is TokenClassifier else 1
            np.testing.assert_allclose(to_numpy(ours) * real, to_numpy(theirs) * real, atol=1e-6)


def test_a_keras_hub_backbone_computes_the_same_from_its_cached_lower_part():
    hub = pytest.importorskip("keras_hub")
    model, data = cached.of_encoder(hub.models.BertBackbone(12, 2, 2, 4, 8, dropout=0.0), below="transformer_layer_1")
    upper, features = cache_features(model, data, below="transformer_layer_1", verbose=0)
    names = [group.name for group in layer_groups(upper)]
    assert names == [group.name for group in layer_groups(model)][-len(names) :] and len(names) < 5
    np.testing.assert_allclose(to_numpy(upper(features[0][0])), to_numpy(model(data[0][0])), atol=1e-6)


def test_only_what_needs_weights_below_is_stored_and_padding_is_not():
    deberta, data = cached.of_encoder(encoders.DebertaV2Encoder(**BLOCKS["deberta"][1]))
    upper, features = cache_features(deberta, data, below="block_1", verbose=0)
    stored = {name: column for name, column in features.inputs.items() if name not in data.inputs}
    [column] = stored.values()
    assert column.values.shape == (4 + 2 + 3 + 1, 8) and column.shape == (4, 4, 8)
    # Relative positions and the bias of the mask are computed again, with the frozen weights that they have.
    assert {"distances", "attention_bias"} <= {layer.name for layer in upper.layers}
    pooled, data = cached.of_encoder(encoders.BertEncoder(**POSITIONS), below="head")
    _, features = cache_features(pooled, data, below="head", verbose=0)
    assert [column.shape for column in list(features.inputs.values())[-1:]] == [(4, 8)]


def test_the_upper_part_evaluates_predicts_and_takes_validation_data_like_the_whole():
    model = cached.tagger()
    upper, features = cache_features(model, cached.sentences(model), below="block_1", verbose=0)
    _, other = cache_features(model, cached.SENTENCES[:3], cached.TAGS[:3], below="block_1", verbose=0)
    for part in (upper, model):
        part.compile("sgd", run_eagerly=EAGER)
    assert isinstance(upper, TokenClassifier) and upper.label_names == model.label_names
    ours, theirs = (
        part.evaluate(data, verbose=0) for part, data in ((upper, features), (model, cached.sentences(model)))
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    for row, expected in zip(
        upper.predict(other, verbose=0), model.predict(cached.SENTENCES[:3], verbose=0), strict=True
    ):
        np.testing.assert_allclose(row, expected, atol=1e-5)
    assert "val_loss" in upper.fit(features, validation_data=other, verbose=0).history


def test_training_on_cached_features_tells_the_whole_task_the_kind_of_its_texts():
    model = cached.classifier("head")
    for texts, kind in ((["a b", "c"], "texts"), ((["a b", "c"], ["d", "e"]), "pairs")):
        upper, features = cache_features(model, texts, [0, 1], below="head", verbose=0)
        upper.compile("sgd", run_eagerly=EAGER)
        upper.fit(features, verbose=0)
        assert model.fitted_on == kind


def test_recipes_train_the_upper_part():
    model = cached.classifier("pooler")
    upper, features = cache_features(model, cached.texts(model), below="pooler", verbose=0)
    before = values(model.weights)
    fine_tune(upper, features, recipe=get_recipe("bert", epochs=1), verbose=0)
    moved = {id(w) for w, value in zip(model.weights, before) if (to_numpy(w) != value).any()}
    assert moved == {id(weight) for group in layer_groups(model)[-2:] for weight in group.variables}


def test_a_causal_language_model_trains_on_cached_features():
    keras.utils.set_random_seed(0)
    encoder = encoders.TransformerEncoder(
        len(tiny.VOCABULARY),
        num_layers=2,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=16,
        dropout=0.0,
        norm="pre",
        causal=True,
        max_sequence_length=32,
    )
    model = CausalLM(encoder, tiny.preprocessor())
    with pytest.raises(ValueError, match="All weights below 'block_1' must be frozen"):
        cache_features(model, cached.TEXTS, below="block_1")
    freeze(model, below="block_1")
    upper, features = cache_features(model, cached.TEXTS, below="block_1", verbose=0)
    for part in (upper, model):
        part.compile("sgd", run_eagerly=EAGER)
    ours, theirs = upper.evaluate(features, verbose=0), model.evaluate(cached.TEXTS, verbose=0)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_dropout_in_the_lower_part_is_off_and_a_warning_names_it(caplog):
    model = TextClassifier(tiny.encoder(num_layers=2, dropout=0.1), tiny.preprocessor(), num_classes=2, dropout=0.5)
    freeze(model, below="block_1")
    upper, features = cache_features(model, cached.texts(model), below="block_1", verbose=0)
    assert "Dropout below 'block_1' is off" in caplog.text and "'block_0'" in caplog.text
    assert "head_dropout" not in caplog.text and "head_dropout" in {layer.name for layer in upper.layers}
    ours, theirs = (to_numpy(part(data[0][0])) for part, data in ((upper, features), (model, cached.texts(model))))
    np.testing.assert_allclose(ours, theirs, atol=1e-6)
    caplog.clear()
    model = cached.classifier("head")
    cache_features(model, cached.texts(model), below="head", verbose=0)
    assert not logged(caplog)


def test_features_of_other_weights_are_refused_in_every_method():
    model = cached.classifier()
    upper, features = cache_features(model, cached.texts(model), below="block_1", verbose=0)
    upper.compile("sgd")
    model.encoder.token_embedding.embeddings.assign_add(np.full_like(values(model.weights)[0], 0.1))
    for method in (upper.fit, upper.evaluate, upper.predict):
        with pytest.raises(ValueError, match="belong to different weights or settings .* below 'block_1'"):
            method(features, verbose=0)


def masked_lm():
    encoder = tiny.encoder(num_layers=2, pooler=False)
    return freeze(MaskedLM(encoder, tiny.preprocessor()), below="block_1")


def bert_pretraining():
    return freeze(BertPretraining(tiny.encoder(num_layers=2), tiny.preprocessor()), below="block_1")


def pairs(model):
    return model.dataset((cached.TEXTS, cached.TEXTS), [0] * len(cached.TEXTS))


def texts_alone(model):
    return cached.TEXTS


def elmo():
    cls, arguments = BLOCKS["elmo"]
    return cached.of_encoder(cls(**arguments))[0]


def nothing_trains():
    model = cached.classifier("head")
    model.trainable = False
    return model


@pytest.mark.parametrize(
    ("make", "data", "below", "message"),
    [
        (None, cached.texts, "head", r"Call `freeze\(model, below='head'\)`.* Received: trainable=\['block_1/"),
        (None, cached.texts, "embeddings", "No layer group is below 'embeddings'"),
        (None, cached.texts, "blok_1", "Did you mean 'block_1'"),
        (
            elmo,
            lambda model: cached.of_encoder(model.encoder)[1],
            "block_1",
            r"`ElmoEncoder` cannot .* one of \['head'\]",
        ),
        (nothing_trains, cached.texts, "head", "Some weights must be trainable from 'head' up"),
        (None, lambda model: keras.utils.PyDataset(), "block_1", "must be in memory.*Received: x=a PyDataset"),
        (masked_lm, texts_alone, "block_1", "hides other tokens in each epoch"),
        (bert_pretraining, pairs, "block_1", "hides other tokens in each epoch"),
        (
            lambda: keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]),
            lambda model: None,
            "head",
            "must be a task",
        ),
    ],
)
def test_what_cannot_be_cached_is_one_error(model, make, data, below, message):
    model = model if make is None else make()
    with pytest.raises(ValueError, match=message):
        cache_features(model, data(model), below=below)


WHOLE = "require the data that `cache_features` returned. Use the whole task"
test_what_only_the_whole_task_can_do_is_an_error_of_its_part = check_errors(
    (lambda part: part[0].predict(cached.TEXTS), f"{WHOLE} for texts"),
    (lambda part: part[0](cached.TEXTS[:2]), f"{WHOLE} for texts"),
    (lambda part, model: part[0].fit(cached.texts(model)), WHOLE),
    (lambda part: cache_features(*part, below="head"), "must be a whole task"),
    (lambda part, tmp_path: part[0].save(tmp_path / "part.keras"), "cannot be saved. Use the whole task"),
    (lambda part: add_adapters(part[0], "lora:2"), "cannot be given adapters. Use the whole task"),
    (lambda part, tmp_path: export(part[0], tmp_path / "served"), "cannot be exported. Use the whole task"),
)


def test_batches_keep_the_order_of_the_texts_for_predict(model, part):
    upper, _ = part
    _, features = cache_features(
        model, batches(cached.TEXTS, None, preprocessor=model.preprocessor, batch_size=4), below="block_1", verbose=0
    )
    np.testing.assert_allclose(upper.predict(features, verbose=0), model.predict(cached.TEXTS, verbose=0), atol=1e-5)


def test_adapters_train_above_cached_features_and_switching_those_below_is_noticed():
    model, data = cached.of_encoder(encoders.BertEncoder(**POSITIONS))
    for name in ("first", "second"):
        add_adapters(model, "houlsby:2", name=name)
    freeze(model, below="block_1")
    upper, features = cache_features(model, data, below="block_1", verbose=0)
    assert [group.name for group in layer_groups(upper)] == ["block_1", "block_1_adapters", "pooler", "head"]
    np.testing.assert_allclose(to_numpy(upper(features[0][0])), to_numpy(model(data[0][0])), atol=1e-6)
    set_active_adapter(model, "first")
    upper.compile("sgd")
    with pytest.raises(ValueError, match="belong to different weights or settings"):
        upper.evaluate(features, verbose=0)
