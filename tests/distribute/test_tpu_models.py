"""Tasks have a training step that suits a TPU, as far as can be seen without one."""

import keras
import pytest

from keras_transfer.distribute import check_tpu_ready
from tests.tasks.test_tasks import CASES

pytestmark = [
    pytest.mark.core,
    pytest.mark.skipif(keras.backend.backend() == "torch", reason="torch is refused"),
]


@pytest.fixture(autouse=True)
def mixed_bfloat16():
    keras.config.set_dtype_policy("mixed_bfloat16")
    yield
    keras.config.set_dtype_policy("float32")


@pytest.mark.parametrize("name", ["classes", "words", "next tokens"])
def test_a_task_is_ready(name):
    make, x, y, *_ = CASES[name]
    model = make()
    model.compile(steps_per_execution=8)
    report = check_tpu_ready(model, (x * 2, None if y is None else y * 2))
    assert report.ok, str(report)
