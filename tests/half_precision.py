"""Tests in half precision, on a CPU that `ONEDNN_MAX_CPU_ISA` makes look older than it is.

TensorFlow chooses oneDNN's kernels by what the CPU can do, not by what the variable allows. On a CPU with AVX512-FP16
or AMX, oneDNN then finds no kernel for a half-precision matmul, and the process dies.
"""

import functools
import os
import subprocess
import sys

import keras
import pytest

_MATMULS = """
import tensorflow as tf
for dtype in ("float16", "bfloat16"):
    tf.matmul(tf.ones((64, 64), dtype), tf.ones((64, 64), dtype))
"""


@functools.cache
def works():
    """Returns whether a process survives TensorFlow's half-precision matmul."""
    if keras.backend.backend() != "tensorflow" or "ONEDNN_MAX_CPU_ISA" not in os.environ:
        return True
    return subprocess.run([sys.executable, "-c", _MATMULS], capture_output=True).returncode == 0


def skip_where_it_kills(monkeypatch):
    """Skips a test as soon as it makes a dtype policy that computes in half precision, if that ends the process."""
    if works():
        return
    make = keras.DTypePolicy.__init__

    def checked(policy, *args, **kwargs):
        make(policy, *args, **kwargs)
        if policy.compute_dtype in ("float16", "bfloat16"):
            isa = os.environ["ONEDNN_MAX_CPU_ISA"]
            pytest.skip(f"TensorFlow's half-precision matmul ends the process on this CPU, ONEDNN_MAX_CPU_ISA={isa}")

    monkeypatch.setattr(keras.DTypePolicy, "__init__", checked)
