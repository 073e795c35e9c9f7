"""What `check_tpu_ready` says of modules of TensorFlow Hub."""

import numpy as np

from keras_transfer.distribute import check_tpu_ready
from keras_transfer.hub import HubEncoder
from keras_transfer.tasks import TextClassifier


def report_on(module, x=None):
    model = TextClassifier(HubEncoder(module), num_classes=2)
    model.compile(steps_per_execution=8)
    x = x or {name: np.ones((8, 4), "int32") for name in model.encoder.input}
    return check_tpu_ready(model, (x, [0] * 8))


def test_a_module_of_ids_can_train_in_its_own_precision(bert_module):
    (finding,) = report_on(bert_module).findings
    assert (finding.kind, finding.fails) == ("precision", False)
    assert "of the weights compute in float32" in finding.message and "A module of TensorFlow Hub" in finding.remedy


def test_a_module_that_reads_strings_cannot_train(text_module):
    finding = report_on(text_module, ["a good film"] * 8).findings[0]
    assert (finding.kind, finding.fails) == ("strings", True)
    assert "strings in x" in finding.message and "An encoder that reads strings" in finding.remedy
