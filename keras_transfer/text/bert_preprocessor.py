"""BERT's preprocessor: raw text to WordPiece ids, segments and a mask."""

import dataclasses
import json
import os
from collections.abc import Sequence
from typing import Any, Self

import keras

from keras_transfer.core.expect import expects
from keras_transfer.core.files import atomic_files
from keras_transfer.text.packing import Packing
from keras_transfer.text.preprocessor import DEFAULT_LENGTH
from keras_transfer.text.token_preprocessor import TokenPreprocessor
from keras_transfer.text.tokenizer_files.settings import CONFIG_FILE, check_no_tokenizer
from keras_transfer.text.tokenizer_files.tokenizer_folder import SPLIT_KEY, read_tokenizer_folder
from keras_transfer.text.tokenizers.wordpiece import WordPieceTokenizer

BERT_PACKING = Packing(start=["[CLS]"], between=["[SEP]"], end=["[SEP]"], pad="[PAD]", segments=(0, 1))


@keras.saving.register_keras_serializable(package="keras_transfer")
class BertPreprocessor(TokenPreprocessor):
    """Turns texts, or pairs of texts, into the inputs of BERT: WordPiece ids, segments and a mask.

    One text becomes `[CLS] a [SEP]`, a pair `[CLS] a [SEP] b [SEP]` with segments 0 and 1. If that is too long, the
    longer text is truncated first, at its end; if it is too short, it is padded at the end. The ids equal those of
    Hugging Face `tokenizers`. Input is always treated as text: "[MASK]" becomes the three tokens `[`, `mask`, `]`,
    never the special token.

    Args:
        vocabulary: List of strings, the tokens in the order of their ids, or the path of a `vocab.txt` with one token
            per line. Empty tokens at the end are dropped. It must contain `[PAD]`, `[UNK]`, `[CLS]` and `[SEP]`;
            `[MASK]` is only needed for masked language models. If `None`, call `load_assets` before the preprocessor
            is used. Defaults to `None`.
        sequence_length: Integer, at least 3. Number of ids that a text is truncated and padded to, `[CLS]` and `[SEP]`
            included. Defaults to `128`.
        lowercase: Boolean. Whether texts are lowercased, as for uncased vocabularies. Defaults to `True`.
        strip_accents: Boolean. Whether accents are removed. Defaults to the value of `lowercase`, as in BERT.
        clean_up: Boolean. Whether `detokenize` leaves out the space in front of punctuation. Defaults to `True`.
        split: String. As for `TokenPreprocessor`. Defaults to `"punctuation"`.
        name: String. Name of the layer.

    Call arguments: As for `TokenPreprocessor`.

    Returns:
        Dict of `token_ids`, `segment_ids` and `padding_mask`, as for `TokenPreprocessor`.

    Raises:
        ValueError: If the vocabulary lacks special tokens or has duplicates, if texts are not strings, or if a length
            is too small.
        ImportError: If TensorFlow Text is not installed.

    Example:
    ```python
    preprocessor = keras_transfer.text.BertPreprocessor(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "film", "##s"], sequence_length=8
    )
    preprocessor(["The films"])["token_ids"]  # [[2, 4, 5, 6, 3, 0, 0, 0]]
    ```

    Source: Devlin et al. 2019, "BERT", section 3; https://github.com/google-research/bert.
    """

    assets = ("vocabulary",)

    @expects()
    def __init__(
        self,
        vocabulary: Sequence[str] | None = None,
        sequence_length: int = DEFAULT_LENGTH,
        *,
        lowercase: bool = True,
        strip_accents: bool | None = None,
        clean_up: bool = True,
        split: str = "punctuation",
        name: str | None = None,
    ):
        settings: dict[str, Any] = {"lowercase": lowercase, "strip_accents": strip_accents, "clean_up": clean_up}
        tokenizer = WordPieceTokenizer(vocabulary, **settings)
        super().__init__(tokenizer, BERT_PACKING, sequence_length, split=split, name=name)
        self.lowercase = tokenizer.lowercase
        self.strip_accents = tokenizer.strip_accents
        self.clean_up = tokenizer.clean_up

    @property
    def cls_id(self) -> int:
        """Integer. The id of `[CLS]`."""
        return self.token_to_id("[CLS]")

    @property
    def sep_id(self) -> int:
        """Integer. The id of `[SEP]`."""
        return self.token_to_id("[SEP]")

    def save(self, folder: str | os.PathLike, *, overwrite: bool = False) -> None:  # type: ignore[override]
        """Writes `vocab.txt` and `tokenizer_config.json`, which `load` and Transformers can read.

        Args:
            folder: Path. Created if it does not exist. `sequence_length` is written as `model_max_length`.
            overwrite: Boolean. Whether to replace the tokenizer of the folder, if it has one. Defaults to `False`.

        Raises:
            FileExistsError: If the folder has a tokenizer and `overwrite=False`.

        Example:
        ```python
        preprocessor = keras_transfer.text.BertPreprocessor(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
        preprocessor.save("my_preprocessor")
        ```
        """
        check_no_tokenizer(folder, overwrite)
        config = {
            "tokenizer_class": "BertTokenizer",
            "do_lower_case": self.lowercase,
            "strip_accents": self.strip_accents,
            "tokenize_chinese_chars": True,
            **({} if self.clean_up else {"clean_up_tokenization_spaces": False}),
            "model_max_length": self.sequence_length,
            SPLIT_KEY: self.split,
        }
        with atomic_files(folder) as new:
            self.save_assets(new)
            (new / CONFIG_FILE).write_text(json.dumps(config, indent=2) + "\n", "utf-8")

    @classmethod
    def load(  # type: ignore[override]
        cls,
        folder: str | os.PathLike,
        *,
        sequence_length: int | None = None,
        lowercase: bool | None = None,
        split: str | None = None,
        tokenizer: str | None = None,
        name: str | None = None,
    ) -> Self:
        """Returns the preprocessor of a folder that `save`, Transformers or Google's BERT wrote.

        Args:
            folder: Path of a folder with `vocab.txt` or `tokenizer.json`.
            sequence_length: Integer. Defaults to `max_seq_length` of `sentence_bert_config.json`, else to
                `model_max_length` of `tokenizer_config.json`, else to `128`.
            lowercase: Boolean. Defaults to the setting of `tokenizer.json` or `tokenizer_config.json` (see
                `tokenizer`). If neither has one, it is `True`, as in Transformers, with a warning if any token other
                than the special tokens has an upper-case letter. Without a `config.json` (Google's folders), it is then
                `False`.
            split: String. As in the constructor. Defaults to what `save` wrote, else to `"punctuation"`.
            tokenizer: String. `"file"` or `"config"`, as for `TokenPreprocessor.load`.
            name: String. Name of the layer.

        Returns:
            A `BertPreprocessor`.

        Raises:
            FileNotFoundError: If the folder has no vocabulary.
            ValueError: If its tokenizer is not a WordPiece tokenizer, splits words differently, or adds other special
                tokens, which `TokenPreprocessor.load` reads.

        Example:
        ```python
        preprocessor = keras_transfer.text.BertPreprocessor(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
        preprocessor.save("my_preprocessor")
        keras_transfer.text.BertPreprocessor.load("my_preprocessor", sequence_length=64)
        ```
        """
        found = load_word_piece(
            folder, sequence_length=sequence_length, lowercase=lowercase, split=split, tokenizer=tokenizer, name=name
        )
        if not isinstance(found, cls):
            raise ValueError(
                f"The tokenizer in {folder} adds other tokens than a `BertPreprocessor`, or truncates texts at another "
                "side. Pass the folder to `TokenPreprocessor.load` or `checkpoints.load_preprocessor`. Received: "
                f"unk_token={found.tokenizer.unk_token!r}, mask_token={found.tokenizer.mask_token!r}, {found.packing}"
            )
        return found


def load_word_piece(
    folder, *, sequence_length=None, lowercase=None, split=None, tokenizer=None, name=None
) -> TokenPreprocessor:
    """Returns the preprocessor of a folder of BERT: a `BertPreprocessor`, unless its special tokens are others."""
    found = read_tokenizer_folder(folder, choice=tokenizer, of_bert=True, lowercase=lowercase)
    settings = found["tokenizer"].get_config() | ({} if lowercase is None else {"lowercase": lowercase})
    length = (found["sequence_length"] or DEFAULT_LENGTH) if sequence_length is None else sequence_length
    vocabulary, packing, split = found["tokenizer"].vocabulary, found["packing"], split or found["split"]
    of_bert = dataclasses.replace(packing, segments=packing.segments or BERT_PACKING.segments) == BERT_PACKING
    if of_bert and (settings["unk_token"], settings["mask_token"]) == ("[UNK]", "[MASK]"):
        settings = {key: settings[key] for key in ("lowercase", "strip_accents", "clean_up")}
        return BertPreprocessor(vocabulary, length, split=split, name=name, **settings)
    return TokenPreprocessor(WordPieceTokenizer(vocabulary, **settings), packing, length, split=split, name=name)
