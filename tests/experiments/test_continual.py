"""Tasks one after the other: what each method trains and leaves alone, and what is said about forgetting."""

import dataclasses

import keras
import numpy as np
import pytest

import keras_transfer as kt
from keras_transfer.experiments import compare_continual, continual
from tests.errors import check_errors
from tests.tasks.tiny import WORDS, encoder, examples, preprocessor

pytestmark = pytest.mark.usefixtures("eagerly")
TEXTS, LABELS = examples(32)
PARTS = {"train": (TEXTS[:16], LABELS[:16]), "validation": (TEXTS[16:], LABELS[16:])}
INITIALS = {name: (texts, [int(text[0] in "abcde") for text in texts]) for name, (texts, _) in PARTS.items()}
LENGTHS = {name: (texts, [len(text.split()) / 20 for text in texts]) for name, (texts, _) in PARTS.items()}
RECIPE = kt.adaptation.get_recipe("bert", epochs=1, learning_rate=0.01)
DATA = {part: {"mood": PARTS[part], "length": LENGTHS[part], "initial": INITIALS[part]} for part in PARTS}
TWO = {part: {"mood": PARTS[part], "length": LENGTHS[part]} for part in PARTS}


def make_tasks():
    parts = encoder(), preprocessor()
    return {
        "mood": kt.tasks.TextClassifier(*parts, num_classes=2, dropout=0.0),
        "length": kt.tasks.TextRegressor(*parts, num_targets=1, dropout=0.0),
        "initial": kt.tasks.TextClassifier(*parts, num_classes=2, dropout=0.0),
    }


def make_tasks_of_words():
    """Tasks over an encoder whose steps are quick."""
    vectors = kt.checkpoints.WordVectors(WORDS, np.random.default_rng(0).normal(size=(len(WORDS), 4)))
    parts = kt.encoders.WordVectorEncoder.from_vectors(vectors), kt.text.WordPreprocessor(WORDS, sequence_length=20)
    return {
        "mood": kt.tasks.TextClassifier(*parts, num_classes=2, dropout=0.0),
        "length": kt.tasks.TextRegressor(*parts, num_targets=1, dropout=0.0),
        "initial": kt.tasks.TextClassifier(*parts, num_classes=2, dropout=0.0),
    }


def run(methods, data=DATA, **options):
    options = {"metrics": {"length": "pearson_correlation"}, "recipe": RECIPE, "seeds": 1, "verbose": 0, **options}
    return compare_continual(options.pop("tasks", make_tasks_of_words), data, methods, **options)


@pytest.fixture
def fits(monkeypatch):
    """What was trained: the model, its data and recipe, and the weights of the encoder before and afterwards."""
    found, train = [], continual.fine_tune

    def watched(model, x, *arguments, recipe, **options):
        before = [np.array(weight) for weight in model.encoder.weights]
        train(model, x, *arguments, recipe=recipe, **options)
        found.append((model, x, recipe, before, [np.array(weight) for weight in model.encoder.weights]))

    monkeypatch.setattr(continual, "fine_tune", watched)
    return found


# === What the scores say ===


def test_average_forgetting_and_backward_transfer_follow_their_definitions():
    nan = np.nan
    matrix = [[0.9, nan, nan], [0.6, 0.8, nan], [0.7, 0.5, 1.0]]
    found = continual.summary(matrix)
    assert found["average"] == pytest.approx((0.7 + 0.5 + 1.0) / 3)
    assert found["forgetting"] == pytest.approx(((0.9 - 0.7) + (0.8 - 0.5)) / 2)
    assert found["backward"] == pytest.approx(((0.7 - 0.9) + (0.5 - 0.8)) / 2)
    # The best earlier score of a task need not be the one right after it: later tasks may help.
    improved = continual.summary([[0.5, nan, nan], [0.9, 0.8, nan], [0.6, 0.8, 1.0]])
    assert improved["forgetting"] == pytest.approx((0.3 + 0.0) / 2) and improved["backward"] == pytest.approx(0.05)


