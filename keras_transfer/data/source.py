"""What a task and a run ask of the user's data, whatever its form: `Batches` in memory, a `Stream`, or a dataset."""

from typing import Any

import keras


class Source:
    """The user's data as batches, which `source_of` of a task returns and every method asks, instead of its class.

    Attributes:
        in_memory: Boolean. Whether all rows are in memory, so that `predict` has a result for each of them.
        is_empty: Boolean. Whether there are no rows, so that the model must not run.
        reshuffled: Boolean. Whether each epoch has a different order.
        one_epoch: Boolean. Whether every reading is that of the first epoch, as for evaluation.
        num_streams: Integer. The number of long texts whose windows continue each other, or `None` for separate rows.
        kind: String. What a row of inputs is, as in a `Layout`. `None` if it is unknown.
        has_labels: Boolean. Whether the items contain labels, as those of an unknown dataset are assumed to do.
        labels: The labels of all rows in memory, or `None`.
        spec: Structure of the `tf.TensorSpec`s of an item, or `None` if it is unknown.
        is_read_once: Boolean. Whether Keras must not read a batch before the run, as of a generator.
        error: The error in a batch, which TensorFlow reports without its type, or `None`.
        position: `LoaderPosition`, the state of a loader that has one, or `None`.
    """

    in_memory: bool = False
    is_empty: bool = False
    reshuffled: bool = False
    one_epoch: bool = False
    num_streams: int | None = None
    kind: str | None = None
    has_labels: bool = True
    labels: Any = None
    spec: Any = None
    is_read_once: bool = False
    error: BaseException | None = None
    position: Any = None

    @property
    def state_holder(self):
        """What has `state_dict` and `load_state_dict`, if a run can be resumed within an epoch of this data."""
        return self if self.position is None else self.position

    def for_user(self):
        """Returns the data in the form that `Task.dataset` returns.

        Returns:
            A dataset that `fit` accepts in place of the data.
        """
        return self

    def for_keras(self, may_end_early=False):
        """Returns the data in the form that Keras's methods should receive.

        Args:
            may_end_early: Boolean. Whether an epoch may end early, such as a resumed one. A pipeline that is read only
                once is then slower. Defaults to `False`.

        Returns:
            A dataset, on TensorFlow a `tf.data.Dataset`.
        """
        return self

    def options_of_fit(self, shuffle, class_weight):
        """Returns what Keras's `fit` has to do itself. Batches of ours have an order and weights already.

        Args:
            shuffle: Boolean. Whether the user wants the data shuffled.
            class_weight: The user's weights of classes, or `None`.

        Returns:
            Dict of the arguments `shuffle` and `class_weight` of Keras's `fit`.
        """
        return {"shuffle": False, "class_weight": None}


class GivenDataset(Source):
    """A dataset that Keras reads itself, such as a `PyDataset` of the user."""

    def __init__(self, dataset):
        self.dataset = dataset

    @property
    def state_holder(self):
        return self.dataset

    def for_user(self):
        return self.dataset

    def for_keras(self, may_end_early=False):
        return self.dataset

    def options_of_fit(self, shuffle, class_weight):
        return {"shuffle": shuffle and isinstance(self.dataset, keras.utils.PyDataset), "class_weight": class_weight}


class NoRows(Source, keras.utils.PyDataset):
    """Data in memory without rows, on which Keras and its kernels fail."""

    in_memory = is_empty = True
    has_labels = False

    def __init__(self, columns):
        super().__init__()
        self.columns = columns

    def __len__(self):
        return 0


def for_keras(data, may_end_early=False):
    """Returns a `Source` in the form that Keras's methods should receive, and anything else unchanged."""
    return data.for_keras(may_end_early) if isinstance(data, Source) else data
