"""Checks the table 'Ways through the code' of the page on the architecture: files to read, and files that run.

`python tools/ways.py` makes each call of the table with all-MiniLM-L6-v2, and prints the number of the package's files
in which at least one function ran, with `--files` also their names. It fails if the table has another number or names a
file that does not exist.
"""

import argparse
import os
import pathlib
import re
import sys
import tempfile
import threading

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras

import keras_transfer as kt

for name in kt.__all__:
    getattr(kt, name)  # What subpackages run when they are imported belongs to no call.
PACKAGE = pathlib.Path(kt.__file__).parent
PAGE = PACKAGE.parent / "docs" / "development" / "architecture.md"


def files_that_run(call):
    """Calls a function, and returns the names of the package's files of which a function ran in any thread."""
    found = {}

    def profile(frame, event, argument):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(f"{PACKAGE}/") and code.co_name != "<module>":
            found[pathlib.Path(code.co_filename).relative_to(PACKAGE).as_posix()] = True

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return list(found)


def calls():
    """Yields the name of each call, as it begins in the table, and a function that makes it."""
    data = kt.datasets.load_demo_questions()
    texts, labels = list(data.train.texts[:24]), list(data.train.labels[:24])

    def make():
        model = kt.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=data.label_names)
        model.compile()
        return model

    model = make()
    yield "`fit` from raw texts", lambda: model.fit(texts, labels, batch_size=8, verbose=0)
    yield '`add_adapters(model, "lora")`', lambda: kt.adaptation.add_adapters(model, "lora")
    staged = make()
    with tempfile.TemporaryDirectory() as folder:
        callbacks = [kt.callbacks.GradualUnfreezing(), kt.callbacks.TrainingCheckpoint(f"{folder}/run")]
        options = {"epochs": 3, "batch_size": 3, "callbacks": callbacks, "verbose": 0}
        yield "`fit` with unfreezing", lambda: staged.fit(texts, labels, **options)
    yield (
        "`from_pretrained`",
        lambda: kt.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=data.label_names),
    )
    with tempfile.TemporaryDirectory() as folder:
        yield "`serving.export`", lambda: kt.serving.export(staged, f"{folder}/served")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", action="store_true", help="print the names of the files that run")
    show_files, wrong = parser.parse_args().files, []
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")]
    keras.utils.set_random_seed(0)
    for name, call in calls():
        row = next(row for row in rows if row.startswith(f"| {name}"))
        _, _, to_read, run, _ = re.split(r" ?\| ?", row)
        found = files_that_run(call)
        print(f"{name}: {to_read.split(':')[0]} files to read, {len(found)} run", flush=True)
        if show_files:
            print(*(f"    {file}" for file in found), sep="\n")
        missing = [file for file in re.findall(r"`([\w/]+\.py)`", to_read) if not (PACKAGE / file).exists()]
        wrong += [f"{name}: there is no {file}" for file in missing]
        if int(re.match(r"\d+", run)[0]) != len(found):
            wrong.append(f"{name}: {len(found)} files run, and the table says {run}")
    if wrong:
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main()