def test_the_table_compares_methods_with_the_first_one():
    def result(last):
        matrix = [[0.9, np.nan], [last, 0.8]]
        fixed = {"definition": "", "seconds": 2.0, "step_seconds": None, "trainable": 1, "parameters": 4}
        return {"matrix": matrix, **continual.summary(matrix), **fixed}

    runs = {"plain": [result(0.5), result(0.6)], "ewc": [result(0.8), result(0.7)]}
    comparison = continual.ContinualComparison(runs)
    plain, ewc = comparison.rows
    assert plain["forgetting"] == pytest.approx(0.35) and plain["backward"] == pytest.approx(-0.35)
    assert ewc["average"] == pytest.approx(0.775) and ewc["difference"] == pytest.approx(0.1)
    assert comparison.best == "ewc" and comparison.matrices["ewc"].shape == (2, 2, 2)
    np.testing.assert_array_equal(comparison.matrices["ewc"][0], [[0.9, np.nan], [0.8, 0.8]])
    lines = str(comparison).splitlines()
    assert (
        lines[0].split()[:4] == ["method", "forgetting", "backward", "average"]
        and "difference, p: average" in lines[-1]
    )
    pytest.importorskip("matplotlib")
    comparison.plot()


# === Methods ===


@pytest.mark.core
def test_adapters_for_each_task_forget_nothing_and_leave_earlier_answers_bit_identical(monkeypatch):
    answers, scored = {}, continual.score_of

    def watched(model, part, metric):
        answers.setdefault(id(part), []).append(model.predict(part[0], verbose=0))
        return scored(model, part, metric)

    monkeypatch.setattr(continual, "score_of", watched)
    recipe = dataclasses.replace(RECIPE, batch_size=8)
    comparison = run(["adapters"], TWO, tasks=make_tasks, recipe=recipe)
    [first] = [each for each in answers.values() if len(each) == 3]
    assert np.array_equal(*first[:2])
    [matrix] = comparison.matrices["adapters"]
    assert matrix[0, 0] == matrix[1, 0] and comparison.rows[0]["forgetting"] == 0.0
    assert comparison.rows[0]["trainable"] < 0.5 and comparison.rows[0]["step"] > 0


def test_replay_trains_a_share_of_the_earlier_rows_with_each_task(fits):
    run({"replay": {"method": "replay", "share": 0.25}})
    (_, first, *_), *others = fits
    rows = [{name: len(x) for name, (x, _) in data.items()} for _, data, *_ in others]
    assert len(first) == 16
    assert rows == [{"mood": 4, "length": 16}, {"mood": 4, "length": 4, "initial": 16}]
    assert all(np.any(before[0] != after[0]) for *_, before, after in fits)


def test_ewc_pulls_to_the_weights_after_the_last_task_with_a_running_fisher_information(fits, monkeypatch):
    seen, estimate = [], continual.estimate_fisher

    def watched(model, *arguments, **options):
        seen.append(
            {path: 1.0 + len(seen) + 0 * values for path, values in estimate(model, *arguments, **options).items()}
        )
        return seen[-1]

    monkeypatch.setattr(continual, "estimate_fisher", watched)
    method = {"method": "ewc", "strength": 2.0, "decay": 0.5, "samples": 2}
    run({"ewc": method})
    penalties = [plan.penalty for _, _, plan, *_ in fits]
    assert penalties[0] is None and penalties[1].strength == 2.0
    # Each task has a mean of 1, and the encoder's weights only.
    own = {weight.path for weight in fits[0][0].encoder.weights}
    assert penalties[1].fisher.keys() <= own and len(seen[0]) > len(penalties[1].fisher)
    for penalty, expected in zip(penalties[1:], (1.0, 1.5)):
        assert all(np.allclose(values, expected) for values in penalty.fisher.values())
    model, *_, before, _ = fits[2]
    records = model.optimizer._records
    assert {record.path.rpartition("/")[2] for record in records if record.decays} == {"kernel"}  # Of the new head.
    starts = {record.path: np.array(record.start) for record in records if record.start is not None}
    assert starts.keys() == penalties[2].fisher.keys()
    for weight, value in zip(model.encoder.weights, before):
        if weight.path in starts:
            assert np.array_equal(starts[weight.path], value)


