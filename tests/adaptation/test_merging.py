"""Soups, TIES and combined adapters: the right means of weights, the best one on validation data, and no surprises."""

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import add_adapters, combine_adapters, greedy_soup, merge_models, set_active_adapter
from keras_transfer.adaptation.adapters.adapters import adapter_weights
from keras_transfer.adaptation.merging import ties
from tests.adaptation.adapters import adapter_models as models
from tests.errors import check_errors
from tests.helpers import save_and_load
from tests.tasks import tiny

TEXTS, LABELS = tiny.examples(16)
pytestmark = pytest.mark.usefixtures("eagerly")


def values(model):
    return [np.array(keras.ops.convert_to_numpy(weight)) for weight in model.weights]


def moved(seed, share=1.0):
    """A classifier that is `share` of the way from the first one to another one."""
    model, random = tiny.classifier(), np.random.default_rng(seed)
    for weight in model.weights[5:]:  # The first ones are those of the embeddings.
        weight.assign(keras.ops.convert_to_numpy(weight) + share * random.normal(scale=0.3, size=weight.shape))
    return model


@pytest.mark.core
def test_each_weight_is_the_weighted_mean_and_equal_weights_stay_bit_identical(tmp_path):
    sources = [moved(seed) for seed in range(3)]
    sources[1].compile(keras.optimizers.Adam(0.1))
    sources[1].optimizer.build(sources[1].trainable_variables)
    sources[1].save_weights(tmp_path / "one.weights.h5")
    sources[2].save(tmp_path / "two.keras")
    shares, model = [0.1, 0.3, 0.6], tiny.classifier()
    model.compile(keras.optimizers.Adam(0.1))
    model.optimizer.build(model.trainable_variables)
    model.optimizer.iterations.assign(3)
    start = values(model)
    files = [sources[0], tmp_path / "one.weights.h5", str(tmp_path / "two.keras")]
    assert merge_models(model, files, weights=shares) is model
    for value, *others in zip(values(model), *map(values, sources)):
        np.testing.assert_allclose(value, np.tensordot(shares, others, 1), atol=1e-6)
    assert tiny.difference(values(model)[:5], start[:5]) == 0 and int(model.optimizer.iterations) == 3
    merge_models(model, sources)
    for value, *others in zip(values(model), *map(values, sources)):
        np.testing.assert_allclose(value, np.mean(others, axis=0), atol=1e-6)


def test_ties_trims_elects_signs_and_averages_the_changes_with_the_sign():
    changes = np.array([[4.0, -1.0, 3.0, 0.1], [2.0, 3.0, -5.0, 0.2], [6.0, 2.0, 2.9, -0.3]])
    # The largest half of each remains: [4, 0, 3, 0], [0, 3, -5, 0] and [6, 0, 2.9, 0]. The sign of the third is +.
    np.testing.assert_allclose(ties(changes, np.full(3, 1 / 3), 0.5), [5, 3, 2.95, 0])
    np.testing.assert_allclose(ties(changes, np.array([0.2, 0.6, 0.2]), 0.5), [5, 3, -5, 0])
    np.testing.assert_allclose(ties(changes[:1], np.ones(1), 1), changes[0])


@pytest.mark.parity
@pytest.mark.parametrize("density", [0.1, 0.5, 0.9])
def test_ties_equals_that_of_peft(density):
    torch = pytest.importorskip("torch")
    reason = "compares with PEFT on torch: run `make test-parity`"
    theirs = pytest.importorskip("peft.utils.merge_utils", reason=reason, exc_type=ImportError)
    changes = np.random.default_rng(0).normal(size=(4, 300))
    tensors = [torch.tensor(change).reshape(20, 15) for change in changes]
    expected = theirs.ties(tensors, torch.ones(4, dtype=torch.float64), density).numpy().ravel()
    np.testing.assert_allclose(ties(changes, np.full(4, 0.25), density), expected, atol=1e-12)


def test_ties_merges_changes_from_the_weights_of_the_model():
    origin, sources = tiny.classifier(), [moved(seed) for seed in range(2)]
    start = values(origin)
    merge_models(origin, sources, method="ties", density=0.5)
    changes = [np.concatenate([(a - b).ravel() for a, b in zip(values(each), start)]) for each in sources]
    found = np.concatenate([(a - b).ravel() for a, b in zip(values(origin), start)])
    np.testing.assert_allclose(found, ties(np.array(changes), np.full(2, 0.5), 0.5), atol=1e-6)
    assert tiny.difference(values(origin)[:5], start[:5]) == 0


