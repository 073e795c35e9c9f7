"""Files of each kind that version 0.1 and later ones wrote answer as they did there."""

import json
import re
import shutil
import zipfile

import numpy as np
import pytest

import keras_transfer as kt
from keras_transfer.adaptation.adapters.kind import KINDS, AdapterKind
from tests.references.make_saved import FOLDER, ask, load
from tools.tiny_tasks import CASES

pytestmark = pytest.mark.usefixtures("eagerly")
VERSIONS = {
    folder.name: json.loads((folder / "answers.json").read_text("utf-8")) for folder in sorted(FOLDER.iterdir())
}
MODELS = [(version, name) for version, lines in VERSIONS.items() for name in lines if name != "served"]
# All files take half a minute. The tasks alone are always tested.
MARKED = [
    pytest.param(version, name, marks=() if name in CASES else pytest.mark.slow, id=f"{version}-{name}")
    for version, name in MODELS
]


def check(line, found):
    np.testing.assert_allclose(found, line["answers"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("version", "name"), MARKED)
def test_a_saved_model(version, name):
    line = VERSIONS[version][name]
    model = load([FOLDER / version / file for file in line["files"]])
    if "fit" in line:
        model.fit(*line["fit"], verbose=0, shuffle=False)
    check(line, ask(model, line["questions"], line.get("outputs")))


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_an_export(version, tmp_path, process_without_this_package):
    line = VERSIONS[version]["served"]
    shutil.unpack_archive(FOLDER / version / line["files"][0], tmp_path)
    [texts] = line["questions"]
    served = process_without_this_package("tests.serving.alone:answers", str(tmp_path), texts, "serving_default")
    check(line, served["outputs"]["probabilities"])


def public(module, base, without=()):
    """The public classes of a module that are subclasses of `base`."""
    found = [getattr(module, name) for name in module.__all__]
    return {each.__name__ for each in found if isinstance(each, type) and issubclass(each, base)} - {*without}


def test_each_task_encoder_and_kind_of_adapters_has_a_file():
    """If one is missing, `python -m tests.references.make_saved` writes it, after an entry there or in `tiny_tasks`."""
    within = set()
    for file in FOLDER.glob("*/*.keras"):
        with zipfile.ZipFile(file) as archive:
            within |= set(re.findall(rb'"class_name": "(\w+)"', archive.read("config.json")))
    classes = public(kt.tasks, kt.tasks.Task, ["Task"])
    classes |= public(kt.encoders, kt.encoders.Encoder, ["Encoder", "EncoderDecoder"])
    classes |= public(kt.adaptation, AdapterKind, ["AdapterKind"])
    assert classes - {name.decode() for name in within} == set()
    assert {f"adapters_{name}" for name in (*KINDS, "fusion")} - {name for _, name in MODELS} == set()
