"""A corpus: what is built from files and iterables, the rows that are packed from it, and models that train on them."""

import gzip
import json

import keras
import numpy as np
import pytest

from keras_transfer.data.blocks import Blocks, Column
from keras_transfer.data.shards import Shuffle
from keras_transfer.encoders import BertEncoder, TransformerEncoder
from keras_transfer.objectives import TokenMasking
from keras_transfer.tasks import CausalLM, MaskedLM
from keras_transfer.text import BertPreprocessor, Corpus, Packing, TokenPreprocessor
from keras_transfer.training.training_checkpoint import TrainingCheckpoint
from tests.errors import check_errors
from tests.helpers import EAGER
from tests.training.resume.checkpoint_runs import linear
from tests.training.rows import tell

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij"]
SEP = 3
SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32}


def preprocessor(words=WORDS):
    return BertPreprocessor(words, sequence_length=16)


def documents(count=40, seed=0):
    """Returns texts of 1 to 6 lines of 1 to 9 words."""
    random = np.random.default_rng(seed)
    lines = lambda: " ".join(random.choice(list("abcdefghij"), random.integers(1, 10)))  # noqa: E731
    return ["\n".join(lines() for _ in range(random.integers(1, 7))) for _ in range(count)]


def build(folder, source=None, words=WORDS, **options):
    source = documents() if source is None else source
    return Corpus.build(source, preprocessor(words), folder, **{"verbose": 0, "shard_size": 100, **options})


def expected_ids(texts):
    ids = {word: index for index, word in enumerate(WORDS)}
    return [[*(ids[word] for word in text.split()), SEP] for text in texts]


def flat(rows):
    return [id for row in rows for id in row]


def content(corpus, **options):
    """Returns the rows of all blocks without padding, in order."""
    blocks = corpus.blocks(16, batch_size=4, shuffle=False, **options)
    return [
        inputs["token_ids"][i][inputs["padding_mask"][i] == 1].tolist()
        for (inputs,) in (blocks[number] for number in range(len(blocks)))
        for i in range(len(inputs["token_ids"]))
    ]


# === Building ===


def test_a_corpus_is_built_from_documents_and_loaded(tmp_path):
    texts = documents()
    corpus = build(tmp_path / "corpus")
    rows = expected_ids(texts)
    assert (corpus.num_documents, corpus.num_tokens) == (len(texts), sum(map(len, rows)))
    assert corpus.num_lines == sum(text.count("\n") + 1 for text in texts)
    assert len(list((tmp_path / "corpus").glob("*.ids.npy"))) > 3
    again = Corpus.load(tmp_path / "corpus")
    assert content(again) == content(corpus)
    assert again._shards[0].ids.dtype == np.uint16


def test_files_of_all_kinds_give_the_same_corpus(tmp_path):
    texts = documents(6)
    expected = content(build(tmp_path / "of texts", texts))
    plain = "\n\n".join(texts).encode()
    (tmp_path / "a.txt").write_bytes(plain)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(plain))
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text, "id": 1}) + "\n" for text in texts))
    (tmp_path / "one.txt").write_text("\n\n \n".join(texts[:3]))
    (tmp_path / "two.txt").write_text("\n\n".join(texts[3:]) + "\n")
    for number, source in enumerate(
        [
            tmp_path / "a.txt",
            str(tmp_path / "a.txt.gz"),
            [tmp_path / "a.jsonl"],
            [tmp_path / "one.txt", tmp_path / "two.txt"],
        ]
    ):
        assert content(build(tmp_path / f"corpus {number}", source)) == expected
    (tmp_path / "lines.txt").write_text("a b\n\nc\n d \n")
    assert build(tmp_path / "lines", tmp_path / "lines.txt", documents="line").num_documents == 3


