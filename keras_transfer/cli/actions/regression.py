"""The scores of a regressor as text."""

import keras

from keras_transfer.analysis.output import Table
from keras_transfer.metrics.regression import PearsonCorrelation, SpearmanCorrelation


def describe_numbers(labels, predicted):
    """Returns the errors and the correlations of predicted numbers as a table of text, given two lists or arrays."""
    metrics = [keras.metrics.MeanSquaredError(), keras.metrics.MeanAbsoluteError()]
    metrics += [PearsonCorrelation(capacity=len(labels)), SpearmanCorrelation(capacity=len(labels))]
    rows = []
    for metric in metrics:
        metric.update_state(labels, predicted)
        rows.append([metric.name.replace("_", " "), f"{float(metric.result()):.4f}"])
    return Table(f"{len(labels):,} rows", ["", "value"], rows).to_text()
