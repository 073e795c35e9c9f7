"""`TrainingCheckpoint`: another model, optimizer or data than the checkpoint's is one clear error."""

import shutil

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import LoRA, add_adapters, freeze
from keras_transfer.callbacks import ChainThaw, GradualUnfreezing
from keras_transfer.tasks import TextClassifier
from keras_transfer.training.run_identity import differences, may_differ
from keras_transfer.training.training_checkpoint import TrainingCheckpoint
from tests.adaptation.adapters import adapter_models
from tests.helpers import logged
from tests.tasks.tiny import of_words
from tests.training.resume.checkpoint_runs import OPTIMIZERS, X, Y, build, crash, fit, linear, names

OTHERS = {
    "width": (
        {"hidden": 9},
        r"variables.model.0=\S+/kernel float32 \(4, 9\) \(training checkpoint: \S+/kernel float32 \(4, 8\)",
    ),
    "optimizer": (
        {"optimizer": OPTIMIZERS["a schedule"]},
        r"variables.optimizer.1=.*checkpoint: learning_rate",
    ),
    "averages": ({"optimizer": OPTIMIZERS["moving averages"]}, r"\w+_average .*\(training checkpoint: \w+_momentum"),
    "setting": (
        {"optimizer": lambda model: keras.optimizers.Adam(1e-2, beta_1=0.8)},
        r"beta_1=0.8 \(training checkpoint: 0.9",
    ),
}


@pytest.fixture(scope="module")
def crashed_in_stages(tmp_path_factory):
    """The folder of a run in stages that crashed at step 14."""
    folder = tmp_path_factory.mktemp("crashed")
    crash(folder, 14, callbacks=[GradualUnfreezing()])
    return folder


@pytest.mark.parametrize("other", OTHERS)
def test_another_model_or_optimizer_is_one_clear_error_and_changes_nothing(other, crashed):
    options, message = OTHERS[other]
    model, files = build(**options, run_eagerly=True), names(crashed)
    before = [keras.ops.convert_to_numpy(v) for v in model.variables]
    with pytest.raises(ValueError, match=f"the same model and the same optimizer.*Received: .*{message}"):
        fit(model, GradualUnfreezing(), TrainingCheckpoint(crashed))
    assert all(np.array_equal(a, keras.ops.convert_to_numpy(b)) for a, b in zip(before, model.variables))
    assert names(crashed) == files
    assert len(fit(model, epochs=1)["loss"]) == 1


def test_another_schedule_is_an_error(tmp_path):
    def make(steps):
        return linear(keras.optimizers.SGD(keras.optimizers.schedules.CosineDecay(0.1, steps)))

    fit(make(30), TrainingCheckpoint(tmp_path), epochs=1)
    message = r"planned for another number of steps.*learning_rate\.config\.decay_steps=40 \(training checkpoint: 30"
    with pytest.raises(ValueError, match=message):
        fit(make(40), TrainingCheckpoint(tmp_path))


def test_another_learning_rate_gives_a_warning_and_that_of_the_checkpoint_is_used(tmp_path, caplog):
    reduce = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)
    first = linear()
    fit(first, reduce, TrainingCheckpoint(tmp_path), epochs=1)
    fit(linear(), TrainingCheckpoint(tmp_path), epochs=1)  # the rate of the script, which has been halved since
    fit(first, TrainingCheckpoint(tmp_path), epochs=1)
    assert "learning rate of" not in caplog.text
    model = linear(keras.optimizers.SGD(0.5, momentum=0.9))
    fit(model, TrainingCheckpoint(tmp_path), epochs=2)
    assert "the learning rate of the training checkpoint, 0.05. Received: 0.5" in caplog.text
    assert float(model.optimizer.learning_rate) == pytest.approx(0.05)


def test_other_data_are_an_error_within_an_epoch_and_a_warning_at_its_start(crashed, tmp_path, caplog):
    with pytest.raises(
        ValueError, match=r"same data in the same batches. Received: 5 batches \(training checkpoint: 10"
    ):
        fit(build(), TrainingCheckpoint(crashed), data=(X[:20], Y[:20]))
    fit(linear(), TrainingCheckpoint(tmp_path / "begin"), epochs=1)
    fit(linear(), TrainingCheckpoint(tmp_path / "begin"), data=(X[:20], Y[:20]), epochs=2)
    assert "its result may differ. Received: batches=5 (training checkpoint: 10)" in caplog.text


def test_other_rows_of_the_same_number_are_an_error_within_an_epoch_and_a_warning_at_its_start(tmp_path, caplog):
    def run(folder, texts=("a", "b", "a", "b"), labels=(0, 1, 0, 1), weights=None, epochs=2):
        model = of_words(["a", "b"], num_classes=2)
        model.compile("sgd", run_eagerly=True)
        checkpoint = TrainingCheckpoint(tmp_path / folder, save_every=1, keep=9)
        weights = None if weights is None else np.array(weights)
        options = {"sample_weight": weights, "batch_size": 2, "epochs": epochs, "verbose": 0}
        model.fit(list(texts), list(labels), callbacks=[checkpoint], **options)

    run("begin", epochs=1)
    (tmp_path / "within").mkdir()
    shutil.copy(tmp_path / "begin" / "epoch-0000-batch-000001.safetensors", tmp_path / "within")
    for other in ({"texts": "aabb"}, {"labels": (1, 0, 0, 1)}, {"weights": [1.0, 1.0, 1.0, 2.0]}):
        with pytest.raises(ValueError, match="the same data in the same batches. Received: other inputs, labels or w"):
            run("within", **other)
    run("within")
    assert "may differ" not in caplog.text
    run("begin", labels=(1, 0, 0, 1))
    assert caplog.text.count("its result may differ. Received: other inputs, labels or weights than those of") == 1


