"""The private names of Keras, TensorFlow and tensorflow_hub on which the library relies, one subject a file.

`tests/keras_internals` fails if one of them is gone.
"""

from keras_transfer.keras_internals import hub_modules, keras_callbacks, layer_tracking, optimizers, trainer
from keras_transfer.keras_internals.autocast import without_autocast
from keras_transfer.keras_internals.graph_passes import with_few_passes
from keras_transfer.keras_internals.graphs import NotCloned
from keras_transfer.keras_internals.optimizers import accumulation_steps
from keras_transfer.keras_internals.saving import in_safe_mode, in_symbolic_scope
from keras_transfer.keras_internals.tapes import is_recorded, unrecorded
from keras_transfer.keras_internals.tracing import call_shared, in_plain_graph, predict_batch, trace_predict
from keras_transfer.keras_internals.trainable import (
    ReachesAllLayers,
    could_train,
    layers_within,
    remember_trainable,
    set_trainable,
)
from keras_transfer.keras_internals.trainer import (
    BuildsFromOneReplica,
    build_for_step,
    build_metrics,
    has_metrics,
    keep_values,
)
