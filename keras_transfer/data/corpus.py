"""Text as ids in files on the disk, from which models are pretrained."""

import dataclasses
import hashlib
import json
import logging
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from keras_transfer.core.arrays import data_digest
from keras_transfer.core.documents import paths_of, read_documents
from keras_transfer.core.expect import FLAG, FRACTION, expect, expects, instance_of, integer, list_of, one_of
from keras_transfer.core.files import file_digest, read_json, write_json
from keras_transfer.core.folder_lock import lock_folder
from keras_transfer.data.batching import Batches
from keras_transfer.data.blocks import Blocks
from keras_transfer.data.building import build_shards, check_begin
from keras_transfer.data.pair_rows import OBJECTIVES, PairRows, Pairs
from keras_transfer.data.planning import Options
from keras_transfer.data.shards import CORPUS_FILE, discard_begin, open_shard, read_counts
from keras_transfer.data.streams import Streams
from keras_transfer.text.token_preprocessor import TokenPreprocessor

log = logging.getLogger("keras_transfer")
_FORMAT = 1
DOCUMENTS = ("blank_line", "line")
PACKINGS = ("full_sentences", "full_documents", "document", "stream")
_VIEW = {"batch_size": integer(1), "seed": integer(0)}  # The rules that all views of a corpus have.


