"""Data without rows, which is never passed to a model."""

import keras


class NoRows(keras.utils.PyDataset):
    """The dataset for data without rows.

    Keras and its kernels fail on empty batches, so `predict` returns a result without running the model.

    Args:
        columns: Columns without rows, as `columns_of` returns them.
    """

    def __init__(self, columns):
        super().__init__()
        self.columns = columns

    def __len__(self):
        return 0


def no_outputs(task, columns):
    """Returns what `predict` returns for data without rows.

    Args:
        task: Functional model.
        columns: Columns without rows. Arrays of shape [0, length] determine the length of the outputs.

    Returns:
        Array of shape [0, ...], or the structure of such arrays that the model returns.
    """
    shapes = [column.shape for column in columns.values()] if isinstance(columns, dict) else []
    length = next((shape[1] for shape in shapes if len(shape) > 1), 0)

    def empty(output):
        shape = (0, *(length if size is None else size for size in output.shape[1:]))
        return keras.ops.convert_to_numpy(keras.ops.zeros(shape, output.dtype))

    return keras.tree.map_structure(empty, task.output)
