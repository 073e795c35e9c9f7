"""`AdaptiveSoftmax`, `AdaptiveEmbedding` and `SampledSoftmax`, against NumPy, TensorFlow and torch."""

import itertools
import math

import keras
import numpy as np
import pytest
from keras import ops
from scipy import stats

from keras_transfer.layers import AdaptiveEmbedding, AdaptiveSoftmax, PositionEmbedding, SampledSoftmax
from keras_transfer.layers.heads.sampled_softmax import PIECES, log_uniform_tokens
from tests.errors import check_errors
from tests.helpers import run_layer_test, save_and_load

SIZE, DIM, CUTOFFS = 30, 16, [6, 15]
RANDOM = np.random.default_rng(0)
VECTORS = RANDOM.normal(size=(2, 12, DIM)).astype("float32")
TARGETS = RANDOM.permutation(24).reshape(2, 12)
TARGETS[0, :2] = 29, 15


def log_softmax(scores):
    return scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True))


def weights_of(layer):
    return {weight.name: ops.convert_to_numpy(weight).astype("float64") for weight in layer.weights}


def adaptive(**options):
    keras.utils.set_random_seed(0)
    layer = AdaptiveSoftmax(SIZE, CUTOFFS, kernel_initializer="random_normal", **options)
    layer.build(VECTORS.shape)
    if layer.use_bias:
        layer.bias.assign(np.linspace(-1, 1, layer.bias.shape[0]))
    return layer


def test_they_are_well_behaved_layers():
    arguments = {"input_dim": SIZE, "output_dim": DIM, "cutoffs": CUTOFFS}
    run_layer_test(AdaptiveEmbedding, arguments, TARGETS.astype("int32"), None, (2, 12, DIM))
    for layer in (adaptive(use_bias=True), sampled(seed=3)):
        inputs = keras.Input(VECTORS.shape[1:])
        model = keras.Model(inputs, layer(inputs))
        again = save_and_load(model)
        np.testing.assert_array_equal(again(VECTORS), model(VECTORS))
        assert again.layers[1].get_config() == layer.get_config()
        half = type(layer).from_config({**layer.get_config(), "dtype": "mixed_bfloat16"})
        assert half(VECTORS).dtype == half(VECTORS, TARGETS).dtype == "float32"


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="reads TensorFlow's graph")
@pytest.mark.parametrize(
    ("layer", "inputs"),
    [
        (lambda policy: AdaptiveEmbedding(SIZE, DIM, CUTOFFS, dtype=policy), [TARGETS]),
        (lambda policy: SampledSoftmax(SIZE, 4, dtype=policy), [VECTORS, TARGETS, TARGETS[0, 2:6]]),
        (lambda policy: PositionEmbedding(SIZE, dtype=policy), [VECTORS]),
    ],
)
def test_of_a_table_in_mixed_precision_only_the_rows_that_are_read_are_cast(layer, inputs):
    import tensorflow as tf

    layer = layer("mixed_bfloat16")
    layer(*inputs)
    graph = tf.function(lambda: layer(*inputs)).get_concrete_function().graph
    cast = [tuple(operation.inputs[0].shape) for operation in graph.get_operations() if operation.type == "Cast"]
    tables = {tuple(weight.shape) for weight in layer.weights if not weight.name.startswith("projection")}
    assert cast and not tables & set(cast)


@pytest.mark.core
@pytest.mark.parametrize("use_bias", [False, True])
def test_an_adaptive_softmax_multiplies_the_chances_of_a_cluster_and_of_a_token_in_it(use_bias):
    layer = adaptive(use_bias=use_bias, div_value=2.0)
    found, by_name = ops.convert_to_numpy(layer(VECTORS)), weights_of(layer)
    head = log_softmax(VECTORS @ by_name["head"] + by_name.get("bias", 0))
    parts = [head[..., :6]]
    for i, width in enumerate((8, 4)):
        assert by_name[f"projection_{i}"].shape == (DIM, width)
        tail = log_softmax(VECTORS @ by_name[f"projection_{i}"] @ by_name[f"tail_{i}"])
        parts.append(head[..., 6 + i : 7 + i] + tail)
    expected = np.concatenate(parts, axis=-1)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_allclose(np.exp(found).sum(axis=-1), 1, rtol=1e-5)
    of_targets = ops.convert_to_numpy(layer(VECTORS, TARGETS))
    np.testing.assert_allclose(of_targets, np.take_along_axis(expected, TARGETS[..., None], -1)[..., 0], atol=1e-5)


