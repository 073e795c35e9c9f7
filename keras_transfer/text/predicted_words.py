"""The words that a language model over whole words predicts, by how often they occur in its texts."""

import collections
import itertools
from typing import Any

from keras_transfer.core.documents import paths_of, read_documents
from keras_transfer.core.expect import expects, integer, one_of
from keras_transfer.core.lazy import tf
from keras_transfer.text.inputs import to_list
from keras_transfer.text.strings.splitting import SPLITS, split_words
from keras_transfer.text.tokenizers.tokenizer import Tokenizer
from keras_transfer.text.word_preprocessor import WordTokenizer

BEGIN, END, UNKNOWN = "<S>", "</S>", "<UNK>"
_CHUNK = 4096  # texts
_NO_WORD = "!!!MAXTERMID"  # ends the published vocabularies


class PredictedWords(WordTokenizer):
    """The vocabulary of ELMo's softmax: `<S>`, `</S>` and `<UNK>`, then words, the most frequent first."""

    first_id = 0
    unk_id = Tokenizer.unk_id

    def __init__(self, vocabulary=None, split="whitespace"):
        super().__init__(vocabulary, split=split, case_folding=False)
        self.unk_token = UNKNOWN

    def _set_vocabulary(self, tokens):
        super()._set_vocabulary(tokens)
        if missing := [word for word in (BEGIN, END, UNKNOWN) if word not in self._ids]:
            raise ValueError(
                f"The vocabulary must have the words {BEGIN}, {END} and {UNKNOWN}, as `text.word_vocabulary` returns "
                f"it. Received: no {' and no '.join(missing)}, and the first words {tokens[:5]}"
            )

    def _read_vocabulary(self, path):
        words = [word.strip() for word in super()._read_vocabulary(path)]
        return [word for word in words if word != _NO_WORD]


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
