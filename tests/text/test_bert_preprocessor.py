"""`BertPreprocessor`: packing, all kinds of calls, and errors for mistakes."""

import pickle
import sys

import keras
import numpy as np
import pytest

from keras_transfer.text import BertPreprocessor
from tests.errors import check_errors

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "film", "##s", "mask", "[", "]"]


@pytest.fixture
def preprocessor():
    return BertPreprocessor(VOCABULARY, sequence_length=8)


def ids(inputs):
    return inputs["token_ids"].numpy().tolist()


# Packing


def test_a_text_is_packed_between_cls_and_sep_and_padded(preprocessor):
    inputs = preprocessor(["The films"])
    assert ids(inputs) == [[2, 5, 6, 7, 3, 0, 0, 0]]
    assert inputs["segment_ids"].numpy().tolist() == [[0] * 8]
    assert inputs["padding_mask"].numpy().tolist() == [[1, 1, 1, 1, 1, 0, 0, 0]]
    assert {value.dtype for value in inputs.values()} == {tf.int32}


def test_the_second_text_of_a_pair_is_segment_1(preprocessor):
    inputs = preprocessor((["the"], ["film"]))
    assert ids(inputs) == [[2, 5, 3, 6, 3, 0, 0, 0]]
    assert inputs["segment_ids"].numpy().tolist() == [[0, 0, 0, 1, 1, 0, 0, 0]]
    assert inputs["padding_mask"].numpy().tolist() == [[1, 1, 1, 1, 1, 0, 0, 0]]


def test_padding_has_the_id_of_pad_wherever_that_is():
    preprocessor = BertPreprocessor(["film", *VOCABULARY[:6]], sequence_length=4)
    assert ids(preprocessor(["film"])) == [[3, 0, 4, 1]]


def test_a_call_can_set_another_length(preprocessor):
    assert ids(preprocessor(["the film film"], sequence_length=4)) == [[2, 5, 6, 3]]
    assert preprocessor(["the"], sequence_length=20)["token_ids"].shape == (1, 20)


def test_longest_pads_to_the_longest_of_the_batch_and_cuts_at_the_limit(preprocessor):
    inputs = preprocessor(["the film", ""], sequence_length="longest")
    assert ids(inputs) == [[2, 5, 6, 3], [2, 3, 0, 0]]
    assert preprocessor(["the " * 50], sequence_length="longest")["token_ids"].shape == (1, 8)
    assert preprocessor((["the"], ["the"]), sequence_length="longest")["token_ids"].shape == (1, 5)


def test_an_empty_batch_gives_empty_inputs(preprocessor):
    assert preprocessor([])["token_ids"].shape == (0, 8)
    assert preprocessor([], sequence_length="longest")["token_ids"].shape[0] == 0


def test_text_that_looks_like_a_special_token_is_tokenized_as_text(preprocessor):
    assert preprocessor.tokenize(["[MASK]"]).to_list() == [[9, 8, 10]]


# Kinds of inputs


@pytest.mark.report("An array of strings is taken for one text.", "sentence-transformers#3720")
def test_texts_can_be_any_kind_of_column(preprocessor):
    pandas, texts = pytest.importorskip("pandas"), ["the film", "films"]
    for column in (np.array(texts), tf.constant(texts), pandas.Series(texts, index=[7, 3])):
        assert ids(preprocessor(column)) == [[2, 5, 6, 3, 0, 0, 0, 0], [2, 6, 7, 3, 0, 0, 0, 0]]
        assert ids(preprocessor((column, column)))[1] == [2, 6, 7, 3, 6, 7, 3, 0]


@pytest.mark.parametrize("text", ["the film", b"the film", np.str_("the film"), "tensor"])
def test_a_single_text_gives_inputs_without_a_batch(text, preprocessor):
    text = tf.constant("the film") if text == "tensor" else text
    assert ids(preprocessor(text)) == [2, 5, 6, 3, 0, 0, 0, 0]
    assert ids(preprocessor((text, text))) == [2, 5, 6, 3, 5, 6, 3, 0]
    assert preprocessor.tokenize(text).numpy().tolist() == [5, 6]


def test_missing_texts_are_an_error_that_names_their_positions(preprocessor):
    texts = np.array(["the", None, "film", float("nan"), 3, None], dtype=object)
    with pytest.raises(ValueError, match=r"4 of 6 .* at \[1, 3, 4\].*Received: \[None, nan, 3\]"):
        preprocessor(texts)


test_inputs_that_are_not_texts_are_an_error = check_errors(
    (3, "Received: int 3"),
    (None, "Received: NoneType None"),
    ({"text": ["the"]}, "Received: dict"),
    ([["the"]], "Received: [['the']]"),
    (np.array([["the"]]), "Received: ndarray"),
    (tf.constant([["the"]]), "Received: texts=(1, 1)"),
    (tf.constant([1]), "must be a tensor of strings"),
    (tf.ragged.constant([["the"]]), "must be a tensor of strings"),
    ((("the", "film", "the"),), "Received: a tuple of 3"),
    (((["the"], ["film", "the"]),), "Received: first=(1,), second=(2,)"),
    (["the", "film \ud83d"], "lone surrogates. Received: 'film \\ud83d'"),
    call=lambda texts, preprocessor: preprocessor(texts),
)


