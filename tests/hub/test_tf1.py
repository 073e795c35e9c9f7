"""`HubLayer` with modules in the TF1 Hub format: outputs, gradients, the training graph, and unsupported uses."""

import pathlib
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transfer.hub import HubError, HubLayer
from tests.hub import tf1_modules
from tests.hub.tf1_modules import TEXTS, TOKENS

IDS = np.random.default_rng(0).integers(0, 50, (4, 5)).astype("int32")
BERT = {
    "input_ids": tf.constant(IDS),
    "input_mask": tf.constant(np.minimum(IDS, 1)),
    "segment_ids": tf.constant(IDS % 2),
}
INPUTS = {
    "text": {"text": tf.constant(TEXTS)},
    "tokens": {"tokens": tf.constant(TOKENS), "sequence_len": tf.constant([3, 1, 4, 2])},
    "ids": BERT,
    "mlm": {**BERT, "mlm_positions": tf.constant([[0], [2], [1], [4]])},
    "x": {"x": tf.constant(np.random.default_rng(0).normal(size=(4, 3)), "float32")},
    "sparse": {
        "x_indices": tf.constant([[0, 1], [2, 0]], "int64"),
        "x_values": tf.constant([1.0, -2.0]),
        "x_dense_shape": tf.constant([3, 3], "int64"),
    },
    "zh": {"text": tf.constant(["我爱北京天安门", "今天天气很好"])},
}

CASES = [
    ("elmo", "default", "text"),
    ("elmo", "tokens", "tokens"),
    ("bert", "tokens", "ids"),
    ("bert", "mlm", "mlm"),
    ("batch norm", "default", "x"),
    ("batch norm", "doubled", "x"),
    ("batch norm", "sparse", "sparse"),
    ("branching", "default", "x"),
    ("nested", "default", "x"),
    ("reference variables", "default", "x"),
    ("penalized outputs", "default", "x"),
    ("vocabulary", "default", "text"),
    ("zh_segmenter", "default", "zh"),
]


@pytest.fixture
def folder(data_dir):
    """A function from a module's name to its folder."""

    def find(name):
        if name != "zh_segmenter":
            return tf1_modules.folder(name)
        pytest.importorskip("tensorflow_text", reason="zh_segmenter needs TF Text: pip install tensorflow-text")
        return str(data_dir("tfhub/zh_segmenter_tf1hub"))

    return find


def hub_layer(folder, signature="default", **options):
    """A layer that returns all outputs of a signature, trainable by default."""
    return HubLayer(folder, **{"trainable": True, "signature_outputs_as_dict": True, **options}, signature=signature)


# Outputs


@pytest.mark.parametrize("case", CASES, ids=str)
def test_outputs_equal_those_of_tensorflow_hub(folder, case):
    hub = pytest.importorskip("tensorflow_hub")
    name, signature, inputs = case
    expected = hub.load(folder(name)).signatures[signature](**INPUTS[inputs])
    outputs = hub_layer(folder(name), signature, trainable=False)(INPUTS[inputs])
    assert outputs.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_array_equal(outputs[key], value)


@pytest.mark.parametrize(("name", "inputs"), [("elmo", "text"), ("bert", "ids")])
def test_training_uses_dropout_and_prediction_does_not(folder, name, inputs):
    layer = hub_layer(folder(name), {"text": "default", "ids": "tokens"}[inputs])

    def differences(**options):
        first, second = (keras.tree.flatten(layer(INPUTS[inputs], **options)) for _ in range(2))
        return [float(np.abs(a - b).max()) for a, b in zip(first, second) if a.dtype.is_floating]

    assert differences() == differences(training=False) == [0.0] * len(differences())
    assert min(differences(training=True)) > 0
    layer.trainable = False
    assert max(differences(training=True)) == 0


def test_the_tags_of_the_graph_can_be_chosen(folder):
    def random(tags, training):
        layer = hub_layer(
            folder("bert"), "tokens", tags=tags, output_key="pooled_output", signature_outputs_as_dict=None
        )
        return bool(np.any(layer(INPUTS["ids"], training=training) != layer(INPUTS["ids"], training=training)))

    assert [random([], True), random(["train"], False), random("train", True)] == [False, True, True]


# Gradients


