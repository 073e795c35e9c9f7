"""Folders of architectures that only KerasHub converts (references/make_keras_hub.py)."""

import json
import shutil
import sys

import numpy as np
import pytest

from keras_transfer.checkpoints import CheckpointError, load_preprocessor
from keras_transfer.cli.info import describe
from keras_transfer.encoders import BertEncoder, Encoder
from keras_transfer.tasks import TextClassifier
from keras_transfer.text import Packing, SentencePieceBPETokenizer, TokenPreprocessor
from tests.checkpoints.presets import keras_hub
from tests.samples import REFERENCES

LLAMA = REFERENCES / "keras_hub" / "llama"
VOCABULARY = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581", *"film", "\u2581f", "il"]


@pytest.fixture
def folder(tmp_path):
    """A Llama with a tokenizer."""
    shutil.copytree(LLAMA, tmp_path / "llama")
    tokenizer = SentencePieceBPETokenizer(VOCABULARY, [("\u2581", "f"), ("i", "l")], eos_token="</s>")
    TokenPreprocessor(tokenizer, Packing(["<s>"], ["<s>"], [], "</s>"), 16).save(tmp_path / "llama")
    return tmp_path / "llama"


def test_the_outputs_are_those_of_transformers():
    encoder = Encoder.from_pretrained(LLAMA)
    assert isinstance(encoder, keras_hub.models.Llama3Backbone)
    outputs = np.load(LLAMA / "outputs.npz")
    found = np.array(encoder({name: outputs[name] for name in ("token_ids", "padding_mask")}))
    real = outputs["padding_mask"] == 1
    np.testing.assert_allclose(found[real], outputs["sequence"][real], atol=1e-4)


def test_a_task_has_the_exact_tokenizer_of_the_folder(folder):
    model = TextClassifier.from_pretrained(folder, num_classes=2, sequence_length=8)
    assert model.preprocessor.tokenize(["film"]).to_list() == [[264, 265, 263]]
    assert np.asarray(model(["film", "a film \u00e9"])).shape == (2, 2)


def test_info_says_that_keras_hub_loads_it(folder):
    rows = dict(line.strip().split("  ", 1) for line in describe(folder)[1:])
    rows = {name: value.strip() for name, value in rows.items()}
    assert rows["architecture"] == "llama, loaded by KerasHub without its heads"
    assert rows["tokenizer"].startswith(f"TokenPreprocessor, {len(VOCABULARY)} tokens, texts")


@pytest.mark.parametrize(
    "kind, settings, received",
    [
        ("llama", {"rope_parameters": {"rope_type": "llama3", "factor": 8.0}}, "'rope_type': 'llama3'"),
        ("qwen2", {"rope_scaling": {"type": "yarn", "factor": 4.0}}, "'rope_type': 'yarn'"),
        ("gemma2", {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}, "'rope_theta': 500000.0"),
        ("mixtral", {"hidden_act": "gelu"}, "'hidden_act': 'gelu'"),
        ("qwen3", {"attention_bias": True}, "'attention_bias': True"),
        ("gemma2", {"head_dim": 8, "query_pre_attn_scalar": 5}, "'query_pre_attn_scalar': 5"),
        ("gemma3_text", {"head_dim": 8}, "'query_pre_attn_scalar': 256"),
        ("gemma3_text", {"attn_logit_softcapping": 30.0}, "'attn_logit_softcapping': 30.0"),
        ("gemma2", {"hidden_activation": "relu"}, "'hidden_activation': 'relu'"),
        ("gemma3_text", {"hidden_activation": "gelu"}, "'hidden_activation': 'gelu'"),
        ("gemma2", {"num_hidden_layers": 2, "layer_types": ["full_attention"] * 2}, "'layer_types': .'full_attention'"),
        ("gemma3_text", {"rope_local_base_freq": 100.0}, "'sliding_attention.rope_theta': 100.0"),
        (
            "gemma3_text",
            {"rope_parameters": {"full_attention": {"rope_type": "dynamic", "rope_theta": 1e4}}},
            "'full_attention.rope_theta': 10000.0, 'full_attention.rope_type': 'dynamic'",
        ),
        ("smollm3", {"attention_bias": True, "mlp_bias": True}, "'attention_bias': True, 'mlp_bias': True"),
        ("smollm3", {"layer_types": ["full_attention", "sliding_attention"]}, "'use_sliding_window': True"),
        ("qwen2", {"use_sliding_window": True, "sliding_window": 3}, "'use_sliding_window': True"),
        ("qwen3", {"use_sliding_window": True, "sliding_window": 3}, "'max_window_layers': 28"),
        ("llama", {"hidden_size": 8, "num_attention_heads": 2, "head_dim": 8}, "'head_dim': 8"),
        ("mixtral", {"tie_word_embeddings": True}, "'tie_word_embeddings': True"),
    ],
)
def test_a_setting_that_keras_hub_ignores_is_an_error(kind, settings, received, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind, **settings}))
    with pytest.raises(CheckpointError, match=f"KerasHub ignores settings of .*Received: .*{received}"):
        Encoder.from_pretrained(tmp_path)


def test_what_cannot_be_converted_is_an_error_that_names_what_can(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    with pytest.raises(CheckpointError, match="KerasHub converts only safetensors. .*Received: .'config.json'."):
        Encoder.from_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match="must contain tokenizer.json"):
        load_preprocessor(tmp_path)
    with pytest.raises(CheckpointError, match="is for KerasHub.* Received: BertEncoder.from_pretrained"):
        BertEncoder.from_pretrained(LLAMA)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gemma", "rms_norm_eps": 1e-5}))
    with pytest.raises(CheckpointError, match="needs `rms_norm_eps` to be 1e-06, .*Received: rms_norm_eps=1e-05"):
        Encoder.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen3", "rms_norm_eps": 1e-6}))
    with pytest.raises(CheckpointError, match="qwen3 needs `rms_norm_eps` to be 1e-05, .*Received: rms_norm_eps=1e-06"):
        Encoder.from_pretrained(tmp_path)
    monkeypatch.setitem(sys.modules, "keras_hub", None)
    with pytest.raises(CheckpointError, match="requires KerasHub: `pip install keras-hub`"):
        Encoder.from_pretrained(LLAMA)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "longformer"}))
    with pytest.raises(
        CheckpointError, match=r"is not supported. .*'llama'.*, which KerasHub converts. Received: 'longformer'"
    ):
        Encoder.from_pretrained(tmp_path)
