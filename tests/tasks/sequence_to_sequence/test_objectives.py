"""Encoder-decoders are pretrained on raw texts, with the sources and targets that an objective makes."""

import shutil

import keras
import numpy as np
import pytest

from keras_transfer.encoders import T5, Bart, Pegasus
from keras_transfer.objectives import (
    Denoising,
    PrefixLM,
    SequenceAutoencoder,
    SequenceObjective,
    SpanCorruption,
    SpanPrediction,
    TokenMasking,
)
from keras_transfer.optimizers import FusedAdamW
from keras_transfer.tasks import Seq2SeqLM
from keras_transfer.text import Packing, TokenPreprocessor, WordPieceTokenizer
from keras_transfer.training.training_checkpoint import TrainingCheckpoint
from tests.errors import check_errors
from tests.helpers import eager, save_and_load
from tests.training.resume.checkpoint_runs import assert_same

WORDS = [*"abcdefghijklmnopqrst", "."]
SENTINELS = [f"<extra_id_{i}>" for i in reversed(range(4))]
VOCABULARY = ["<pad>", "[UNK]", "<s>", "</s>", "[MASK]", *WORDS, *SENTINELS]
SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32, "dropout": 0.0}


def preprocessor(start=(), vocabulary=VOCABULARY, **options):
    packing = Packing(start=start, end=["</s>"], pad="<pad>")
    return TokenPreprocessor(WordPieceTokenizer(vocabulary), packing, **{"sequence_length": 24, **options})


def model(objective, cls=T5, **options):
    keras.utils.set_random_seed(0)
    sizes = {**SIZES, "head_dim": 8} if cls is T5 else {**SIZES, "max_sequence_length": 24}
    read = preprocessor() if cls is T5 else preprocessor(["<s>"])
    return Seq2SeqLM(cls(len(VOCABULARY), **sizes), **{"preprocessor": read, "objective": objective, **options})


def texts(count=64, low=5, high=20):
    """Parts of the alphabet, in which the missing letters can be known."""
    random = np.random.default_rng(0)
    starts = random.integers(0, len(WORDS) - 1 - low, count)
    return [" ".join(WORDS[start : start + random.integers(low, high)]) for start in starts]


@pytest.fixture(scope="module")
def trained():
    found = model(SpanCorruption(0.3, mean_span_length=2.0, seed=1))
    found.compile(FusedAdamW(1e-2))
    history = found.fit(texts(), epochs=12, batch_size=16, validation_data=texts(16), verbose=0)
    return found, history.history


def test_t5_learns_from_raw_texts(trained):
    found, history = trained
    assert history["val_loss"][-1] < 0.7 * history["val_loss"][0]
    assert found.evaluate(texts(16), verbose=0) == found.evaluate(texts(16), verbose=0)
    assert found.evaluate(texts(16), texts(16), verbose=0) != found.evaluate(texts(16), verbose=0)


def test_a_batch_has_the_sources_and_targets_of_span_corruption():
    found = model(SpanCorruption(0.3, mean_span_length=2.0, seed=1))
    text = "a b c d e f g h i j"
    [(inputs, targets, weights)] = found.dataset([text, "a b c"])
    ids = found.preprocessor.tokenizer.sentinel_ids
    end, row = found.preprocessor.token_to_id("</s>"), list(found.preprocessor([text])["token_ids"][0].numpy())[:10]
    source = inputs["token_ids"][0][inputs["padding_mask"][0] == 1].tolist()
    target = targets[0][weights[0] == 1].tolist()
    assert source[-1] == target[-1] == end
    assert [index for index in source if index in ids] == ids[:2] == [index for index in target if index in ids]
    assert sorted(index for index in source + target if index not in (*ids, end)) == sorted(row)
    assert targets.shape == weights.shape == inputs["decoder_token_ids"].shape
    np.testing.assert_array_equal(inputs["decoder_token_ids"][:, 1:], targets[:, :-1])
    np.testing.assert_array_equal(inputs["decoder_padding_mask"], weights)
    assert (inputs["decoder_token_ids"][:, 0] == found.start_token).all()
    assert np.isfinite(np.asarray(keras.ops.convert_to_numpy(found(inputs)))).all()


