"""Checks of an architecture with a checkpoint of its original, so that the test of a new one is one line."""

import json
import pathlib
import re
import tempfile

import keras
import numpy as np
from keras.ops import convert_to_numpy as to_numpy
from safetensors.numpy import load_file

from keras_transfer.adaptation import layer_groups
from keras_transfer.checkpoints.architecture import architecture_of
from keras_transfer.encoders import Encoder, encode
from tests.helpers import outputs_of, run_encoder_test, save_and_load
from tests.samples import REFERENCES

FIXTURES = REFERENCES / "architectures"


def with_hidden_states(encoder):
    """Returns a model of the hidden states and the sequence of an encoder, and of its pooled output if it has one."""
    encoded = encode(encoder, hidden_states=True)
    outputs = {"states": [*encoded.hidden_states, encoded.sequence]}
    return keras.Model(encoder.input, outputs if encoded.pooled is None else {**outputs, "pooled": encoded.pooled})


def run_architecture_test(name, fixture, heads=(), tolerance=1e-5):
    """Checks an architecture against a folder of its original: states, layer groups, both round trips and `.keras`.

    `run_encoder_test` checks its encoder with the sizes of this folder, so that a new encoder needs no other test.
    Files are checked on TensorFlow, and those of BERT, GPT-2 and XLNet on every backend.

    Args:
        name: String. The `model_type`.
        fixture: Path of a folder that `references/make_architectures.py` has made.
        heads: Tuple of names of the heads in its file, as the architecture's record calls them.
        tolerance: Float. The largest difference between our states and the original's.
    """
    record = architecture_of({"model_type": name}, name)
    theirs = load_file(fixture / "model.safetensors")
    theirs = {record.plain_name(key): value for key, value in theirs.items()}
    in_heads = {key for key in theirs if key.startswith(sum(record.head_prefixes.values(), ()))}
    outputs = dict(np.load(fixture / "outputs.npz"))

    # The encoder has the values of the original, and the report names the unused tensors.
    encoder = Encoder.from_pretrained(fixture)
    assert type(encoder) is record.encoder_class
    assert encoder.checkpoint_report.unused == sorted(in_heads - record.tied.keys())
    assert {head for head, start in record.head_prefixes.items() if any(key.startswith(start) for key in in_heads)} == {
        *heads
    }
    states, pooled, real = outputs.pop("states"), outputs.pop("pooled", None), outputs["padding_mask"] == 1
    sequence = outputs.pop("sequence", None)  # of an architecture with a final norm
    assert outputs.keys() == encoder.input.keys()
    ours = outputs_of(with_hidden_states(encoder), outputs)
    last = states[-1] if sequence is None else sequence
    for state, other in zip(ours["states"], [*states, last], strict=True):
        np.testing.assert_allclose(state[real], other[real], rtol=0, atol=tolerance)
    if pooled is not None:
        np.testing.assert_allclose(ours["pooled"], pooled, rtol=0, atol=tolerance)

    run_encoder_test(type(encoder), {**encoder.settings, "initializer_range": 0.3})
    groups = layer_groups(encoder)
    names = ["embeddings", *(f"block_{i}" for i in range(len({id(block) for block in encoder.blocks})))]
    names += [name for name, value in (("final_norm", sequence), ("pooler", pooled)) if value is not None]
    assert [group.name for group in groups] == names
    assert sum(len(group.variables) for group in groups) == len(encoder.weights)

    if keras.backend.backend() != "tensorflow" and name not in ("bert", "gpt2", "xlnet"):
        return

    # The saved file is bit-identical to the original and loads as the same encoder.
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary) / "saved"
        encoder.save_pretrained(folder)
        saved = load_file(folder / "model.safetensors")
        buffers = {key for key in theirs if any(re.search(pattern, key) for pattern in record.ignored)}
        assert saved.keys() == theirs.keys() - in_heads - buffers
        for key, value in saved.items():
            np.testing.assert_array_equal(value, theirs[key], err_msg=key)
        config, original = (json.loads((path / "config.json").read_text()) for path in (folder, fixture))
        shared = config.keys() & original.keys() - {"architectures"}
        assert {key: config[key] for key in shared} == {key: original[key] for key in shared}
        again = Encoder.from_pretrained(folder)
    assert {**again.get_config(), "name": encoder.name} == encoder.get_config()
    for weight, other in zip(again.weights, encoder.weights, strict=True):
        np.testing.assert_array_equal(to_numpy(weight), to_numpy(other))

    reloaded = save_and_load(encoder)
    assert reloaded.get_config() == encoder.get_config()
    np.testing.assert_array_equal(outputs_of(with_hidden_states(reloaded), outputs)["states"][-1], ours["states"][-1])
