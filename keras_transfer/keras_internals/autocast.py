"""The precision in which a layer reads its variables."""


def without_autocast():
    """Returns a context in which variables are read in their own precision, also in a layer with mixed precision."""
    from keras.src.backend import AutocastScope  # there is no public name

    return AutocastScope(None)
