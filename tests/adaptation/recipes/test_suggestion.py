"""`suggest`: which recipe the rule of thumb names, and why."""

from types import SimpleNamespace

import numpy as np
import pytest

from keras_transfer.adaptation import Recipe, add_adapters, get_recipe, layer_groups, suggest
from keras_transfer.adaptation.recipes import costs, suggestion
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


def test_many_tasks_suggest_adapters_over_one_encoder(model, capsys):
    assert suggest(model, *many(1000), tasks=10) == get_recipe("lora")
    printed = capsys.readouterr().out
    adapted = add_adapters(tiny.classifier(num_layers=2), "lora:rank=8")
    own = [weight for weight in adapted.trainable_weights if "logits" not in weight.path]
    one, added = 4 * model.count_params() / 1e6, 4 * sum(np.prod(weight.shape) for weight in own) / 1e6
    assert f"- 10 tasks: adapters over one encoder have {one + 10 * added:,.1f} MB and one export" in printed
    costs = {line.split()[0]: line.split() for line in printed.splitlines() if "%" in line}
    trained = sum(np.prod(weight.shape) for weight in adapted.trainable_weights)
    assert costs["lora"][1] == f"{trained / adapted.count_params():.2%}" and "last_layers" not in costs
    assert suggest(model, *many(1000), tasks=10, memory=1e3) == get_recipe("feature_extraction")
    printed = capsys.readouterr().out
    assert "lora would need" in printed and "LoRA costs" not in printed and "one frozen encoder" in printed
    assert suggest(model, *many(1000), tasks=2) == get_recipe("bert")
    assert "2 tasks: fewer than about 5 are simpler" in capsys.readouterr().out


def test_an_encoder_without_blocks_has_no_adapters_to_suggest(capsys):
    assert suggest(tiny.of_vectors(), ["good", "bad"] * 500, [1, 0] * 500, tasks=10) == get_recipe("bert")
    assert "10 tasks: the encoder cannot have adapters" in capsys.readouterr().out


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


def test_the_speed_of_a_machine_is_that_of_the_fastest_repeat(monkeypatch):
    clock = iter([0.0, 2.0, 10.0, 10.5])
    monkeypatch.setattr(costs, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    assert measure_speed(64, 2) == 2 * 64**3 / 0.5


test_data_without_labels_and_models_that_are_no_tasks_are_errors = check_errors(
    (lambda model: suggest(model, *many(16), minutes=0), "`minutes` must be a positive number. Leave it out"),
    (lambda model: suggest(model, *many(16), tasks=0), "`tasks` must be an integer of at least 1. Received: tasks=0"),
    (lambda model: suggest(model, *many(16), memory="8GB"), "Received: memory='8GB'"),
    (lambda model: suggest(model, cached.TEXTS, None), "must be in memory, with labels"),
    (lambda model: suggest(model, model, None), "must be in memory, with labels", "x of type TextClassifier"),
    (lambda model: suggest(model.encoder, *many(16)), "must be a task with labels"),
)
