"""A model that reads one text and writes another learns from raw texts, answers, is saved and is exported."""

import pathlib

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_transfer.checkpoints import CheckpointError
from keras_transfer.datasets import load_demo_questions
from keras_transfer.encoders import T5, Bart, MBart, Pegasus
from keras_transfer.optimizers import FusedAdamW
from keras_transfer.serving import export
from keras_transfer.tasks import Seq2SeqLM
from keras_transfer.text import (
    MarianTokenizer,
    Packing,
    TokenPreprocessor,
    UnigramTokenizer,
    WordPieceTokenizer,
    train_vocabulary,
)
from tests.errors import check_errors
from tests.helpers import EAGER, eager, logged, save_and_load
from tests.tasks.tiny import VOCABULARY, preprocessor

REFERENCES = pathlib.Path(__file__).parents[2] / "references" / "sequence_to_sequence"
LETTERS = list("abcdefghij")
SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32, "dropout": 0.0}


def model(cls=T5, **options):
    keras.utils.set_random_seed(0)
    sizes = {**SIZES, "head_dim": 8} if cls is T5 else {**SIZES, "max_sequence_length": 16}
    return Seq2SeqLM(cls(len(VOCABULARY), **sizes), preprocessor(sequence_length=16), max_new_tokens=6, **options)


def texts(count=64):
    random = np.random.default_rng(0)
    sources = [" ".join(random.choice(LETTERS, random.integers(2, 5))) for _ in range(count)]
    return sources, [source.split()[0] for source in sources]  # The target is the first letter.


@pytest.fixture(scope="module")
def trained():
    found = model()
    found.compile(FusedAdamW(1e-2))
    sources, targets = texts()
    history = found.fit(sources, targets, epochs=15, batch_size=16, validation_data=(sources, targets), verbose=0)
    return found, history.history


def test_it_learns_to_write_from_raw_texts(trained):
    found, history = trained
    assert history["val_loss"][-1] < 0.5 * history["val_loss"][0]
    assert np.isfinite(history["val_perplexity"]).all()
    sources, targets = texts()
    written = found.generate(sources, batch_size=64)
    assert np.mean([ours == target for ours, target in zip(written, targets)]) > 0.5  # by chance 0.1
    right, wrong = found.score(sources, targets), found.score(sources, [*targets[1:], targets[0]])
    assert (right < 0).all() and right.mean() > wrong.mean()


def test_the_most_likely_label_is_an_answer_whatever_the_model_would_write(trained, eagerly):
    found, _ = trained
    sources, targets = texts(8)
    scores = found.label_log_likelihoods(sources, LETTERS, batch_size=80)
    assert (
        scores.shape == (8, 10) and np.mean(found.classify(sources, LETTERS, batch_size=80) == np.array(targets)) > 0.5
    )
    np.testing.assert_allclose(scores[:, 3], found.score(sources, ["d"] * 8), atol=1e-5)
    [best] = found.classify(sources[0], {1: "good", 2: "bad"})
    assert best == 1 + int(found.score(sources[:1] * 2, ["good", "bad"]).argmax())
    assert found.classify([], LETTERS) == []


def test_the_pieces_of_a_target_are_those_of_the_result(trained, eagerly):
    found, _ = trained
    sources, pieces = texts(2)[0], [[], []]
    written = found.generate(sources, max_new_tokens=3, on_token=lambda index, piece: pieces[index].append(piece))
    assert ["".join(each) for each in pieces] == written
    assert found.generate(sources[0], max_new_tokens=3) == written[0]
    assert found.generate(sources[0], max_length=4) == written[0]  # The start token counts.
    assert all(text and not text.startswith(" ") for text in written)


def test_all_prepared_ids_are_real_tokens_without_a_padding_mask(trained, eagerly):
    found, _ = trained
    ids = np.array([[2, 5, 6, 3], [2, 7, 8, 3]])
    expected = found.generate({"token_ids": ids, "padding_mask": np.ones_like(ids)}, max_new_tokens=2)
    assert found.generate({"token_ids": ids}, max_new_tokens=2) == expected
    with pytest.raises(ValueError, match=r"must contain `token_ids`. Received: keys=\['ids'\]"):
        found.generate({"ids": ids})
    with pytest.raises(ValueError, match=r"Received: token_ids=\(2, 4\), padding_mask=\(2, 3\)"):
        found.generate({"token_ids": ids, "padding_mask": ids[:, 1:]})


