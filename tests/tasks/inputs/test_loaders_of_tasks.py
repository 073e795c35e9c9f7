"""Every task trains on loaders of raw data: torch's, Grain's, and any other iterable of batches."""

import keras
import numpy as np
import pytest

from keras_transfer import tasks
from keras_transfer.losses import CosineSimilarityLoss
from keras_transfer.objectives import SpanCorruption, TokenMasking
from tests.errors import check_errors
from tests.tasks.dialogue.test_dialogue_model import EXAMPLES as DIALOGUES
from tests.tasks.dialogue.test_dialogue_model import model as dialogues
from tests.tasks.loaders import Loader
from tests.tasks.sequence_to_sequence.test_objectives import model as sequences
from tests.tasks.test_tasks import CASES as TASKS
from tests.tasks.test_tasks import TEXTS
from tests.tasks.tiny import encoder, of_words, preprocessor

pytest.importorskip("tensorflow_text")
ANSWERS = [("good", 2), None, None, ("bad", 5)]
# From names to functions that return a task, x and y of four rows, as `fit` takes them, and whether the task makes
# targets.
CASES = {name: (case[0], case[1], case[2]) for name, case in TASKS.items()}
CASES |= {
    "pairs": (
        lambda: tasks.TextClassifier(encoder(), preprocessor(), num_classes=2),
        (TEXTS, TEXTS[::-1]),
        [0, 1, 1, 0],
    ),
    "answers": (lambda: tasks.SpanExtractor(encoder(), preprocessor()), (["a"] * 4, TEXTS), ANSWERS),
    "rows of texts": (
        lambda: tasks.TextEmbedder(encoder(), preprocessor()),
        (TEXTS, TEXTS[::-1]),
        [0.1, 0.9, 0.4, 0.2],
    ),
    "dialogues": (lambda: dialogues(), DIALOGUES, None),
    "targets": (lambda: sequences(None), TEXTS, TEXTS[::-1]),
    "noised texts": (lambda: sequences(SpanCorruption(0.3, mean_span_length=2.0, seed=1)), TEXTS, None),
}


def rows_of(name, rows):
    """Returns what a loader yields for some rows."""
    _, x, y = CASES[name]

    def take(column):
        return [column[row] for row in rows]

    x = tuple(map(take, x)) if isinstance(x, tuple) else take(x)
    return x if y is None else (x, take(y))


def loader(kind, name):
    def batch(rows):
        return rows_of(name, [int(row) for row in rows])

    if kind == "torch":
        data = pytest.importorskip("torch.utils.data", reason="needs torch")
        return data.DataLoader(range(4), batch_size=2, collate_fn=batch)
    if kind == "grain":
        grain = pytest.importorskip("grain", reason="needs grain")
        return grain.MapDataset.range(0, 4, 2).map(lambda row: batch([row, row + 1]))
    return Loader([batch([0, 1]), batch([2, 3])])


def compiled(name):
    task = CASES[name][0]()
    task.compile("sgd", loss=CosineSimilarityLoss() if name == "rows of texts" else "auto", run_eagerly=True)
    return task


# The loaders of all kinds yield the same objects, which a task reads alike.
KINDS = [("loader", name) for name in CASES if name not in ("several labels", "numbers", "vectors", "replaced tokens")]
KINDS += [(kind, name) for kind in ("torch", "grain") for name in ("words", "targets")]


@pytest.mark.parametrize(("kind", "name"), KINDS)
def test_a_loader_gives_the_batches_of_data_in_memory(kind, name):
    task = compiled(name)
    items = list(task.dataset(loader(kind, name)))
    assert len(items) == 2
    if hasattr(task, "objective") and task.objective is not None:  # It draws targets.
        return
    for rows, item in zip(([0, 1], [2, 3]), items, strict=True):
        batch = rows_of(name, rows)
        x, y = batch if isinstance(batch, tuple) and CASES[name][2] is not None else (batch, None)
        [expected] = task.dataset(x, y, batch_size=9)
        for ours, theirs in zip(keras.tree.flatten(item), keras.tree.flatten(expected), strict=True):
            np.testing.assert_array_equal(ours, theirs)


# One task of each form of data and of targets: that the batches are those of data in memory is tested for all tasks.
FORMS = ("classes", "words", "choices", "dialogues", "answers", "targets")


@pytest.mark.parametrize("name", FORMS)
def test_fit_and_evaluate_read_a_loader(name, eagerly, recwarn):
    task, data = compiled(name), loader("loader", name)
    history = task.fit(data, validation_data=data, verbose=0).history
    assert int(task.optimizer.iterations) == 2
    assert np.isfinite(history["loss"] + history["val_loss"]).all()
    assert not [warning for warning in recwarn if "shuffle" in str(warning.message)]


COLLATED = {
    "classes": (list(zip(TEXTS, [1, 0, 0, 1])), (TEXTS[:2], [1, 0])),
    "pairs": ([((one, other), 1) for one, other in zip(TEXTS, TEXTS[::-1])], ((TEXTS[:2], TEXTS[:1:-1]), [1, 1])),
    "targets": (list(zip(TEXTS, TEXTS[::-1])), (TEXTS[:2], TEXTS[:1:-1])),
    "numbers": ([(text, np.float32([1, 2])) for text in TEXTS], (TEXTS[:2], np.float32([[1, 2]] * 2))),
}


