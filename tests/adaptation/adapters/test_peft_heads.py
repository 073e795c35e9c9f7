"""PEFT folders of whole tasks: LoRA with the head, read from PEFT's own folders, written, and compared live."""

import importlib.util
import json
import re
import shutil

import numpy as np
import pytest
from keras import ops

from keras_transfer import adaptation as kt
from keras_transfer.adaptation.adapters.adapters import adapter_weights, head_weights
from keras_transfer.tasks import MaskedLM, TextClassifier, TokenClassifier
from tests.adaptation.adapters import adapter_models as models
from tests.adaptation.adapters.adapter_models import randomize
from tests.checkpoints.test_heads import HEADS
from tests.samples import REFERENCES

FOLDERS = REFERENCES / "adapters" / "peft_heads"
KINDS = ("bert", "roberta", "distilbert", "modernbert")
TASKS = {"classifier": TextClassifier, "tokens": TokenClassifier}
NAMES = ["bad", "fine", "good"]
IDS = np.array([[2, 7, 9, 4, 3, 5], [2, 8, 3, 0, 0, 0]], "int32")
INPUTS = {"token_ids": IDS, "segment_ids": 0 * IDS, "padding_mask": (IDS > 0).astype("int32")}


def base(kind, head):
    """The reference folder over which the PEFT folder of an architecture was made."""
    own = HEADS / f"{kind}_{head}"
    return own if own.exists() else HEADS / f"{kind}_classifier"


def task(kind, head, **options):
    if not (HEADS / f"{kind}_{head}").exists():
        options |= {"head": "new", "label_names": NAMES[: 2 if kind == "roberta" else 3]}
    return TASKS[head].from_pretrained(base(kind, head), preprocessor=None, encoder={"dropout": 0.0}, **options)


def new(**options):
    """A classifier over the reference folder of BERT with a new head."""
    return TextClassifier.from_pretrained(base("bert", "classifier"), preprocessor=None, head="new", **options)


def logits(model):
    found = np.array(ops.convert_to_numpy(model({name: INPUTS[name] for name in model.input}, training=False)))
    return found[IDS > 0] if found.ndim == 3 else found


