"""Two processes that a launcher has started train, evaluate, predict and save like one."""

import json
import os
import socket
import subprocess
import sys
import threading
import time

import keras
import numpy as np
import pytest

import keras_transfer as kt
from keras_transfer.distribute import replicas as agreement
from keras_transfer.distribute import start
from keras_transfer.distribute.processes import Share
from keras_transfer.distribute.start import OneProcess
from tests.distribute.examples import examples
from tests.processes import ROOT, shared_programs
from tests.tasks import tiny

# Each process has one device, and compiles fast, as the tests do.
FLAGS = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def run_together(backend, count, folder):
    """What the processes report of `two_processes.main`."""
    workers = [f"127.0.0.1:{port}" for port in free_ports(count)]
    children = []
    for index in range(count):
        config = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
        environment = {"KERAS_BACKEND": backend, "TF_CONFIG": json.dumps(config), "CUDA_VISIBLE_DEVICES": "-1"}
        environment["XLA_FLAGS"] = FLAGS
        command = [sys.executable, "-m", "tests.distribute.two_processes", str(folder)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        children.append(subprocess.Popen(command, cwd=ROOT, env={**os.environ, **environment}, **pipes))
    try:
        found = [(child.communicate(timeout=600), child) for child in children]
    finally:
        for child in children:
            child.kill()
    for (_, errors), child in found:
        assert child.returncode == 0, errors[-4000:]
    return [json.loads(output.splitlines()[-1]) for (output, _), _ in found]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_two_processes_are_like_one(backend, tmp_path):
    """All in one test, since the processes of a fixture would run again for each worker of the tests that uses it."""
    folders = [tmp_path / str(count) for count in (1, 2)]
    for folder in folders:
        folder.mkdir()
    [one], two = (run_together(backend, count, folder) for count, folder in zip((1, 2), folders))
    for found in two:
        _check_run(one, found)
    _check_values(one, two)
    _check_files(two, folders[1])


def _check_run(one, found):
    """They train, evaluate and predict like one."""
    assert found["count"] == 2
    assert found["history"] == {name: pytest.approx(values, abs=1e-5) for name, values in one["history"].items()}
    assert found["weights"] == pytest.approx(one["weights"], rel=1e-5, abs=1e-5)
    assert found["evaluate"] == pytest.approx(one["evaluate"], abs=1e-5)
    np.testing.assert_allclose(found["logits"], one["logits"], atol=1e-5)
    assert found["others"] == pytest.approx(one["others"], rel=1e-5, abs=1e-5)
    assert found["texts"] == one["texts"]
    if "plain" in found:  # on TensorFlow. If this fails, Keras has mended it, and `reducible` can go.
        assert "Invalid reduction dimension 0" in str(found["plain"])


def _check_values(one, two):
    """They gather values and refuse different data."""
    assert one["gathered"] == [0, 1]
    assert [found["gathered"] for found in two] == [[0, 1, 10, 11]] * 2
    assert "error" not in one
    for index, found in enumerate(two):
        message = f"16 rows in process {index}, and others than in process 0 in processes [1]"
        assert found["error"] == f"All processes must have the same rows. Received: {message}"


def _check_files(two, folder):
    """The first one writes the files."""
    assert {*os.listdir(folder)} == {"model.keras", "checkpoint", "run", "served"}
    assert {*os.listdir(folder / "run")} == {
        "epoch-0000-batch-000010.safetensors",
        "epoch-0001-batch-000000.safetensors",
    }
    model = keras.saving.load_model(folder / "model.keras")
    logits = model.predict(examples(101)[0][:21], verbose=0)
    np.testing.assert_allclose(logits, two[0]["logits"], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "dies"), [("tensorflow", "0"), ("jax", "1")])
def test_a_run_of_which_a_process_was_killed_continues_to_the_same_weights(backend, dies, tmp_path):
    def launch(dies, *options):
        script = str(ROOT / "tests/distribute/killed.py")
        command = [sys.executable, "-m", "keras_transfer_command", "launch", "--workers", "2", script]
        environment = {**os.environ, "KERAS_BACKEND": backend, "CUDA_VISIBLE_DEVICES": "-1", "XLA_FLAGS": FLAGS}
        environment |= {"PYTHONPATH": str(ROOT), **shared_programs(tmp_path / "programs")}
        command += [killed, dies, *options]
        found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
        return found.returncode, found.stdout + found.stderr

    killed, whole = tmp_path / "killed", tmp_path / "whole"
    killed.mkdir(), whole.mkdir()
    status, output = launch(dies)
    assert status != 0
    assert "keras-transfer launch: process " in output and "Resuming" not in output
    assert "epoch-0001-batch-000002.safetensors" in os.listdir(killed / "run")
    status, output = launch("none", "0", "2", whole)  # The same processes train without interruption afterwards.
    assert status == 0, output[-4000:]
    resumed = [line for line in output.splitlines() if "Resuming from epoch 2 of 2, after batch" in line]
    assert resumed and all(str(killed / "run") in line for line in resumed)
    found = [np.load(folder / "weights.npz") for folder in (killed, whole)]
    assert all((found[0][name] == found[1][name]).all() for name in found[1].files)


