"""Freezing and unfreezing layer groups before training: what trains, what is printed, what a file keeps, mistakes."""

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import freeze, freeze_to, layer_groups, trainable_summary, unfreeze
from keras_transfer.training.groups import is_norm
from tests.helpers import save_and_load
from tests.tasks import tiny
from tests.training.runs.staging_models import changed, values

GROUPS = ["embeddings", "block_0", "block_1", "pooler", "head"]


def trains(model):
    """The names of the groups that train, all of whose weights must be trainable."""
    groups = layer_groups(model)
    assert all(group.trainable_parameters in (0, group.parameters) for group in groups)
    return [group.name for group in groups if group.trainable_parameters]


def frozen_paths(model):
    return [weight.path for weight in model.weights if not weight.trainable]


def dense():
    layers = [keras.layers.Dense(2, name=name) for name in ("low", "mid", "top")]
    return keras.Sequential([keras.Input((2,)), *layers])


NAMED = [
    ("block_0", ["block_0"]),
    (["new", 0], ["embeddings", "head"]),
    (None, GROUPS),
]


@pytest.mark.parametrize(("groups", "expected"), NAMED)
def test_freeze_and_unfreeze_take_every_kind_of_selection(groups, expected):
    model = tiny.two_blocks()
    assert freeze(model, groups) is model
    assert trains(model) == [name for name in GROUPS if name not in expected]
    assert len(model.trainable_weights) == sum(weight.trainable for weight in model.weights)
    assert trains(freeze(model)) == []
    assert unfreeze(model, groups) is model
    assert trains(model) == expected


@pytest.mark.parametrize("group", ["block_1", -3])
def test_below_and_freeze_to_freeze_all_lower_groups(group):
    assert trains(freeze(tiny.two_blocks(), below=group)) == GROUPS[2:]
    model = tiny.two_blocks()
    assert freeze_to(model, group) is model
    assert trains(model) == GROUPS[2:]


def test_freeze_to_unfreezes_higher_groups_but_below_does_not():
    assert trains(freeze(freeze(tiny.two_blocks(), "head"), below="block_1")) == ["block_1", "pooler"]
    assert trains(freeze_to(freeze(tiny.two_blocks(), "head"), "block_1")) == ["block_1", "pooler", "head"]
    assert trains(freeze_to(freeze(tiny.two_blocks()), 0)) == GROUPS


@pytest.mark.report("Layers that were unfrozen after `compile` stay frozen.", "keras#22787")
def test_calls_of_freeze_and_unfreeze_add_up():
    model = freeze(freeze(tiny.two_blocks(), "block_0"), "pooler")
    assert trains(model) == ["embeddings", "block_1", "head"]
    assert trains(unfreeze(model, "block_0")) == ["embeddings", "block_0", "block_1", "head"]


def test_the_flag_of_a_task_or_an_encoder_reaches_its_layers_as_on_other_backends():
    model = tiny.two_blocks()
    for whole in (model, model.encoder):
        freeze(model, below="block_1")
        assert whole.trainable and frozen_paths(whole)
        whole.trainable = True
        assert not frozen_paths(whole)


def test_norms_can_remain_unchanged():
    norms = [weight.path for weight in tiny.two_blocks().weights if is_norm(weight)]
    model = freeze(tiny.two_blocks(), norms=False)
    assert [weight.path for weight in model.trainable_weights] == norms
    assert [weight.path for weight in freeze_to(freeze(model), -1, norms=False).trainable_weights] == [
        "logits/kernel",
        "logits/bias",
    ]
    model = freeze_to(tiny.two_blocks(), -1, norms=False)
    assert [weight.path for weight in model.trainable_weights] == [*norms, "logits/kernel", "logits/bias"]
    model = unfreeze(freeze(tiny.two_blocks()), norms=False)
    assert frozen_paths(model) == norms


def test_paths_select_single_weights_within_the_groups():
    model = freeze(tiny.two_blocks(), "block_1", paths="attention/.*kernel$")
    assert frozen_paths(model) == ["block_1/attention/query_key_value/kernel", "block_1/attention/output/kernel"]
    bitfit = unfreeze(freeze(tiny.two_blocks(), "pretrained"), paths="bias$")
    biases = [weight.path for weight in bitfit.weights if weight.path.endswith("bias")]
    assert len(biases) == 2 * 4 + 2
    assert [w.path for w in bitfit.trainable_weights] == [*biases[:-1], "logits/kernel", "logits/bias"]


def test_statistics_never_train():
    inputs = keras.Input((3,))
    x = keras.layers.BatchNormalization(name="norm")(keras.layers.Dense(3, name="low")(inputs))
    model = keras.Model(inputs, keras.layers.Dense(2, name="head")(x))
    for change in (lambda: unfreeze(freeze(model)), lambda: unfreeze(model, "norm"), lambda: freeze_to(model, "norm")):
        change()
        assert frozen_paths(model)[-2:] == ["norm/moving_mean", "norm/moving_variance"]
        assert model.get_layer("norm").trainable


def test_a_single_layer_can_be_frozen():
    layer = keras.layers.Dense(2)
    layer.build((None, 3))
    assert freeze(layer).trainable_weights == []
    assert len(unfreeze(layer).trainable_weights) == 2


# The summary


