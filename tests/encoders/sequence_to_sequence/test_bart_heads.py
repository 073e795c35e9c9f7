"""BART over a single text: the heads that read its decoder, against small checkpoints of the original."""

import json
import re

import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy
from safetensors.numpy import load_file

from keras_transfer.adaptation import layer_groups
from keras_transfer.checkpoints import CheckpointError
from keras_transfer.cli.info import describe
from keras_transfer.encoders import Bart, BartSingleText, Encoder
from keras_transfer.tasks import Seq2SeqLM, SpanExtractor, TextClassifier
from tests.helpers import save_and_load
from tests.samples import REFERENCES

FOLDER = REFERENCES / "sequence_to_sequence"
TASKS = {"bart_classifier": TextClassifier, "bart_span": SpanExtractor}


@pytest.fixture(scope="module", params=TASKS)
def loaded(request):
    """The name of a fixture, its task, and what the original computes."""
    task = TASKS[request.param].from_pretrained(FOLDER / request.param, preprocessor=None)
    return request.param, task, dict(np.load(FOLDER / request.param / "outputs.npz"))


def logits(task, inputs):
    inputs = {name: inputs[name] for name in ("token_ids", "padding_mask")}
    more = {"answer_mask": inputs["padding_mask"]} if isinstance(task, SpanExtractor) else {}
    return to_numpy(task({**inputs, **more}))


def test_logits_are_as_exact_as_those_of_the_original(loaded):
    name, task, expected = loaded
    assert type(task.encoder) is BartSingleText and task.encoder.checkpoint_report.unused == []
    real = expected["padding_mask"][:, None] if name == "bart_span" else 1
    difference = np.abs((logits(task, expected) - expected["logits"]) * real).max()
    assert difference <= max(1e-5, 2 * expected["error"]), (difference, expected["error"])


def test_saved_files_are_bit_identical(loaded, tmp_path):
    name, task, expected = loaded
    task.save_pretrained(tmp_path / "saved")
    saved, theirs = (load_file(folder / "model.safetensors") for folder in (tmp_path / "saved", FOLDER / name))
    assert saved.keys() == theirs.keys() and all((saved[key] == theirs[key]).all() for key in theirs)
    ours, before = (json.loads((folder / "config.json").read_text()) for folder in (tmp_path / "saved", FOLDER / name))
    for key in ("architectures", "id2label", "eos_token_id", "decoder_start_token_id", "classifier_dropout"):
        assert ours.get(key) == before.get(key) or (name, key) == ("bart_span", "id2label"), key
    again = TASKS[name].from_pretrained(tmp_path / "saved", preprocessor=None)
    np.testing.assert_array_equal(logits(again, expected), logits(task, expected))


def test_the_folder_of_a_head_has_both_encoders():
    folder = FOLDER / "bart_classifier"
    assert TextClassifier.from_pretrained(folder, preprocessor=None).label_names == ["no", "maybe", "yes"]
    assert type(Encoder.from_pretrained(folder)) is BartSingleText
    assert type(Bart.from_pretrained(folder)) is Bart
    task = Seq2SeqLM.from_pretrained(folder, preprocessor=None, head="new")
    assert type(task.encoder) is Bart
    assert type(Encoder.from_pretrained(FOLDER / "bart")) is Bart
    for arguments in ({"num_classes": 2}, {"num_classes": 2, "head": "new"}):
        task = TextClassifier.from_pretrained(FOLDER / "bart", preprocessor=None, **arguments)
        assert type(task.encoder) is BartSingleText and task.num_classes == 2
    with pytest.raises(CheckpointError, match="has no head for a SpanExtractor"):
        SpanExtractor.from_pretrained(FOLDER / "bart", preprocessor=None)


def test_the_command_describes_the_heads():
    for name, rows in {
        "bart_classifier": ("loaded as BartSingleText", "head classifier +4 tensors, which tasks.TextClassifier loads"),
        "bart": ("loaded as Bart$", "head seq2seq +1 tensors, which tasks.Seq2SeqLM loads"),
        "t5_gated": ("loaded as T5$", "head seq2seq +1 tensors", "not loaded +nothing else"),
    }.items():
        text = "\n".join(describe(FOLDER / name))
        assert all(re.search(row, text, re.MULTILINE) for row in rows), text


def test_the_decoder_reads_the_text_after_the_start_token():
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16, "max_sequence_length": 8}
    single, both = BartSingleText(20, **sizes, start_token=5), Bart(20, **sizes)
    both.set_weights(single.get_weights())
    inputs = {"token_ids": np.array([[6, 7, 8, 2]]), "padding_mask": np.ones((1, 4), "int32")}
    moved = {"decoder_token_ids": np.array([[5, 6, 7, 8]]), "decoder_padding_mask": np.ones((1, 4), "int32")}
    expected = to_numpy(both({**inputs, **moved})["decoder_sequence_output"])
    np.testing.assert_allclose(to_numpy(single(inputs)["sequence_output"]), expected, atol=1e-6)
    again = save_and_load(single)
    assert again.get_config() == single.get_config() and again.start_token == 5
    assert [group.name for group in layer_groups(single)] == [group.name for group in layer_groups(both)]
    with pytest.raises(ValueError, match="must be an `EncoderDecoder`"):
        Seq2SeqLM(single)