class Corpus:
    """Text of any size as token ids in files, from which language models are pretrained.

    `build` tokenizes text once. Training then reads only what a batch needs. Besides, `blocks` keeps eight bytes for
    each row in memory: where it begins.

    Create it with `build` or `load`.

    Args:
        folder: `pathlib.Path`. Folder that contains the corpus.
        settings: Dict, the content of `corpus.json`.
        shards: List of the files of token ids.
        counts: List of dicts, what is known of each of these files. Defaults to `()`, for nothing.

    Attributes:
        folder: `pathlib.Path`.
        num_tokens, num_documents, num_lines: Integers. The numbers of ids, of documents, and of lines in them.

    Example:
    ```python
    texts = ["The film was long.\\nIt was good.", "The book was short."]
    words = "[PAD] [UNK] [CLS] [SEP] [MASK] the film book it was long short good .".split()
    preprocessor = keras_transfer.text.BertPreprocessor(words)
    corpus = keras_transfer.text.Corpus.build(texts, preprocessor, "my_corpus")
    encoder = keras_transfer.encoders.BertEncoder(14, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16)
    model = keras_transfer.tasks.MaskedLM(encoder, preprocessor)
    model.compile(keras_transfer.optimizers.FusedAdamW(1e-3))
    model.fit(corpus.blocks(16, batch_size=2), epochs=2)
    ```
    """

    def __init__(self, folder: pathlib.Path, settings: Mapping, shards: Sequence, counts: Sequence = ()):
        self.folder = folder
        self._settings, self._shards = settings, shards
        self._form = RowForm(**settings["rows"])
        self._digest = data_digest([json.dumps([settings, list(counts)], sort_keys=True)])
        self.num_tokens = sum(len(shard.ids) for shard in shards)
        self.num_documents = sum(len(shard.documents) for shard in shards)
        self.num_lines = sum(len(shard.lines) for shard in shards)

    @classmethod
    @expects(
        preprocessor=instance_of(TokenPreprocessor, "a `text.TokenPreprocessor`"),
        documents=one_of(*DOCUMENTS),
        shard_size=integer(1),
        workers=integer(1),
    )
    def build(
        cls,
        source: Any,
        preprocessor: Any,
        folder: str | os.PathLike,
        *,
        documents: str = "blank_line",
        text_column: str = "text",
        shard_size: int = 2**26,
        workers: int = 2,
        verbose: int = 1,
    ) -> Self:
        """Tokenizes text and writes its ids into a folder. If the process is stopped, the same call goes on.

        Each document ends with the token that ends a text (`[SEP]` of BERT, `</s>` of RoBERTa) or, if the preprocessor
        has none, with the tokenizer's `eos_token`, as for GPT-2. White space around a line is removed.

        Args:
            source: Path or list of paths, or an iterable of strings, each a document. Files are plain text, JSON Lines
                (`.jsonl`, `.json`), each also with `.gz`, or Parquet. The iterable must yield the same texts again if
                a stopped call is to go on, which compares them. Of a complete corpus, only the first text is compared.
                Of files, digests are compared. The texts of a table are one of its columns, such as `table["text"]`.
                The lines of a document are its sentences, if it is written so.
            preprocessor: `text.TokenPreprocessor`.
            folder: Path of the folder to write, which is created if it does not exist.
            documents: String. How the documents of plain text are separated: by empty lines, `"blank_line"`, or each
                line is one, `"line"`. Defaults to `"blank_line"`.
            text_column: String. Column of JSON, CSV, TSV, Excel, Parquet and Arrow files. Defaults to `"text"`.
            shard_size: Integer. Number of ids from which on a file is complete. Building needs memory for two times
                as many. Defaults to `2**26`.
            workers: Integer. Number of threads that tokenize. Defaults to `2`.
            verbose: Integer. `0` shows no progress. Defaults to `1`.

        Returns:
            A `Corpus`.

        Raises:
            FileNotFoundError: If there is no file of this name.
            ImportError: If Parquet or Arrow files are to be read and `pyarrow` is not installed.
            OSError: If a file cannot be written, for example because the disk is full.
            RuntimeError: If another process writes into the folder.
            ValueError: If the folder has the corpus of other texts or of other arguments; if there is no text; if a
                file is damaged, not in UTF-8 or has lines of more than 4 MiB; or if an argument is out of range.
        """
        paths = paths_of(source)
        separator = preprocessor.packing.end[:1] or (preprocessor.tokenizer.eos_token,)
        settings = {
            "format": _FORMAT,
            "rows": dataclasses.asdict(RowForm.of(preprocessor)),
            "separator": [preprocessor.token_to_id(token) for token in separator if token is not None],
            "source": None if paths is None else [[path.name, file_digest(path)] for path in paths],
            "documents": documents,
            "text_column": text_column,
            "shard_size": shard_size,
        }
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        lock, complete = lock_folder(folder), True
        try:
            complete, found = _begin(folder, settings), read_documents(source, text_column, documents)
            if complete:
                for counts in read_counts(folder)[:1]:
                    check_begin(found, counts, folder)
            else:
                dtype = "uint16" if preprocessor.vocabulary_size <= 2**16 else "int32"
                form = (_tokenizer(preprocessor), folder, dtype, settings["separator"])
                build_shards(found, *form, shard_size, workers, verbose)
                if not (shards := read_counts(folder)):
                    raise ValueError("A corpus must have at least one token. Received: a source without text")
                write_json(folder / CORPUS_FILE, {**settings, "shards": len(shards), "complete": True})
        except Exception:
            if not complete:
                discard_begin(folder)
            raise
        finally:
            lock.release()
        return cls.load(folder)

    @classmethod
    def load(cls, folder: str | os.PathLike) -> Self:
        """Opens the corpus in a folder that `build` wrote.

        Args:
            folder: String or path. Folder that contains the corpus.

        Returns:
            A `Corpus`.

        Raises:
            ValueError: If the folder has no corpus, if `build` has not finished it, or if a file is missing, cut or
                damaged.
        """
        folder = pathlib.Path(folder)
        rule = "Expected the folder of a corpus, as `Corpus.build` writes it."
        expect((folder / CORPUS_FILE).exists(), rule, folder=str(folder))
        settings, counts = read_json(folder / CORPUS_FILE), read_counts(folder)
        found = settings.get("format")
        expect(found == _FORMAT, f"{folder}: Expected a corpus of format {_FORMAT}.", format=found)
        rule = (
            f"{folder}: The corpus is not complete. Call `Corpus.build` again with the same arguments, which goes on "
            "where it was."
        )
        expect(settings["complete"], rule, complete_shards=len(counts))
        rule = (
            f"{folder}: Expected the files of {settings.get('shards')} shards. Some are missing: copy the whole "
            "folder, or remove it and build the corpus again."
        )
        expect(len(counts) == settings["shards"], rule, shards=len(counts))
        shards = [open_shard(folder, number, each) for number, each in enumerate(counts)]
        return cls(folder, settings, shards, counts)

    @expects(length=integer(1), packing=one_of(*PACKINGS), shuffle=FLAG, **_VIEW)
    def blocks(
        self,
        length: int,
        *,
        batch_size: int = 32,
        packing: str = "full_sentences",
        shuffle: bool = True,
        drop_remainder: bool = False,
        seed: int | None = None,
    ) -> Batches:
        """Returns the corpus as batches of rows for `fit` and `evaluate` of a task without labels.

        Rows contain lines of the corpus in their order. A line that is longer than a row is cut. No id is lost, and
        none is in two rows.

        Args:
            length: Integer. Number of ids of a row, with its special tokens.
            batch_size: Integer. Number of rows in a batch. Defaults to `32`.
            packing: String. What a row contains. Defaults to `"full_sentences"`.

                - `"full_sentences"`: as many lines as fit, also from several documents (RoBERTa's FULL-SENTENCES);
                - `"document"`: as many lines of one document as fit (DOC-SENTENCES), with more padding;
                - `"full_documents"`: as many documents as fit, of which only longer ones are cut;
                - `"stream"`: as many ids as fit, cut anywhere, without padding. For causal language models.
            shuffle: Boolean. Whether rows are in another random order in each epoch. Defaults to `True`.
            drop_remainder: Boolean. Whether a last batch with fewer rows is left out. Defaults to `False`.
            seed: Integer. Seed of the order. Defaults to `None`, which follows `keras.utils.set_random_seed`.

        Returns:
            `Batches` of `token_ids`, `padding_mask` and, if the preprocessor makes them, `segment_ids`. They have a
            `state_dict`, and `seek(batch)` begins the epoch with a later batch.

        Raises:
            ValueError: If `length` has no place for text, if `drop_remainder=True` would leave no batch, or if another
                argument is out of range.
        """
        width = length - self._form.num_special_tokens
        rule = f"`length` must be greater than {self._form.num_special_tokens}, the number of special tokens of a row."
        expect(width >= 1, rule, length=length)
        starts = [row_starts(shard, packing, width) for shard in self._shards]
        options = Options(batch_size, (length,), shuffle, drop_remainder=drop_remainder)
        source = {"corpus": self._digest, "packing": packing}
        return _checked(Blocks(self._shards, starts, self._form, options, seed, source))

    @expects(window=integer(1), lengths=list_of(integer(1), 1), **_VIEW)
    def streams(
        self,
        batch_size: int = 32,
        window: int = 70,
        *,
        lengths: tuple | None = None,
        reverse: bool = False,
        seed: int | None = None,
    ) -> Batches:
        """Returns the corpus as long texts in windows, for truncated back-propagation with a recurrent encoder.

        The ids of the corpus are cut into `batch_size` texts of equal length. Row b of a batch continues row b of the
        batch before it. `tasks.CausalLM(encoder, streams=batch_size)` carries its state along. No id is lost.

        Args:
            batch_size: Integer. Number of texts. Defaults to `32`.
            window: Integer. Number of ids of a window, without special tokens. Defaults to `70`.
            lengths: Tuple of at most six different integers, one of which is drawn for each window in place of
                `window`. One that occurs several times is drawn as much more often. Then windows begin at other places
                in each epoch (Merity et al. 2018). Defaults to `None`.
            reverse: Boolean. Whether the corpus is read from its last id to its first, for a backward language model
                (Howard and Ruder 2018). Defaults to `False`.
            seed: Integer. Seed of the lengths. Defaults to `None`, which follows `keras.utils.set_random_seed`.

        Returns:
            `Batches` of `token_ids`, `padding_mask` and `begins`, with targets and weights. They have a `state_dict`,
            and `seek(batch)` begins the epoch with a later batch.

        Raises:
            ValueError: If the corpus has fewer than two ids for each text, or if an argument is out of range.

        Source: https://arxiv.org/abs/1708.02182, section 5.
        """
        drawn = (window,) if lengths is None else tuple(lengths)
        expect(len(set(drawn)) <= 6, "`lengths` must have one to six different lengths.", lengths=lengths)
        rule = f"The corpus in {self.folder} must have two ids for each of {batch_size} texts."
        expect(self.num_tokens >= 2 * batch_size, f"{rule} Use a smaller batch size.", ids=self.num_tokens)
        options = Options(batch_size, tuple(sorted(set(drawn))), len(set(drawn)) > 1, drop_remainder=True)
        form, source = self._form, {"corpus": self._digest}
        return Streams(self._shards, options, drawn, form.pad_id, form.check_preprocessor, seed, reverse, source)

    @expects(length=integer(1), objective=one_of(*OBJECTIVES), short=FRACTION, shuffle=FLAG, **_VIEW)
    def pairs(
        self,
        length: int,
        *,
        objective: str = "next_sentence",
        short: float = 0.1,
        batch_size: int = 32,
        shuffle: bool = True,
        drop_remainder: bool = False,
        seed: int | None = None,
    ) -> Batches:
        """Returns the corpus as batches of pairs of segments, with labels that say whether they belong together.

        The lines of a document should be its sentences. A document is cut into chunks of about `length` ids, and each
        chunk into two segments after any of its lines. `tasks.BertPretraining` trains on them. If a pair is too long,
        single ids are removed from the longer segment, at its beginning or its end.

        Every epoch draws other pairs when it begins, which takes seconds for gigabytes of text, and memory for the
        number of each row. It has as many rows as the first one, so that a few of them are left out or occur twice.

        Args:
            length: Integer. Number of ids of a row, with its special tokens.
            objective: String. What the labels say. Defaults to `"next_sentence"`.

                - `"next_sentence"` (BERT): half of the second segments are replaced by one of another document, which
                  has the label 1. The lines that were not used then begin the next chunk. A chunk of one line always
                  gets another second segment, so that fewer than half of the pairs follow each other, as in the
                  original. A line is logged that says how many, with the accuracy of a constant answer;
                - `"sentence_order"` (ALBERT): half of the pairs are swapped, which has the label 1. A line that is
                  alone in its document is left out.
            short: Float between 0 and 1. Fraction of the documents with shorter chunks, of any length from 2 on.
                Defaults to `0.1`.
            batch_size: Integer. Number of rows in a batch. Defaults to `32`.
            shuffle: Boolean. Whether rows are in another random order in each epoch. Defaults to `True`.
            drop_remainder: Boolean. Whether a last batch with fewer rows is left out. Defaults to `False`.
            seed: Integer. Seed of the pairs and of their order. Defaults to `None`, which follows
                `keras.utils.set_random_seed`.

        Returns:
            `Batches` of `token_ids`, `padding_mask` and, if the preprocessor makes them, `segment_ids`, with labels 0
            and 1. They have a `state_dict`, and `seek(batch)` begins the epoch with a later batch.

        Raises:
            ValueError: If the corpus has only one document for `"next_sentence"`, or no document of several lines for
                `"sentence_order"`; if `length` has no place for two segments; if `drop_remainder=True` would leave no
                batch; if the corpus was built by a version without pairs; or if another argument is out of range.

        Source: https://arxiv.org/abs/1810.04805 (`create_pretraining_data.py`), https://arxiv.org/abs/1909.11942.
        """
        rule = (
            f"{self.folder}: This corpus of an earlier version does not know the tokens between the segments of a "
            "pair. Remove the folder, and build the corpus again."
        )
        expect(self._form.between is not None, rule, between=None)
        least, documents = self._form.num_special_tokens_of_pairs + 2, self.num_documents
        rule = f"`length` must be at least {least}, for the special tokens and a token of each segment."
        expect(length >= least, rule, length=length)
        rule = (
            "`objective='next_sentence'` requires at least two documents, because half of the second segments are from "
            "another one. Use 'sentence_order', or separate the documents by empty lines."
        )
        expect(objective != "next_sentence" or documents > 1, rule, documents=documents)
        rule = "`objective='sentence_order'` requires documents of several lines, such as one for each sentence."
        expect(objective != "sentence_order" or self.num_lines > documents, rule, lines=documents, documents=documents)
        separator = len(self._settings["separator"])
        rows = PairRows(self._shards, self._form, separator, length, objective, float(short))
        options = Options(batch_size, (length,), shuffle, drop_remainder=drop_remainder)
        found = Pairs(rows, options, seed, {"corpus": self._digest, "objective": objective, "short": float(short)})
        _checked(found)
        if objective == "next_sentence":
            others = float(rows.labels(rows.starts(found.seed, 0), found.seed, 0).mean())
            log.info(
                "In %.0f%% of the pairs, the second segment follows the first. The same answer for all pairs has an "
                "accuracy of %.2f.",
                *(100 * (1 - others), max(others, 1 - others)),
            )
        return found


