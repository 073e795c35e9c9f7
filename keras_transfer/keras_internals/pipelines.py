"""The pipelines through which Keras reads a `PyDataset`."""

from keras.src.trainers.data_adapters.data_adapter import DataAdapter
from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter


class ChangedPipeline(PyDatasetAdapter):
    """A data adapter for `keras.utils.PyDataset`s, which Keras's methods on TensorFlow read through another pipeline.

    Keras's methods take data adapters as `x`, and use them instead of creating one. They ignore `class_weight` and
    `shuffle` then.

    Args:
        dataset: `keras.utils.PyDataset`.
        change: Function that takes the `tf.data.Dataset` that Keras creates and returns another one.
        class_weight: As in `fit`. Defaults to `None`.
        shuffle: As in `fit`. Defaults to `False`.
    """

    def __init__(self, dataset, change, class_weight=None, shuffle=False):
        super().__init__(dataset, class_weight=class_weight, shuffle=shuffle)
        self._change = change

    def get_tf_dataset(self):
        return self._change(super().get_tf_dataset())


def is_adapter(x):
    """Returns whether `x` is a data adapter of Keras, which its methods take as `x`."""
    return isinstance(x, DataAdapter)
