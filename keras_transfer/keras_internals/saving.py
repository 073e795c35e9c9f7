"""Keras's private functions that tell whether it is loading a file, and whether in safe mode.

`tests/hub/test_trust.py` fails if they change.
"""

from keras.src.backend.common.symbolic_scope import in_symbolic_scope
from keras.src.saving.serialization_lib import in_safe_mode

__all__ = ["in_safe_mode", "in_symbolic_scope"]
