"""The graph of a functional model: its calls, and what must not copy it."""

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


class Call:
    """A call of a layer or an operation in the graph of a functional model, with its lists of symbolic tensors."""

    def __init__(self, node):
        self.operation, self.inputs, self.outputs = node.operation, node.input_tensors, node.outputs


def calls_of(model):
    """Returns the `Call`s of a functional model, each after the calls whose outputs it takes."""
    nodes = model._nodes_by_depth
    return [Call(node) for depth in sorted(nodes, reverse=True) for node in nodes[depth] if not node.is_input]
