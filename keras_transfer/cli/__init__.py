"""The command `keras-transfer`: the main job without a line of Python."""
