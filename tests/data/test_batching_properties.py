"""Properties of plans and batches: each row once, in batches that fit it, from any seed, epoch and place on."""

import itertools

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from keras_transfer.data.batching import Batches
from keras_transfer.data.planning import (
    BATCH_COST,
    MAX_LENGTHS,
    Options,
    choose_lengths,
    choose_pairs,
    plan,
    sort_within_windows,
)
from tests.properties import texts  # noqa: F401 (loads the settings)

sizes = st.lists(st.integers(0, 40), min_size=1, max_size=60).map(np.array)


@st.composite
def options(draw, **fixed):
    lengths = draw(st.sets(st.integers(1, 39), max_size=9)) | {40}
    found = {
        "batch_size": draw(st.integers(1, 9)),
        "lengths": tuple(sorted(lengths)),
        "shuffle": draw(st.booleans()),
        "grouped": draw(st.booleans()),
        "drop_remainder": draw(st.booleans()),
        "inferred": draw(st.booleans()),
    }
    return Options(**(found | fixed))


places = {"seed": st.integers(0, 2**31), "epoch": st.integers(0, 9)}


def rows_of(found):
    return [int(row) for _, rows in found for row in rows]


@given(real=sizes, options=options(drop_remainder=False), **places)
def test_each_row_is_in_one_batch(real, options, seed, epoch):
    found = plan(real, options, seed, epoch)
    assert sorted(rows_of(found)) == list(range(len(real)))
    if not (options.shuffle or options.grouped):
        assert rows_of(found) == list(range(len(real)))


@given(real=sizes, options=options(), **places)
def test_batches_have_a_length_that_fits_their_rows(real, options, seed, epoch):
    assume(len(real) >= options.batch_size or not options.drop_remainder)  # `check_batch_size` refuses them.
    for length, rows in plan(real, options, seed, epoch):
        assert length in options.lengths and max(real[rows]) <= length
        assert 0 < len(rows) <= options.batch_size


@given(real=sizes, size=st.integers(1, 9), tokens=st.integers(1, 200))
def test_batches_of_tokens_have_each_row_once_the_longest_first_and_no_more_than_fit(real, size, tokens):
    options = Options(batch_size=size, lengths=(8, 16, 40), grouped=True, tokens=tokens)
    found = plan(real, options)
    assert sorted(rows_of(found)) == list(range(len(real)))
    assert [length for length, _ in found] == sorted((length for length, _ in found), reverse=True)
    for length, rows in found:
        assert length == min(each for each in options.lengths if each >= max(real[rows]))
        assert len(rows) <= size or len(rows) * length <= tokens
    assert all(len(rows) >= size for _, rows in found[:-1])


@given(real=st.lists(st.integers(1, 60), min_size=1, max_size=8).map(np.array), size=st.integers(1, 3))
def test_no_other_batches_of_tokens_take_less_time(real, size):
    def cost(batches):
        return sum(max(rows) * len(rows) + BATCH_COST for rows in batches)

    def fits(rows):
        return len(rows) <= size or len(rows) * max(rows) <= 100

    def cuts(rows):
        yield [rows]
        for at in range(size, len(rows)):
            yield from ([rows[:at], *others] for others in cuts(rows[at:]))

    found = plan(real, Options(batch_size=size, lengths=tuple(range(1, 61)), grouped=True, tokens=100))
    others = [each for each in cuts(sorted(real.tolist(), reverse=True)) if all(map(fits, each))]
    assert cost(real[rows].tolist() for _, rows in found) == min(map(cost, others))


@given(real=sizes, options=options(drop_remainder=True), **places)
def test_without_the_remainder_all_batches_are_full(real, options, seed, epoch):
    found = plan(real, options, seed, epoch) if len(real) >= options.batch_size else []
    assert all(len(rows) == options.batch_size for _, rows in found)
    assert len(found) == len(real) // options.batch_size and len(set(rows_of(found))) == len(rows_of(found))


@given(real=sizes, options=options(drop_remainder=False), few=st.integers(1, 5), **places)
def test_a_last_batch_of_few_rows_joins_the_one_before(real, options, few, seed, epoch):
    options = Options(**{**vars(options), "min_rows": min(few, options.batch_size)})
    found = plan(real, options, seed, epoch)
    assert sorted(rows_of(found)) == list(range(len(real)))
    assert len(found) == 1 or min(len(rows) for _, rows in found) >= options.min_rows


