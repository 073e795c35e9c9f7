"""Training on several devices and machines: what Keras does not handle under `tf.distribute` and `keras.distribution`.

Names imported `as` themselves are for the library's other subpackages.
"""

import sys

from keras_transfer.core.door import open_door
from keras_transfer.distribute.memory import Memory, largest_batch, memory_estimate
from keras_transfer.distribute.model_parallel import ModelParallel, layout_map
from keras_transfer.distribute.processes import agree, barrier, gather, is_chief, processes_of
from keras_transfer.distribute.start import initialize
from keras_transfer.distribute.strings import StringInputs
from keras_transfer.distribute.tpu_report import TPUReport, check_tpu_ready

# isort: split
# For other subpackages, not for users.
from keras_transfer.distribute.processes import ALL, Share, in_first_process, together, write_together
from keras_transfer.distribute.remainders import (
    cut_off,
    fill_up,
    first_rows,
    own_rows,
    repeat_rows,
    whole_on_each_device,
)
from keras_transfer.distribute.replicas import (
    check_distribution,
    check_scope,
    check_stream,
    factors_of_means,
    is_replica,
    replicas_of,
    share,
    share_of_loss,
    track_loss,
)
from keras_transfer.distribute.strings import reducible

__all__ = [
    "Memory",
    "ModelParallel",
    "StringInputs",
    "TPUReport",
    "agree",
    "barrier",
    "check_tpu_ready",
    "gather",
    "initialize",
    "is_chief",
    "largest_batch",
    "layout_map",
    "memory_estimate",
    "processes_of",
]

open_door(sys.modules[__name__])
