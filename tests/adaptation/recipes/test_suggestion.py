"""`suggest`: which recipe the rule of thumb names, and why."""

import numpy as np
import pytest

from keras_transfer.adaptation import Recipe, get_recipe, layer_groups, suggest
from keras_transfer.adaptation.recipes import suggestion
from keras_transfer.adaptation.recipes.costs import estimate, measure_speed
from keras_transfer.tasks import TokenClassifier
from tests.adaptation.features import cached
from tests.errors import check_errors
from tests.tasks import tiny
from tests.tasks.tagging import taggers


@pytest.fixture(scope="module")
def model():
    return tiny.classifier(num_layers=2)


@pytest.fixture(autouse=True)
def speed(monkeypatch):
    """A machine of a known speed: 10**9 operations per second."""
    monkeypatch.setattr(suggestion, "measure_speed", lambda: 1e9)


def many(count):
    return (["a b c"] * count, [0, 1] * (count // 2))


@pytest.mark.parametrize(("count", "epochs"), [(16, 60), (200, 9), (1000, 4)])
def test_few_rows_suggest_more_epochs_of_all_weights(model, capsys, count, epochs):
    assert suggest(model, *many(count)) == get_recipe("bert", epochs=epochs)
    printed = capsys.readouterr().out
    assert "Suggested recipe: bert\n" in printed
    assert (f"- {epochs} epochs: fewer would make fewer than 60 steps" in printed) == (epochs > 4)
    assert f"- {count:,} rows of 5 tokens on average, at most 5; 2 classes" in printed


def test_limits_suggest_to_train_less_and_the_reason_is_printed(model, capsys):
    assert suggest(model, *many(1000), memory=1e3) == get_recipe("feature_extraction")
    printed = capsys.readouterr().out
    assert "bert would need" in printed and "last_layers would need" in printed and "GB of 0.0" in printed
    assert "feature_extraction would need" in printed and "no recipe stays within the limits" in printed
    suggest(model, *many(1000), minutes=1e-9)
    assert "minutes of 1e-09" in capsys.readouterr().out


def test_the_estimates_are_those_of_the_documented_rule(model):
    groups, ends = layer_groups(model), np.full(1000, 5)
    full = estimate(model, get_recipe("bert", epochs=1), ends, 1e9)
    frozen = estimate(model, get_recipe("feature_extraction", epochs=1), ends, 1e9)
    last = estimate(model, get_recipe("last_layers", epochs=1, last_blocks=1), ends, 1e9)
    assert full["trainable"] == 1 and frozen["trainable"] == groups[-1].parameters / model.count_params()
    assert frozen["minutes"] < last["minutes"] < full["minutes"] and frozen["memory"] < last["memory"] < full["memory"]
    kernels = sum(np.prod(w.shape) for group in groups[1:] for w in group.variables if len(w.shape) > 1)
    assert full["minutes"] == pytest.approx(6 * kernels * 5000 / 1e9 / 0.5 / 60)
    steps = get_recipe("bert", steps=250, batch_size=8)  # two epochs of 1,000 rows
    assert estimate(model, steps, ends, 1e9)["minutes"] == pytest.approx(2 * full["minutes"])


def test_a_tagger_has_a_suggestion(capsys):
    words, tags = taggers.examples(16)
    model = taggers.tagger()
    assert isinstance(suggest(model, words, tags), Recipe) and isinstance(model, TokenClassifier)
    assert "16 rows of" in capsys.readouterr().out


def test_the_speed_of_a_machine_is_measured(monkeypatch):
    monkeypatch.undo()
    assert measure_speed(64, 1) > 0


test_data_without_labels_and_models_that_are_no_tasks_are_errors = check_errors(
    (lambda model: suggest(model, *many(16), minutes=0), "`minutes` must be a positive number. Leave it out"),
    (lambda model: suggest(model, *many(16), memory="8GB"), "Received: memory='8GB'"),
    (lambda model: suggest(model, cached.TEXTS, None), "must be in memory, with labels"),
    (lambda model: suggest(model, model, None), "must be in memory, with labels", "x of type TextClassifier"),
    (lambda model: suggest(model.encoder, *many(16)), "must be a task with labels"),
)
