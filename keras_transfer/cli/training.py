"""`keras-transfer train`: trains a classifier or a regressor on a table. A run can continue after Ctrl-C or a kill."""

import os
import shlex
import signal
import types

import keras
import numpy as np

from keras_transfer import adaptation, analysis, checkpoints, tasks, text
from keras_transfer.callbacks import TrainingCheckpoint
from keras_transfer.cli import run_folder, scores
from keras_transfer.cli.labelled_texts import FORM, as_numbers, read_parts, with_validation
from keras_transfer.cli.models import trained_model
from keras_transfer.cli.progress import bar_or_lines
from keras_transfer.cli.run_folder import CHECKPOINTS, MODEL, REPORT
from keras_transfer.core import precision
from keras_transfer.core.names import listed


def train(output, overwrite, **options):
    """Trains a text classifier or regressor on a table, and writes it with a report on the validation data.

    On the first Ctrl-C (or SIGTERM), a training checkpoint is written, and the run ends. A call with the same settings
    continues it. The result is 128 plus the number of the signal that ended the run, or 0 if it is finished.

    Args:
        **options: The other options of the command, which are the settings of the run.
    """
    given = types.SimpleNamespace(**options)
    output = output or ("regressor" if given.task == "regression" else "classifier")
    trained = trained_model(given.encoder)
    if trained is not None and given.sequence_length is not None:
        raise ValueError("A trained model keeps its sequence length. Leave out `--sequence-length`.")
    columns, form = (given.text_column, given.label_column), {name: options[name] for name in FORM}
    parts, label_names = read_parts(given.data, given.validation_data, None, *columns, given.task, **form)
    if given.precision == "auto":  # A resumed run keeps the precision that it started with.
        found = precision.recommended_precision()
        print(found)
        options["precision"] = given.precision = found.policy
    if trained is not None and os.path.realpath(trained.parent) == os.path.realpath(output):
        raise ValueError(f"`--output` must be a different folder from `--encoder`. Received: {output}")
    settings = run_folder.describe(**options)
    settings["label_column"] = given.label_column[0] if len(given.label_column) == 1 else given.label_column
    run_folder.check_run(output, settings, overwrite)
    names = ("epochs", "learning_rate", "batch_size", "gradient_accumulation_steps", "rematerialize", "precision")
    recipe = adaptation.get_recipe(given.recipe, **{name: options[name] for name in names if options[name] is not None})
    parts = with_validation(parts, label_names)
    rows = len(parts["train"][0])
    scores.warn_of_few_steps(recipe, rows)
    keras.utils.set_random_seed(given.seed)
    model = _model(given, label_names, recipe, trained)
    # Another process may have used the folder since `check_run`.
    with run_folder.running(output, settings, overwrite) as folder:
        recipe = recipe.resolve(model, -(-rows // recipe.batch_size))
        stopped_by = _train(model, parts, recipe, folder, given)
    return 128 + stopped_by if stopped_by else 0


def _model(given, label_names, recipe, trained):
    """Returns the model of a run: a new one, or a trained one."""
    arguments = {"sequence_length": given.sequence_length, "head": "new", "scalar_mix": recipe.scalar_mix}
    if recipe.precision is not None:
        arguments["encoder"] = {"dtype": recipe.precision}
    cls = tasks.TextRegressor if label_names is None else tasks.TextClassifier
    if label_names is not None:
        arguments |= {"label_names": label_names, "multi_label": given.task == "multi-label"}
    if trained is not None:
        return _continued(cls, trained, arguments)
    return cls.from_pretrained(given.encoder, **arguments)


def _continued(task, trained, options):
    """Returns a trained model if it is one of the task with these labels, or else the task over its encoder."""
    model = keras.saving.load_model(trained)
    same = {name: getattr(model, name, None) for name in ("label_names", "multi_label") if name in options}
    if type(model) is task and all(options[name] == value for name, value in same.items()):
        print(f"The training continues from {trained}, with its head", end=": ")
        return model
    print(f"The training continues from the encoder of {trained}, with a new head", end=": ")
    settings = {name: options[name] for name in (*same, "scalar_mix") if options[name] is not None}
    return task(model.encoder, model.preprocessor, **settings)


def _train(model, parts, recipe, folder, given):
    """Trains a model, and writes it with its report. Returns the number of the signal that ended the run, or 0."""
    print(", ".join(f"{len(texts)} texts for {name}" for name, (texts, _) in parts.items()), end=", ")
    print(listed(model.label_names) if model.label_names else "one number for each text")
    print(scores.describe_recipe(recipe, given.recipe, given.encoder))

    checkpoint = TrainingCheckpoint(folder / CHECKPOINTS, keep=1, signals=("SIGINT", "SIGTERM"))
    texts, labels = parts["train"]
    batching = {"preprocessor": model.preprocessor, "batch_size": recipe.batch_size, "seed": given.seed}
    train = text.batches(texts, as_numbers(labels, model.label_names), **batching)
    options = {"callbacks": [checkpoint], "verbose": bar_or_lines()}
    texts, labels = parts["validation"]
    labels = np.array(as_numbers(labels, model.label_names)) if given.task == "multi-label" else labels
    adaptation.fine_tune(model, train, validation_data=(texts, labels), recipe=recipe, **options)
    if checkpoint.stopped_by:
        print(f"\nThe run was stopped. The same command continues it from {folder / CHECKPOINTS}")
        return int(signal.Signals[checkpoint.stopped_by])

    if model.label_names is None:
        found = scores.scores_of_numbers(labels, model.predict(texts, verbose=0)[:, 0])
        print(f"\nValidation data: {scores.describe_numbers(found, len(labels))}")
        found = scores.finite(found)
        (folder / REPORT).unlink(missing_ok=True)  # An earlier run for a different task may have written it.
    else:
        found = analysis.report(model, texts, labels, seed=given.seed)
        print(f"\nValidation data: {found}")
        print(f"\nThe report is in {found.to_html(folder / REPORT, title='Validation data')}")
    card = checkpoints.ModelCard(
        data_size={name: len(texts) for name, (texts, _) in parts.items()},
        training=scores.training_facts(recipe, given.recipe, given.seed),
        metrics=found,
        evaluated_on="the validation data",
    )
    facts = scores.card_facts(model, folder)  # of the optimizer, too
    model.compile(optimizer=None)  # The file is for use. The optimizer's state would be two thirds of it.
    model.save(folder / MODEL)
    scores.write_card(card, facts, folder)  # A model that could not be written has no card.
    run_folder.finish(folder)
    print(f"\nThe model is in {folder / MODEL}. To use it:")
    column = "" if given.text_column == "text" else f" --text-column {shlex.quote(given.text_column)}"
    print(f"keras-transfer predict {shlex.quote(str(folder))} --data FILE.csv{column}")
    print(f'keras-transfer classify {shlex.quote(str(folder))} "TEXT"')
    print(f"keras-transfer export {shlex.quote(str(folder))} --output served/1")
    return 0
