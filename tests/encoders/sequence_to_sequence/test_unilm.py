"""An encoder that reads a source and writes its target: what sees what, its steps, and raw texts in a `Seq2SeqLM`."""

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_transfer.adaptation import add_adapters, freeze, layer_groups
from keras_transfer.encoders import BertEncoder, RobertaEncoder, T5Encoder, TransformerEncoder, UniLM
from keras_transfer.layers import attention_pattern
from keras_transfer.objectives import PrefixLM
from keras_transfer.optimizers import FusedAdamW
from keras_transfer.tasks import Seq2SeqLM
from tests.errors import check_errors
from tests.helpers import eager, in_graph, outputs_of, save_and_load
from tests.tasks.tiny import VOCABULARY, preprocessor

SMALL = {"num_layers": 2, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32, "dropout": 0.0}
IDS = {
    "token_ids": np.array([[5, 6, 7, 1], [8, 1, 0, 0]]),
    "padding_mask": np.array([[1, 1, 1, 1], [1, 1, 0, 0]]),
    "decoder_token_ids": np.array([[2, 3, 4], [2, 9, 2]]),
    "decoder_padding_mask": np.ones((2, 3), "int32"),
}
ENCODERS = {
    "bert": lambda: BertEncoder(20, **SMALL, max_sequence_length=16),
    "roberta": lambda: RobertaEncoder(20, **SMALL, max_sequence_length=16),
    "pre": lambda: TransformerEncoder(20, **SMALL, norm="pre"),
}


def given(model):
    return {name: IDS.get(name, np.zeros_like(IDS["token_ids"])) for name in model.input}


def test_a_target_continues_its_source_in_the_row_of_the_encoder():
    keras.utils.set_random_seed(0)
    further = BertEncoder(20, **SMALL, max_sequence_length=16, further_inputs=["attention_mask"])
    model = UniLM(BertEncoder(20, **SMALL, max_sequence_length=16))
    for ours, theirs in zip(model.encoder.weights, further.weights, strict=True):
        theirs.assign(to_numpy(ours))
    rows = [[5, 6, 7, 1, 2, 3, 4], [8, 1, 2, 9, 2, 0, 0]]
    segments = np.array([[0, 0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 0, 0]])
    inputs = {
        "token_ids": np.array(rows),
        "segment_ids": segments,
        "padding_mask": np.array([[1] * 7, [1] * 5 + [0] * 2]),
    }
    mask = attention_pattern("sequence_to_sequence", inputs["padding_mask"], segments)
    expected = outputs_of(further, {**inputs, "attention_mask": to_numpy(mask)})["sequence_output"]
    found = outputs_of(model, given(model))["decoder_sequence_output"]
    for layer in model.decoder.output_transform:
        expected = to_numpy(layer(expected))
    np.testing.assert_allclose(found[0], expected[0, 4:], atol=1e-5)
    np.testing.assert_allclose(found[1], expected[1, 2:5], atol=1e-5)


@pytest.mark.parametrize("name", ENCODERS)
def test_steps_with_a_cache_are_a_call_also_after_saving(name):
    keras.utils.set_random_seed(0)
    model = UniLM(ENCODERS[name]())
    again = save_and_load(model)
    assert again.get_config() == model.get_config() and len(again.weights) == len(model.weights)
    expected = outputs_of(model, given(model))["decoder_sequence_output"]
    context = again.encode_context({key: IDS[key] for key in ("token_ids", "padding_mask")})
    cache, found = again.empty_cache(2, 3), []
    for place in range(3):
        vectors, cache = again.step(IDS["decoder_token_ids"][:, place : place + 1], cache, place, context=context)
        found.append(to_numpy(vectors))
    np.testing.assert_allclose(np.concatenate(found, axis=1), expected, atol=1e-5)
    both, _ = again.step(IDS["decoder_token_ids"], again.empty_cache(2, 3), 0, context=context)
    np.testing.assert_allclose(to_numpy(both), expected, atol=1e-5)


def test_all_layers_are_those_of_the_encoder_but_the_new_ones_before_the_logits():
    encoder = ENCODERS["bert"]()
    model = UniLM(encoder)
    assert model.encoder is encoder and model.max_sequence_length == 8
    assert len(model.weights) == len(encoder.weights) + 4
    groups = layer_groups(model)
    assert sum(len(group.variables) for group in groups) == len(model.weights)
    assert [group.name for group in groups if not group.pretrained] == ["decoder_output_transform"]
    task = freeze(Seq2SeqLM(model), "pretrained")
    assert {layer.path.split("/")[0] for layer in task.trainable_weights} == {
        "decoder_output_dense",
        "decoder_output_norm",
    }


