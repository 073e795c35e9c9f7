"""Which precision is fast on this machine: float32, or bfloat16 with weights in float32."""

import dataclasses
import functools
import os
import pathlib
import re
import time

import keras

from keras_transfer.core.lazy import tf

PRECISIONS = ("auto", "float32", "mixed_bfloat16")
_DTYPES = ("float32", "bfloat16")
_FLAGS = ("avx512_bf16", "amx_bf16")  # The x86 instructions that multiply bfloat16.
_CAPABILITY = 8.0  # From this compute capability on, GPUs of NVIDIA multiply bfloat16 in their matrix units.
_WORTHWHILE = 0.8  # A product in bfloat16 must save more than what the rest of a model loses by conversions.


@dataclasses.dataclass(frozen=True)
class Precision:
    """A recommended dtype policy and the reason, returned by `recommended_precision`.

    Attributes:
        policy: String. A dtype policy of Keras: `"float32"` or `"mixed_bfloat16"`.
        reason: String. Why this policy is recommended.
    """

    policy: str
    reason: str

    def __str__(self):
        return f"{self.policy}: {self.reason}"


def recommended_precision() -> Precision:
    """Returns the dtype policy in which models train and predict fast on this machine, and the reason.

    `"mixed_bfloat16"` computes in bfloat16, while weights, their updates, normalizations, softmax and losses remain in
    float32. It is recommended where the device multiplies bfloat16: on TPUs, on GPUs of NVIDIA from Ampere on, and on
    x86 processors with `avx512_bf16` or `amx_bf16`. Some of these processors are no faster in bfloat16. Therefore, the
    first call on one of them also multiplies matrices in both precisions, which takes about 0.1 s and starts
    TensorFlow's devices: configure them before. The backend also matters: JAX converts bfloat16 to float32 on
    processors, and TensorFlow needs oneDNN.

    Returns:
        `Precision`, with the attributes `policy` and `reason`.

    Example:
    ```python
    precision = keras_transfer.recommended_precision()
    print(precision.reason)
    encoder = {"dtype": precision.policy}
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2, encoder=encoder)
    ```

    Source: https://keras.io/api/mixed_precision/
    """
    backend = keras.backend.backend()
    find = {"tensorflow": _device_of_tensorflow, "jax": _device_of_jax, "torch": _device_of_torch}.get(backend)
    device, capability = ("cpu", None) if find is None else find()
    try:
        flags = _flags_in(pathlib.Path("/proc/cpuinfo").read_text("utf-8", "replace"))
    except OSError:
        flags = None
    onednn = os.environ.get("TF_ENABLE_ONEDNN_OPTS") != "0"
    return choose(backend, device, capability, flags, onednn, _relative_time)


def choose(backend, device, capability=None, flags=None, onednn=True, relative_time=None):
    """Returns the `Precision` for a device.

    Args:
        capability: Float. Compute capability of a GPU of NVIDIA. Defaults to `None`, unknown.
        flags: Set of strings. Instructions of the processor. Defaults to `None`, unknown.
        relative_time: Function that returns the time of a product in bfloat16 as a fraction of that in float32. It is
            called only if the flags allow bfloat16. Defaults to `None`, for a processor that is as fast as its flags
            promise.
    """
    if device == "tpu":
        return Precision("mixed_bfloat16", "a TPU multiplies bfloat16")
    if device == "gpu":
        if capability is None:
            return Precision("float32", "the compute capability of the GPU is unknown")
        policy = "mixed_bfloat16" if capability >= _CAPABILITY else "float32"
        return Precision(policy, f"the GPU has the compute capability {capability}, and bfloat16 needs {_CAPABILITY}")
    if device != "cpu":
        return Precision("float32", f"the speed of bfloat16 on the device {device!r} is unknown")
    if backend not in ("tensorflow", "torch"):
        return Precision("float32", f"the backend {backend} does not multiply bfloat16 on processors")
    if backend == "tensorflow" and not onednn:
        return Precision("float32", "TensorFlow multiplies bfloat16 with oneDNN, and TF_ENABLE_ONEDNN_OPTS=0")
    if flags is None:
        return Precision("float32", "the instructions of the processor are unknown")
    found = [flag for flag in _FLAGS if flag in flags]
    if not found:
        return Precision("float32", f"the processor has neither {' nor '.join(_FLAGS)}")
    reason = f"the processor has {' and '.join(found)}"
    if relative_time is not None and relative_time() > _WORTHWHILE:
        return Precision("float32", f"{reason}, but a product in bfloat16 is hardly faster than in float32")
    return Precision("mixed_bfloat16", reason)


@functools.cache  # Two calls in one process must not differ.
def _relative_time():
    """Returns the time of a product in bfloat16 as a fraction of that in float32, for 1,024 tokens in a small BERT."""
    pairs = [(keras.ops.ones((1024, 384), dtype), keras.ops.ones((384, 1536), dtype)) for dtype in _DTYPES]
    times = []
    for _ in range(5):  # The first round also prepares the product, and other programs may disturb any.
        for pair in pairs:
            begin = time.perf_counter()
            keras.ops.matmul(*pair)
            times.append(time.perf_counter() - begin)
    return min(times[1::2]) / min(times[::2])


def _flags_in(cpuinfo):
    """Returns the set of instructions in a text like `/proc/cpuinfo`, or None if it names none."""
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", cpuinfo, re.MULTILINE)
    return found and set(found[1].split())


def _device_of_tensorflow():
    """Returns the kind of the device, and the compute capability of a GPU or None, without starting the devices."""
    if isinstance(tf.distribute.get_strategy(), tf.distribute.TPUStrategy) or tf.config.list_physical_devices("TPU"):
        return "tpu", None
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        return "cpu", None
    found = tf.config.experimental.get_device_details(gpus[0]).get("compute_capability")
    return "gpu", found and float("{}.{}".format(*found))


def _device_of_jax():
    import jax

    device = jax.local_devices()[0]
    found = re.fullmatch(r"\d+\.\d+", str(getattr(device, "compute_capability", "")))
    return device.platform, found and float(found[0])


def _device_of_torch():
    import torch

    device = keras.ops.zeros(()).device.type  # Keras puts its tensors on this device.
    if device != "cuda":
        return device, None
    return "gpu", float("{}.{}".format(*torch.cuda.get_device_capability()))
