"""Run by test_dialogues.py in the process with two CPU devices: a dialogue model on one device and on two replicas."""

import keras

from tests.strategies import two_replicas
from tests.tasks.dialogue.test_dialogue_model import EXAMPLES, model
from tests.tasks.tiny import difference


def main():
    """The losses of a step of one device and of two replicas, and how far the weights are apart and moved."""
    strategy, losses = two_replicas(), []
    one = dialogue_model()
    with strategy.scope():
        two = dialogue_model()
    one.run_eagerly = True
    start = one.get_weights()
    two.set_weights(start)
    examples = [EXAMPLES[0]] * 4  # Each replica's loss is the mean over its own tokens.
    for task in (one, two):
        losses += task.fit(examples, batch_size=4, shuffle=False, verbose=0).history["loss"]
    return {
        "losses": losses,
        "weights": difference(two.get_weights(), one.get_weights()),
        "moved": difference(one.get_weights(), start),
    }


def dialogue_model():
    task = model()
    task.next_utterance.kernel.regularizer = keras.regularizers.L2(10.0)
    task.compile(keras.optimizers.SGD(0.1))
    return task
