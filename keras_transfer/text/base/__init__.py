"""What every preprocessor has: its protocol, inputs and packing, the documents of files, and settings of its files."""

from keras_transfer.text.base.arrays import as_column, check_weights, row_weights, to_array, to_numpy
from keras_transfer.text.base.documents import paths_of, read_documents
from keras_transfer.text.base.folder_settings import (
    CONFIG_FILE,
    added_tokens,
    check_class,
    check_no_tokenizer,
    read_optional,
    single_part,
    text_tokens,
    unlike_bert,
)
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
    "CONFIG_FILE",
    "DEFAULT_LENGTH",
    "LengthError",
    "Packing",
    "Preprocessor",
    "added_tokens",
    "as_column",
    "as_text_tensors",
    "batch_shape",
    "check_batch_size",
    "check_class",
    "check_no_tokenizer",
    "check_rows_of_batches",
    "check_weights",
    "checked_length",
    "import_tensorflow_text",
    "is_language_code",
    "is_longest",
    "is_sentences",
    "is_text",
    "paths_of",
    "preprocess",
    "read_documents",
    "read_optional",
    "row_weights",
    "single_part",
    "text_tokens",
    "to_array",
    "to_columns",
    "to_list",
    "to_numpy",
    "to_sentences",
    "unlike_bert",
]