def test_another_initial_epoch_is_an_error(tmp_path):
    crash(tmp_path / "first epoch", 6, make=linear)
    with pytest.raises(ValueError, match="resumes in epoch 0, counted from 0.*Received: epoch=1"):
        fit(linear(), TrainingCheckpoint(tmp_path / "first epoch"), initial_epoch=1)


def test_an_unbuilt_model_is_an_error(tmp_path):
    model = keras.Sequential([keras.layers.Dense(3)])
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match="Call `build` before"):
        fit(model, TrainingCheckpoint(tmp_path))


def test_another_loss_or_dtype_policy_is_warned_of(tmp_path, caplog):
    def warned(loss, policy=None):
        layers = [keras.layers.Dense(3, dtype=policy)]
        model = keras.Sequential([keras.Input((4,)), *layers])
        model.compile(keras.optimizers.SGD(), loss, run_eagerly=True)
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        if folder.name != "0":
            shutil.copytree(tmp_path / "0", folder)
        caplog.clear()
        epochs = 1 if folder.name == "0" else 2
        fit(model, TrainingCheckpoint(folder), data=(X[:4], Y[:4]), epochs=epochs)
        return logged(caplog, "differ")

    logits, loss = keras.losses.SparseCategoricalCrossentropy, keras.losses.SparseCategoricalCrossentropy()
    assert warned(loss) == []
    assert warned(loss) == []
    assert "loss.from_logits=True (training checkpoint: False)" in warned(logits(from_logits=True))[0]
    assert "loss=sparse_categorical_crossentropy (training checkpoint:" in warned("sparse_categorical_crossentropy")[0]
    assert "dtype.2=mixed_bfloat16 of dense" in warned(loss, "mixed_bfloat16")[0]


def test_another_shuffle_or_class_weight_of_a_task_is_a_difference():
    def run(**settings):
        return may_differ(linear(), 10, {"shuffle": False, "class_weight": None, **settings}, [], [])

    assert differences(run(), run()) == []
    assert differences(run(shuffle=True), run()) == ["fit.shuffle=True (training checkpoint: False)"]
    for weights in ({0: 1.0, 1: 2.0}, dict(zip(np.unique(Y), np.array([1.0, 2.0, 1.0], "float32")))):
        assert "fit.class_weight.1=2.0 (training checkpoint: None)" in differences(run(class_weight=weights), run())


def test_other_settings_of_the_model_than_those_of_the_run_are_differences():
    def run(alpha=4, **settings):
        model = TextClassifier(adapter_models.encoder(**settings), num_classes=2)
        add_adapters(model, LoRA(2, alpha=alpha))
        model.compile()
        return may_differ(model, 10, {}, [], [])

    assert differences(run(), run()) == []
    for settings, message in (
        ({"num_heads": 4}, "num_heads=4 (training checkpoint: 2)"),
        ({"activation": "relu"}, "activation=relu (training checkpoint: gelu)"),
        ({"dropout": 0.5}, "dropout=0.5 (training checkpoint: 0.0)"),
        ({"alpha": 8}, "alpha=8 (training checkpoint: 4)"),
    ):
        assert message in "; ".join(differences(run(**settings), run()))


def test_the_same_classes_in_another_order_are_an_error(tmp_path):
    def run(label_names, epochs):
        model = of_words(["a", "b"], label_names=label_names)
        model.compile("sgd", run_eagerly=True)
        model.fit(["a", "b"], ["x", "y"], epochs=epochs, callbacks=[TrainingCheckpoint(tmp_path)], verbose=0)

    run(["x", "y"], 1)
    with pytest.raises(ValueError, match=r"would be mixed up.*a file with \['x', 'y'\], and a model with \['y', 'x'\]"):
        run(["y", "x"], 2)


@pytest.mark.slow
def test_other_stages_or_frozen_weights_give_a_warning(crashed_in_stages, tmp_path, caplog):
    def warned(*callbacks, prepare=lambda model: None, epochs=3):
        folder = shutil.copytree(crashed_in_stages, tmp_path / str(len(list(tmp_path.iterdir()))))
        model = build(run_eagerly=True)
        prepare(model)
        caplog.clear()
        fit(model, *callbacks, TrainingCheckpoint(folder), epochs=epochs)
        return logged(caplog, "may differ")

    def freeze_one(model):
        model.optimizer.build(model.trainable_variables)
        freeze(model, 0)

    assert warned(GradualUnfreezing()) == []
    for callbacks in ([], [ChainThaw()]):
        (message,) = warned(*callbacks)
        assert "stages." in message and "(training checkpoint: " in message
    assert "stages.1.0=10 (training checkpoint: 8)" in warned(GradualUnfreezing(), epochs=4)[0]
    assert "weights.4" in warned(GradualUnfreezing(), prepare=freeze_one)[0]
