"""The transfer matrix: which runs take place, what is the same in them, and what its table says."""

import numpy as np
import pytest

import keras_transfer as kt
from keras_transfer.experiments import transfer, transfer_matrix
from keras_transfer.experiments.comparison_report import Comparison
from tests.errors import check_errors
from tests.tasks.tiny import examples

pytestmark = pytest.mark.usefixtures("eagerly")
TEXTS, LABELS = examples(24)
PARTS = {"train": (TEXTS[:16], LABELS[:16]), "validation": (TEXTS[16:20], LABELS[16:20])}
LENGTHS = {name: (texts, [len(text.split()) / 20 for text in texts]) for name, (texts, _) in PARTS.items()}
RECIPE = kt.adaptation.get_recipe("bert", epochs=1, learning_rate=0.01)
DATA = {part: {"mood": PARTS[part], "length": LENGTHS[part]} for part in PARTS}


WORDS = [*"abcdefghij", "good", "bad"]
VECTORS = kt.checkpoints.WordVectors(WORDS, np.random.default_rng(0).normal(size=(len(WORDS), 4)))


def make_tasks():
    """Tasks over an encoder whose steps are quick."""
    parts = kt.encoders.WordVectorEncoder.from_vectors(VECTORS), kt.text.WordPreprocessor(WORDS, sequence_length=20)
    return {
        "mood": kt.tasks.TextClassifier(*parts, num_classes=2, dropout=0.0),
        "length": kt.tasks.TextRegressor(*parts, num_targets=1, dropout=0.0),
    }


def run(data=DATA, **options):
    options = {"recipe": RECIPE, "metrics": {"length": "mean_absolute_error"}, "verbose": 0, **options}
    return transfer_matrix(make_tasks, data, **options)


@pytest.fixture
def runs(monkeypatch):
    """The encoders with which runs begin and end, in order."""
    found, train = [], transfer.fine_tune

    def watched(model, *arguments, **options):
        begin = [np.array(weight) for weight in model.encoder.weights]
        head = np.array(model.weights[-2])
        train(model, *arguments, **options)
        end = [np.array(weight) for weight in model.encoder.weights]
        found.append((type(model).__name__, begin, end, head))

    monkeypatch.setattr(transfer, "fine_tune", watched)
    return found


@pytest.fixture
def untrained(monkeypatch):
    """The models of runs, which are compiled and not trained."""
    found = []

    def compiled(model, *arguments, metrics, **options):
        model.compile(metrics=metrics)
        found.append(type(model).__name__)

    monkeypatch.setattr(transfer, "fine_tune", compiled)
    return found


def same(ours, theirs):
    return all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.core
def test_a_chain_begins_with_the_encoder_of_its_intermediate_task_and_the_head_of_the_target_alone(runs, capsys):
    matrix = run(seeds=2, verbose=1)
    kinds = ["TextClassifier"] * 2 + ["TextRegressor"] * 2
    assert [run[0] for run in runs] == [*kinds, *kinds]  # Alone, then as targets.
    mood, length, chained = runs[:2], runs[2:4], runs[4:]
    for seed in (0, 1):
        assert same(mood[seed][1], length[seed][1]) and not same(mood[seed][1], mood[seed][2])
        assert same(chained[seed][1], length[seed][2]) and same(chained[2 + seed][1], mood[seed][2])
        assert np.array_equal(chained[seed][3], mood[seed][3]) and not same(chained[seed][2], length[seed][2])
    assert not np.array_equal(mood[0][3], mood[1][3])
    assert [pair[:2] for pair in matrix.pairs] == [("mood", "length"), ("length", "mood")]
    assert "mood after length, seed 1: validation accuracy" in capsys.readouterr().out


def test_the_same_call_continues_and_more_seeds_use_the_runs_that_are_there(untrained, tmp_path):
    first = run(seeds=1, results=tmp_path)
    assert len(untrained) == 4 and len(list(tmp_path.glob("encoders-*/*"))) == 2
    again = run(seeds=[0], results=tmp_path)
    assert len(untrained) == 4 and again.rows == first.rows
    run(seeds=2, results=tmp_path)
    assert len(untrained) == 8
    run(seeds=1, results=tmp_path, recipe=kt.adaptation.get_recipe("bert", epochs=2))
    assert len(untrained) == 12


def distance(y_true, y_pred):
    return abs(y_true - y_pred)


