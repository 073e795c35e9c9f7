"""The command `keras-transfer`: the main task without writing Python."""

__all__ = []
