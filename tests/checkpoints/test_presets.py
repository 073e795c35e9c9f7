"""KerasHub presets load as the backbone and the preprocessor that were saved, or are one clear `CheckpointError`."""

import json
import pathlib
import shutil
import sys

import numpy as np
import pytest

from keras_transfer.checkpoints import CheckpointError, load, load_preprocessor, resolve
from keras_transfer.encoders import BertEncoder, Encoder
from keras_transfer.text import BertPreprocessor
from tests.checkpoints import presets
from tests.checkpoints.folders import bert_tensors, write_bert
from tests.checkpoints.presets import keras_hub

FAMILIES = {"BERT": presets.bert, "DistilBERT": presets.distil_bert, "RoBERTa": presets.roberta}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Function from a family's name to its `(folder, backbone, preprocessor)`, each written once."""
    made = {}

    def find(name="BERT"):
        if name not in made:
            backbone, preprocessor = FAMILIES[name]()
            folder = presets.save(tmp_path_factory.mktemp(name) / "preset", backbone, preprocessor)
            made[name] = folder, backbone, preprocessor
        return made[name]

    return find


@pytest.fixture
def copied(saved, tmp_path):
    """A BERT preset that a test may damage."""
    return shutil.copytree(saved()[0], tmp_path / "preset")


def outputs(backbone, inputs):
    found = backbone(inputs)
    return found["sequence_output"] if isinstance(found, dict) else found


def assert_error(function, *parts):
    with pytest.raises(CheckpointError) as error:
        function()
    for part in parts:
        assert part in str(error.value)


# Backbones


@pytest.mark.parametrize("name", FAMILIES)
def test_a_preset_gives_the_backbone_that_was_saved(saved, name):
    folder, backbone, preprocessor = saved(name)
    loaded = Encoder.from_pretrained(folder)
    assert type(loaded) is type(backbone)
    inputs = preprocessor(presets.TEXTS)
    np.testing.assert_array_equal(outputs(loaded, inputs), outputs(backbone, inputs))


def test_a_relative_folder_takes_precedence_over_a_built_in_preset_of_the_same_name(saved, tmp_path, monkeypatch):
    folder, backbone, preprocessor = saved()
    shutil.copytree(folder, tmp_path / "bert_tiny_en_uncased")
    monkeypatch.chdir(tmp_path)
    assert "bert_tiny_en_uncased" in keras_hub.models.Backbone.presets
    source = pathlib.Path("bert_tiny_en_uncased")
    inputs = load_preprocessor(source)(presets.TEXTS)
    np.testing.assert_array_equal(outputs(load(source), inputs), outputs(backbone, preprocessor(presets.TEXTS)))


def test_a_preset_of_a_whole_task_gives_its_backbone(saved, tmp_path):
    _, backbone, preprocessor = saved()
    keras_hub.models.BertTextClassifier(backbone, 2, preprocessor=preprocessor).save_to_preset(str(tmp_path))
    inputs = preprocessor(presets.TEXTS)
    np.testing.assert_array_equal(outputs(load(tmp_path), inputs), outputs(backbone, inputs))
    assert load_preprocessor(tmp_path).sequence_length == 8


def test_arguments_of_the_backbone_are_passed_on(saved):
    folder, backbone, _ = saved()
    loaded = load(folder, dropout=0.3, dtype="bfloat16", name="mine", load_weights=False)
    assert (loaded.dropout, loaded.dtype_policy.name, loaded.name) == (0.3, "bfloat16", "mine")
    assert (np.array(loaded.token_embedding.embeddings, "float32") != backbone.token_embedding.embeddings).any()


def test_an_argument_that_the_backbone_does_not_take_is_an_error(saved):
    assert_error(lambda: load(saved()[0], hidden_dropout=0.0), "some of ['dropout', 'dtype',", "['hidden_dropout']")


def test_an_unknown_argument_is_an_error_before_weights_are_loaded(copied):
    (copied / "model.weights.h5").write_bytes(b"")
    for name, hint in (
        ("dropot", "Did you mean 'dropout'?"),
        ("hidden_dropout_prob", "Pass `dropout=...`"),
    ):
        assert_error(
            lambda name=name: load(copied, **{name: 0.0}), f"{hint}", f"for BertBackbone. Received: ['{name}']"
        )


