"""Settings that an encoder does not have: they are written back with it, and `generate` reads those of generation."""

import json
import logging
import shutil

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import add_adapters, load_adapters, save_adapters
from keras_transfer.checkpoints import CheckpointError
from keras_transfer.encoders import BertEncoder, Encoder, GPT2Encoder
from keras_transfer.generation.constraints import NEVER, Constraints
from keras_transfer.tasks import CausalLM, TextClassifier, TokenClassifier
from keras_transfer.text import BertPreprocessor, ByteBPETokenizer, Packing, TokenPreprocessor
from keras_transfer.text.tokenizers.byte_bpe import byte_characters
from tests.checkpoints.folders import write_bert
from tests.checkpoints.test_heads import copy
from tests.helpers import logged, save_and_load
from tests.samples import REFERENCES

REFERENCE = REFERENCES / "generation"
OUTPUTS = json.loads((REFERENCE / "outputs.json").read_text())
PROMPTS = OUTPUTS["prompts"][:6]
KEPT = {"eos_token_id": [3, 4], "bos_token_id": 2, "gradient_checkpointing": False, "my_own": {"key": [1, None]}}


def config_of(folder, name="config.json"):
    return json.loads((folder / name).read_text())


def language_model(folder, generation=None, **config):
    """Returns the model of the references from a copy of their folder."""
    shutil.copytree(REFERENCE, folder)
    (folder / "config.json").write_text(json.dumps({**config_of(folder), **config}))
    if generation is not None:
        (folder / "generation_config.json").write_text(json.dumps(generation))
    return CausalLM.from_pretrained(folder, preprocessor=None)


def test_settings_that_the_encoder_does_not_have_are_written_back(tmp_path):
    folder = write_bert(tmp_path / "bert", **KEPT, torch_dtype="float16", architectures=["BertForMaskedLM"])
    (folder / "generation_config.json").write_text('{"max_length": 7}')
    encoder = Encoder.from_pretrained(folder)
    for index, each in enumerate((encoder, save_and_load(encoder))):
        each.save_pretrained(saved := tmp_path / str(index))
        config = config_of(saved)
        assert {key: config[key] for key in KEPT} == KEPT
        assert (config["architectures"], "torch_dtype" in config) == (["BertModel"], False)
        assert config_of(saved, "generation_config.json") == {"max_length": 7}


def test_only_what_changed_is_written_anew(tmp_path):
    folder = copy("bert_classifier", tmp_path / "copy", problem_type="multi_label_classification", num_labels=3, mine=1)
    TextClassifier.from_pretrained(folder, preprocessor=None).save_pretrained(tmp_path / "same")
    before, after = config_of(folder), config_of(tmp_path / "same")
    assert {key for key in before if before[key] != after.get(key)} <= {"dtype", "transformers_version", "num_labels"}
    model = TokenClassifier.from_pretrained(folder, preprocessor=None, head="new", label_names=["A", "B"], dropout=0.2)
    model.save_pretrained(tmp_path / "new")
    after = config_of(tmp_path / "new")
    assert (after["id2label"], after["mine"], "problem_type" in after) == ({"0": "A", "1": "B"}, 1, False)
    assert TokenClassifier.from_pretrained(tmp_path / "new", preprocessor=None).label_names == ["A", "B"]


def test_an_argument_that_differs_from_the_checkpoint_is_written(tmp_path):
    Encoder.from_pretrained(write_bert(tmp_path / "bert", mine=1), dropout=0.4).save_pretrained(tmp_path / "saved")
    config = config_of(tmp_path / "saved")
    assert (config["hidden_dropout_prob"], config["mine"]) == (0.4, 1)


@pytest.mark.parametrize("name", ["modernbert_classifier", "deberta-v2_classifier", "xlnet_classifier"])
def test_no_setting_of_a_head_is_lost(name, tmp_path):
    folder = copy(name, tmp_path / "copy", pad_token_id=7)
    TextClassifier.from_pretrained(folder, preprocessor=None).save_pretrained(tmp_path / "saved")
    before, after = config_of(folder), config_of(tmp_path / "saved")
    assert {key for key in before if before[key] != after.get(key)} <= {"dtype", "transformers_version"}


def test_a_new_encoder_is_written_with_the_end_token_of_its_tokenizer(tmp_path):
    encoder = GPT2Encoder(258, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16)
    tokenizer = ByteBPETokenizer(["<pad>", *byte_characters(), "<end>"], [], eos_token="<end>")
    preprocessor = TokenPreprocessor(tokenizer, Packing([], [], [], "<pad>"), 8)
    encoder.save_pretrained(tmp_path / "saved", preprocessor)
    assert config_of(tmp_path / "saved")["eos_token_id"] == 257
    encoder.save_pretrained(tmp_path / "alone")  # OpenAI's id, Transformers' default, is not in the vocabulary.
    assert config_of(tmp_path / "alone")["eos_token_id"] is None


def test_a_sequence_ends_with_any_of_the_end_tokens_of_the_checkpoint(traced, tmp_path):
    model = language_model(tmp_path / "copy", {"eos_token_id": [5, 11, 17], "max_length": 24}, eos_token_id=12)
    longest = [ids for [ids] in OUTPUTS["greedy"][: len(PROMPTS)]]
    ends = [next((i + 1 for i, token in enumerate(ids) if token in (5, 11, 17)), len(ids)) for ids in longest]
    expected = [ids[:end] for ids, end in zip(longest, ends)]
    assert expected != longest and model.generate(PROMPTS) == expected
    assert model.generate(PROMPTS, end_token=5) == longest


