"""`MultipleChoice` learns which of several texts goes with a context."""

import keras
import numpy as np
import pytest

from keras_transfer.checkpoints import CheckpointError
from keras_transfer.datasets import Choices
from keras_transfer.tasks import MultipleChoice
from tests.helpers import EAGER
from tests.tasks.tiny import difference, encoder, preprocessor


def task(**options):
    keras.utils.set_random_seed(0)
    return MultipleChoice(encoder(), preprocessor(), **{"dropout": 0.0, **options})


def examples(count=32, longest=3):
    """Contexts and three choices each, of which the right one contains "good"; all of one length by default."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, count).tolist()

    def text(word=None):
        words = random.choice(list("abcdefghij"), random.integers(min(longest, 3), longest + 1)).tolist()
        return " ".join(words if word is None else [word, *words[1:]])

    choices = [[text("good" if i == label else "bad") for i in range(3)] for label in labels]
    return ([text() for _ in labels], choices), labels


@pytest.fixture(scope="module")
def untrained():
    """A compiled task, which tests must not change."""
    model = task()
    model.compile("sgd", run_eagerly=EAGER)
    return model


def values(weights):
    return [keras.ops.convert_to_numpy(weight) for weight in weights]


def test_it_learns_from_contexts_and_choices():
    x, labels = examples(16)
    model = task()
    model.compile(keras.optimizers.Adam(0.02))
    before = values(model.trainable_weights)
    model.fit(x, labels, batch_size=8, epochs=7, verbose=0)
    assert all((old != new).any() for old, new in zip(before, values(model.trainable_weights)) if old.size > 1)
    assert model.evaluate(x, labels, verbose=0, return_dict=True)["accuracy"] == 1.0
    assert model.predict_choices(x) == [choices[label] for choices, label in zip(x[1], labels)]


def test_the_logit_of_a_choice_is_that_of_its_pair_alone_whatever_the_order_of_the_rows(untrained):
    (contexts, choices), _ = examples(5, longest=9)
    logits = untrained.predict((contexts, choices), batch_size=2, verbose=0)
    assert logits.shape == (5, 3)
    for row, (context, texts) in enumerate(zip(contexts, choices)):
        for column, text in enumerate(texts):
            alone = untrained(untrained.preprocessor(([context], [text])))
            assert float(logits[row, column]) == pytest.approx(float(alone[0, 0]), abs=1e-5)


def test_the_loss_is_the_softmax_over_the_choices_of_a_row(untrained):
    x, labels = examples(8)
    logits = untrained.predict(x, verbose=0)
    losses = np.log(np.exp(logits).sum(1)) - logits[range(8), labels]
    assert untrained.evaluate(x, labels, verbose=0)[0] == pytest.approx(losses.mean(), abs=1e-5)
    weights = np.arange(8.0)
    found = untrained.evaluate(x, labels, sample_weight=weights, verbose=0)[0]
    assert found == pytest.approx((losses * weights).mean(), abs=1e-5)
    assert untrained.test_on_batch(x, labels)[0] == pytest.approx(losses.mean(), abs=1e-5)
    np.testing.assert_allclose(untrained(x), logits, atol=1e-5)


def test_validation_prepared_inputs_and_arrays_of_choices_are_the_same(untrained):
    (contexts, choices), labels = examples(8)
    expected = untrained.evaluate((contexts, choices), labels, verbose=0)
    inputs, _ = untrained.dataset((contexts, choices), labels)[0]
    assert inputs["token_ids"].shape[:2] == (8, 3)
    for x in (inputs, (np.array(contexts), np.array(choices)), (tuple(contexts), [tuple(row) for row in choices])):
        assert untrained.evaluate(x, np.array(labels), verbose=0) == pytest.approx(expected, abs=1e-5)
    model = task()
    model.compile("sgd", run_eagerly=True)
    history = model.fit((contexts, choices), labels, validation_split=0.25, verbose=0).history
    last = model.evaluate((contexts[6:], choices[6:]), labels[6:], verbose=0)
    assert [history["val_loss"][0], history["val_accuracy"][0]] == pytest.approx(last, abs=1e-5)


def test_choices_of_a_dataset_are_taken_as_inputs(untrained):
    data = Choices(["a b", "c"], ["cause", "effect"], [["d", "e"], ["f", "g"]], [1, 0])
    logits = untrained.predict(data.inputs, verbose=0)
    plain = ["a b", "c"], [["because d", "because e"], ["so f", "so g"]]
    np.testing.assert_allclose(logits, untrained.predict(plain, verbose=0), atol=1e-6)
    assert len(untrained.evaluate(data.inputs, data.labels, verbose=0)) == 2


def test_no_rows_have_no_logits(untrained):
    assert untrained.predict(([], []), verbose=0).shape == (0, 0)
    assert untrained.predict_choices(([], [])) == []


def test_a_checkpoint_without_the_head_needs_a_new_one(tmp_path):
    task().encoder.save_pretrained(tmp_path / "encoder", preprocessor())
    with pytest.raises(CheckpointError, match='has no head for a MultipleChoice. Pass `head="new"`'):
        MultipleChoice.from_pretrained(tmp_path / "encoder")
    model = MultipleChoice.from_pretrained(tmp_path / "encoder", head="new")
    model.save_pretrained(tmp_path / "task")
    again, (x, _) = MultipleChoice.from_pretrained(tmp_path / "task"), examples(4)
    assert difference(again.predict(x, verbose=0), model.predict(x, verbose=0)) == 0


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (["a b"], r"must be a tuple `\(contexts, choices\)`.* Received: x=\['a b'\]"),
        ((["a"], [["b", "c"]], ["d"]), r"Received: x=\(\['a'\], "),
        ((["a", "b"], [["b", "c"]]), "Received: contexts=2, choices=1"),
        ((["a"], ["b"]), "Choices must be lists of texts. Received: 'b' at position 0"),
        ((["a"], [["b"]]), "at least two. Received: 1 choices"),
        ((["a", "b"], [["b", "c"], ["d", "e", "f"]]), "the same number of choices, 2. Received: 3 choices.*position 1"),
        ((["a", "b"], [["b", "c"], ["d", None]]), r"Invalid choices at position 1.*Received: \[None\]"),
    ],
)
def test_contexts_and_choices_that_do_not_match_are_an_error(untrained, x, message):
    for method in (untrained.predict_choices, untrained):
        with pytest.raises(ValueError, match=message):
            method(x)
    with pytest.raises(ValueError, match=message):
        untrained.fit(x, [0], verbose=0)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 3], "Labels must be integers from 0 to 2. Received: 3 at position 1"),
        (["a", "b"], "one integer for each row. Received: 'a' at position 0"),
        ([[1, 0, 0], [0, 1, 0]], r"one integer for each row. Received: dtype='int64', shape=\(2, 3\)"),
    ],
)
def test_labels_that_are_no_positions_are_an_error(untrained, labels, message):
    with pytest.raises(ValueError, match=message):
        untrained.fit(examples(2)[0], labels, verbose=0)
