"""What every preprocessor has: its protocol, what texts it accepts, and how it packs their tokens."""

from keras_transfer.text.base.inputs import (
    check_batch_size,
    check_rows_of_batches,
    is_sentences,
    is_text,
    to_columns,
    to_list,
    to_sentences,
)
from keras_transfer.text.base.packing import Packing, is_language_code
from keras_transfer.text.base.preprocessor import (
    DEFAULT_LENGTH,
    LengthError,
    Preprocessor,
    as_text_tensors,
    batch_shape,
    checked_length,
    import_tensorflow_text,
    is_longest,
    preprocess,
)

__all__ = [
    "DEFAULT_LENGTH",
    "LengthError",
    "Packing",
    "Preprocessor",
    "as_text_tensors",
    "batch_shape",
    "check_batch_size",
    "check_rows_of_batches",
    "checked_length",
    "import_tensorflow_text",
    "is_language_code",
    "is_longest",
    "is_sentences",
    "is_text",
    "preprocess",
    "to_columns",
    "to_list",
    "to_sentences",
]
