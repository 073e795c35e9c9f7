"""Tasks that predict tokens take the objectives that they can read, and prepared data that fit together."""

import numpy as np
import pytest

from keras_transfer.encoders import XLNetEncoder
from keras_transfer.objectives import NextToken, Objective, PermutationLanguageModel, PrefixLM, TokenMasking
from keras_transfer.tasks import BertPretraining, MaskedLM, PermutationLM, ReplacedTokenDetection
from tests.errors import check_errors
from tests.tasks.tiny import VOCABULARY, encoder, preprocessor

TEXTS = ["a b c", "d e f g"]
SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 8}


def two_streams():
    return XLNetEncoder(len(VOCABULARY), **SIZES, two_streams=True)


class Second(Objective):
    """An objective of a user, which predicts the second token of each text."""

    made_inputs = ("mask_positions",)

    def __call__(self, inputs, random):
        ids = np.asarray(inputs["token_ids"])
        return {**inputs, "mask_positions": np.ones((len(ids), 1), "int32")}, ids[:, 1:2]


class Fewer(TokenMasking):
    """An objective of a user, which is a subclass of one of ours."""


# === Objectives ===


@pytest.mark.parametrize("objective", [Second(), Fewer(0.1)], ids=lambda each: type(each).__name__)
def test_objectives_of_users_hide_tokens(objective):
    inputs, targets = MaskedLM(encoder(), preprocessor(), objective=objective).dataset(TEXTS, batch_size=2)[0]
    ids, positions = np.asarray(preprocessor()(TEXTS)["token_ids"]), inputs["mask_positions"]
    used = positions >= 0
    np.testing.assert_array_equal(targets[used], np.take_along_axis(ids, np.maximum(positions, 0), 1)[used])
    assert used.any()


def with_objective(task, objective):
    return task(two_streams() if task is PermutationLM else encoder(), preprocessor(), objective=objective)


def assign(objective):
    MaskedLM(encoder(), preprocessor()).objective = objective


test_an_objective_that_a_task_cannot_read_is_an_error = check_errors(
    *(
        (
            lambda task=task: with_objective(task, PermutationLanguageModel()),
            "`objective` must be an `objectives.Objective` that makes the inputs ['mask_positions']",
        )
        for task in (MaskedLM, BertPretraining, ReplacedTokenDetection)
    ),
    (
        lambda: with_objective(PermutationLM, TokenMasking()),
        "that makes the inputs ['factorization_order', 'mask_positions']. Received: objective=TokenMasking(",
    ),
    (
        lambda: with_objective(MaskedLM, "masking"),
        "must be an `objectives.Objective` ... Received: objective='masking'",
    ),
    (lambda: assign("masking"), "Received: objective='masking'"),
    (lambda: assign(None), "Received: objective=None"),
    (lambda: assign(TokenMasking), "Received: objective=<class"),
    (lambda: assign(NextToken()), "Received: objective=a NextToken"),
    (lambda: assign(PrefixLM()), "Received: objective=PrefixLM("),
)


# === Prepared data ===


@pytest.fixture(scope="module")
def model():
    found = PermutationLM(two_streams(), preprocessor())
    found.compile("sgd", run_eagerly=True)
    return found


@pytest.fixture(scope="module")
def data():
    """The inputs of two texts, of which the second and the third token are predicted, and the targets."""
    inputs = {name: np.asarray(values) for name, values in preprocessor()(TEXTS).items()}
    order, places = np.zeros_like(inputs["token_ids"]), np.array([[1, 2], [1, -1]])
    order[:, 1], order[:, 2] = 1, 2
    return {**inputs, "factorization_order": order, "mask_positions": places}, np.array([[5, 6], [5, -1]])


def first_of(order):
    """Returns an order in which the first predicted token sees none."""
    return np.where(order == 0, 3, order)


def test_prepared_data_that_fit_together_train(model, data, eagerly):
    inputs, targets = data
    assert np.isfinite(model.fit(inputs, targets, verbose=0).history["loss"][0])
    unused = {**inputs, "factorization_order": first_of(inputs["factorization_order"])}
    last = np.where(inputs["mask_positions"] == 1, -1, targets)  # A place without a target may see nothing.
    assert np.isfinite(model.train_on_batch(unused, last)).all()


def test_an_unused_place_is_any_negative_number(model, data):
    inputs, targets = data
    other = {**inputs, "mask_positions": np.where(inputs["mask_positions"] < 0, -100, inputs["mask_positions"])}
    losses = [model.evaluate(each, targets, verbose=0)[0] for each in (inputs, other)]
    assert losses[0] == losses[1]


def generator(inputs, targets):
    yield inputs, targets


def changed(method, **changes):
    """Returns a function that calls a method of a model on prepared data, of which some are changed by functions."""

    def call(model, data):
        inputs, targets = data
        targets = changes.get("targets", lambda values: values)(targets)
        inputs = {name: changes.get(name, lambda values: values)(values) for name, values in inputs.items()}
        method(model, inputs, targets)

    return call


def fit(model, inputs, targets):
    model.fit(inputs, targets, verbose=0)


test_prepared_data_that_do_not_fit_together_are_an_error = check_errors(
    {
        "an order of zeros": (
            changed(fit, factorization_order=np.zeros_like),
            "must see another one ... Received: number 0 at position 1 of row 0, in which the lowest number is 0",
        ),
        "a permutation that begins with a target": (
            changed(fit, factorization_order=first_of),
            "Received: number 1 at position 1 of row 0, in which the lowest number is 1",
        ),
        "the order of one batch": (
            changed(PermutationLM.train_on_batch, factorization_order=np.zeros_like),
            "must see another one",
        ),
        "an order in a generator": (
            changed(lambda m, *rest: m.fit(generator(*rest)), factorization_order=np.zeros_like),
            "Invalid data in a batch of the dataset. Each predicted token must see another one",
        ),
        "an order of another length": (
            changed(fit, factorization_order=lambda order: order[:, :3]),
            "`factorization_order` must be integers [batch, length] ... Received: int",
        ),
        "an order of floats": (
            changed(fit, factorization_order=lambda order: order / 2),
            "`factorization_order` must be integers ... Received: float64",
        ),
        "a position beyond the length": (
            changed(fit, mask_positions=lambda places: places + 90),
            "`mask_positions` must be integers [batch, places] below the length of the texts ... Received: 91 at",
        ),
        "a position to predict beyond the length": (
            changed(lambda m, inputs, targets: m.predict(inputs, verbose=0), mask_positions=lambda places: places + 90),
            "`mask_positions` must be integers [batch, places] below the length of the texts",
        ),
        "one position for each text": (
            changed(fit, mask_positions=lambda places: places[:, 0]),
            "`mask_positions` must be integers [batch, places] ... Received: int64 of shape (2,)",
        ),
        "targets of another shape": (
            changed(fit, targets=lambda targets: targets[:, :1]),
            "of shape (2, 2). Received: targets of shape (2, 1)",
        ),
    }
)
