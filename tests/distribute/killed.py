"""Trains in as many processes as a launcher starts, one of which may kill itself, and writes the final weights."""

import os
import pathlib
import signal
import sys
import threading
import time

import keras
import numpy as np

import keras_transfer as kt


class Dies(keras.callbacks.Callback):
    """Kills the process after a batch of an epoch."""

    def __init__(self, epoch, batch):
        super().__init__()
        self.place, self.epoch = (epoch, batch), None

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if (self.epoch, batch) == self.place:
            os.kill(os.getpid(), signal.SIGKILL)


def die():
    print(f"killed at {time.time()}", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def main(folder, dies, seconds=None, epochs=2, whole=None):
    """Trains, and then again from the beginning in the folder `whole`, if there is one."""
    devices = kt.distribute.initialize(seed=0)
    train(devices, folder, dies, seconds, epochs)
    if whole is not None:
        keras.utils.set_random_seed(0)
        train(devices, whole, "none", None, epochs)


def train(devices, folder, dies, seconds, epochs):
    """Trains. Process `dies` is killed after a batch of the second epoch, or so many seconds after `fit` began."""
    from tests.distribute.examples import examples
    from tests.tasks import tiny

    folder = pathlib.Path(folder)
    texts, labels = examples(48)
    with devices.scope():
        model = tiny.classifier()
        model.compile(keras.optimizers.Adam(0.01))
    callbacks = [kt.callbacks.TrainingCheckpoint(folder / "run", save_every=2)]
    if dies == str(kt.distribute.processes_of()[0]):
        if seconds is None:
            callbacks.append(Dies(1, 3))
        else:
            timer = threading.Timer(float(seconds), die)
            timer.daemon = True
            timer.start()
    began = time.monotonic()
    model.fit(texts, labels, batch_size=8, epochs=int(epochs), verbose=0, callbacks=callbacks)
    print(f"trained in {time.monotonic() - began:.1f} seconds")
    weights = model.get_weights()
    if kt.distribute.is_chief():
        np.savez(folder / "weights.npz", *weights)


if __name__ == "__main__":
    main(*sys.argv[1:])
