"""What every metric must do, and random cases of one shape, with rows of weight 0 that must not count."""

import json

import keras
import numpy as np
import pytest
from keras import ops

from tests.helpers import EAGER, save_and_load
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


def run_metric_test(make, name, y_true, y_pred, expected, empty=0.0, loss="mse"):
    """Checks a metric: its value, batches, weights, reset, config, half precision, graphs, `evaluate` and `.keras`.

    Args:
        make: function that makes the metric from `name`: its class, or a `functools.partial` of the class with other
            arguments, which its config must contain.
        name: string, its default name.
        y_true: array [batch, ...] of labels.
        y_pred: array [batch, ...] of outputs, with at least two axes.
        expected: float, the value for all rows.
        empty: float, the value without rows. Defaults to `0.0`.
        loss: loss for `y_true` and `y_pred`. A model must have one. Defaults to `"mse"`.
    """
    metric, rows, expected = make(), len(y_true), pytest.approx(expected, abs=1e-5)
    assert metric.name == name and make(name="other").name == "other"
    assert float(metric.result()) == pytest.approx(empty, nan_ok=True)
    for part in np.array_split(np.arange(rows), 3):
        metric.update_state(y_true[part], y_pred[part])
    assert float(metric.result()) == expected
    metric.reset_state()
    assert float(metric.result()) == pytest.approx(empty, nan_ok=True)

    # Rows of weight 0 do not count.
    more = np.concatenate([y_true, y_true]), np.concatenate([y_pred, y_pred[::-1]])
    weights = np.repeat(np.array([2.0, 0.0], "float32"), rows)
    assert float(result_of(metric, *more, weights)) == expected
    [in_graph] = results_of([make()], *(values[None] for values in (*more, weights)))
    assert float(in_graph[0]) == expected

    half = y_pred.astype("float16")
    assert float(result_of(metric, y_true, half)) == float(result_of(metric, y_true, half.astype("float32")))

    config = make(name="other").get_config()
    assert type(metric).from_config(json.loads(json.dumps(config))).get_config() == config
    given = getattr(make, "keywords", {})
    assert {key: config[key] for key in given} == given
    model = pass_through(y_pred.shape[1:], loss, metrics=[make()], run_eagerly=EAGER)
    logs = model.evaluate(y_pred, y_true, batch_size=rows // 2, verbose=0, return_dict=True)
    assert logs[name] == expected
    again = save_and_load(model)
    again.run_eagerly = EAGER
    assert again.evaluate(y_pred, y_true, batch_size=rows // 2, verbose=0, return_dict=True) == logs


CROSSENTROPY = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1)


def pass_through(shape, loss, **options):
    """Returns a compiled model whose outputs are its inputs [batch, *shape], even after `fit`."""
    inputs = keras.Input(shape)
    model = keras.Model(inputs, keras.layers.Dense(shape[-1], kernel_initializer="identity")(inputs))
    model.compile(keras.optimizers.SGD(0.0), loss, **options)
    return model


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
