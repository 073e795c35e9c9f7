"""Names of other libraries' arguments: an error that says what to pass instead, before weights are loaded."""

import numpy as np
import pytest

from keras_transfer import adaptation, checkpoints, encoders, tasks
from keras_transfer.adaptation.adapters.base import get_adapters
from keras_transfer.names import check_one_of
from tests.checkpoints.folders import write_config

SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}


def assert_hint(function, *parts):
    with pytest.raises((TypeError, ValueError)) as error:
        function()
    for part in parts:
        assert part in str(error.value)


@pytest.fixture
def folder(tmp_path):
    """A folder without weights: reading them would be another error."""
    return write_config(tmp_path / "bert")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("num_labels", "Pass `num_classes=...`, or `label_names=[...]`"),
        ("id2label", "Pass `label_names=[...]`"),
        ("max_length", "Pass `sequence_length=...`"),
        ("max_seq_length", "Pass `sequence_length=...`"),
        ("num_clases", "Did you mean 'num_classes'?"),
    ],
)
def test_from_pretrained_refuses_an_unknown_argument_before_it_loads_weights(name, hint, folder):
    assert_hint(
        lambda: tasks.TextClassifier.from_pretrained(folder, **{name: 3}),
        f"`TextClassifier.from_pretrained` has no argument `{name}`. {hint}",
        f"Received: {name}=3",
    )


@pytest.mark.parametrize(
    ("name", "hint"), [("hidden_dropout_prob", "`dropout=...` to an encoder"), ("drop_out", "Did you mean 'dropout'?")]
)
def test_the_encoder_refuses_an_unknown_argument_before_it_loads_weights(name, hint, folder):
    for function in (encoders.Encoder.from_pretrained, encoders.BertEncoder.from_pretrained):
        assert_hint(lambda function=function: function(folder, **{name: 0.0}), f"no argument `{name}`", hint)
    assert_hint(
        lambda: tasks.MaskedLM.from_pretrained(folder, head="new", preprocessor=None, encoder={name: 0.0}), name, hint
    )


def test_constructors_explain_the_names_of_other_libraries():
    encoder = encoders.BertEncoder(12, **SIZES)
    assert_hint(
        lambda: tasks.TextClassifier(encoder, num_labels=2), "`TextClassifier` has no argument `num_labels`. Pass"
    )
    assert_hint(
        lambda: tasks.TextClassifier(encoder, labels=["a", "b"]), "no argument `labels`", "Pass `label_names=sorted("
    )
    assert_hint(lambda: encoders.BertEncoder(12, **SIZES, hidden_act="gelu"), "`hidden_act`. Pass `activation=...`")
    assert_hint(lambda: adaptation.LoRA(lora_alpha=16), "`LoRA` has no argument `lora_alpha`. Pass `alpha=...`")
    assert_hint(lambda: get_adapters("lora:lora_alpha=16"), "Unknown argument of 'lora'. Pass `alpha=...`")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("min_length", "Pass `min_new_tokens=...`, which does not count the tokens of the prompt"),
        ("temperature", "generation.TopP(0.9, temperature=0.7)"),
        ("eos_token_id", "Pass `end_token=...`"),
        ("batchsize", "Did you mean 'batch_size'?"),
    ],
)
def test_generate_explains_the_names_of_transformers(name, hint):
    model = tasks.CausalLM(
        encoders.TransformerEncoder(12, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16, causal=True)
    )
    assert_hint(lambda: model.generate([[3]], **{name: 4}), f"`CausalLM.generate` has no argument `{name}`.", hint)


def test_the_length_of_a_preprocessor_has_one_name(folder):
    assert_hint(lambda: checkpoints.load_preprocessor(folder, max_length=8), "Pass `sequence_length=...`")


def test_a_value_that_is_not_one_of_those_that_are_known_is_an_error_with_the_closest_one():
    check_one_of("pooling", None, (None, "mean"))
    check_one_of("pooling", np.str_("mean"), (None, "mean"))
    message = "`pooling`. Expected one of (None, 'mean', 'max'). Did you mean 'mean'? Received: pooling='meen'"
    assert_hint(lambda: check_one_of("pooling", "meen", (None, "mean", "max")), message)
    assert_hint(lambda: check_one_of("pooling", True, ("mean",)), "Received: pooling=True")
