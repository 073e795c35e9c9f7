"""The state that a recurrent language model carries from one window of a text to the next."""

import keras
from keras import ops

from keras_transfer.core.expect import expect


@keras.saving.register_keras_serializable(package="keras_transfer")
class CarriedState(keras.layers.Layer):
    """Keeps the state of an encoder after a window of several texts, with which it processes their next window.

    Training and evaluation have separate states. Training checkpoints contain them, but model files do not.
    """

    def __init__(self, encoder, num_streams, **kwargs):
        super().__init__(trainable=False, **kwargs)
        object.__setattr__(self, "encoder", encoder)  # Keras must not track its weights here.
        self.num_streams = num_streams
        empty = encoder.empty_state(num_streams)
        self.states = [
            [
                self.add_weight(
                    values.shape,
                    "zeros",
                    keras.backend.standardize_dtype(values.dtype),
                    trainable=False,
                    autocast=False,
                    name=f"{kind}_{i}",
                )
                for i, values in enumerate(keras.tree.flatten(empty))
            ]
            for kind in ("training", "evaluation")
        ]
        self.structure = keras.tree.map_structure(lambda values: None, empty)
        self.built = True

    @property
    def weights(self):
        """An empty list: the states are `variables`, like the states of random seeds, but are not exported."""
        return []

    def call(self, inputs, training=False):
        """Returns what `step` returns for a window, given a dict of its inputs with `begins`."""
        check_streams(ops.shape(inputs["begins"])[0], self.num_streams)
        kept = self.states[0 if training else 1]
        goes_on = ops.equal(inputs["begins"], 0)[:, 0]
        state = [_rows_where(goes_on, values.value) for values in kept]
        state = keras.tree.pack_sequence_as(self.structure, state)
        vectors, state = self.step(inputs, state)
        for values, new in zip(kept, keras.tree.flatten(state)):
            values.assign(new)
        return vectors

    def step(self, inputs, state):
        """Returns the vectors of a window, `[num_streams, length, dim]`, and the state after it."""
        return self.encoder.step(inputs["token_ids"], state, padding_mask=inputs["padding_mask"])

    def save_own_variables(self, store):
        """Stores nothing, because the state belongs to a position in the texts of a run."""

    def load_own_variables(self, store):
        """Loads nothing, because nothing was stored."""


def _rows_where(is_kept, values):
    """Returns values `[rows, ...]`, with zeros in the rows that are not kept."""
    is_kept = ops.reshape(is_kept, (-1, *[1] * (len(values.shape) - 1)))
    return ops.where(is_kept, values, ops.zeros_like(values))


def check_streams(batch_size, num_streams, task_name="CausalLM"):
    """Raises a `ValueError` if batches have a different number of texts from the state of a task."""
    if num_streams is None:
        raise ValueError(
            "A task that trains on streams carries their state. Create it with the number of streams, as in "
            f"`{task_name}(encoder, streams={batch_size})`. Received: streams=None"
        )
    rule = "The data must have as many streams as the task, whose state has a row for each of them."
    is_known = isinstance(batch_size, int)
    if is_known:
        expect(batch_size == num_streams, rule, streams_of_data=batch_size, streams=num_streams)