def test_it_survives_keras_files_and_an_export_writes_what_generate_writes(trained, tmp_path):
    found, _ = trained
    sources = texts(5)[0]
    again = save_and_load(found)
    assert again.get_config() == found.get_config()
    with eager():
        expected = found.generate(sources)
        assert again.generate(sources) == expected
    export(found, tmp_path / "served")
    import tensorflow as tf

    signatures = tf.saved_model.load(str(tmp_path / "served")).signatures
    served = signatures["serving_default"](text=tf.constant(sources))
    inputs = found.dataset(["a b c"], ["b"])[0][0]
    logits = signatures["tokens"](**{name: tf.constant(inputs[name]) for name in found.input})["logits"]
    np.testing.assert_allclose(logits, to_numpy(found(inputs)), atol=1e-4)
    assert [text.decode() for text in served["target"].numpy()] == expected


@pytest.mark.slow
@pytest.mark.parametrize("cls, sampler", [(T5, "beam"), (Bart, "greedy")])
def test_a_compiled_export_writes_what_generate_writes(cls, sampler, tmp_path, process_without_this_package):
    found, sources = model(cls, sampler=sampler), [*texts(4)[0], ""]
    folder = export(found, tmp_path / "served", jit_compile=True)
    served = process_without_this_package("tests.serving.alone:answers", folder, sources, "serving_default")
    assert served["outputs"]["target"] == found.generate(sources)


def test_batches_have_the_target_after_the_start_token_and_weights_without_padding():
    found = model(start_token="[MASK]", prefix="good ")
    [(inputs, targets, weights)] = found.dataset(["a b c", "d"], ["b", "a b c d"], np.array([1.0, 0.5]))
    tokens = {name: found.preprocessor.token_to_id(name) for name in ("[MASK]", "[CLS]", "[SEP]", "a", "b", "good")}
    np.testing.assert_array_equal(inputs["token_ids"][0, :3], [tokens["[CLS]"], tokens["good"], tokens["a"]])
    np.testing.assert_array_equal(targets[0, :3], [tokens["[CLS]"], tokens["b"], tokens["[SEP]"]])
    np.testing.assert_array_equal(inputs["decoder_token_ids"][0, :3], [tokens["[MASK]"], tokens["[CLS]"], tokens["b"]])
    np.testing.assert_array_equal(inputs["decoder_padding_mask"][:, :6], [[1, 1, 1, 0, 0, 0], [1] * 6])
    np.testing.assert_array_equal(weights[:, :6], [[1, 1, 1, 0, 0, 0], [0.5] * 6])
    assert not weights[:, 6:].any()  # On JAX, lengths are multiples of 8.


@pytest.mark.core
@pytest.mark.parametrize("cls", [T5, Bart])
def test_padding_changes_no_logits(cls):
    found = model(cls)
    inputs, _, _ = found.dataset(["a b c", "d"], ["a b c d", "b"])[0]
    alone = {name: values[1:, :3] for name, values in inputs.items()}
    expected = to_numpy(found(inputs))[1, :3]
    np.testing.assert_allclose(to_numpy(found(alone))[0], expected, atol=1e-5)
    unmasked = found({**inputs, "padding_mask": np.ones_like(inputs["padding_mask"])})
    assert np.abs(to_numpy(unmasked)[1, :3] - expected).max() > 1e-4


def test_the_epoch_has_every_row_once_with_targets_as_long_as_the_longest_of_a_batch(ready):
    sources, targets = texts(20)
    targets[3] = "a b c d e f g"
    data = ready.dataset(sources, targets, batch_size=4, shuffle=True)
    assert sorted(data.order) == list(range(20))
    for inputs, ids, weights in (data[i] for i in range(len(data))):
        assert ids.shape == weights.shape == inputs["decoder_token_ids"].shape
        assert weights[:, -1].any()