@given(
    real=sizes,
    options=options(drop_remainder=False),
    replicas=st.integers(1, 5),
    repeat=st.sampled_from(["even", "few"]),
    **places,
)
def test_batches_for_replicas_have_all_rows_and_give_each_replica_one(real, options, replicas, repeat, seed, epoch):
    options = Options(**{**vars(options), "replicas": replicas, "repeat": repeat})
    found = plan(real, options, seed, epoch)
    assert set(rows_of(found)) == set(range(len(real)))
    for _, rows in found:
        count = options.rows_of(len(rows))  # `fit` repeats what is made of the rows.
        share = -(-count // replicas)
        assert len(rows) % replicas == 0 if repeat == "even" else share * (replicas - 1) < count


@given(count=st.integers(0, 50), shards=st.integers(1, 6), limit=st.none() | st.integers(1, 9))
def test_shards_are_equally_long_parts_of_an_epoch(count, shards, limit):
    parts = [Options(shard=(index, shards), max_batches=limit).part(count) for index in range(shards)]
    assert len({len(part) for part in parts}) == 1
    together = sorted(number for part in parts for number in part)
    assert (together == list(range(len(together))) and len(together) > count - shards) or limit


@given(lengths=sizes, batch_size=st.integers(1, 9), window=st.integers(1, 9))
def test_rows_are_sorted_within_windows(lengths, batch_size, window):
    order = sort_within_windows(lengths, batch_size, window)
    assert sorted(order) == list(range(len(lengths)))
    count = -(-len(lengths) // batch_size)
    size = -(-count // -(-count // window)) * batch_size
    for start in range(0, len(lengths), size):
        part = order[start : start + size]
        assert all(start <= row < start + size for row in part)
        assert lengths[part].tolist() == sorted(lengths[part])


@given(real=st.lists(st.integers(0, 90), min_size=1, max_size=30).map(np.array), over=st.integers(0, 5))
def test_the_chosen_lengths_pad_least(real, over):
    longest = int(real.max()) + over or 1
    found = choose_lengths(real, longest)
    assert found == sorted(set(found)) and len(found) <= MAX_LENGTHS and real.max() <= found[-1] <= longest

    def cost(lengths):
        return sum(next(length for length in lengths if length >= each) for each in real)

    candidates = sorted({min(-(-max(each, 1) // 8) * 8, longest) for each in real})
    best = min(
        cost((*chosen, candidates[-1]))
        for k in range(min(MAX_LENGTHS, len(candidates)))
        for chosen in itertools.combinations(candidates[:-1], k)
    )
    assert cost(found) == best


@given(rows=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=1, max_size=30))
def test_the_chosen_pairs_of_lengths_fit_all_rows(rows):
    real, of_labels = map(np.array, zip(*rows))
    lengths, label_lengths = choose_pairs(real, of_labels, 64, 64)
    assert len(lengths) == len(label_lengths) <= MAX_LENGTHS
    assert lengths == sorted(set(lengths)) and label_lengths == sorted(label_lengths)
    assert lengths[-1] >= real.max() and label_lengths[-1] >= of_labels.max()


def batches(real, options, seed):
    """Returns batches whose rows and labels are the numbers of the rows."""
    mask = (np.arange(40) < real[:, None]).astype("int32")
    ids = np.arange(len(real), dtype="int32")[:, None] * np.ones(40, "int32")
    inputs = {"token_ids": ids, "padding_mask": mask}
    return Batches(inputs, np.arange(len(real)), None, options, seed)


def read(data):
    found = [data[index][1].tolist() for index in range(len(data))]
    data.on_epoch_end()
    data.on_epoch_begin()
    return found


@given(real=sizes, options=options(drop_remainder=False), seed=places["seed"])
def test_what_is_predicted_in_batches_is_restored_in_the_order_of_the_rows(real, options, seed):
    data = batches(real, options, seed).grouped()
    restore = data.restorer()
    outputs = np.concatenate([data[index][0]["token_ids"][:, 0] for index in range(len(data))])
    assert restore(outputs).tolist() == list(range(len(real)))


@given(real=sizes, options=options(drop_remainder=False), seed=places["seed"], epoch=st.integers(0, 3), data=st.data())
def test_a_run_goes_on_from_any_batch_of_any_epoch(real, options, seed, epoch, data):
    whole = batches(real, options, seed)
    expected = [read(whole) for _ in range(5)]
    first = batches(real, options, seed)
    for _ in range(epoch):
        read(first)
    batch = data.draw(st.integers(0, len(first)))
    first.seek(batch)
    resumed = batches(real, options, seed + 1)
    resumed.load_state_dict(first.state_dict())
    assert read(resumed) == expected[epoch][batch:]
    assert read(resumed) == expected[epoch + 1]


@given(real=sizes, options=options(drop_remainder=False), seed=places["seed"], data=st.data())
def test_targets_of_an_objective_are_the_same_from_any_batch_on(real, options, seed, data):
    def draws(inputs, random, labels):
        return inputs, random.integers(0, 2**31, len(labels)) + labels

    whole = batches(real, options, seed).with_targets(draws)
    expected = [read(whole) for _ in range(2)]
    assert options.shuffle is False or len(real) < 9 or expected[0] != expected[1]
    resumed = batches(real, options, seed).with_targets(draws)
    resumed.epoch, batch = 1, data.draw(st.integers(0, len(resumed)))
    resumed.seek(batch)
    assert read(resumed) == expected[1][batch:]


@given(real=sizes, options=options(drop_remainder=False), seed=places["seed"], count=st.integers(1, 3))
def test_the_shards_of_batches_are_those_of_one_process(real, options, seed, count):
    one = batches(real, options, seed)
    if count > len(one):
        return
    expected, shards = read(one), [batches(real, options, seed).shard(index, count) for index in range(count)]
    found = [read(shard) for shard in shards]
    together = [batch for step in zip(*found, strict=True) for batch in step]
    assert together == expected[: len(expected) // count * count]
