"""Creating the variables of a model's optimizer before `fit` does."""

import contextlib

import keras


def build_optimizer(model):
    """Creates the variables of the model's optimizer for all weights that are trainable now, if it has none."""
    optimizer = model.optimizer
    if not optimizer.built:
        strategy = getattr(model, "distribute_strategy", None)
        scope = strategy.scope() if strategy is not None else contextlib.nullcontext()
        with scope, keras.name_scope(optimizer.name, caller=optimizer):  # as Keras does
            optimizer.build(list(model.trainable_variables))
