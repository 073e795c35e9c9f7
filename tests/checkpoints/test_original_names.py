"""The tables of each architecture name every tensor of the published checkpoints, with its shape."""

import json
import pathlib
import re

import keras
import pytest

from keras_transfer.checkpoints.architecture import architecture_of

FILE = pathlib.Path(__file__).parents[1] / "references" / "original_names.json"
ORIGINALS = json.loads(FILE.read_text())


def expand(tensors):
    """Returns a dict from each name to its shape, where `{0-2}` in a name stands for 0, 1 and 2."""
    names = {}
    for pattern, shape in tensors.items():
        found = re.search(r"\{(\d+)-(\d+)\}", pattern)
        for index in range(int(found[1]), int(found[2]) + 1) if found else [0]:
            names[pattern.replace(found[0], str(index)) if found else pattern] = tuple(shape)
    return names


@pytest.mark.parametrize("name", ORIGINALS)
def test_the_tensors_of_an_original_are_those_that_are_loaded_and_saved(name):
    config, theirs = ORIGINALS[name]["config"], expand(ORIGINALS[name]["tensors"])
    record = architecture_of(config, name)
    theirs = {record.plain_name(key): shape for key, shape in theirs.items()}
    # The encoder has shapes, but no memory for its weights.
    with keras.StatelessScope(initialize_variables=False):
        encoder = record.encoder_class(**record.arguments(config, name))
        ours = {key: shape for entry in record.entries(encoder) for key, shape in entry.shapes().items()}
        saved = record.configuration(encoder)
    left = theirs.keys() - ours.keys()
    heads = tuple(prefix for prefixes in record.head_prefixes.values() for prefix in prefixes)
    assert {key: theirs.get(key) for key in ours} == ours
    assert {key for key in left if not key.startswith(heads) and key not in record.tied} == set()
    shared = saved.keys() & config.keys()
    assert {key: saved[key] for key in shared} == {key: config[key] for key in shared}
    assert {key for _, key, *_ in record.settings} <= saved.keys()
