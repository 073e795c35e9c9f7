"""Settings of checkpoints: each has the meaning of the original, or is an error that names it."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from keras_transfer.checkpoints import CheckpointError
from keras_transfer.checkpoints.architecture import architecture_of
from keras_transfer.tasks import MaskedLM, MultipleChoice, TextClassifier, TokenClassifier
from tests.checkpoints.folders import CONFIG, IDS, write_bert
from tests.checkpoints.test_heads import HEADS, copy
from tests.helpers import outputs_of


def test_the_choices_of_electra_have_the_activation_of_the_configuration(tmp_path):
    folder = copy("electra_multiple_choice", tmp_path / "tanh", summary_activation="tanh")
    model = MultipleChoice.from_pretrained(folder, preprocessor=None)
    tensors = load_file(folder / "model.safetensors")
    first = outputs_of(model.encoder, IDS)["sequence_output"][:, 0]
    hidden, logits = (
        (tensors[f"{name}.weight"].T, tensors[f"{name}.bias"]) for name in ("sequence_summary.summary", "classifier")
    )
    expected = np.tanh(first @ hidden[0] + hidden[1]) @ logits[0] + logits[1]
    np.testing.assert_allclose(outputs_of(model, IDS), expected, rtol=0, atol=1e-5)
    assert model.hidden_activation == "tanh"


@pytest.mark.parametrize(
    ("cls", "name", "setting", "expected"),
    [
        (
            MultipleChoice,
            "electra_multiple_choice",
            {"summary_type": "last"},
            "`summary_type` must be one of ['first']",
        ),
        (MultipleChoice, "electra_multiple_choice", {"summary_use_proj": False}, "`summary_use_proj` must be True"),
        (TextClassifier, "xlnet_classifier", {"summary_use_proj": False}, "`summary_use_proj` must be True"),
        (MaskedLM, "modernbert_masked_lm", {"decoder_bias": False}, "`decoder_bias` must be True"),
        (TextClassifier, "modernbert_classifier", {"classifier_bias": True}, "`classifier_bias` must be False"),
    ],
)
def test_a_head_of_another_form_is_an_error_that_names_the_setting(cls, name, setting, expected, tmp_path):
    folder = copy(name, tmp_path / "copy", **setting)
    with pytest.raises(CheckpointError) as error:
        cls.from_pretrained(folder, preprocessor=None)
    [value] = setting.values()
    assert expected in str(error.value) and f"Received: {value!r}" in str(error.value)


def test_an_activation_that_is_null_is_not_the_default(tmp_path):
    folder = copy("electra_multiple_choice", tmp_path / "copy")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "summary_activation": None}))
    with pytest.raises(CheckpointError, match="`summary_activation` must be one of .*Received: None"):
        MultipleChoice.from_pretrained(folder, preprocessor=None)


@pytest.mark.parametrize(
    ("name", "setting", "expected"),
    [
        ("bert_classifier", {"hidden_dropout_prob": 0.3}, 0.3),
        ("roberta_classifier", {"hidden_dropout_prob": 0.3, "classifier_dropout": 0.2}, 0.2),
        ("deberta-v2_classifier", {"hidden_dropout_prob": 0.3}, 0.3),
        ("mpnet_classifier", {"hidden_dropout_prob": 0.3}, 0.3),
        ("albert_classifier", {"hidden_dropout_prob": 0.3, "classifier_dropout_prob": None}, 0.1),
        ("distilbert_classifier", {"dropout": 0.3, "seq_classif_dropout": None}, 0.2),
        ("bert_tokens", {"hidden_dropout_prob": 0.3}, 0.3),
        ("albert_tokens", {"hidden_dropout_prob": 0.3, "classifier_dropout_prob": None}, 0.1),
    ],
)
def test_a_head_without_its_own_dropout_rate_has_that_of_the_original(name, setting, expected, tmp_path):
    cls = TokenClassifier if name.endswith("tokens") else TextClassifier
    folder = copy(name, tmp_path / "copy", **{"classifier_dropout": None, **setting})
    assert cls.from_pretrained(folder, preprocessor=None).dropout == expected


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("deberta-v2_classifier", "relative_attention"),
        ("deberta-v2_classifier", "share_att_key"),
        ("roberta_classifier", "type_vocab_size"),
    ],
)
def test_a_missing_setting_means_what_the_original_assumes(name, key):
    config = json.loads((HEADS / name / "config.json").read_text())
    architecture_of(config, name).arguments(config, name)
    del config[key]
    with pytest.raises(CheckpointError, match=f"`{key}` must be .*Received: no {key}, for which the original assumes"):
        architecture_of(config, name).arguments(config, name)


@pytest.mark.core
@pytest.mark.parametrize(
    ("name", "value"), [("token_ids", -1), ("token_ids", CONFIG["vocab_size"]), ("segment_ids", -1)]
)
def test_prepared_ids_that_are_not_in_the_table_are_an_error(name, value, tmp_path):
    model = TextClassifier.from_pretrained(write_bert(tmp_path / "bert"), preprocessor=None, num_classes=2)
    inputs = {**IDS, name: np.where(IDS[name] == IDS[name][1, 1], value, IDS[name])}
    place = tuple(np.argwhere(inputs[name] == value)[0].tolist())
    with pytest.raises(
        ValueError, match=rf"`{name}` must be from 0 to \d+.*Received: {value} at position \({place[0]}, {place[1]}\)"
    ):
        model.predict(inputs)
