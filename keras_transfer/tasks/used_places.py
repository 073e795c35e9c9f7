"""The loss of a task whose labels have unused places, such as padding, for any loss that `compile` receives."""

import keras
from keras import ops

from keras_transfer.data import UNUSED
from keras_transfer.tasks.keras_losses import takes_vectors

_MEANS = ("sum_over_batch_size", "mean")


@keras.saving.register_keras_serializable(package="keras_transfer")
class UsedPlaces(keras.losses.Loss):
    """A loss that counts only the used places: it is their mean, or their sum, whatever the padding.

    Keras's and this library's losses never see a negative label. A user's own loss does, and decides itself if it
    returns fewer values than there are places. With `by_weight`, places whose sample weight is 0 are unused, too.
    """

    takes_integers = counts_used_places = True

    def __init__(self, loss, by_weight=False):
        is_object = isinstance(loss, keras.losses.Loss)
        options = {"reduction": loss.reduction, "dtype": loss.dtype} if is_object else {}
        # TensorFlow accepts no scope with the name of a lambda.
        super().__init__(name=loss.name if is_object else None, **options)
        self.loss, self.by_weight = loss, by_weight
        self._is_own = takes_vectors(loss) is None  # It may leave out negative labels itself.

    def __call__(self, y_true, y_pred, sample_weight=None):
        y_true = ops.convert_to_tensor(y_true)
        if sample_weight is not None:
            sample_weight = ops.convert_to_tensor(sample_weight)
            if len(sample_weight.shape) == 1:  # They are weights of rows.
                sample_weight = sample_weight[:, None]
            if self.by_weight:
                y_true = ops.where(sample_weight == 0, ops.cast(UNUSED, y_true.dtype), y_true)
        if self.reduction == "mean_with_sample_weight":
            used = ops.cast(y_true >= 0, self.dtype)
            sample_weight = used if sample_weight is None else used * ops.cast(sample_weight, self.dtype)
        return super().__call__(y_true, y_pred, sample_weight)

    def call(self, y_true, y_pred):
        used = y_true >= 0
        labels = y_true if self._is_own else ops.maximum(y_true, 0)
        losses = getattr(self.loss, "call", self.loss)(labels, y_pred)
        if len(losses.shape) != len(used.shape):
            return losses
        losses = ops.where(used, losses, 0)
        if self.reduction not in _MEANS:
            return losses
        # Keras divides by the number of all places.
        count = ops.maximum(ops.sum(ops.cast(used, losses.dtype)), 1)
        return losses * (ops.cast(ops.size(losses), losses.dtype) / count)

    def get_config(self):
        return {"loss": keras.saving.serialize_keras_object(self.loss), "by_weight": self.by_weight}

    @classmethod
    def from_config(cls, config):
        return cls(keras.saving.deserialize_keras_object(config["loss"]), config["by_weight"])


def of_used_places(loss, by_weight):
    """Returns a loss of `compile` that counts only the used places, or raises a `ValueError` if it ignores others."""
    loss = keras.losses.get(loss)
    if loss is None or getattr(loss, "counts_used_places", False):
        return loss
    ignored = loss.get_config().get("ignore_class") if isinstance(loss, keras.losses.Loss) else None
    if ignored not in (None, UNUSED):
        raise ValueError(
            f"`loss` must ignore the label {UNUSED}, which marks unused places, and no class. Use `loss='auto'`, or "
            f"leave `ignore_class` out. Received: ignore_class={ignored!r}"
        )
    return loss if ignored == UNUSED and not by_weight else UsedPlaces(loss, by_weight)
