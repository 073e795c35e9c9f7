"""Whether Keras loads a file, and how. There are no public names; see `tests/hub/layers/test_trust.py`."""

from keras.src.backend.common.symbolic_scope import in_symbolic_scope
from keras.src.saving.serialization_lib import in_safe_mode

__all__ = ["in_safe_mode", "in_symbolic_scope"]
