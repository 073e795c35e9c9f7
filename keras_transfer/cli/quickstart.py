"""The main task from end to end: fine-tune a pretrained BERT on questions, report, export, ask the exported model."""

import pathlib
import shutil
import subprocess
import sys
import time

import keras

from keras_transfer import adaptation, analysis, checkpoints, datasets, serving, tasks, text
from keras_transfer.cli import ask
from keras_transfer.cli.progress import bar_or_lines
from keras_transfer.cli.run_folder import MODEL, REPORT
from keras_transfer.cli.scores import card_facts, describe_recipe, training_facts, write_card
from keras_transfer.core.files import atomic_folder, check_folder

ENCODER, EXPORT = "minilm-l6", "served"
# None of the datasets contains these.
QUESTIONS = [
    "Who designed the first printed circuit board?",
    "How many bones does a giraffe have in its neck?",
    "What does RSVP stand for?",
    "Why do onions make people cry?",
    "Which harbour do ferries to the Isle of Skye leave from?",
]


def quickstart(dataset, data_dir, output, recipe, epochs, seed, batch_size, overwrite):
    """Fine-tunes all-MiniLM-L6-v2 on questions, and writes the model, its report and an export, which answers."""
    check_folder(output, overwrite)
    if dataset == "trec6" and data_dir is None:
        raise ValueError("`--dataset trec6` requires `--data-dir`, a folder with train_5500.label and TREC_10.label")
    if dataset != "trec6" and data_dir is not None:
        raise ValueError(f"`--data-dir` can be used only with `--dataset trec6`. Received: --dataset {dataset}")
    changes = {"epochs": epochs, "batch_size": batch_size}
    changes = {key: value for key, value in changes.items() if value is not None}
    name, recipe = recipe, adaptation.get_recipe(recipe, **changes)
    data = datasets.load_trec6(data_dir) if dataset == "trec6" else datasets.load_demo_questions()
    checkpoints.resolve(ENCODER)
    keras.utils.set_random_seed(seed)
    start = time.time()
    print(f"{len(data.train.texts)} questions for training, {len(data.test.texts)} held out, {data.label_names}")
    model = tasks.TextClassifier.from_pretrained(ENCODER, label_names=data.label_names, scalar_mix=recipe.scalar_mix)
    recipe = recipe.resolve(model, -(-len(data.train.texts) // recipe.batch_size))
    print(describe_recipe(recipe, name, ENCODER))
    train = text.batches(*data.train, preprocessor=model.preprocessor, batch_size=recipe.batch_size, seed=seed)
    adaptation.fine_tune(model, train, recipe=recipe, verbose=bar_or_lines())

    report = analysis.report(model, *data.test, seed=seed, num_examples=5)
    print(f"\nHeld-out questions: {report}")
    folder = pathlib.Path(output)
    with atomic_folder(folder, overwrite) as temporary:
        report.to_html(temporary / REPORT, title="Held-out questions")
        serving.export(model, temporary / EXPORT)
        card = checkpoints.ModelCard(
            data_size={"train": len(data.train.texts), "test": len(data.test.texts)},
            training=training_facts(recipe, name, seed),
            metrics=report,
            evaluated_on=f"{len(data.test.texts)} held-out questions",
        )
        write_card(card, card_facts(model, folder), temporary, replaced=folder)
        model.compile(optimizer=None)  # The file is for use. The optimizer's state would be two thirds of it.
        model.save(temporary / MODEL)
    print(f"\nThe report is in {folder / REPORT}, and the model in {folder / MODEL}")
    print(f"\nThe export is in {folder / EXPORT}. A new process, without keras_transfer, loads it and answers:\n")
    # The log matters only if the process fails.
    fresh = subprocess.run(
        [sys.executable, ask.__file__, str(folder / EXPORT), *QUESTIONS], capture_output=True, text=True
    )
    if fresh.returncode:
        raise RuntimeError(f"The exported model failed:\n{fresh.stderr}")
    print(fresh.stdout, end="")
    print(f"\n{time.time() - start:.0f} s in total. To ask more questions:")
    # The environment of `make quickstart` is not activated.
    command = (
        "keras-transfer" if shutil.which("keras-transfer") else pathlib.Path(sys.executable).parent / "keras-transfer"
    )
    print(f'{command} classify {folder} "Where is Timbuktu?"')
