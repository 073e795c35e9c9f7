"""The format "litert": small and fast, without TensorFlow. LiteRT was called TensorFlow Lite."""

import pathlib
import re
import threading

from keras_transfer.core.lazy import tf
from keras_transfer.serving.portable.folder import Portable


def open_model(folder, num_threads):
    """Returns the function that computes a batch with LiteRT."""
    from ai_edge_litert.interpreter import Interpreter

    run = Interpreter(str(folder / "model.tflite"), num_threads=num_threads).get_signature_runner()
    lock = threading.Lock()  # Threads share the interpreter's buffers.

    def locked(inputs):
        with lock:
            return run(**inputs)

    return locked


class LiteRT(Portable):
    """A model for LiteRT, in float32, float16 or with int8 weights."""

    NAME, FILES = "litert", (*Portable.FILES, "model.tflite")
    RUNTIME, PACKAGES = "ai-edge-litert", {"ai_edge_litert": "ai-edge-litert"}
    QUANTIZATIONS = (None, "int8_dynamic", "float16")
    open_model = staticmethod(open_model)

    @staticmethod
    def convert(function, specs, weights, quantization, folder):
        """Writes a LiteRT model with the signature `serving_default`. For the arguments, see `Portable`."""
        module = tf.Module()
        module.weights = [weight.value for weight in weights]
        traced = tf.function(function, autograph=False).get_concrete_function(**specs)
        converter = tf.lite.TFLiteConverter.from_concrete_functions([traced], module)
        if quantization is not None:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if quantization == "float16":
            converter.target_spec.supported_types = [tf.float16]
        try:
            content = converter.convert()
        except Exception as error:  # The converter raises errors of several types.
            lacking = sorted(set(re.findall(r"'(tf\.\w+)' op", str(error))))
            found = f"the operations {lacking}" if lacking else f"{type(error).__name__}: {error!s:.500}"
            raise ValueError(
                f"The converter of LiteRT cannot convert this model. Try `format='onnx'`. Received: {found}"
            ) from error
        (pathlib.Path(folder) / LiteRT.FILES[-1]).write_bytes(content)