def test_initialize_in_a_single_process_changes_nothing_but_the_seed():
    devices = kt.distribute.initialize(seed=3)
    assert isinstance(devices, OneProcess)
    drawn = np.random.random()
    keras.utils.set_random_seed(3)
    assert np.random.random() == drawn
    with devices.scope():
        assert kt.distribute.processes_of() == (0, 1)
    assert kt.distribute.is_chief()
    assert kt.distribute.agree(2**40) == 2**40
    assert kt.distribute.gather(np.arange(3)).tolist() == [0, 1, 2]
    kt.distribute.barrier()
    with pytest.raises(ValueError, match="^`values` must be an array of numbers with rows. Received: "):
        kt.distribute.gather(["a"])


@pytest.mark.parametrize(
    "text",
    [
        "worker",
        "{}",
        '{"cluster": ["a:1"], "task": {"type": "worker", "index": 0}}',
        '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 2}}',
        '{"cluster": {"worker": ["a:1", "a:1"]}, "task": {"type": "worker", "index": 0}}',
        '{"cluster": {"worker": ["a:1", "b:65536"]}, "task": {"type": "worker", "index": 0}}',
        '{"cluster": {"worker": ["a:1"], "ps": ["b:1"]}, "task": {"type": "worker", "index": 0}}',
    ],
)
def test_an_invalid_cluster_is_an_error(monkeypatch, text):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match="^`TF_CONFIG` must be like .* and without parameter servers. Received: "):
        kt.distribute.initialize()


def test_each_process_reads_its_part_of_a_batch():
    parts = [Share(index, 2).rows(8) for index in range(2)]
    assert [list(range(8)[part]) for part in parts] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert range(7)[Share().rows(7)] == range(7)


together = pytest.mark.skipif(keras.backend.backend() == "torch", reason="has no distribution")


@pytest.fixture
def job(monkeypatch):
    """The addresses of a job of two processes, of which this is the first."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    return addresses


def listening(address):
    host, _, port = address.partition(":")
    return socket.create_server((host, int(port)))


@together
def test_a_process_that_does_not_start_is_an_error_with_its_number(job):
    with pytest.raises(RuntimeError, match="^Process 0 could not reach all others within 1 seconds.*") as error:
        kt.distribute.initialize(timeout=1)
    assert str(error.value).endswith(f"Received: nothing from {{1: '{job[1]}'}}")


@together
def test_a_port_that_another_job_uses_is_an_error(job):
    expected = f"^Process 0 cannot use its port. Check .* Received: {job[0]}: .*in use"
    with listening(job[0]), pytest.raises(RuntimeError, match=expected):
        kt.distribute.initialize(timeout=1)


def test_processes_meet_although_one_starts_later(job):
    met, done = [], threading.Event()

    def process(index):
        with start.met(job, index, timeout=60) as server:
            met.append(index)
            server.close()
            with listening(job[index]):  # as TensorFlow does
                done.wait(60)

    threads = [threading.Thread(target=process, args=(1,)), threading.Timer(0.2, process, args=(0,))]
    for thread in threads:
        thread.daemon = True
        thread.start()
    deadline = time.monotonic() + 60
    while len(met) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    done.set()
    assert sorted(met) == [0, 1]
    for thread in threads:
        thread.join(60)


@pytest.mark.core
@pytest.mark.skipif(keras.backend.backend() != "jax", reason="is about processes of JAX")
def test_the_port_of_the_coordinator_is_checked_and_connected_processes_stay_connected(monkeypatch, job):
    import jax

    monkeypatch.setattr(jax.distributed, "is_initialized", lambda: True)
    assert isinstance(kt.distribute.initialize(), OneProcess)  # of as many processes as it has connected with
    monkeypatch.undo()
    for name, value in {"COORDINATOR_ADDRESS": job[0], "NUM_PROCESSES": "2", "PROCESS_ID": "0"}.items():
        monkeypatch.setenv(f"JAX_{name}", value)
    with listening(job[0]), pytest.raises(RuntimeError, match="^Process 0 cannot use its port."):
        kt.distribute.initialize()
    for address in ("host", "host:", "host:port", "8476"):
        monkeypatch.setenv("JAX_COORDINATOR_ADDRESS", address)
        with pytest.raises(ValueError, match=f"must be host:port. Received: JAX_COORDINATOR_ADDRESS='{address}'$"):
            kt.distribute.initialize()


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="is about a strategy of TensorFlow")
def test_parameter_servers_are_an_error(monkeypatch):
    import tensorflow as tf

    strategy = object.__new__(tf.distribute.ParameterServerStrategy)  # An initialized one needs a cluster.
    monkeypatch.setattr(agreement, "strategy_of", lambda model=None: strategy)
    model = tiny.classifier()
    model.compile()
    with pytest.raises(ValueError, match="parameter servers. .* Received: strategy='ParameterServerStrategy'$"):
        model.fit(["a", "b"], [0, 1], verbose=0)


@pytest.mark.parametrize("what", ["versions", "rows", "weights", "optimizer"])
def test_a_process_with_something_else_is_an_error_with_its_number(what, monkeypatch):
    """Stands in for three processes, of which the last one has another digest of one kind."""
    kinds = iter(["versions", "method and options of batches", "rows", "weights", "optimizer"])

    def gather(digest, model):
        return np.concatenate([digest, digest, digest + (next(kinds) == what)])

    monkeypatch.setattr(agreement, "gather", gather)
    monkeypatch.setattr(agreement, "processes_of", lambda model: (0, 3))
    model = tiny.classifier()
    model.compile()
    data = model.dataset(["a", "b"], [0, 1])
    with pytest.raises(ValueError, match=f"^All processes must have the same {what}. .* process 0 in processes .2.$"):
        agreement.check_processes(model, data, "fit")