@pytest.mark.parity
def test_an_adaptive_softmax_is_that_of_torch():
    torch = pytest.importorskip("torch")
    layer = adaptive(use_bias=True)
    by_name = weights_of(layer)
    theirs = torch.nn.AdaptiveLogSoftmaxWithLoss(DIM, SIZE, CUTOFFS, head_bias=True)
    state = {"head.weight": by_name["head"].T, "head.bias": by_name["bias"]}
    for i in range(2):
        state |= {f"tail.{i}.0.weight": by_name[f"projection_{i}"].T, f"tail.{i}.1.weight": by_name[f"tail_{i}"].T}
    theirs.load_state_dict({name: torch.tensor(value, dtype=torch.float32) for name, value in state.items()})
    flat = torch.tensor(VECTORS.reshape(-1, DIM))
    with torch.no_grad():
        everything, [of_targets, _] = theirs.log_prob(flat), theirs(flat, torch.tensor(TARGETS.reshape(-1)))
    np.testing.assert_allclose(layer(VECTORS.reshape(-1, DIM)), everything, atol=1e-5)
    np.testing.assert_allclose(layer(VECTORS.reshape(-1, DIM), TARGETS.reshape(-1)), of_targets, atol=1e-5)


def test_adaptive_embeddings_are_projected_from_fewer_dimensions():
    layer = AdaptiveEmbedding(SIZE, DIM, CUTOFFS, div_value=2.0)
    found, by_name = ops.convert_to_numpy(layer(TARGETS)), weights_of(layer)
    tables = [by_name[f"embeddings_{i}"] @ by_name[f"projection_{i}"] for i in range(3)]
    assert [by_name[f"embeddings_{i}"].shape for i in range(3)] == [(6, 16), (9, 8), (15, 4)]
    np.testing.assert_allclose(found, np.concatenate(tables)[TARGETS], atol=1e-5)


def sampled(**options):
    keras.utils.set_random_seed(0)
    layer = SampledSoftmax(SIZE, 5, kernel_initializer="random_normal", **options)
    layer.build(VECTORS.shape)
    layer.bias.assign(np.linspace(-1, 1, SIZE))
    return layer


SAMPLED = np.array([0, 29, 3, 7, 11])


@pytest.mark.core
def test_a_sampled_softmax_compares_the_target_with_the_sample():
    layer = sampled()
    by_name = weights_of(layer)
    scores = VECTORS @ by_name["kernel"].T + by_name["bias"]
    expected = 5 * (np.log(np.arange(SIZE) + 2) - np.log(np.arange(SIZE) + 1)) / math.log(SIZE + 1)
    corrected = scores - np.log(expected)
    losses = np.zeros(TARGETS.shape)
    for place, target in np.ndenumerate(TARGETS):
        others = [corrected[place][token] for token in SAMPLED if token != target]
        losses[place] = np.log(np.exp([corrected[place][target], *others]).sum()) - corrected[place][target]
    found = [layer(VECTORS, TARGETS, SAMPLED), layer(VECTORS, TARGETS), layer(VECTORS)]
    found = [ops.convert_to_numpy(values) for values in found]
    np.testing.assert_allclose(found[0], losses, rtol=1e-4)
    whole = -np.take_along_axis(log_softmax(scores), TARGETS[..., None], -1)[..., 0]
    np.testing.assert_allclose(found[1], whole, rtol=1e-4)
    np.testing.assert_allclose(found[2], scores, atol=1e-4)


def test_a_sampled_softmax_is_that_of_tensorflow():
    import tensorflow as tf

    layer = sampled()
    flat, targets = VECTORS.reshape(-1, DIM), TARGETS.reshape(-1)
    chance = (np.log(np.arange(SIZE) + 2) - np.log(np.arange(SIZE) + 1)) / math.log(SIZE + 1)
    values = SAMPLED, np.float32(5 * chance)[targets][:, None], np.float32(5 * chance)[SAMPLED]
    theirs = tf.nn.sampled_softmax_loss(
        layer.kernel.value, layer.bias.value, targets[:, None], flat, 5, SIZE, sampled_values=values
    )
    np.testing.assert_allclose(layer(flat, targets, SAMPLED), theirs, rtol=1e-5)