@pytest.mark.parametrize("head", TASKS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_of_peft_with_a_head_gives_the_same_logits(kind, head, tmp_path):
    from safetensors.numpy import load_file

    folder = FOLDERS / f"{kind}_{head}"
    [expected] = np.load(folder / "outputs.npz").values()
    model = kt.load_adapters(task(kind, head), folder)
    np.testing.assert_allclose(logits(model), expected, rtol=0, atol=1e-5)
    again = kt.save_adapters(model, tmp_path / "again", format="peft")
    ours, theirs = (load_file(path / "adapter_model.safetensors") for path in (again, folder))
    assert theirs.keys() <= ours.keys()  # We write all weights of the head.
    for key, value in theirs.items():
        np.testing.assert_array_equal(ours[key], value)
    np.testing.assert_array_equal(logits(kt.load_adapters(task(kind, head), again)), logits(model))


WHOLE = {  # Layers outside of the blocks with LoRA, and layers and tokens that PEFT saved as a whole
    "bert_classifier_all": ("pooler",),
    "albert_classifier_all": ("embeddings_projection", "pooler"),
    "deberta-v2_classifier_all": (),  # Its pooler is part of the head.
    "bert_classifier_saved": (
        *("token_embedding", "embeddings_norm", "block_0.attention_norm", "block_0.feed_forward_norm", "pooler"),
    ),
}


@pytest.mark.parametrize("name", WHOLE)
def test_layers_and_tokens_that_a_folder_changes_as_a_whole_become_copies(name, tmp_path):
    from safetensors.numpy import load_file

    kind, folder = name.split("_")[0], FOLDERS / name
    [expected] = np.load(folder / "outputs.npz").values()
    model = task(kind, "classifier")
    before = logits(model)
    kt.load_adapters(model, folder)
    np.testing.assert_allclose(logits(model), expected, rtol=0, atol=1e-5)
    copies = [adapter.layers for adapter in model.encoder.adapters["default"][1:]]
    assert copies == [WHOLE[name]] * bool(WHOLE[name])
    again = kt.save_adapters(model, tmp_path / "again", format="peft")
    assert "base_model.model.classifier.weight" in load_file(again / "adapter_model.safetensors")
    np.testing.assert_array_equal(logits(kt.load_adapters(task(kind, "classifier"), again)), logits(model))
    np.testing.assert_allclose(logits(kt.merge_adapters(model)), expected, rtol=0, atol=1e-5)
    # Without the adapters, the encoder is what it was.
    model = kt.remove_adapters(kt.load_adapters(task(kind, "classifier"), folder))
    plain = TextClassifier.from_pretrained(base(kind, "classifier"), preprocessor=None, encoder={"dropout": 0.0})
    for ours, theirs in zip(model.encoder.weights, plain.encoder.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert np.abs(before - expected).max() > 1e-3


def test_a_folder_loads_beside_other_copies_as_over_the_encoder_alone():
    model, folder = task("bert", "classifier"), FOLDERS / "bert_classifier_all"
    [expected] = np.load(folder / "outputs.npz").values()
    randomize(kt.add_adapters(model, "copies:pooler", name="other"), "other")
    kt.load_adapters(model, folder)
    np.testing.assert_allclose(logits(model), expected, rtol=0, atol=1e-5)


def test_an_encoder_takes_only_lora_from_a_folder_with_a_head():
    model = kt.load_adapters(task("bert", "classifier"), FOLDERS / "bert_classifier")
    encoder = kt.load_adapters(task("bert", "classifier").encoder, FOLDERS / "bert_classifier")
    found, expected = (
        np.array(ops.convert_to_numpy(part(INPUTS)["sequence_output"])) for part in (encoder, model.encoder)
    )
    np.testing.assert_array_equal(found, expected)


def test_lora_of_parts_of_a_fused_layer_is_written_as_lora_of_the_whole_layer(tmp_path):
    # ModernBERT has one module for query, key and value, and one for the gate and the inner layer.
    for magnitude in (False, True):
        model = kt.add_adapters(
            task("modernbert", "classifier"),
            kt.LoRA(2, alpha=3, targets=["query", "value", "inner", "gate"], magnitude=magnitude),
        )
        randomize(model)
        folder = kt.save_adapters(model, tmp_path / str(magnitude), format="peft")
        config = json.loads((folder / "adapter_config.json").read_text())
        assert set(config["rank_pattern"].values()) == {4} and set(config["alpha_pattern"].values()) == {6.0}
        again = kt.load_adapters(task("modernbert", "classifier"), folder)
        np.testing.assert_allclose(logits(again), logits(model), rtol=0, atol=1e-6)


def test_lora_of_a_language_model_is_written_for_the_class_with_its_head(tmp_path):
    from safetensors import safe_open

    model = randomize(kt.add_adapters(models.language_model(), "lora:r=2"))
    folder = kt.save_adapters(model, tmp_path / "lora", format="peft")
    assert json.loads((folder / "adapter_config.json").read_text())["task_type"] == "CAUSAL_LM"
    with safe_open(str(folder / "adapter_model.safetensors"), "np") as file:
        assert all(name.startswith("base_model.model.transformer.h.") for name in file.keys())  # noqa: SIM118
    again = kt.load_adapters(models.language_model(), folder)
    np.testing.assert_allclose(models.outputs(again), models.outputs(model), rtol=0, atol=1e-6)


def test_weights_of_the_head_that_a_folder_lacks_keep_their_values_with_a_warning(caplog):
    kt.load_adapters(task("modernbert", "classifier"), FOLDERS / "modernbert_classifier")
    assert "does not contain all weights of the head" in caplog.text and "head.dense.weight" in caplog.text


def changed(folder, source="bert_classifier", **config):
    shutil.copytree(FOLDERS / source, folder)  # An absolute path replaces that of the folders.
    found = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps({**found, **config}))
    return folder


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("PREFIX_TUNING", r"contains a prefix. .*'prefix'"),
        ("VERA", "contains adapters of the kind VERA"),
    ],
)
def test_a_folder_with_another_kind_of_adapters_says_what_it_contains(kind, message, tmp_path):
    folder = changed(tmp_path / "folder", peft_type=kind)
    with pytest.raises(ValueError, match=f"{message}.*Received: peft_type='{kind}'"):
        kt.load_adapters(task("bert", "classifier"), folder)


