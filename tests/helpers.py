"""Checks that apply to every layer and every encoder, so that the test of a new one takes ten lines."""

import contextlib
import tempfile

import keras
import numpy as np

from keras_transfer.training.building import build_optimizer
from tests import half_precision

POLICIES = ("mixed_bfloat16", "mixed_float16") if half_precision.works() else ()
# `run_eagerly` for a few steps, which take less time than tracing. JAX compiles single operations too.
EAGER = keras.backend.backend() != "jax"


@contextlib.contextmanager
def eager():
    """Runs TensorFlow's functions eagerly in a `with` block, where a test does not depend on the graph."""
    if keras.backend.backend() != "tensorflow":
        yield
        return
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(False)


def with_slots(model):
    """Returns a compiled model with its optimizer's variables. Without them, TensorFlow traces the first step twice."""
    build_optimizer(model)
    return model


def outputs_of(model, inputs):
    """Returns a model's outputs as arrays, by what is faster for a few calls: eagerly, or on JAX compiled."""
    outputs = model(inputs) if EAGER else keras.Model.predict_on_batch(model, inputs)
    return keras.tree.map_structure(keras.ops.convert_to_numpy, outputs)


def run_layer_test(cls, arguments, inputs, call_arguments=None, output_shape=None):
    """Checks a layer: eager and symbolic calls agree, config and `.keras` restore it, mixed precision runs.

    Args:
        cls: the layer's class, or a function that makes the layer from these arguments and `dtype`.
        arguments: dict, its constructor's arguments.
        inputs: float array.
        call_arguments: dict of arrays, further arguments of the call.
        output_shape: tuple, the expected shape.
    """
    call_arguments = call_arguments or {}
    layer = cls(**arguments)
    expected = _numpy(layer(inputs, **call_arguments))
    if output_shape is not None:
        assert expected.shape == output_shape
    assert type(layer).from_config(layer.get_config()).get_config() == layer.get_config()
    plain = {name: value for name, value in arguments.items() if isinstance(value, int | float | str)}
    assert plain == {name: layer.get_config()[name] for name in plain}

    model = _functional(layer, inputs, call_arguments)
    data = [inputs, *call_arguments.values()]
    np.testing.assert_allclose(model.predict_on_batch(data), expected, atol=1e-5)
    np.testing.assert_array_equal(_numpy(save_and_load(model)(data)), _numpy(model(data)))

    for policy in POLICIES:
        mixed = cls(**arguments, dtype=policy)
        outputs = mixed(inputs, **call_arguments)
        assert keras.backend.standardize_dtype(outputs.dtype) == mixed.compute_dtype
        assert all(keras.backend.standardize_dtype(w.dtype) == "float32" for w in mixed.trainable_weights)
        assert np.isfinite(_numpy(outputs)).all()


def unbuilt(model):
    """Returns the names of a model's layers that are not built. Keras traces a step of such a model again each time."""
    return [layer.name for layer in model._flatten_layers() if not layer.built]


def run_encoder_test(cls, arguments, tolerance=1e-5, width=None):
    """Checks an encoder: its protocol, that padding changes nothing, any length, `.keras`, mixed precision, training.

    Args:
        cls: the encoder's class.
        arguments: dict, its constructor's arguments, with `vocabulary_size` and `hidden_dim`, or `embedding_dim` as the
            width of the outputs.
        tolerance: float, the largest difference that padding may make.
        width: integer, the width of the outputs if no argument is. Defaults to `None`.
    """
    encoder = cls(**arguments)
    assert set(encoder.input) >= {"token_ids", "padding_mask"} and unbuilt(encoder) == []
    short = encoder_inputs(encoder, [[5, 6, 7], [8, 9, 4]])
    outputs = encoder(short)
    dim = width or arguments.get("hidden_dim") or arguments["embedding_dim"]
    assert tuple(outputs["sequence_output"].shape) == (2, 3, dim)
    if "pooled_output" in outputs:
        assert tuple(outputs["pooled_output"].shape) == (2, dim)
    assert len(encoder.hidden_states) == arguments.get("num_layers", 0) + 1

    # Neither padding nor its content changes anything.
    padded = encoder(encoder_inputs(encoder, [[5, 6, 7, 1, 2], [8, 9, 4, 3, 0]], real=3))
    for name, value in outputs.items():
        value, other = _numpy(value), _numpy(padded[name])
        np.testing.assert_allclose(other[:, :3] if value.ndim == 3 else other, value, atol=tolerance)

    reloaded = save_and_load(encoder)
    assert type(reloaded) is cls and reloaded.get_config() == encoder.get_config()
    np.testing.assert_array_equal(_numpy(reloaded(short)["sequence_output"]), _numpy(outputs["sequence_output"]))

    for policy in POLICIES:
        mixed = cls(**{**arguments, "dtype": policy})
        assert np.isfinite(_numpy(mixed(short)["sequence_output"])).all()
        assert all(keras.backend.standardize_dtype(w.dtype) == "float32" for w in mixed.trainable_weights)

    # Every weight that affects the sequence moves.
    before = [_numpy(weight) for weight in encoder.trainable_weights]
    model = keras.Model(encoder.input, encoder.output["sequence_output"])
    model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=EAGER)
    targets = np.random.default_rng(0).normal(size=(2, 3, dim))
    if "segment_ids" in short:  # Relative segments only matter if they differ.
        short["segment_ids"] = np.array([[0, 0, 1], [0, 1, 1]], "int32")
    for _ in range(2):
        model.train_on_batch(short, targets)
    moved = {id(w) for w, old in zip(encoder.trainable_weights, before) if (_numpy(w) != old).any()}
    assert {w.path for w in model.trainable_weights if id(w) not in moved} == set()


def encoder_inputs(encoder, token_ids, real=None):
    """Returns an encoder's inputs as a dict of int32 arrays, the first `real` tokens of each row real."""
    token_ids = np.array(token_ids, "int32")
    mask = np.arange(token_ids.shape[1])[None] < (token_ids.shape[1] if real is None else real)
    mask = np.broadcast_to(mask, token_ids.shape).astype("int32")
    inputs = {"token_ids": token_ids, "padding_mask": mask}
    return {name: inputs.get(name, np.zeros_like(token_ids)) for name in encoder.input}


def in_graph(signature, *columns):
    """Returns what a signature of a task answers to columns of texts as a graph, which its export would contain."""
    import tensorflow as tf

    function = tf.function(signature.function, autograph=False)
    answers = function(**{name: tf.constant(texts, tf.string) for name, texts in zip(signature.inputs, columns)})
    return {name: value.numpy() for name, value in answers.items()}


def save_and_load(model):
    """Returns the model, saved as a `.keras` file and loaded again."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/model.keras")
        return keras.saving.load_model(f"{folder}/model.keras")


def _functional(layer, inputs, call_arguments):
    def placeholder(array):
        array = np.asarray(array)
        return keras.Input(array.shape[1:], dtype=array.dtype.name)

    x = placeholder(inputs)
    options = {name: placeholder(value) for name, value in call_arguments.items()}
    return keras.Model([x, *options.values()], layer(x, **options))


def _numpy(x):
    return np.array(keras.ops.convert_to_numpy(keras.ops.cast(x, "float32")))


def logged(caplog, about=""):
    """What this package has logged with these words. TensorFlow logs too how often functions were traced."""
    messages = [record.getMessage() for record in caplog.records if record.name.startswith("keras_transfer")]
    return [message for message in messages if about in message]