def gradients(function, inputs, sources):
    with tf.GradientTape() as tape:
        tape.watch(floats(inputs))
        loss = tf.add_n([tf.reduce_sum(tf.cast(each, "float64") ** 2) for each in floats(function(inputs))])
    return [tf.convert_to_tensor(each) for each in tape.gradient(loss, sources, unconnected_gradients="zero")]


def floats(outputs):
    return [each for each in keras.tree.flatten(outputs) if each.dtype.is_floating]


PLAIN = [case for case in CASES if case[0] in ("bert", "batch norm", "vocabulary", "zh_segmenter")]


@pytest.mark.parametrize("case", PLAIN, ids=str)
def test_gradients_are_those_of_a_tape_on_the_module(folder, case):
    name, signature, inputs = case
    raw, layer = tf.saved_model.load(folder(name), tags=[]), hub_layer(folder(name), signature)
    trained = [variable for variable in raw.variables if variable.trainable]
    expected = gradients(lambda inputs: raw.signatures[signature](**inputs), INPUTS[inputs], trained)
    found = gradients(layer, INPUTS[inputs], [weight.value for weight in layer.trainable_weights])
    assert len(found) == len(expected) > 0
    assert [float(np.abs(a - b).max()) for a, b in zip(found, expected)] == [0.0] * len(expected)
    assert any(np.any(each) for each in expected)


def test_gradients_through_a_loop_are_those_of_finite_differences_run_eagerly_and_in_a_graph(folder):
    layer = hub_layer(folder("elmo in float64"))
    weights = [weight.value for weight in layer.trainable_weights]

    def loss():
        return sum(float(tf.reduce_sum(each**2)) for each in floats(layer(INPUTS["text"])))

    eager, in_graph = (find(layer, INPUTS["text"], weights) for find in (gradients, tf.function(gradients)))
    for weight, *found in zip(weights, eager, in_graph, strict=True):
        expected = finite_differences(loss, weight, 1e-5)
        for each in found:
            np.testing.assert_allclose(each, expected, atol=1e-9)
        assert np.abs(expected).max() > 0.01


def finite_differences(loss, variable, step):
    value, found = variable.numpy(), np.zeros(variable.shape)
    for index in np.ndindex(*variable.shape):
        for sign in (1, -1):
            shifted = np.array(value)
            shifted[index] += sign * step
            variable.assign(shifted)
            found[index] += sign * loss() / (2 * step)
    variable.assign(value)
    return found


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_gradients_through_a_condition_are_those_of_the_branch_that_is_taken(folder, sign):
    layer = hub_layer(folder("branching"))
    positive, negative = (weight.value for weight in layer.weights)
    inputs = {"x": sign * tf.abs(INPUTS["x"]["x"])}

    def by_hand(inputs):
        return tf.tanh(inputs["x"] @ positive) if sign > 0 else (inputs["x"] @ negative) ** 2

    sources = [positive, negative, inputs["x"]]
    expected, found = gradients(by_hand, inputs, sources), gradients(layer, inputs, sources)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    assert [bool(np.any(each)) for each in found] == [sign > 0, sign < 0, True]


def test_gradients_through_a_loop_in_a_condition_in_a_loop_equal_those_of_plain_operations(folder):
    layer = hub_layer(folder("nested"))
    (kernel,) = (weight.value for weight in layer.weights)

    def by_hand(inputs):
        x = tf.tanh(tf.tanh(inputs["x"] @ kernel) @ kernel)
        return tf.tanh(tf.tanh(2.0 * x**2 @ kernel) @ kernel)

    sources = [kernel, INPUTS["x"]["x"]]
    expected, found = (gradients(function, INPUTS["x"], sources) for function in (by_hand, layer))
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
        assert np.abs(ours).max() > 0.01


