"""Connects the processes of a job, whatever has started them."""

import concurrent.futures
import contextlib
import json
import os
import socket
import time
from typing import Any

import keras
import numpy as np

from keras_transfer.core.expect import expect, expects, integer
from keras_transfer.core.lazy import tf
from keras_transfer.distribute.processes import agree, processes_of, remember

TIMEOUT = 300  # seconds
RETRY = 0.5  # seconds between attempts to reach another process
HEARTBEAT = 50  # Seconds without a sign of life after which JAX considers a process dead.


class OneProcess:
    """What `initialize` returns where there is nothing to distribute. Its scope changes nothing."""

    def scope(self):
        return contextlib.nullcontext()


@expects(timeout=integer(1))
def initialize(*, seed: int | None = None, timeout: int = TIMEOUT) -> Any:
    """Connects this process with the others of its job, and distributes the rows of each batch over all their devices.

    It is the one line that a script needs to run on several machines. In a single process, it does nothing. Otherwise,
    the environment tells how many processes there are:

    - `keras-transfer launch` and TensorFlow's launchers, such as Ray's `TensorflowTrainer`, set `TF_CONFIG`.
    - On JAX, Slurm, Kubernetes (JobSet), Cloud TPUs and Open MPI are recognized as in `jax.distributed.initialize`, and
      `JAX_COORDINATOR_ADDRESS`, `JAX_NUM_PROCESSES` and `JAX_PROCESS_ID` can be set. Processes that are connected
      already, such as those of Ray's `JaxTrainer`, stay connected.
    - On TensorFlow, Slurm is recognized too.

    Call it first, before anything uses a device. All processes must then run the same script on the same data. `fit`,
    `evaluate` and `predict` of a task give each process its part of every batch, and return the same in all of them.
    Files that tasks, encoders and `TrainingCheckpoint` write are written by the first process.

    Args:
        seed: Integer. Seed of Keras, NumPy and Python in all processes. Defaults to `None`, for a random one.
        timeout: Integer. Seconds to wait for the other processes, with `TF_CONFIG` or on JAX. Defaults to `300`.

    Returns:
        An object whose `scope()` is the context in which the model must be created: on JAX, a
        `keras.distribution.DataParallel` (which is also set as the global one), on TensorFlow a
        `tf.distribute.MultiWorkerMirroredStrategy`.

    Raises:
        ValueError: If the environment is not complete, or the backend is torch.
        RuntimeError: If the other processes cannot be reached, or another job uses the port of this one.

    Example:
    ```python
    devices = keras_transfer.distribute.initialize(seed=0)
    with devices.scope():
        model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
        model.compile()
    ```
    """
    start = {"jax": _start_jax, "tensorflow": _start_tensorflow}.get(keras.backend.backend(), _refuse)
    devices = start(timeout)
    if processes_of()[1] > 1:
        seed = agree(int(np.random.default_rng().integers(2**31)) if seed is None else seed)
    if seed is not None:
        keras.utils.set_random_seed(seed)
    return devices


def _addresses():
    """Returns the addresses of all processes, and the number of this one, by `TF_CONFIG`, or `([], 0)`."""
    text = os.environ.get("TF_CONFIG")
    if not text:
        return [], 0
    try:
        config = json.loads(text)
        cluster, task = config["cluster"], config["task"]
        others = set(cluster) - {"chief", "worker", "evaluator"}
        chiefs, workers = cluster.get("chief", []), cluster.get("worker", [])
        index = int(task["index"]) + (len(chiefs) if task["type"] == "worker" else 0)
        addresses = [*chiefs, *workers]
        fits = not others and task["type"] in ("chief", "worker") and 0 <= index < len(addresses)
        fits = fits and all(map(_is_address, addresses)) and len(set(addresses)) == len(addresses)
    except (AttributeError, KeyError, TypeError, ValueError):
        fits = False
    if not fits:
        raise ValueError(
            '`TF_CONFIG` must be like {"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", '
            f'"index": 0}}}}, with different addresses and without parameter servers. Received: {text:.300}'
        )
    return addresses, index


def _is_address(text):
    """Returns whether a string is `host:port`."""
    host, _, port = text.rpartition(":")
    return bool(host) and port.isdigit() and 0 < int(port) < 2**16


