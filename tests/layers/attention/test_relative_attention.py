"""`RelativeAttention`: its scores, from their definition, and its config."""

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy
from keras.ops import convert_to_tensor

from keras_transfer.layers import (
    FeedForward,
    MultiHeadAttention,
    RelativeAttention,
    RelativePositionBias,
    RelativePositions,
    TransformerBlock,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 4, 6)).astype("float32")
SEGMENTS = np.array([[0, 0, 1, 1], [0, 1, 0, 2]])


def test_scores_are_the_sum_of_those_of_content_distance_and_segment():
    layer = RelativeAttention(num_heads=2, kernel_initializer="normal")
    positions = RelativePositions()(X, segment_ids=SEGMENTS)
    layer(X, **positions)
    query, key = RNG.normal(size=(2, 2, 2, 4, 3)).astype("float32")
    scores = to_numpy(layer.scores(*map(convert_to_tensor, (query, key)), **positions))
    encodings = to_numpy(positions["relative_positions"][0]) @ to_numpy(layer.position.kernel)
    encodings = encodings.reshape(8, 2, 3)
    biases = [to_numpy(bias) for bias in (layer.content_bias, layer.position_bias, layer.segment_bias)]
    segments = to_numpy(layer.segment_embedding)
    for b, h, i, j in np.ndindex(2, 2, 4, 4):
        others = (key[b, h, j], encodings[4 - (i - j), h], segments[int(SEGMENTS[b, i] != SEGMENTS[b, j]), h])
        expected = sum((query[b, h, i] + bias[h]) @ other for bias, other in zip(biases, others))
        np.testing.assert_allclose(scores[b, h, i, j], expected * 3**-0.5, atol=1e-5)


def test_the_layer_is_rebuilt_from_its_config():
    layer = RelativeAttention(2, dropout=0.2, kernel_initializer="zeros", name="attention")
    again = RelativeAttention.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    assert (again.dropout.rate, again.use_bias) == (0.2, False)


@pytest.mark.core
def test_a_file_keeps_what_the_layer_shares_with_other_attention(tmp_path):
    x = keras.Input((4, 6))
    segment_ids = keras.Input((4,), dtype="int32")
    shared = {"causal": True, "window": 2, "scale": 0.7, "head_dim": 5, "num_key_value_heads": 1}
    layer = RelativeAttention(2, **shared, name="attention")
    model = keras.Model([x, segment_ids], layer(x, **RelativePositions()(x, segment_ids=segment_ids)))
    expected = model.predict_on_batch([X, SEGMENTS])
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    config = again.get_layer("attention").get_config()
    assert {name: config[name] for name in shared} == shared
    np.testing.assert_array_equal(again.predict_on_batch([X, SEGMENTS]), expected)
    later = np.concatenate([X[:, :3], X[:, 3:] + 1], axis=1)
    np.testing.assert_array_equal(again.predict_on_batch([later, SEGMENTS])[:, :3], expected[:, :3])


def test_the_scale_is_a_factor_of_all_scores():
    layers = [RelativeAttention(2, scale=scale, kernel_initializer="ones") for scale in (None, 2.0)]
    positions = RelativePositions()(X, segment_ids=SEGMENTS)
    for layer in layers:
        layer.build(X.shape)
    query, key = map(convert_to_tensor, RNG.normal(size=(2, 2, 2, 4, 3)).astype("float32"))
    default, scaled = (to_numpy(layer.scores(query, key, **positions)) for layer in layers)
    np.testing.assert_allclose(scaled, default * 2 * 3**0.5, rtol=1e-5)


@pytest.mark.core
def test_without_segments_the_scores_are_those_of_content_and_distance(tmp_path):
    x = keras.Input((None, 6))
    layer = RelativeAttention(2, segments=False, causal=True, kernel_initializer="normal", name="attention")
    model = keras.Model(x, layer(x, **RelativePositions()(x)))
    assert [weight.name for weight in layer.weights if "segment" in weight.name] == []
    with_segments = RelativeAttention(2, causal=True, kernel_initializer="normal")
    with_segments.build(X.shape)
    values = {weight.path.partition("/")[2]: weight for weight in layer.weights}
    for weight in with_segments.weights:
        name = weight.path.partition("/")[2]
        weight.assign(values[name] if name in values else np.zeros(weight.shape))
    expected = to_numpy(with_segments(X, **RelativePositions()(X, segment_ids=SEGMENTS)))
    np.testing.assert_allclose(model.predict_on_batch(X), expected, atol=1e-6)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.get_layer("attention").segments is False
    np.testing.assert_array_equal(again.predict_on_batch(X), model.predict_on_batch(X))