def test_weights_of_another_size_are_an_error_of_one_sentence(copied):
    config = json.loads((copied / "config.json").read_text())
    config["config"]["num_layers"] = 2
    (copied / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError) as error:
        load(copied)
    assert "Received: ValueError: The weights do not match config.json. " in str(error.value)
    assert "List of objects" not in str(error.value)


def test_an_argument_that_does_not_match_the_weights_is_an_error(saved):
    assert_error(
        lambda: load(saved()[0], vocabulary_size=5), "KerasHub cannot load the backbone", "Received: ValueError"
    )


def test_a_class_of_backbones_can_be_requested(saved):
    assert isinstance(load(saved()[0], keras_hub.models.BertBackbone), keras_hub.models.BertBackbone)
    roberta = keras_hub.models.RobertaBackbone
    assert_error(lambda: load(saved()[0], roberta), "not a subclass of calling class `RobertaBackbone`")


def test_a_preset_is_an_error_for_our_encoders(saved):
    assert_error(
        lambda: BertEncoder.from_pretrained(saved()[0]),
        "`Encoder.from_pretrained`. Received: BertEncoder.from_pretrained",
    )


# Preprocessors


@pytest.mark.parametrize("name", FAMILIES)
def test_a_preset_gives_its_own_preprocessor(saved, name):
    folder, _, preprocessor = saved(name)
    loaded = load_preprocessor(folder)
    assert type(loaded) is type(preprocessor)
    for key, ids in preprocessor(presets.TEXTS).items():
        np.testing.assert_array_equal(loaded(presets.TEXTS)[key], ids)


def test_a_preset_with_a_tokenizer_alone_gives_a_preprocessor(saved, tmp_path):
    _, backbone, preprocessor = saved()
    presets.save(tmp_path, backbone, preprocessor.tokenizer)
    assert load_preprocessor(tmp_path, sequence_length=6)(presets.TEXTS)["token_ids"].shape == (3, 6)


@pytest.mark.parametrize("name", ["BERT", "DistilBERT"])
def test_at_word_level_our_preprocessor_gives_the_same_ids(saved, name):
    folder, _, preprocessor = saved(name)
    ours = load_preprocessor(folder, word_level=True)
    assert type(ours) is BertPreprocessor and ours.sequence_length == 8
    for key, ids in preprocessor(presets.TEXTS).items():
        np.testing.assert_array_equal(ours(presets.TEXTS)[key], ids)
    assert load_preprocessor(folder, 6, word_level=True, split="whitespace").split == "whitespace"


def test_word_level_requires_the_tokenizer_of_bert(saved):
    assert_error(
        lambda: load_preprocessor(saved("RoBERTa")[0], word_level=True), "preprocessor=...)`", "with RobertaTokenizer"
    )


@pytest.mark.parametrize(
    "setting",
    [{"special_tokens_in_strings": True}, {"split": False}, {"suffix_indicator": "@@"}, {"oov_token": "[SEP]"}],
    ids=lambda setting: next(iter(setting)),
)
def test_word_level_requires_the_settings_of_bert(setting, saved, tmp_path):
    tokenizer = keras_hub.models.BertTokenizer(vocabulary=presets.VOCABULARY, **setting)
    presets.save(tmp_path, saved()[1], tokenizer)
    assert_error(lambda: load_preprocessor(tmp_path, word_level=True), "a preprocessor that takes words")


# Names


@pytest.fixture
def kaggle(saved, monkeypatch):
    """Kaggle, where every model is the BERT preset: the list of the requested files."""
    asked = []

    def download(handle, path):
        asked.append((handle, path))
        return str(saved()[0] / path)

    monkeypatch.setattr("kagglehub.model_download", download)
    return asked


def test_a_name_is_passed_to_keras_hub(saved, kaggle):
    _, backbone, preprocessor = saved()
    inputs = preprocessor(presets.TEXTS)
    loaded = load("keras_hub://bert_tiny_en_uncased")
    np.testing.assert_array_equal(outputs(loaded, inputs), outputs(backbone, inputs))
    handle = "kaggle://keras/bert/keras/bert_tiny_en_uncased"
    assert load_preprocessor(f"keras_hub://{handle}", 6).sequence_length == 6
    assert {f"kaggle://{asked.removesuffix('/3')}" for asked, _ in kaggle} == {handle}
    assert {path for _, path in kaggle} >= {"config.json", "model.weights.h5", "preprocessor.json"}