def _checked(view):
    """Returns a view of a corpus, or raises a `ValueError` if its only batch would be left out."""
    size = view.options.batch_size
    rule = f"`drop_remainder=True` requires at least one full batch of {size} rows. Use a smaller `batch_size`."
    if view.options.drop_remainder:
        expect(view.count >= size, rule, rows=view.count)
    return view


def _begin(folder, settings):
    """Returns whether a folder has the complete corpus of these settings, and writes them if it has none."""
    path = folder / CORPUS_FILE
    if not path.exists():
        if found := sorted(each.name for each in folder.iterdir() if not each.name.startswith(".")):
            raise ValueError(
                f"A corpus needs a folder of its own. Received: folder={str(folder)!r}, which contains {found[:3]}"
            )
        write_json(path, {**settings, "complete": False})
        return False
    before = read_json(path)
    arguments = {"rows": "preprocessor", "separator": "preprocessor"}
    # A corpus that was built before it kept the tokens between two segments has the same rows.
    settings = {
        **settings,
        "rows": {name: settings["rows"][name] for name in before["rows"] if name in settings["rows"]},
    }
    changed = {arguments.get(name, name): None for name in settings if before.get(name) != settings[name]}
    if changed:
        raise ValueError(
            f"The folder has a corpus of another {' and '.join(changed)}. Choose another folder, or remove it. "
            f"Received: folder={str(folder)!r}"
        )
    return before["complete"]


