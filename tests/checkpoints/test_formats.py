"""The supported formats of weights, the tensors that are left out, and the report of them."""

import json
import logging
import re

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from keras_transfer.checkpoints import CheckpointError, load_preprocessor
from keras_transfer.encoders import BertEncoder, Encoder
from tests.checkpoints.folders import assert_same_outputs, bert_tensors, outputs_of, write_bert, write_config


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The encoder with the same weights in the plainest format."""
    return BertEncoder.from_pretrained(write_bert(tmp_path_factory.mktemp("plain") / "bert"))


def test_the_plainest_folder_loads_without_a_remark(plain, caplog, tmp_path):
    with caplog.at_level(logging.INFO, "keras_transfer"):
        encoder = Encoder.from_pretrained(write_bert(tmp_path / "bert"))
    assert type(encoder) is BertEncoder
    report = encoder.checkpoint_report
    assert (report.loaded, report.unused, report.remarks) == (39, [], [])
    assert caplog.text == ""
    assert_same_outputs(encoder, plain)


def test_tensors_are_assigned_by_their_names(plain):
    tensors = bert_tensors()
    kernel = plain.blocks[1].attention.query_key_value.kernel.numpy()
    for i, part in enumerate(("query", "key", "value")):
        expected = tensors[f"encoder.layer.1.attention.self.{part}.weight"].T
        np.testing.assert_array_equal(kernel[:, 8 * i : 8 * (i + 1)], expected)
    np.testing.assert_array_equal(plain.pooler.kernel, tensors["pooler.dense.weight"].T)


def test_shards_are_put_together(plain, tmp_path):
    tensors, index = bert_tensors(), {}
    names = sorted(tensors)
    for i, part in enumerate((names[:15], names[15:])):
        file = f"model-{i + 1:05}-of-00002.safetensors"
        write_config(tmp_path)
        save_file({name: tensors[name] for name in part}, tmp_path / file)
        index |= dict.fromkeys(part, file)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    assert_same_outputs(BertEncoder.from_pretrained(tmp_path), plain)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.report(
    "Weights stored in half precision break a part of the model.",
    "sentence-transformers#3528",
    "sentence-transformers#3524",
)
def test_half_precision_files_give_float32_weights_of_the_same_values(dtype, tmp_path):
    halves = {name: value.astype(dtype) for name, value in bert_tensors().items()}
    encoder = BertEncoder.from_pretrained(write_bert(tmp_path / "half", halves))
    expected = BertEncoder.from_pretrained(
        write_bert(tmp_path / "full", {name: value.astype("float32") for name, value in halves.items()})
    )
    assert {weight.dtype for weight in encoder.weights} == {"float32"}
    assert_same_outputs(encoder, expected)


def test_gamma_and_beta_are_the_weight_and_bias_of_a_norm(plain, tmp_path):
    def old_name(name):
        return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")

    tensors = {old_name(name): value for name, value in bert_tensors().items()}
    assert_same_outputs(BertEncoder.from_pretrained(write_bert(tmp_path / "old", tensors)), plain)


def test_pretraining_heads_are_left_out_reported_and_logged(plain, caplog, tmp_path):
    tensors = {f"bert.{name}": value for name, value in bert_tensors().items()}
    tensors |= {
        "cls.predictions.bias": np.zeros(12, "float32"),
        "cls.seq_relationship.weight": np.zeros((2, 8), "float32"),
        "bert.embeddings.position_ids": np.arange(10)[None],
    }
    folder = write_bert(tmp_path / "heads", tensors)
    with caplog.at_level(logging.INFO, "keras_transfer"):
        for _ in range(2):
            encoder = BertEncoder.from_pretrained(folder)
    assert encoder.checkpoint_report.unused == ["cls.predictions.bias", "cls.seq_relationship.weight"]
    expected = f"{folder}: 39 tensors loaded; not used: cls.predictions.bias, cls.seq_relationship.weight"
    assert str(encoder.checkpoint_report) == expected
    # This is normal, so it is said once, in one short line that is not shown by default.
    [record] = [each for each in caplog.records if each.name == "keras_transfer"]
    assert record.levelname == "INFO" and len(record.message) < len(str(folder)) + 80
    assert record.message == f"{folder}: the layers of other heads are not used (cls.predictions and 1 more)"
    assert_same_outputs(encoder, plain)


def test_a_file_without_a_pooler_gives_an_encoder_without_one_and_says_so(plain, caplog, tmp_path):
    folder = write_bert(tmp_path / "bert", bert_tensors(pooler=False))
    with caplog.at_level(logging.INFO, "keras_transfer"):
        encoder = BertEncoder.from_pretrained(folder)
    assert encoder.pooler is None
    assert encoder.checkpoint_report.remarks == ["it has no pooler, so the encoder has none"]
    assert "it has no pooler" in caplog.text
    np.testing.assert_array_equal(outputs_of(encoder)["sequence_output"], outputs_of(plain)["sequence_output"])


def test_a_requested_pooler_that_is_missing_is_an_error(tmp_path):
    folder = write_bert(tmp_path / "bert", bert_tensors(pooler=False))
    with pytest.raises(CheckpointError, match=r"missing: pooler.dense.weight \(8, 8\)"):
        BertEncoder.from_pretrained(folder, pooler=True)


def test_an_unused_pooler_is_reported(tmp_path):
    encoder = BertEncoder.from_pretrained(write_bert(tmp_path / "bert"), pooler=False)
    assert encoder.checkpoint_report.unused == ["pooler.dense.bias", "pooler.dense.weight"]
    assert "pooled_output" not in encoder.output


def test_overrides_replace_the_configuration(plain, tmp_path):
    folder = write_bert(tmp_path / "bert", hidden_dropout_prob=0.4)
    encoder = BertEncoder.from_pretrained(folder, dropout=0.0, attention_dropout=0.0, name="mine")
    assert (encoder.dropout, encoder.attention_dropout, encoder.name) == (0.0, 0.0, "mine")
    assert BertEncoder.from_pretrained(folder).dropout == 0.4
    assert_same_outputs(encoder, plain)


def test_a_dtype_can_be_requested(plain, tmp_path):
    encoder = BertEncoder.from_pretrained(write_bert(tmp_path / "bert"), dtype="bfloat16")
    assert {weight.dtype for weight in encoder.weights} == {"bfloat16"}
    ours = outputs_of(encoder)["pooled_output"].astype("float32")
    np.testing.assert_allclose(ours, outputs_of(plain)["pooled_output"], atol=0.1)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [("gelu", "gelu"), ("gelu_new", "gelu_tanh"), ("gelu_pytorch_tanh", "gelu_tanh"), ("relu", "relu")],
)
def test_the_activation_comes_from_the_configuration(theirs, ours, tmp_path):
    assert BertEncoder.from_pretrained(write_bert(tmp_path / "bert", hidden_act=theirs)).activation == ours


def test_an_old_configuration_without_a_model_type_is_recognized_by_its_architecture(tmp_path):
    folder = write_bert(tmp_path / "bert", model_type=None, architectures=["BertForMaskedLM"])
    assert BertEncoder.from_pretrained(folder).num_layers == 2


def write_modules(folder, kinds, pooling):
    modules = [
        {"idx": i, "path": "" if i == 0 else f"{i}_{kind}", "type": f"sentence_transformers.models.{kind}"}
        for i, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return folder


@pytest.mark.parametrize(
    ("pooling", "ours"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "first"),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": False}, "mean"),
        ({"pooling_mode_max_tokens": True}, "max"),
        ({"pooling_mode": "cls"}, "first"),
        ({"pooling_mode_lasttoken": True}, "last"),
        ({"pooling_mode_weightedmean_tokens": True}, "weighted_mean"),
        ({"pooling_mode": "mean_sqrt_len_tokens"}, "mean_sqrt"),
        ({"pooling_mode": ["max"]}, "max"),
        ({"word_embedding_dimension": 8}, "mean"),
    ],
)
def test_the_pooling_of_a_sentence_transformers_folder_is_read(pooling, ours, tmp_path):
    kinds = ["Transformer", "Pooling", "Normalize"]
    encoder = BertEncoder.from_pretrained(write_modules(write_bert(tmp_path / "bert"), kinds, pooling))
    assert (encoder.pooling, encoder.normalize) == (ours, True)
    assert encoder.checkpoint_report.remarks == []


@pytest.mark.parametrize(
    ("kinds", "pooling", "remark"),
    [
        (
            ["Transformer", "Pooling", "CNN"],
            {"pooling_mode_mean_tokens": True},
            "its modules .*'CNN'.* are not supported",
        ),
        (["Transformer", "Pooling"], {"pooling_mode_other_tokens": True}, "its pooling .*other_tokens"),
        (
            ["Transformer", "Pooling"],
            {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True},
            "its pooling .*max_tokens.* is not supported",
        ),
    ],
)
def test_an_unsupported_sentence_transformer_is_reported(kinds, pooling, remark, tmp_path):
    encoder = BertEncoder.from_pretrained(write_modules(write_bert(tmp_path / "bert"), kinds, pooling))
    assert (encoder.pooling, encoder.normalize) == (None, False)
    assert re.search(remark, "; ".join(encoder.checkpoint_report.remarks))


@pytest.mark.parity
def test_a_torch_pickle_gives_the_same_weights(plain, tmp_path):
    torch = pytest.importorskip("torch", reason="pytorch_model.bin is read with torch")
    write_config(tmp_path)
    tensors = {name: torch.tensor(value) for name, value in bert_tensors().items()}
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    assert_same_outputs(BertEncoder.from_pretrained(tmp_path), plain)


def test_the_vocabulary_of_an_old_sentence_transformers_folder_is_found_beside_the_weights(tmp_path):
    write_bert(tmp_path / "0_Transformer")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "who"]
    (tmp_path / "0_Transformer" / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    modules = [{"path": "0_Transformer", "type": "x.Transformer"}, {"path": "1_Pooling", "type": "x.Pooling"}]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text('{"pooling_mode_max_tokens": true}')
    assert load_preprocessor(tmp_path).vocabulary == vocabulary
    encoder = BertEncoder.from_pretrained(tmp_path)
    assert (encoder.pooling, encoder.normalize) == ("max", False)
