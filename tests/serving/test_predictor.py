"""`Predictor`: tables in and out, with the answers of the export in the order of the rows."""

import pickle

import numpy as np
import pytest

from keras_transfer import serving

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

TEXTS = ["the film was good", "bad films", "", "good " * 20, "😀 good", "the bad film"]


@pytest.fixture
def table():
    return {"id": list(range(len(TEXTS))), "review": TEXTS}


def expected(exported, texts):
    """The answers of the export to all texts at once."""
    outputs = tf.saved_model.load(exported).signatures["serving_default"](text=tf.constant(texts))
    return {name: value.numpy() for name, value in outputs.items()}


def check(found, answers):
    np.testing.assert_array_equal(found["label_id"], answers["label_id"])
    assert list(found["label"]) == [label.decode() for label in answers["label"]]
    np.testing.assert_allclose(np.stack(list(found["probabilities"])), answers["probabilities"], atol=1e-5)


def test_a_copy_by_pickle_adds_the_answers_in_the_order_of_the_rows(exported, table):
    predict = pickle.loads(pickle.dumps(serving.Predictor(exported, "review", batch_size=2)))
    found = predict(table)
    assert list(found) == ["id", "review", "label", "label_id", "probabilities"]
    assert found["id"] is table["id"] and "label" not in table
    check(found, expected(exported, TEXTS))


def test_a_data_frame_keeps_its_index_and_its_other_columns(exported, table):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(table, index=[7, 7, 3, 1, 0, 2])
    found = serving.Predictor(exported, "review", batch_size=4)(frame)
    assert list(found.index) == list(frame.index) and list(found["id"]) == table["id"]
    check(found, expected(exported, TEXTS))


def test_two_columns_of_texts_with_one_name_are_an_error(exported):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([["a", "b"], ["c", "d"]], columns=["review", "review"])
    with pytest.raises(ValueError, match=r"'review' must be one column of texts.*Received: values of shape \(2, 2\)"):
        serving.Predictor(exported, "review")(frame)


def test_no_rows_have_columns_of_the_same_types(exported):
    found = serving.Predictor(exported)({"text": []})
    assert found["probabilities"].shape == (0, 3) and found["probabilities"].dtype == np.float32
    assert found["label_id"].shape == (0,) and found["label_id"].dtype == np.int32
    assert found["label"].shape == (0,) and found["label"].dtype == object


def test_another_signature_answers_with_its_own_outputs(exported, table):
    found = serving.Predictor(exported, "review", signature="embed")(table)
    assert found["embedding"].shape == (len(TEXTS), 16)


def test_all_predictors_of_a_folder_share_one_model(exported, table, monkeypatch):
    expected = serving.Predictor(exported, "review")(table)
    monkeypatch.setattr(tf.saved_model, "load", None)
    found = serving.Predictor(str(exported), ["review"])(table)
    assert found.keys() == expected.keys() and list(found["label"]) == list(expected["label"])


@pytest.mark.parametrize(
    ("columns", "table", "message"),
    [
        ("reviw", {"review": ["a"]}, "must have the column 'reviw'. Did you mean 'review'"),
        ("review", {"review": ["a", None]}, "must contain strings. Received at row 1: None"),
        ("review", {"review": ["a", "\ud800"]}, "UTF-8 can encode. Received at row 1"),
        ("review", {"review": ["a"], "label": [0]}, r"with the names of answers. .*Received: \['label'\]"),
        ("review", {"review": ["a"], "id": [0, 1]}, "the same number of rows. Received: {'review': 1, 'id': 2}"),
        (["review", "id"], {"review": ["a"], "id": ["b"]}, r"each input of the signature: \['text'\]"),
        ({"context": "review"}, {"review": ["a"]}, "each input of the signature"),
    ],
)
def test_a_mistake_in_the_table_is_named(exported, columns, table, message):
    with pytest.raises(ValueError, match=message):
        serving.Predictor(exported, columns)(table)


def test_a_mistake_in_the_arguments_is_named(exported, table, tmp_path):
    with pytest.raises(FileNotFoundError, match="must be an exported model"):
        serving.Predictor(tmp_path)
    with pytest.raises(ValueError, match="`batch_size`"):
        serving.Predictor(exported, batch_size=0)
    with pytest.raises(ValueError, match="Did you mean 'embed'"):
        serving.Predictor(exported, "review", signature="embd")(table)
    with pytest.raises(ValueError, match="one string for each row and input"):
        serving.Predictor(exported, "review", signature="tokens")(table)
    with pytest.raises(TypeError, match="Received: list"):
        serving.Predictor(exported)(TEXTS)
