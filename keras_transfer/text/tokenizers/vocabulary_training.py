"""Tokenizers trained on your own texts."""

import io
import itertools
import json
import random
from collections.abc import Sequence
from typing import Any

from keras_transfer.core.documents import paths_of, read_documents
from keras_transfer.core.expect import expect, expects, integer, one_of
from keras_transfer.text.inputs import to_list
from keras_transfer.text.tokenizers.byte_bpe import ByteBPETokenizer, byte_characters
from keras_transfer.text.tokenizers.unigram import UnigramTokenizer
from keras_transfer.text.tokenizers.wordpiece import WordPieceTokenizer

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@expects(kind=one_of("wordpiece", "byte_bpe", "unigram"), sample=integer(1))
def train_vocabulary(
    texts: Any,
    kind: str,
    size: int,
    *,
    special_tokens: Sequence[str] = SPECIAL_TOKENS,
    lowercase: bool | None = None,
    text_column: str = "text",
    sample: int | None = None,
    seed: int = 0,
) -> WordPieceTokenizer:
    """Trains a tokenizer on texts, or on files of any size.

    To save it, pass it to a `TokenPreprocessor`, and call `save`.

    Args:
        texts: List, array, or table column of strings, or the path or list of paths of files, as for `Corpus.build`.
            Files are read line by line, and only the counts of their words are kept, except for `"unigram"`.
        kind: String. `"wordpiece"` (as BERT), `"byte_bpe"` (as GPT-2 and RoBERTa) or `"unigram"` (as ALBERT and XLNet).
        size: Integer. Number of tokens, including special tokens. Texts with few distinct words give fewer tokens.
        special_tokens: List of strings, the first tokens of the vocabulary: padding, unknown, start, end and mask, then
            any others. Defaults to `("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")`.
        lowercase: Boolean. Whether texts are lowercased. `"byte_bpe"` cannot lowercase. Defaults to `None`, which is
            `False` for `"byte_bpe"` and otherwise `True`.
        text_column: String. Column of JSON, CSV, TSV and Parquet files. Defaults to `"text"`.
        sample: Integer. Number of texts, or of lines of files, that are drawn at random, each with the same
            probability. Those are kept in memory. Defaults to `None`, for all.
        seed: Integer. Seed of the sample. Defaults to `0`.

    Returns:
        A `WordPieceTokenizer`, `ByteBPETokenizer` or `UnigramTokenizer`.

    Raises:
        ValueError: If there are no texts or fewer than five special tokens, if `size` or `sample` is too small, if a
            file is damaged, or if `"byte_bpe"` is combined with `lowercase=True`.
        FileNotFoundError: If there is no file of this name.
        ImportError: If `tokenizers`, or for `"unigram"` `sentencepiece`, is not installed.

    Example:
    ```python
    questions = keras_transfer.datasets.load_demo_questions().train.texts
    tokenizer = keras_transfer.text.train_vocabulary(questions, "byte_bpe", 400)
    packing = keras_transfer.text.Packing(["[CLS]"], ["[SEP]"], ["[SEP]"])
    keras_transfer.text.TokenPreprocessor(tokenizer, packing).save("my_tokenizer")
    ```
    """
    trainers = {"wordpiece": _train_word_piece, "byte_bpe": _train_byte_bpe, "unigram": _train_unigram}
    rule = "Byte-level BPE keeps upper case. Use `lowercase=False`, or lowercase texts in training and in use."
    if kind == "byte_bpe":
        expect(not lowercase, rule, kind=kind, lowercase=lowercase)
    lowercase = True if lowercase is None else lowercase
    special_tokens = list(special_tokens)
    expect(
        len(special_tokens) >= 5 and len(set(special_tokens)) == len(special_tokens),
        "A vocabulary needs at least five different special tokens: padding, unknown, start, end, mask.",
        special_tokens=special_tokens,
    )
    least = len(special_tokens) + (256 if kind == "byte_bpe" else 1)
    expect(size >= least, f"`size` must be at least {least}.", size=size)
    if paths_of(texts) is None:
        lines = to_list(texts)
    else:
        lines = itertools.chain.from_iterable(read_documents(texts, text_column, "line"))
    lines = iter(lines if sample is None else _drawn(lines, sample, seed))
    first = next(lines, None)
    expect(first is not None, "A vocabulary needs texts.", texts=texts)
    return trainers[kind](itertools.chain([first], lines), size, special_tokens, lowercase)


def _drawn(lines, count, seed):
    """Returns a list of `count` of the lines, or of all if there are fewer, in one pass (Vitter's algorithm R)."""
    drawn, chance = [], random.Random(seed)
    for number, line in enumerate(lines):
        if number < count:
            drawn.append(line)
        elif (place := int(chance.random() * (number + 1))) < count:
            drawn[place] = line
    return drawn


def _train_word_piece(texts, size, special, lowercase):
    tokenizers = _import_tokenizers()
    model = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token=special[1]))
    model.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=lowercase)
    model.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    trainer = tokenizers.trainers.WordPieceTrainer(vocab_size=size, special_tokens=special, show_progress=False)
    model.train_from_iterator(texts, trainer)
    ids = model.get_vocab()
    return WordPieceTokenizer(
        sorted(ids, key=ids.get), lowercase=lowercase, unk_token=special[1], mask_token=special[4]
    )


def _train_byte_bpe(texts, size, special, lowercase):
    tokenizers = _import_tokenizers()
    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=size, special_tokens=special, initial_alphabet=byte_characters(), show_progress=False
    )
    model.train_from_iterator(texts, trainer)
    merges = [tuple(pair) for pair in json.loads(model.to_str())["model"]["merges"]]
    names = {"unk_token": special[1], "mask_token": special[4], "eos_token": special[3]}
    return ByteBPETokenizer(model.get_vocab(), merges, **names)


def _train_unigram(texts, size, special, lowercase):
    try:
        import sentencepiece
    except ImportError as error:
        raise _missing("sentencepiece", error) from error
    file = io.BytesIO()
    pad, unknown, start, end, *others = special
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(text.lower() if lowercase else text for text in texts),
            model_writer=file,
            model_type="unigram",
            vocab_size=size,
            hard_vocab_limit=False,
            max_sentence_length=2**30,  # It would leave out longer texts.
            **{"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3, "pad_piece": pad, "unk_piece": unknown},
            **{"bos_piece": start, "eos_piece": end, "control_symbols": others, "minloglevel": 2},
        )
    except RuntimeError as error:
        raise ValueError(f"SentencePiece cannot train a vocabulary of this size. Received: {error}") from error
    steps = ["lowercase"] if lowercase else []
    return UnigramTokenizer(file.getvalue(), normalization=steps, mask_token=special[4], eos_token=end)


def _import_tokenizers():
    try:
        import tokenizers
    except ImportError as error:
        raise _missing("tokenizers", error) from error
    return tokenizers


def _missing(name, error):
    return ImportError(f"Training a vocabulary requires {name}: `pip install {name}`. Received: {error}")
