"""`Checkpoint`: a dataset that keeps the order of its batches itself continues in that order."""

import collections
import logging
import os
import pickle
import random

import keras
import numpy as np
import pytest

from keras_transfer.training.resume import dataset_state, plain_pickle
from keras_transfer.training.resume.checkpoint import Checkpoint
from keras_transfer.training.resume.plain_pickle import NotPlain, load, pack, unpack
from tests.training.resume.checkpoint_runs import Crash, X, Y, assert_same, fit, linear


class Shuffled(keras.utils.PyDataset):
    """Batches whose order is shuffled by a generator of the dataset when an epoch ends."""

    def __init__(self, generator, **attributes):
        super().__init__()
        self.generator, self.order = generator, list(range(40))
        vars(self).update(attributes)

    def __len__(self):
        return 5

    def __getitem__(self, index):
        rows = self.order[8 * index : 8 * index + 8]
        return X[rows], Y[rows]

    def on_epoch_end(self):
        self.generator.shuffle(self.order)


class Counted(Shuffled):
    """The same with a count of epochs, which does not arrange the batches when it is set."""

    epoch = 0

    def on_epoch_end(self):
        self.epoch += 1
        super().on_epoch_end()


class Drawn(Shuffled):
    """Batches whose order is drawn when an epoch begins, and noise that is drawn with each batch."""

    def on_epoch_begin(self):
        self.order = self.generator.permutation(40)

    def on_epoch_end(self):
        pass

    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        return x + self.generator.normal(size=x.shape), y


class WithStateDict(Shuffled):
    """The same with methods that return and restore its state, which a pickle would not contain."""

    def __init__(self, generator):
        super().__init__(generator)
        self.generator = lambda: generator

    def on_epoch_end(self):
        self.generator().shuffle(self.order)

    def state_dict(self):
        return {"order": np.array(self.order), "generator": self.generator()}

    def load_state_dict(self, state):
        self.order, self.generator = state["order"].tolist(), lambda: state["generator"]


DATASETS = {
    "numpy": lambda: Shuffled(np.random.default_rng(3)),
    "numpy's older": lambda: Shuffled(np.random.RandomState(3)),
    "python": lambda: Shuffled(random.Random(3)),
    "counted": lambda: Counted(random.Random(3)),
    "drawn": lambda: Drawn(np.random.default_rng(3)),
    "state_dict": lambda: WithStateDict(np.random.default_rng(3)),
}
CORE = ("numpy", "drawn")


def resumed(folder, dataset, save_every=2):
    """The model at the end of a run that crashed in the second epoch, after three batches."""
    with pytest.raises(KeyError, match="crash"):
        fit(linear(), Checkpoint(folder, save_every=save_every), Crash(13), data=dataset(), epochs=2)
    model = linear()
    fit(model, Checkpoint(folder), data=dataset(), epochs=2)
    return model


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.core] * (name in CORE)) for name in DATASETS])
def test_a_dataset_that_shuffles_itself_continues_in_its_order(name, tmp_path):
    whole = linear()
    fit(whole, data=DATASETS[name](), epochs=2)
    assert_same(resumed(tmp_path, DATASETS[name]), whole)


def test_it_does_so_from_the_end_of_an_epoch(tmp_path):
    whole = linear()
    fit(whole, data=DATASETS["numpy"](), epochs=2)
    assert_same(resumed(tmp_path, DATASETS["numpy"], "epoch"), whole)


def test_a_dataset_behind_tf_data_is_given_to_the_callback(tmp_path):
    import tensorflow as tf

    class Rows:
        """Rows in an order that `epoch` decides."""

        epoch = 0

        def __call__(self):
            order = np.random.default_rng(self.epoch).permutation(40)
            self.epoch += 1
            return iter(zip(X[order], Y[order]))

    def go(model, *callbacks, checkpoint=True):
        rows = Rows()
        signature = (tf.TensorSpec((4,), "float32"), tf.TensorSpec((), "int64"))
        data = tf.data.Dataset.from_generator(rows, output_signature=signature).batch(8)
        data = data.apply(tf.data.experimental.assert_cardinality(5))
        saving = [Checkpoint(tmp_path, save_every=2, dataset=rows)] if checkpoint else []
        fit(model, *saving, *callbacks, data=data, epochs=2)

    whole, model = linear(), linear()
    go(whole, checkpoint=False)
    with pytest.raises(KeyError):
        go(linear(), Crash(13))
    go(model)
    assert_same(model, whole)


