"""A run on a loader whose state can be stored resumes at the same batch, with the same weights, bit for bit."""

import contextlib
import functools
import logging
import random
import time

import keras
import numpy as np
import pytest

from keras_transfer.data.loaders import LoaderPosition
from keras_transfer.objectives import TokenMasking
from keras_transfer.tasks import MaskedLM
from keras_transfer.training.training_checkpoint import TrainingCheckpoint
from tests.tasks.tiny import encoder, examples, of_words, preprocessor

pytest.importorskip("tensorflow_text")
TEXTS, LABELS = examples(12)
ROWS = list(zip(TEXTS, LABELS))


class Shuffled:
    """A loader with a state, which reads in another order in each epoch."""

    def __init__(self):
        self.epoch, self.next, self.resumed = 0, 0, False

    def __iter__(self):
        self.next, self.resumed = self.next if self.resumed else 0, False
        order = list(range(12))
        random.Random(self.epoch).shuffle(order)
        while self.next < 4:
            self.next += 1
            yield collate([ROWS[row] for row in order[3 * self.next - 3 : 3 * self.next]])
        self.epoch, self.next = self.epoch + 1, 0

    def __len__(self):
        return 4

    def state_dict(self):
        return {"epoch": self.epoch, "next": self.next, "name": b"bytes"}

    def load_state_dict(self, state):
        assert state["name"] == b"bytes"
        self.epoch, self.next, self.resumed = state["epoch"], state["next"], True


class Live(Shuffled):
    """A loader whose state is a dict that it changes."""

    def state_dict(self):
        return vars(self)

    def load_state_dict(self, state):
        self.__dict__ = state
        self.resumed = True


def collate(rows):
    return [text for text, _ in rows], np.array([label for _, label in rows])


def torchdata():
    stateful = pytest.importorskip("torchdata.stateful_dataloader", reason="needs torchdata")
    import torch

    torch.manual_seed(0)
    return stateful.StatefulDataLoader(ROWS, batch_size=3, shuffle=True, collate_fn=collate)


def grain():
    made = pytest.importorskip("grain", reason="needs grain")
    return made.MapDataset.source(ROWS).seed(1).shuffle().batch(3, batch_fn=collate)


class Endless:
    """A loader of Grain without end, which by itself would read 500 batches ahead on 16 threads."""

    def __init__(self):
        self.grain = pytest.importorskip("grain", reason="needs grain")
        self.batches = self.grain.MapDataset.source(ROWS).seed(1).shuffle().repeat().batch(3, batch_fn=collate)

    def __iter__(self):
        options = self.grain.ReadOptions(num_threads=1, prefetch_buffer_size=2)
        return iter(self.batches.to_iter_dataset(options))

    def __len__(self):
        return len(self.batches)


def grain_loader():
    made = pytest.importorskip("grain", reason="needs grain")
    sampler = made.samplers.IndexSampler(12, shuffle=True, seed=3, num_epochs=1)
    batch = made.transforms.Batch(3, batch_fn=collate)
    return made.DataLoader(data_source=ROWS, sampler=sampler, operations=[batch], worker_count=0)


LOADERS = {"own": Shuffled, "live": Live, "torchdata": torchdata, "grain": grain, "grain loader": grain_loader}


class Stop(keras.callbacks.Callback):
    """Ends a run after a batch of its second epoch: with an error, or as a signal does."""

    def __init__(self, error):
        super().__init__()
        self.error, self.count = error, 0

    def on_train_batch_end(self, batch, logs=None):
        self.count += 1
        if self.count == 6:
            self.model.stop_training = True
            if self.error:
                raise InterruptedError


def classifier():
    model = of_words(["good", "bad", *"abcdefghij"], num_classes=2, dropout=0.0)
    model.compile(keras.optimizers.Adam(0.1), run_eagerly=True)
    return model


def masked():
    keras.utils.set_random_seed(0)
    model = MaskedLM(encoder(), preprocessor(), objective=TokenMasking(seed=1))
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    return model


def train(make, loader, folder=None, stop=None, epochs=2, **options):
    keras.utils.set_random_seed(0)
    model = make()
    callbacks = [] if stop is None else [stop]
    callbacks += (
        [] if folder is None else [TrainingCheckpoint(folder, save_every=1 if stop and stop.error else "epoch")]
    )
    with contextlib.suppress(InterruptedError):
        model.fit(loader, epochs=epochs, verbose=0, callbacks=callbacks, **options)
    return model.get_weights()


@functools.cache
def uninterrupted(kind, epochs):
    """The weights after a whole run. The loaders "own" and "live" read the same batches."""
    return train(classifier, LOADERS["own" if kind == "live" else kind](), epochs=epochs)