def test_online_ewc_equals_numpy(monkeypatch):
    random = np.random.default_rng(0)
    task = make_tasks()["mood"]
    weight, *_ = task.encoder.weights
    head = task.weights[-1].path
    fishers = [{weight.path: random.random(weight.shape), head: random.random(2)} for _ in range(3)]
    given = iter(fishers)
    monkeypatch.setattr(continual, "estimate_fisher", lambda *arguments, **options: next(given))
    running = None
    for _ in fishers:
        running = continual.running_fisher(running, task, TEXTS, LABELS, 0, samples=None, decay=0.9)
    first, second, third = (fisher[weight.path] / fisher[weight.path].mean() for fisher in fishers)
    assert list(running) == [weight.path]
    np.testing.assert_allclose(running[weight.path], third + 0.9 * (second + 0.9 * first), rtol=1e-5)
    recipe = kt.adaptation.get_recipe(
        "bert", penalty=kt.adaptation.EWC(running, 3.0, groups="pretrained"), weight_decay=0.0
    )
    assert recipe.build_optimizer(task, 10).penalty is recipe.penalty
    optimizer = kt.optimizers.LayerwiseOptimizer(keras.optimizers.SGD(0.1), task, penalty=recipe.penalty)
    star = np.array(weight)
    weight.assign(star + 0.2)
    optimizer.apply([np.full(star.shape, 0.5, "float32")], [weight])
    expected = star + 0.2 - 0.1 * (0.5 + 3.0 * running[weight.path] * 0.2)
    np.testing.assert_allclose(np.array(weight), expected, rtol=1e-5, atol=1e-6)


def test_a_run_that_is_in_the_file_is_not_repeated(fits, tmp_path):
    options = {"results": tmp_path / "runs.jsonl"}
    first = run(["plain"], TWO, **options)
    assert len(fits) == 2
    again = run({"plain": "plain"}, TWO, **options)
    assert len(fits) == 2 and again.rows == first.rows
    np.testing.assert_array_equal(again.matrices["plain"], first.matrices["plain"])
    run(["plain"], {part: dict(reversed(tasks.items())) for part, tasks in TWO.items()}, **options)
    assert len(fits) == 4  # Another order is another run.


def test_scores_are_those_of_the_test_data_if_there_is_any(fits):
    data = {**TWO, "test": TWO["train"]}
    comparison = run({"all": {"method": "replay", "share": 1}}, data)
    [[model, parts, *_]] = fits[1:]
    assert [len(y) for _, y in parts.values()] == [16, 16]
    [scores], [found] = comparison.matrices["all"], comparison.runs["all"]
    tasks = model.tasks
    for part in ("validation", "test"):
        own = [continual.score_of(tasks["mood"], data[part]["mood"], "accuracy")]
        own.append(continual.score_of(tasks["length"], data[part]["length"], "pearson_correlation"))
        assert found[part] == pytest.approx(np.mean(own))
        assert (scores[1] == pytest.approx(own)) == (part == "test")


test_mistakes_are_errors = check_errors(
    (lambda: run(["ewcs"]), "Unknown method. Did you mean 'ewc'?"),
    (lambda: run([]), "`methods` must have at least one method."),
    (lambda: run({"a": {"method": "replay", "share": 10}}), "`share` must be a number above 0 and at most 1"),
    (lambda: run({"a": {"method": "adapters", "adapters": "pfeifer"}}), "Did you mean 'pfeiffer'?"),
    (lambda: run(["plain"], recipe="lora"), "need a recipe without adapters ... Received: adapters='lora:rank=8'"),
    (
        lambda: run({"a": {"method": "ewc", "lambda": 1.0}}),
        "The options of 'ewc' are ['strength', 'decay', 'samples']. Received: unknown=['lambda']",
    ),
    (
        lambda: run(["plain"], metrics={"mood": "loss"}),
        "more of each metric must be better. Received: metrics=['mood']",
    ),
    (lambda: run(["plain"], PARTS), "with the same names of two tasks"),
)
