"""Building a model's optimizer before `fit` does."""

import contextlib

import keras


def build_optimizer(model):
    """Builds the model's optimizer for all trainable weights, if it is not built yet."""
    optimizer = model.optimizer
    if not optimizer.built:
        strategy = getattr(model, "distribute_strategy", None)
        scope = strategy.scope() if strategy is not None else contextlib.nullcontext()
        with scope, keras.name_scope(optimizer.name, caller=optimizer):  # as Keras does
            optimizer.build(list(model.trainable_variables))
