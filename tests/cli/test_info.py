"""`keras-transfer info` describes a checkpoint without loading its weights."""

import json
import zipfile

import numpy as np
import pytest
from safetensors.numpy import load_file

import keras_transfer
from keras_transfer.checkpoints import CheckpointError
from keras_transfer.cli.info import describe
from keras_transfer.encoders import BertEncoder
from keras_transfer.tasks import TextClassifier
from keras_transfer.text import BertPreprocessor
from keras_transfer_command import main
from tests.checkpoints.test_heads import HEADS, copy
from tests.tasks.tiny import of_words


def rows_of(folder):
    lines = describe(folder)
    assert lines[0] == str(folder)
    return dict(line.strip().split("  ", 1) for line in lines[1:])


def test_heads_and_labels_are_named_with_the_task_that_loads_them():
    rows = {name: value.strip() for name, value in rows_of(HEADS / "bert_classifier").items()}
    assert rows["architecture"] == "bert, loaded as BertEncoder"
    assert rows["head classifier"] == "2 tensors, which tasks.TextClassifier loads"
    assert (rows["labels"], rows["num_layers"]) == ("['bad', 'fine', 'good']", "1")
    assert rows["not loaded"] == "nothing else"
    assert rows["tokenizer"].startswith("does not load: ") and "head tokens" not in rows
    total, encoder = (int(rows[name].split(" with ")[1].split()[0].replace(",", "")) for name in ("tensors", "encoder"))
    assert total - encoder == 3 * 8 + 3


def test_what_does_not_load_or_fit_is_listed(tmp_path):
    tensors = load_file(HEADS / "bert_masked_lm" / "model.safetensors")
    tensors |= {f"extra_{i:02}.weight": np.ones(2, "f4") for i in range(12)}
    folder = copy("bert_masked_lm", tmp_path / "copy", tensors)
    BertPreprocessor(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghij"], sequence_length=8).save(folder)
    rows = {name: value.strip() for name, value in rows_of(folder).items()}
    assert rows["head masked_lm"] == "5 tensors, which tasks.MaskedLM loads"
    assert rows["not loaded"] == ", ".join(f"extra_{i:02}.weight" for i in range(10)) + " and 2 more"
    assert rows["tokenizer"] == (
        "BertPreprocessor, 14 tokens, which do not fit the embedding of 12 rows, texts are truncated to 8 ids"
    )


def test_the_head_of_a_task_that_no_class_loads_is_not_supported(tmp_path):
    tensors = load_file(HEADS / "xlnet_classifier" / "model.safetensors")
    folder = copy("xlnet_classifier", tmp_path / "copy", {**tensors, "qa_outputs.bias": np.ones(2, "f4")})
    assert rows_of(folder)["head span"].strip() == "not supported"


def test_both_heads_of_a_whole_pretraining_load():
    rows = rows_of(HEADS / "bert_pretraining")
    assert rows["head masked_lm"].strip() == "5 tensors, which tasks.MaskedLM loads"
    assert rows["head pretraining"].strip() == "7 tensors, which tasks.BertPretraining loads"


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
    assert main(["info", str(tmp_path)]) == 1
    assert "is not supported" in capsys.readouterr().err


@pytest.fixture
def info(monkeypatch, capsys):
    """A function that runs `info` without TensorFlow and returns the rows that it prints as a dict."""

    def run(path):
        assert main(["info", str(path)]) == 0
        lines = capsys.readouterr().out.splitlines()
        return {name: value.strip() for name, value in (line.strip().split("  ", 1) for line in lines[1:])}

    return run


def test_a_model_file_and_the_folder_of_a_run_are_described_without_tensorflow(tmp_path, info):
    model = of_words(["a", "b"], label_names=[f"name {i}" for i in range(12)])
    model.save(tmp_path / "model.keras")
    rows = info(tmp_path / "model.keras")
    assert (rows["task"], rows["encoder"], rows["num_classes"]) == ("TextClassifier", "WordVectorEncoder", "12")
    assert rows["label_names"].endswith("'name 9', ... and 2 more]")
    (tmp_path / "run.json").write_text(json.dumps({"settings": {"recipe": "bert"}, "finished": True}))
    rows = info(tmp_path)
    assert rows["kind"].startswith("a finished run") and (rows["recipe"], rows["task"]) == ("bert", "TextClassifier")


def test_the_weights_of_a_model_are_counted_without_the_state_of_its_optimizer(tmp_path, info):
    model = TextClassifier(
        BertEncoder(11, num_layers=1, num_heads=2, hidden_dim=96, intermediate_dim=96), num_classes=2
    )
    model.save(tmp_path / "new.keras")
    weights = f"{4 * model.count_params() / 1e6:.1f} MB"
    rows = info(tmp_path / "new.keras")
    assert rows["weights"] == weights and "optimizer" not in rows
    model.compile("adam")
    model.optimizer.build(model.trainable_variables)
    model.save(tmp_path / "trained.keras")
    with zipfile.ZipFile(tmp_path / "trained.keras") as file, zipfile.ZipFile(tmp_path / "small.keras", "w") as small:
        for name in file.namelist():
            small.writestr(name, file.read(name), zipfile.ZIP_DEFLATED)
    for name in ("trained.keras", "small.keras"):  # as Keras has written it, and compressed
        rows = info(tmp_path / name)
        assert rows["weights"] == weights
        assert rows["optimizer"] == f"{8 * model.count_params() / 1e6:.1f} MB, with which `fit` continues"


def test_adapters_and_training_checkpoints_are_described_without_tensorflow(tmp_path, info):
    model = TextClassifier(BertEncoder(11, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16), num_classes=2)
    keras_transfer.adaptation.add_adapters(model, "lora:r=2", name="mine")
    keras_transfer.adaptation.save_adapters(model, tmp_path / "mine.safetensors")
    rows = info(tmp_path / "mine.safetensors")
    assert rows["kind"].startswith("adapters") and rows["name"] == "mine" and rows["adapters"].startswith("LoRA(")
    (tmp_path / "run").mkdir()
    for name in ("epoch-1-batch-7", "epoch-2-batch-3"):
        (tmp_path / "run" / f"{name}.safetensors").write_bytes(b"")
    assert info(tmp_path / "run")["count"] == "2 checkpoints, the newest after epoch 2, batch 3"


def test_an_exported_model_is_described_by_its_labels(tmp_path, info):
    (tmp_path / "assets.extra").mkdir()
    (tmp_path / "saved_model.pb").write_bytes(b"")
    (tmp_path / "assets.extra" / "labels.json").write_text('["bad", "good"]')
    assert info(tmp_path)["labels"] == "['bad', 'good']"


def test_a_folder_of_transformers_is_described_with_jax_if_it_is_installed(info, monkeypatch):
    pytest.importorskip("jax")
    monkeypatch.setenv("KERAS_BACKEND", "")  # so that what the command sets does not outlive the test
    monkeypatch.delenv("KERAS_BACKEND")
    assert info(HEADS / "bert_classifier")["head classifier"] == "2 tensors, which tasks.TextClassifier loads"


def test_a_damaged_file_is_an_error_of_one_line(tmp_path, monkeypatch, capsys):
    for name in ("a.keras", "a.safetensors", "run.json"):
        (tmp_path / name).write_bytes(b"no model at all")
    for path in (tmp_path / "a.keras", tmp_path / "a.safetensors", tmp_path):
        assert main(["info", str(path)]) == 1
        [line] = capsys.readouterr().err.splitlines()
        assert str(path) in line
