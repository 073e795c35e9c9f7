"""Runs the checks of freezing and staged training in a process of its own, and prints what came of each.

KERAS_BACKEND=jax python -m tests.adaptation.staging_child [mirrored]
"""

import functools
import importlib.util
import json
import sys
import traceback

import keras

from keras_transfer.adaptation import ChainThaw, GradualUnfreezing
from tests.adaptation import staging_checks_ends, staging_checks_keras, staging_checks_methods, staging_encoders
from tests.adaptation.staging_models import (
    Watch,
    assert_follows,
    difference,
    fit,
    make,
    values,
)

MODULES = [staging_checks_methods, staging_checks_ends, staging_checks_keras]
CHECKS = {name: part for module in MODULES for name, part in vars(module).items() if hasattr(part, "is_check")}
ENCODERS = {
    f"{kind}, {method}": functools.partial(staging_encoders.check_encoder, kind, method)
    for kind, methods in {"ours": ["gradual", "chain"], "keras_hub": ["sequential", "freeze"]}.items()
    for method in methods
    if kind == "ours" or importlib.util.find_spec("keras_hub")
}


def mirrored():
    """One device beside two replicas: the largest difference of the weights, and how far they went."""
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    report = {"replicas": strategy.num_replicas_in_sync}
    for name, method in {"gradual": lambda: GradualUnfreezing(steps=2), "chain": lambda: ChainThaw(steps=3)}.items():
        one = make()
        with strategy.scope():
            two = make()
        start, watch = values(one), Watch()
        for model in (one, two):
            callback = method()
            fit(model, callback, *([watch] if model is two else []))
        assert_follows(two, callback, watch)
        report[name] = [float(difference(values(one), values(two))), float(difference(values(one), start))]
    return report


def main():
    if sys.argv[1:] == ["mirrored"]:
        return mirrored()
    report, tensorflow = {}, "tensorflow" in sys.modules  # now: Keras imports it for a seed
    for name, function in {**CHECKS, **ENCODERS}.items():
        try:
            function()
            report[name] = "ok"
        except Exception:
            report[name] = traceback.format_exc()
    return {"backend": keras.backend.backend(), "tensorflow": tensorflow, "checks": report}


if __name__ == "__main__":
    print(json.dumps(main()))
