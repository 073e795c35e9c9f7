"""Two replicas of `tf.distribute.MirroredStrategy` train, predict and save like one device."""

import types

import pytest

from keras_transfer.distribute.replicas import check_scope


@pytest.fixture(scope="module")
def report(tensorflow_process, tmp_path_factory):
    """The results of one device and of two replicas, from a process with two CPU devices."""
    found = tensorflow_process("tests.distribute.mirrored:main", tmp_path_factory.mktemp("mirrored"))
    assert found["replicas"] == 2
    return found


def test_devices_that_do_not_exist_are_an_error_and_no_wait_without_end():
    devices = [f"/job:localhost/replica:0/task:0/device:CPU:{index}" for index in (0, 9)]
    extended = types.SimpleNamespace(worker_devices=devices)  # A real strategy would change the process of the tests.
    strategy = types.SimpleNamespace(extended=extended, num_replicas_in_sync=2)
    model = types.SimpleNamespace(distribute_strategy=strategy)
    with pytest.raises(ValueError, match=r"To divide a CPU, call `tf.config.set.* Received: \['CPU:9'\], and the"):
        check_scope(model)


@pytest.mark.parametrize("data", ["texts", "tf.data"])
def test_two_replicas_train_like_one_device_for_20_steps(report, data):
    steps = report["steps"][data]
    assert steps["count"] == 20
    assert steps["difference"] < 1e-5 < 1e-2 < steps["moved"]


def test_a_model_saved_with_two_replicas_loads_outside_and_inside_the_scope_and_continues_to_train(report):
    saved = report["saved"]
    assert [saved[where]["replicas"] for where in ("outside", "inside")] == [1, 2]
    assert [saved[where]["weights"] for where in ("outside", "inside")] == [0, 0]
    # One device multiplies batches of another size, which rounds differently.
    assert all(saved[where]["outputs"] < 1e-6 for where in ("outside", "inside"))
    assert saved["trained"] < 1e-5


def test_two_replicas_train_like_one_device_if_a_token_occurs_several_times_in_a_batch(tensorflow_process):
    """Keras would square the gradient of each occurrence instead of their sum."""
    report = tensorflow_process("tests.distribute.mirrored:repeated_tokens")
    assert set(report) == {"AdamW", "layer-wise"}
    for differs, moved in report.values():
        assert differs < 1e-6 < 1e-3 < moved


def test_the_accumulation_of_gradients_which_keras_cannot_do_on_replicas_is_an_error(tensorflow_process):
    messages = tensorflow_process("tests.distribute.mirrored:accumulation")
    assert len(messages) == 2
    for message in messages:
        assert message.startswith("Keras cannot accumulate gradients on several replicas")
        assert message.endswith("Received: gradient_accumulation_steps=2, replicas=2")


@pytest.mark.parametrize("count", ["1", "35"])
def test_predict_returns_a_row_for_every_text_if_the_last_batch_is_short(report, count):
    assert report["short"][count]["logits"] < 1e-6


def test_evaluate_counts_every_text_once_if_the_last_batch_is_short(report):
    one, two = report["short"]["35"]["evaluate"]
    assert two == pytest.approx(one, abs=1e-6)


def test_taggers_train_and_predict_as_on_one_device(report):
    assert report["words"] < 1e-5


def test_several_tasks_train_on_two_replicas_as_on_one_device(tensorflow_process):
    difference, (one, two), moved = tensorflow_process("tests.distribute.mirrored:several_tasks")
    assert difference < 1e-5 < 1e-2 < moved
    assert {"loss", "mood_accuracy", "length_loss", "val_length_loss"} <= one.keys() == two.keys()
    assert all(two[name] == pytest.approx(values, abs=1e-5) for name, values in one.items())


def test_validation_data_may_end_in_a_short_batch_too(report):
    during_fit, after = report["validation"]
    assert during_fit == pytest.approx(after, abs=1e-6)


@pytest.mark.parametrize("count", ["1", "33", "35"])
def test_steps_on_batches_that_replicas_cannot_share_evenly_equal_those_of_one_device(report, count):
    short = report["short"][count]
    assert short["difference"] < 1e-6 < 1e-2 < short["moved"]
    assert short["losses"][1] == pytest.approx(short["losses"][0], abs=1e-6)


@pytest.mark.parametrize(
    "names",
    [
        ("MaskedLM", "BertPretraining", "DialogueModel", "with_language_model_loss"),  # one of each kind of losses
        pytest.param(("CausalLM", "ReplacedTokenDetection", "penalized_lstm", "Seq2SeqLM"), marks=pytest.mark.slow),
    ],
)
def test_two_replicas_train_language_models_like_one_device_though_each_has_other_numbers_of_tokens(
    names, tensorflow_process
):
    report = tensorflow_process("tests.distribute.mirrored:language_models", *names)
    assert set(report) == {*names}
    for difference, (one, two), moved in report.values():
        assert difference < 1e-6 < 1e-3 < moved
        assert two == pytest.approx(one, abs=1e-5)


@pytest.mark.parametrize(
    "mistake", ["compiled inside", "fitted inside", "encoder outside", "encoder inside, model outside"]
)
def test_weights_made_in_another_scope_are_an_error(report, mistake):
    message = report["errors"][mistake]
    assert "inside `strategy.scope()`" in message
    assert message.endswith("weights that were created outside the scope, such as token_embedding/embeddings")


def test_data_that_replicas_cannot_split_are_one_clear_error(report):
    errors = report["errors"]
    multiple = "`batch_size` must be a multiple of the number of replicas, 2. Received: batch_size="
    assert errors["batch size"] == f"{multiple}33"
    assert errors["batches"] == f"{multiple}15"
    assert errors["evaluate"] == "`evaluate()` on 2 replicas requires at least 2 texts. Received: texts=1"
    assert "`dataset.batch(batch_size, drop_remainder=True)`" in errors["stream"]


@pytest.mark.slow
def test_a_keras_hub_backbone_learns_with_two_replicas(tensorflow_process):
    losses = tensorflow_process("tests.distribute.mirrored:keras_hub_losses")
    assert losses[-1] < 0.5 * losses[0]
