"""fastai's files of AWD-LSTMs against torch's LSTM, with the names of 2018, of fastai 1 and of its encoders alone."""

import pickle

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as numpy_of

from keras_transfer.checkpoints import CheckpointError
from keras_transfer.encoders import AWDLSTMEncoder
from keras_transfer.tasks import CausalLM, TextClassifier
from tests.errors import check_errors
from tests.helpers import encoder_inputs, outputs_of, save_and_load

torch = pytest.importorskip("torch")

ITOS = ["xxunk", "xxpad", "xxbos", "xxeos", "xxmaj", "xxup", "the", "film", "was", "good", "\n", "xxfake", "xxfake"]
DIM, UNITS, IDS = 3, 5, np.random.default_rng(0).integers(2, 11, (2, 6))


class Original(torch.nn.Module):
    """The language model, without the dropouts, which change nothing in inference."""

    def __init__(self, bias=True, tied=True):
        super().__init__()
        torch.manual_seed(0)
        self.encoder = torch.nn.Embedding(len(ITOS), DIM)
        self.lstms = torch.nn.ModuleList(
            [torch.nn.LSTM(*widths, batch_first=True) for widths in ((DIM, UNITS), (UNITS, DIM))]
        )
        self.decoder = torch.nn.Linear(DIM, len(ITOS), bias=bias)
        if tied:
            self.decoder.weight = self.encoder.weight

    def forward(self, ids):
        x = self.encoder(torch.as_tensor(ids))
        for lstm in self.lstms:
            x, _ = lstm(x)
        return self.decoder(x)


def names_of_fastai(model, table="encoder_dp.emb", raw="rnns.{i}.weight_hh_l0_raw", prefix="0."):
    """The state dict with fastai's names, in which dropout has left zeros in a copy of the recurrent weights."""
    state = {f"{prefix}encoder.weight": model.encoder.weight, f"{prefix}{table}.weight": model.encoder.weight}
    for i, lstm in enumerate(model.lstms):
        state[prefix + raw.format(i=i)] = lstm.weight_hh_l0
        for name, tensor in lstm.named_parameters():
            state[f"{prefix}rnns.{i}.module.{name}"] = torch.zeros_like(tensor) if name == "weight_hh_l0" else tensor
    if prefix == "0.":
        state |= {f"1.decoder.{name}": tensor for name, tensor in model.decoder.named_parameters()}
    return {name: tensor.detach().clone() for name, tensor in state.items()}


def write(folder, state, itos=ITOS, name="lstm_fwd.pth"):
    torch.save(state, folder / name)
    if itos is not None:
        (folder / "itos.pkl").write_bytes(pickle.dumps(itos))
    return folder


def logits_of(model):
    return outputs_of(model, encoder_inputs(model.encoder, IDS))


@pytest.mark.core
@pytest.mark.parametrize(
    ("options", "names", "file"),
    [
        ({}, {}, "lstm_fwd.pth"),
        (
            {"bias": False},
            {"table": "encoder_with_dropout.embed", "raw": "rnns.{i}.module.weight_hh_l0_raw"},
            "fwd_wt103.h5",
        ),
        ({"tied": False}, {}, "lstm_fwd.pth"),
    ],
    ids=["fastai 1", "2018", "a head of its own"],
)
def test_a_language_model_has_the_logits_of_torch(options, names, file, tmp_path):
    original = Original(**options)
    write(tmp_path, names_of_fastai(original, **names), name=file)
    model = CausalLM.from_pretrained(tmp_path, preprocessor=None)
    assert (model.tied, model.use_bias) == (options.get("tied", True), options.get("bias", True))
    np.testing.assert_allclose(logits_of(model), original(IDS).detach().numpy(), atol=1e-5)
    assert (model.encoder.units, model.encoder.num_layers, model.encoder.weight_dropout) == (UNITS, 2, 0.2)
    assert model.encoder.checkpoint_report.unused == []


