"""`CausalLM`: training on raw text, likelihoods, files."""

import json

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_transfer.adaptation import layer_groups
from keras_transfer.checkpoints import CheckpointError
from keras_transfer.encoders import BertEncoder, TransformerEncoder
from keras_transfer.tasks import CausalLM
from keras_transfer.text import batches
from keras_transfer.text.strings.scripts import count_words
from tests.generation.test_generate import FOLDER, REFERENCE
from tests.helpers import EAGER, logged, outputs_of
from tests.tasks.tiny import preprocessor

TEXTS = ["a b c d e f", "good", "bad a b", "c d"]
SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16, "max_sequence_length": 32}


def small(dtype=None, **options):
    settings = {"dropout": 0.0, "norm": "pre", "causal": True, "initializer_range": 0.5, "dtype": dtype}
    encoder = TransformerEncoder(17, **SIZES, **settings)
    return CausalLM(encoder, preprocessor(sequence_length=16), **options)


def by_hand(model, texts):
    """Returns the log-likelihood of each token but the first, computed for each text alone."""
    found = []
    for text in texts:
        inputs = {name: np.asarray(value) for name, value in model.preprocessor([text], sequence_length=32).items()}
        ids, mask = inputs["token_ids"], inputs["padding_mask"]  # of one shape
        logits = outputs_of(model, {"token_ids": ids, "padding_mask": mask})[0, : mask.sum()].astype("float64")
        logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        found.append(logs[np.arange(len(logs) - 1), ids[0, 1 : len(logs)]])
    return found


@pytest.mark.core
def test_it_trains_on_raw_text_and_padding_counts_nowhere():
    model = small()
    model.compile(keras.optimizers.Adam(1e-2), run_eagerly=EAGER)
    expected = -np.concatenate(by_hand(model, TEXTS)).mean()
    loss, perplexity = model.evaluate(TEXTS, verbose=0)
    assert loss == pytest.approx(expected, rel=1e-4) and perplexity == pytest.approx(np.exp(expected), rel=1e-4)
    history = model.fit(TEXTS, batch_size=3, epochs=3, validation_split=0.25, verbose=0).history
    assert history["loss"][-1] < history["loss"][0] and {"perplexity", "val_perplexity"} < history.keys()
    assert model.train_on_batch(TEXTS[:3], return_dict=True)["loss"] < expected


def test_all_kinds_of_data_have_the_same_targets():
    model = small()
    model.compile(run_eagerly=EAGER)
    ids = {name: np.asarray(value) for name, value in model.preprocessor(TEXTS).items()}
    ids = {name: ids[name] for name in model.input}
    inputs, targets, weights = model.dataset(TEXTS, batch_size=4)[0]
    np.testing.assert_array_equal(model.dataset(ids)[0][1][:, : targets.shape[1]], targets)
    prepared = batches(TEXTS, None, preprocessor=model.preprocessor)
    expected = model.evaluate(TEXTS, verbose=0)
    for data in (ids, prepared, model.dataset(TEXTS)):
        np.testing.assert_allclose(model.evaluate(data, verbose=0), expected, rtol=1e-5)
    np.testing.assert_allclose(model.evaluate(inputs, targets, sample_weight=weights, verbose=0), expected, rtol=1e-5)


def test_scores_are_log_likelihoods_of_tokens_and_perplexities_of_tokens_and_words():
    model = small()
    scores, expected = model.score(TEXTS, batch_size=3), by_hand(model, TEXTS)
    for ours, theirs in zip(scores.token_log_likelihoods, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)
    np.testing.assert_allclose(scores.log_likelihoods, [values.sum() for values in expected], atol=1e-4)
    total = sum(values.sum() for values in expected)
    assert scores.perplexity_per_token == pytest.approx(np.exp(-total / sum(map(len, expected))), rel=1e-4)
    assert scores.perplexity_per_word == pytest.approx(np.exp(-total / 12), rel=1e-4)
    for text, message in (("a " * 40, "Each text must have at most 32 tokens"), (3, "strings")):
        with pytest.raises(ValueError, match=message):
            model.score([text, text])


