"""Continuations of encoder-decoders are those of Transformers for 50 sources, and they are diverse."""

import functools
import json

import pytest

from keras_transfer.tasks import Seq2SeqLM
from tests.encoders.sequence_to_sequence.continuations import CASES, RECORDED, assert_diverse, ours, theirs
from tests.samples import REFERENCES

FOLDER = REFERENCES / "sequence_to_sequence"
NAMES = ("t5_trained", "t5_gated_trained", "bart_trained")


def recorded(name):
    found = json.loads((FOLDER / name / "generated.json").read_text())
    return found["sources"], found["generated"][RECORDED]


@functools.cache
def original(name):
    pytest.importorskip("torch", reason="run `make test-parity`", exc_type=ImportError)
    transformers = pytest.importorskip("transformers", reason="run `make test-parity`")
    return transformers.AutoModelForSeq2SeqLM.from_pretrained(FOLDER / name, attn_implementation="eager").eval()


@pytest.mark.core
@pytest.mark.parametrize("name", ["t5_gated_trained", "bart_trained"])
def test_beams_under_all_constraints_are_those_that_were_recorded(name, traced):
    sources, expected = recorded(name)
    assert_diverse(expected)
    model = Seq2SeqLM.from_pretrained(FOLDER / name, preprocessor=None)
    assert ours(model, sources, **CASES[RECORDED]) == expected


# === Live ===


@pytest.mark.parity
@pytest.mark.parametrize("name", NAMES)
def test_transformers_writes_the_same_in_all_cases(name, traced):
    sources, _ = recorded(name)
    model = Seq2SeqLM.from_pretrained(FOLDER / name, preprocessor=None)
    greedy = theirs(original(name), sources)
    for case, options in CASES.items():
        expected = theirs(original(name), sources, **options)
        assert_diverse(expected)
        assert case == "greedy" or expected != greedy, case
        assert ours(model, sources, **options) == expected, case


@pytest.mark.parity
@pytest.mark.parametrize("name", NAMES)
def test_the_settings_of_a_checkpoint_do_what_they_do_in_transformers(name, tmp_path):
    settings = {"min_length": 18, "max_length": 23, "no_repeat_ngram_size": 3, "forced_bos_token_id": 7}
    settings |= {"forced_eos_token_id": 9, "length_penalty": 2.0, "early_stopping": True}
    model, folder = original(name), tmp_path / "folder"
    model.save_pretrained(folder)
    config = {"eos_token_id": model.config.eos_token_id, "pad_token_id": model.config.pad_token_id, **settings}
    config["decoder_start_token_id"] = model.config.decoder_start_token_id
    (folder / "generation_config.json").write_text(json.dumps(config))
    sources, _ = recorded(name)
    expected = theirs(type(model).from_pretrained(folder), sources, num_beams=4, max_new_tokens=None)
    assert_diverse(expected)
    assert min(map(len, expected)) >= 17 and {row[0] for row in expected} == {7}
    model = Seq2SeqLM.from_pretrained(folder, preprocessor=None)
    assert model.generate(sources, num_beams=4, batch_size=len(sources)) == expected
