"""The tokenizers of Marian's translation models."""

import keras

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
        vocabulary: List of strings, the tokens of `vocab.json` in the order of their ids. Defaults to the model's
            pieces.
        normalization, keep_spaces, graphemes, unk_token, mask_token, eos_token: See `UnigramTokenizer`.

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

    def _set_vocabulary(self, tokens):
        self._known = frozenset(tokens)
        super()._set_vocabulary(tokens)

    def _normal_pieces(self):
        return super()._normal_pieces() & self._known

    def to_json(self):
        raise ValueError(
            "A `MarianTokenizer` cannot be written as a tokenizer.json, because its vocabulary also contains pieces of "
            f"another model. Write it with `save_assets`. Received: a vocabulary of {self.vocabulary_size} tokens"
        )
