"""Run by test_checkpoint.py in a process of its own, with two CPU devices: two replicas end on the way and go on.

python -m tests.adaptation.checkpoint_mirrored FOLDER
"""

import contextlib
import json
import sys

import keras
import numpy as np
import tensorflow as tf

from keras_transfer.adaptation.checkpoint import Checkpoint
from keras_transfer.adaptation.unfreezing import GradualUnfreezing
from tests.adaptation import checkpoint_child


def main(folder):
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    tf.config.experimental.enable_op_determinism()
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

    def go(*callbacks, checkpoint=None):
        keras.utils.set_random_seed(0)
        with strategy.scope():
            model = checkpoint_child.build(keras.optimizers.Adam(1e-2, use_ema=True))
        train = checkpoint_child.data(6)
        if checkpoint:
            checkpoint.follow(train)
            callbacks = [checkpoint, *callbacks]
        callbacks = [GradualUnfreezing(share=0.8), *callbacks]
        return model, model.fit(train, epochs=3, callbacks=callbacks, verbose=0).history

    whole, _ = go()
    with contextlib.suppress(KeyError):
        go(End(), checkpoint=Checkpoint(folder, save_every=2))
    model, history = go(checkpoint=Checkpoint(folder))
    ours, theirs = (values(m, strategy) for m in (model, whole))
    different = [name for name in ours if not np.array_equal(ours[name], theirs[name])]
    report = {"replicas": strategy.num_replicas_in_sync, "epochs": len(history["loss"])}
    print(json.dumps({**report, "variables": len(ours), "different": different}))


def values(model, strategy):
    """Every variable on every replica."""
    return {
        f"{i} {variable.name if i < len(model.variables) else 'slot'} {replica}": value.numpy()
        for i, variable in enumerate([*model.variables, *model.optimizer.variables])
        for replica, value in enumerate(strategy.experimental_local_results(variable.value))
    }


class End(keras.callbacks.Callback):
    """Ends the run with an error after the fifth step of the second epoch."""

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if (self.epoch, batch) == (1, 4):
            raise KeyError


if __name__ == "__main__":
    main(sys.argv[1])
