"""A classifier over each encoder is converted, and its runtime computes what the model does."""

import keras
import numpy as np
import pytest

from keras_transfer import encoders
from keras_transfer.serving.exported import FORMATS
from keras_transfer.serving.portable.folder import Portable, graph_of
from keras_transfer.tasks import TextClassifier

tf = pytest.importorskip("tensorflow")
pytest.importorskip("ai_edge_litert")
pytest.importorskip("tf2onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="converts TensorFlow's graphs")

# Large enough for LiteRT, which leaves weights of fewer than 1,024 numbers as they are.
SIZES = {"vocabulary_size": 64, "num_layers": 1, "num_heads": 2, "hidden_dim": 32, "intermediate_dim": 64}
OF_LSTMS = {"vocabulary_size": 64, "embedding_dim": 32, "units": 32, "num_layers": 1}
ENCODERS = {
    "BertEncoder": SIZES,
    "AlbertEncoder": {**SIZES, "embedding_dim": 16},
    "BartEncoder": SIZES,
    "DebertaV2Encoder": {**SIZES, "num_buckets": 4, "conv_kernel_size": 3},
    "DistilBertEncoder": SIZES,
    "ElectraEncoder": {**SIZES, "embedding_dim": 16},
    "GPT2Encoder": SIZES,
    "GPTEncoder": SIZES,
    "MPNetEncoder": SIZES,
    "ModernBertEncoder": {**SIZES, "num_layers": 2, "window": 1, "global_attention_every": 2},
    "RobertaEncoder": SIZES,
    "T5Encoder": SIZES,
    "TransformerEncoder": SIZES,
    "XLNetEncoder": SIZES,
    "XlmEncoder": {key: size for key, size in SIZES.items() if key != "intermediate_dim"},
    "WordVectorEncoder": {"vocabulary_size": 64, "hidden_dim": 32},
    "AWDLSTMEncoder": OF_LSTMS,
    "ElmoEncoder": {"embedding_dim": 4, "filters": [(1, 32)], "projection_dim": 32, "units": 32, "max_characters": 6},
}
FAST = ("BertEncoder",)
# Dense layers, a convolution, tables of relative positions, and LSTMs over characters: others have the same weights.
QUANTIZED = ("BertEncoder", "DebertaV2Encoder", "XLNetEncoder", "ElmoEncoder")
OF_LSTM = ("AWDLSTMEncoder", "ElmoEncoder")  # The converter of LiteRT lacks loops over a dynamic number of steps.


@pytest.mark.parametrize("format", [name for name, each in FORMATS.items() if issubclass(each, Portable)])
@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in ENCODERS]
)
def test_the_runtime_computes_the_same(name, format, tmp_path):
    keras.utils.set_random_seed(0)
    model = TextClassifier(getattr(encoders, name)(**ENCODERS[name]), num_classes=3)
    for weight in model.weights:
        if len(weight.shape) > 1:
            weight.assign(keras.random.normal(weight.shape, stddev=weight.shape[-2] ** -0.5, seed=1))
    function = graph_of(model)
    specs = {key: tf.TensorSpec(spec.shape, spec.dtype, name=key) for key, spec in model.input.items()}
    if format == "litert" and name in OF_LSTM:
        with pytest.raises(ValueError, match="(Use|Try) `format='onnx'`"):
            FORMATS[format].convert(function, specs, model.weights, None, tmp_path)
        assert not list(tmp_path.iterdir())
        return
    for quantization in (None, "int8_dynamic") if name in QUANTIZED else (None,):
        FORMATS[format].convert(function, specs, model.weights, quantization, tmp_path)
        run = FORMATS[format].open_model(tmp_path, 1)
        for rows, length in ((5, 7), (1, 3)):
            inputs = ids(model, rows, length)
            expected = function(**inputs)["logits"].numpy()
            found = run(inputs)
            if quantization is None:
                np.testing.assert_allclose(found["logits"], expected, rtol=0, atol=1e-5)
                np.testing.assert_allclose(found["probabilities"], tf.nn.softmax(expected), rtol=0, atol=1e-5)
            else:
                size = np.abs(expected).max()
                assert 0 < np.abs(found["logits"] - expected).max() < 0.1 * size


def test_products_with_the_weights_of_onnx_do_not_overflow_16_bits(tmp_path):
    onnx = pytest.importorskip("onnx")
    model = TextClassifier(encoders.BertEncoder(**SIZES), num_classes=3)
    specs = {key: tf.TensorSpec(spec.shape, spec.dtype, name=key) for key, spec in model.input.items()}
    FORMATS["onnx"].convert(graph_of(model), specs, model.weights, "int8_dynamic", tmp_path)
    written = onnx.load(tmp_path / "model.onnx").graph
    used = {name for node in written.node if node.op_type == "MatMulInteger" for name in node.input}
    tensors = [onnx.numpy_helper.to_array(tensor) for tensor in written.initializer if tensor.name in used]
    weights = [tensor.astype(int) for tensor in tensors if tensor.dtype == "int8" and tensor.ndim == 2]
    assert len(weights) >= 5
    # Processors without VNNI add two products of a byte of the activations, up to 255, and one of the weights.
    assert max(2 * 255 * np.abs(weight).max() for weight in weights) < 2**15


def ids(model, rows, length):
    """Random inputs of `model`, with padding if there are several rows."""
    random = np.random.default_rng(0)
    shapes = {key: (rows, *(size or length for size in spec.shape[1:])) for key, spec in model.input.items()}
    inputs = {key: random.integers(1, 60, shape).astype("int32") for key, shape in shapes.items()}
    lengths = length - np.arange(rows) % length
    inputs["padding_mask"] = (np.arange(length) < lengths[:, None]).astype("int32")
    return inputs | {key: inputs[key] % 2 for key in ("segment_ids", "language_ids") if key in inputs}