def test_a_build_that_was_stopped_goes_on_and_gives_the_same_files(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_transfer.data.building._CHUNK", 60)
    texts = documents()

    def stopping():
        yield from texts[:25]
        raise KeyboardInterrupt

    build(tmp_path / "whole", texts, workers=1)
    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "stopped", stopping(), workers=3)
    finished = sorted((tmp_path / "stopped").glob("*.json"))
    assert len(finished) > 2
    with pytest.raises(ValueError, match="not complete. Call `Corpus.build` again"):
        Corpus.load(tmp_path / "stopped")
    with pytest.raises(ValueError, match="The folder has a corpus of other texts"):
        build(tmp_path / "stopped", [*texts[:10], "a", *texts[10:]])
    before = [path.stat().st_mtime_ns for path in finished[:-1]]
    build(tmp_path / "stopped", texts, workers=2)
    assert [path.stat().st_mtime_ns for path in finished[:-1]] == before
    names = sorted(path.name for path in (tmp_path / "whole").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "stopped").iterdir())
    for name in names:
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "stopped" / name).read_bytes()
    build(tmp_path / "stopped", iter(texts[:1]))  # The corpus is complete, so that only the first text is read.
    with pytest.raises(ValueError, match="The folder has a corpus of other texts"):
        build(tmp_path / "stopped", texts[1:])


def test_documents_without_text_are_no_part_of_a_corpus(tmp_path):
    for source in ([], ["", " \n"]):
        with pytest.raises(ValueError, match="at least one token. Received: a source without text"):
            build(tmp_path / "corpus", source)
    corpus = build(tmp_path / "corpus", ["a b c"] * 50 + ["", " "])  # None of these is left out.
    assert (corpus.num_documents, corpus.num_tokens) == (50, 200)
    assert all(len(shard.ids) for shard in corpus._shards)


# === Rows ===


@pytest.mark.parametrize("packing", ["full_sentences", "document", "full_documents", "stream"])
def test_packing_loses_no_id(tmp_path, packing):
    texts = [*documents(30), "a " * 50, "b"]  # one line is longer than three rows
    corpus = build(tmp_path / "corpus", texts, shard_size=10**6)
    blocks = corpus.blocks(16, packing=packing, shuffle=False)
    rows = [blocks.ids(row).tolist() for row in range(blocks.count)]
    assert flat(rows) == flat(expected_ids(texts))
    assert max(map(len, rows)) <= 14
    if packing == "stream":
        assert {len(row) for row in rows[:-1]} == {14}
    if packing == "document":
        assert all(SEP not in row[:-1] for row in rows)
    ends = np.cumsum([len(row) for row in rows])
    short = [line for line in np.diff(corpus._shards[0].lines, prepend=0) if line <= 14]
    if packing in ("full_sentences", "document"):  # A row ends where a line does, unless the line is cut.
        assert np.isin(ends, corpus._shards[0].lines).sum() >= len(rows) - 3 and len(short) > 50
    if packing == "full_documents":
        short = np.flatnonzero(np.diff(corpus._shards[0].documents, prepend=0) <= 14)
        starts = np.concatenate([[0], corpus._shards[0].documents])[short]
        for start, end in zip(starts, corpus._shards[0].documents[short]):
            assert not ((ends > start) & (ends < end)).any()  # A document that fits is in one row.


def test_rows_have_special_tokens_segments_and_padding(tmp_path):
    corpus = build(tmp_path / "corpus", ["a b\nc", "d"])
    (inputs,) = corpus.blocks(8, packing="document", shuffle=False)[0]
    assert inputs["token_ids"].tolist() == [[2, 5, 6, 7, 3, 0, 0, 0], [2, 8, 3, 0, 0, 0, 0, 0]]
    assert inputs["padding_mask"].tolist() == [[1, 1, 1, 1, 1, 0, 0, 0], [1, 1, 1, 0, 0, 0, 0, 0]]
    assert not inputs["segment_ids"].any()
    assert content(corpus) == [[2, 5, 6, 7, 3, 8, 3]]
    (inputs,) = corpus.blocks(4, packing="document", shuffle=False)[0]
    assert inputs["token_ids"].tolist() == [[2, 5, 6, 3], [2, 7, 3, 0], [2, 8, 3, 0]]


