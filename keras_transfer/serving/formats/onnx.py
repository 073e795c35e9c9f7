"""The format "onnx": small and fast, without TensorFlow. Many runtimes read it, such as ONNX Runtime."""

import pathlib
import tempfile

import keras
import numpy as np

from keras_transfer.core.lazy import tf
from keras_transfer.serving.portable.folder import Portable

OPSET = 17  # The newest opset that tf2onnx writes without a warning. onnxruntime supports it since 1.12.


def open_model(folder, num_threads):
    """Returns the function that computes a batch with ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(names, inputs)))


class ONNX(Portable):
    """A model for ONNX Runtime, in float32 or with int8 weights."""

    NAME, FILES, RUNTIME = "onnx", (*Portable.FILES, "model.onnx"), "onnxruntime"
    PACKAGES = {"onnx": "onnx", "onnxruntime": "onnxruntime", "tf2onnx": "tf2onnx"}
    QUANTIZATIONS = (None, "int8_dynamic")
    open_model = staticmethod(open_model)

    @staticmethod
    def convert(function, specs, weights, quantization, folder):
        """Writes an ONNX model of at most 2 GB. For the arguments, see `Portable`.

        The graph is converted with the weights as inputs, because the converter copies constants many times.
        """
        import tf2onnx

        of_weights = {f"weight_{number}": weight for number, weight in enumerate(weights)}
        names = [*specs, *of_weights]

        def traced(*values):
            given = dict(zip(names, values))
            values = [(weight, given.pop(name)) for name, weight in of_weights.items()]
            with keras.StatelessScope(state_mapping=values):
                return function(**given)

        of_weights_specs = [tf.TensorSpec(weight.shape, weight.dtype, name=name) for name, weight in of_weights.items()]
        try:
            model, _ = tf2onnx.convert.from_function(
                tf.function(traced, autograph=False),
                input_signature=[*specs.values(), *of_weights_specs],
                opset=OPSET,
                custom_op_handlers={"Erfc": (_erfc, [])},
            )
        except Exception as error:  # The converter raises errors of several types.
            raise ValueError(
                "The converter of ONNX cannot convert this model. Try `format='litert'`. "
                f"Received: {type(error).__name__}: {error!s:.500}"
            ) from error
        _fill(model, of_weights)
        try:
            content = model.SerializeToString()
        except Exception as error:  # Versions of protobuf raise errors of several types.
            raise ValueError(
                "The model exceeds 2 GB, the limit of protobuf and so of an ONNX file. Use `format='savedmodel'`. "
                f"Received: {type(error).__name__}: {error!s:.500}"
            ) from error
        file = pathlib.Path(folder) / ONNX.FILES[-1]
        file.write_bytes(content)
        if quantization is not None:
            _quantize(model, file)


def _fill(model, weights):
    """Replaces the inputs of a model that are weights by their values, a dict by name."""
    from onnx import numpy_helper

    inputs = [tensor for tensor in model.graph.input if tensor.name not in weights]
    used = [tensor.name for tensor in model.graph.input if tensor.name in weights]
    values = [numpy_helper.from_array(keras.ops.convert_to_numpy(weights[name]), name) for name in used]
    model.graph.initializer.extend(values)
    del model.graph.input[:]
    model.graph.input.extend(inputs)


def _erfc(context, node, name, args):
    """Writes the `Erfc` of TensorFlow, which ONNX lacks, as one minus `Erf`."""
    node.type = "Erf"
    one = context.make_const(f"{name}_one", np.array(1, "float32")).output[0]
    minus = context.make_node("Sub", [one, node.output[0]])
    others = [other for other in context.get_nodes() if other is not minus]
    context.replace_all_inputs(node.output[0], minus.output[0], ops=others)


def _quantize(model, file):
    """Replaces a model by one with int8 weights and a scale for each column. Activations are quantized at run time."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    ranks = {weight.name: len(weight.dims) for weight in model.graph.initializer}
    # A product with weights of more axes has no scales that the runtime accepts.
    others = [
        node.name
        for node in model.graph.node
        if node.op_type == "MatMul" and any(ranks.get(name, 2) != 2 for name in node.input)
    ]
    with tempfile.TemporaryDirectory(dir=file.parent) as scratch:
        target = pathlib.Path(scratch) / file.name
        # Processors add products of unsigned and signed bytes fastest. Those without VNNI add two of them in 16 bits,
        # which do not overflow if the signed bytes, the weights, have 7 bits.
        options = {"per_channel": True, "weight_type": QuantType.QInt8, "reduce_range": True}
        quantize_dynamic(str(file), str(target), nodes_to_exclude=others, **options)
        target.replace(file)