@pytest.mark.parametrize("name", COLLATED)
def test_what_torch_collates_by_itself_is_read(name):
    data = pytest.importorskip("torch.utils.data", reason="needs torch")
    rows, (x, y) = COLLATED[name]
    task = compiled(name)
    [item, _] = task.dataset(data.DataLoader(rows, batch_size=2))
    [expected] = task.dataset(x, y, batch_size=2)
    for ours, theirs in zip(keras.tree.flatten(item), keras.tree.flatten(expected), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_graph_knows_how_many_texts_the_rows_of_a_loader_have():
    task = CASES["rows of texts"][0]()
    task.compile(keras.optimizers.SGD(0.0), loss=CosineSimilarityLoss())
    assert np.isfinite(task.fit(Loader([rows_of("rows of texts", range(4))]), verbose=0).history["loss"]).all()


def test_a_loader_of_prepared_inputs_is_opened_once_before_the_epochs(eagerly):
    data = pytest.importorskip("torch.utils.data", reason="needs torch")
    task, opened = compiled("classes"), []
    x, y = task.dataset(TEXTS, CASES["classes"][2], batch_size=4)[0][:2]

    class Counted(data.DataLoader):
        def __iter__(self):
            opened.append(1)
            return super().__iter__()

    loader = Counted([({name: part[row] for name, part in x.items()}, y[row]) for row in range(4)], batch_size=2)
    task.fit(loader, epochs=2, verbose=0)
    assert len(opened) == 3


def test_predict_of_a_classifier_reads_a_loader_in_order(eagerly):
    task = of_words(["good", "bad", *"abc"], num_classes=2)
    expected = task.predict(TEXTS, verbose=0)
    for batches in ([TEXTS[:2], TEXTS[2:]], [(TEXTS[:2], [0, 1]), (TEXTS[2:], [0, 1])]):
        np.testing.assert_allclose(task.predict(Loader(batches), verbose=0), expected, atol=1e-6)


def fit(name, batches):
    compiled(name).fit(Loader(batches), verbose=0)


GOOD = (TEXTS[:2], ["yes", "no"])
test_a_mistake_is_one_clear_error = check_errors(
    (("classes", [TEXTS[:2]]), "`fit` requires a dataset of `(inputs, labels)`. Received: y=None"),
    (("classes", [([], [])]), "Each batch must have at least one row. Received: x=[]"),
    (("classes", [GOOD, (TEXTS[:2], ["yes", "maybe"])]), "'maybe' ... at position 1"),
    (
        ("choices", [((TEXTS[:2], [("a", "b"), ("c", "d")]), [0, 1])]),
        "pass your own `collate_fn`. Received: [('a', 'b')",
    ),
    (("targets", [TEXTS]), "Raw text requires targets, or an `objective` that makes them"),
    (
        ("classes", [GOOD, (*GOOD, [1.0, 1.0])]),
        "All batches of a loader must have the same form. Received: batch=(['a good b'",
    ),
    call=fit,
)


class Failing(Loader):
    """A loader whose second batch cannot be read."""

    def __iter__(self):
        yield self.batches[0]
        raise self.error


@pytest.mark.parametrize(("name", "error"), [("classes", KeyboardInterrupt()), ("noised texts", OSError("no file"))])
def test_the_error_of_a_loader_is_raised_as_it_is(name, error, eagerly):
    task, data = compiled(name), Failing([rows_of(name, [0, 1]), rows_of(name, [2, 3])])
    data.error = error
    for method in (task.fit, task.evaluate):
        with pytest.raises(type(error)) as caught:
            method(data, verbose=0)
        assert caught.value is error


def test_the_error_of_an_objective_is_raised_as_it_is(eagerly):
    error, task = KeyError("word"), compiled("hidden tokens")
    objective = task.objective

    class Fails(TokenMasking):
        count = 0

        def __call__(self, *args, **kwargs):
            self.count += 1
            if self.count == 3:  # The first one shows what is made.
                raise error
            return objective(*args, **kwargs)

    task.objective = Fails()
    with pytest.raises(KeyError) as caught:
        task.fit(loader("loader", "hidden tokens"), verbose=0)
    assert caught.value is error


@pytest.mark.parametrize("name", ["words", "targets", "next tokens"])
def test_predict_of_tasks_that_join_or_cut_rows_takes_no_loader(name):
    with pytest.raises(ValueError, match="`predict` .*requires (raw data in memory|prepared inputs)"):
        compiled(name).predict(loader("loader", name))


@pytest.mark.parametrize("name", ["choices", "vectors"])
def test_predict_of_rows_of_several_texts_reads_a_loader_in_order(name, eagerly):
    task = compiled(name)
    expected = task.predict(CASES[name][1], verbose=0)
    np.testing.assert_allclose(task.predict(loader("loader", name), verbose=0), expected, atol=1e-6)
