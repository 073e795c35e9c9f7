"""The plans of the methods, as quoted from their papers, their configs, and one clear error for each mistake."""

import functools

import keras
import pytest

from keras_transfer.adaptation import freeze
from keras_transfer.callbacks import ChainThaw, GradualUnfreezing, SequentialUnfreezing, Stage, StagedTraining
from keras_transfer.training.stages import Stages
from tests.errors import check_errors
from tests.tasks import tiny
from tests.training.runs.staging_models import NAMES, Watch, X, Y, changed, fit, make, trained_in, values

# The layer groups of our tiny classifier.
EMBEDDINGS, BLOCKS, POOLER, HEAD = "embeddings", ["block_0", "block_1"], "pooler", "head"
BODY = [*BLOCKS, POOLER, HEAD]
ALL = [EMBEDDINGS, *BODY]


@functools.cache
def classifier():
    """A classifier that the tests do not train."""
    model = tiny.two_blocks()
    model.compile("sgd")
    return model


def plan(callback, model=None, epochs=10, steps=10):
    """The callback's schedule in a run of this length, without training."""
    callback.set_model(classifier() if model is None else model)
    callback.set_params({"epochs": epochs, "steps": steps})
    callback.on_train_begin()
    callback.on_train_end()
    return callback.schedule


# Plans, with quotes from the papers


@pytest.mark.report("Unfreezing fails without validation data.", "fastai#2426")
def test_gradual_unfreezing_thaws_the_last_group_first_and_one_more_each_epoch():
    # "We first unfreeze the last layer and fine-tune all unfrozen layers for one epoch. We then unfreeze the next lower
    # frozen layer and repeat, until we finetune all layers until convergence."
    assert plan(GradualUnfreezing(epochs=1)) == [
        (0, ["head"]),
        (10, ["pooler", "head"]),
        (20, ["block_1", "pooler", "head"]),
        (30, BODY),
        (40, ALL),
    ]


def test_gradual_unfreezing_by_steps_by_fraction_and_below_a_group():
    assert [start for start, _ in plan(GradualUnfreezing(steps=7))] == [0, 7, 14, 21, 28]
    assert [start for start, _ in plan(GradualUnfreezing())] == [0, 12, 25, 38, 50]  # 12.5, 37.5: to even
    assert plan(GradualUnfreezing(epochs=2, below="block_1")) == [
        (0, ["head"]),
        (20, ["pooler", "head"]),
        (40, ["block_1", "pooler", "head"]),
    ]
    assert plan(GradualUnfreezing(below=-1)) == [(0, ["head"])]


def test_chain_thaw_trains_new_layers_then_each_group_from_the_bottom_then_all():
    # "first fine-tunes any new layers (often only a Softmax layer) to the target task until convergence [...]. Then the
    # approach fine-tunes each layer individually starting from the first layer in the network. Lastly, the entire model
    # is trained with all layers."
    expected = [["head"], ["embeddings"], ["block_0"], ["block_1"], ["pooler"], ALL]
    assert plan(ChainThaw(epochs=1)) == [(10 * i, names) for i, names in enumerate(expected)]
    assert plan(ChainThaw(steps=3)) == [(3 * i, names) for i, names in enumerate(expected)]
    assert plan(ChainThaw()) == [(15 * i, names) for i, names in enumerate(expected)]
    assert plan(ChainThaw(fraction=0.5)) == [(10 * i, names) for i, names in enumerate(expected)]


def test_sequential_unfreezing_trains_new_layers_then_all_but_the_embeddings_then_all():
    # "We first fine-tune only the extra, randomly initialized LSTM and the output layers for n - 1 epochs. At the nth
    # epoch, we unfreeze the pre-trained hidden layers. We let the model fine-tune, until epoch k - 1. Finally, at epoch
    # k, we also unfreeze the embedding layer".
    assert plan(SequentialUnfreezing()) == [(0, ["head"]), (10, BODY), (20, ALL)]
    assert plan(SequentialUnfreezing(new_epochs=3, body_epochs=4)) == [(0, ["head"]), (30, BODY), (70, ALL)]


def test_the_new_part_of_a_model_without_an_encoder_is_its_last_layer():
    assert plan(ChainThaw(epochs=1), make()) == [
        *[(0, ["head"]), (10, ["low"]), (20, ["mid"]), (30, ["top"]), (40, NAMES)]
    ]
    assert plan(GradualUnfreezing(epochs=1), make())[1] == (10, ["top", "head"])


def test_the_new_part_of_an_encoder_without_a_head_is_its_last_group():
    encoder = tiny.encoder()
    encoder.compile("sgd")
    for callback in (ChainThaw(epochs=1), SequentialUnfreezing(), GradualUnfreezing(epochs=1)):
        assert plan(callback, encoder)[0] == (0, ["pooler"])


