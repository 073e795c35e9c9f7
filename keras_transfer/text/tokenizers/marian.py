"""The tokenizers of Marian's translation models."""

import os
from collections.abc import Sequence
from typing import Any

import keras

from keras_transfer.core.expect import expects
from keras_transfer.text.tokenizers.unigram import UnigramTokenizer


@keras.saving.register_keras_serializable(package="keras_transfer")
class MarianTokenizer(UnigramTokenizer):
    """Splits texts into the pieces of one of the two SentencePiece models of a Marian model (OPUS-MT).

    The models of sources and targets share a vocabulary, with other ids than theirs. It may lack pieces, which become
    the unknown token, and contains pieces of the other model, which texts never become. A multilingual model has
    language codes such as `>>fra<<`, which `TokenPreprocessor.with_language` puts in front of a text; a text never
    becomes one. Texts are not normalized by Moses' scripts, as Transformers does if `sacremoses` is installed.

    Args:
        model: Bytes, the contents of `source.spm` or `target.spm`, or its path. If `None`, call `load_assets` before
            the tokenizer is used. Defaults to `None`.
        vocabulary: List of strings, the tokens of `vocab.json` in the order of their ids. Defaults to `None`, the
            model's pieces.
        source_lang: String. Source language, as the model folder names it. Transformers uses it for Moses' scripts.
            Defaults to `None`.
        target_lang: String. Target language, as the model folder names it. Defaults to `None`.
        **options: Arguments of `UnigramTokenizer`: `normalization`, `keep_spaces`, `graphemes`, `unk_token`,
            `mask_token` and `eos_token`.

    Raises:
        ValueError: If the file is not a SentencePiece unigram model, or if the vocabulary lacks the unknown token.

    Example:
    ```python
    questions = keras_transfer.datasets.load_demo_questions().train.texts
    keras_transfer.text.train_vocabulary(questions, "unigram", 200).save_assets(".")
    pieces = keras_transfer.text.UnigramTokenizer("spiece.model").vocabulary
    tokenizer = keras_transfer.text.MarianTokenizer("spiece.model", [*pieces[:-5], ">>fra<<", "<pad>"])
    tokenizer.language_codes  # [">>fra<<"]
    ```

    Source: Tiedemann and Thottingal 2020, "OPUS-MT"; https://github.com/Helsinki-NLP/Opus-MT.
    """

    has_own_targets = True

    @expects()
    def __init__(
        self,
        model: bytes | str | os.PathLike | None = None,
        vocabulary: Sequence[str] | None = None,
        *,
        source_lang: str | None = None,
        target_lang: str | None = None,
        **options: Any,
    ):
        self.source_lang, self.target_lang = source_lang, target_lang
        super().__init__(model, vocabulary, **options)

    def _set_vocabulary(self, tokens):
        self._known = frozenset(tokens)
        super()._set_vocabulary(tokens)

    def _normal_pieces(self):
        return super()._normal_pieces() & self._known
