"""Private names for modules of TF Hub: the resolvers of `tensorflow_hub`, and the tables of modules of TensorFlow 1."""


def resolvers_of(registry):
    """Returns the resolvers in `tensorflow_hub.registry`, the oldest first."""
    return list(registry.resolver._impls)


def table_initializer(loaded):
    """Returns the function that fills the tables of a module, whose captured inputs can be set.

    Args:
        loaded: Module of TensorFlow 1 that `tf.saved_model.load` has returned.
    """
    return loaded.initializer._init_fn


def fill_tables(loaded):
    """Fills the tables of a module on the current device.

    Args:
        loaded: Module of TensorFlow 1 that `tf.saved_model.load` has returned.
    """
    loaded.initializer._initialize()
