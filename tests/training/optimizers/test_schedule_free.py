"""Keras's `ScheduleFreeAdamW` is refused where its steps are wrong, which is an error of some versions of Keras."""

import keras
import pytest

from keras_transfer.optimizers import LayerwiseOptimizer
from keras_transfer.training.rates import check_schedule_free
from tests.errors import check_errors
from tests.tasks import tiny

SECOND = 0.83044  # the weight after steps with the gradients 1 and 2, as the paper's algorithm computes it


def refused(optimizer):
    try:
        check_schedule_free(optimizer)
    except ValueError:
        return True
    return False


@pytest.mark.core
def test_it_is_refused_exactly_where_its_second_step_is_wrong():
    weight, optimizer = keras.Variable(1.0), keras.optimizers.ScheduleFreeAdamW(0.1)
    optimizer.build([weight])
    for gradient in (1.0, 2.0):
        optimizer.apply([keras.ops.convert_to_tensor(gradient)], [weight])
    is_wrong = abs(float(keras.ops.convert_to_numpy(weight)) - SECOND) > 1e-3
    assert is_wrong == refused(optimizer) == refused(keras.optimizers.LossScaleOptimizer(optimizer))
    assert not refused(keras.optimizers.AdamW())


def schedule_free():
    return keras.optimizers.ScheduleFreeAdamW(0.1)


if keras.backend.backend() != "jax":
    WRONG = "`ScheduleFreeAdamW` computes wrong steps ... Received: ScheduleFreeAdamW of Keras 3"
    test_a_task_and_a_wrapper_refuse_it = check_errors(
        (lambda: tiny.classifier().compile(schedule_free()), WRONG),
        (lambda: LayerwiseOptimizer(schedule_free(), tiny.classifier()), WRONG),
    )
