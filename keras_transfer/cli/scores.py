"""The recipe of a run and its scores, as text and in the model card in the same folder as its `.keras` file."""

import dataclasses
import logging
import math
import os
import pathlib
import shlex

import keras

from keras_transfer.adaptation import STEPS, enough_epochs, steps_of
from keras_transfer.analysis import Table
from keras_transfer.checkpoints import CARD
from keras_transfer.cli.run_folder import MODEL
from keras_transfer.metrics import PearsonCorrelation, SpearmanCorrelation
from keras_transfer.tasks import facts_of

log = logging.getLogger("keras_transfer")


def scores_of_numbers(labels, predicted):
    """Returns a dict of the errors and the correlations of predicted numbers, given two lists or arrays."""
    metrics = [keras.metrics.MeanSquaredError(), keras.metrics.MeanAbsoluteError()]
    metrics += [PearsonCorrelation(capacity=len(labels)), SpearmanCorrelation(capacity=len(labels))]
    for metric in metrics:
        metric.update_state(labels, predicted)
    return {metric.name: float(metric.result()) for metric in metrics}


def describe_numbers(scores, count):
    """Returns the scores of `count` rows as a table of text."""
    rows = [[name.replace("_", " "), f"{score:.4f}"] for name, score in scores.items()]
    return str(Table(f"{count:,} rows", ["", "value"], rows))


def card_facts(model, folder):
    """Returns what the model card of a run says about its task, whose file is in the folder `folder`."""
    name = folder.absolute().name
    return facts_of(model, folder, name, f"keras.models.load_model({f'{name}/{MODEL}'!r})")


def write_card(card, facts, folder, replaced=None):
    """Writes the `README.md` of a run, and prints a note if it keeps a card that the user has written."""
    own = folder if replaced is None else replaced
    if not card.write(facts, folder, own.absolute().name, replaced):
        print(f"{shlex.quote(str(own / CARD))} is yours, and is kept")


def warn_of_few_steps(recipe, rows, name=None):
    """Logs a warning if a `Recipe` whose epochs the user chose makes too few steps with so many rows."""
    if recipe.epochs in (None, "auto") or steps_of(recipe, rows) >= STEPS:
        return
    log.warning(
        "--epochs %d makes %d steps with %d rows%s, and a model that trains for fewer than %d has often learned "
        "little. Leave --epochs out, or pass --epochs %d.",
        *(recipe.epochs, steps_of(recipe, rows), rows, f" and the recipe {name!r}" if name else "", STEPS),
        enough_epochs(recipe, math.ceil(rows / recipe.batch_size)),
    )


def describe_recipe(recipe, name, encoder):
    """Returns a line about a `Recipe` called `name` for an encoder, with the fields that differ from their defaults."""
    length = "epochs" if recipe.steps is None else "steps"
    count = getattr(recipe, length)
    if count == "auto":
        shown = ["epochs and learning rate by the table and the encoder"]
    else:
        rate = "by the encoder" if recipe.learning_rate == "auto" else f"{recipe.learning_rate:g}"
        shown = [f"{count} {length if count > 1 else length[:-1]}", f"learning rate {rate}"]
    shown.append(f"batch size {recipe.batch_size}")
    for field in dataclasses.fields(recipe):
        value = getattr(recipe, field.name)
        if field.name not in ("epochs", "steps", "learning_rate", "batch_size") and value != field.default:
            shown.append(f"{field.name}={f'{value:g}' if isinstance(value, float) else repr(value)}")
    return f"Recipe {name!r} for {encoder}: {', '.join(shown)}"


def training_facts(recipe, name, seed):
    """Returns what a card says about the training by a `Recipe`, of which `name` is the name or None."""
    length = {"epochs": recipe.epochs} if recipe.steps is None else {"steps": recipe.steps}
    found = {"recipe": name, **length, "learning rate": recipe.learning_rate, "batch size": recipe.batch_size}
    return {key: value for key, value in {**found, "seed": seed}.items() if value is not None}


def finite(scores):
    """Returns a dict of scores without the undefined ones."""
    return {name: score for name, score in scores.items() if math.isfinite(score)}


def check_writable(option, path, new_folders=False):
    """Raises a `ValueError` if the file of an option cannot be written, before the work that produces its content."""
    if path is None:
        return
    path = pathlib.Path(path)
    parent = path.parent
    while new_folders and not os.path.lexists(parent) and parent != parent.parent:
        parent = parent.parent
    if not parent.is_dir() or path.is_dir():
        raise ValueError(f"Expected a file in an existing folder. Received: {option}={path}")
    if not os.access(path if path.exists() else parent, os.W_OK):
        raise ValueError(f"Expected a file that can be written. Received: {option}={path}")
