"""`keras-transfer info` describes a checkpoint without loading its weights."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from keras_transfer.checkpoints import CheckpointError
from keras_transfer.cli import command
from keras_transfer.cli.info import describe
from keras_transfer.text import BertPreprocessor
from tests.checkpoints.test_heads import HEADS, copy


def rows_of(folder):
    lines = describe(folder)
    assert lines[0] == str(folder)
    return dict(line.strip().split("  ", 1) for line in lines[1:])


def test_heads_and_labels_are_named_with_the_task_that_loads_them():
    rows = {name: value.strip() for name, value in rows_of(HEADS / "bert_classifier").items()}
    assert rows["architecture"] == "bert, loaded as BertEncoder"
    assert rows["head classifier"] == "2 tensors, which tasks.TextClassifier loads"
    assert (rows["labels"], rows["num_layers"], rows["not loaded"]) == ("bad, fine, good", "1", "nothing else")
    assert rows["tokenizer"].startswith("does not load: ") and "head tokens" not in rows
    total, encoder = (int(rows[name].split(" with ")[1].split()[0].replace(",", "")) for name in ("tensors", "encoder"))
    assert total - encoder == 3 * 8 + 3


def test_what_does_not_load_or_fit_is_listed(tmp_path):
    tensors = load_file(HEADS / "bert_masked_lm" / "model.safetensors")
    tensors |= {f"extra_{i:02}.weight": np.ones(2, "f4") for i in range(12)}
    tensors |= {"cls.seq_relationship.weight": np.ones((2, 8), "f4")}
    folder = copy("bert_masked_lm", tmp_path / "copy", tensors)
    BertPreprocessor(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghij"], sequence_length=8).save(folder)
    rows = {name: value.strip() for name, value in rows_of(folder).items()}
    assert rows["head masked_lm"] == "5 tensors, which tasks.MaskedLM loads"
    assert rows["head next_sentence"] == "not supported"
    assert rows["not loaded"] == ", ".join(f"extra_{i:02}.weight" for i in range(10)) + " and 2 more"
    assert rows["tokenizer"] == (
        "BertPreprocessor, 14 tokens, which do not fit the embedding of 12 rows, texts are truncated to 8 ids"
    )


def test_a_folder_that_is_not_a_checkpoint_is_an_error(tmp_path, capsys):
    with pytest.raises(CheckpointError, match="describes Hugging Face folders"):
        describe(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"registered_name": "keras_hub>BertBackbone"}))
    with pytest.raises(CheckpointError, match="describes Hugging Face folders"):
        describe(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(CheckpointError, match="must contain model.safetensors or its shards.*Received: config.json"):
        describe(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "unknown"}))
    assert command.main(["info", str(tmp_path)]) == 1
    assert "is not supported" in capsys.readouterr().err