def test_gradients_through_a_loop_use_the_dropout_of_the_forward_pass(folder):
    layer = hub_layer(folder("elmo"))
    embeddings, kernel, weights, scaling = (weight.value for weight in layer.weights)
    layer(INPUTS["text"], training=True)  # so that drawing again for the gradient would give other numbers

    def by_hand(words):
        states = [tf.zeros_like(words[:, 0])]
        for time in range(words.shape[1]):
            states.append(tf.tanh(tf.concat([words[:, time], states[-1]], 1) @ kernel))
        return tf.reduce_sum((scaling * (weights[0] * words + weights[1] * tf.stack(states[1:], 1))) ** 2)

    with tf.GradientTape(persistent=True) as tape:
        outputs = layer(INPUTS["text"], training=True)
        loss, expected = tf.reduce_sum(outputs["elmo"] ** 2), by_hand(tf.stop_gradient(outputs["word_emb"]))
    assert np.mean(outputs["word_emb"] == 0) > 0.2
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    for weight in (kernel, weights, scaling):
        np.testing.assert_allclose(tape.gradient(loss, weight), tape.gradient(expected, weight), rtol=1e-4, atol=1e-7)
    assert np.any(tf.convert_to_tensor(tape.gradient(loss, embeddings)))


def test_if_only_layers_after_a_loop_train_the_dropout_inside_is_that_of_the_forward_pass(folder):
    layer = hub_layer(folder("elmo, only its mixture trains"))
    weights, scaling = (weight.value for weight in layer.trainable_weights)
    layer(INPUTS["text"], training=True)  # so that drawing again for the gradient would give other numbers
    with tf.GradientTape() as tape:
        outputs = layer(INPUTS["text"], training=True)
        loss = tf.reduce_sum(outputs["elmo"] ** 2) + tf.reduce_sum(outputs["default"] ** 2)
    for weight, gradient in zip((weights, scaling), tape.gradient(loss, (weights, scaling))):
        # The loss is quadratic in each weight.
        np.testing.assert_allclose(tf.reduce_sum(gradient * weight), 2.0 * loss, rtol=1e-5)


def test_a_second_order_gradient_through_a_loop_is_an_error(folder):
    layer = hub_layer(folder("elmo"))
    weights = [weight.value for weight in layer.trainable_weights]

    @tf.function(autograph=False)
    def second():
        with tf.GradientTape() as tape:
            first = tf.add_n([tf.reduce_sum(each**2) for each in gradients(layer, INPUTS["text"], weights)])
        return tape.gradient(first, weights)

    with pytest.raises(LookupError, match="Loops and conditions of TensorFlow 1 support only first-order gradients"):
        second()


def test_training_with_dropout_inside_a_loop_is_an_error_but_works_without_dropout(folder):
    module = folder("elmo, dropout in its loop")
    layer = hub_layer(module)
    assert layer(INPUTS["text"])["default"].shape == (4, 4)
    with pytest.raises(HubError, match=r"draws random numbers inside a loop .* Pass tags=\[\].* Received: Rand"):
        layer(INPUTS["text"], training=True)
    layer = hub_layer(module, tags=[])
    found = gradients(lambda inputs: layer(inputs, training=True), INPUTS["text"], layer.trainable_variables)
    assert all(np.any(each) for each in found)


# Statistics and penalties


@pytest.mark.parametrize(("signature", "factor"), [("default", 1.0), ("doubled", 2.0)])
def test_training_updates_the_statistics_of_the_called_signature(folder, signature, factor):
    layer = hub_layer(folder("batch norm"), signature)
    kernel, mean, variance, steps = (weight.value for weight in layer.weights)
    old = [each.numpy() for each in (mean, variance, steps)]
    layer(INPUTS["x"])
    np.testing.assert_equal([each.numpy() for each in (mean, variance, steps)], old)
    outputs = factor * INPUTS["x"]["x"].numpy() @ kernel.numpy()
    layer(INPUTS["x"], training=True)
    np.testing.assert_allclose(mean, 0.9 * old[0] + 0.1 * outputs.mean(0), rtol=1e-5)
    np.testing.assert_allclose(variance, 0.9 * old[1] + 0.1 * outputs.var(0), rtol=1e-5)
    assert (old[2], steps.numpy()) == (7, 8)
    layer.trainable = False
    layer(INPUTS["x"], training=True)
    assert steps.numpy() == 8


def test_the_penalty_follows_the_current_weights_and_trains_them(folder):
    layer = hub_layer(folder("elmo"))
    weights = next(weight.value for weight in layer.weights if weight.name == "weights")
    weights.assign([2.0, -1.0])
    with tf.GradientTape() as tape:
        layer(INPUTS["text"])
        (loss,) = layer.losses
    np.testing.assert_allclose(loss, 0.5, rtol=1e-6)
    np.testing.assert_allclose(tape.gradient(loss, weights), [0.4, -0.2], rtol=1e-6)
    layer.trainable = False
    layer(INPUTS["text"])
    assert layer.losses == []


