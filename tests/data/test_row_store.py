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
    stored = store_rows(lower, data, "the first block", tmp_path / "rows", verbose=0)
    monkeypatch.setattr(lower, "predict_on_batch", None)  # The second time, nothing runs.
    again = store_rows(lower, data, "the first block", tmp_path / "rows", verbose=0)
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
