"""Selections of layer groups, and which weights are norms and biases."""

import keras
import pytest

from keras_transfer.adaptation import layer_groups, select_groups
from keras_transfer.training.groups import is_norm, is_norm_or_bias
from tests.errors import check_errors
from tests.tasks import tiny


@pytest.fixture(scope="module")
def all_groups():
    return layer_groups(tiny.two_blocks())


def dense(*names):
    layers = [keras.layers.Dense(2, name=name) for name in names]
    return layer_groups(keras.Sequential([keras.Input((2,)), *layers]))


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ("block_1", ["block_1"]),
        (0, ["embeddings"]),
        (4, ["head"]),
        (-2, ["pooler"]),
        (-5, ["embeddings"]),
        ("block_[01]", ["block_0", "block_1"]),
        (".*oo.*", ["pooler"]),
        ("new", ["head"]),
        ("pretrained", ["embeddings", "block_0", "block_1", "pooler"]),
        ("all", ["embeddings", "block_0", "block_1", "pooler", "head"]),
        (["new", 0, "block_1", -1], ["embeddings", "block_1", "head"]),
        (("pooler", "block_."), ["block_0", "block_1", "pooler"]),
        ({"block_1"}, ["block_1"]),
    ],
)
def test_a_selection_by_name_depth_expression_or_origin_is_in_order(all_groups, selection, expected):
    assert [group.name for group in select_groups(all_groups, selection)] == expected


def test_the_name_of_a_group_overrides_other_meanings_of_the_word():
    groups = dense("new", "a.b", "axb", "top")
    assert [group.name for group in select_groups(groups, "new")] == ["new"]
    assert [group.name for group in select_groups(groups, "a.b")] == ["a.b"]
    assert [group.name for group in select_groups(groups, "ax?.?b")] == ["a.b", "axb"]


test_a_selection_that_matches_no_group_is_an_error_that_suggests_the_closest_name = check_errors(
    {
        **{
            repr(wrong): ((wrong,), "No layer group matches", "The groups are ['embeddings', ", "'head']", "Received: ")
            for wrong in ("block", "lock_0", "", "Head", 5, -6, True, 1.0, None, [], (), [["head"]], "block_[", b"head")
        },
        "one of two": (["head", "embedings"], "Did you mean 'embeddings'? Received: 'embedings'"),
        "nothing close": ("zzz", "'head']. Received: 'zzz'"),
    },
    call=lambda selection, all_groups: select_groups(all_groups, selection),
)


def test_new_is_an_error_if_all_groups_are_pretrained():
    with pytest.raises(ValueError, match="Received: 'new'"):
        select_groups(dense("alone"), "new")


def test_norms_are_the_scales_shifts_and_statistics_of_normalization_layers():
    model = tiny.two_blocks()
    layers = [layer for layer in model._flatten_layers() if isinstance(layer, keras.layers.LayerNormalization)]
    norms = [weight.path for layer in layers for weight in layer.weights]
    assert len(norms) == 2 * (1 + 2 * 2)
    assert {weight.path for weight in model.weights if is_norm(weight)} == set(norms)
    inputs = keras.Input((3,))
    batch = keras.Model(inputs, keras.layers.BatchNormalization(name="other")(inputs))
    assert [is_norm(w) for w in batch.weights if w.trainable] == [True, True]


def test_norms_and_biases_are_all_but_tables_and_kernels():
    model = tiny.two_blocks()
    rest = {weight.path.split("/")[-1] for weight in model.weights if not is_norm_or_bias(weight)}
    assert rest == {"embeddings", "kernel"}
    kept = {weight.path.split("/")[-1] for weight in model.weights if is_norm_or_bias(weight)}
    assert kept == {"bias", "gamma", "beta"}


def test_a_group_prints_in_one_line():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2, name="low")])
    assert repr(layer_groups(model)[0]) == "LayerGroup('low', other, 2 weights, 10 parameters)"
