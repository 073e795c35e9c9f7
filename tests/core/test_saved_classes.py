"""Keras finds the classes of `.keras` files after `import keras_transfer` alone, which imports few of them."""

import importlib
import pkgutil

import keras

import keras_transfer
from keras_transfer.core.saved_classes import NAMES, StandIn, register_names
from keras_transfer.encoders import BertEncoder
from keras_transfer.metrics import Perplexity
from keras_transfer.tasks import TextClassifier
from tests.processes import run


def test_the_registered_names_are_listed():
    for info in pkgutil.walk_packages(keras_transfer.__path__, "keras_transfer."):
        if not info.name.endswith("__main__"):
            importlib.import_module(info.name)
    registered = {name: value for name, value in keras.saving.get_custom_objects().items() if ">" in name}
    of_package = {name: value.__module__.split(".") for name, value in registered.items()}
    found = {name: parts[1] for name, parts in of_package.items() if parts[0] == "keras_transfer"}
    assert found == {f"keras_transfer>{name}": room for room, names in NAMES.items() for name in names.split()}
    assert not any(isinstance(value, StandIn) for value in registered.values())


def test_a_stand_in_creates_the_object_of_its_class():
    register_names()
    assert keras.saving.get_registered_object("keras_transfer>Perplexity") is Perplexity
    found = StandIn("keras_transfer>Perplexity", "metrics").from_config(Perplexity(name="mine").get_config())
    assert type(found) is Perplexity and found.name == "mine"


def test_a_subpackage_registers_all_of_its_names():
    script = (
        "import importlib, json, keras, keras_transfer\n"
        "from keras_transfer.core.saved_classes import NAMES, StandIn\n"
        "left, found = [], keras.saving.get_custom_objects()\n"
        "for room in sorted(NAMES, key='losses metrics objectives encoders generation hub training tasks'.find):\n"
        "    importlib.import_module(f'keras_transfer.{room}')\n"
        "    left += [each for each in NAMES[room].split() if isinstance(found[f'keras_transfer>{each}'], StandIn)]\n"
        "print(json.dumps(left))"
    )
    assert run("-c", script) == []


def test_a_saved_model_loads_after_a_plain_import(tmp_path):
    encoder = BertEncoder(11, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16)
    TextClassifier(encoder, num_classes=2).save(tmp_path / "model.keras")
    script = (
        "import json, sys, keras_transfer, keras\n"
        "before = [name for name in ('tasks', 'encoders', 'training') if f'keras_transfer.{name}' in sys.modules]\n"
        "model = keras.saving.load_model(sys.argv[1])\n"
        "print(json.dumps([before, type(model).__name__, type(model.encoder).__name__]))"
    )
    assert run("-c", script, tmp_path / "model.keras") == [[], "TextClassifier", "BertEncoder"]
