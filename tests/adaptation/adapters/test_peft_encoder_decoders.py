"""PEFT folders over encoder-decoders: LoRA, DoRA and IA3 over T5 and BART, read, written, and compared live."""

import json

import numpy as np
import pytest
from keras import ops

from keras_transfer import adaptation as kt
from keras_transfer.tasks import Seq2SeqLM
from tests.adaptation.adapters.adapter_models import randomize
from tests.adaptation.adapters.test_peft_heads import changed, peft  # noqa: F401
from tests.errors import check_errors
from tests.float64 import in_float64
from tests.samples import REFERENCES

FOLDERS = REFERENCES / "adapters" / "peft_encoder_decoders"
NAMES = ("t5_lora", "t5_gated_ia3", "bart_dora", "bart_ia3")


def base(name):
    return REFERENCES / "sequence_to_sequence" / name.rpartition("_")[0]


def task(name):
    return Seq2SeqLM.from_pretrained(base(name), preprocessor=None)


def inputs(name):
    arrays = np.load(base(name) / "outputs.npz")
    return {key: arrays[key][:, :8] for key in arrays if key.endswith(("token_ids", "padding_mask"))}


def logits(model, name):
    given = inputs(name)
    found = model(given)
    found = found["decoder_sequence_output"] if isinstance(found, dict) else found
    return np.array(ops.convert_to_numpy(found))[given["decoder_padding_mask"] == 1]


def tensors(folder):
    from safetensors.numpy import load_file

    return load_file(folder / "adapter_model.safetensors")


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_of_peft_gives_the_same_logits_and_is_written_back(name, tmp_path):
    folder = FOLDERS / name
    expected = np.load(folder / "outputs.npz")
    model = kt.load_adapters(task(name), folder)
    difference = np.abs(logits(model, name) - expected["logits"]).max()
    # Where PEFT in float32 is further from float64 than 1e-5, ours may be twice as far as PEFT.
    assert difference <= max(1e-5, 2 * expected["error"]), difference
    again = kt.save_adapters(model, tmp_path / "again", format="peft")
    ours, theirs = tensors(again), tensors(folder)
    assert ours.keys() == theirs.keys()
    for key, value in theirs.items():
        np.testing.assert_array_equal(ours[key], value)
    assert json.loads((again / "adapter_config.json").read_text())["task_type"] == "SEQ_2_SEQ_LM"
    np.testing.assert_array_equal(logits(kt.load_adapters(task(name), again), name), logits(model, name))


def test_an_encoder_decoder_alone_has_the_names_of_its_class(tmp_path):
    encoder = kt.load_adapters(task("bart_ia3").encoder, FOLDERS / "bart_ia3")
    folder = kt.save_adapters(encoder, tmp_path / "alone", format="peft")
    assert all(key.startswith(("base_model.model.encoder.", "base_model.model.decoder.")) for key in tensors(folder))
    again = kt.load_adapters(task("bart_ia3").encoder, folder)
    np.testing.assert_array_equal(logits(again, "bart_ia3"), logits(encoder, "bart_ia3"))


def _scaled(**options):
    return kt.add_adapters(task("bart_ia3"), kt.IA3(**options))


def _with_head(tmp_path):
    from safetensors.numpy import save_file

    folder = changed(tmp_path / "folder", FOLDERS / "t5_gated_ia3")
    head = {"base_model.model.lm_head.weight": np.zeros((60, 16), "float32")}
    save_file({**tensors(folder), **head}, folder / "adapter_model.safetensors")
    return folder


test_mistakes_are_errors = check_errors(
    (
        lambda tmp_path: kt.save_adapters(
            _scaled(targets="outer", input_targets="outer"), tmp_path / "a", format="peft"
        ),
        "Two kinds of adapters need the same place",
    ),
    (
        lambda tmp_path: kt.load_adapters(task("t5_gated_ia3"), _with_head(tmp_path)),
        "The head of a `Seq2SeqLM` comes from its checkpoint ... Received: others=['lm_head.weight']",
    ),
    (
        lambda: kt.load_adapters(task("bart_ia3"), FOLDERS / "t5_gated_ia3"),
        "a tensor that does not fit Bart",
    ),
    (
        lambda tmp_path: kt.load_adapters(
            task("t5_lora"), changed(tmp_path / "a", FOLDERS / "t5_lora", peft_type="IA3")
        ),
        "one matrix of scales for each module ... Received: parts=['lora_A'",
    ),
)


# === Live ===


@pytest.mark.parity
@pytest.mark.parametrize("kind", ["lora", "dora", "rslora", "ia3"])
@pytest.mark.parametrize("name", ["t5_", "t5_gated_", "bart_", "marian_"])
def test_peft_computes_the_same_with_a_folder_that_we_write(name, kind, peft, tmp_path):  # noqa: F811
    import torch
    import transformers

    targets = ["query", "value", "output", "inner", "outer"]
    options = {"dora": {"magnitude": True}, "rslora": {"rank_stabilized": True}}.get(kind, {})
    adapters = kt.IA3(["key", "value", "inner"]) if kind == "ia3" else kt.LoRA(2, alpha=3, targets=targets, **options)
    model = randomize(kt.add_adapters(task(name), adapters))
    folder = kt.save_adapters(model, tmp_path / "ours", format="peft")
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(base(name), attn_implementation="eager")
    theirs = peft.PeftModel.from_pretrained(theirs, folder).eval()
    words = {"token_ids": "input_ids", "padding_mask": "attention_mask"}
    given = {key: torch.tensor(value).long() for key, value in inputs(name).items()}
    given = {f"{half}{words[key]}": given[f"{half}{key}"] for half in ("", "decoder_") for key in words}
    real = given["decoder_attention_mask"] == 1
    theirs.save_pretrained(tmp_path / "theirs")  # in float32
    with torch.no_grad():
        rounded, exact = theirs(**given).logits[real], in_float64(theirs)(**given).logits[real]
    bound = max(1e-5, 2 * (exact - rounded).abs().max().item())
    difference = np.abs(logits(model, name) - exact.numpy()).max()
    assert difference <= bound, (difference, bound)

    # And back, after PEFT has written it.
    again = kt.load_adapters(task(name), tmp_path / "theirs")
    assert np.abs(logits(again, name) - exact.numpy()).max() <= bound
