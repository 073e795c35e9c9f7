"""What users pass to a task as labels: each kind with its losses and metrics, and its checks."""

from keras_transfer.tasks.labels.class_labels import ClassNames, MultiHot, most_likely, weights_of_classes
from keras_transfer.tasks.labels.flat import flat_labels, with_flat_labels
from keras_transfer.tasks.labels.keras_losses import NAMED_LOSSES, trains_classes_apart
from keras_transfer.tasks.labels.label_checks import check_class_labels, check_multi_hot
from keras_transfer.tasks.labels.labels import Labels
from keras_transfer.tasks.labels.named_labels import NamedLabels
from keras_transfer.tasks.labels.numbers import Numbers
from keras_transfer.tasks.labels.own_loss import OwnLoss
from keras_transfer.tasks.labels.used_places import UsedPlaces

__all__ = [
    "NAMED_LOSSES",
    "ClassNames",
    "Labels",
    "MultiHot",
    "NamedLabels",
    "Numbers",
    "OwnLoss",
    "UsedPlaces",
    "check_class_labels",
    "check_multi_hot",
    "flat_labels",
    "most_likely",
    "trains_classes_apart",
    "weights_of_classes",
    "with_flat_labels",
]
