"""Private names for modules of TF Hub: the resolvers of `tensorflow_hub`, and the tables of modules of TensorFlow 1."""


def resolvers_of(registry):
    """Returns the resolvers in `tensorflow_hub.registry`, the oldest first."""
    return list(registry.resolver._impls)


def table_initializer(loaded):
    """Returns the function that fills the tables of a module of TensorFlow 1, whose captured inputs can be set."""
    return loaded.initializer._init_fn


def fill_tables(loaded):
    """Fills the tables of a module of TensorFlow 1 on the current device."""
    loaded.initializer._initialize()
