"""A training step as `fit` runs it, traced for a batch of given shapes, but not run."""

import keras
import numpy as np

from keras_transfer.core.expect import expect
from keras_transfer.distribute.replicas import replicas_of
from keras_transfer.keras_internals import build_for_step


def batches_for_step(model, batch, name):
    """Returns the first batch of the user's data and, if it may have another shape, the last one, as `fit` gets them.

    The second result is what a dataset says of each of its batches, or None if it says nothing.

    Args:
        batch: Tuple of inputs, labels and, possibly, sample weights, or a dataset of batches.
        name: String. The public function for which the step is traced.
    """
    expect(getattr(model, "compiled", False), f"Call `compile` before `{name}`.", model=model)
    replicas, _ = replicas_of(model)
    distribution = keras.distribution.distribution()
    if replicas > 1 or distribution is not None:
        received = f"{replicas} replicas" if distribution is None else f"the distribution {type(distribution).__name__}"
        raise ValueError(
            f"`{name}` needs a model on one device. Create it outside of the strategy's scope, and without a "
            f"distribution. Received: a model on several devices ({received})"
        )
    batches, spec = _batches_of(model, batch)
    has_rows = bool(batches) and tuple(keras.tree.flatten(batches[0])[0].shape[:1]) != (0,)
    expect(has_rows, "`batch` must have at least one row.", rows=0)
    return batches, spec


def _batches_of(model, batch):
    is_batch = isinstance(batch, tuple)
    if hasattr(model, "labels"):  # A task makes arrays of texts, and of a dataset of texts.
        parts = tuple(batch) if is_batch else (batch,)
        batch = model.dataset(*parts, **({"batch_size": 2**31} if is_batch else {}))
        has_labels = getattr(batch, "is_empty", False) or getattr(batch, "has_labels", True)
        expect(has_labels, "`batch` must have labels, as a tuple `(x, y)`.", y=None)
    elif is_batch:
        return [_tuple(batch)], None
    if hasattr(batch, "element_spec"):  # a `tf.data.Dataset`
        return [_tuple(each) for each in batch.take(1)], _tuple(batch.element_spec)
    if isinstance(batch, keras.utils.PyDataset):
        places = dict.fromkeys((0, len(batch) - 1)) if len(batch) else ()
        return [_tuple(batch[place]) for place in places], None
    raise ValueError(
        "`batch` must be a tuple `(x, y)` or `(x, y, sample_weight)`, a `tf.data.Dataset` or a `keras.utils.PyDataset`."
        f" Received: {type(batch).__name__}"
    )


def _tuple(batch):
    batch = tuple(batch) if isinstance(batch, (tuple, list)) else (batch,)
    is_column = [isinstance(part, list) and not (part and hasattr(part[0], "shape")) for part in batch]
    return tuple(np.asarray(part) if column else part for part, column in zip(batch, is_column) if part is not None)


def traced_with_jax(model, batch):
    """Returns the training step of a model on JAX as `jax.stages.Traced`, for arrays of the shapes of a batch."""
    import jax

    def like(value):
        return jax.ShapeDtypeStruct(tuple(value.shape), keras.backend.standardize_dtype(value.dtype))

    build_for_step(model, batch)
    parts = model.trainable_variables, model.non_trainable_variables, model.optimizer.variables, model.metrics_variables
    state = tuple([like(variable.value) for variable in variables] for variables in parts)
    return jax.jit(model.train_step, donate_argnums=0).trace(state, jax.tree.map(like, batch))