def test_positions_have_segments_if_and_only_if_the_attention_has():
    rule = "must receive `segment_ids` if the attention has `segments=True`, and only then. Received: segments="
    with pytest.raises(ValueError, match=f"{rule}True"):
        RelativeAttention(2)(X, **RelativePositions()(X))
    with pytest.raises(ValueError, match=f"{rule}False"):
        RelativeAttention(2, segments=False)(X, **RelativePositions()(X, segment_ids=SEGMENTS))


def run(blocks, positions, x, memory=(), segment_ids=None, **masks):
    """Returns the inputs of each block and the outputs of the last one, given those of the segment before."""
    states = [x]
    for block, before in zip(blocks, memory or [None] * len(blocks)):
        own = {} if before is None else {"memory": before}
        of_segments = {} if segment_ids is None else {"segment_ids": segment_ids}
        states.append(block(states[-1], **positions(states[-1], **of_segments, **own), **own, **masks))
    return states


@pytest.mark.core
@pytest.mark.parametrize(
    ("kind", "norm"),
    [
        ("distances", "post"),
        ("no segments", "post"),
        ("buckets", "post"),
        ("causal buckets", "post"),
        ("distances", "pre"),
        ("buckets", "input"),
    ],
)
def test_a_segment_that_sees_the_one_before_it_as_memory_is_computed_as_in_the_whole_text(kind, norm):
    x, real = RNG.normal(size=(2, 7, 6)).astype("float32"), np.array([[0, 1, 1, 1, 1, 1, 1], [1] * 7])
    of_keys, of_pairs = {}, {"attention_mask": np.tril(np.ones((7, 7), int)) * real[:, None]}
    if kind == "distances":
        attention, positions = lambda: RelativeAttention(2, kernel_initializer="normal"), RelativePositions()
        of_keys = {"segment_ids": RNG.integers(0, 2, (2, 7))}
    elif kind == "no segments":
        attention = lambda: RelativeAttention(2, segments=False, kernel_initializer="normal")  # noqa: E731
        positions = RelativePositions()
    else:
        positions = RelativePositionBias(2, num_buckets=4, max_distance=4, initializer="normal")
        attention = lambda: MultiHeadAttention(2, causal=kind == "causal buckets")  # noqa: E731
    if kind == "causal buckets":
        of_keys, of_pairs = {"padding_mask": real}, {}
    blocks = [TransformerBlock(attention(), FeedForward(8, activation="relu"), norm=norm) for _ in range(2)]

    whole = run(blocks, positions, x, **of_keys, **of_pairs)[-1]
    seen = {name: values[:, :3] for name, values in of_keys.items()}
    first = run(blocks, positions, x[:, :3], **seen, **{name: values[:, :3, :3] for name, values in of_pairs.items()})
    seen = of_keys | {name: values[:, 3:] for name, values in of_pairs.items()}
    second = run(blocks, positions, x[:, 3:], first[:-1], **seen)[-1]
    np.testing.assert_allclose(to_numpy(second), to_numpy(whole)[:, 3:], atol=1e-5)
    other = run(blocks, positions, x[:, 3:], [to_numpy(state)[..., ::-1] for state in first[:-1]], **seen)[-1]
    assert np.abs(to_numpy(other) - to_numpy(second)).max() > 1e-2


def test_a_model_accepts_a_memory_of_any_length():
    x, memory = keras.Input((None, 6)), keras.Input((None, 6))
    layer, positions = RelativeAttention(2), RelativePositions()
    segment_ids = keras.Input((None,), dtype="int32")
    found = positions(x, segment_ids=segment_ids, memory=memory)
    model = keras.Model([x, memory, segment_ids], layer(x, memory=memory, **found))
    for before in (0, 3):
        given = X, RNG.normal(size=(2, before, 6)).astype("float32"), np.zeros((2, before + 4), "int32")
        found = positions(X, segment_ids=given[2], memory=given[1])
        expected = layer(X, memory=given[1], **found)
        np.testing.assert_allclose(model.predict_on_batch([*given]), to_numpy(expected), atol=1e-5)
    without = layer(X, **positions(X, segment_ids=np.zeros((2, 4), "int32")))
    given = X, np.zeros((2, 0, 6), "float32"), np.zeros((2, 4), "int32")
    np.testing.assert_allclose(model.predict_on_batch([*given]), to_numpy(without), atol=1e-5)