# Variables


def test_weights_are_the_module_s_variables_with_its_names(folder):
    with tf.name_scope("outer"):
        layer = hub_layer(folder("batch norm"), name="hub")
    assert [weight.path for weight in layer.trainable_weights] == ["hub/module/kernel"]
    others = ["bn/moving_mean", "bn/moving_variance", "steps"]
    assert [weight.path for weight in layer.non_trainable_weights] == [f"hub/module/{name}" for name in others]
    assert {id(weight.value) for weight in layer.weights} >= {id(each) for each in layer.resolved_object.variables}


def test_a_module_from_before_tensorflow_1_11_trains(folder, tmp_path):
    older = shutil.copytree(folder("batch norm"), tmp_path / "older")
    tf1_modules.make_older(older)
    assert not any(variable.trainable for variable in tf.saved_model.load(str(older), tags=[]).variables)
    with tf.name_scope("outer"):
        layer, expected = hub_layer(older, name="hub"), hub_layer(folder("batch norm"), name="hub")
    assert [weight.path for weight in layer.weights] == [weight.path for weight in expected.weights]
    assert [weight.trainable for weight in layer.weights] == [True, False, False, False]
    for training in (False, True):
        found, other = (each(INPUTS["x"], training=training)["default"] for each in (layer, expected))
        np.testing.assert_array_equal(found, other)
    found, other = (gradients(each, INPUTS["x"], [each.weights[0].value]) for each in (layer, expected))
    np.testing.assert_array_equal(found, other)


# Unsupported uses


@pytest.mark.parametrize(
    ("name", "because"),
    [
        ("reference variables", "reference variables of TensorFlow 1, which TensorFlow 2 can neither train nor save"),
        ("penalized outputs", r"its regularization losses depend on its inputs: \['Sum:0'\]"),
    ],
)
def test_a_module_that_cannot_be_trained_says_why_and_works_frozen(folder, name, because):
    with pytest.raises(HubError, match=f"cannot be trained: .*{because}.* Received: trainable=True"):
        hub_layer(folder(name))
    layer = hub_layer(folder(name), trainable=False)
    np.testing.assert_array_equal(*(layer(INPUTS["x"], training=each)["default"] for each in (False, True)))


def test_a_loaded_object_predicts_like_its_handle(folder):
    loaded = tf.saved_model.load(folder("vocabulary"), tags=[])
    expected = HubLayer(folder("vocabulary"))(INPUTS["text"])
    np.testing.assert_array_equal(HubLayer(loaded)(INPUTS["text"]), expected)
    np.testing.assert_array_equal(HubLayer(loaded, signature="default")(INPUTS["text"]), expected)


def test_a_loaded_object_cannot_be_trained(folder):
    loaded = tf.saved_model.load(folder("vocabulary"), tags=[])
    with pytest.raises(HubError, match="lacks the graph for training. Pass the module's handle. Received: trainable=T"):
        HubLayer(loaded, trainable=True)


def test_an_unknown_signature_is_an_error_that_lists_those_of_both_graphs(folder, tmp_path):
    with pytest.raises(HubError, match=r"must be one of \['mlm', 'tokens'\] for .* Received: signature='default'"):
        HubLayer(folder("bert"))

    def fewer(train):
        return {name: each for name, each in tf1_modules.bert(train).items() if name == "tokens" or not train}

    module = tf1_modules.write(pathlib.Path(tmp_path, "fewer"), fewer)
    with pytest.raises(HubError, match=r"must be one of \['tokens'\] for .* Received: signature='mlm'"):
        HubLayer(module, signature="mlm")
    assert hub_layer(module, "mlm", tags=[])(INPUTS["mlm"])["mlm_logits"].shape == (4, 1, 50)


def test_a_training_graph_with_unsaved_variables_is_an_error(tmp_path):
    module = tf1_modules.write(tmp_path / "module", tf1_modules.batch_norm)  # its checkpoint lacks the steps
    with pytest.raises(
        HubError, match=r"must have saved values. Pass tags=\[\].* There are no values for \['module/steps:0'\]"
    ):
        HubLayer(module)
    assert len(HubLayer(module, trainable=True, tags=[]).weights) == 3