@pytest.mark.core
def test_a_greedy_soup_keeps_what_does_not_make_it_worse_and_is_at_least_as_good_as_the_best():
    good = tiny.of_vectors()
    good.compile(keras.optimizers.Adam(0.3))
    good.fit(TEXTS, LABELS, epochs=5, batch_size=16, verbose=0)
    near, far = tiny.of_vectors(), tiny.of_vectors()
    for model, scale in ((near, 1e-4), (far, 3.0)):
        random = np.random.default_rng(1)
        for weight, value in zip(model.weights, values(good)):
            weight.assign(value + random.normal(scale=scale, size=value.shape))
    model = tiny.of_vectors()
    model.compile()
    soup = greedy_soup(model, [far, good, near], TEXTS, LABELS, metric="loss", mode="min")
    assert soup.used[0] in (1, 2) and 0 not in soup.used
    assert soup.score == pytest.approx(model.evaluate(TEXTS, LABELS, verbose=0, return_dict=True)["loss"], rel=1e-4)
    assert soup.score <= min(soup.scores) + 1e-7
    both = greedy_soup(model, [good, near], TEXTS, LABELS)  # Both are right as often, so both remain.
    assert both.used == [0, 1] and both.score == both.scores[0]
    expected = [(a.astype("float64") + b) / 2 for a, b in zip(values(good), values(near))]
    assert tiny.difference(values(model), expected) < 1e-6


def of_seeds():
    """Three classifiers with random weights, of which the second has diverged."""
    found = [tiny.of_vectors() for _ in range(3)]
    for seed, model in enumerate(found):
        random = np.random.default_rng(seed)
        for weight in model.weights:
            weight.assign(random.normal(size=weight.shape) * (np.nan if seed == 1 else 1))
        model.compile()
    return found


def test_a_greedy_soup_may_be_made_in_one_of_its_models_and_leaves_out_a_diverged_one():
    apart = tiny.of_vectors()
    apart.compile()
    expected = greedy_soup(apart, of_seeds(), TEXTS, LABELS, metric="loss", mode="min")
    assert np.isnan(expected.scores[1]) and expected.used[0] in (0, 2) and 1 not in expected.used
    for place in (0, 2):
        sources = of_seeds()
        found = greedy_soup(sources[place], sources, TEXTS, LABELS, metric="loss", mode="min")
        assert found.used == expected.used and found.score == expected.score
        assert tiny.difference(values(sources[place]), values(apart)) == 0


def quantized(count, bias):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)])
    layer = model.layers[0]
    layer.quantize("int8")
    layer.kernel.assign(np.full(layer.kernel.shape, count))
    layer.bias.assign(np.full(layer.bias.shape, bias))
    return model


@pytest.mark.parametrize("in_file", [False, True])
def test_quantized_models_are_merged_only_if_they_have_the_same_matrices(tmp_path, in_file):
    def merged(source):
        source.save_weights(tmp_path / "one.weights.h5")
        return merge_models(model, [tmp_path / "one.weights.h5" if in_file else source])

    model = quantized(3, 1.0)
    merged(quantized(3, 2.0))
    assert "Merge the models before you quantize" in tiny.message(lambda: merged(quantized(5, 4.0)))
    assert (keras.ops.convert_to_numpy(model.layers[0].bias) == 2).all()
    assert (keras.ops.convert_to_numpy(model.layers[0]._kernel) == 3).all()


def adapted(kind, count=2):
    model = models.classifier()
    for i in range(count):
        add_adapters(model, kind, name=f"number_{i}")
        random = np.random.default_rng(i)
        for weight in model.trainable_weights:
            weight.assign(keras.ops.convert_to_numpy(weight) + random.normal(scale=0.3, size=weight.shape))
    return model


def change(model, name):
    """The changes of the kernels by LoRA, a dict from places."""
    found, kind = {}, model.encoder.adapters[name][0]
    own = {place: keras.ops.convert_to_numpy(weight) for place, weight in adapter_weights(model.encoder, name).items()}
    for place in [place for place in own if place.endswith("_a")]:
        found[place] = kind.scale * own[place] @ own[place[:-1] + "b"]
    return found