def test_a_metric_with_a_name_of_its_own_has_a_mode(untrained):
    options = {"metrics": {"length": distance}, "seeds": 1}
    with pytest.raises(ValueError, match="Pass `mode='max'` if a higher score is better.*metric='distance'"):
        run(**options)
    matrix = run(modes={"length": "min"}, **options)
    assert {name: found.mode for name, found in matrix.comparisons.items()} == {"mood": "max", "length": "min"}


def matrix_of(accuracies, errors):
    def runs(part, scores):
        fixed = {"step_seconds": None, "seconds": 1.0, "trainable": 1, "parameters": 1, "definition": ""}
        return [{part: score, **fixed} for score in scores]

    accuracy = {name: runs("validation", scores) for name, scores in accuracies.items()}
    error = {name: runs("validation", scores) for name, scores in errors.items()}
    return transfer.TransferMatrix(
        {"a": Comparison(accuracy, "accuracy", "max", "a"), "b": Comparison(error, "loss", "min", "b")}
    )


def test_the_table_has_paired_differences_with_intervals_and_marks_improvements():
    matrix = matrix_of(
        {"a": (0.80, 0.82, 0.81), "a after b": (0.90, 0.93, 0.90)}, {"b": (1.0, 1.2), "b after a": (1.4, 1.3)}
    )
    (*_, gain), (*_, loss) = matrix.pairs
    # Differences of 0.10, 0.11 and 0.09 have a standard deviation of 0.01; the quantile is 4.3027.
    assert gain["difference"] == pytest.approx(0.1) and gain["difference_interval"] == pytest.approx(
        4.3027 * 0.01 / 3**0.5, 1e-4
    )
    assert loss["difference"] == pytest.approx(0.25) and loss["validation"] == pytest.approx(1.35)
    assert [row["gain"] for row in matrix.rows] == [None, gain["difference"], None, -loss["difference"]]
    assert matrix.helps == {"a": ["b"], "b": []}
    lines = str(matrix).splitlines()
    assert lines[0].split() == ["target", "metric", "alone", "after", "a", "after", "b"]
    assert lines[2].endswith("+0.1000 ± 0.0248 *") and "+0.2500 ± " in lines[3] and "*" not in lines[3]
    assert "| a | accuracy | 0.8100 ± 0.0248 |  | +0.1000 ± 0.0248 * |" in matrix.to_markdown()
    assert "Transfer matrix" in matrix._repr_html_()
    pytest.importorskip("pandas")
    assert matrix.to_frame().loc[("a", "a after b"), "difference"] == pytest.approx(0.1)
    pytest.importorskip("matplotlib")
    axes = matrix.plot().axes[0]
    assert [text.get_text() for text in axes.texts] == ["+0.100", "+0.250"]
    assert axes.images[0].get_array()[1, 0] == pytest.approx(-0.25)  # More loss is worse.


def test_one_seed_has_no_interval_and_helps_nothing():
    matrix = matrix_of({"a": [0.8], "a after b": [0.9]}, {"b": [1.0], "b after a": [0.5]})
    assert matrix.helps == {"a": [], "b": []} and str(matrix).endswith("1 seed: no intervals.")


def test_equal_differences_say_nothing_about_other_seeds_and_less_error_helps():
    # On few rows, two seeds often differ by the same number of answers: the standard deviation is 0.
    matrix = matrix_of(
        {"a": (0.75, 0.5), "a after b": (0.875, 0.625)}, {"b": (1.0, 1.1, 1.2), "b after a": (0.8, 0.89, 1.0)}
    )
    assert matrix.helps == {"a": [], "b": ["a"]} and "*" not in str(matrix).splitlines()[2]


WRONG = "with the same names of two tasks. Received: "
test_mistakes_are_errors = check_errors(
    (lambda: transfer_matrix(make_tasks, {"mood": PARTS, "length": LENGTHS}), WRONG),
    (lambda: transfer_matrix(make_tasks, {**DATA, "validation": {"mood": PARTS["validation"]}}), WRONG),
    (lambda: transfer_matrix(make_tasks, {part: {"mood": PARTS[part]} for part in PARTS}), WRONG),
    (lambda: run({part: {"x": PARTS[part], **DATA[part]} for part in DATA}), "a task for each name ... missing=['x']"),
    (lambda: run(recipe="brt"), "Did you mean 'bert'?"),
    (lambda: run(recipe="lora"), "need a recipe without adapters ... Received: adapters='lora:rank=8'"),
    (lambda: run({part: {**DATA[part], "length": [TEXTS]} for part in DATA}), "must be `(x, y)`"),
    (lambda: run(metrics={"length": "pearson"}, seeds=1), "pearson"),
)
