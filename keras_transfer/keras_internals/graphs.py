"""The graph of a functional model, and what must not copy it."""

import keras


class NotCloned:
    """A mixin for a model that `keras.models.clone_model` would silently turn into a plain functional model."""

    def _run_through_graph(self, inputs, operation_fn=lambda operation: operation, call_fn=None):
        def checked(operation):
            found = operation_fn(operation)
            if isinstance(found, keras.Layer):  # Only cloning a model returns layers for symbolic inputs.
                name = type(self).__name__
                raise ValueError(
                    f"`clone_model` cannot clone a `{name}`. Use `copy = {name}.from_config(model.get_config())`, "
                    "which has new weights and no vocabulary. `copy.preprocessor = model.preprocessor` and "
                    f"`copy.set_weights(model.get_weights())` copy these. Received: model={self!r}"
                )
            return found

        is_symbolic = any(isinstance(value, keras.KerasTensor) for value in keras.tree.flatten(inputs))
        return super()._run_through_graph(inputs, checked if is_symbolic else operation_fn, call_fn)
