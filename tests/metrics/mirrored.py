"""Run by test_in_fit.py in the process with two CPU devices: the metrics on one device and on two replicas."""

import numpy as np

from keras_transfer.metrics import PearsonCorrelation
from tests.metrics.cases import CROSSENTROPY, pass_through, result_of
from tests.metrics.test_in_fit import CLASSES, class_data, class_metrics
from tests.strategies import two_replicas


def main():
    """The results of metrics for all rows at once, and of `evaluate` with two replicas and a short last batch."""
    true, outputs, weights = class_data(rows=27)
    weights[3:6] = 0.0
    strategy = two_replicas()
    with strategy.scope():
        model = pass_through((CLASSES,), CROSSENTROPY, weighted_metrics=class_metrics())
    logs = model.evaluate(outputs, true, batch_size=8, sample_weight=weights, verbose=0, return_dict=True)
    one = {metric.name: float(result_of(metric, true, outputs, weights)) for metric in class_metrics()}
    return {"replicas": strategy.num_replicas_in_sync, "one": one, "two": {name: float(logs[name]) for name in one}}


def full():
    """The correlation of 8 rows with themselves on two replicas, with room for 7 rows."""
    rows = np.arange(8, dtype="float32")[:, None]
    with two_replicas().scope():
        model = pass_through((1,), "mse", metrics=[PearsonCorrelation(capacity=7)])
    return float(model.evaluate(rows, rows, batch_size=8, verbose=0, return_dict=True)["pearson_correlation"])
