"""The official metrics for the tasks of GLUE and SuperGLUE."""

import keras

from keras_transfer.core.names import look_up
from keras_transfer.metrics.class_counts import F1Score, MatthewsCorrelation
from keras_transfer.metrics.correlations import PearsonCorrelation, SpearmanCorrelation


def _accuracy():
    return keras.metrics.SparseCategoricalAccuracy(name="accuracy")


def _binary_f1():
    return F1Score("binary")


# Maps the name of a task to functions that create its metrics.
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
    "CB": (_accuracy, F1Score),
    "COPA": (_accuracy,),
    "WiC": (_accuracy,),
    "WSC": (_accuracy,),
    "MultiRC": (_binary_f1,),
    "AX-b": (MatthewsCorrelation,),
    "AX-g": (_accuracy,),
}


def glue_metrics(task: str) -> list:
    """Returns the official metrics of a task of GLUE or SuperGLUE, newly created for `compile`.

    These are accuracy, Matthews correlation (CoLA, AX-b), F1 of class 1 (MRPC, QQP, MultiRC), macro F1 (CB), and
    Pearson and Spearman correlations (STS-B). Scores that combine several rows are missing, because a metric of single
    rows cannot compute them: the exact match of MultiRC, whose F1 is computed over all answers, the gender parity of
    AX-g, and both scores of ReCoRD.

    Args:
        task: String. `"CoLA"`, `"SST-2"`, `"MRPC"`, `"STS-B"`, `"QQP"`, `"MNLI"`, `"QNLI"`, `"RTE"`, `"WNLI"`,
            `"BoolQ"`, `"CB"`, `"COPA"`, `"WiC"`, `"WSC"`, `"MultiRC"`, `"AX-b"` or `"AX-g"`. Case, dashes and
            underscores do not matter.

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
    return [create() for create in METRICS[look_up(task, METRICS, "task")]]