def test_a_head_that_does_not_fit_the_task_is_a_clear_error_that_changes_nothing(tmp_path):
    folder = FOLDERS / "bert_classifier"
    bigger = kt.save_adapters(kt.load_adapters(task("bert", "classifier"), folder), tmp_path / "named", format="peft")
    for model, path, message in (
        (task("bert", "tokens"), folder, "a head for a different task from a `TokenClassifier`.*task_type='SEQ_CLS'"),
        (new(num_classes=4), folder, "same number of labels.*'classifier.weight'"),
        (
            new(num_classes=3, pooling="mean"),
            folder,
            r"loaded from a PEFT folder with a BertEncoder only if it has pooling='pooled'",
        ),
        (
            new(label_names=NAMES[::-1]),
            bigger,
            "labels of the file in the same order",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            kt.load_adapters(model, path)
        assert not model.encoder.adapters


UNSUPPORTED = {
    "alora_invocation_tokens": [3, 4],
    "bias": "all",
}


@pytest.mark.parametrize("key", UNSUPPORTED)
def test_settings_of_peft_that_would_change_the_outputs_are_refused_by_their_keys(key, tmp_path):
    folder = changed(tmp_path / "folder", **{key: UNSUPPORTED[key]})
    received = re.escape(str({key: UNSUPPORTED[key]}))
    with pytest.raises(ValueError, match=f"These settings of PEFT are not supported.*{key}.*Received: {received}"):
        kt.load_adapters(task("bert", "classifier"), folder)


def test_a_layer_of_another_size_is_one_clear_error(tmp_path):
    from safetensors.numpy import load_file, save_file

    folder = changed(tmp_path / "folder", "bert_classifier_saved")
    file = folder / "adapter_model.safetensors"
    tensors = load_file(file)
    tensors["base_model.model.bert.pooler.dense.weight"] = np.zeros((9, 8), "float32")
    save_file(tensors, file)
    with pytest.raises(ValueError, match=r"does not fit BertEncoder.*'pooler.dense.weight' of shape \(9, 8\) instead"):
        kt.load_adapters(task("bert", "classifier"), folder)


def test_a_module_that_is_adapted_and_copied_cannot_be_written_for_peft(tmp_path):
    kinds = ["lora:2,targets='outer'", "copies:block_0.feed_forward.outer"]
    model = randomize(kt.add_adapters(task("bert", "classifier"), kinds))
    with pytest.raises(ValueError, match="either saves a module as a whole or adds adapters.*layer.0.output.dense"):
        kt.save_adapters(model, tmp_path / "a", format="peft")


def test_a_head_that_transformers_does_not_have_cannot_be_written(tmp_path):
    model = kt.add_adapters(new(num_classes=3, pooling="mean"), "lora:r=2")
    with pytest.raises(ValueError, match="written for PEFT .*only if it has pooling='pooled'.*Pass `model.encoder`"):
        kt.save_adapters(model, tmp_path / "a", format="peft")
    model = kt.add_adapters(MaskedLM(models.encoder()), "lora:r=2")
    with pytest.raises(ValueError, match="head of a MaskedLM cannot be written for PEFT.*Pass `model.encoder`"):
        kt.save_adapters(model, tmp_path / "a", format="peft")
    kt.save_adapters(model.encoder, tmp_path / "a", format="peft")


# === Live ===


@pytest.fixture(scope="module")
def peft():
    if importlib.util.find_spec("triton") is not None:
        pytest.skip("triton cannot be loaded beside TensorFlow: install the CPU build of torch")
    reason = "compares with PEFT on torch: run `make test-parity`"
    pytest.importorskip("torch", reason=reason, exc_type=ImportError)
    return pytest.importorskip("peft", reason=reason)


AUTO = {"classifier": "AutoModelForSequenceClassification", "tokens": "AutoModelForTokenClassification"}


def logits_of_theirs(model):
    import torch

    inputs = {"input_ids": torch.tensor(IDS).long(), "attention_mask": torch.tensor(INPUTS["padding_mask"]).long()}
    with torch.no_grad():
        found = model.eval()(**inputs).logits.numpy()
    return found[IDS > 0] if found.ndim == 3 else found


@pytest.mark.parity
@pytest.mark.parametrize(
    "options", [{}, {"magnitude": True}, {"rank_stabilized": True}], ids=["lora", "dora", "rslora"]
)
@pytest.mark.parametrize("head", TASKS)
@pytest.mark.parametrize("kind", KINDS)
def test_peft_computes_the_same_with_a_folder_that_we_write(kind, head, options, peft, tmp_path):
    import transformers

    model = kt.add_adapters(
        task(kind, head), kt.LoRA(2, alpha=3, targets=["query", "value", "output", "inner", "outer"], **options)
    )
    randomize(model)
    random = np.random.default_rng(2)
    for weight in head_weights(model):
        weight.assign(random.normal(size=weight.shape))
    folder = kt.save_adapters(model, tmp_path / "lora", format="peft")
    auto = getattr(transformers, AUTO[head])
    theirs = auto.from_pretrained(base(kind, head), attn_implementation="eager")
    theirs = peft.PeftModel.from_pretrained(theirs, folder)
    np.testing.assert_allclose(logits(model), logits_of_theirs(theirs), rtol=0, atol=1e-5)

    # And back, after PEFT has written it.
    theirs.save_pretrained(tmp_path / "theirs")
    again = kt.load_adapters(task(kind, head), tmp_path / "theirs")
    np.testing.assert_allclose(logits(again), logits_of_theirs(theirs), rtol=0, atol=1e-5)
    assert len(adapter_weights(again.encoder, "default"))


@pytest.mark.parity
def test_ranks_and_scales_of_single_modules_are_read(peft, tmp_path):
    import torch
    import transformers

    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(HEADS / "bert_classifier")
    patterns = {"rank_pattern": {"query": 3}, "alpha_pattern": {"value": 7, "layer.0.output.dense": 1}}
    targets = ["query", "value", "output.dense"]
    config = peft.LoraConfig("SEQ_CLS", r=2, lora_alpha=5, target_modules=targets, **patterns)
    theirs = peft.get_peft_model(theirs, config)
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            if "lora_" in name or "modules_to_save" in name:
                parameter += torch.randn_like(parameter)
    theirs.save_pretrained(tmp_path / "theirs")
    model = kt.load_adapters(task("bert", "classifier"), tmp_path / "theirs")
    np.testing.assert_allclose(logits(model), logits_of_theirs(theirs), rtol=0, atol=1e-5)
