"""The targets that an objective makes are the same in each evaluation, and others in each epoch of training."""

import shutil

import keras
import numpy as np
import pytest

from keras_transfer.encoders import T5
from keras_transfer.objectives import SpanCorruption, TokenMasking
from keras_transfer.tasks import BertPretraining, MaskedLM, ReplacedTokenDetection, Seq2SeqLM
from keras_transfer.text import Corpus, Packing, TokenPreprocessor, WordPieceTokenizer
from keras_transfer.training.training_checkpoint import TrainingCheckpoint
from tests.tasks.loaders import TEXTS, Loader
from tests.tasks.tiny import VOCABULARY, encoder, preprocessor

pytestmark = pytest.mark.usefixtures("eagerly")
SENTINELS = ["</s>", "<extra_id_1>", "<extra_id_0>"]
SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 8}


def masked(objective=None):
    return MaskedLM(encoder(), preprocessor(), objective=objective)


def replaced(objective=None):
    return ReplacedTokenDetection(encoder(), preprocessor(), generator=MaskedLM(encoder()), objective=objective)


def corrupted(objective=None):
    words = [*VOCABULARY, *SENTINELS]
    read = TokenPreprocessor(WordPieceTokenizer(words), Packing(end=["</s>"], pad="[PAD]"), sequence_length=32)
    return Seq2SeqLM(T5(len(words), **SIZES, head_dim=4), read, objective=objective or SpanCorruption(0.3))


def pairs(objective=None):
    return BertPretraining(encoder(), preprocessor(), objective=objective)


def compiled(task, rate=0.0):
    task.compile(keras.optimizers.SGD(rate), run_eagerly=True)
    return task


PAIRS = (TEXTS, TEXTS[::-1]), [0, 1, 0, 1]
TASKS = [(masked, (TEXTS,)), (replaced, (TEXTS,)), (corrupted, (TEXTS,)), (pairs, PAIRS)]
NAMES = ["masked", "replaced", "corrupted", "pairs"]


@pytest.mark.parametrize(("make", "data"), TASKS, ids=NAMES)
def test_evaluations_of_texts_have_the_same_targets_whatever_was_drawn_before(make, data):
    keras.utils.set_random_seed(0)
    task, losses = compiled(make()), []
    for seed in (1, 2):
        np.random.seed(seed)
        losses.append(task.evaluate(*data, batch_size=2, verbose=0, return_dict=True)["loss"])
        losses.append(task.test_on_batch(*data, return_dict=True)["loss"])
    assert losses[:2] == losses[2:]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return Corpus.build(TEXTS * 3, preprocessor(), tmp_path_factory.mktemp("corpus"), documents="line", verbose=0)


@pytest.mark.parametrize("form", ["blocks", "pairs", "stream"])
def test_evaluations_of_batches_without_a_seed_have_the_same_rows_and_targets(form, corpus):
    keras.utils.set_random_seed(0)
    task = compiled(pairs() if form == "pairs" else masked())

    def data():
        if form == "stream":
            return Loader()
        return corpus.pairs(16, batch_size=4) if form == "pairs" else corpus.blocks(8, batch_size=4)

    losses = []
    for seed in (1, 2):
        np.random.seed(seed)
        losses.append(task.evaluate(data(), verbose=0, return_dict=True)["loss"])
    trained = data()
    task.fit(trained, verbose=0)
    losses.append(task.evaluate(trained, verbose=0, return_dict=True)["loss"])
    assert losses == [losses[0]] * 3


def test_a_resumed_run_has_the_validation_losses_of_the_undisturbed_one(tmp_path):
    def go(folder):
        keras.utils.set_random_seed(0)
        task = compiled(masked(), 0.1)
        np.random.seed(None)  # so that only the training checkpoint contains the seed of the batches
        checkpoint = TrainingCheckpoint(tmp_path / folder, keep=9)
        plateau = keras.callbacks.ReduceLROnPlateau(monitor="val_loss", patience=1)
        options = {"validation_data": TEXTS, "epochs": 3, "callbacks": [plateau, checkpoint]}
        history = task.fit(TEXTS * 2, batch_size=4, verbose=0, **options).history
        return history["val_loss"], task.get_weights()

    whole, weights = go("whole")
    (tmp_path / "again").mkdir()
    shutil.copy(tmp_path / "whole" / "epoch-0001-batch-000000.safetensors", tmp_path / "again")
    losses, again = go("again")
    assert losses == pytest.approx(whole[1:], abs=1e-6)
    for one, other in zip(weights, again, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


# === Objectives with a seed ===


@pytest.mark.parametrize(
    ("make", "objective", "form"),
    [
        (masked, TokenMasking(0.3, seed=4), "texts"),
        (masked, TokenMasking(0.3, seed=4), "loader"),
        (masked, TokenMasking(0.3, seed=4), "batches"),
        (corrupted, SpanCorruption(0.3, seed=4), "texts"),
    ],
)
def test_each_fit_draws_others_with_a_seed_and_the_same_as_another_model(make, objective, form):
    def losses():
        keras.utils.set_random_seed(0)
        task = compiled(make(objective))
        data = {"texts": TEXTS, "loader": Loader()}.get(form)
        data = (
            task.reader.batches(task.reader.columns(TEXTS), None, batch_size=4, shuffle=True) if data is None else data
        )
        return [task.fit(data, batch_size=4, verbose=0).history["loss"][0] for _ in range(2)]

    first, second = losses(), losses()
    assert len(set(first)) == 2 and first == second


def test_each_step_draws_others_with_a_seed():
    task = compiled(masked(TokenMasking(0.3, seed=4)), 1e-30)
    losses = [task.train_on_batch(TEXTS, return_dict=True) for _ in range(3)]
    task.reset_metrics()
    assert len({logs["loss"] for logs in losses}) == 3


def test_batches_begin_where_they_are_and_count_their_epochs_with_an_objective_that_has_a_seed(corpus):
    task, data = compiled(masked(TokenMasking(0.3, seed=4))), corpus.blocks(8, batch_size=4, seed=1)
    steps = len(data)
    data.seek(steps - 1)
    task.fit(data, verbose=0)
    assert (int(task.optimizer.iterations), data.epoch, data.seed) == (1, 1, 1)
    task.fit(data, verbose=0)
    assert (int(task.optimizer.iterations), data.epoch) == (1 + steps, 2)
