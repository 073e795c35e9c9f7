"""Run by test_tf1_models.py in the process with two CPU devices: one device and two replicas."""

import pathlib

import keras
import numpy as np
import tensorflow as tf

from keras_transfer.hub import HubError, HubLayer
from tests.hub import tf1_modules
from tests.strategies import two_replicas
from tests.tasks import tiny

TEXTS = np.array(tf1_modules.TEXTS * 2)
NUMBERS = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")
INPUTS = {"elmo": TEXTS, "vocabulary": TEXTS, "batch norm": NUMBERS}


def main(folder):
    folder = pathlib.Path(folder)
    strategy = two_replicas()
    report = {name: compared(name, strategy, folder / name) for name in INPUTS}
    report["replicas"] = strategy.num_replicas_in_sync
    report["error"] = message(lambda: model("reference variables", trainable=False), strategy)
    return report


def model(name, trainable=True):
    keras.utils.set_random_seed(0)
    tags = [] if name == "elmo" else None  # without its dropout
    layer = HubLayer(tf1_modules.folder(name), trainable, tags=tags, output_key="default", name="hub")
    return keras.Sequential([layer, keras.layers.Dense(1)])


def compared(name, strategy, folder):
    """Returns the weights of one device and of two replicas, and predictions of the latter's export."""
    inputs = tf.constant(INPUTS[name])
    one = model(name)
    one(inputs)
    start = one.get_weights()
    with strategy.scope():
        two = model(name)
        two.build(inputs.shape)
    two.set_weights(start)
    trained(one, inputs, tf.distribute.get_strategy())
    trained(two, inputs, strategy)
    apart = [strategy.experimental_local_results(weight.value) for weight in two.weights]
    answers = one(inputs), two(inputs)
    two.export(folder, verbose=False, input_signature=[tf.TensorSpec([None, *inputs.shape[1:]], inputs.dtype)])
    exported = tf.saved_model.load(str(folder))
    return {
        "difference": tiny.difference(one.get_weights(), two.get_weights()),
        "replicas": tiny.difference(*zip(*[[each.numpy() for each in values] for values in apart])),
        "moved": [bool(np.any(new != old)) for new, old in zip(one.get_weights(), start)],
        "answers": tiny.difference(*[[each.numpy()] for each in answers]),
        "export": tiny.difference([exported.serve(inputs).numpy()], [answers[1].numpy()]),
    }


def trained(model, inputs, strategy):
    """Runs three steps of plain gradient descent. Each of two replicas gets half of the batch."""
    halves = [inputs[:4], inputs[4:]] if strategy.num_replicas_in_sync == 2 else [inputs]

    @tf.function(autograph=False)
    def step():
        def replica():
            index = tf.distribute.get_replica_context().replica_id_in_sync_group
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(model(half(index), training=True) ** 2) + sum(model.losses) / len(halves)
            weights = [weight.value for weight in model.trainable_weights]
            gradients = tape.gradient(loss, weights, unconnected_gradients="zero")
            gradients = tf.distribute.get_replica_context().all_reduce(
                "SUM", list(map(tf.convert_to_tensor, gradients))
            )
            for weight, gradient in zip(weights, gradients):
                weight.assign_sub(0.001 * gradient)

        def half(index):
            return halves[0] if len(halves) == 1 else tf.cond(tf.equal(index, 0), lambda: halves[0], lambda: halves[1])

        strategy.run(replica)

    for _ in range(3):
        step()


def message(function, strategy):
    try:
        with strategy.scope():
            function()
    except HubError as error:
        return str(error)
    return None
