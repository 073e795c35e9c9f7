"""The commands of `keras-transfer`: the main task without writing Python. `keras_transfer_command` calls them."""
