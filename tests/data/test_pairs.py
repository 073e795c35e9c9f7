"""Pairs of segments of a corpus: the sampling of BERT and of ALBERT, the same for a seed and an epoch."""

import json

import numpy as np
import pytest
from scipy import stats

from keras_transfer.data import pair_rows
from keras_transfer.data.pair_rows import truncated, uniform
from keras_transfer.text import BertPreprocessor, Corpus
from tests.errors import check_errors

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
DOCUMENTS, SEP = 60, 3
WORDS = [*SPECIAL, *(f"w{number}" for number in range(6000))]
RARE = 1e-6  # A smaller p-value is a defect; the seeds are fixed.


def preprocessor(words=WORDS):
    return BertPreprocessor(words, sequence_length=32)


def documents(count=DOCUMENTS, seed=0):
    """Returns documents of 1 to 12 lines of 1 to 9 words. Each word occurs once, in ascending order."""
    random, word, found = np.random.default_rng(seed), 0, []
    for _ in range(count):
        lines = []
        for size in random.integers(1, 10, random.integers(1, 13)):
            lines.append(" ".join(f"w{number}" for number in range(word, word + size)))
            word += size
        found.append("\n".join(lines))
    return found


def build(folder, texts=None, **options):
    return Corpus.build(texts or documents(), preprocessor(), folder, **{"verbose": 0, "shard_size": 400, **options})


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return build(tmp_path_factory.mktemp("corpus") / "of many")


@pytest.fixture(scope="module")
def lines():
    """The ids of the lines of each document."""
    return [[[int(word[1:]) + 5 for word in line.split()] for line in text.split("\n")] for text in documents()]


def segments_of(pairs):
    """Returns `(first, second, label)` for each row of an epoch, in order."""
    found = []
    for index in range(len(pairs)):
        inputs, labels = pairs[index]
        for row, label in enumerate(labels.tolist()):
            ids, second = inputs["token_ids"][row], inputs["segment_ids"][row] == 1
            real = inputs["padding_mask"][row] == 1
            assert ids[0] == 2 and ids[real][-1] == SEP and not (second & ~real).any()
            found.append((ids[real & ~second][1:-1].tolist(), ids[second][:-1].tolist(), label))
    return found


def document_of(lines):
    return {id: number for number, document in enumerate(lines) for line in document for id in line}


def expected_chunks(lines, targets, draws, order):
    """Returns `(first lines, second lines or None, label)` by the rules of the papers, one document after the other.

    Args:
        lines: The ids of the lines of each document.
        targets: The length of the chunks of each document.
        draws: Function from the number of a line to two numbers from 0 to 1.
        order: Boolean. Whether the objective is the order of sentences.
    """
    found, before = [], 0
    for document, target in zip(lines, targets):
        at = 0
        while at < len(document):
            end = at
            while end < len(document) and (end == at or sum(map(len, document[at:end])) < target):
                end += 1
            if order and end == at + 1 and end < len(document):
                end += 1
            split, other = draws(before + at)
            middle = at + 1 + int(split * max(end - at - 1, 1))
            if order:
                if end - at > 1:
                    found.append((document[at:middle], document[middle:end], int(other < 0.5)))
                at = end
            elif end - at == 1 or other < 0.5:
                found.append((document[at:middle], None, 1))
                at = middle
            else:
                found.append((document[at:middle], document[middle:end], 0))
                at = end
        before += len(document)
    return found


def flat(lines):
    return [id for line in lines for id in line]


def is_cut_of(part, whole):
    """Whether a segment is a piece of a longer one, which has no id twice."""
    start = whole.index(part[0])
    return part == whole[start : start + len(part)]


@pytest.mark.parametrize(
    ("objective", "short"), [("next_sentence", 0.0), ("next_sentence", 0.5), ("sentence_order", 0.5)]
)
def test_pairs_are_those_of_the_paper_given_the_same_draws(corpus, lines, objective, short, monkeypatch):
    drawn = np.random.default_rng(0).random((4, 6000))
    monkeypatch.setattr(pair_rows, "uniform", lambda seed, epoch, what, numbers: drawn[what][numbers])
    pairs = corpus.pairs(32, objective=objective, short=short, batch_size=7, shuffle=False, seed=5)
    order, width = objective == "sentence_order", 29
    lengths, are_short, splits, others = drawn[0, :DOCUMENTS], drawn[1, :DOCUMENTS], drawn[2], drawn[3]
    targets = np.where(are_short < short, 2 + (lengths * (width - 1)).astype(int), width).tolist()
    expected = expected_chunks(lines, targets, lambda line: (splits[line], others[line]), order)
    found, documents = segments_of(pairs), document_of(lines)
    assert len(found) == len(expected) > 100 and (short == 0.0) == (set(targets) == {width})
    for (first, second, label), (one, other, expected_label) in zip(found, expected, strict=True):
        assert label == expected_label and 2 <= len(first) + len(second) <= width
        if other is None:
            assert documents[second[0]] != documents[first[0]] and is_cut_of(second, flat(lines[documents[second[0]]]))
        else:
            one, other = (other, one) if order and label else (one, other)
            assert is_cut_of(second, flat(other))
            if len(flat(one)) + len(flat(other)) <= width:
                assert (first, second) == (flat(one), flat(other))
        assert is_cut_of(first, flat(one))