# === Order ===


@pytest.mark.parametrize("count", [1, 2, 3, 17, 256, 257, 5000])
def test_a_shuffle_is_a_permutation(count):
    found = Shuffle(count, [0, 1])(np.arange(count))
    assert sorted(found.tolist()) == list(range(count))
    assert Shuffle(count, [0, 1])([count - 1])[0] == found[-1]


def test_the_orders_of_a_shuffle_are_as_random_as_permutations():
    count, draws = 10, 2000
    orders = np.stack([Shuffle(count, [7, epoch])(np.arange(count)) for epoch in range(draws)])
    for statistic in (orders[:, 0], orders[:, 7], (orders[:, 3] - orders[:, 2]) % count - 1):
        observed = np.bincount(statistic, minlength=count)[: 9 if statistic.max() < 9 else count]
        expected = draws / len(observed)
        # The 0.9999 quantile of chi-square with nine degrees of freedom is 33.7.
        assert ((observed - expected) ** 2 / expected).sum() < 33.7
    assert len({tuple(order) for order in orders.tolist()}) > 0.99 * draws


def test_epochs_have_other_orders_that_the_seed_determines(tmp_path):
    corpus = build(tmp_path / "corpus")

    def epoch(seed, number):
        blocks = corpus.blocks(16, batch_size=4, seed=seed)
        blocks.epoch = number
        return blocks.order.tolist()

    first = epoch(3, 0)
    assert first == epoch(3, 0) and sorted(first) == list(range(len(first)))
    assert len({tuple(epoch(seed, number)) for seed in (3, 4) for number in range(3)}) == 6


def test_replicas_share_every_batch_because_a_short_one_repeats_its_rows(tmp_path):
    blocks = build(tmp_path / "corpus", ["a"] * 10).blocks(4, batch_size=4, packing="document", shuffle=False)
    shared = blocks.replace(replicas=4, repeat="even")
    assert [rows.tolist() for _, rows in shared.planned()] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 8, 9]]


def test_seek_begins_with_a_later_batch(tmp_path):
    corpus = build(tmp_path / "corpus")
    whole, rest = (corpus.blocks(16, batch_size=4, seed=0) for _ in range(2))
    rest.seek(5)
    assert len(rest) == len(whole) - 5
    np.testing.assert_array_equal(rest[0][0]["token_ids"], whole[5][0]["token_ids"])
    rest.on_epoch_end()
    assert len(rest) == len(whole)
    assert rest.state_dict() == {"seed": 0, "epoch": 1, "batch": 0}