def test_texts_without_a_predicted_token_are_counted(caplog):
    found = small().score([[5, 6], [5], [7]])
    assert found.log_likelihoods[1:].tolist() == [0, 0] and found.log_likelihoods[0] < 0
    [warning] = logged(caplog)
    assert warning.startswith("2 of 3 texts have no token that anything predicts, such as the one at position 1")


@pytest.mark.core
def test_likelihoods_of_ids_equal_those_of_transformers():
    model = CausalLM.from_pretrained(FOLDER, preprocessor=None)
    scores = model.score(REFERENCE["prompts"])
    assert scores.perplexity_per_word is None
    for ours, theirs in zip(scores.token_log_likelihoods, REFERENCE["likelihoods"], strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)


@pytest.mark.parametrize(("text", "words"), [("a b  c\n", 3), ("酒店很好 ok", 5), ("ไทย", 3), ("", 0)])
def test_words_are_characters_in_scripts_without_spaces(text, words):
    assert count_words(text) == words


def test_predictions_are_the_logits_of_the_tokens_of_each_text():
    model = small()
    logits = model.predict(TEXTS, verbose=0)
    assert [values.shape for values in logits] == [(8, 17), (3, 17), (5, 17), (4, 17)]
    ids = np.asarray(model.preprocessor(["good"], sequence_length="longest")["token_ids"])
    alone = model({"token_ids": ids, "padding_mask": np.ones_like(ids)})
    np.testing.assert_allclose(logits[1], to_numpy(alone)[0], atol=1e-4)
    assert model.predict([], verbose=0) == []
    part = batches(TEXTS, preprocessor=model.preprocessor, batch_size=1).shard(1, 2)
    assert [values.shape for values in model.predict(part, verbose=0)] == [(3, 17), (4, 17)]


def test_a_file_restores_the_model_and_the_head_has_no_weights(tmp_path):
    model = small(sampler="beam", max_length=20)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.get_config() == model.get_config() and again.sampler.num_beams == 4 and again.max_length == 20
    np.testing.assert_array_equal(again.score(TEXTS).log_likelihoods, model.score(TEXTS).log_likelihoods)
    assert len(model.weights) == len(model.encoder.weights)
    assert [group.name for group in layer_groups(model)] == ["embeddings", "block_0", "final_norm"]


def test_a_checkpoint_is_written_back_with_its_head(tmp_path):
    model = CausalLM.from_pretrained(FOLDER, preprocessor=None)
    model.save_pretrained(tmp_path / "saved")
    config = json.loads((tmp_path / "saved" / "config.json").read_text())
    assert config["architectures"] == ["GPT2LMHeadModel"]
    again = CausalLM.from_pretrained(tmp_path / "saved", preprocessor=None)
    ids = REFERENCE["prompts"][:2]
    np.testing.assert_array_equal(again.score(ids).log_likelihoods, model.score(ids).log_likelihoods)
    model.encoder.save_pretrained(tmp_path / "encoder")
    with pytest.raises(CheckpointError, match='has no head for a CausalLM. Pass `head="new"`'):
        CausalLM.from_pretrained(tmp_path / "encoder", preprocessor=None)


def test_bad_arguments_are_errors():
    with pytest.raises(ValueError, match="only earlier ones.* Received: BertEncoder"):
        CausalLM(BertEncoder(17, **SIZES))
    with pytest.raises(ValueError, match="`encoder` must have tokens that see only earlier ones"):
        CausalLM("gpt2")
    with pytest.raises(ValueError, match="`max_length` must be from 1 to 32.* Received: max_length=33"):
        small(max_length=33)
    model = small()
    model.max_length = 33
    with pytest.raises(ValueError, match="`max_length` must be at most 32.* Received: max_length=33"):
        model.generate([[5, 6]])
    model.compile()
    with pytest.raises(ValueError, match="Leave `y` out"):
        model.fit(TEXTS, [0, 1, 0, 1])
    with pytest.raises(ValueError, match="at least one text must have two tokens. Received: 2 texts of one token"):
        model.fit({"token_ids": np.array([[5], [6]]), "padding_mask": np.ones((2, 1), "int32")})