@contextlib.contextmanager
def met(addresses, index, timeout):
    """Waits until each process of a job can be reached, and returns a context with the server at the own address.

    The others may look for this process until they train, when gRPC of TensorFlow or of the first process listens.
    """
    if len(addresses) < 2:
        yield None
        return
    with _listen(addresses[index], index) as server:
        end, missing = time.monotonic() + timeout, dict(enumerate(addresses))
        del missing[index]
        with concurrent.futures.ThreadPoolExecutor(min(len(missing), 64)) as threads:  # A host may let us wait.
            while True:
                reached = list(threads.map(_reaches, missing.values()))
                missing = {number: at for (number, at), found in zip(missing.items(), reached) if not found}
                if not missing:
                    break
                if time.monotonic() > end:
                    raise RuntimeError(
                        f"Process {index} could not reach all others within {timeout} seconds. Check that all of them "
                        f"have started, with the same addresses. Received: nothing from {missing}"
                    )
                time.sleep(RETRY)
        yield server


def _listen(address, index):
    """Returns a server at the address of a process. Unlike gRPC, it does not share the port with another job."""
    dual = {"family": socket.AF_INET6, "dualstack_ipv6": True} if socket.has_dualstack_ipv6() else {}
    try:
        return socket.create_server(("", int(address.rpartition(":")[2])), backlog=1024, **dual)
    except OSError as error:
        raise RuntimeError(
            f"Process {index} cannot use its port. Check that no other job has it, and give each job ports of its own. "
            f"Received: {address}: {error}"
        ) from error


def _reaches(address):
    """Returns whether a process listens at an address."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=5) as found:
            return found.getsockname() != found.getpeername()  # A port of this machine can be connected with itself.
    except OSError:
        return False


def _start_jax(timeout):
    import jax

    connected = jax.distributed.is_initialized() or _connect_jax(timeout)
    if not connected or jax.process_count() == 1:
        return OneProcess()
    devices = keras.distribution.list_devices()
    distribution = keras.distribution.DataParallel(devices=devices, auto_shard_dataset=False)
    keras.distribution.set_distribution(distribution)
    return distribution


def _connect_jax(timeout):
    """Connects the processes of JAX, and returns whether there are several."""
    import jax

    options, (addresses, index) = {}, _addresses()
    if len(addresses) > 1:
        options = {"coordinator_address": addresses[0], "num_processes": len(addresses), "process_id": index}
    elif os.environ.get("JAX_COORDINATOR_ADDRESS"):
        names = {"num_processes": "JAX_NUM_PROCESSES", "process_id": "JAX_PROCESS_ID"}
        options = {name: _integer(variable) for name, variable in names.items() if variable in os.environ}
        options["coordinator_address"] = address = os.environ["JAX_COORDINATOR_ADDRESS"]
        expect(_is_address(address), "`JAX_COORDINATOR_ADDRESS` must be host:port.", JAX_COORDINATOR_ADDRESS=address)
        if options.get("process_id") == 0:
            _listen(options["coordinator_address"], 0).close()
    elif not _in_job():
        return False
    with met(addresses, index, timeout) as server:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")  # for processes without accelerators
        if server is not None and index == 0:
            server.close()  # JAX listens there. At the others, it does not, and they may not have been reached yet.
        try:
            times = {"initialization_timeout": timeout, "heartbeat_timeout_seconds": HEARTBEAT}
            jax.distributed.initialize(**options, **times)
        except Exception as error:
            number = options.get("process_id", "?")
            raise RuntimeError(
                f"Process {number} could not connect with the others within {timeout} seconds. Check that all of them "
                f"have started, with the same addresses, and that no other job uses the port. Received: {options}: "
                f"{error}"
            ) from error
    return True


def _in_job():
    """Returns whether a job of several processes has started this one, by the environment of what starts them."""
    counts = ("SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE")  # A step is what `srun` starts.
    if any(os.environ.get(name, "1") not in ("", "1") for name in counts):
        return True
    return bool(os.environ.get("JOBSET_NAME") or os.environ.get("TPU_WORKER_HOSTNAMES", "").count(","))


def _integer(variable):
    text = os.environ[variable]
    expect(text.isdigit(), f"`{variable}` must be a number.", **{variable: text})
    return int(text)


def _start_tensorflow(timeout):
    addresses, index = _addresses()
    with met(addresses, index, timeout):
        pass
    if len(addresses) > 1:
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    elif os.environ.get("SLURM_STEP_NUM_TASKS", "1") not in ("", "1"):
        resolver = tf.distribute.cluster_resolver.SlurmClusterResolver()
        strategy = tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
    else:
        return OneProcess()
    remember(strategy)
    return strategy


def _refuse(timeout):
    several = len(_addresses()[0]) > 1 or "JAX_COORDINATOR_ADDRESS" in os.environ or _in_job()
    rule = "Several processes can train together on JAX and TensorFlow only."
    expect(not several, rule, backend=keras.backend.backend())
    return OneProcess()
