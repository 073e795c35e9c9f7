"""Each architecture against a small checkpoint of its original, and the mistakes of an `Architecture`."""

import dataclasses

import keras
import pytest

from keras_transfer.checkpoints import CheckpointError, register_architecture
from keras_transfer.checkpoints.architectures.bert import BERT
from keras_transfer.encoders import BertEncoder, Encoder
from tests.architecture import FIXTURES, run_architecture_test
from tests.checkpoints.folders import assert_same_outputs, bert_tensors, write_bert
from tests.errors import check_errors

SMALL = {"vocabulary_size": 12, "num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}


HEADS = {
    "albert": ("masked_lm", "pretraining"),
    "bert": ("masked_lm", "pretraining"),
    "deberta-v2": ("masked_lm",),
    "distilbert": ("masked_lm",),
    "electra": ("replaced_token",),
    "gpt2": ("causal_lm",),
    "modernbert": ("masked_lm", "classifier", "tokens", "multiple_choice", "span"),  # They share a layer.
    "mpnet": ("masked_lm",),
    "openai-gpt": ("causal_lm",),
    "roberta": ("masked_lm",),
    "xlm": ("masked_lm",),
    "xlnet": ("permutation_lm",),
}


# One of each kind of attention, positions and order of tokens.
CORE = ("bert", "deberta-v2", "gpt2", "modernbert", "mpnet", "xlnet")


@pytest.mark.parametrize(
    ("name", "heads"),
    [pytest.param(*case, marks=[pytest.mark.core] * (case[0] in CORE), id=case[0]) for case in HEADS.items()],
)
def test_an_architecture_agrees_with_its_original(name, heads):
    run_architecture_test(name, FIXTURES / name, heads)


def test_a_generator_of_electra_agrees_with_its_original():
    run_architecture_test("electra", FIXTURES / "electra_generator", ("masked_lm",))


def test_a_deberta_with_a_convolution_agrees_with_its_original():
    run_architecture_test("deberta-v2", FIXTURES / "deberta-v2_convolution", ("masked_lm",))


def test_a_sentence_transformers_folder_of_another_architecture_specifies_the_pooling(tmp_path):
    for name in ("gpt2", "xlnet"):
        encoder = Encoder.from_pretrained(FIXTURES / name, pooling="mean", normalize=True)
        encoder.save_pretrained(tmp_path / name)
        again = Encoder.from_pretrained(tmp_path / name)
        assert (type(again), again.pooling, again.normalize) == (type(encoder), "mean", True)


@keras.saving.register_keras_serializable("tests")
class ChildOfBert(BertEncoder):
    """A custom encoder without an architecture."""


@pytest.fixture
def child(monkeypatch):
    """The registered architecture of `ChildOfBert`, in one test."""
    monkeypatch.setattr("keras_transfer.checkpoints.architecture._architectures", {"bert": BERT})
    return register_architecture(dataclasses.replace(BERT, model_type="child", encoder_class=ChildOfBert))


def test_a_subclass_without_an_architecture_is_not_saved_as_its_parent(tmp_path):
    with pytest.raises(
        CheckpointError, match=r"subclass of BertEncoder needs its own `Architecture`.*Received: ChildOfBert"
    ):
        ChildOfBert(**SMALL).save_pretrained(tmp_path / "saved")
    assert list(tmp_path.iterdir()) == []


def test_a_subclass_with_an_architecture_is_saved_as_itself(child, tmp_path):
    encoder = ChildOfBert(**SMALL, attention_dropout=0.1)
    encoder.save_pretrained(tmp_path / "saved")
    again = Encoder.from_pretrained(tmp_path / "saved")
    assert type(again) is ChildOfBert
    assert_same_outputs(again, encoder)


test_an_architecture_is_registered_once = check_errors(
    (lambda: register_architecture(BERT), "already registered for this `model_type`. Received: model_type=['bert']"),
    (
        lambda child: register_architecture(dataclasses.replace(child, model_type="another")),
        "already registered for this encoder. Received: encoder_class='ChildOfBert'",
    ),
)


def test_weights_that_the_table_leaves_out_are_an_error(tmp_path):
    table = {path: name for path, name in BERT.tensors.items() if path != "pooler"}
    encoder = BertEncoder(**SMALL, name="encoder")
    with pytest.raises(
        CheckpointError, match=r"a tensor for every weight of BertEncoder. Received: no tensors for \['pooler/kernel'"
    ):
        dataclasses.replace(BERT, tensors=table).entries(encoder)


def test_only_a_table_of_a_head_that_differs_from_the_token_embeddings_is_reported(tmp_path):
    tensors = bert_tensors()
    name = "cls.predictions.decoder.weight"
    for folder, table in (
        ("tied", tensors["embeddings.word_embeddings.weight"]),
        ("own", tensors["pooler.dense.weight"]),
    ):
        encoder = BertEncoder.from_pretrained(write_bert(tmp_path / folder, {**tensors, name: table.copy()}))
        assert encoder.checkpoint_report.unused == ([] if folder == "tied" else [name])