@pytest.mark.core
@pytest.mark.parametrize("kind", ["lora:r=2", "rslora:r=2"])
def test_lora_is_combined_to_the_exact_mean_of_its_changes(kind):
    model = adapted(kind)
    combine_adapters(model, ["number_0", "number_1"], weights=[0.7, 0.3])
    assert model.encoder.active_adapters == ("combined",) and model.encoder.adapters["combined"][0].rank == 4
    first, second, both = (change(model, name) for name in ("number_0", "number_1", "combined"))
    assert both.keys() == first.keys() and len(both) == 4
    for place, found in both.items():
        np.testing.assert_allclose(found, 0.7 * first[place] + 0.3 * second[place], atol=1e-5)


@pytest.mark.parametrize("kind", ["pfeiffer:4", "ia3", "dora:r=2"])
def test_other_kinds_have_the_mean_of_the_weights_and_heads(kind):
    model = adapted(kind)
    heads = []
    for name in ("number_0", "number_1"):
        set_active_adapter(model, name)
        heads.append(model.get_layer("logits").get_weights())
    combine_adapters(model, ["number_0", "number_1"], name="mean")
    own = [adapter_weights(model.encoder, name) for name in ("mean", "number_0", "number_1")]
    for place, weight in own[0].items():
        expected = (keras.ops.convert_to_numpy(own[1][place]) + keras.ops.convert_to_numpy(own[2][place])) / 2
        np.testing.assert_allclose(keras.ops.convert_to_numpy(weight), expected, atol=1e-6)
    for found, *values in zip(model.get_layer("logits").get_weights(), *heads):
        np.testing.assert_allclose(found, np.mean(values, axis=0), atol=1e-6)
    np.testing.assert_array_equal(models.outputs(save_and_load(model)), models.outputs(model))


def test_ties_of_one_kept_whole_is_the_adapter_itself_whatever_it_starts_from():
    for kind in ("ia3", "lora:r=2"):
        model = adapted(kind, count=1)
        before = models.outputs(model)
        combine_adapters(model, ["number_0"], method="ties", density=1)
        np.testing.assert_allclose(models.outputs(model), before, atol=1e-6)


def test_a_model_is_unchanged_if_a_soup_fails():
    model = moved(0)
    model.compile()
    before = values(model)
    assert "one of the results of `evaluate`, ['accuracy', 'loss']" in tiny.message(
        lambda: greedy_soup(model, [moved(1)], TEXTS, LABELS, metric="f1")
    )
    assert tiny.difference(values(model), before) == 0


def compiled():
    model = tiny.classifier()
    model.compile()
    return model


def mixed():
    model = adapted("lora:r=2", count=1)
    return add_adapters(model, "lora:r=3", name="wider")


test_what_cannot_be_merged_is_one_clear_error = check_errors(
    (lambda: merge_models(compiled(), []), "`models` must be a list of at least 1"),
    (lambda: merge_models(compiled(), [3]), "a model or the path of a file. Received: models=[3]"),
    (lambda: merge_models(compiled(), [tiny.classifier(num_classes=3)]), "Received: facts="),
    (lambda: merge_models(compiled(), [tiny.two_blocks()]), "the architecture, the adapters and the classes"),
    (lambda: merge_models(compiled(), [keras.Sequential()]), "Received: class=Sequential instead of TextClassifier"),
    (lambda: merge_models(compiled(), [tiny.classifier()], weights=[2.0]), "the sum 1 ... Received: weights=[2.0]"),
    (lambda: merge_models(compiled(), [tiny.classifier()], method="slerp"), "Received: method='slerp'"),
    (lambda: merge_models(compiled(), [tiny.classifier()], density=0), "above 0 and at most 1. Received: density=0"),
    (lambda: greedy_soup(tiny.classifier(), [tiny.classifier()], TEXTS, LABELS), "Call `compile` before `evaluate`"),
    (lambda: combine_adapters(mixed(), ["number_0", "wider"]), "Only adapters of the same kinds and sizes"),
    (lambda: combine_adapters(mixed(), ["number_0", "other"]), "Unknown adapters"),
    (lambda: combine_adapters(mixed(), ["number_0"], name="wider"), "already has adapters with this name"),
    (lambda: combine_adapters(mixed(), ["number_0"], weights=[0.5, 0.5]), "`weights` must be 1 numbers"),
)