def test_the_summary_prints_the_groups_and_the_trainable_fraction(capsys):
    assert trainable_summary(freeze(dense(), "low")) is None  # A notebook would print a result once more.
    printed = capsys.readouterr().out.splitlines()
    assert printed == [
        "depth  group  kind   pretrained  parameters  trainable",
        "------------------------------------------------------",
        "    0  low    other  yes                  6          0",
        "    1  mid    other  yes                  6          6",
        "    2  top    head   no                   6          6",
        "------------------------------------------------------",
        "       total                             18         12",
        "12 of 18 parameters are trainable (66.67%)",
    ]


def test_the_summary_takes_custom_groups(capsys):
    trainable_summary(freeze(dense(), paths="bias"), [("biases", "bias$")])
    printed = capsys.readouterr().out
    assert printed.splitlines()[2].split()[1::4] == ["biases", "0"]
    assert printed.endswith("12 of 18 parameters are trainable (66.67%)\n")


def test_a_tiny_trainable_fraction_is_not_printed_as_zero(capsys):
    model = keras.Sequential([keras.Input((300,)), keras.layers.Dense(300, name="low"), keras.layers.Dense(1)])
    trainable_summary(freeze(freeze(model, "low"), paths="kernel"))
    assert capsys.readouterr().out.endswith("1 of 90,601 parameters are trainable (less than 0.01%)\n")
    trainable_summary(freeze(model))
    assert capsys.readouterr().out.endswith("0 of 90,601 parameters are trainable (0.00%)\n")


# Files


@pytest.mark.parametrize(
    "change",
    [
        lambda model: freeze(model, "block_.", norms=False),
        lambda model: unfreeze(freeze(model), paths="bias$"),
        lambda model: freeze(model),
    ],
)
def test_a_file_keeps_what_is_frozen_in_a_task(change):
    model = change(tiny.two_blocks())
    loaded = save_and_load(model)
    assert frozen_paths(loaded) == frozen_paths(model) != []
    for ours, theirs in zip(model.layers, loaded.layers, strict=True):
        assert not ours.weights or ours.trainable == theirs.trainable, ours.name


def test_frozen_weights_of_a_loaded_task_stay_bit_identical():
    model = freeze(tiny.two_blocks(), below="block_1")
    model.compile(keras.optimizers.Adam(0.01), run_eagerly=True)
    texts, labels = tiny.examples(8)
    inputs = {name: np.array(value) for name, value in tiny.preprocessor()(texts).items()}
    model.fit(inputs, np.array(labels), batch_size=4, verbose=0)
    loaded = save_and_load(model)
    before, could = values(loaded), {weight.path for weight in loaded.trainable_weights}
    assert before.keys() == values(model).keys() and not changed(before, values(model))
    loaded.fit(inputs, np.array(labels), batch_size=4, verbose=0)
    assert changed(before, values(loaded)) == could
    assert trains(loaded) == GROUPS[2:]
    assert int(loaded.optimizer.iterations) == 4


def test_a_file_keeps_frozen_layers_of_any_model():
    model = freeze(dense(), below="top")
    for same in (model, save_and_load(model)):
        assert [weight.trainable for weight in same.weights] == [False] * 4 + [True] * 2


# Mistakes


@pytest.fixture(scope="module")
def with_frozen_block():
    return freeze(tiny.two_blocks(), "block_0")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: freeze(model, "blok_0"), r"Did you mean 'block_0'\? Received: 'blok_0'"),
        (lambda model: freeze(model, below="hed"), r"Did you mean 'head'\? Received: 'hed'"),
        (lambda model: freeze_to(model, "block_."), r"Received: 'block_.', which matches \['block_0', 'block_1'\]"),
        (
            lambda model: freeze(model, below="pretrained"),
            "Expected a single layer group. Received: 'pretrained'",
        ),
        (lambda model: freeze(model, "head", below="head"), "Received: groups='head', below='head'"),
        (lambda model: freeze(model, below=0), "No layer group is below 'embeddings'.* Received: below=0"),
        (lambda model: freeze(model, paths="kernels"), r"`paths` must be .*The paths are .* Received: paths='kernels'"),
        (
            lambda model: freeze(model, "head", paths="pooler"),
            r"\['logits/kernel', 'logits/bias'\]. Received: paths='pooler'",
        ),
        (
            lambda model: unfreeze(model, paths="("),
            r"`paths` must be .* Received: paths='\(', which is not a regular expression: missing \)",
        ),
        (lambda model: freeze(model, "block_.", paths="norm", norms=False), "Received: paths='norm'"),
    ],
)
def test_a_mistake_is_an_error_and_changes_nothing(call, message, with_frozen_block):
    with pytest.raises(ValueError, match=message):
        call(with_frozen_block)
    assert trains(with_frozen_block) == ["embeddings", "block_1", "pooler", "head"]


@pytest.mark.parametrize("function", [freeze, trainable_summary])
def test_a_model_without_weights_and_other_objects_are_errors(function):
    with pytest.raises(ValueError, match="must have weights.*Received: model=<Sequential"):
        function(keras.Sequential([keras.layers.Dense(2)]))
    with pytest.raises(ValueError, match=r"must be a Keras model or layer. Received: model=\[<Dense"):
        function([keras.layers.Dense(2)])