@pytest.mark.parametrize(
    ("kind", "error", "batch"),
    [
        ("own", True, ", after batch 1"),
        ("own", False, ", after batch 2"),
        ("live", True, ", after batch 1"),
        ("torchdata", True, ", after batch 1"),
        ("grain", True, ", after batch 1"),
        ("grain loader", True, ""),  # It has no length, so that the epoch begins again.
    ],
)
def test_a_run_resumes_within_an_epoch(kind, error, batch, tmp_path, eagerly, caplog):
    whole = uninterrupted(kind, 3)
    broken = train(classifier, LOADERS[kind](), tmp_path / "run", Stop(error), epochs=3)
    assert any((one != other).any() for one, other in zip(whole, broken))
    with caplog.at_level(logging.WARNING, "keras_transfer"):
        resumed = train(classifier, LOADERS[kind](), tmp_path / "run", epochs=3)
    assert f"Resuming from epoch 2 of 3{batch}: " in caplog.text
    assert "state of" not in caplog.text
    for one, other in zip(whole, resumed, strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_endless_loader_resumes_where_it_was(tmp_path, eagerly):
    options = {"steps_per_epoch": 3, "epochs": 3}  # of 4 batches until the next shuffle
    whole = train(classifier, Endless(), **options)
    train(classifier, Endless(), tmp_path / "run", Stop(True), **options)
    resumed = train(classifier, Endless(), tmp_path / "run", **options)
    for one, other in zip(whole, resumed, strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_epoch_that_ends_before_its_loader_does_not_skip_what_was_read_ahead():
    position = LoaderPosition(Shuffled(), by_iterator=False, has_length=False, num_batches=None)
    assert len(list(position.read())) == 4
    position.trained(1)
    position.trained(1)
    state = position.state_dict()
    assert state["after"] == 2 and state["loader"] == {"epoch": 0, "next": 2, "name": b"bytes"}
    position.trained(2)
    assert position.state_dict()["after"] == 0 and position.state_dict()["loader"]["epoch"] == 1


def test_the_steps_of_a_resumable_run_are_the_batches_of_its_loader(tmp_path, eagerly):
    with pytest.raises(ValueError, match="Leave out `steps_per_epoch`.*steps_per_epoch=3, and data with 4 batches"):
        train(classifier, Shuffled(), tmp_path, steps_per_epoch=3)
    train(classifier, Shuffled(), tmp_path, steps_per_epoch=4)


def test_a_resumable_run_validates_on_another_loader(tmp_path, eagerly):
    loader = Shuffled()
    with pytest.raises(ValueError, match="another loader for `validation_data`. Received: the same Shuffled twice"):
        train(classifier, loader, tmp_path, validation_data=loader)
    train(classifier, loader, validation_data=loader, epochs=1)
    train(classifier, loader, tmp_path, validation_data=Shuffled(), epochs=1)


def test_a_masked_language_model_hides_the_same_tokens_after_it_resumes(tmp_path, eagerly):
    class Texts(Shuffled):
        def __iter__(self):
            return (texts for texts, _ in super().__iter__())

    whole = train(masked, Texts())
    train(masked, Texts(), tmp_path / "run", Stop(True))
    for one, other in zip(whole, train(masked, Texts(), tmp_path / "run"), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_run_resumes_between_epochs(tmp_path, eagerly):
    for kind in ("own", "live", "torchdata"):
        whole = uninterrupted(kind, 2)
        stop = Stop(True)
        stop.count = 1  # in the first batch of the second epoch
        train(classifier, LOADERS[kind](), tmp_path / kind, stop)
        for one, other in zip(whole, train(classifier, LOADERS[kind](), tmp_path / kind), strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_shuffling_loader_of_torch_without_a_state_begins_its_epoch_again(tmp_path, eagerly, caplog):
    torch = pytest.importorskip("torch", reason="needs torch")

    def loader():
        torch.manual_seed(0)
        return torch.utils.data.DataLoader(ROWS, batch_size=3, shuffle=True, collate_fn=collate)

    whole = train(classifier, loader())
    train(classifier, loader(), tmp_path / "run", Stop(True))
    with caplog.at_level(logging.WARNING, "keras_transfer"):
        resumed = train(classifier, loader(), tmp_path / "run")
    assert "Resuming from epoch 2 of 2: " in caplog.text and "will repeat its epoch" in caplog.text
    for one, other in zip(whole, resumed, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_first_batch_that_is_looked_at_is_read_alone():
    """What reads ahead would still move a loader when the run begins to read it."""
    read = []

    class Counted:
        def __iter__(self):
            for text in ("a", "b", "c", "d", "e"):
                read.append(text)
                yield [text]

    data = masked().dataset(Counted())
    time.sleep(0.5)
    assert read == ["a"]
    assert len([*data]) == 5
