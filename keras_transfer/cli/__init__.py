"""The command `keras-transfer`: the main task without writing Python."""

from keras_transfer.cli.command import main