def test_a_folder_after_the_prefix_is_passed_to_keras_hub(saved, tmp_path):
    tensors = bert_tensors()
    positions = np.zeros((512, tensors["embeddings.position_embeddings.weight"].shape[1]), "float32")
    tensors["embeddings.position_embeddings.weight"] = positions  # KerasHub 0.30 and older expect 512.
    hugging_face = write_bert(tmp_path, tensors, hidden_dropout_prob=0.1, max_position_embeddings=512)
    for folder in (saved()[0], hugging_face):
        assert isinstance(load(f"keras_hub://{folder}"), keras_hub.models.BertBackbone)


def test_an_unknown_name_is_an_error_that_suggests_the_closest():
    assert_error(
        lambda: load("keras_hub://bert_tiny_uncased"),
        "Did you mean 'keras_hub://bert_tiny_en_uncased'?",
        "Received: 'keras_hub://bert_tiny_uncased'",
    )


def test_without_network_access_the_error_says_so(monkeypatch):
    def download(handle, path):
        raise ConnectionError("Failed to resolve 'api.kaggle.com'")

    monkeypatch.setattr("kagglehub.model_download", download)
    reason = "check its name and the network. Received: ConnectionError: Failed to resolve 'api.kaggle.com'"
    assert_error(lambda: load("keras_hub://bert_tiny_en_uncased"), reason)


def test_resolving_a_name_is_an_error():
    assert_error(lambda: resolve("keras_hub://bert_tiny_en_uncased"), "Use `load` and `load_preprocessor`")


def test_without_keras_hub_the_error_says_what_to_install(saved, monkeypatch):
    monkeypatch.setitem(sys.modules, "keras_hub", None)
    for function in (load, load_preprocessor):
        assert_error(lambda function=function: function(saved()[0]), "`pip install keras-hub`", "Received: ")


# Invalid presets


@pytest.mark.parametrize("missing", ["config.json", "model.weights.h5"])
def test_an_incomplete_preset_is_an_error(copied, missing):
    (copied / missing).unlink()
    assert_error(lambda: load(copied), "is an incomplete KerasHub preset. Expected config.json and model.weights.h5")


def test_a_tokenizer_alone_is_an_incomplete_preset(saved, tmp_path):
    saved()[2].tokenizer.save_to_preset(str(tmp_path))
    assert_error(lambda: load(tmp_path), "is an incomplete KerasHub preset", "Received: ['assets', 'tokenizer.json']")


def test_a_configuration_of_an_unknown_class_is_an_error(copied):
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps({**config, "registered_name": "mine>Backbone"}))
    assert_error(lambda: load(copied), "no class registered with Keras for mine>Backbone")


def test_damaged_weights_are_an_error(copied):
    weights = copied / "model.weights.h5"
    weights.write_bytes(weights.read_bytes()[:1000])
    assert_error(lambda: load(copied), "check its files and the arguments. Received: OSError", "truncated file")


def test_a_preset_without_a_tokenizer_has_no_preprocessor(saved, tmp_path):
    presets.save(tmp_path, saved()[1])
    assert_error(
        lambda: load_preprocessor(tmp_path),
        "or pass a preprocessor to the task. Received: FileNotFoundError: `tokenizer",
    )


def test_a_language_model_has_no_preprocessor_for_classifiers(tmp_path):
    presets.save(tmp_path, *presets.language_model())
    assert_error(lambda: load_preprocessor(tmp_path), "Unable to find a subclass of TextClassifierPreprocessor")


@pytest.mark.parametrize(
    ("make", "received"),
    [
        (presets.image_model, "VGGBackbone, which takes inputs without names"),
        (presets.encoder_decoder, "BartBackbone, which takes ['decoder_padding_mask', 'decoder_token_ids', "),
    ],
)
def test_a_backbone_that_does_not_encode_texts_is_an_error(make, received, tmp_path):
    presets.save(tmp_path, *make())
    assert_error(lambda: load(tmp_path), "must take `token_ids` and `padding_mask`. Received: ", received)