def _tokenizer(preprocessor):
    """Returns a function from texts to the ids of all of them, and the number of ids of each."""

    def tokenize(texts):
        if not texts:
            return np.zeros(0, "int32"), np.zeros(0, "int64")
        found = preprocessor.tokenize(texts)
        return found.values.numpy(), found.row_lengths().numpy()

    return tokenize


def row_starts(shard, packing, width):
    """Returns where the rows of a shard begin, int64. Each row ends where the next one begins, so no id is lost."""
    count = len(shard.ids)
    if packing == "stream":
        return np.arange(0, count, width, dtype="int64")
    bounds = _bounds(np.asarray(shard.documents if packing == "full_documents" else shard.lines), width)
    following = np.searchsorted(bounds, bounds + width, side="right") - 1
    if packing == "document":
        ends = np.searchsorted(bounds, shard.documents)
        following = np.minimum(
            following, np.append(ends, len(bounds))[np.searchsorted(ends, np.arange(len(bounds)), side="right")]
        )
    following, starts, at = following.tolist(), [], 0
    while at < len(following) - 1:
        starts.append(at)
        at = following[at]
    return bounds[starts]


def _bounds(ends, width):
    """Returns 0 and the ends of units, of which those that are longer than a row are cut into pieces."""
    bounds = np.concatenate([[0], ends]).astype("int64")
    pieces = -(-np.diff(bounds) // width)
    if (pieces <= 1).all():
        return bounds
    first = np.repeat(bounds[:-1], pieces)
    nth = np.arange(len(first)) - np.repeat(np.cumsum(pieces) - pieces, pieces) + 1
    return np.concatenate([[0], np.minimum(first + nth * width, np.repeat(ends, pieces))])


@dataclasses.dataclass(frozen=True)
class RowForm:
    """The form of the rows that a preprocessor makes of single texts.

    Args:
        start, end: Lists of integers. The special ids around the ids of a row.
        segments: List of integers, the segment of a row and, if there is a third one, that of its last id. None for a
            model without segments.
        tokenizer: String. Digest of the tokenizer.
        between: List of integers. The special ids between the segments of a pair. None for a corpus that was built
            before it kept them.
    """

    start: list
    end: list
    pad_id: int
    segments: list | None
    tokenizer: str
    between: list | None = None

    @classmethod
    def of(cls, preprocessor):
        packing, find = preprocessor.packing, preprocessor.token_to_id
        segments = None if packing.segments is None else list(packing.segments)
        special = (packing.start, packing.end, packing.between)
        start, end, between = ([find(token) for token in tokens] for tokens in special)
        return cls(start, end, int(preprocessor.pad_id), segments, digest_of(preprocessor), between)

    @property
    def features(self):
        return ("token_ids", *(() if self.segments is None else ("segment_ids",)), "padding_mask")

    @property
    def num_special_tokens(self):
        return len(self.start) + len(self.end)

    def pack(self, rows, length):
        """Returns rows of ids as a dict of int32 arrays [rows, length] with special tokens and padding."""
        first, *others = self.segments or [0]
        found = []
        for row in rows:
            is_end = len(row) and self.end and row[-1] == self.end[0]  # The end of a document has this id already.
            ids = np.concatenate([self.start, row, self.end[1:] if is_end else self.end])
            segments = np.full(len(ids), first)
            segments[-1:] = others[1] if len(others) == 2 else first
            found.append((ids, segments))
        return self._padded(found, length)

    def pack_pairs(self, firsts, seconds, length):
        """Returns pairs of rows of ids as `pack` returns single ones."""
        found, segments = [], self.segments or [0, 0]
        for first, second in zip(firsts, seconds):
            parts = np.concatenate([self.start, first, self.between]), np.concatenate([second, self.end])
            of_parts = np.repeat(segments[:2], [*map(len, parts)])
            of_parts[-1] = segments[-1]
            found.append((np.concatenate(parts), of_parts))
        return self._padded(found, length)

    def _padded(self, rows, length):
        """Returns pairs of ids and their segments as a dict of int32 arrays [rows, length]."""
        found = {name: np.zeros((len(rows), length), "int32") for name in self.features}
        found["token_ids"] += np.int32(self.pad_id)
        for i, (ids, segments) in enumerate(rows):
            for name, values in zip(("token_ids", "padding_mask", "segment_ids"), (ids, 1, segments)):
                if name in found:
                    found[name][i, : len(ids)] = values
        return found

    @property
    def num_special_tokens_of_pairs(self):
        return self.num_special_tokens + len(self.between)

    def check_preprocessor(self, preprocessor):
        """Raises a `ValueError` if a preprocessor has another tokenizer or other special tokens than the corpus."""
        has_tokenizer = not hasattr(preprocessor, "tokenizer") or digest_of(preprocessor) == self.tokenizer
        received = "with another vocabulary, or with other settings such as `lowercase`"
        _check_corpus_has(has_tokenizer, "tokenizer", received)
        packing = getattr(preprocessor, "packing", None)
        if packing is None:
            return
        has_segments = self.segments is not None or packing.segments is None
        _check_corpus_has(has_segments, "segments", "without segments")
        task_form, changed = RowForm.of(preprocessor), []
        for name in ("start", "end", "between", "pad_id"):
            own, of_task = getattr(self, name), getattr(task_form, name)
            if own is not None and own != of_task:
                changed.append(f"{name}={own} (task: {of_task})")
        _check_corpus_has(not changed, "special tokens", f"with {', '.join(changed)}")


def _check_corpus_has(is_met, what, received):
    """Raises a `ValueError` if a corpus lacks something that the preprocessor of a task has."""
    if not is_met:
        raise ValueError(
            f"The corpus must have the {what} of the task's preprocessor. Build it again with "
            f"`Corpus.build(source, task.preprocessor, folder)`. Received: a corpus {received}"
        )


def digest_of(preprocessor):
    """Returns a string that two preprocessors share if they give texts the same ids."""
    tokenizer = preprocessor.tokenizer
    settings = {
        name: value for name, value in tokenizer.get_config().items() if name not in ("mask_token", "eos_token")
    }
    parts = [type(tokenizer).__name__, json.dumps(settings, sort_keys=True), *tokenizer.vocabulary]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
