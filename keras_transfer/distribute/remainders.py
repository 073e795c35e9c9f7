"""Rows that the devices of JAX cannot share evenly: each device computes all of them."""

import dataclasses

import keras


class AllRows(keras.distribution.DataParallel):
    """A distribution of data that each device reads whole. Weights and activations are where another one puts them.

    Args:
        other: `keras.distribution.Distribution`.
    """

    def __init__(self, other):
        super().__init__(devices=other.device_mesh.devices.flatten().tolist(), auto_shard_dataset=False)
        self._other = other

    def get_data_layout(self, data_shape):
        return keras.distribution.TensorLayout([None] * len(data_shape), self.device_mesh)

    def get_variable_layout(self, variable):
        return self._other.get_variable_layout(variable)

    def get_tensor_layout(self, path):
        return self._other.get_tensor_layout(path)

    def distribute_dataset(self, dataset):
        return dataset


def evaluate_all_rows(model, evaluate, data, **options):
    """Evaluates a model on batches of which its devices on JAX may not be able to share all rows evenly.

    Args:
        model: Task. Its `reset_metrics` must do nothing while its `keeps_metrics` is `True`.
        evaluate: `evaluate` of `keras.Model` for this task.
        data: `Batches`, or another dataset, which is evaluated as it is.
        **options: Further arguments of `evaluate`.
    """
    distribution, share = keras.distribution.distribution(), getattr(getattr(data, "options", None), "share", None)
    if distribution is None or share is None or share.replicas is None:
        return evaluate(data, **options)
    # These are not the batches of the iterator that Keras has made for the validation data of `fit`.
    options["_use_cached_eval_dataset"] = False
    rest = data.with_share(dataclasses.replace(share, rest=True))
    data = data.with_share(share)
    if not len(rest):
        return evaluate(data, **options)
    with AllRows(distribution).scope():
        quiet = {} if not len(data) else {"verbose": 0, "callbacks": None}
        found = evaluate(rest, **{**options, **quiet})
    if not len(data):
        return found
    model.keeps_metrics = True
    try:
        return evaluate(data, **options)
    finally:
        model.keeps_metrics = False


def whole_on_each_device(outputs):
    """Returns the outputs of a step such that each process can read all of their rows.

    Args:
        outputs: Structure of tensors.
    """
    distribution = keras.distribution.distribution()
    if distribution is None:
        return outputs

    def whole(output):
        layout = keras.distribution.TensorLayout([None] * len(output.shape), distribution.device_mesh)
        return keras.distribution.distribute_tensor(output, layout)

    return keras.tree.map_structure(whole, outputs)
