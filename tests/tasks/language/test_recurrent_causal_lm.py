"""`CausalLM` over an encoder with a state: training, likelihoods, generation, files and exports."""

import keras
import numpy as np
import pytest

from keras_transfer import generation
from keras_transfer.encoders import AWDLSTMEncoder
from keras_transfer.tasks import CausalLM
from tests.errors import check_errors
from tests.helpers import EAGER, eager, encoder_inputs, outputs_of
from tests.tasks.tiny import preprocessor

VOCABULARY, LENGTH = 17, 10
PROMPTS = [[3, 4, 5, 6, 7], [8], [9, 2, 4]]
RATES = ("embedding_dropout", "input_dropout", "hidden_dropout", "output_dropout", "weight_dropout")


def make(reader=None, **options):
    encoder = AWDLSTMEncoder(VOCABULARY, embedding_dim=6, units=8, num_layers=2, **dict.fromkeys(RATES, 0.1))
    for k, weight in enumerate(encoder.trainable_weights):
        weight.assign(np.random.default_rng(k).normal(size=weight.shape))
    return CausalLM(encoder, reader, **options)


@pytest.fixture(scope="module")
def model():
    return make(max_length=LENGTH)


def log_probabilities(model, rows):
    """Log-probabilities of the tokens after each id of rows, by one whole forward pass of the padded rows."""
    ids, mask = np.zeros((2, 3, LENGTH), "int32")
    for k, row in enumerate(rows):
        ids[k, : len(row)], mask[k, : len(row)] = row, 1
    logits = outputs_of(model, {"token_ids": ids, "padding_mask": mask}).astype("float64")
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def test_greedy_texts_take_the_likeliest_token_after_a_whole_pass(model):
    found = model.generate(PROMPTS)
    rows = [[*prompt, *ids] for prompt, ids in zip(PROMPTS, found)]
    likeliest = log_probabilities(model, rows).argmax(axis=-1)
    for prompt, ids, row in zip(PROMPTS, found, likeliest, strict=True):
        assert len(prompt) + len(ids) == LENGTH
        assert ids == row[len(prompt) - 1 : LENGTH - 1].tolist()
    assert len({token for row in found for token in row}) > 3


def test_beams_are_those_of_a_search_by_hand(model, eagerly):
    prompt, beams = PROMPTS[1], [(0.0, PROMPTS[1])]
    for _ in range(4):
        after = log_probabilities(model, [row for _, row in beams])
        grown = [
            (score + after[k, len(row) - 1, token], [*row, token])
            for k, (score, row) in enumerate(beams)
            for token in range(VOCABULARY)
        ]
        beams = sorted(grown, reverse=True)[:3]
    expected = [row[len(prompt) :] for _, row in beams]
    found = model.generate(PROMPTS[:2], max_new_tokens=4, sampler=generation.BeamSearch(3), num_sequences=3)
    assert found[1] == expected
    assert len({tuple(row[:3]) for row in expected}) > 1  # The beams differ in more than their last token.


def test_samplers_that_compare_candidates_choose_their_states_too(model, eagerly):
    sampler = generation.ContrastiveSearch(k=3, alpha=0.0)  # the same as greedy
    assert model.generate(PROMPTS, sampler=sampler, max_new_tokens=3) == model.generate(PROMPTS, max_new_tokens=3)


@pytest.mark.core
def test_it_trains_and_scores_raw_text(eagerly):
    model, texts = make(preprocessor(sequence_length=8)), ["a b c d", "good", "bad a b", "c d"]
    before = model.score(texts)
    inputs = encoder_inputs(model.encoder, np.array([[2, 5, 6, 3]]))
    logits = outputs_of(model, inputs)[0].astype("float64")
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    expected = logs[np.arange(3), inputs["token_ids"][0, 1:]]
    np.testing.assert_allclose(model.token_log_likelihoods([np.array([2, 5, 6, 3])])[0], expected, atol=1e-4)
    model.compile(keras.optimizers.Adam(0.05), run_eagerly=EAGER)
    model.fit(texts, batch_size=4, epochs=4, verbose=0)
    after = model.score(texts)
    assert after.perplexity_per_token < before.perplexity_per_token
    assert [weight.path for weight in model.weights if "logits" in weight.path] == []


def test_the_signature_of_exports_continues_texts_as_generate_does():
    tf = pytest.importorskip("tensorflow")
    model = make(preprocessor(sequence_length=8), max_length=8)
    function, text = model.signatures()["serving_default"].function, tf.TensorSpec([None], "string")
    answer = tf.function(function, input_signature=[text], autograph=False)
    for texts in (["a b", "good"], [""]):  # a prompt of one token
        found = [text.decode() for text in answer(tf.constant(texts))["continuation"].numpy()]
        with eager():
            assert found == model.generate(texts)


test_mistakes_are_clear_errors = check_errors(
    (lambda: make(max_length=0), "`max_length` must be at least 1. Received: max_length=0"),
    (lambda: make().generate([[3] * 300]), "Pass `max_new_tokens` ... max_length=256 and a prompt of 300 tokens"),
)
