"""The official metrics of the tasks of GLUE and SuperGLUE."""

import difflib

import keras

from keras_transfer.metrics.class_counts import F1, MatthewsCorrelation
from keras_transfer.metrics.correlations import PearsonCorrelation, SpearmanCorrelation


def _accuracy():
    return keras.metrics.SparseCategoricalAccuracy(name="accuracy")


def _binary_f1():
    return F1("binary")


# From the name of a task to functions that create its metrics.
METRICS = {
    "CoLA": (MatthewsCorrelation,),
    "SST-2": (_accuracy,),
    "MRPC": (_accuracy, _binary_f1),
    "STS-B": (PearsonCorrelation, SpearmanCorrelation),
    "QQP": (_accuracy, _binary_f1),
    "MNLI": (_accuracy,),
    "QNLI": (_accuracy,),
    "RTE": (_accuracy,),
    "WNLI": (_accuracy,),
    "BoolQ": (_accuracy,),
    "CB": (_accuracy, F1),
    "COPA": (_accuracy,),
    "WiC": (_accuracy,),
    "WSC": (_accuracy,),
}


def glue_metrics(task):
    """Returns new metrics for `compile`: the official ones of a task of GLUE or SuperGLUE.

    Accuracy, Matthews correlation (CoLA), F1 of class 1 (MRPC, QQP), macro F1 (CB), Pearson and Spearman correlations
    (STS-B). MultiRC and ReCoRD are scored per question, so a metric of rows cannot compute their scores.

    Args:
        task: String. `"CoLA"`, `"SST-2"`, `"MRPC"`, `"STS-B"`, `"QQP"`, `"MNLI"`, `"QNLI"`, `"RTE"`, `"WNLI"`,
            `"BoolQ"`, `"CB"`, `"COPA"`, `"WiC"` or `"WSC"`. Case, dashes and underscores do not matter.

    Returns:
        A list of new Keras metrics of logits and integer labels, or of outputs and targets (STS-B).

    Raises:
        ValueError: If the task is unknown.

    Example:
    ```python
    [metric.name for metric in keras_transfer.metrics.glue_metrics("MRPC")]  # ["accuracy", "f1"]
    ```

    Source: Wang et al., "GLUE", 2018; Wang et al., "SuperGLUE", 2019.
    """
    names = {_plain(name): name for name in METRICS}
    if _plain(task) not in names:
        close = difflib.get_close_matches(_plain(task), names, n=1)
        hint = f" Did you mean {names[close[0]]!r}?" if close else ""
        raise ValueError(f"Unknown task. Expected one of {tuple(METRICS)}. Received: task={task!r}.{hint}")
    return [create() for create in METRICS[names[_plain(task)]]]


def _plain(name):
    return str(name).lower().replace("-", "").replace("_", "")
