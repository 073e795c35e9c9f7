"""Adapters in files: round trips, the head, other encoders, damaged files, and LoRA of PEFT."""

import json
import shutil

import keras
import numpy as np
import pytest
from keras import ops

from keras_transfer import adaptation as kt
from keras_transfer.adaptation.adapters.adapters import adapter_weights
from keras_transfer.adaptation.adapters.kind import register_kind
from keras_transfer.adaptation.adapters.settings import encoder_settings
from keras_transfer.encoders import Encoder, RobertaEncoder, encode
from keras_transfer.tasks import TextClassifier
from tests.adaptation.adapters import adapter_models as models
from tests.adaptation.adapters.adapter_models import outputs, train
from tests.helpers import logged
from tests.samples import REFERENCES


@register_kind()
class ChildOfLoRA(kt.LoRA):
    """A kind that is a subclass of another one."""


@pytest.mark.report(
    "The trained head does not come back with its adapter.",
    "peft#876",
    "peft#602",
    "transformers#26160",
    "transformers#48595",
    "sentence-transformers#3980",
)
def test_a_file_is_loaded_under_its_name_or_another_and_without_a_head_into_an_encoder(tmp_path):
    model = train(kt.add_adapters(models.classifier(), ["dora:r=2", "bitfit"], name="task"))
    file = kt.save_adapters(model, tmp_path / "task.safetensors")
    again = kt.load_adapters(models.classifier(), file)
    assert list(again.encoder.adapters) == ["task"] and again.encoder.adapters == model.encoder.adapters
    for loaded in (again, kt.load_adapters(again, file, name="twin")):
        np.testing.assert_array_equal(outputs(loaded), outputs(model))
    alone = kt.load_adapters(models.encoder(), file)
    np.testing.assert_array_equal(outputs(alone), outputs(model.encoder))


def test_a_kind_may_be_a_subclass_of_another_one(tmp_path):
    model = models.randomize(kt.add_adapters(models.classifier(), ChildOfLoRA(2)))
    again = kt.load_adapters(models.classifier(), kt.save_adapters(model, tmp_path / "child.safetensors"))
    assert again.encoder.adapters == {"default": [ChildOfLoRA(2)]}
    np.testing.assert_array_equal(outputs(kt.merge_adapters(again)), outputs(kt.merge_adapters(model)))


def test_what_does_not_fit_is_an_error_that_changes_nothing(tmp_path):
    model = kt.add_adapters(models.classifier(), "pfeiffer:2")
    file = kt.save_adapters(model, tmp_path / "a.safetensors")
    (tmp_path / "text").write_text("text")
    (tmp_path / "folder").mkdir()
    for target, path, message in (
        (models.classifier(RobertaEncoder), file, "different weights"),
        (models.masked(), file, "do not match the model"),
        (models.classifier(), tmp_path / "text", "cannot be read"),
        (models.classifier(), tmp_path / "folder", "a PEFT folder"),
    ):
        with pytest.raises(ValueError, match=message):
            kt.load_adapters(target, path)
        assert not target.encoder.adapters and len(target.trainable_weights) == len(target.weights)
    with pytest.raises(FileExistsError):
        kt.save_adapters(model, file)
    with pytest.raises(ValueError, match="Received: format='zip'"):
        kt.save_adapters(model, tmp_path / "b", format="zip")
    with pytest.raises(ValueError, match="Only a single `LoRA` or `IA3`"):
        kt.save_adapters(model, tmp_path / "b", format="peft")


def test_shared_weights_have_the_same_name_after_other_adapters(tmp_path):
    model = kt.add_adapters(models.classifier(), "pfeiffer:2", name="other")
    kt.add_adapters(model, "compacter:4,terms=2", name="task")
    file = kt.save_adapters(model, tmp_path / "task.safetensors")
    again = kt.load_adapters(models.classifier(), file)
    np.testing.assert_array_equal(outputs(again), outputs(model))


# === Agreement with PEFT, and with the definitions of the `adapters` library ===

IDS = np.array([[2, 7, 9, 14, 3, 5, 3], [2, 11, 3, 0, 0, 0, 0]], "int32")
MASK = np.array([[1] * 7, [1] * 3 + [0] * 4], "int32")


def states(encoder):
    inputs = {"token_ids": IDS, "segment_ids": 0 * IDS, "padding_mask": MASK}
    found = encode(encoder, {name: inputs[name] for name in encoder.input}).sequence
    return np.array(ops.convert_to_numpy(found))[MASK == 1]


def original(name):
    return Encoder.from_pretrained(REFERENCES / "architectures" / name)


@pytest.mark.parametrize(
    "name",
    ["peft_lora", "peft_rslora", *(pytest.param(name, marks=pytest.mark.core) for name in ("peft_dora", "peft_gpt2"))],
)
def test_lora_of_peft_loads_computes_the_same_and_is_written_back(name, tmp_path):
    from safetensors.numpy import load_file

    folder = REFERENCES / "adapters" / name
    made = original("gpt2" if "gpt2" in name else "bert")
    encoder = kt.load_adapters(made, folder)
    [expected] = np.load(folder / "outputs.npz").values()
    np.testing.assert_allclose(states(encoder), expected[MASK == 1], rtol=0, atol=1e-5)
    saved = kt.save_adapters(encoder, tmp_path / "again", format="peft")
    ours, theirs = (load_file(path / "adapter_model.safetensors") for path in (saved, folder))
    assert ours.keys() == theirs.keys()
    for key, value in theirs.items():
        np.testing.assert_array_equal(ours[key], value)
    expected = states(encoder)
    np.testing.assert_allclose(states(kt.merge_adapters(encoder)), expected, rtol=0, atol=1e-5)


