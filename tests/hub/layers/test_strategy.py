"""Two replicas of `tf.distribute.MirroredStrategy` train a module like one device, from strings and from numbers."""

import inspect

import pytest


@pytest.fixture(scope="module")
def report(tensorflow_process, tmp_path_factory):
    """The results of one device and of two replicas, from a process with two CPU devices."""
    found = tensorflow_process("tests.hub.mirrored:main", tmp_path_factory.mktemp("mirrored"))
    assert found["replicas"] == 2
    return found


@pytest.mark.parametrize("model", ["functional", "Subclassed"])
def test_two_replicas_train_a_module_of_strings_like_one_device(report, model):
    assert report[model][1] < 1e-6 < 1e-2 < report["moved"][0]


def test_a_model_with_string_inputs_also_takes_numbers(report):
    assert report["numbers"][1] < 1e-6


def test_a_task_with_a_module_trains_and_predicts_as_on_one_device(report):
    assert report["task"][1] < 1e-6
    assert report["task, predicted"][1] < 1e-6


def test_evaluate_also_takes_strings(report):
    loss, accuracy = report["evaluated"]
    assert loss < 0.6 and accuracy == 1


def test_a_trainable_module_created_outside_the_scope_is_an_error_inside(report):
    assert report["made outside"].startswith("HubError: To train a module on several replicas, create the layer")


def test_a_loaded_object_trains_like_its_handle(report):
    assert report["loaded"][1] < 1e-6


def test_a_loaded_object_that_replicas_cannot_share_is_an_error(report):
    assert "Received: 'hub_layer" in report["loaded outside"]
    assert "Pass the handle instead of the loaded object" in report["loaded with statistics"]
    assert "with ['layer_0/norm/moving_mean" in report["loaded with statistics"]
    assert "A loaded TensorFlow 1 module cannot be used under tf.distribute" in report["loaded from TF1"]


def test_a_callable_whose_statistics_replicas_cannot_share_is_an_error_that_says_how_to_create_them(report):
    assert "synchronization=tf.VariableSynchronization.ON_READ" in report["callable with statistics"]
    assert "with ['mean" in report["callable with statistics"]
    assert report["callable with shared statistics"] == [2.0]


def test_a_frozen_module_may_be_created_outside_the_scope(report):
    assert report["frozen, made outside"] == [0, 0]


def test_keras_itself_still_fails_on_strings(report):
    # If this fails, `StringInputs` is no longer needed.
    assert "Value for attr 'T' of string is not in the list of allowed values" in report["without StringInputs"]


def test_the_private_method_that_string_inputs_overrides_still_exists():
    from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

    assert list(inspect.signature(TensorFlowTrainer._maybe_symbolic_build).parameters) == [
        "self",
        "iterator",
        "data_batch",
    ]
    for method in ("fit", "evaluate"):
        assert "self._maybe_symbolic_build(iterator=epoch_iterator)" in inspect.getsource(
            getattr(TensorFlowTrainer, method)
        )