def test_stages_without_a_length_divide_the_rest_of_the_run_equally():
    stages = [Stage("head", epochs=1), Stage("top"), Stage("mid", fraction=0.5), Stage("all")]
    assert plan(StagedTraining(stages), make()) == [(0, ["head"]), (10, ["top"]), (30, ["mid"]), (80, NAMES)]
    stages = [Stage("head"), Stage("top"), Stage("all")]
    assert [start for start, _ in plan(StagedTraining(stages), make(), epochs=1)] == [0, 3, 7]
    assert [start for start, _ in plan(StagedTraining(stages), make(), epochs=6, steps=1)] == [0, 2, 4]


def test_the_last_stage_lasts_to_the_end_whatever_its_length():
    assert plan(StagedTraining([Stage("head", steps=99), Stage("all", steps=1000)]), make())[-1] == (99, NAMES)


def test_stages_are_counted_in_epochs_if_the_length_of_an_epoch_is_unknown():
    tf = pytest.importorskip("tensorflow")
    assert plan(GradualUnfreezing(epochs=2), make(), steps=None) == [(2 * i, NAMES[3 - i :]) for i in range(4)]
    batches = [(X[i : i + 4], Y[i : i + 4]) for i in (0, 4, 8)]
    types = (tf.TensorSpec([4, 3]), tf.TensorSpec([4, 2]))
    data = tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=types)
    model, watch = make(), Watch()
    callback = StagedTraining([Stage("head", epochs=1), Stage(["low", "head"], epochs=2), Stage("all")])
    model.fit(data, epochs=4, verbose=0, callbacks=[callback, watch])
    assert callback.schedule == [(0, ["head"]), (1, ["low", "head"]), (3, NAMES)]
    moved = [{path.split("/")[0] for path in paths} for paths in watch.steps]
    assert moved == [{"head"}] * 3 + [{"low", "head"}] * 6 + [set(NAMES)] * 3


# Configs


CALLBACKS = [
    StagedTraining([Stage("head", epochs=1), Stage(["mid", -1], steps=3), Stage({"low"}, fraction=0.25), Stage("all")]),
    GradualUnfreezing(),
    GradualUnfreezing(fraction=0.25, below=1),
    ChainThaw(),
    SequentialUnfreezing(),
    SequentialUnfreezing(new_epochs=2, body_epochs=3),
]


@pytest.mark.parametrize("callback", CALLBACKS, ids=lambda callback: type(callback).__name__)
def test_its_config_restores_a_callback(callback):
    again = type(callback).from_config(callback.get_config())
    assert again.get_config() == callback.get_config()
    restored = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(callback))
    assert type(restored) is type(callback) and restored.get_config() == callback.get_config()
    assert plan(restored, make()) == plan(callback, make()) != []


def test_a_config_holds_every_argument():
    assert GradualUnfreezing(steps=5, below="mid").get_config() == {
        "epochs": None,
        "steps": 5,
        "fraction": None,
        "below": "mid",
    }
    assert ChainThaw(epochs=2).get_config() == {"epochs": 2, "steps": None, "fraction": None}
    assert SequentialUnfreezing(new_epochs=2, body_epochs=3).get_config() == {"new_epochs": 2, "body_epochs": 3}
    stage = Stage(("mid", "top"), fraction=0.5)
    lengths = {"epochs": None, "steps": None, "fraction": 0.5}
    assert stage.get_config() == {"train": ["mid", "top"], **lengths, "learning_rate": None}
    assert Stage.from_config(stage.get_config()) == stage


# Mistakes in constructors


@pytest.mark.parametrize("kind", [GradualUnfreezing, ChainThaw])
@pytest.mark.parametrize(("name", "length"), [("epochs", 0), ("steps", 1.5), ("fraction", 1.01)])
def test_a_length_is_a_positive_integer_or_a_fraction_above_0_and_at_most_1(kind, name, length):
    expected = "number above 0 and at most 1" if name == "fraction" else "positive integer"
    with pytest.raises(ValueError, match=f"`{name}` must be a {expected}. Received: "):
        kind(**{name: length})


def test_by_default_gradual_unfreezing_takes_half_of_the_run_and_chain_thaw_three_quarters():
    for kind, fraction in ((GradualUnfreezing, 0.5), (ChainThaw, 0.75)):
        assert plan(kind(), make()) == plan(kind(fraction=fraction), make())


test_a_mistake_in_the_arguments_is_one_error = check_errors(
    (lambda: Stage("all", epochs=1, steps=2), "Pass only one of ", "`fraction`. Received: epochs=1, steps=2"),
    (lambda: GradualUnfreezing(steps=2, fraction=0.3), "Received: steps=2, fraction=0.3"),
    (lambda: ChainThaw(epochs=1, fraction=0.3), "Received: epochs=1, fraction=0.3"),
)


