"""The script of mistakes tells clear errors, right answers and silence apart, and finds none that is silent."""

import logging

import pytest

import keras_transfer as kt

pytestmark = pytest.mark.slow


@pytest.fixture
def outcome_of(tool, tmp_path):
    """A function from the arguments of a `Mistake` to the kind of its outcome."""
    mistakes, models = tool("mistakes"), tool("mistake_cases.models")
    return lambda *arguments, **options: (
        mistakes.outcome(models.Mistake("", *arguments, **options), models.Models(tmp_path)).kind
    )


def unknown(models):
    kt.adaptation.get_recipe("brt")


def logged(models):
    logging.getLogger("keras_transfer").warning("Nothing is known about it.")


def trained_in_part(models):
    models.classifier().layers[-1].bias.assign([1.0, 2.0])
    unknown(models)


def test_each_outcome_has_its_name(outcome_of):
    assert outcome_of(unknown, "Did you mean 'bert'") == "clear error"
    assert outcome_of(unknown, "something else") == "raw error"
    assert outcome_of(lambda models: {}["key"], "key") == "raw error"
    assert outcome_of(lambda models: {}["key"], elsewhere="key") == "clear error"
    assert outcome_of(trained_in_part, "Did you mean 'bert'") == "damage"
    assert outcome_of(logged, "Nothing is known") == "warning"
    assert outcome_of(logged, "something else") == "silent"
    assert outcome_of(lambda models: 3, "four", lambda found: found == 4) == "silent"
    assert outcome_of(lambda models: 4, "four", lambda found: found == 4) == "right answer"


def test_no_mistake_of_a_sample_is_silent_or_a_raw_error(tool, capsys, eagerly):
    assert tool("mistakes").main(["--every", "7"]) == 0
    assert "raw error: 0, damage: 0, silent: 0" in capsys.readouterr().out
