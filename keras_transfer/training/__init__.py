"""What a run needs: optimizers, stages inside `fit`, and training checkpoints.

Its public names are in `keras_transfer.optimizers`, `keras_transfer.callbacks` and `keras_transfer.adaptation`.
"""

from keras_transfer.training.averaging import NTASGD, NonMonotonicTrigger
from keras_transfer.training.building import build_optimizer, labels_of_update
from keras_transfer.training.checkpoint_files import CHECKPOINT_NAME
from keras_transfer.training.fitting import epochs_of_steps, fit_in_run
from keras_transfer.training.freezing import freeze, freeze_to, trainable_summary, unfreeze
from keras_transfer.training.fused_adamw import FusedAdamW
from keras_transfer.training.generation_metrics import GenerationMetrics
from keras_transfer.training.gradients import gradient_of, train_step
from keras_transfer.training.groups import LayerGroup, LayerGroups, depth_of, layer_groups, select_groups
from keras_transfer.training.layerwise import LayerwiseOptimizer
from keras_transfer.training.part_step import step_of_part, weighed_step
from keras_transfer.training.penalties import EWC, L2SP, Penalty, PenaltyLogger
from keras_transfer.training.plans import (
    ChainThaw,
    GradualUnfreezing,
    LinearProbe,
    SequentialUnfreezing,
    StagedTraining,
)
from keras_transfer.training.progress import RunCallback, sync
from keras_transfer.training.rates import check_schedule_free, fine_tuning_rate
from keras_transfer.training.schedules import (
    InverseSquareRoot,
    LinearWarmupDecay,
    OneCycle,
    SlantedTriangular,
    WarmupCosine,
    WindowRate,
    or_schedule,
)
from keras_transfer.training.stages import COUNT, Stage
from keras_transfer.training.training_checkpoint import TrainingCheckpoint

__all__ = []
