"""Heads of checkpoints: what Transformers has fine-tuned or pretrained is loaded, and written back."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from keras_transfer.checkpoints import CheckpointError
from keras_transfer.encoders import BertEncoder, GPT2Encoder
from keras_transfer.tasks import (
    BertPretraining,
    MaskedLM,
    MultipleChoice,
    ReplacedTokenDetection,
    SpanExtractor,
    TextClassifier,
    TextRegressor,
    TokenClassifier,
)
from keras_transfer.text import BertPreprocessor
from tests.checkpoints.folders import bert_tensors, write_bert
from tests.helpers import outputs_of
from tests.samples import REFERENCES

HEADS = REFERENCES / "heads"
SMALL = {"vocabulary_size": 12, "num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
NAMES = ["bad", "fine", "good"]


def load(cls, name, **options):
    """Returns a task from a reference folder, which has no vocabulary."""
    return cls.from_pretrained(HEADS / name, preprocessor=None, **options)


def copy(name, folder, tensors=None, **config):
    """Copies a reference folder with another configuration, of which None leaves a key out."""
    folder.mkdir()
    found = {**json.loads((HEADS / name / "config.json").read_text()), **config}
    (folder / "config.json").write_text(json.dumps({key: value for key, value in found.items() if value is not None}))
    save_file(tensors or load_file(HEADS / name / "model.safetensors"), folder / "model.safetensors")
    return folder


def logits_of(model, outputs):
    inputs = {name: outputs[name] for name in model.input if name in outputs}
    if "mask_positions" in model.input:
        length = inputs["token_ids"].shape[1]
        inputs["mask_positions"] = np.tile(np.arange(length, dtype="int32"), (len(inputs["token_ids"]), 1))
    if "answer_mask" in model.input:
        return np.swapaxes(outputs_of(model, {**inputs, "answer_mask": inputs["padding_mask"]}), 1, 2)
    found = outputs_of(model, inputs)
    return found["masked_tokens"] if isinstance(found, dict) else found


TASKS = {
    "classifier": TextClassifier,
    "tokens": TokenClassifier,
    "masked_lm": MaskedLM,
    "pretraining": BertPretraining,
    "replaced_token": ReplacedTokenDetection,
    "multiple_choice": MultipleChoice,
    "span": SpanExtractor,
}


# A head is the same layer over each encoder.
CORE = ("albert_pretraining", "bert_span", "deberta-v2_masked_lm", "xlnet_classifier")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.core] * (name in CORE)) for name in sorted(p.name for p in HEADS.iterdir())],
)
def test_a_head_of_transformers_is_loaded_and_written_back(name, tmp_path):
    model, outputs = load(TASKS[name.partition("_")[2]], name), dict(np.load(HEADS / name / "outputs.npz"))
    logits, real = logits_of(model, outputs), outputs["padding_mask"] == 1
    expected = outputs["logits"]
    keep = real if logits.shape[:2] == real.shape else slice(None)
    np.testing.assert_allclose(logits[keep], expected[keep], rtol=0, atol=1e-5)
    assert model.encoder.checkpoint_report.unused == []

    model.save_pretrained(tmp_path / "saved")
    theirs, ours = (load_file(folder / "model.safetensors") for folder in (HEADS / name, tmp_path / "saved"))
    assert ours.keys() == theirs.keys()
    for key, value in theirs.items():
        np.testing.assert_array_equal(ours[key], value, err_msg=key)
    theirs, ours = (json.loads((folder / "config.json").read_text()) for folder in (HEADS / name, tmp_path / "saved"))
    shared = {key for key in theirs.keys() & ours.keys() if theirs[key] is not None}
    assert {key: ours[key] for key in shared} == {key: theirs[key] for key in shared}


def test_the_names_of_the_labels_are_those_of_the_checkpoint():
    assert load(TextClassifier, "bert_classifier").label_names == NAMES
    assert load(TokenClassifier, "bert_tokens").label_names == NAMES
    model = load(TextClassifier, "bert_classifier", num_classes=3, label_names=NAMES, dropout=0.3)
    assert (model.num_classes, model.dropout) == (3, 0.3)


def test_labels_without_names_can_be_named():
    assert load(TextClassifier, "roberta_classifier").label_names == ["LABEL_0", "LABEL_1"]
    assert load(TextClassifier, "roberta_classifier", label_names=["no", "yes"]).label_names == ["no", "yes"]


@pytest.mark.parametrize(
    ("cls", "name", "options", "expected"),
    [
        (TextClassifier, "bert_classifier", {"num_classes": 2}, "num_classes=3"),
        (TextClassifier, "bert_classifier", {"label_names": ["a", "b"]}, "label_names=['bad', 'fine', 'good']"),
        (TextClassifier, "roberta_classifier", {"label_names": NAMES}, "label_names=['LABEL_0', 'LABEL_1']"),
        (TextClassifier, "bert_classifier", {"pooling": "mean"}, "pooling='pooled'"),
        (TextClassifier, "modernbert_classifier", {"pooling": "first"}, "pooling='mean'"),
        (TextClassifier, "deberta-v2_classifier", {"hidden_activation": "tanh"}, "hidden_activation='gelu'"),
        (MaskedLM, "modernbert_masked_lm", {"use_bias": True}, "use_bias=False"),
        (TokenClassifier, "bert_tokens", {"label_names": NAMES[::-1]}, "label_names=['bad', 'fine', 'good']"),
    ],
)
def test_arguments_that_contradict_the_head_are_an_error(cls, name, options, expected):
    with pytest.raises(CheckpointError) as error:
        load(cls, name, **options)
    [(argument, value)] = options.items()
    assert str(error.value) == (
        f'The head of {HEADS / name} has {expected}. Leave the argument out, or pass `head="new"` for a new head, '
        f"which is not trained yet. Received: {argument}={value!r}"
    )


def test_a_new_head_replaces_that_of_the_checkpoint():
    model = load(TextClassifier, "bert_classifier", head="new", num_classes=2, pooling="mean")
    assert (model.num_classes, model.pooling, model.label_names) == (2, "mean", ["0", "1"])
    assert model.encoder.checkpoint_report.unused == ["classifier.bias", "classifier.weight"]


def test_a_folder_without_a_head_needs_an_argument_for_a_new_one(tmp_path):
    folder = write_bert(tmp_path / "bert")
    for cls, advice in (
        (TextClassifier, "`num_classes` or `label_names` or `labels`"),
        (TokenClassifier, "`label_names` or `labels`"),
        (MaskedLM, '`head="new"`'),
        (SpanExtractor, '`head="new"`'),
    ):
        with pytest.raises(CheckpointError, match=f"has no head for a {cls.__name__}. Pass {advice} for a new one"):
            cls.from_pretrained(folder, preprocessor=None)
    assert TextClassifier.from_pretrained(folder, preprocessor=None, label_names=NAMES).num_classes == 3
    assert MaskedLM.from_pretrained(folder, preprocessor=None, head="new").output.shape[-1] == 12
    with pytest.raises(ValueError, match="`head` must be one of \\(None, 'new'\\).*Received: head='old'"):
        MaskedLM.from_pretrained(folder, preprocessor=None, head="old")


def test_the_head_of_another_task_is_not_loaded_and_named_in_the_error():
    with pytest.raises(CheckpointError, match=r"no head for a TextClassifier.*\['classifier.bias', 'classifier.weight"):
        load(TextClassifier, "bert_tokens")
    model = load(TextClassifier, "bert_tokens", num_classes=2, pooling="mean")
    assert model.encoder.checkpoint_report.unused == ["classifier.bias", "classifier.weight"]


def test_a_head_for_the_task_that_is_not_supported_is_an_error_unless_a_new_one_is_wanted(tmp_path):
    encoder, folder = GPT2Encoder(**SMALL), tmp_path / "gpt2"
    encoder.save_pretrained(folder)
    tensors = {f"transformer.{name}": value for name, value in load_file(folder / "model.safetensors").items()}
    tensors |= {f"{name}.weight": np.ones((2, 8), "f4") for name in ("score", "classifier")}
    save_file(tensors, folder / "model.safetensors")
    for cls, name, tensor in ((TextClassifier, "classifier", "score"), (TokenClassifier, "tokens", "classifier")):
        options = {"preprocessor": None, "label_names": ["no", "yes"]}
        with pytest.raises(CheckpointError, match=rf"The head '{name}' of .*'gpt2'.*Received: \['{tensor}.weight'\]"):
            cls.from_pretrained(folder, **options)
        assert cls.from_pretrained(folder, head="new", **options).label_names == ["no", "yes"]


def test_a_folder_of_the_whole_pretraining_has_the_head_of_the_language_model(tmp_path):
    for name, model_class in (("albert_masked_lm", "AlbertForPreTraining"), ("bert_masked_lm", "BertForPreTraining")):
        model = MaskedLM.from_pretrained(copy(name, tmp_path / name, architectures=[model_class]), preprocessor=None)
        assert model.encoder.checkpoint_report.unused == []


def test_the_tensors_decide_whether_there_is_the_head_of_the_whole_pretraining(tmp_path):
    folder = copy("bert_pretraining", tmp_path / "copy", architectures=["BertForMaskedLM"])  # as bert-base-uncased
    assert BertPretraining.from_pretrained(folder, preprocessor=None).encoder.checkpoint_report.unused == []
    with pytest.raises(CheckpointError, match="has no head for a BertPretraining"):
        load(BertPretraining, "bert_masked_lm")


def test_the_legacy_names_of_the_language_model_of_deberta_are_read(tmp_path):
    stem = "lm_predictions.lm_head."
    names = {f"{stem}{part}": f"cls.predictions.transform.{part}" for part in ("dense", "LayerNorm")}
    tensors = {}
    for key, value in load_file(HEADS / "deberta-v2_masked_lm" / "model.safetensors").items():
        layer, _, kind = key.rpartition(".")
        tensors[f"{names[layer]}.{kind}" if layer in names else key.replace(stem, "cls.predictions.")] = value
    folder, outputs = tmp_path / "legacy", dict(np.load(HEADS / "deberta-v2_masked_lm" / "outputs.npz"))
    copy("deberta-v2_masked_lm", folder, tensors, legacy=True)
    model = MaskedLM.from_pretrained(folder, preprocessor=None)
    real = outputs["padding_mask"] == 1
    np.testing.assert_allclose(logits_of(model, outputs)[real], outputs["logits"][real], rtol=0, atol=1e-5)
    model.save_pretrained(tmp_path / "saved")
    assert json.loads((tmp_path / "saved" / "config.json").read_text())["legacy"] is False


def test_a_head_that_reads_another_place_of_the_text_is_an_error(tmp_path):
    folder = copy("xlnet_classifier", tmp_path / "copy", summary_type="first")
    with pytest.raises(CheckpointError, match=r"`summary_type` must be one of \['last'\]. Received: 'first'"):
        TextClassifier.from_pretrained(folder, preprocessor=None)
    assert TextClassifier.from_pretrained(folder, preprocessor=None, head="new", num_classes=3).pooling == "mean"
    folder = copy("modernbert_classifier", tmp_path / "first", classifier_pooling="cls")
    assert TextClassifier.from_pretrained(folder, preprocessor=None).pooling == "first"


def test_a_length_for_a_preprocessor_of_ones_own_is_an_error():
    with pytest.raises(ValueError, match="Pass it to your own preprocessor.*Received: sequence_length=8, preprocessor"):
        load(TextClassifier, "bert_classifier", sequence_length=8)


def test_without_a_class_in_the_configuration_the_tensors_decide(tmp_path):
    for name, cls in (("bert_classifier", TextClassifier), ("roberta_classifier", TextClassifier)):
        folder = copy(name, tmp_path / name, architectures=None)
        assert cls.from_pretrained(folder, preprocessor=None).num_classes == len(load(cls, name).label_names)
    with pytest.raises(CheckpointError, match="no head for a TokenClassifier"):
        TokenClassifier.from_pretrained(tmp_path / "roberta_classifier", preprocessor=None)


@pytest.mark.parametrize(
    ("id2label", "received"),
    [({"0": "bad"}, "id2label={'0': 'bad'}"), ({"0": "a", "1": "b", "3": "c"}, "'3': 'c'"), (["a", "b", "c"], "'a'")],
)
def test_names_that_do_not_match_the_head_are_an_error(id2label, received, tmp_path):
    folder = copy("bert_classifier", tmp_path / "copy", id2label=id2label)
    with pytest.raises(CheckpointError, match=rf"must name the 3 labels of its head.*Received: .*{received}"):
        TextClassifier.from_pretrained(folder, preprocessor=None)


def test_a_damaged_head_is_one_error_that_lists_all_problems(tmp_path):
    tensors = load_file(HEADS / "bert_masked_lm" / "model.safetensors")
    tensors["cls.predictions.biases"] = tensors.pop("cls.predictions.bias")[:5]
    tensors["cls.predictions.decoder.weight"] = tensors["cls.predictions.transform.dense.weight"].copy()
    folder = copy("bert_masked_lm", tmp_path / "copy", tensors)
    with pytest.raises(CheckpointError) as error:
        MaskedLM.from_pretrained(folder, preprocessor=None)
    assert str(error.value).splitlines() == [
        f"The tensors of the head of {folder} do not match the encoder:",
        "  missing: cls.predictions.bias (12,) (nearest: cls.predictions.biases)",
        "  unexpected: cls.predictions.biases",
        "  unexpected: cls.predictions.decoder.weight",
    ]


def test_a_head_for_several_labels_of_a_text_loads_as_one(tmp_path):
    folder = copy("bert_classifier", tmp_path / "copy", problem_type="multi_label_classification")
    model = TextClassifier.from_pretrained(folder, preprocessor=None)
    assert (
        model.multi_label
        and not TextClassifier.from_pretrained(HEADS / "bert_classifier", preprocessor=None).multi_label
    )


def test_a_head_with_one_output_is_that_of_a_regressor(tmp_path):
    tensors = load_file(HEADS / "bert_classifier" / "model.safetensors")
    tensors |= {f"classifier.{part}": tensors[f"classifier.{part}"][:1].copy() for part in ("weight", "bias")}
    folder = copy("bert_classifier", tmp_path / "copy", tensors, id2label={"0": "score"})
    with pytest.raises(CheckpointError, match=r"problem_type='regression', classifier.weight with 1 row$"):
        TextClassifier.from_pretrained(folder, preprocessor=None)
    assert TextRegressor.from_pretrained(folder, preprocessor=None).num_targets == 1


def test_a_head_that_transformers_would_compute_otherwise_is_not_written(tmp_path):
    encoder, folder = BertEncoder(**SMALL), tmp_path / "saved"
    advice = r"encoder alone with `model.encoder.save_pretrained\(folder, model.preprocessor\)`.*Received: "
    for model, received in (
        (TextClassifier(encoder, num_classes=2, pooling="mean"), "pooling='pooled'.*pooling='mean'"),
        (
            TextClassifier(encoder, num_classes=2, hidden_activation="tanh"),
            "hidden_activation=None.*hidden_activation='tanh'",
        ),
        (MaskedLM(encoder, activation="relu"), "activation='gelu'.*activation='relu'"),
        (MaskedLM(encoder, use_bias=False), "use_bias=True.*use_bias=False"),
        (
            TokenClassifier(encoder, label_names=NAMES, hidden_activation="gelu"),
            "hidden_activation=None.*hidden_activation='gelu'",
        ),
    ):
        expected, got = received.split(".*")
        with pytest.raises(CheckpointError, match=f"only if it has {expected}.*{advice}{got}"):
            model.save_pretrained(folder)
    with pytest.raises(CheckpointError, match="cannot be written with its `scalar_mix`"):
        TokenClassifier(encoder, label_names=NAMES, scalar_mix=True).save_pretrained(folder)
    assert not folder.exists()


def test_a_saved_task_loads_with_its_head_and_its_names(tmp_path):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefg"]
    model = TextClassifier(
        BertEncoder(**SMALL), label_names=["no", "yes"], preprocessor=BertPreprocessor(words, sequence_length=8)
    )
    model.save_pretrained(tmp_path / "saved")
    again = TextClassifier.from_pretrained(tmp_path / "saved")
    assert (again.label_names, again.pooling, again.dropout) == (["no", "yes"], "pooled", 0.1)
    np.testing.assert_array_equal(again(["a b", "c"]), model(["a b", "c"]))


def test_a_google_checkpoint_has_the_head_of_its_pretraining(data_dir):
    model = MaskedLM.from_pretrained(data_dir("bert_tf_ckpt_fixture"), preprocessor=None)
    assert not [name for name in model.encoder.checkpoint_report.unused if "predictions" in name]


def test_tokenizer_files_with_more_tokens_than_the_embedding_are_an_error(tmp_path):
    tensors = {**bert_tensors(), "classifier.weight": np.ones((2, 8), "f4"), "classifier.bias": np.ones(2, "f4")}
    folder = write_bert(tmp_path / "bert", tensors, architectures=["BertForSequenceClassification"])
    BertPreprocessor(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghij"], sequence_length=8).save(folder)
    with pytest.raises(ValueError, match="must not be larger than the encoder's embedding.*12 rows.*14 tokens"):
        TextClassifier.from_pretrained(folder)
