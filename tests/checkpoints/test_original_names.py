"""The tables of each architecture name every tensor of the published checkpoints, with its shape."""

import json
import re

import keras
import pytest

from keras_transfer.checkpoints.architecture import architecture_of
from keras_transfer.checkpoints.heads import find_head
from keras_transfer.tasks import BertPretraining, CausalLM, MaskedLM, PermutationLM, ReplacedTokenDetection
from tests.samples import REFERENCES

FILE = REFERENCES / "original_names.json"
ORIGINALS = json.loads(FILE.read_text())
TASKS = (BertPretraining, CausalLM, MaskedLM, PermutationLM, ReplacedTokenDetection)
TASKS = {task.checkpoint_head.name: task for task in TASKS}


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
    found = {head: find_head(record, head, config, dict.fromkeys(theirs), name) for head in TASKS}
    found = {head: value.head for head, value in found.items() if value is not None}
    needed = {key: value for head in found for key, value in TASKS[head].checkpoint_head.encoder_arguments.items()}
    # The encoder and the heads have shapes, but no memory for their weights.
    with keras.StatelessScope(initialize_variables=False):
        encoder = record.encoder_class(**record.arguments(config, name), **needed)
        entries = record.entries(encoder)
        for task, head in found.items():
            entries += head.entries(TASKS[task](encoder, **head.arguments_for(encoder)), record.model_type)
        ours = {key: shape for entry in entries for key, shape in entry.shapes().items()}
        saved = record.configuration(encoder)
    assert {key: theirs.get(key) for key in ours} == ours
    without_task = tuple(prefix for prefix in record.heads.values() if isinstance(prefix, str))
    left = {key for key in theirs.keys() - ours.keys() - record.tied.keys() if not key.startswith(without_task)}
    assert left == set()
    assert found
    shared = saved.keys() & config.keys()
    assert {key: saved[key] for key in shared} == {key: config[key] for key in shared}
    assert {key for _, key, *_ in record.settings} <= saved.keys()