test_mistakes_are_errors = check_errors(
    (lambda ready: ready.predict(["a"]), "requires prepared inputs. Use `generate(sources)` for texts"),
    (lambda ready: ready(["a"]), "prepared inputs only. Use a dict with `decoder_token_ids`"),
    (lambda ready: ready.fit(["a"]), "`fit(sources, targets)`. Received: y=None"),
    (lambda ready: ready.fit(["a"], [1]), "Targets must be texts, one for each source"),
    (lambda ready: ready.fit((["a"], ["b"]), ["c"]), "Sources must be one column of texts"),
    (lambda: model(start_token="nowhere"), "Received: start_token='nowhere'"),
    (lambda: Seq2SeqLM(T5(20, **SIZES), max_new_tokens=0), "must be at least 1. Received: max_new_tokens=0"),
    (lambda ready: ready.generate("a", max_length=3, max_new_tokens=2), "Pass either `max_length`, which includes"),
    (lambda ready: ready.generate([[]]), "an empty source at position 0"),
    (lambda ready: ready.generate([[99]]), "Token ids must be from 0 to"),
    (lambda ready: ready.generate(None), "Texts must be a string or a list of strings, or prepared ids"),
    (lambda ready: ready.generate("a", forced_first=99), "`forced_first` must be an id from 0 to 16"),
    (
        lambda ready: ready.generate("a", min_new_tokens=500),
        "`min_new_tokens` must be at most ... pass `max_new_tokens`. Received: min_new_tokens=500 and a prompt of 1",
    ),
    (
        lambda ready: ready.generate("a", min_new_tokens=5, max_new_tokens=4),
        "`min_new_tokens` must not be greater than",
    ),
    (lambda: model(Bart).generate("a", max_new_tokens=16), "must fit into 16 tokens"),
    (
        lambda ready: ready.compile(loss="mse"),
        "must accept integers ... one of ['auto', 'focal', 'label_smoothing']. Received: loss='mse'",
    ),
    (
        lambda ready: ready.predict({**_prepared(ready)[0], "padding_mask": np.zeros((2, 5), int)}),
        "Each source must have at least one token. Received: only padding at position 0",
    ),
    (lambda: _loaded(MBart), "lacks `decoder_start_token_id` ... Pass `start_token` ... Received: start_token=None"),
    (
        lambda: Seq2SeqLM.from_pretrained(REFERENCES / "t5"),
        CheckpointError,
        "`from_pretrained(source, preprocessor=None)`. Received: FileNotFoundError",
    ),
    (lambda: model(prefix=None), "`prefix` must be a string. Received: prefix=None"),
    (lambda: model(start_token=1.5), "`start_token` must be a token or its id, an integer"),
    (lambda ready: ready.fit(["a"], {"target": ["b"]}), "Targets must be one column of texts. Received: a dict"),
    (lambda bare: bare.fit(["a", ""], ["b", "c"]), "Each source must have at least one token"),
    (lambda bare: bare.fit(["a", "b"], ["b", ""]), "Each target must have at least one token"),
)


@pytest.fixture(scope="module")
def ready():
    """A compiled model, which mistakes leave as it is."""
    return _compiled()


@pytest.fixture(scope="module")
def bare(ready):
    """A compiled model without special tokens."""
    read = TokenPreprocessor(WordPieceTokenizer(VOCABULARY), Packing(pad="[PAD]"), sequence_length=16)
    found = Seq2SeqLM(ready.encoder, read)
    found.compile()
    return found


def _compiled(*options):
    found = model(*options)
    found.compile()
    return found


def test_a_prefix_is_in_front_once_also_with_a_validation_split():
    found, seen = model(prefix="good "), []
    found.compile(FusedAdamW(1e-2), run_eagerly=True)
    call = found.call
    found.call = lambda inputs, **options: (seen.append(np.asarray(inputs["token_ids"])), call(inputs, **options))[1]
    found.fit(["a b", "a b", "a b", "a b"], ["b"] * 4, validation_split=0.5, verbose=0)
    good = found.preprocessor.token_to_id("good")
    assert seen and all((ids == good).sum(axis=1).tolist() == [1] * len(ids) for ids in seen)


def test_prepared_inputs_count_no_padding():
    found = model()
    found.compile("sgd", run_eagerly=EAGER)
    inputs, targets, weights = found.dataset(["a b c", "d"], ["b", "a b c d"])[0]
    expected = found.evaluate(inputs, targets, sample_weight=weights, verbose=0)
    np.testing.assert_allclose(found.evaluate(inputs, targets, verbose=0), expected, rtol=1e-5)
    np.testing.assert_allclose(found.evaluate(["a b c", "d"], ["b", "a b c d"], verbose=0), expected, rtol=1e-5)


def test_each_task_over_an_encoder_writes_its_own_start_token_into_a_checkpoint(tmp_path):
    encoder = T5(len(VOCABULARY), **SIZES, head_dim=8)
    encoder.attached.files["generation_config.json"] = {"max_length": 9}
    for start in (7, 5):
        tasks = [Seq2SeqLM(encoder, start_token=token) for token in (start, 3)]
        tasks[0].save_pretrained(tmp_path / str(start))
        again = Seq2SeqLM.from_pretrained(tmp_path / str(start), preprocessor=None)
        assert again.start_token == start and again.encoder.attached.files["generation_config.json"] == {
            "max_length": 9,
            "decoder_start_token_id": start,
        }
    assert Seq2SeqLM(encoder).start_token == 0