def test_the_penalties_are_those_of_the_checkpoint_unless_others_are_passed(traced, tmp_path):
    settings = {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2, "bad_words_ids": [[18], [11, 12], [17, 11, 11]]}
    model = language_model(tmp_path / "copy", {**settings, "eos_token_id": 5, "max_length": 24})
    expected = {case: [ids for [ids] in OUTPUTS[case][: len(PROMPTS)]] for case in ("constrained", "greedy")}
    assert model.generate(PROMPTS) == expected["constrained"]
    assert model.generate(PROMPTS, repetition_penalty=1.0, no_repeat_ngram=0, bad_words=()) == expected["greedy"]


def test_tokens_are_forced_at_the_second_and_at_the_last_place():
    constraints = Constraints(forced_first=1, forced_last=(0, 2))
    tokens, first, limit = (
        keras.ops.convert_to_tensor(np.array(value, "int32")) for value in (np.zeros((3, 6)), [3, 1, 0], [6, 5, 6])
    )
    scores = constraints.apply(keras.ops.ones((3, 4)), tokens, 4, first, limit=limit)
    scores = keras.ops.convert_to_numpy(scores)
    np.testing.assert_array_equal(scores, [[NEVER, 0, NEVER, NEVER], [0, NEVER, 0, NEVER], [1, 1, 1, 1]])


def test_the_last_token_is_that_of_the_checkpoint(traced, tmp_path):
    model = language_model(tmp_path / "copy", {"eos_token_id": 5, "forced_eos_token_id": 5, "max_length": 20})
    found = model.generate(PROMPTS)
    assert {ids[-1] for ids in found} == {5} and max(len(a) + len(b) for a, b in zip(PROMPTS, found)) == 20


@pytest.mark.parametrize(
    ("case", "settings"),
    [
        ("least", {"min_length": 14, "forced_eos_token_id": 5}),
        ("least_new", {"min_new_tokens": 6, "suppress_tokens": [11, 18]}),
        ("first", {"forced_bos_token_id": 17, "min_length": 6, "decoder_start_token_id": 5}),
        ("new_tokens", {"max_new_tokens": 7}),
    ],
)
def test_the_lengths_and_forced_tokens_of_the_checkpoint_are_those_of_transformers(traced, tmp_path, case, settings):
    model = language_model(tmp_path / "copy", {"eos_token_id": 5, "max_length": 24, **settings})
    prompts = [prompt[:1] for prompt in PROMPTS] if case == "first" else PROMPTS
    assert model.generate(prompts) == [ids for [ids] in OUTPUTS[case][: len(PROMPTS)]]


def test_arguments_replace_the_lengths_and_tokens_of_the_checkpoint(traced, tmp_path):
    settings = {"min_length": 14, "forced_eos_token_id": 5, "max_new_tokens": 7, "suppress_tokens": [11]}
    model = language_model(tmp_path / "copy", {"eos_token_id": 5, **settings})
    found = model.generate(PROMPTS, min_new_tokens=0, forced_last=(), max_length=24, bad_words=())
    assert found == [ids for [ids] in OUTPUTS["greedy"][: len(PROMPTS)]]


def test_num_beams_searches_as_the_checkpoint_says(traced, tmp_path, caplog):
    settings = {"eos_token_id": 5, "max_length": 24, "num_beams": 3, "length_penalty": 2.0, "early_stopping": "never"}
    model = language_model(tmp_path / "copy", settings)
    with caplog.at_level(logging.WARNING, "keras_transfer"):
        assert model.generate(PROMPTS, num_beams=3) == [ids for [ids] in OUTPUTS["beam_never"][: len(PROMPTS)]]
        assert not logged(caplog)
        assert model.generate(PROMPTS) == [ids for [ids] in OUTPUTS["greedy"][: len(PROMPTS)]]
    assert "num_beams=3. Pass `num_beams=4` or a sampler" in caplog.text


def test_settings_of_generation_that_are_not_read_are_named_once(eagerly, tmp_path, caplog):
    model = language_model(tmp_path / "copy", {"do_sample": True, "temperature": 0.7, "_from_model_config": True})
    with caplog.at_level(logging.WARNING, "keras_transfer"):
        for _ in range(2):
            model.generate([[3, 4]], max_length=4)
    [message] = logged(caplog, "generation_config")
    assert "do_sample=True, temperature=0.7. Pass `num_beams=4` or a sampler instead" in message


def test_a_setting_of_generation_of_another_kind_is_an_error(tmp_path):
    model = language_model(tmp_path / "copy", {"eos_token_id": "</s>"})
    with pytest.raises(
        ValueError, match="`eos_token_id` of the checkpoint must consist of token ids. Received: .*</s>"
    ):
        model.generate([[3, 4]], max_length=4)
    (tmp_path / "copy" / "generation_config.json").write_text("[")
    with pytest.raises(CheckpointError, match="generation_config.json must be a JSON file"):
        Encoder.from_pretrained(tmp_path / "copy")


def test_files_of_adapters_fit_an_encoder_with_other_kept_settings(tmp_path):
    first, second = (Encoder.from_pretrained(write_bert(tmp_path / str(i), mine=i)) for i in range(2))
    assert first.attached.files != second.attached.files
    add_adapters(first, "lora:rank=2")
    save_adapters(first, tmp_path / "adapters.safetensors")
    assert load_adapters(second, tmp_path / "adapters.safetensors").adapters.keys() == first.adapters.keys()


def test_a_folder_of_a_new_encoder_has_nothing_to_keep(tmp_path):
    encoder = BertEncoder(12, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16)
    encoder.save_pretrained(tmp_path / "saved", BertPreprocessor(["[PAD]", "[UNK]", "[CLS]", "[SEP]"]))
    assert Encoder.from_pretrained(tmp_path / "saved").attached.files == {}
