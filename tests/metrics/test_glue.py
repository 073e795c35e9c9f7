"""`glue_metrics` returns the official metrics of each task."""

import pytest

from keras_transfer.metrics import glue_metrics
from tests.errors import check_errors

TASKS = {
    ("accuracy",): ["SST-2", "MNLI", "QNLI", "RTE", "WNLI", "BoolQ", "COPA", "WiC", "WSC", "AX-g"],
    ("accuracy", "f1"): ["MRPC", "QQP", "CB"],
    ("f1",): ["MultiRC"],
    ("matthews_correlation",): ["CoLA", "AX-b"],
    ("pearson_correlation", "spearman_correlation"): ["STS-B"],
}
NAMES = {task: list(names) for names, tasks in TASKS.items() for task in tasks}


@pytest.mark.parametrize("task", NAMES)
def test_each_task_has_its_metrics_whatever_the_spelling(task):
    for spelling in (task, task.lower(), task.upper().replace("-", "_")):
        assert [metric.name for metric in glue_metrics(spelling)] == NAMES[task]


def test_mrpc_and_multirc_have_the_f1_of_class_1_and_cb_the_mean_over_classes():
    assert glue_metrics("MRPC")[1].average == glue_metrics("MultiRC")[0].average == "binary"
    assert glue_metrics("CB")[1].average == "macro"


def test_metrics_are_new_each_time():
    first, second = glue_metrics("MRPC")[1], glue_metrics("MRPC")[1]
    first.update_state([1], [2.0])
    assert float(first.result()) == 1 and float(second.result()) == 0


test_an_unknown_task_is_an_error_with_the_closest_name = check_errors(
    (
        lambda: glue_metrics("stsbb"),
        "Unknown task. Did you mean 'STS-B'? Expected one of ['CoLA', ... Received: 'stsbb'",
    ),
    (lambda: glue_metrics(None), "Received: None"),
)