def test_no_rows_have_no_scores(ready, eagerly):
    assert ready.score("a b", "b").shape == (1,) and ready.score([], []).shape == (0,)


@pytest.mark.parametrize("method", ["score", "fit", "classify"])
def test_empty_and_long_targets_are_named_whatever_reads_them(method, caplog, eagerly):
    found = _compiled()
    targets = ["a b", "\u200b", "a " * 20, "b " * 14]  # The last one just fits.
    if method == "classify":
        found.classify("a", targets)
        count = "1 of 4"
    else:
        sources = ["a b"] * 8
        getattr(found, method)(sources, targets * 2, **({} if method == "score" else {"verbose": 0}))
        count = "2 of 8"
    empty, long = logged(caplog, "targets")
    assert empty.startswith(f"{count} targets have no tokens but the special ones, such as '\\u200b' at position 1")
    assert long.startswith(f"{count} targets are longer than 16 tokens, and only their beginning is learned or scored")
    caplog.clear()
    found.score(["a"], ["a b"])
    assert not caplog.records


test_mistakes_in_prepared_data_are_errors = check_errors(
    (lambda ready: ready.fit(*_prepared(ready, factor=-1), verbose=0), "must not be negative. Pass `sample_weight`"),
    (lambda ready: ready.fit(_prepared(ready)[0], ["b", "c"], verbose=0), "Prepared inputs need prepared targets"),
    (lambda: model(start_token=999), "from 0 to 16. Received: start_token=999"),
    (
        lambda ready: _fit(ready, padding_mask=0),
        "Each source must have at least one token. Received: only padding at position 0",
    ),
    (lambda ready: _fit(ready, decoder_token_ids=-1), "`decoder_token_ids` must be from 0 to 16"),
    (lambda ready: _fit(ready, decoder_token_ids=0.5), "`decoder_token_ids` must be integers"),
    (lambda ready: _fit(ready, length=2), "Targets must be as long as `decoder_token_ids`, which have 2 places"),
    (lambda: _fit(_compiled(Bart), length=20), "Sequences must have at most 16 tokens, the size of the position table"),
)


def test_a_checkpoint_of_bart_that_does_not_say_how_targets_begin_takes_a_start_token():
    assert _loaded(Bart, start_token="[SEP]").start_token == 3
    assert _loaded(T5).start_token == 0  # T5 begins with padding.
    # A configuration that does not mention it means the default of the original's configuration.
    assert (_loaded(Bart).start_token, _loaded(Pegasus).start_token) == (2, 0)


def _loaded(cls, **options):
    encoder = cls(len(VOCABULARY), **SIZES)
    encoder.attached.files["config.json"] = {"eos_token_id": 3}
    return Seq2SeqLM(encoder, preprocessor(sequence_length=16), **options)


def _fit(found, length=None, **values):
    inputs, targets = _prepared(found)
    inputs |= {name: np.full_like(inputs[name], value, type(value)) for name, value in values.items()}
    if length is not None:
        inputs |= {f"decoder_{name}": np.ones((2, length), int) for name in ("token_ids", "padding_mask")}
    found.fit(inputs, targets, verbose=0)


def _prepared(found, factor=1):
    inputs, ids, _ = found.dataset(["a b c", "d"], ["b", "c"])[0]
    return inputs, np.sign(ids) * factor


def test_targets_of_a_model_with_two_tokenizers_need_their_own(tmp_path, eagerly):
    train_vocabulary(load_demo_questions().train.texts, "unigram", 200).save_assets(tmp_path)
    pieces = UnigramTokenizer(tmp_path / "spiece.model").vocabulary
    tokenizer = MarianTokenizer(tmp_path / "spiece.model", [*pieces, "<pad>"])
    read = TokenPreprocessor(tokenizer, Packing([], [], ["[SEP]"], "<pad>"), sequence_length=16)
    found = Seq2SeqLM(Bart(len(pieces) + 1, **SIZES, max_sequence_length=16), read)
    found.compile("sgd")
    with pytest.raises(ValueError, match=r"tokenized differently from its sources.*target=True"):
        found.fit(["Who?"], ["Where?"], verbose=0)
    assert len(found.generate(["Who?"], max_new_tokens=2)) == 1