@pytest.mark.core
def test_tokens_are_drawn_from_a_log_uniform_distribution_anew_for_each_batch():
    layer = SampledSoftmax(8, 8, seed=1)
    drawn = [ops.convert_to_numpy(layer.draw()) for _ in range(400)]
    assert any((first != second).any() for first, second in itertools.pairwise(drawn))
    counts = np.bincount(np.concatenate(drawn), minlength=8)
    chance = (np.log(np.arange(8) + 2) - np.log(np.arange(8) + 1)) / math.log(9)
    assert stats.chisquare(counts, counts.sum() * chance).pvalue > 1e-4


@pytest.mark.parametrize("size", [8, 2_000_000])
def test_each_token_is_drawn_from_as_much_of_the_unit_interval_as_its_chance(size):
    # From about 620,000 tokens on, a single float32 leads to no power in some of the last intervals.
    first = 0 if size == 8 else PIECES - 1
    pieces = np.repeat(np.arange(first, PIECES), 2**20 // (PIECES - first)).astype("int32")
    numbers = (np.arange(len(pieces)) % (2**20 // (PIECES - first)) / (2**20 // (PIECES - first))).astype("float32")
    found = ops.convert_to_numpy(log_uniform_tokens(size, pieces, numbers))
    begin = 0 if size == 8 else int(found.min()) + 1  # The first one of a piece is partly in the one before it.
    tokens = np.arange(begin, size)
    chance = np.log1p(1 / (tokens + 1)) / math.log(size + 1)
    counts = np.bincount(found[found >= begin] - begin, minlength=len(tokens))
    assert len(counts) == len(tokens)
    np.testing.assert_allclose(counts / len(found) * (PIECES - first) / PIECES, chance, rtol=0.02)


@pytest.mark.core
def test_a_token_that_does_not_exist_has_no_probability_no_loss_and_no_embedding():
    targets = np.array([-1, SIZE, 0, SIZE - 1])
    vectors, layer = VECTORS[0, :4], sampled()
    for found in (adaptive()(vectors, targets), layer(vectors, targets), layer(vectors, targets, SAMPLED)):
        np.testing.assert_array_equal(np.isnan(ops.convert_to_numpy(found)), [True, True, False, False])
    embedded = ops.convert_to_numpy(AdaptiveEmbedding(SIZE, DIM, CUTOFFS)(targets))
    np.testing.assert_array_equal(np.isnan(embedded), np.array([[True], [True], [False], [False]]).repeat(DIM, axis=1))


def test_sizes_may_be_numbers_of_numpy():
    found = SampledSoftmax(SIZE, np.int64(5)).num_sampled, *AdaptiveSoftmax(SIZE, list(np.array(CUTOFFS))).cutoffs
    assert found == (5, *CUTOFFS) and {type(number) for number in found} == {int}


@pytest.mark.core
@pytest.mark.parametrize("head", ["adaptive", "sampled"])
def test_a_model_learns_with_them(head):
    keras.utils.set_random_seed(0)
    inputs, targets = keras.Input((DIM,)), keras.Input((), dtype="int32")
    layer = AdaptiveSoftmax(SIZE, CUTOFFS) if head == "adaptive" else SampledSoftmax(SIZE, 8, seed=0)
    outputs = layer(inputs, targets)
    model = keras.Model([inputs, targets], outputs)
    sign = -1 if head == "adaptive" else 1
    model.compile(keras.optimizers.Adam(0.05), loss=lambda _, found: sign * found)
    x = [VECTORS.reshape(-1, DIM), TARGETS.reshape(-1)]
    losses = model.fit(x, np.zeros(24), epochs=15, batch_size=24, verbose=0).history["loss"]
    assert losses[-1] < 0.6 * losses[0]


test_a_mistake_is_one_clear_error = check_errors(
    (lambda: AdaptiveSoftmax(30, [15, 6]), "increasing integers between 0 and 30, the number of tokens. Received: "),
    (lambda: AdaptiveSoftmax(30, [6, 30]), "Received: cutoffs=[6, 30]"),
    (lambda: SampledSoftmax(30, 31), "an integer from 1 to 30, the number of tokens. Received: num_sampled=31"),
)