def test_another_segment_is_long_enough_and_begins_with_any_line_of_any_other_document(tmp_path):
    texts = ["\n".join([f"w{2 * number} w{2 * number + 1}"] * 5) for number in range(10)]
    pairs = build(tmp_path / "corpus", texts).pairs(9, short=0.0, shuffle=False, seed=0)
    counts, starts = np.zeros((10, 10), int), []
    for epoch in range(150):
        pairs.epoch = epoch
        for first, second, label in segments_of(pairs):
            one, other = ((part[0] - 5) // 2 for part in (first, second))
            assert (one != other) == bool(label)
            counts[one, other] += label
            starts.append(len(second))
    assert (np.diag(counts) == 0).all()
    assert stats.chisquare(counts.sum(axis=0)).pvalue > RARE
    assert set(starts) == {2, 4}  # The first segment has two or four ids, of six in all.


@pytest.mark.parametrize("objective", ["next_sentence", "sentence_order"])
def test_half_of_the_pairs_belong_together(corpus, objective):
    pairs, kept, others = corpus.pairs(32, objective=objective, short=0.0, seed=1), 0, 0
    rows = pairs.rows
    for epoch in range(40):
        starts = rows.starts(1, epoch)
        for places, _, at, _, _, end, is_other in rows._by_shard(starts, 1, epoch):
            several = end - at > 1
            kept, others = kept + (several & ~is_other).sum(), others + (several & is_other).sum()
            assert (several | is_other).all() and len(places) == len(at)
    assert kept + others > 3000 and stats.chisquare([kept, others]).pvalue > RARE


def test_a_line_says_how_many_pairs_follow_each_other(corpus, caplog):
    caplog.set_level("INFO", "keras_transfer")
    pairs = corpus.pairs(32, seed=1)
    labels = np.concatenate([pairs[number][1] for number in range(len(pairs))])
    share = 1 - labels.mean()
    assert f"In {100 * share:.0f}% of the pairs" in caplog.text
    assert f"accuracy of {max(share, 1 - share):.2f}" in caplog.text
    caplog.clear()
    corpus.pairs(32, objective="sentence_order", seed=1)
    assert "of the pairs" not in caplog.text


def test_no_line_is_left_out_and_those_that_are_not_used_begin_the_next_chunk(corpus):
    rows = corpus.pairs(32, seed=2).rows
    starts = rows.starts(2, 3)
    following = np.zeros(len(starts), int)
    for places, number, _, _, middle, end, is_other in rows._by_shard(starts, 2, 3):
        following[places] = np.where(is_other, middle, end) + rows._first_line[number]
    assert starts[0] == 0 and following[-1] == corpus.num_lines
    np.testing.assert_array_equal(starts[1:], following[:-1])


def test_a_pair_has_the_form_that_the_preprocessor_gives_it(tmp_path):
    corpus = build(tmp_path / "corpus", ["w1 w2\nw3", "w4\nw5 w6 w7"])
    pairs = corpus.pairs(12, objective="sentence_order", short=0.0, shuffle=False, seed=0)
    inputs, labels = pairs[0]
    texts = [("w1 w2", "w3"), ("w4", "w5 w6 w7")]
    texts = [text[::-1] if label else text for text, label in zip(texts, labels)]
    expected = preprocessor()(tuple(map(list, zip(*texts))), sequence_length=12)
    for name, values in inputs.items():
        assert values.dtype == np.int32
        np.testing.assert_array_equal(values, expected[name], err_msg=name)


# === Draws ===


def test_the_longer_segment_is_cut_at_both_ends():
    for first in range(1, 12):
        for second in range(1, 12):
            for width in range(2, 14):
                one, other = first, second
                while one + other > width:  # as in BERT
                    one, other = (one - 1, other) if one > other else (one, other - 1)
                parts = truncated(np.arange(first), np.arange(second), width, np.random.default_rng(0))
                assert [len(part) for part in parts] == [one, other], (first, second, width)
    random = np.random.default_rng(0)
    begins = [truncated(np.arange(14), np.arange(2), 12, random)[0][0] for _ in range(4000)]
    expected = stats.binom.pmf(np.arange(5), 4, 0.5) * 4000
    assert stats.chisquare(np.bincount(begins, minlength=5), expected).pvalue > RARE


def test_numbers_are_uniform_and_those_of_seeds_epochs_and_purposes_differ():
    numbers = np.arange(100_000)
    found = {key: uniform(*key, numbers) for key in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))}
    for values in found.values():
        assert stats.kstest(values, "uniform").pvalue > RARE
        assert stats.kstest((values[1:] - values[:-1]) % 1, "uniform").pvalue > RARE
    assert np.abs(np.corrcoef(list(found.values())) - np.eye(4)).max() < 0.02
    np.testing.assert_array_equal(found[0, 0, 0][[7, 70_000]], uniform(0, 0, 0, [7, 70_000]))