def test_attention_weights_are_those_of_source_target_and_between_them():
    model = UniLM(ENCODERS["bert"]())
    found = {name: to_numpy(weights[1]) for name, weights in model.attention_weights(given(model)).items()}
    assert {name: weights.shape[2:] for name, weights in found.items()} == {
        "encoder": (4, 4),
        "decoder": (3, 3),
        "cross": (3, 4),
    }
    np.testing.assert_allclose(found["encoder"][0].sum(-1), 1, atol=1e-5)
    np.testing.assert_allclose(found["decoder"].sum(-1) + found["cross"].sum(-1), 1, atol=1e-5)
    assert not np.triu(found["decoder"], 1).any() and not found["cross"][1, :, :, 2:].any()


def task(**options):
    keras.utils.set_random_seed(0)
    encoder = UniLM(BertEncoder(len(VOCABULARY), **{**SMALL, "num_layers": 1}, max_sequence_length=32))
    for weight in encoder.weights:  # Tiny layers learn slowly from the small values with which BERT begins.
        weight.assign(5 * weight if weight.path.endswith(("kernel", "embeddings")) else weight)
    return Seq2SeqLM(encoder, preprocessor(sequence_length=16), max_new_tokens=6, **options)


def texts():
    random = np.random.default_rng(0)
    letters = random.choice(list("abcdefghij"), 64)
    return [" ".join([letter] * count) for letter, count in zip(letters, random.integers(1, 5, 64))], letters.tolist()


@pytest.fixture(scope="module")
def trained():
    model = task()
    model.compile(FusedAdamW(1e-2))
    model.fit(*texts(), epochs=20, batch_size=16, verbose=0)
    return model


def test_it_learns_to_write_from_raw_texts_and_writes_what_training_predicts(trained, eagerly):
    sources, targets = texts()
    written = trained.generate(sources, batch_size=64)
    assert np.mean([ours == target for ours, target in zip(written, targets)]) > 0.5  # by chance 0.1
    right, wrong = trained.score(sources, targets), trained.score(sources, [*targets[1:], targets[0]])
    assert right.mean() > wrong.mean() + 1
    letters = [row for row, text in enumerate(written) if len(text) == 1]  # These are one token when they are read.
    data = trained.dataset([sources[row] for row in letters], [written[row] for row in letters], batch_size=64)
    inputs, ids, _ = data[0]
    logits = trained({name: keras.ops.convert_to_tensor(value) for name, value in inputs.items()})
    np.testing.assert_array_equal(to_numpy(logits).argmax(axis=-1), ids)


def test_beams_share_their_source(trained, eagerly):
    sources = texts()[0][:3]
    found = trained.generate(sources, num_beams=2, num_sequences=2, max_new_tokens=3)
    assert [beams[0] for beams in found][::2] == [
        trained.generate(source, num_beams=2, max_new_tokens=3) for source in sources[::2]
    ]


def test_its_signature_writes_what_generate_writes(trained):
    sources = texts()[0][:4]
    with eager():
        expected = trained.generate(sources)
    served = in_graph(trained.signatures()["serving_default"], sources)
    assert [text.decode() for text in served["target"]] == expected


def test_an_objective_makes_sources_and_targets_of_raw_texts(eagerly):
    model = task(objective=PrefixLM())
    model.compile(FusedAdamW(1e-2), run_eagerly=True)
    losses = model.fit(["a b c d e f g h"] * 16, epochs=3, verbose=0).history["loss"]
    assert losses[-1] < losses[0]


test_mistakes_are_errors = check_errors(
    (lambda: UniLM("bert"), "must be a `TransformerStack`"),
    (lambda: UniLM(T5Encoder(20, **SMALL)), "absolute positions and no other ones"),
    (lambda: UniLM(TransformerEncoder(20, **SMALL, further_inputs=["attention_mask"])), "no further inputs"),
    (lambda tmp_path: UniLM(ENCODERS["bert"]()).save_pretrained(tmp_path / "a"), "cannot be written as a checkpoint"),
    (lambda: add_adapters(UniLM(ENCODERS["bert"]()), "lora"), "Received: model=<UniLM"),
)