def test_a_batch_has_the_texts_of_bart_and_their_noise():
    found = model(Denoising(0.4, replace_length=-1, permutation_rate=0.0, random_token_rate=0.0, seed=1), Bart)
    [(inputs, targets, weights)] = found.dataset(["a b c d e f g h i j", "a b c"])
    start, end, mask = map(found.preprocessor.token_to_id, ("<s>", "</s>", "[MASK]"))
    assert targets[0, :12].tolist() == [start, *range(5, 15), end]
    assert weights.sum(axis=1).tolist() == [12, 5]
    for source, real in zip(inputs["token_ids"], inputs["padding_mask"].sum(axis=1)):
        assert (source[0], source[real - 1]) == (start, end) and mask in source[:real]


def test_sources_and_targets_have_one_length_for_each_length_of_texts():
    found, shapes = model(SpanCorruption(seed=0)), set()
    data = found.dataset(texts(), batch_size=4, shuffle=True).few_lengths()
    for _ in range(3):
        shapes |= {(data[i][0]["token_ids"].shape[1], data[i][1].shape[1]) for i in range(len(data))}
        data.on_epoch_end()
    assert len(shapes) == len(data.options.lengths)


def test_sources_that_grow_are_truncated_and_keep_their_end():
    found = model(Denoising(0.0, insertion_rate=1.0, permutation_rate=0.0, seed=0), Bart)
    [(inputs, _, _)] = found.dataset([" ".join("abcdefghijklmnopqrst")])
    assert inputs["token_ids"].shape == (1, 24) and inputs["padding_mask"].all()
    assert inputs["token_ids"][0, -1] == found.preprocessor.token_to_id("</s>")


def mass(cls=Bart):
    objective = SpanPrediction(mask_token_rate=1.0, random_token_rate=0.0, seed=0)
    keras.utils.set_random_seed(0)
    encoder = cls(len(VOCABULARY), **SIZES, max_sequence_length=24, further_inputs=["decoder_positions"])
    return Seq2SeqLM(encoder, preprocessor(["<s>"]), objective=objective)


def test_the_decoder_of_mass_reads_tokens_where_a_whole_target_has_them():
    found = mass(Pegasus)
    [(inputs, targets, weights)] = found.dataset(["a b c d e f g h i", "a b"])
    ids = {name: found.preprocessor.token_to_id(name) for name in ("<s>", "[MASK]")}
    [row] = np.asarray(found.preprocessor(["a b c d e f g h i"])["token_ids"])
    hidden = np.flatnonzero(inputs["token_ids"][0] == ids["[MASK]"])
    assert len(hidden) == 4 and weights[:, :4].tolist() == [[1] * 4, [0] * 4]  # A text of two letters has none to hide.
    np.testing.assert_array_equal(targets[0, :4], row[hidden])
    np.testing.assert_array_equal(inputs["decoder_positions"][0, :4], hidden)
    [(whole, wholly, _)] = found.dataset(["a b c d e f g h i"], ["a b c d e f g h i"])
    np.testing.assert_array_equal(wholly[0, hidden], targets[0, :4])
    np.testing.assert_array_equal(whole["decoder_token_ids"][0, hidden], inputs["decoder_token_ids"][0, :4])
    assert whole["decoder_positions"].tolist() == [list(range(wholly.shape[1]))]
    # Positions that count from 0 are those of a model without this input.
    plain = Seq2SeqLM(Pegasus(len(VOCABULARY), **SIZES, max_sequence_length=24))
    plain.set_weights(found.get_weights())
    ours, theirs = (
        keras.ops.convert_to_numpy(each({name: whole[name] for name in each.input})) for each in (found, plain)
    )
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    again = save_and_load(found)
    assert again.get_config() == found.get_config() and "decoder_positions" in again.input


