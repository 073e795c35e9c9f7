"""The files of a tokenizer in the folder of a checkpoint, read and written."""

from keras_transfer.text.tokenizer_files.fast_files import FAST_FILE, fast_content
from keras_transfer.text.tokenizer_files.tokenizer_folder import read_tokenizer_folder, write_tokenizer_folder

__all__ = [
    "FAST_FILE",
    "fast_content",
    "read_tokenizer_folder",
    "write_tokenizer_folder",
]
