"""Sources, lengths and tasks that `from_pretrained` cannot use are errors whose advice works."""

import pathlib

import pytest

from keras_transfer.checkpoints import CheckpointError
from keras_transfer.encoders import Encoder, GPT2Encoder
from keras_transfer.tasks import (
    CausalLM,
    DialogueModel,
    MaskedLM,
    ReplacedTokenDetection,
    TextClassifier,
    TextRegressor,
)
from tests.tasks.tiny import VOCABULARY


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    """A folder with a small GPT-2 without a tokenizer."""
    folder = tmp_path_factory.mktemp("checkpoints") / "gpt2"
    GPT2Encoder(len(VOCABULARY), num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16).save_pretrained(folder)
    return folder


# === Heads ===


def test_a_regressor_from_an_encoder_has_one_target_unless_the_user_passes_another_number(small_minilm):
    model = TextRegressor.from_pretrained(small_minilm)
    assert model.num_targets == 1 and model.output.shape == (None, 1)
    assert TextRegressor.from_pretrained(small_minilm, num_targets=2).num_targets == 2


@pytest.mark.parametrize(("task", "head"), [(MaskedLM, None), (ReplacedTokenDetection, "new")])
def test_hidden_tokens_need_an_encoder_that_reads_both_sides(task, head, gpt2):
    with pytest.raises(ValueError, match="tokens on both sides.* Use a `CausalLM`. Received: GPT2Encoder"):
        task.from_pretrained(gpt2, head=head, preprocessor=None)


@pytest.mark.parametrize(("task", "head"), [(CausalLM, None), (DialogueModel, "new")])
def test_a_new_head_is_only_advised_where_it_is_possible(task, head, small_minilm):
    with pytest.raises(ValueError, match="see only earlier ones.* Use a `MaskedLM`.* Received: BertEncoder"):
        task.from_pretrained(small_minilm, head=head)


def test_a_dialogue_model_of_a_checkpoint_says_that_it_needs_speakers(gpt2):
    with pytest.raises(ValueError, match="must have `speakers`"):
        DialogueModel.from_pretrained(gpt2, preprocessor=None)


# === Lengths ===


@pytest.mark.parametrize("length", [1, "64"])
def test_an_impossible_length_is_an_error_about_the_length_and_not_about_the_tokenizer(length, small_minilm):
    with pytest.raises(ValueError, match="^`sequence_length` must be an integer of at least [13].") as error:
        TextClassifier.from_pretrained(small_minilm, num_classes=2, sequence_length=length)
    assert not isinstance(error.value, CheckpointError)


# === Sources ===


@pytest.mark.parametrize("kind", [str, pathlib.Path])
def test_a_keras_file_is_no_checkpoint_and_the_error_says_how_it_is_loaded(kind, tmp_path):
    (tmp_path / "model.keras").write_bytes(b"")
    for load in (Encoder.from_pretrained, TextClassifier.from_pretrained):
        with pytest.raises(CheckpointError, match=r"`keras.saving.load_model\(path\)`.* Received: '.*model.keras'$"):
            load(kind(tmp_path / "model.keras"))
        with pytest.raises(CheckpointError, match="Received: '.*other.keras', which does not exist"):
            load(kind(tmp_path / "other.keras"))


@pytest.mark.parametrize(
    ("source", "advice"),
    [
        ("hf://owner/name", "Pass the name as a string: 'hf://owner/name'. Received: 'hf:/owner/name'"),
        ("keras_hub://preset", "Pass the name as a string: 'keras_hub://preset'"),
        ("minilm-l7", "Did you mean 'minilm-l6'"),
        (__file__, "This path is not a folder. Received: '/"),
        ("/nothing/here", "There is no such folder. Received: '/nothing/here"),
        ("owner/name", "There is no such folder. Did you mean 'hf://owner/name'"),
    ],
)
def test_a_path_that_is_no_folder_is_an_error_with_advice(source, advice):
    with pytest.raises(CheckpointError, match=advice):
        Encoder.from_pretrained(pathlib.Path(source))


def test_a_path_may_be_a_folder_or_the_name_of_a_packaged_encoder(small_minilm, tmp_path):
    Encoder.from_pretrained(small_minilm).save_pretrained(tmp_path / "saved")
    assert Encoder.from_pretrained(tmp_path / "saved").num_layers == 1
    assert Encoder.from_pretrained(pathlib.Path(small_minilm)).num_layers == 1