# === Attributes ===


def state_and_warnings(first, second, caplog):
    """Restores the state of the first dataset in the second, and returns the messages."""
    state, content = dataset_state.state_of_dataset(first)
    with caplog.at_level(logging.WARNING):
        dataset_state.restore_dataset(state, lambda: content, second)
    return [record.getMessage() for record in caplog.records]


class Sampler:
    """An object that holds an order."""

    def __init__(self, order):
        self.order = order


def test_an_attribute_that_cannot_be_stored_is_warned_of_if_it_differs(caplog):
    def make(order):
        return Shuffled(None, sampler=Sampler(order), key=lambda: 0, layer=keras.layers.Dense(2))

    assert state_and_warnings(make([1, 2]), make([1, 2]), caplog) == []
    (message,) = state_and_warnings(make([2, 1]), make([1, 2]), caplog)
    assert "the attribute `sampler` of Shuffled differs from the training checkpoint's and cannot" in message


def test_a_large_attribute_is_compared_and_not_stored(caplog, monkeypatch):
    monkeypatch.setattr(dataset_state, "LIMIT", 1000)
    first, second = (Shuffled(None, rows=[str(extra)] * 500) for extra in (0, 1))
    assert dataset_state.state_of_dataset(first)[1].size < 1000
    assert state_and_warnings(first, Shuffled(None, rows=["0"] * 500), caplog) == []
    (message,) = state_and_warnings(first, second, caplog)
    assert "the attribute `rows`" in message and second.rows[0] == "1"


@pytest.mark.parametrize("kind", ["large", "mapped"])
def test_a_large_or_mapped_array_is_compared_by_shape_and_never_read(kind, tmp_path, caplog, monkeypatch):
    class Counted(np.ndarray if kind == "large" else np.memmap):
        def __reduce_ex__(self, protocol):
            raise AssertionError("read")

    def make(count):
        rows = np.memmap(tmp_path / "rows", "float32", "w+", shape=(count, 4))
        return Shuffled(None, rows=(np.array(rows) if kind == "large" else rows).view(Counted))

    monkeypatch.setattr(dataset_state, "LIMIT", 200 if kind == "large" else 2**26)
    assert state_and_warnings(make(40), make(40), caplog) == []
    (message,) = state_and_warnings(make(50), make(40), caplog)
    assert "the attribute `rows` of Shuffled differs" in message


def test_data_that_were_added_are_warned_of_and_a_shuffle_is_not(caplog):
    first = Shuffled(None, rows=np.arange(4), names=["a", "b"], ragged=[[1], [2, 3]], later=[1])
    shuffled = Shuffled(None, rows=np.arange(4)[::-1].copy(), names=["b", "a"], ragged=[[2, 3], [1]], later=None)
    assert state_and_warnings(first, shuffled, caplog) == []
    assert shuffled.names == ["a", "b"] and shuffled.later == [1]
    other = Shuffled(None, rows=np.arange(40), names=["a", "b", "c"], ragged=[[1], [2, 3]], later=[])
    messages = state_and_warnings(first, other, caplog)
    assert messages == [
        "The run continues with the attribute `rows` of the training checkpoint, ndarray of length 4. Received: "
        "ndarray of length 40.",
        "The run continues with the attribute `names` of the training checkpoint, list of length 2. Received: "
        "list of length 3.",
    ]


def test_attributes_that_change_while_they_are_read_are_a_warning(caplog, monkeypatch):
    def changing(value):
        raise NotPlain("dictionary changed size during iteration")

    packed = dataset_state.pack
    monkeypatch.setattr(dataset_state, "pack", lambda value: packed(value) if value == {} else changing(value))
    state, content = dataset_state.state_of_dataset(Shuffled(None))
    assert state["digests"] and unpack(content) == {}
    assert "The attributes of Shuffled are not stored, because they changed while they were read" in caplog.text


def test_a_setting_that_differs_is_the_training_checkpoints_with_a_warning(caplog):
    dataset = Shuffled(None, noise=0.2)
    (message,) = state_and_warnings(Shuffled(None, noise=0.1), dataset, caplog)
    assert message == "The run continues with the attribute `noise` of the training checkpoint, 0.1. Received: 0.2."
    assert dataset.noise == 0.1


