"""Checks that apply to every tokenizer, so that the test of a new one takes ten lines."""

import json
import pathlib
import pickle
import tempfile

import keras
import numpy as np
import pytest

from keras_transfer.text import TokenPreprocessor


def run_tokenizer_test(tokenizer, texts, packing, expected, round_trip=(), old_model_type=None):
    """Checks a tokenizer: ids, graphs, offsets, texts of ids, pickle, `.keras`, SavedModel, its folder and its errors.

    Args:
        tokenizer: the tokenizer.
        texts: list of strings, also of hard ones: empty, without spaces, and with the names of special tokens.
        packing: `Packing` with tokens of the vocabulary.
        expected: list of lists, the ids of the texts.
        round_trip: list of strings, which the ids of the same strings give back. Defaults to none.
        old_model_type: string, the `model_type` with which a folder without `tokenizer.json` is the same. Defaults to
            `None`, if there is none.
    """
    import tensorflow as tf

    assert tokenizer.tokenize(texts).to_list() == expected
    assert tokenizer.tokenize(texts[-1]).numpy().tolist() == expected[-1]
    assert tf.function(tokenizer.tokenize, autograph=False)(tf.constant(texts)).to_list() == expected
    assert pickle.loads(pickle.dumps(tokenizer)).tokenize(texts).to_list() == expected
    config = tokenizer.get_config()
    assert type(tokenizer).from_config(json.loads(json.dumps(config))).get_config() == config
    detokenized = tokenizer.detokenize(tokenizer.tokenize(tf.constant(round_trip, tf.string)))
    assert [text.decode() for text in detokenized.numpy()] == list(round_trip)

    with pytest.raises(tf.errors.InvalidArgumentError, match="must be UTF-8"):
        tokenizer.tokenize(tf.constant(["the", b"caf\xff"]))

    # Text never becomes a special token.
    preprocessor = TokenPreprocessor(tokenizer, packing, 9, split="whitespace")
    assert any(token in text for text in texts for token in _special_tokens(preprocessor))
    special = {*preprocessor.special_ids} - {tokenizer.unk_id}
    assert special.isdisjoint(index for row in expected for index in row)
    _check_files(preprocessor, texts)
    _check_folder(preprocessor, texts, old_model_type)


def differing_ids(tokenize, original, texts):
    """Returns the texts whose ids differ from those of a tokenizer of Hugging Face. `tokenize` is a `tf.function`."""
    import tensorflow as tf

    found = []
    for batch in (texts[start : start + 20_000] for start in range(0, len(texts), 20_000)):
        ids = tokenize(tf.constant(batch))
        splits, values = ids.row_splits.numpy(), ids.values.numpy().tolist()
        expected = original.encode_batch_fast(batch, add_special_tokens=False)
        found += [text for row, text in enumerate(batch) if values[splits[row] : splits[row + 1]] != expected[row].ids]
    return found


def differing_offsets(tokenizer, texts):
    """Returns the texts whose ids differ from those of `tokenize`, or whose offsets are not in order in the text."""
    found = []
    for part in (texts[start : start + 10_000] for start in range(0, len(texts), 10_000)):
        rows = (tokenizer.tokenize(part), *tokenizer.tokenize_with_offsets(part))
        for text, expected, ids, starts, ends in zip(part, *(row.to_list() for row in rows), strict=True):
            in_order = (starts, ends) == (sorted(starts), sorted(ends))
            within = all(0 <= start <= end <= len(text) for start, end in zip(starts, ends))
            found += [] if ids == expected and in_order and within else [text]
    return found


def _check_files(preprocessor, texts):
    """A `.keras` file and a SavedModel contain the tokenizer."""
    import tensorflow as tf

    expected, text = preprocessor(texts)["token_ids"].numpy(), keras.Input((), dtype="string")
    model = keras.Model(text, preprocessor(text))
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/model.keras")
        loaded = keras.saving.load_model(f"{folder}/model.keras").layers[-1]
        np.testing.assert_array_equal(loaded(texts)["token_ids"], expected)
        _check_same(loaded, preprocessor)
        module = tf.Module()
        module.ids = tf.function(loaded, [tf.TensorSpec([None], tf.string)], autograph=False)
        tf.saved_model.save(module, folder)
        served = tf.saved_model.load(folder)
        np.testing.assert_array_equal(served.ids(tf.constant(texts))["token_ids"], expected)
        assert served.ids(tf.constant([], tf.string))["token_ids"].shape == (0, 9)


def _check_folder(preprocessor, texts, old_model_type):
    """A folder gives the same preprocessor, and Hugging Face reads it."""
    pairs = texts, texts[::-1]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name) / "new" / "folder"
        preprocessor.save(folder)
        loaded = TokenPreprocessor.load(folder)
        _check_same(loaded, preprocessor)
        for key, values in preprocessor(pairs).items():
            np.testing.assert_array_equal(loaded(pairs)[key], values)
        assert TokenPreprocessor.load(folder, sequence_length=7).sequence_length == 7
        _check_hugging_face(folder, preprocessor, texts)
        if old_model_type is not None:
            (folder / "tokenizer.json").unlink()
            (folder / "config.json").write_text(json.dumps({"model_type": old_model_type}))
            _check_same(TokenPreprocessor.load(folder), preprocessor)


def _check_same(loaded, preprocessor):
    assert loaded.get_config() | {"name": None} == preprocessor.get_config() | {"name": None}
    assert loaded.vocabulary == preprocessor.vocabulary
    ours, theirs = (
        {name: value for name, value in vars(each.tokenizer).items() if not name.startswith("_")}
        for each in (loaded, preprocessor)
    )
    assert ours == theirs
    assert getattr(loaded.tokenizer, "merges", None) == getattr(preprocessor.tokenizer, "merges", None)


def _special_tokens(preprocessor):
    tokenizer = preprocessor.tokenizer
    return {
        *preprocessor.packing.special_tokens,
        *tokenizer.special_tokens,
        tokenizer.unk_token,
        tokenizer.mask_token,
    } - {None}


def _check_hugging_face(folder, preprocessor, texts):
    """Hugging Face makes special tokens of texts that contain their names, so that these are left out."""
    tokenizers = pytest.importorskip("tokenizers")
    theirs = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    theirs.enable_truncation(9)
    theirs.enable_padding(length=9, pad_id=preprocessor.pad_id, pad_token=preprocessor.packing.pad)
    plain = [text for text in texts if not any(token in text for token in _special_tokens(preprocessor))]
    for given, rows in ((plain, plain), ((plain, plain[::-1]), list(zip(plain, plain[::-1])))):
        inputs, expected = preprocessor(given), theirs.encode_batch(rows)
        assert inputs["token_ids"].numpy().tolist() == [encoding.ids for encoding in expected]
        if "segment_ids" in inputs:
            assert inputs["segment_ids"].numpy().tolist() == [encoding.type_ids for encoding in expected]