@pytest.mark.report("A fine-tuned language model does not load into the classifier.", "multifit#83")
def test_files_of_learners_of_encoders_and_of_classifiers_have_the_same_encoder(tmp_path):
    original = Original()
    states = {
        "learner": {"model": names_of_fastai(original), "opt": {"lr": [0.1]}},
        "encoder": names_of_fastai(original, prefix=""),
        "classifier": {**names_of_fastai(original, prefix="0.module."), "1.layers.0.weight": torch.zeros(9)},
    }
    for kind, state in states.items():
        (tmp_path / kind).mkdir()
        write(tmp_path / kind, state, itos=None)
        encoder = AWDLSTMEncoder.from_pretrained(tmp_path / kind, reverse=True, weight_dropout=0.5)
        kernel = numpy_of(encoder.blocks[1].cell.recurrent_kernel).T
        np.testing.assert_array_equal(kernel, original.lstms[1].weight_hh_l0.detach().numpy())
    assert encoder.checkpoint_report.unused == ["1.layers.0.weight"]


@pytest.mark.usefixtures("eagerly")
def test_prepared_texts_are_read_and_written_and_kept_by_folders_and_keras_files(tmp_path):
    (tmp_path / "fastai").mkdir()
    model = CausalLM.from_pretrained(write(tmp_path / "fastai", names_of_fastai(Original())))
    text = "xxbos xxmaj the film"
    expected, scores = logits_of(model), model.score([text]).log_likelihoods
    assert model.preprocessor(text)["token_ids"].numpy()[:5].tolist() == [2, 4, 6, 7, 1]
    assert set(model.generate(text, max_new_tokens=3, end_token=None).split()) <= set(ITOS)
    model.save_pretrained(tmp_path / "ours")
    for loaded in (CausalLM.from_pretrained(tmp_path / "ours"), save_and_load(model)):
        np.testing.assert_array_equal(logits_of(loaded), expected)
        np.testing.assert_array_equal(loaded.score([text]).log_likelihoods, scores)
    classifier = TextClassifier.from_pretrained(tmp_path / "fastai", label_names=["x", "y"], pooling="concat")
    classifier.predict_labels([text])
    with pytest.raises(Exception, match="must be its tokens, and begin with xxbos"):
        classifier.predict_labels(["The film"])


def load(tmp_path, change=lambda state: state, task=CausalLM, itos=ITOS, **arguments):
    return task.from_pretrained(write(tmp_path, change(names_of_fastai(Original())), itos), **arguments)


def renamed(old, new):
    return lambda state: {name.replace(old, new): tensor for name, tensor in state.items()}


test_mistakes_are_clear_errors = check_errors(
    (lambda tmp_path: load(tmp_path, itos=None), "must have a *.pkl with the vocabulary (itos)"),
    (
        lambda tmp_path: load(tmp_path, itos=ITOS[:-1], preprocessor=None),
        "each of the 13 embeddings. Received: 12 tokens",
    ),
    (lambda tmp_path: load(tmp_path, itos=["_unk_", *ITOS[1:]]), "must have the tokens of fastai 1. ... no xxunk"),
    (lambda tmp_path: load(tmp_path, itos=keras.Model), "must contain plain lists and strings only. Received: keras"),
    (lambda tmp_path: load(tmp_path, itos={"a": 1}), "must contain a list of strings. Received: {'a': 1}"),
    (
        lambda tmp_path: load(tmp_path, renamed("module.weight", "layers.0.linear"), preprocessor=None),
        "unexpected: rnns.0.layers.0.linear_hh_l0",
    ),
    (
        lambda tmp_path: load(tmp_path, renamed("rnns", "layers"), preprocessor=None),
        "must have the weights of fastai's AWD_LSTM, without QRNNs",
    ),
    (
        lambda tmp_path: load(tmp_path, lambda state: {**state, "0.encoder_dp.emb.weight": torch.ones(13, 3)}),
        "unexpected: encoder_dp.emb.weight",
    ),
    (
        lambda tmp_path: load(
            tmp_path, lambda state: {**state, "1.layers.1.weight": torch.ones(2)}, TextClassifier, pooling="mean"
        ),
        "The head 'classifier' of ... cannot be loaded ... Received: ['1.layers.1.weight']",
    ),
    error=CheckpointError,
)
