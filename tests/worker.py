"""Run by `processes.Worker`: a process that calls functions of the tests and returns their results as JSON.

python -m tests.worker [--replicas]

Each line of standard input is `["module:function", argument, ...]`; each line of the answer is `["ok", result]` or
`["error", traceback]`. Whatever a function prints goes to standard error.
"""

import importlib
import json
import os
import sys
import traceback

from tests.imports import import_quickly


def two_replicas():
    """Splits the CPU into the two devices of a `MirroredStrategy`; the same seed gives the same bits."""
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    tf.config.experimental.enable_op_determinism()


def main():
    import_quickly("keras", without=("pandas",))  # No function of this process gets a table.
    import keras

    from tests.kernels import share_kernels
    from tests.protocols import remember_protocols
    from tests.state import clear, set_shifted_seed

    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    keras.utils.set_random_seed = set_shifted_seed
    share_kernels()
    remember_protocols()
    if "--replicas" in sys.argv:
        two_replicas()
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        set_shifted_seed(0)
        module, function = name.split(":")
        try:
            answer = ["ok", getattr(importlib.import_module(module), function)(*arguments)]
        except BaseException:
            answer = ["error", traceback.format_exc()]
        print(json.dumps(answer, default=float), file=answers, flush=True)
        clear()


if __name__ == "__main__":
    main()
