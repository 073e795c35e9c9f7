"""The words that a language model over whole words predicts, by how often they occur in its texts."""

import collections
import itertools
from typing import Any

from keras_transfer.core.documents import paths_of, read_documents
from keras_transfer.core.expect import expects, integer, one_of
from keras_transfer.text.inputs import to_list
from keras_transfer.text.strings.splitting import SPLITS, split_words
from keras_transfer.text.strings.string_table import look_up, make_table
from keras_transfer.text.tensorflow import tf
from keras_transfer.text.tokenizers.tokenizer import Tokenizer

BEGIN, END, UNKNOWN = "<S>", "</S>", "<UNK>"
_CHUNK = 4096  # texts
_NO_WORD = "!!!MAXTERMID"  # ends the published vocabularies


class PredictedWords(Tokenizer):
    """The vocabulary of ELMo's softmax: `<S>`, `</S>` and `<UNK>`, then words, the most frequent first."""

    vocabulary_file = "vocabulary.txt"

    def __init__(self, vocabulary=None, split="whitespace"):
        self.split = split
        super().__init__(vocabulary, unk_token=UNKNOWN)

    def _set_vocabulary(self, tokens):
        super()._set_vocabulary(tokens)
        self._table = None
        missing = [word for word in (BEGIN, END, UNKNOWN) if word not in self._ids]
        if missing or "" in self._ids:
            received = f"no {' and no '.join(missing)}" if missing else "an empty word"
            raise ValueError(
                f"The vocabulary must have the words {BEGIN}, {END} and {UNKNOWN}, as `text.word_vocabulary` returns "
                f"it, and no empty one. Received: {received}, and the first words {tokens[:5]}"
            )

    def _read_vocabulary(self, path):
        words = [word.strip() for word in super()._read_vocabulary(path)]
        return [word for word in words if word != _NO_WORD]

    def _tokenize(self, texts):
        words = split_words(texts, self.split)
        return words.with_values(self.look_up(words.values))

    def look_up(self, words):
        """Returns the ids of words [words] as an int32 tensor."""
        self._check_loaded()
        if self._table is None:
            # A function that is being traced would keep the table in its own graph.
            with tf.init_scope(), tf.device("CPU:0"):
                keys = tf.constant(self.vocabulary, tf.string, [len(self.vocabulary)])
                self._table = make_table(keys, tf.range(len(self.vocabulary)))
        return look_up(self._table, words, self.unk_id)


@expects(size=integer(4), min_count=integer(1), split=one_of(*SPLITS))
def word_vocabulary(
    texts: Any,
    *,
    size: int | None = None,
    min_count: int = 1,
    split: str = "whitespace",
    text_column: str = "text",
) -> list[str]:
    """Returns the words of texts as the vocabulary of an `ElmoPreprocessor`, whose words a `BidirectionalLM` predicts.

    Words that occur equally often are in the order in which they are first read.

    Args:
        texts: List, array, or table column of strings, or the path or list of paths of files, as for `Corpus.build`.
            Files are read line by line.
        size: Integer, at least 4. Largest number of words, with the first three. The original has 793,471. Defaults to
            `None`, for all.
        min_count: Integer. How often a word must occur. Defaults to `1`.
        split: String. How texts are split into words, as for `ElmoPreprocessor`. Defaults to `"whitespace"`.
        text_column: String. Column of JSON, CSV, TSV and Parquet files. Defaults to `"text"`.

    Returns:
        List of strings: `"<S>"`, `"</S>"`, `"<UNK>"`, and the words, the most frequent first.

    Raises:
        ValueError: If there is no word.
        FileNotFoundError: If there is no file of this name.

    Example:
    ```python
    words = keras_transfer.text.word_vocabulary(["the film ends", "the end"])  # ["<S>", "</S>", "<UNK>", "the", ...]
    keras_transfer.text.ElmoPreprocessor(vocabulary=words)
    ```

    Source: https://github.com/allenai/bilm-tf, "Prepare input data and a vocabulary file".
    """
    if paths_of(texts) is None:
        lines = iter(to_list(texts))
    else:
        lines = itertools.chain.from_iterable(read_documents(texts, text_column, "line"))
    counts = collections.Counter()
    while part := list(itertools.islice(lines, _CHUNK)):
        with tf.device("CPU:0"):
            counts.update(split_words(tf.constant(part, tf.string), split).values.numpy().tolist())
    special = [BEGIN, END, UNKNOWN]
    words = [word.decode("utf-8") for word, count in counts.most_common() if count >= min_count]
    words = [word for word in words if word not in special]
    if not words:
        raise ValueError(
            f"A vocabulary needs texts with words that occur at least {min_count} times. "
            f"Received: {sum(counts.values())} words"
        )
    return [*special, *words][:size]
