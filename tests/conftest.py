"""How the tests run: on how many processes, with which flags of JAX, and in which order.

The process that hands out the tests loads only this file, `tests.imports` and `tests.processes`. Those that run them
load `tests.fixtures` too.
"""

import gc
import os
import shutil
import sys
import tempfile

import pytest

from tests.imports import import_quickly
from tests.processes import shared_programs

# Failures in these show the values, as those in test files do.
pytest.register_assert_rewrite("tests.architecture", "tests.helpers", "tests.metrics.cases", "tests.tokenizing")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# Each core has a test process. Operations of small tensors that torch divides among threads take three times as long.
os.environ.setdefault("OMP_NUM_THREADS", "1")
BACKEND = os.environ.get("KERAS_BACKEND")
if BACKEND == "jax":
    # Two devices for the tests that need them. Optimizing small programs takes much longer than compiling them. Without
    # fusion emitters, compiling takes half of the time and of the memory, and undivided, a train step takes two thirds.
    flags = "--xla_force_host_platform_device_count=2 --xla_backend_optimization_level=0"
    flags += " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    os.environ["XLA_FLAGS"] = f"{flags} {os.environ.get('XLA_FLAGS', '')}"


def pytest_addoption(parser):
    parser.addoption("--reverse", action="store_true", help="run the tests in reverse order")


def pytest_configure(config):
    """Loads the fixtures, and makes the processes of this run share the programs that XLA compiles for JAX."""
    if BACKEND == "jax" and not hasattr(config, "workerinput"):
        folder = tempfile.mkdtemp(prefix="keras_transfer-xla-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
        os.environ.update(shared_programs(folder))
    if config.getoption("dist", "no") == "no":  # Tests run in this process. It takes seconds to import Keras.
        import_quickly("keras", "keras_hub")
        gc.disable()  # until `tests.fixtures` enables it, when the test files are imported too
        config.pluginmanager.import_plugin("tests.fixtures")


@pytest.hookimpl(optionalhook=True)  # Tests run without pytest-xdist too.
def pytest_xdist_auto_num_workers():
    """Returns the number of test processes: one for each core, if each has 3.5 GB of memory."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if sys.platform == "linux" else 8e9
    return max(1, min(os.cpu_count(), int(memory / 3.5e9), 8))