test_text_in_another_encoding_is_an_error = check_errors(
    (
        lambda preprocessor: preprocessor(["the", "café ".encode() + "film é".encode("latin-1")]),
        "must be UTF-8 ... Received: b'caf",
    ),
    (
        lambda preprocessor: list(tf.data.Dataset.from_tensors(["caf\u00e9".encode("latin-1")]).map(preprocessor)),
        tf.errors.InvalidArgumentError,
        "Texts must be UTF-8",
    ),
)


@pytest.mark.parametrize("length", [2, 7.5, "max", None])
def test_a_wrong_length_is_an_error(length, preprocessor):
    with pytest.raises(ValueError, match="at least 3.*Received: sequence_length="):
        BertPreprocessor(VOCABULARY, sequence_length=length)
    if length is not None:
        with pytest.raises(ValueError, match="at least 3.*Received: sequence_length="):
            preprocessor(["the"], sequence_length=length)


def test_the_error_for_mapping_over_texts_and_labels_says_how_to_do_it(preprocessor):
    dataset = tf.data.Dataset.from_tensor_slices((["the"], [1])).batch(1)
    with pytest.raises(ValueError, match=r"ds.map\(lambda x, y: \(preprocessor\(x\), y\)\)"):
        dataset.map(preprocessor)


def test_a_preprocessor_without_a_vocabulary_is_an_error():
    with pytest.raises(ValueError, match="has no vocabulary.*Received: vocabulary=None"):
        BertPreprocessor()(["the"])


# In graphs, models and files


def test_it_runs_inside_tf_data(preprocessor):
    pairs = tf.data.Dataset.from_tensor_slices((["the film"] * 5, ["film"] * 5)).batch(2)
    inputs = list(pairs.map(lambda first, second: preprocessor((first, second))))
    assert ids(inputs[2]) == [[2, 5, 6, 3, 6, 3, 0, 0]]
    single = tf.data.Dataset.from_tensor_slices(["the film"]).map(preprocessor)
    assert single.element_spec["token_ids"].shape == (8,)


def small_model(preprocessor):
    text = keras.Input(shape=(), dtype="string")
    inputs = preprocessor(text)
    mask = keras.layers.Rescaling(1.0)(inputs["padding_mask"])
    hidden = keras.layers.Embedding(len(VOCABULARY), 1)(inputs["token_ids"])[..., 0]
    return keras.Model(text, keras.ops.sum(hidden * mask, axis=1, keepdims=True))


def test_it_is_saved_inside_a_keras_file_with_its_vocabulary(preprocessor, tmp_path):
    model = small_model(preprocessor)
    texts = tf.constant(["the film", "films"])
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded.predict(texts), model.predict(texts), rtol=1e-6)
    again = next(layer for layer in loaded.layers if isinstance(layer, BertPreprocessor))
    assert again.vocabulary == VOCABULARY
    assert again.get_config() == preprocessor.get_config()


def test_a_functional_model_takes_pairs(preprocessor, tmp_path):
    first, second = (keras.Input(shape=(), dtype="string", name=name) for name in "ab")
    outputs = preprocessor((first, second), sequence_length=6)
    assert outputs["token_ids"].shape == (None, 6)
    keras.Model([first, second], outputs).save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    inputs = loaded([tf.constant(["the"]), tf.constant(["film"])])
    assert keras.ops.convert_to_numpy(inputs["token_ids"]).tolist() == [[2, 5, 3, 6, 3, 0]]


def test_a_functional_input_of_another_shape_is_an_error(preprocessor):
    with pytest.raises(ValueError, match=r"keras.Input\(shape=\(\), dtype=\"string\"\)"):
        preprocessor(keras.Input(shape=(1,), dtype="string"))


def test_its_config_has_everything_but_the_vocabulary():
    preprocessor = BertPreprocessor(VOCABULARY, 16, lowercase=False, strip_accents=True, name="text")
    config = preprocessor.get_config()
    assert list(config) == ["sequence_length", "lowercase", "strip_accents", "clean_up", "split", "name"]
    assert BertPreprocessor.from_config(config).get_config() == config


def test_it_can_be_pickled(preprocessor):
    assert ids(pickle.loads(pickle.dumps(preprocessor))(["film"])) == ids(preprocessor(["film"]))


@pytest.mark.core
def test_it_gives_the_same_tensors_of_tensorflow_on_every_backend(preprocessor):
    inputs = preprocessor(["the film"])
    assert all(tf.is_tensor(value) for value in inputs.values())
    assert ids(inputs) == [[2, 5, 6, 3, 0, 0, 0, 0]]


def test_without_tensorflow_text_the_error_says_what_to_install(preprocessor, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    with pytest.raises(ImportError, match="pip install tensorflow-text"):
        preprocessor(["café"])  # Plain texts do not need it.


def test_a_model_that_takes_text_can_be_exported(preprocessor, tmp_path):
    model = small_model(preprocessor)
    texts = tf.constant(["the film", "films"])
    expected = model.predict(texts)
    model.export(tmp_path / "served", verbose=False)
    served = tf.saved_model.load(tmp_path / "served")
    np.testing.assert_allclose(served.serve(texts), expected, rtol=1e-6)
