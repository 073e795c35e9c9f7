"""Each encoder-decoder against small checkpoints of its original: vectors, logits, generated ids and saved files."""

import json

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy
from safetensors.numpy import load_file

from keras_transfer import encoders
from keras_transfer.adaptation import layer_groups
from keras_transfer.encoders import T5, Encoder, T5Encoder, TransformerEncoder
from keras_transfer.generation import BeamSearch
from keras_transfer.tasks import Seq2SeqLM
from tests.errors import check_errors
from tests.helpers import EAGER, save_and_load
from tests.samples import REFERENCES

FOLDER = REFERENCES / "sequence_to_sequence"
CLASSES = {
    "bart": "Bart",
    "bart_scaled": "Bart",
    "bert2bert": "ComposedEncoderDecoder",
    "bert2gpt2": "ComposedEncoderDecoder",
    "bert_shared": "ComposedEncoderDecoder",
    "marian": "Marian",
    "mbart": "MBart",
    "mt5": "T5",
    "pegasus": "Pegasus",
    "roberta_shared": "ComposedEncoderDecoder",
    "t5": "T5",
    "t5_gated": "T5",
}
OF_EACH_KIND = ("bart", "bert2gpt2", "t5_gated")  # The loop of generation is the same for all.
GENERATED = {"greedy": {}, "beam": {"sampler": BeamSearch(4, length_penalty=2.0), "no_repeat_ngram": 2}}
RATE = 1024.0  # of a step whose gradients are compared, so that the change is not small beside the weights
SMALL = {"num_layers": 2, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
IDS = {
    "token_ids": np.array([[5, 6, 7, 1], [8, 1, 0, 0]]),
    "padding_mask": np.array([[1, 1, 1, 1], [1, 1, 0, 0]]),
    "decoder_token_ids": np.array([[0, 3, 4], [0, 9, 2]]),
    "decoder_padding_mask": np.ones((2, 3), "int32"),
}


@pytest.fixture(scope="module", params=CLASSES)
def loaded(request):
    """The name of a fixture, its task, and what the original computes."""
    folder = FOLDER / request.param
    return request.param, Seq2SeqLM.from_pretrained(folder, preprocessor=None), dict(np.load(folder / "outputs.npz"))


@pytest.mark.core
def test_vectors_and_logits_are_as_exact_as_those_of_the_original(loaded):
    name, model, expected = loaded
    assert type(model.encoder) is getattr(encoders, CLASSES[name]) and model.encoder.checkpoint_report.unused == []
    inputs = {key: value for key, value in expected.items() if key.endswith(("token_ids", "padding_mask"))}
    inputs |= {key: np.zeros_like(inputs["token_ids"]) for key in model.input if key not in inputs}  # BERT's segments
    outputs = model.encoder(inputs)
    found = {
        "encoder": (outputs["sequence_output"], inputs["padding_mask"]),
        "decoder": (outputs["decoder_sequence_output"], inputs["decoder_padding_mask"]),
        "logits": (model(inputs), inputs["decoder_padding_mask"]),
    }
    for (key, (ours, mask)), error in zip(found.items(), expected["errors"], strict=True):
        real = mask == 1
        # Where the original in float32 is further from float64 than 1e-5, ours may be twice as far as the original.
        difference = np.abs(to_numpy(ours) - expected[key])[real].max()
        assert difference <= max(1e-5, 2 * error), (key, difference, error)


@pytest.mark.core
@pytest.mark.parametrize(
    "loaded",
    [pytest.param(name, marks=[pytest.mark.slow] * (name not in OF_EACH_KIND)) for name in CLASSES],
    indirect=True,
    scope="module",
)
def test_continuations_are_those_of_the_original(loaded, traced):
    name, model, _ = loaded
    found = json.loads((FOLDER / name / "generated.json").read_text())
    # `test_continuations.py` has the constraints and early stops. On JAX, each case compiles a loop.
    for case in GENERATED if name in ("bart", "t5_gated") else ("beam",):
        # One batch, so that each case is compiled for one length of sources.
        ours = model.generate(found["sources"], max_new_tokens=12, batch_size=len(found["sources"]), **GENERATED[case])
        assert ours == found["generated"][case], case


@pytest.mark.core
@pytest.mark.parametrize("name", ["t5", "t5_gated", "bart"])
def test_all_gradients_of_a_step_are_those_of_the_original(name, tmp_path):
    expected, arrays = (dict(np.load(FOLDER / name / f"{file}.npz")) for file in ("gradients", "outputs"))
    model = Seq2SeqLM.from_pretrained(FOLDER / name, preprocessor=None, encoder={"dropout": 0.0})
    model.compile(keras.optimizers.SGD(RATE), metrics=[], run_eagerly=EAGER)
    inputs = {key: arrays[key] for key in model.input}
    targets, mask = np.roll(inputs["decoder_token_ids"], -1, axis=1), inputs["decoder_padding_mask"]
    loss = model.train_on_batch(inputs, targets, sample_weight=mask.astype("float32"))
    np.testing.assert_allclose(loss, expected.pop("loss"), rtol=1e-5)
    model.save_pretrained(tmp_path / "after")
    before, after = (load_file(folder / "model.safetensors") for folder in (FOLDER / name, tmp_path / "after"))
    assert expected.keys() == after.keys()
    largest = max(np.abs(gradient).max() for gradient in expected.values())
    for path, gradient in expected.items():
        # Biases of keys have no effect: attention ignores a shift of all keys.
        bound = max(1e-4 * np.abs(gradient).max(), 1e-6 * largest)
        difference = np.abs((before[path].astype("float64") - after[path]) / RATE - gradient).max()
        assert difference <= bound, (path, difference, bound)


def test_saved_files_are_bit_identical(loaded, tmp_path):
    name, model, _ = loaded
    model.save_pretrained(tmp_path / "saved")
    saved, theirs = (load_file(folder / "model.safetensors") for folder in (tmp_path / "saved", FOLDER / name))
    buffers = {key for key in theirs if "embed_positions" in key and name in ("pegasus", "marian")}
    assert saved.keys() == theirs.keys() - buffers
    for key, value in saved.items():
        np.testing.assert_array_equal(value, theirs[key], err_msg=key)
    again = Seq2SeqLM.from_pretrained(tmp_path / "saved", preprocessor=None)
    assert again.tied == model.tied == (name != "t5_gated")
    assert again.encoder.get_config() == {**model.encoder.get_config(), "name": again.encoder.name} or name == "mt5"


@pytest.mark.parametrize("name", [*(pytest.param(name, marks=pytest.mark.core) for name in ("T5", "Bart")), "Pegasus"])
def test_steps_with_a_cache_are_a_call(name):
    model = getattr(encoders, name)(20, **SMALL)
    expected = to_numpy(model(IDS)["decoder_sequence_output"])
    context = model.encode_context({key: IDS[key] for key in ("token_ids", "padding_mask")})
    cache, found = model.empty_cache(2, 5), []
    for place in range(3):
        vectors, cache = model.step(IDS["decoder_token_ids"][:, place : place + 1], cache, place, context=context)
        found.append(to_numpy(vectors))
    np.testing.assert_allclose(np.concatenate(found, axis=1), expected, atol=1e-5)
    assert all(block.keys() == {"attention"} for block in cache)


def test_an_encoder_decoder_survives_keras_files_and_its_groups_have_all_weights():
    model = T5(20, **SMALL, head_dim=4, gated=True, activation="gelu_tanh", num_decoder_layers=1)
    again = save_and_load(model)
    assert again.get_config() == model.get_config()
    np.testing.assert_array_equal(*(to_numpy(each(IDS)["decoder_sequence_output"]) for each in (model, again)))
    groups = layer_groups(model)
    names = ["embeddings", "block_0", "block_1", "final_norm"]
    wanted = [f"encoder_{name}" for name in names] + [f"decoder_{name}" for name in names if name != "block_1"]
    assert [group.name for group in groups] == wanted
    assert sum(len(group.variables) for group in groups) == len(model.weights)


def test_the_encoder_alone_is_an_encoder_and_a_checkpoint_of_its_own(tmp_path):
    alone = T5Encoder.from_pretrained(FOLDER / "t5_gated")
    whole = Encoder.from_pretrained(FOLDER / "t5_gated")
    inputs = {key: IDS[key] for key in ("token_ids", "padding_mask")}
    expected = to_numpy(whole(IDS)["sequence_output"])
    np.testing.assert_array_equal(to_numpy(alone(inputs)["sequence_output"]), expected)
    alone.save_pretrained(tmp_path / "saved")
    again = Encoder.from_pretrained(tmp_path / "saved")
    assert type(again) is T5Encoder
    np.testing.assert_array_equal(to_numpy(again(inputs)["sequence_output"]), expected)
    config = json.loads((tmp_path / "saved" / "config.json").read_text())
    assert config["architectures"] == ["T5EncoderModel"]


def _folder(tmp_path, name, **changes):
    """A copy of a fixture with another configuration."""
    folder = tmp_path / "changed"
    folder.mkdir(exist_ok=True)
    config = json.loads((FOLDER / name / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))
    (folder / "model.safetensors").write_bytes((FOLDER / name / "model.safetensors").read_bytes())
    return folder


test_mistakes_are_errors = check_errors(
    (
        lambda tmp_path: Encoder.from_pretrained(_folder(tmp_path, "bart", normalize_before=True)),
        "`normalize_before` must be False. Received: True",
    ),
    (lambda: T5(20, **SMALL).step(np.array([[0]]), [], 0), "requires `context`"),
    (
        lambda: Seq2SeqLM(TransformerEncoder(20, causal=True, **SMALL)),
        "`encoder` must be an `EncoderDecoder`, such as `T5` or `Bart`",
    ),
    (
        lambda: Seq2SeqLM(T5(20, **SMALL), tied=False),
        "Create the encoder with `scale_outputs=False`",
    ),
)
test_an_encoder_names_the_tasks_that_generate = pytest.mark.core(
    check_errors(
        (
            lambda: T5(20, **SMALL).generate([[1, 2]], max_new_tokens=3),
            AttributeError,
            "`kt.tasks.Seq2SeqLM(encoder, preprocessor).generate(...)` ... Received: `generate` of T5",
        ),
    )
)