# Mistakes in `fit`


class FreezesInTheMiddle(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 1:
            self.model.get_layer("low").trainable = False


HEAD_THEN_ALL = [Stage("head", epochs=1), Stage("all")]
MISTAKES = {
    "no such group": (
        [StagedTraining([Stage("haed")])],
        r"Did you mean 'head'\? Received: 'haed'",
    ),
    "typo in a later stage": ([StagedTraining([Stage("head"), Stage("lo")])], r"Did you mean 'low'\? Received: 'lo'"),
    "ambiguous below": (
        [GradualUnfreezing(below="(low|mid)")],
        r"Received: '\(low\|mid\)', which matches \['low', 'mid'\]",
    ),
    "more stages than epochs": ([GradualUnfreezing(epochs=2)], r"Received: 16 steps, .* begin at \[0, 8, 16, 24\]"),
    "no steps left for the last stage": (
        [ChainThaw(fraction=1.0)],
        r"Received: 16 steps, .* begin at \[0, 4, 8, 12, 16\]",
    ),
    "two callbacks": (
        [ChainThaw(), SequentialUnfreezing()],
        r"in one `StagedTraining`. Received: callbacks=\['ChainThaw', 'SequentialUnfreezing'\]",
    ),
    "change by another callback": (
        [StagedTraining(HEAD_THEN_ALL), FreezesInTheMiddle()],
        "`trainable` was changed during .* StagedTraining manages it",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_fit_is_one_error_and_leaves_the_model_as_it_was(name):
    callbacks, message = MISTAKES[name]
    model = make(run_eagerly=True)
    start = values(model)
    with pytest.raises(ValueError, match=message):
        fit(model, *callbacks)
    trained = name == "change by another callback"
    assert changed(start, values(model)) == ({"head/kernel", "head/bias"} if trained else set())
    assert_untouched(model, callbacks)


def assert_as_before(model, callbacks):
    assert_untouched(model, callbacks)
    assert trained_in(model, lambda: fit(model, epochs=1)) == set(NAMES)


def assert_untouched(model, callbacks):
    assert all(layer.trainable for layer in model.layers) and len(model.trainable_weights) == 8
    assert all(callback.stage is None for callback in callbacks if isinstance(callback, Stages))


@pytest.mark.parametrize(
    "callback",
    [StagedTraining([Stage("head", steps=2), Stage("all")]), ChainThaw(steps=1)],
    ids=["stage in steps", "steps"],
)
def test_steps_and_fractions_require_the_length_of_an_epoch(callback):
    model = make(run_eagerly=True)
    start = values(model)
    with pytest.raises(ValueError, match="Pass `steps_per_epoch` to .*Received: data of unknown length"):
        model.fit(((X[i : i + 4], Y[i : i + 4]) for i in (0, 4, 8)), verbose=0, callbacks=[callback])
    assert not changed(start, values(model))
    assert_as_before(model, [callback])


def test_a_stage_that_trains_nothing_is_an_error():
    model = freeze(make(run_eagerly=True), ["mid", "head"])
    start = values(model)
    with pytest.raises(ValueError, match=r"Stage 1 of 4 trains nothing.*Received: \['head'\], which are all frozen"):
        fit(model, GradualUnfreezing(epochs=1))
    with pytest.raises(ValueError, match=r"Stage 2 of 2 trains nothing.*\['mid', 'head'\], which are all frozen"):
        fit(model, StagedTraining([Stage("all", epochs=1), Stage(["mid", "head"])]))
    assert not changed(start, values(model))
    assert [layer.name for layer in model.layers if layer.weights and not layer.trainable] == ["mid", "head"]
    assert trained_in(model, lambda: fit(model, epochs=1)) == {"low", "top"}


def test_more_stages_than_epochs_of_unknown_length_are_an_error():
    model = make(run_eagerly=True)
    with pytest.raises(ValueError, match=r"Received: 1 epochs, and stages that begin at \[0, 1\]"):
        model.fit(((X[i : i + 4], Y[i : i + 4]) for i in (0, 4)), verbose=0, callbacks=[StagedTraining(HEAD_THEN_ALL)])
    assert_as_before(model, [])


def test_a_callback_can_be_used_again_with_another_model():
    callback = StagedTraining([Stage("head", steps=2), Stage(["low", "head"])])
    for _ in range(2):
        model = make(run_eagerly=True)
        assert trained_in(model, lambda: fit(model, callback, epochs=1)) == {"low", "head"}  # noqa: B023
        assert callback.stage is None and callback.schedule == [(0, ["head"]), (2, ["low", "head"])]
