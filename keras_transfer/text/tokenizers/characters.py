"""The tokenizer of language models over characters: each character is a token."""

import functools
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, Self

import keras

from keras_transfer.text.strings import checked_utf8, look_up, make_table
from keras_transfer.text.tokenizers.bpe import tokens_of
from keras_transfer.text.tokenizers.tokenizer import Tokenizer

# The pre-tokenizer of such a `tokenizer.json`.
_SPLIT = {"type": "Split", "pattern": {"Regex": r"[\s\S]"}, "behavior": "Isolated", "invert": False}


@keras.saving.register_keras_serializable(package="keras_transfer")
class CharacterTokenizer(Tokenizer):
    """Splits texts into their characters (Unicode code points), spaces and line breaks included.

    Longer tokens of the vocabulary, such as `"<s>"`, are special: text never becomes one of them.

    Args:
        vocabulary: List of strings, the characters and special tokens in the order of their ids, a dict from tokens to
            ids, or the path of a `vocab.json`. If `None`, call `load_assets` before the tokenizer is used. Defaults to
            `None`.
        unk_token: String. Token of characters that the vocabulary lacks. Defaults to `"[UNK]"`.
        mask_token: String. Token that masked language models predict. Defaults to `None`.
        eos_token: String. Token that ends a generated text. Defaults to `None`.

    Raises:
        ValueError: If the vocabulary has duplicates.

    Example:
    ```python
    tokenizer = keras_transfer.text.CharacterTokenizer(["[PAD]", "[UNK]", *"abc "])
    ids = tokenizer.tokenize(["a bad cab"])  # [[2, 5, 3, 2, 1, 5, 4, 2, 3]]
    tokenizer.detokenize(ids)  # ["a ba[UNK] cab"]
    ```
    """

    vocabulary_file = "vocab.json"
    by_lines = False

    def __init__(
        self,
        vocabulary: Sequence[str] | None = None,
        *,
        unk_token: str = "[UNK]",
        mask_token: str | None = None,
        eos_token: str | None = None,
    ):
        vocabulary = tokens_of(vocabulary) if isinstance(vocabulary, dict) else vocabulary
        super().__init__(vocabulary, unk_token, mask_token, eos_token)

    def _tokenize(self, texts):
        import tensorflow as tf

        self.require([self.unk_token])
        characters = tf.strings.unicode_split(checked_utf8(texts), "UTF-8")
        return characters.with_values(look_up(_table(tuple(self.vocabulary)), characters.values, self.unk_id))

    def token_bytes(self) -> list:
        """Returns the bytes of each token.

        Returns:
            A list of bytes.
        """
        return [token.encode("utf-8") for token in self.vocabulary]

    def _read_vocabulary(self, path):
        return tokens_of(json.loads(pathlib.Path(path).read_text("utf-8")))

    def save_assets(self, folder: str | os.PathLike) -> None:
        """Writes the vocabulary into a folder, as a JSON object from tokens to ids.

        Args:
            folder: String or path.
        """
        ids = json.dumps(self._ids, ensure_ascii=False)
        (pathlib.Path(folder) / self.vocabulary_file).write_text(f"{ids}\n", "utf-8", newline="\n")

    def get_config(self):
        return {"unk_token": self.unk_token, "mask_token": self.mask_token, "eos_token": self.eos_token}

    def to_json(self) -> dict:
        """Returns this tokenizer's part of a `tokenizer.json`.

        Returns:
            A dict of `normalizer`, `pre_tokenizer`, `model` and `decoder`.
        """
        model = {"type": "WordLevel", "vocab": self._ids, "unk_token": self.unk_token}
        return {"normalizer": None, "pre_tokenizer": _SPLIT, "decoder": {"type": "Fuse"}, "model": model}

    @classmethod
    def reads_json(cls, fast: Mapping) -> bool:
        return fast["model"].get("type") == "WordLevel" and fast.get("pre_tokenizer") == _SPLIT

    @classmethod
    def from_json(cls, fast: Mapping, tokens: Sequence[str], text_tokens: Sequence[str], **special: Any) -> Self:
        """Returns the tokenizer of a `tokenizer.json`.

        Args:
            fast: Dict, the contents of the file.
            tokens: List of strings, the tokens in the order of their ids, including added ones.
            text_tokens: List of strings, the added tokens that are not special.
            **special: `unk_token`, `mask_token`, `eos_token`, and the settings of the folder.

        Returns:
            A `CharacterTokenizer`.

        Raises:
            ValueError: If the file needs something that this class does not support.
        """
        wrong = [f"normalizer {fast['normalizer']} (expected none)"] if fast.get("normalizer") else []
        wrong += [f"added tokens {text_tokens[:3]} (expected only special ones)"] if text_tokens else []
        if wrong:
            raise ValueError(f"A tokenizer of characters must leave texts as they are. Received: {'; '.join(wrong)}")
        special["unk_token"] = fast["model"].get("unk_token") or special["unk_token"]
        return cls(tokens, **special)


@functools.lru_cache(maxsize=4)
def _table(vocabulary):
    """Returns the table of the characters of a vocabulary."""
    import tensorflow as tf

    ids = {token: index for index, token in enumerate(vocabulary) if len(token) == 1}
    # A function that is being traced would keep the constants in its own graph.
    with tf.init_scope(), tf.device("CPU:0"):
        return make_table(tf.constant([*ids] or [""]), tf.constant([*ids.values()] or [0], tf.int32))
