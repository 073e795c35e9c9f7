"""The tokenizer of fastai's language models, for texts that `fastai_texts` or fastai has split into tokens."""

import json
import os
import pathlib
from collections.abc import Sequence

import keras

from keras_transfer.core.lazy import constants, tf
from keras_transfer.text.strings.fastai_rules import BEGIN_TEXT, MARKED_SPACE
from keras_transfer.text.strings.normalizer import checked_utf8
from keras_transfer.text.strings.string_table import look_up, make_table
from keras_transfer.text.tokenizers.tokenizer import Tokenizer


@keras.saving.register_keras_serializable(package="keras_transfer")
class FastaiTokenizer(Tokenizer):
    """Reads texts that are fastai's tokens separated by spaces, such as `"xxbos xxmaj the film"`.

    fastai splits raw texts by spaCy, which does not run in the graph. Raw text would silently become wrong ids, so this
    tokenizer refuses texts that do not begin with `xxbos`. `fastai_texts` makes texts of this form, and fastai itself
    writes them.

    Args:
        vocabulary: List of strings, fastai's `itos`: the tokens in the order of their ids, or the path of a JSON
            file with this list. A space inside a token is written as `\u2581`. If a token occurs several times
            (`xxfake`), the last one counts, as in fastai. If `None`, call `load_assets` before the tokenizer is used.
            Defaults to `None`.
        unk_token: String. Token of words that the vocabulary lacks. Defaults to `"xxunk"`.
        mask_token: String. Token that masked language models predict. Defaults to `None`.
        eos_token: String. Token that ends a generated text. Defaults to `"xxbos"`, which begins the next one.

    Raises:
        ValueError: If the vocabulary contains anything other than strings.

    Example:
    ```python
    tokenizer = keras_transfer.text.FastaiTokenizer(["xxunk", "xxpad", "xxbos", "xxmaj", "the", "film"])
    tokenizer.tokenize(keras_transfer.text.fastai_texts(["The new film"], str.split))  # [[2, 3, 4, 0, 5]]
    ```
    """

    vocabulary_file = "itos.json"
    by_lines = False
    outer_space = " $"

    def __init__(
        self,
        vocabulary: Sequence[str] | None = None,
        *,
        unk_token: str = "xxunk",
        mask_token: str | None = None,
        eos_token: str = BEGIN_TEXT,
    ):
        super().__init__(vocabulary, unk_token, mask_token, eos_token)

    def _set_vocabulary(self, tokens):
        if all(isinstance(token, str) for token in tokens):
            last = {token: index for index, token in enumerate(tokens)}
            # Texts contain no token with a space.
            tokens = [
                token.replace(" ", MARKED_SPACE) if last[token] == index else f"{token}{MARKED_SPACE}{index}"
                for index, token in enumerate(tokens)
            ]
        super()._set_vocabulary(tokens)

    def _tokenize(self, texts):
        self.require([self.unk_token])
        texts = checked_utf8(texts)
        prepared = tf.strings.regex_full_match(texts, f"(?s){BEGIN_TEXT}( .*)?")
        message = (
            f"Texts for fastai's models must be its tokens, and begin with {BEGIN_TEXT}. `text.fastai_texts` makes "
            "them from raw texts. Received:"
        )
        check = tf.debugging.Assert(tf.reduce_all(prepared), [message, tf.boolean_mask(texts, ~prepared)[:1]])
        with tf.control_dependencies([check] if check is not None else []):
            words = tf.strings.split(tf.identity(texts), " ")
        return words.with_values(look_up(_table(tuple(self.vocabulary)), words.values, self.unk_id))

    def _read_vocabulary(self, path):
        return json.loads(pathlib.Path(path).read_text("utf-8"))

    def save_assets(self, folder: str | os.PathLike) -> None:
        # A JSON list, because some tokens are line breaks.
        text = json.dumps(self.vocabulary, ensure_ascii=False) + "\n"
        (pathlib.Path(folder) / self.vocabulary_file).write_text(text, "utf-8", newline="\n")

    def token_bytes(self) -> list:
        """Returns the bytes that each token adds to a text, with the space after it.

        Returns:
            A list of bytes.
        """
        return [f"{token} ".encode() for token in self.vocabulary]


@constants
def _table(vocabulary):
    """Returns the table of the tokens of a vocabulary."""
    return make_table(tf.constant(list(vocabulary)), tf.range(len(vocabulary), dtype=tf.int32))