def test_lora_of_peft_that_changed_the_weights_of_the_encoder_is_refused(tmp_path):
    folder = shutil.copytree(REFERENCES / "adapters" / "peft_lora", tmp_path / "lora")
    config = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps({**config, "init_lora_weights": "pissa_niter_4"}))
    with pytest.raises(ValueError, match="`init_lora_weights` must not change.*'pissa_niter_4'"):
        kt.load_adapters(original("bert"), folder)


DEFINITIONS = {
    "ia3": "ia3",
    "prefix": "prefix:3",
    "houlsby": kt.Houlsby(4, activation="silu", norms=False),
    "pfeiffer": "pfeiffer:4",
    "parallel": "parallel:4",
    "compacter": kt.Compacter(4, terms=2),
    "pals": kt.PALs(4, num_heads=2),
}


@pytest.mark.core
@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_kind_computes_what_peft_or_the_adapters_library_computes(name):
    arrays = dict(np.load(REFERENCES / "adapters" / f"{name}.npz"))
    expected = arrays.pop("outputs")
    encoder = kt.add_adapters(original("gpt2" if name == "prefix" else "bert"), DEFINITIONS[name])
    fill(encoder, "default", arrays)
    np.testing.assert_allclose(states(encoder), expected[MASK == 1], rtol=0, atol=1e-5)


def test_fusion_computes_what_the_adapters_library_computes():
    arrays = dict(np.load(REFERENCES / "adapters" / "fusion.npz"))
    expected, encoder = arrays.pop("outputs"), original("bert")
    for name in ("a", "b"):
        kt.add_adapters(encoder, "pfeiffer:4", name=name)
    kt.add_adapters(encoder, kt.Fusion(["a", "b"]), name="fusion")
    for name in ("a", "b", "fusion"):
        fill(encoder, name, {key.split(":")[1]: value for key, value in arrays.items() if key.startswith(f"{name}:")})
    np.testing.assert_allclose(states(encoder), expected[MASK == 1], rtol=0, atol=1e-5)


def fill(encoder, name, arrays):
    weights = adapter_weights(encoder, name)
    assert weights.keys() == arrays.keys()
    for key, weight in weights.items():
        weight.assign(arrays[key])


# === What the weights do not show belongs to the file ===


def named(label_names, **options):
    return TextClassifier(models.encoder(), label_names=label_names, dropout=0.0, **options)


def test_files_name_functions_in_settings_as_they_are_registered():
    settings = encoder_settings(models.encoder(activation=keras.activations.relu))
    assert settings["activation"] == encoder_settings(models.encoder(activation="relu"))["activation"]


@pytest.mark.parametrize("setting", [{"num_heads": 4}, {"dropout": 0.5}])
def test_a_file_of_an_encoder_with_other_settings_is_refused(setting, tmp_path):
    file = kt.save_adapters(kt.add_adapters(models.classifier(), "lora:r=2"), tmp_path / "a")
    [(name, value)], encoder = setting.items(), models.encoder(**setting)
    encoder.set_weights(models.encoder().get_weights())
    for other in (encoder, TextClassifier(encoder, num_classes=2)):
        with pytest.raises(
            ValueError, match=f"same weights but different settings.*Received: {name}={value!r} .file: "
        ):
            kt.load_adapters(other, file)


@pytest.mark.report("The labels of an adapter are lost or exchanged.", "adapters#181", "adapters#107", "adapters#35")
def test_labels_in_another_order_than_in_the_file_are_refused(tmp_path):
    file = kt.save_adapters(kt.add_adapters(named(["bad", "good"]), "lora:r=2"), tmp_path / "a")
    with pytest.raises(ValueError, match=r"in the same order.*`label_names=\['bad', 'good'\]`. .*\['good', 'bad'\] in"):
        kt.load_adapters(named(["good", "bad"]), file)
    with pytest.raises(ValueError, match="labels of the file, since"):
        kt.load_adapters(named(["good", "poor"]), file)
    kt.load_adapters(named(["bad", "good"]), file)


def test_labels_without_names_are_matched_by_position_with_a_warning(tmp_path, caplog):
    file = kt.save_adapters(kt.add_adapters(models.classifier(), "lora:r=2"), tmp_path / "a")
    kt.load_adapters(models.classifier(), file)
    assert not logged(caplog)
    kt.load_adapters(named(["bad", "good"]), file)
    assert "matched by position: ['0', '1'] in the file, and ['bad', 'good'] in the model" in caplog.text


def test_a_file_from_before_settings_were_stored_still_loads(tmp_path):
    from safetensors import safe_open
    from safetensors.numpy import load_file, save_file

    model = train(kt.add_adapters(models.classifier(), "lora:r=2"))
    file = kt.save_adapters(model, tmp_path / "new")
    with safe_open(str(file), "np") as opened:
        metadata = opened.metadata()
    old = {key: metadata[key] for key in ("format", "name", "kinds", "base")}
    save_file(load_file(file), tmp_path / "old", old)
    again = kt.load_adapters(models.classifier(), tmp_path / "old")
    np.testing.assert_array_equal(outputs(again), outputs(model))
