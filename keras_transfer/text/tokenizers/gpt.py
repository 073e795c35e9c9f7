"""The tokenizer of OpenAI's first GPT: BERT's words in lower case, merged by byte-pair encoding."""

from collections.abc import Sequence

import keras
import numpy as np

from keras_transfer.core.expect import expects
from keras_transfer.core.lazy import constants, tf
from keras_transfer.text.strings.byte_pairs import make_pairs, make_whole, merge_pairs
from keras_transfer.text.strings.normalizer import normalize, replace_newer
from keras_transfer.text.strings.splitting import split_words
from keras_transfer.text.strings.string_table import look_up, make_table
from keras_transfer.text.tokenizers.bpe import BPETokenizer

END_OF_WORD = "</w>"  # ends the last token of a word


@keras.saving.register_keras_serializable(package="keras_transfer")
class GPTTokenizer(BPETokenizer):
    """Splits texts into words as BERT does, in lower case, and merges the characters of each word.

    The ids are those of Transformers, which splits as BERT does. OpenAI's own code repairs texts with ftfy and splits
    them with spaCy, which gives different ids for a few texts, such as those with contractions.

    Args:
        vocabulary: List of strings, the tokens in the order of their ids, a dict from tokens to ids, or the path of a
            `vocab.json`. The last token of a word ends with `</w>`. If `None`, call `load_assets` before the tokenizer
            is used. Defaults to `None`.
        merges: List of pairs of tokens in the order in which they are merged, or the path of a `merges.txt`. Required
            with `vocabulary`. Defaults to `None`.
        unk_token: String. Token of characters that the vocabulary lacks. Defaults to `"<unk>"`.
        mask_token: String. Token that masked language models predict. Defaults to `None`.
        eos_token: String. Token that ends a generated text. Defaults to `None`.

    Raises:
        ValueError: If the vocabulary has duplicates, lacks a token of a merge, or has no merges.
        ImportError: If TensorFlow Text is not installed.

    Example:
    ```python
    vocabulary = ["<unk>", "a", "b", "b</w>", "ab</w>"]
    tokenizer = keras_transfer.text.GPTTokenizer(vocabulary, [("a", "b</w>")])
    ids = tokenizer.tokenize(["AB bb"])  # [[4, 2, 3]]
    tokenizer.detokenize(ids)  # ["ab bb"]
    ```

    Source: Radford et al. 2018, "Improving Language Understanding by Generative Pre-Training";
    https://github.com/openai/finetune-transformer-lm (`text_utils.py`).
    """

    outer_space = " $"

    @expects()
    def __init__(
        self,
        vocabulary: Sequence[str] | None = None,
        merges: Sequence | None = None,
        *,
        unk_token: str = "<unk>",
        mask_token: str | None = None,
        eos_token: str | None = None,
    ):
        super().__init__(vocabulary, merges, unk_token, mask_token, eos_token)

    def _make(self):
        self.require([self.unk_token])
        return _make_constants(tuple(self.vocabulary), tuple(self.merges), self.unk_id)

    def _tokenize(self, texts):
        texts = normalize(texts, lowercase=True, strip_accents=True, limit_words=False)
        return self._encode(split_words(texts, "punctuation"))

    def token_bytes(self) -> list:
        """Returns what each token adds to a text: a word and a space, or the beginning of a word.

        Returns:
            A list of bytes.
        """
        return [token.replace(END_OF_WORD, " ").encode("utf-8") for token in self.vocabulary]


@constants
def _make_constants(vocabulary, merges, unk_id):
    """Returns the table of the words that are tokens, and the function that merges the others."""
    ids = {token: index for index, token in enumerate(vocabulary)}
    pairs = make_pairs(merges, ids)
    characters = [token for token in vocabulary if len(token.removesuffix(END_OF_WORD)) == 1]
    keys = tf.constant([replace_newer(token) for token in characters] or [""])
    table = make_table(keys, tf.constant([ids[token] for token in characters] or [unk_id]))

    def merge(words):
        split = tf.strings.unicode_split(words, "UTF-8")
        rows, count = split.value_rowids(), split.nrows()
        ends = tf.concat([rows[1:] != rows[:-1], tf.ones_like(rows[:1], tf.bool)], 0)
        symbols = look_up(table, tf.where(ends, split.values + END_OF_WORD, split.values), unk_id)
        return merge_pairs(pairs, tf.cast(symbols, tf.int64), rows, count)

    index = [index for index, token in enumerate(vocabulary) if token.endswith(END_OF_WORD)]
    words = tf.constant([replace_newer(vocabulary[i].removesuffix(END_OF_WORD)) for i in index] or [""])
    whole = make_whole(words, np.array(index or [unk_id]), merge)
    return whole, merge