# === Epochs and positions ===


def test_the_seed_and_the_epoch_determine_the_pairs(corpus):
    def epoch(seed, number, **options):
        pairs = corpus.pairs(32, seed=seed, batch_size=16, **options)
        pairs.epoch = number
        return segments_of(pairs)

    first = epoch(0, 1)
    assert first == epoch(0, 1)
    others = [epoch(1, 1), epoch(0, 0), epoch(0, 2)]
    assert all(sorted(first) != sorted(other) for other in others)
    assert len({len(each) for each in (first, *others[1:])}) == 1  # Each epoch has as many rows.
    in_order = epoch(0, 1, shuffle=False)
    assert sorted(in_order) != sorted(epoch(0, 2, shuffle=False)) and len(in_order) == len(first)


def test_evaluation_has_the_pairs_of_the_first_epoch(corpus):
    pairs = corpus.pairs(32, seed=0, batch_size=16).apart(one_epoch=True)
    first = segments_of(pairs)
    pairs.on_epoch_end()
    assert segments_of(pairs) == first


def test_seek_and_shards_are_those_of_all_views(corpus):
    whole, rest = (corpus.pairs(32, seed=0, batch_size=8) for _ in range(2))
    batches = [whole[index] for index in range(len(whole))]
    rest.seek(5)
    shards = [corpus.pairs(32, seed=0, batch_size=8).shard(index, 2) for index in range(2)]
    for found, expected in ((rest[0], batches[5]), (shards[0][1], batches[2]), (shards[1][1], batches[3])):
        np.testing.assert_array_equal(found[0]["token_ids"], expected[0]["token_ids"])
        np.testing.assert_array_equal(found[1], expected[1])
    rest.on_epoch_end()
    assert rest.state_dict() == {"seed": 0, "epoch": 1, "batch": 0} and len(rest) == len(whole)
    other = corpus.pairs(32, seed=7, batch_size=8)
    other.load_state_dict({"seed": 0, "epoch": 0, "batch": 5})
    np.testing.assert_array_equal(other[0][0]["token_ids"], batches[5][0]["token_ids"])
    np.testing.assert_array_equal(
        whole.inputs["token_ids"][3:5], whole.read(whole.numbers(np.array([3, 4])), 32)["token_ids"]
    )


def test_a_corpus_that_was_built_before_it_kept_the_tokens_between_segments_has_no_pairs(tmp_path):
    build(tmp_path / "corpus")
    path = tmp_path / "corpus" / "corpus.json"
    settings = json.loads(path.read_text("utf-8"))
    del settings["rows"]["between"]
    path.write_text(json.dumps(settings), "utf-8")
    corpus = build(tmp_path / "corpus")
    assert len(corpus.blocks(16)) > 3
    with pytest.raises(ValueError, match="Remove the folder, and build the corpus again"):
        corpus.pairs(16)


# === Mistakes ===

test_a_mistake_is_one_clear_error = check_errors(
    (lambda corpus: corpus.pairs(4), "`length` must be at least 5 ... Received: length=4"),
    (lambda corpus: corpus.pairs(32, shuffle=False).shard(0, 2), "Create the batches with a `seed`"),
    (
        lambda tmp_path: build(tmp_path / "corpus", ["w1\nw2"]).pairs(16),
        "requires at least two documents ... Received: documents=1",
    ),
    (
        lambda tmp_path: build(tmp_path / "corpus", ["w1", "w2"]).pairs(16, objective="sentence_order"),
        "requires documents of several lines ... Received: lines=2, documents=2",
    ),
)
