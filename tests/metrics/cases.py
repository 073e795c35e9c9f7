"""Random cases for the tests of metrics, all of one shape, with rows of weight 0 that must not count."""

import keras
import numpy as np

ROWS = 24
# Eager operations are slower on other backends, which run fewer cases.
COUNT = 1000 if keras.backend.backend() == "tensorflow" else 40


def random_weights(random):
    """Weights [ROWS], some of them 0: for every fourth case of all rows but two or fewer."""
    values = [[0.0, 1.0], [0.0, 1.0, 2.0, 3.0]][random.integers(2)]
    weights = random.choice(values, ROWS)
    if random.random() < 0.25:
        weights[random.integers(3) :] = 0.0
    return weights


def class_cases(count, classes):
    """`(labels, logits, weights)` of `count` cases, some without rows or with few of the classes."""
    random = np.random.default_rng(classes)
    for _ in range(count):
        present = random.choice(classes, random.integers(1, classes + 1), replace=False)
        labels = random.choice(present, ROWS)
        logits = random.permuted(np.tile(np.arange(classes) / 2.0, (ROWS, 1)), axis=1).astype("float32")
        logits[:, random.integers(classes)] += random.integers(3) + 0.25  # without ties
        logits[random.random(ROWS) < 0.3, labels[0]] += 5.25
        yield labels, logits, random_weights(random)


def result_of(metric, *data):
    """The result of a metric for one batch."""
    metric.reset_state()
    metric.update_state(*data)
    return keras.ops.convert_to_numpy(metric.result())
