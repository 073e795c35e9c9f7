"""The subcommand that pretrains models on files of raw text."""

from keras_transfer.cli.pretraining.run import run_pretraining

__all__ = ["run_pretraining"]