def test_what_two_attributes_share_stays_shared(caplog):
    generator = np.random.default_rng(0)
    other = Shuffled(np.random.default_rng(1), again=None)
    assert state_and_warnings(Shuffled(generator, again=generator), other, caplog) == []
    assert other.again is other.generator and other.generator.random() == generator.random()


def test_a_dataset_of_another_kind_is_warned_of(caplog):
    (message,) = state_and_warnings(Shuffled(None), None, caplog)
    assert message.startswith("The order of the batches can differ: the dataset is of another kind")


def test_a_state_dict_of_other_objects_is_an_error():
    dataset = WithStateDict(Sampler([1]))
    with pytest.raises(ValueError, match=r"must return numbers, .*Received: .*Sampler from WithStateDict"):
        dataset_state.state_of_dataset(dataset)


# === Plain pickles ===


@pytest.mark.parametrize(
    "value",
    [
        {"a": [1, 2.5, None, True, "ä", b"b", (3,)], 4: {5, 6}},
        np.arange(6.0).reshape(2, 3).T,
        np.array(["a", "bc"]),
        np.array(["a", 1, None], "object"),
        np.float32(1.5),
        np.zeros(0),
        np.zeros((2, 0)),
        np.array(["2026-11-22"], "datetime64[D]"),
        np.str_("ä"),
        [1 + 2j, range(3), slice(1, 2), collections.deque([1], 2), collections.OrderedDict(a=1), bytearray(b"a")],
    ],
    ids=str,
)
def test_plain_values_come_back(value):
    again = unpack(pack(value))
    assert type(again) is type(value) and repr(again) == repr(value)


@pytest.mark.parametrize("kind", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_generators_come_back_and_draw_the_same(kind):
    generator = np.random.Generator(getattr(np.random, kind)(5))
    generator.random()
    again = unpack(pack(generator))
    assert again.random() == generator.random()
    assert again.spawn(1)[0].random() == generator.spawn(1)[0].random()


def test_bfloat16_comes_back():
    import ml_dtypes

    array = np.arange(3).astype(ml_dtypes.bfloat16)
    again = unpack(pack(array))
    assert again.dtype == array.dtype and again.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "value", [set, np.dtype("float32"), np.ones(2, "i4,f4"), np.ma.ones(2), collections.Counter("a"), len], ids=repr
)
def test_other_values_are_not_plain(value):
    with pytest.raises(NotPlain):
        pack(value)


STATE = b"(N}X\x04\x00\x00\x00evilK\x01stb."  # sets an attribute of what is before it


@pytest.mark.parametrize(
    "content",
    [
        b"ccollections\nCounter\n" + STATE,
        b"crandom\nRandom\n" + STATE,
        b"ckeras_transfer.training.plain_pickle\n_make\n" + STATE,
        pickle.dumps(np.dtype("i4,f4")),
        pickle.dumps(np.arange(3)),
    ],
    ids=["a class", "a class of Python", "our function", "a dtype with a state", "an array of NumPy"],
)
def test_a_pickle_cannot_change_a_class_or_the_state_of_a_dtype(content):
    with pytest.raises(NotPlain):
        load(content)
    assert not hasattr(collections.Counter, "evil") and not hasattr(random.Random, "evil")


@pytest.mark.parametrize("dtype", ["O", "i4,O", "V8", "T"])
def test_bytes_never_become_objects(dtype):
    with pytest.raises((NotPlain, TypeError)):
        plain_pickle._make("array", dtype, (1,), bytes(16))


@pytest.mark.parametrize(("kind", "key"), [("MT19937", "pos"), ("Philox", "buffer_pos")])
@pytest.mark.parametrize("place", [-1, 10**6])
def test_a_random_state_outside_of_its_memory_is_refused(kind, key, place):
    state = getattr(np.random, kind)(1).state
    (state["state"] if key == "pos" else state)[key] = place
    with pytest.raises(NotPlain, match=f"a position of {place}"):
        plain_pickle._make("bits", state)


def test_a_pickle_that_would_call_something_is_refused(tmp_path):
    class Call:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "made"),)

    with pytest.raises(NotPlain, match="Call"):
        pack([Call()])
    with pytest.raises(NotPlain, match="mkdir"):
        load(pickle.dumps(Call()))
    for name in (b"builtins\neval", b"numpy\nload", b"numpy\nndarray.tofile", b"random\nRandom.__init__"):
        with pytest.raises(NotPlain):
            load(b"c" + name + b"\n(tR.")
    assert os.listdir(tmp_path) == []
