"""One encoder is several language models, given the attention mask of each (UniLM)."""

import keras
import numpy as np
import pytest
from keras import ops
from keras.ops import convert_to_numpy as to_numpy

from keras_transfer.adaptation.cached_features import cut_below
from keras_transfer.encoders import BertEncoder, TransformerEncoder
from keras_transfer.layers import attention_pattern
from keras_transfer.tasks import MaskedLM, TextClassifier
from tests.errors import check_errors
from tests.helpers import outputs_of, save_and_load

SMALL = {"num_layers": 2, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16, "dropout": 0.0}
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], "int32")
SEGMENTS = np.array([[0, 0, 1, 1, 1], [0, 1, 1, 0, 0]], "int32")
INPUTS = {"token_ids": np.array([[5, 6, 7, 8, 9], [4, 9, 3, 0, 0]], "int32"), "padding_mask": MASK}


@pytest.fixture(scope="module")
def unified():
    return TransformerEncoder(20, **SMALL, further_inputs=["attention_mask"], name="unified")


def run(encoder, pattern, **further):
    mask = to_numpy(attention_pattern(pattern, MASK, SEGMENTS))
    return outputs_of(encoder, {**INPUTS, **further, "attention_mask": mask})["sequence_output"]


@pytest.mark.core
def test_patterns_say_which_tokens_see_which():
    found = to_numpy(attention_pattern("sequence_to_sequence", MASK, SEGMENTS))
    rows = [[1, 1, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
    np.testing.assert_array_equal(found[0], rows)
    np.testing.assert_array_equal(found[1, :3], [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0]])
    mixed = to_numpy(attention_pattern(["right_to_left", "bidirectional"], MASK))
    np.testing.assert_array_equal(mixed[0], np.triu(np.ones((5, 5))))
    np.testing.assert_array_equal(mixed[1], np.broadcast_to(MASK[1], (5, 5)))


def test_one_encoder_is_bidirectional_and_left_to_right(unified):
    real = MASK == 1
    for causal, pattern in ((False, "bidirectional"), (True, "left_to_right")):
        plain = TransformerEncoder(20, **SMALL, causal=causal)
        plain.set_weights(unified.get_weights())
        expected = outputs_of(plain, INPUTS)["sequence_output"]
        np.testing.assert_allclose(run(unified, pattern)[real], expected[real], atol=1e-5)
    again = save_and_load(unified)
    assert again.get_config() == unified.get_config() and "attention_mask" in again.input
    np.testing.assert_array_equal(run(again, "left_to_right"), run(unified, "left_to_right"))


def test_steps_write_the_target_of_the_pattern_sequence_to_sequence(unified):
    expected = run(unified, "sequence_to_sequence")[0]
    ids, cache = INPUTS["token_ids"][:1], unified.empty_cache(1, 5)
    known = np.array([[1, 1, 0, 0, 0]])
    vectors, cache = unified.step(ids[:, :2], cache, 0, padding_mask=known)  # The source sees itself.
    found = [to_numpy(vectors)[0]]
    for place in range(2, 5):
        known = (np.arange(5) <= place)[None]
        vectors, cache = unified.step(ids[:, place : place + 1], cache, place, padding_mask=known)
        found.append(to_numpy(vectors)[0])
    np.testing.assert_allclose(np.concatenate(found), expected, atol=1e-5)


def test_steps_with_segments_equal_the_encoder_with_segments():
    encoder = BertEncoder(20, **SMALL, further_inputs=["attention_mask"])
    expected = run(encoder, "sequence_to_sequence", segment_ids=SEGMENTS)[0]
    cache, found = encoder.empty_cache(1, 5), []
    for places in ([0, 1], [2], [3], [4]):
        known = (np.arange(5) <= places[-1])[None]
        part = [INPUTS["token_ids"][:1, places], SEGMENTS[:1, places]]
        vectors, cache = encoder.step(part[0], cache, places[0], padding_mask=known, segment_ids=part[1])
        found.append(to_numpy(vectors)[0])
    np.testing.assert_allclose(np.concatenate(found), expected, atol=1e-5)


def test_a_masked_language_model_trains_with_all_patterns():
    encoder = BertEncoder(20, **SMALL, further_inputs=["attention_mask"])
    model = MaskedLM(encoder)
    model.compile("sgd", run_eagerly=True)
    patterns = ["sequence_to_sequence", "left_to_right"]
    inputs = {**INPUTS, "segment_ids": SEGMENTS, "mask_positions": np.array([[1, 4], [2, -1]])}
    inputs["attention_mask"] = to_numpy(attention_pattern(patterns, MASK, SEGMENTS))
    history = model.fit(inputs, np.array([[6, 9], [3, -1]]), epochs=2, verbose=0).history
    assert history["loss"][1] < history["loss"][0]


def test_tasks_that_compute_one_token_in_the_last_block_or_cached_features_have_the_mask():
    task = TextClassifier(BertEncoder(20, **SMALL, further_inputs=["attention_mask"]), num_classes=2)
    inputs = {**INPUTS, "segment_ids": SEGMENTS}
    inputs["attention_mask"] = to_numpy(attention_pattern("left_to_right", MASK))
    pooled = outputs_of(task.encoder, inputs)["pooled_output"]
    alone = keras.Model(task.encoder.input, task.encoder.pooled_alone())
    np.testing.assert_allclose(outputs_of(alone, inputs), pooled, atol=1e-6)
    cut = cut_below(task, "block_1")
    tensors = {name: ops.convert_to_tensor(value) for name, value in inputs.items()}
    states = {**tensors, **cut.lower(tensors)}
    found = keras.Model(cut.inputs, cut.outputs)({name: states[name] for name in cut.inputs})
    np.testing.assert_allclose(to_numpy(found), to_numpy(task(tensors)), atol=1e-6)
    everything = {**inputs, "attention_mask": np.ones((2, 5, 5), "int32")}
    assert np.abs(outputs_of(task.encoder, everything)["pooled_output"] - pooled).max() > 1e-4


test_mistakes_are_errors = check_errors(
    (lambda: attention_pattern(["bidirectional"], MASK), "Received: pattern=['bidirectional'], rows=2"),
    (lambda: attention_pattern("sequence_to_sequence", MASK), "requires `segment_ids`"),
    (
        lambda: TransformerEncoder(20, **SMALL).step([[5]], [], 0, segment_ids=[[0]]),
        "`segment_ids` can only be passed to an encoder with segments",
    ),
    (lambda: BertEncoder(20, **SMALL, further_inputs="attention_mask"), "must be a list of some of"),
)