def test_processes_share_the_batches_and_the_targets_of_one(tmp_path):
    masking, tokens = TokenMasking(), {"mask_id": 4, "special_ids": range(5), "vocabulary_size": len(WORDS)}

    def batches(blocks):
        blocks = blocks.with_targets(lambda inputs, random: masking(inputs, random, **tokens))
        return [blocks[index] for index in range(len(blocks))]

    corpus = build(tmp_path / "corpus")
    blocks = corpus.blocks(16, batch_size=4, seed=0)
    for _ in range(2):
        whole, shards = batches(blocks), [batches(blocks.shard(index, 4)) for index in range(4)]
        assert len(whole) % 4 and {len(shard) for shard in shards} == {len(whole) // 4}
        keras.tree.map_structure(np.testing.assert_array_equal, whole[: len(whole) // 4 * 4], _turns(shards))
        blocks.on_epoch_end()
    part = blocks.shard(1, 3).take(2)
    assert len(part) == 2 and len(blocks.take(10**6)) == len(blocks)
    part.seek(1)
    np.testing.assert_array_equal(part[0][0]["token_ids"], blocks[4][0]["token_ids"])


def _turns(shards):
    return [batch for batches in zip(*shards) for batch in batches]


# === Training ===


def test_tasks_train_on_blocks(tmp_path, eagerly):
    corpus = build(tmp_path / "corpus", ["a b c d e f g h i j"] * 17)  # 12 rows
    keras.utils.set_random_seed(0)
    masked = MaskedLM(BertEncoder(len(WORDS), **SIZES), preprocessor())
    causal = CausalLM(TransformerEncoder(len(WORDS), **SIZES, causal=True), preprocessor())
    for model in (masked, causal):
        model.compile(keras.optimizers.Adam(3e-2), run_eagerly=EAGER)
        losses = model.fit(corpus.blocks(16, batch_size=4, seed=0), epochs=2, verbose=0).history["loss"]
        assert losses[-1] < losses[0]
        assert model.evaluate(corpus.blocks(16, shuffle=False), verbose=0, return_dict=True)["loss"] < losses[0]


def test_fit_reads_no_more_of_a_corpus_than_its_batches(tmp_path, monkeypatch):
    def read(blocks, rows, length):
        raise AssertionError("rows were read")

    monkeypatch.setattr(Blocks, "read", read)
    monkeypatch.setattr(Column, "__getitem__", read)
    blocks = build(tmp_path / "corpus").blocks(16, batch_size=4, seed=0)
    encoders = (BertEncoder(len(WORDS), **SIZES), TransformerEncoder(len(WORDS), **SIZES, causal=True))
    for task, encoder in zip((MaskedLM, CausalLM), encoders):
        assert len(task(encoder, preprocessor()).dataset(blocks)) == len(blocks)


class Stop(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 5:
            raise KeyError("stop")


def test_a_run_that_was_stopped_within_an_epoch_goes_on_and_gives_the_same_weights(tmp_path):
    corpus = build(tmp_path / "corpus")

    def train(*callbacks):
        model, blocks, read = linear(), corpus.blocks(16, batch_size=4, seed=0), []
        blocks.ids = lambda row, ids=blocks.ids: (read.append(row), ids(row))[1]
        data = blocks.with_targets(lambda inputs, random: (inputs["token_ids"][:, 1:5], inputs["token_ids"][:, 5] % 3))
        tell(callbacks, data)
        model.fit(data, epochs=2, verbose=0, shuffle=False, callbacks=list(callbacks))
        return model, read

    whole, everything = train()
    with pytest.raises(KeyError, match="stop"), TrainingCheckpoint(tmp_path / "run", save_every=4) as checkpoint:
        train(checkpoint, Stop())
    with TrainingCheckpoint(tmp_path / "run", save_every=4) as checkpoint:
        rest, read = train(checkpoint)
    assert len(read) <= len(everything) - 16 + 8  # The batches before are not read again; Keras looks at two.
    for one, other in zip(whole.weights, rest.weights, strict=True):
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(one), keras.ops.convert_to_numpy(other))


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A corpus, another one with rows of the same lengths, and the folder of a run that was stopped within an epoch."""
    folder = tmp_path_factory.mktemp("stopped")
    corpora = [build(folder / name, texts) for name, texts in (("a", documents()), ("b", moved(documents())))]
    with pytest.raises(KeyError, match="stop"), TrainingCheckpoint(folder / "run", save_every=4) as checkpoint:
        train_on(corpora[0].blocks(16, batch_size=4, seed=0), checkpoint, Stop())
    return (*corpora, folder / "run")


def moved(texts):
    return [text.translate(str.maketrans("abcdefghij", "bcdefghija")) for text in texts]


def train_on(blocks, *callbacks):
    targets = lambda inputs, random, *labels: (inputs["token_ids"][:, 1:5], inputs["token_ids"][:, 5] % 3)  # noqa: E731
    data = blocks.take(8).with_targets(targets)
    tell(callbacks, data)
    linear().fit(data, epochs=1, verbose=0, shuffle=False, callbacks=list(callbacks))


OTHERS = {
    "corpus": lambda one, other: other.blocks(16, batch_size=4, seed=0),
    "lengths.0": lambda one, other: one.blocks(15, batch_size=4, seed=0),
    "packing": lambda one, other: one.blocks(16, batch_size=4, packing="document", seed=0),
    "shuffle": lambda one, other: one.blocks(16, batch_size=4, shuffle=False),
    "batch_size": lambda one, other: one.blocks(16, batch_size=3, seed=0),
    "drawn.0": lambda one, other: one.streams(4, 16),
    "objective": lambda one, other: one.pairs(16, batch_size=4, seed=0),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_run_does_not_resume_within_an_epoch_of_other_data(name, stopped):
    *corpora, folder = stopped
    match = f"use the same data in the same batches. Received: (.*; )?{name}=\\S+ "
    with pytest.raises(ValueError, match=match), TrainingCheckpoint(folder, save_every=4) as checkpoint:
        train_on(OTHERS[name](*corpora), checkpoint)


# === Mistakes ===


def flip(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 64
    path.write_bytes(content)


def broken(folder, write):
    build(folder)
    write(folder)
    return Corpus.load(folder)


def cut(path):
    path.write_bytes(path.read_bytes()[:-10])


def file(path, content):
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return path


def test_a_list_without_objects_among_files_has_no_documents(tmp_path):
    files = [file(tmp_path / "a.json", b"[]"), file(tmp_path / "b.json", b'[{"text": "a b"}]')]
    assert content(build(tmp_path / "c", files)) == content(build(tmp_path / "d", ["a b"]))


test_mistakes_of_building_are_errors = check_errors(
    (lambda tmp_path: build(tmp_path / "c", [3]), "Received: 3, position=0"),
    (
        lambda tmp_path: build(tmp_path / "c", pytest.importorskip("pandas").DataFrame({"text": ["a b"]})),
        "pass `table['text']`, or the values of the dict. Received: DataFrame with ['text']",
    ),
    (
        lambda tmp_path: build(tmp_path / "c", [str(file(tmp_path / "a.txt", b"a"))]),
        "A list of strings contains texts. Pass files as a list of `pathlib.Path`. Received: ",
    ),
    (lambda tmp_path: build(tmp_path / "c", str(tmp_path / "x")), FileNotFoundError, "There is no file"),
    (
        lambda tmp_path: build(tmp_path / "c", file(tmp_path / "a.txt", b"a\nb\xff\n")),
        "a.txt, line 2: Expected UTF-8. Received: ",
    ),
    (
        lambda tmp_path: build(tmp_path / "c", file(tmp_path / "a.txt", b"a\n" + b"b" * 10_000_000)),
        "a.txt, line 2: Expected lines of at most 4,194,304 bytes",
    ),
    (
        lambda tmp_path: build(tmp_path / "c", file(tmp_path / "a.gz", gzip.compress(b"a b c\n" * 99)[:-9])),
        "a.gz: Expected a complete gzip file",
    ),
    (
        lambda tmp_path: build(tmp_path / "c", file(tmp_path / "a.jsonl", b'{"text": "a"}\n{"body": "b"}\n')),
        "a.jsonl, line 2: Expected a column 'text'. Choose one with `text_column`. Received: ['body']",
    ),
    (
        lambda tmp_path: build(tmp_path / "c", file(tmp_path / "a.parquet.gz", b"")),
        "a.parquet.gz: ... Parquet and Arrow files contain compressed columns. Decompress the file",
    ),
    (
        lambda tmp_path: build(tmp_path / "c", file(tmp_path / "a.jsonl", b'{"text": 3}\n')),
        "a.jsonl, line 1: Expected a text. Received: 3",
    ),
    (
        lambda tmp_path: build(file(tmp_path / "c" / "a.txt", b"a").parent),
        "A corpus needs a folder of its own. Received: folder= ... which contains ['a.txt']",
    ),
    (
        lambda tmp_path: [build(tmp_path / "c", file(tmp_path / "a.txt", text)) for text in (b"a\n\nb", b"a\n\nc")],
        "The folder has a corpus of another source. Choose another folder",
    ),
    (
        lambda tmp_path: (build(tmp_path / "c"), build(tmp_path / "c", shard_size=50)),
        "The folder has a corpus of another shard_size. Choose another folder",
    ),
    (
        lambda tmp_path: (build(tmp_path / "c"), build(tmp_path / "c", words=WORDS[:-1])),
        "The folder has a corpus of another preprocessor. Choose another folder",
    ),
)
test_mistakes_of_use_are_errors = check_errors(
    (lambda tmp_path: Corpus.load(tmp_path), "Expected the folder of a corpus"),
    (lambda tmp_path: broken(tmp_path / "c", lambda folder: cut(folder / "00001.ids.npy")), "missing, cut or damaged"),
    (
        lambda tmp_path: broken(tmp_path / "c", lambda folder: (folder / "00001.json").unlink()),
        "Some are missing: copy the whole folder ... Received: shards=1",
    ),
    (
        lambda tmp_path: broken(tmp_path / "c", lambda folder: flip(folder / "00001.ids.npy")),
        "00001.ids.npy: Expected values with the checksum ... The file is damaged ... Received: checksum=",
    ),
    (lambda tmp_path: build(tmp_path / "c").blocks(2), "`length` must be greater than 2"),
    (
        lambda tmp_path: build(tmp_path / "c", ["a b"]).blocks(8, drop_remainder=True),
        "at least one full batch of 32 rows. Use a smaller `batch_size`. Received: rows=1",
    ),
    (lambda tmp_path: build(tmp_path / "c").blocks(8).shard(0, 2), "Create the batches with a `seed`"),
    (
        lambda tmp_path: build(tmp_path / "c").blocks(8, seed=0).shard(2, 2),
        "`index` must be less than `count`. Received: index=2, count=2",
    ),
    (lambda tmp_path: build(tmp_path / "c").blocks(8, seed=0).shard(0, 10**6), "at most the number of batches"),
    (lambda tmp_path: build(tmp_path / "c").blocks(8, seed=0).shard(0, 2).shard(0, 2), "must not be a shard already"),
    (
        lambda tmp_path: build(tmp_path / "c").streams(2, 4).shard(0, 2),
        "processes cannot share them. Use `Corpus.blocks`. Received: index=0, count=2",
    ),
    (lambda tmp_path: build(tmp_path / "c").blocks(8, seed=0).seek(10**6), "`batch` must be at most"),
)


@pytest.mark.parametrize(
    "other",
    [BertPreprocessor([*WORDS[:-1], "k"], sequence_length=16), BertPreprocessor(WORDS, lowercase=False)],
    ids=["vocabulary", "settings"],
)
def test_a_corpus_of_another_tokenizer_is_an_error(other, tmp_path):
    model = MaskedLM(BertEncoder(len(WORDS), **SIZES), other)
    model.compile("adam", run_eagerly=True)
    with pytest.raises(ValueError, match="The corpus must have the tokenizer of the task's preprocessor"):
        model.fit(build(tmp_path / "corpus").blocks(16), verbose=0)


def test_a_corpus_with_other_special_tokens_is_an_error(tmp_path):
    build(tmp_path / "corpus")
    packing = Packing(["[MASK]"], ["[SEP]"], ["[SEP]"], segments=(0, 1))
    other = TokenPreprocessor(preprocessor().tokenizer, packing, sequence_length=16)
    blocks = Corpus.load(tmp_path / "corpus").blocks(8)
    with pytest.raises(ValueError, match=r"must have the special tokens .* Received: .* start=\[2\] \(task: \[4\]\)$"):
        blocks.check_preprocessor(other)
    blocks.check_preprocessor(BertPreprocessor(WORDS, sequence_length=12))


def test_a_corpus_of_an_earlier_version_has_no_checksums(tmp_path):
    build(tmp_path / "corpus")
    for path in (tmp_path / "corpus").glob("0*.json"):
        path.write_text(
            json.dumps({name: value for name, value in json.loads(path.read_text()).items() if name != "checksums"})
        )
    assert len(Corpus.load(tmp_path / "corpus").blocks(8)) > 0
