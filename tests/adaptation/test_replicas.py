"""Adaptation on two replicas of a `MirroredStrategy` gives the same result as on one device."""

import contextlib

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import EWC, L2SP
from keras_transfer.callbacks import GradualUnfreezing, Stage, StagedTraining
from keras_transfer.optimizers import LayerwiseOptimizer
from keras_transfer.training.training_checkpoint import TrainingCheckpoint
from tests.strategies import two_replicas
from tests.training.optimizers.layerwise_models import RATE, X, Y, difference, least_moved, net, ones
from tests.training.resume import checkpoint_child
from tests.training.rows import tell
from tests.training.runs import staging_models

# === Stages ===


def stages():
    """The largest difference of the weights, and how far they moved."""
    strategy = two_replicas()
    one = staging_models.make()
    with strategy.scope():
        two = staging_models.make(run_eagerly=False)
    start, watch = staging_models.values(one), staging_models.Watch()
    for model in (one, two):
        stages = [Stage("head", steps=2), Stage(["top", "head"], steps=2), Stage("all", learning_rate=0.05)]
        callback = staging_models.Restarting(stages)
        staging_models.fit(model, callback, *([watch] if model is two else []), epochs=2)
    staging_models.assert_follows(two, callback, watch)
    after = staging_models.values(one)
    return [staging_models.difference(after, other) for other in (staging_models.values(two), start)]


# === Rates and penalties ===


def layerwise():
    """The difference of the weights after 12 steps, how far they moved, and the steps of the groups, for each kind."""
    strategy, report = two_replicas(), {}
    for name, make in {
        "averaged": lambda: (
            keras.optimizers.SGD(RATE, momentum=0.9, use_ema=True, ema_momentum=0.5),
            EWC(ones(net()), 0.5),
        ),
        "thawed": lambda: (keras.optimizers.SGD(RATE, momentum=0.9), L2SP(0.5, new_strength=0.25, squared=False)),
    }.items():
        models = []
        for scope in (contextlib.nullcontext(), strategy.scope()):
            with scope:
                model = net()
                optimizer, penalty = make()
                layerwise = LayerwiseOptimizer(optimizer, model, decay=0.5, penalty=penalty)
                model.compile(layerwise, "mse", run_eagerly=not models)
            start = model.get_weights()
            callbacks = [StagedTraining([Stage("top", steps=2), Stage("all")])] if name == "thawed" else []
            model.fit(X, Y, batch_size=16, epochs=3, shuffle=False, verbose=0, callbacks=callbacks)
            models.append(model)
        counts = [int(part.iterations.numpy()) for part in models[1].optimizer.group_optimizers()]
        after = [model.get_weights() for model in models]
        report[name] = [difference(*after), least_moved(after[0], start), counts]
    return report


# === Training checkpoints ===


def resumed(folder):
    """The epochs of an interrupted and resumed run, and the variables that differ from those of a whole run."""
    strategy = two_replicas()

    def go(*callbacks, checkpoint=None):
        keras.utils.set_random_seed(0)
        with strategy.scope():
            model = checkpoint_child.build(keras.optimizers.Adam(1e-2, use_ema=True))
        train = checkpoint_child.data(6)
        if checkpoint:
            callbacks = [checkpoint, *callbacks]
        callbacks = [GradualUnfreezing(fraction=0.5, below=-2), *callbacks]
        tell(callbacks, train)
        return model, model.fit(train, epochs=3, shuffle=False, callbacks=callbacks, verbose=0).history

    whole, _ = go()
    with contextlib.suppress(KeyError):
        go(End(), checkpoint=TrainingCheckpoint(folder, save_every=2))
    model, history = go(checkpoint=TrainingCheckpoint(folder))
    ours, theirs = (all_values(m, strategy) for m in (model, whole))
    different = [name for name in ours if not np.array_equal(ours[name], theirs[name])]
    return {"epochs": len(history["loss"]), "variables": len(ours), "different": different}


def all_values(model, strategy):
    """Every variable on every replica."""
    return {
        f"{i} {variable.name if i < len(model.variables) else 'slot'} {replica}": value.numpy()
        for i, variable in enumerate([*model.variables, *model.optimizer.variables])
        for replica, value in enumerate(strategy.experimental_local_results(variable.value))
    }


class End(keras.callbacks.Callback):
    """Ends the run with an error after the fifth step of the second epoch."""

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if (self.epoch, batch) == (1, 4):
            raise KeyError


def test_two_replicas_train_in_stages_as_one_device_does(tensorflow_process):
    apart_by, moved = tensorflow_process("tests.adaptation.test_replicas:stages")
    assert apart_by < 1e-6 < 1e-2 < moved


@pytest.mark.slow
def test_two_replicas_have_the_rates_and_penalties_of_one_device(tensorflow_process):
    report = tensorflow_process("tests.adaptation.test_replicas:layerwise")
    assert set(report) == {"averaged", "thawed"}
    for kind, (apart_by, moved, counts) in report.items():
        assert apart_by < 1e-6 < 1e-4 < moved, kind
        assert counts == ([10, 10, 10, 12] if kind == "thawed" else [12] * 4), kind


@pytest.mark.slow
def test_two_replicas_resume_with_the_same_result(tmp_path, tensorflow_process):
    report = tensorflow_process("tests.adaptation.test_replicas:resumed", tmp_path)
    assert report["epochs"] == 2 and report["variables"] > 20
    # The second replica has its own statistics. Keras neither saves them nor uses them in training.
    assert [name.split(" ", 1)[1] for name in report["different"]] == ["moving_mean 1", "moving_variance 1"]
