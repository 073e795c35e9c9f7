"""Outputs of any functional model are stored once for each row, and read like a column of batches."""

import keras
import numpy as np
import pytest

from keras_transfer.data import store_rows
from tests.tasks import tiny


@pytest.mark.usefixtures("eagerly")
def test_a_probe_trains_on_the_stored_vectors_of_a_layer(tmp_path, monkeypatch):
    texts, labels = tiny.examples(12)
    model = tiny.classifier(num_layers=2)
    encoder = model.encoder
    lower = keras.Model(encoder.input, {"vectors": encoder.hidden_states[1]})
    data = model.dataset(texts, labels, batch_size=4)
    stored = store_rows(lower, data, folder=tmp_path / "rows", verbose=0)
    monkeypatch.setattr(lower, "predict_on_batch", None)  # The second time, nothing runs.
    again = store_rows(lower, data, folder=tmp_path / "rows", verbose=0)
    batches = data.apart(inputs={"vectors": again["vectors"], "padding_mask": data.inputs["padding_mask"]})
    inputs, found = data[0][0], batches[0][0]
    expected = keras.ops.convert_to_numpy(lower(inputs)["vectors"]) * inputs["padding_mask"][:, :, None]
    np.testing.assert_allclose(found["vectors"] * found["padding_mask"][:, :, None], expected, atol=1e-5)
    np.testing.assert_array_equal(stored["vectors"].values, again["vectors"].values)

    vectors = keras.Input((None, 16), name="vectors")
    mask = keras.Input((None,), name="padding_mask")
    probe = keras.Model(
        {"vectors": vectors, "padding_mask": mask},
        keras.layers.Dense(2)(keras.layers.GlobalAveragePooling1D()(vectors, mask=mask)),
    )
    probe.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    losses = probe.fit(batches, epochs=2, verbose=0).history["loss"]
    assert np.isfinite(losses).all()


@pytest.mark.usefixtures("eagerly")
def test_stored_rows_are_an_array_that_a_head_may_have_as_labels(tmp_path):
    texts, _ = tiny.examples(8)
    model = tiny.classifier(num_layers=1)
    lower = keras.Model(
        model.encoder.input, {"vectors": model.encoder.output["sequence_output"], "logits": model.output}
    )
    data = model.dataset(texts, batch_size=4)
    stored = store_rows(lower, data, verbose=0)
    logits = stored["logits"]
    np.testing.assert_allclose(np.asarray(logits), model.predict(texts, verbose=0), atol=1e-5)
    np.testing.assert_array_equal(logits[np.array([5, 2])], np.asarray(logits)[[5, 2]])
    assert np.asarray(stored["vectors"]).shape == stored["vectors"].shape == stored["vectors"][np.arange(8)].shape
    model.compile("sgd", keras.losses.MeanSquaredError(), metrics=[])
    batches = data.apart(labels=logits)
    assert model.evaluate(batches, verbose=0, return_dict=True)["loss"] < 1e-8


def test_a_model_with_one_output_and_a_list_of_inputs_needs_no_dicts(tmp_path):
    texts, _ = tiny.examples(6)
    model = tiny.classifier(num_layers=1)
    expected = model.predict(texts, verbose=0)
    stored = store_rows(model, model.dataset(texts, batch_size=4), folder=tmp_path / "rows", verbose=0)
    np.testing.assert_allclose(np.asarray(stored), expected, atol=1e-5)
    listed = keras.Model(
        [model.input["token_ids"], model.input["padding_mask"], model.input["segment_ids"]], model.output
    )
    np.testing.assert_allclose(store_rows(listed, model.dataset(texts), verbose=0), expected, atol=1e-5)


@pytest.mark.usefixtures("eagerly")
def test_labels_of_tokens_are_as_long_as_the_inputs_of_a_batch():
    texts, _ = tiny.examples(12)
    model = tiny.classifier(num_layers=1)
    data = model.dataset(texts, batch_size=3, shuffle=True)
    states = store_rows(keras.Model(model.encoder.input, model.encoder.hidden_states[1]), data, verbose=0)
    for inputs, labels in (item for item in data.replace(labels={"states": states, "row": np.arange(12)})):
        assert labels["states"].shape == (*inputs["token_ids"].shape, 16)
        expected = model.encoder.hidden_states[1]
        expected = keras.ops.convert_to_numpy(keras.Model(model.encoder.input, expected)(inputs))
        real = np.asarray(inputs["padding_mask"])[:, :, None]
        np.testing.assert_allclose(labels["states"], expected * real, atol=1e-5)


@pytest.mark.usefixtures("eagerly")
def test_rows_of_other_weights_are_not_read(tmp_path):
    texts, _ = tiny.examples(4)
    model = tiny.classifier(num_layers=1)
    lower = keras.Model(model.encoder.input, {"vectors": model.encoder.output["pooled_output"]})
    store_rows(lower, model.dataset(texts), folder=tmp_path / "rows", verbose=0)
    weight = lower.weights[0]
    weight.assign(weight + 1)
    with pytest.raises(ValueError, match="model"):
        store_rows(lower, model.dataset(texts), folder=tmp_path / "rows", verbose=0)
