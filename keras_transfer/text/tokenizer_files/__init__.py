"""The files of a tokenizer in the folder of a checkpoint, read and written."""

from keras_transfer.text.tokenizer_files.tokenizer_folder import read_tokenizer_folder, write_tokenizer_folder

__all__ = [
    "read_tokenizer_folder",
    "write_tokenizer_folder",
]