@pytest.mark.slow
def test_a_model_of_mass_learns_what_only_positions_tell():
    found = mass()
    found.compile(FusedAdamW(1e-2))
    rows = ["a b a c a d a e a f a g"] * 64  # What follows an "a" depends on its position.
    found.fit(rows, epochs=15, batch_size=16, verbose=0)
    [(inputs, targets, weights)] = found.dataset(rows[:16], batch_size=16)
    elsewhere = {**inputs, "decoder_positions": inputs["decoder_positions"] % 2}
    with eager():
        loss, wrong = (
            found.evaluate(given, targets, sample_weight=weights, verbose=0, return_dict=True)["loss"]
            for given in (inputs, elsewhere)
        )
        assert loss < 0.1 and wrong > 10 * loss
        assert len(found.generate(rows[:1], max_new_tokens=3)) == 1


def test_a_stopped_run_with_an_objective_goes_on_with_the_noise_of_an_uninterrupted_one(tmp_path):
    def go(folder, *callbacks):
        found = model(SpanCorruption(0.3, mean_span_length=2.0))
        found.compile(keras.optimizers.Adam(1e-2), metrics=[], run_eagerly=True)
        np.random.seed(None)  # so that only the checkpoint contains the seed of the batches and of the noise
        checkpoint = TrainingCheckpoint(tmp_path / folder, save_every=1, keep=9)
        found.fit(texts(8), batch_size=4, epochs=2, verbose=0, callbacks=[checkpoint, *callbacks])
        return found

    whole = go("whole")
    (tmp_path / "stopped").mkdir()
    shutil.copy(tmp_path / "whole" / "epoch-0001-batch-000001.safetensors", tmp_path / "stopped")
    assert_same(go("stopped"), whole)


class Reversal(SequenceObjective):
    """An objective of one's own: the decoder writes a text backwards."""

    def rewrite(self, rows, random):
        return rows, [row[::-1] for row in rows]

    def max_lengths(self, length):
        return length, length


def test_an_objective_of_ones_own_and_targets_that_are_given(eagerly):
    found = model(Reversal())
    [(inputs, targets, _)] = found.dataset(["a b c"])
    assert inputs["token_ids"][0, :3].tolist() == targets[0, 2::-1].tolist() == [5, 6, 7]
    [(_, targets, _)] = found.dataset(["a b c"], ["d"])
    assert targets[0, 0] == 8
    found.compile("sgd")
    found.fit(texts(4), validation_data=(texts(4), texts(4)), verbose=0)


def test_an_autoencoder_learns_the_texts_that_it_reads(eagerly):
    found = model(SequenceAutoencoder())
    [(inputs, targets, _)] = found.dataset(["a b c"])
    assert inputs["token_ids"][0, :3].tolist() == targets[0, :3].tolist() == [5, 6, 7]


def compiled(*args, **options):
    found = model(*args, **options)
    found.compile("sgd")
    return found


test_mistakes_are_errors = check_errors(
    (
        lambda: model(TokenMasking()),
        "makes the inputs ['decoder_token_ids', 'decoder_padding_mask']. Received: objective=TokenMasking(",
    ),
    (
        lambda: compiled(PrefixLM()).fit(["a b", ""]),
        "at least one token. Received: only special tokens at position 1",
    ),
    (lambda: compiled(PrefixLM(), prefix="a ").fit(["a b"]), "without `prefix` to pretrain it. Received: prefix='a '"),
    (lambda: compiled(PrefixLM()).fit(["a b"], sample_weight=[1.0]), "makes its targets of texts has no weights"),
    (
        lambda: compiled(SpanCorruption(), preprocessor=plain()).fit(["a b"]),
        "with sentinels ... Received: vocabulary_size=",
    ),
    (lambda: compiled(SpanCorruption(0.5, mean_span_length=1)).fit([" ".join(WORDS)]), "Received: 4 sentinels"),
    (lambda: compiled(Denoising(stop_tokens=["!"])).fit(["a b"]), "`stop_tokens` must be ... Received: stop_tokens="),
    (lambda: compiled(Denoising(), preprocessor=plain("[MASK]")).fit(["a b"]), "the special tokens [MASK]"),
)


def plain(*without):
    """A preprocessor without sentinels and other tokens."""
    return preprocessor(vocabulary=[token for token in VOCABULARY if token not in (*SENTINELS, *without)])
