"""Which precision is fast on this machine: float32, or bfloat16 with weights in float32."""

import dataclasses
import os
import pathlib
import re

import keras

from keras_transfer.core.lazy import tf

PRECISIONS = ("auto", "float32", "mixed_bfloat16")
_FLAGS = ("avx512_bf16", "amx_bf16")  # The x86 instructions that multiply bfloat16.
_AMD = "AuthenticAMD"  # Intel's processors with `avx512_bf16` and without `amx_bf16` are slower in bfloat16.
_CAPABILITY = 8.0  # From this compute capability on, GPUs of NVIDIA multiply bfloat16 in their matrix units.


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
    x86 processors with `amx_bf16`, or by AMD with `avx512_bf16`. Intel's with `avx512_bf16` alone were slower in
    bfloat16. The backend also matters: JAX converts bfloat16 to float32 on processors, and TensorFlow needs oneDNN.

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
    find = {"tensorflow": _device_of_tensorflow, "jax": _device_of_jax, "torch": device_of_torch}.get(backend)
    device, capability = ("cpu", None) if find is None else find()
    try:
        vendor, flags = _processor_in(pathlib.Path("/proc/cpuinfo").read_text("utf-8", "replace"))
    except OSError:
        vendor = flags = None
    return choose(backend, device, capability, vendor, flags, onednn=os.environ.get("TF_ENABLE_ONEDNN_OPTS") != "0")


def choose(backend, device, capability=None, vendor=None, flags=None, onednn=True):
    """Returns the `Precision` for a device.

    Args:
        capability: Float. Compute capability of a GPU of NVIDIA. Defaults to `None`, unknown.
        vendor: String. Vendor of the processor. Defaults to `None`, unknown.
        flags: Set of strings. Instructions of the processor. Defaults to `None`, unknown.
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
    if vendor == _AMD:
        return Precision("mixed_bfloat16", f"the processor is by AMD and has {' and '.join(found)}")
    if "amx_bf16" in found:
        return Precision("mixed_bfloat16", "the processor has amx_bf16")
    return Precision("float32", "the processor has avx512_bf16 without amx_bf16, which is fast only on those by AMD")


def _processor_in(cpuinfo):
    """Returns the vendor and the set of instructions in a text like `/proc/cpuinfo`, or None for what it lacks."""
    vendor = re.search(r"^vendor_id\s*:\s*(.*)$", cpuinfo, re.MULTILINE)
    flags = re.search(r"^(?:flags|Features)\s*:(.*)$", cpuinfo, re.MULTILINE)
    return vendor and vendor[1], flags and set(flags[1].split())


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


def device_of_torch():
    """Returns the kind of the device, `"cpu"` among others, and the compute capability of a GPU or None."""
    import torch

    device = keras.ops.zeros(()).device.type  # Keras puts its tensors on this device.
    if device != "cuda":
        return device, None
    return "gpu", float("{}.{}".format(*torch.cuda.get_device_capability()))
