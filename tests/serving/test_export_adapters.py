"""A model with adapters is exported with them."""

import numpy as np
import pytest

import keras_transfer as kt
from tests.adaptation.adapters.adapter_models import randomize
from tests.tasks import tiny


def test_an_exported_model_computes_with_its_adapters(tmp_path):
    import tensorflow as tf

    model = kt.adaptation.add_adapters(tiny.classifier(), ["houlsby:2", "lora:r=2", "prefix:2"])
    texts = ["a good film", "bad"]
    before = model.predict(texts)
    expected = randomize(model)(texts)
    assert np.abs(expected - before).max() > 1e-4
    served = tf.saved_model.load(kt.serving.export(model, tmp_path / "served")).signatures["serving_default"]
    found = served(text=tf.constant(texts))["probabilities"]
    np.testing.assert_allclose(found, tf.nn.softmax(expected), atol=1e-6)


def test_each_row_of_a_request_names_its_adapter(tmp_path):
    import tensorflow as tf

    model, texts, expected = tiny.classifier(), ["a good film", "bad", "good a b c"], {}
    for name, spec in (("first", "houlsby:2"), ("second", ["prefix:2", "bitfit"])):
        randomize(kt.adaptation.add_adapters(model, spec, name=name), name)
        model.get_layer("logits").bias.assign(np.random.default_rng(len(name)).normal(size=2))
        expected[name] = tf.nn.softmax(model(texts)).numpy()
    served = kt.serving.export(model, tmp_path / "served", adapters=["first", "second"])
    answer = tf.saved_model.load(served).signatures["serving_default"]
    for names in (["first", "second", "first"], ["second"] * 3, ["", "second", ""]):
        found = answer(text=tf.constant(texts), adapter=tf.constant(names))["probabilities"].numpy()
        rows = [expected[name or "first"][i] for i, name in enumerate(names)]
        np.testing.assert_allclose(found, rows, atol=1e-6)
    assert answer(text=tf.constant([], tf.string), adapter=tf.constant([], tf.string))["probabilities"].shape == (0, 2)
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be one of"):
        answer(text=tf.constant(texts), adapter=tf.constant(["first", "third", ""]))
    with pytest.raises(ValueError, match="at least two names"):
        kt.serving.export(model, tmp_path / "other", adapters=["first"])
