"""Inputs of modules: casts of numbers, Python values and nests, and one clear error for all others."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transfer.hub import HubError, HubLayer
from tests.errors import check_errors
from tests.hub import saved_modules as modules
from tests.hub.saved_modules import TEXTS


@pytest.fixture(scope="module")
def pairs_module(tmp_path_factory):
    """A list of ids [batch, 3] and numbers [batch, 1] to their sums [batch, 1]."""
    spec = [tf.TensorSpec([None, 3], tf.int32), tf.TensorSpec([None, 1])]

    def call(inputs):
        return tf.cast(tf.reduce_sum(inputs[0], 1, keepdims=True), tf.float32) + inputs[1]

    return modules.save(tmp_path_factory.mktemp("pairs") / "module", call, spec)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "uint8"])
def test_numbers_are_cast_to_the_module_s_dtypes(linear_module, dtype):
    layer = HubLayer(linear_module)
    inputs = tf.cast([[0.0], [1.0]], dtype)
    assert layer(inputs).dtype == "float32"
    np.testing.assert_array_equal(layer(inputs), [[1.0], [1.5]])
    model = keras.Sequential([keras.Input((1,), dtype=dtype), HubLayer(linear_module)])
    np.testing.assert_array_equal(model(inputs), [[1.0], [1.5]])


def test_int64_ids_and_boolean_masks_are_cast(bert_module):
    layer, inputs = HubLayer(bert_module, output_key="pooled_output"), modules.bert_inputs()
    wide = {name: tf.cast(value, "bool" if name == "input_mask" else "int64") for name, value in inputs.items()}
    np.testing.assert_array_equal(layer(wide), layer(inputs))


def test_gradients_flow_through_casts_and_variables(linear_module):
    wide, variable = tf.Variable([[2.0]], dtype="float64"), keras.Variable([[2.0]])
    with tf.GradientTape(persistent=True) as tape:
        outputs = [HubLayer(linear_module)(inputs) for inputs in (wide, variable)]
    assert tape.gradient(outputs[0], wide).numpy() == tape.gradient(outputs[1], variable.value).numpy() == 0.5


def test_python_values_and_arrays_are_converted(text_module, linear_module, pairs_module, bert_module):
    layer = HubLayer(text_module)
    expected = layer(tf.constant(TEXTS))
    for texts in (TEXTS, tuple(TEXTS), np.array(TEXTS), np.array(TEXTS, object), [text.encode() for text in TEXTS]):
        np.testing.assert_array_equal(layer(texts), expected)
    np.testing.assert_array_equal(HubLayer(linear_module)([[1], [3]]), [[1.5], [2.5]])
    ids, numbers = np.array([[1, 2, 3]]), tf.constant([[0.5]])
    for pair in ([ids, numbers], (ids, numbers), [ids, [[0.5]]]):
        np.testing.assert_array_equal(HubLayer(pairs_module)(pair), [[6.5]])
    inputs = modules.bert_inputs()
    layer = HubLayer(bert_module, output_key="pooled_output")
    np.testing.assert_array_equal(layer({name: value.tolist() for name, value in inputs.items()}), layer(inputs))


def test_a_module_can_take_a_scalar(tmp_path):
    folder = modules.save(tmp_path / "module", lambda x: x + 1.0, tf.TensorSpec(None))
    assert HubLayer(folder)(10.0) == 11.0


def test_a_fixed_length_is_set_for_inputs_of_unknown_length(tmp_path):
    folder = modules.save(tmp_path / "module", lambda x: 2 * x, tf.TensorSpec([None, 3], tf.int32))
    layer = HubLayer(folder)
    model = keras.Model(inputs := keras.Input((None,), dtype="int32"), layer(inputs))
    assert model.output.shape == (None, 3)
    np.testing.assert_array_equal(model(np.ones((2, 3))), np.full((2, 3), 2))


def test_the_trace_that_fits_is_used(tmp_path):
    module = tf.Module()
    module.__call__ = tf.function(lambda x: x + x)
    for spec in (tf.TensorSpec([None, 2]), tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.string)):
        module.__call__.get_concrete_function(spec)
    tf.saved_model.save(module, str(tmp_path / "module"))
    layer = HubLayer(tmp_path / "module")
    for inputs, expected in (([[1, 2]], [[2.0, 4.0]]), ([1, 2], [2, 4]), (["a"], [b"aa"])):
        np.testing.assert_array_equal(layer(inputs), expected)
    with pytest.raises(HubError) as error:
        layer([1.5])
    assert (
        str(error.value)
        == "The inputs do not match the module. Expected float32 [None, 2] or int32 [None] or string [None]. "
        "Received: float32 [1]"
    )


def test_inputs_and_outputs_may_be_ragged(tmp_path):
    module = tf.Module()
    module.tokenize = tf.function(tf.strings.split, [tf.TensorSpec([None], tf.string)])
    module.pack = tf.function(lambda parts: parts[0].to_tensor(), [[tf.RaggedTensorSpec([None, None], tf.string)]])
    tf.saved_model.save(module, str(tmp_path / "module"))
    loaded = tf.saved_model.load(str(tmp_path / "module"))
    tokenize, pack = HubLayer(loaded.tokenize), HubLayer(loaded.pack)
    inputs = keras.Input((), dtype="string")
    model = keras.Model(inputs, pack([tokenize(inputs)]))
    for outputs in (pack([tokenize(TEXTS)]), model(tf.constant(TEXTS))):
        assert outputs[1].numpy().tolist() == [b"a", b"dull", b"plot", b"", b""]
    with pytest.raises(HubError, match=r"Expected \[ragged string \[None, None\]\]. Received: \[string \[4\]\]"):
        pack([tf.constant(TEXTS)])


IDS = {name: np.zeros((2, 3), "int32") for name in modules.BERT_INPUTS}
MASK = IDS["input_mask"]
EXPECTED = {
    "text_module": "string [None]",
    "linear_module": "float32 [None, 1]",
    "bert_module": "{" + ", ".join(f"{name}: int32 [None, None]" for name in sorted(IDS)) + "}",
}


@pytest.mark.parametrize(
    "name, inputs, received",
    [
        ("text_module", [[1.0]], "float32 [1, 1]"),
        ("text_module", {"text": ["a"]}, "{text: string [1]}"),
        ("text_module", None, "None"),
        ("linear_module", [[1.0, 2.0]], "float32 [1, 2]"),
        ("linear_module", tf.complex([[1.0]], [[1.0]]), "complex64 [1, 1]"),
        ("bert_module", MASK, "int32 [2, 3]"),
        (
            "bert_module",
            {**IDS, "position_ids": MASK},
            "{input_mask: int32 [2, 3], input_type_ids: int32 [2, 3], input_word_ids: int32 [2, 3], "
            "position_ids: int32 [2, 3]}",
        ),
        (
            "bert_module",
            {**IDS, "input_mask": np.ones((2, 3))},
            "{input_mask: float64 [2, 3], input_type_ids: int32 [2, 3], input_word_ids: int32 [2, 3]}",
        ),
    ],
)
def test_inputs_that_do_not_fit_are_one_clear_error(request, name, inputs, received):
    layer = HubLayer(request.getfixturevalue(name))
    with pytest.raises(HubError) as error:
        layer(inputs)
    expected = f"The inputs do not match the module. Expected {EXPECTED[name]}. Received: {received}"
    assert str(error.value) == expected


test_a_list_that_is_no_regular_array_is_an_error = check_errors(
    (["a", 1], "A list must be a regular array of texts or numbers. Received: ['a', 1]"),
    ([["a"], []], "A list must be a regular array of texts or numbers. Received: [['a'], []]"),
    error=HubError,
    call=lambda inputs, text_module: HubLayer(text_module)(inputs),
)


def test_inputs_that_do_not_fit_are_an_error_when_the_model_is_built(text_module, bert_module):
    with pytest.raises(HubError, match=r"Expected string \[None\]. Received: string \[None, 1\]"):
        keras.Sequential([keras.Input((1,), dtype="string"), HubLayer(text_module), keras.layers.Dense(1)])
    inputs = {name: keras.Input((None,), name=name) for name in modules.BERT_INPUTS}  # float32, Keras's default
    with pytest.raises(HubError, match=r"Expected {input_mask: int32 .* Received: {input_mask: float32 "):
        HubLayer(bert_module)(inputs)
