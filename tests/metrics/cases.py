"""Random cases for the tests of metrics, all of one shape, with rows of weight 0 that must not count."""

import keras
from keras import ops

from tests.samples import WHOLE

ROWS = 24
# A thousand with KERAS_TRANSFER_TEST_WHOLE=1. On torch, which does not compile them, fewer cases run.
COUNT = 40 if keras.backend.backend() == "torch" else 1000 if WHOLE else 200


def random_weights(random):
    """Weights [ROWS], some of them 0: for every fourth case of all rows but two or fewer."""
    values = [[0.0, 1.0], [0.0, 1.0, 2.0, 3.0]][random.integers(2)]
    weights = random.choice(values, ROWS)
    if random.random() < 0.25:
        weights[random.integers(3) :] = 0.0
    return weights.astype("float32")


def result_of(metric, *data):
    """The result of a metric for one batch."""
    metric.reset_state()
    metric.update_state(*data)
    return ops.convert_to_numpy(metric.result())


def results_of(metrics, *cases):
    """The results of metrics with the same state for each of many cases, in a compiled loop: a list of arrays [cases].

    Args:
        metrics: List of metrics whose variables have the same shapes and meaning.
        *cases: Arrays [cases, rows, ...] of labels, outputs and weights.
    """
    for metric in metrics:
        if hasattr(metric, "build_for"):
            metric.build_for(cases[0].shape[1:], cases[1].shape[1:])
    zeros = [ops.zeros(variable.shape, variable.dtype) for variable in metrics[0].variables]

    def one(case):
        state = metrics[0].stateless_update_state(zeros, *case)
        return [metric.stateless_result(state) for metric in metrics]

    def all_cases(*cases):
        return ops.map(one, cases)

    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        all_cases = tf.function(all_cases)
    return [ops.convert_to_numpy(values) for values in all_cases(*map(ops.convert_to_tensor, cases))]
