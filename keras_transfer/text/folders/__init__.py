"""Reading folders of tokenizers, in whatever format: their settings, and the tokens that these add."""

from keras_transfer.text.folders.settings import (
    CONFIG_FILE,
    added_tokens,
    check_class,
    check_no_tokenizer,
    class_of,
    read_optional,
    single_part,
    text_tokens,
    unlike_bert,
)

__all__ = [
    "CONFIG_FILE",
    "added_tokens",
    "check_class",
    "check_no_tokenizer",
    "class_of",
    "read_optional",
    "single_part",
    "text_tokens",
    "unlike_bert",
]
