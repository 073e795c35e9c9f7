"""Training on several devices and machines: what Keras does not handle under `tf.distribute` and `keras.distribution`.

Names imported `as` themselves are for the library's other subpackages.
"""

from keras_transfer.distribute.memory import Memory, largest_batch, memory_estimate
from keras_transfer.distribute.model_parallel import ModelParallel, layout_map
from keras_transfer.distribute.processes import ALL as ALL
from keras_transfer.distribute.processes import Share as Share
from keras_transfer.distribute.processes import agree, barrier, gather, is_chief, processes_of
from keras_transfer.distribute.processes import in_first_process as in_first_process
from keras_transfer.distribute.processes import together as together
from keras_transfer.distribute.processes import write_together as write_together
from keras_transfer.distribute.remainders import cut_off as cut_off
from keras_transfer.distribute.remainders import fill_up as fill_up
from keras_transfer.distribute.remainders import first_rows as first_rows
from keras_transfer.distribute.remainders import own_rows as own_rows
from keras_transfer.distribute.remainders import repeat_rows as repeat_rows
from keras_transfer.distribute.remainders import whole_on_each_device as whole_on_each_device
from keras_transfer.distribute.replicas import check_accumulation as check_accumulation
from keras_transfer.distribute.replicas import check_distribution as check_distribution
from keras_transfer.distribute.replicas import check_scope as check_scope
from keras_transfer.distribute.replicas import check_stream as check_stream
from keras_transfer.distribute.replicas import factors_of_means as factors_of_means
from keras_transfer.distribute.replicas import replicas_of as replicas_of
from keras_transfer.distribute.replicas import share as share
from keras_transfer.distribute.replicas import share_of_loss as share_of_loss
from keras_transfer.distribute.replicas import track_loss as track_loss
from keras_transfer.distribute.start import initialize
from keras_transfer.distribute.strings import StringInputs
from keras_transfer.distribute.strings import reducible as reducible
from keras_transfer.distribute.tpu_report import TPUReport, check_tpu_ready

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
