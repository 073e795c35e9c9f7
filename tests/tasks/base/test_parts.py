"""Attributes of a task that belong to its parts, and tasks with several heads beyond the plain path."""

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import fine_tune, get_recipe
from keras_transfer.encoders import RobertaEncoder
from keras_transfer.objectives import TokenMasking
from keras_transfer.tasks import MaskedLM, SpanExtractor, TextEmbedder
from keras_transfer.text import Packing, TokenPreprocessor, WordPieceTokenizer
from tests.helpers import EAGER
from tests.tasks.base.test_custom_task import TEXTS, Two
from tests.tasks.tiny import VOCABULARY, classifier, difference, encoder, message, preprocessor

LABELS = {"topic": ["good", "bad", "good"], "length": [2.0, 1.0, 1.0]}


def two():
    keras.utils.set_random_seed(0)
    model = Two(encoder(), preprocessor(), ["bad", "good"])
    model.compile("sgd", run_eagerly=EAGER)
    return model


def inputs_of(model):
    return {name: np.array(values) for name, values in model.preprocessor(TEXTS).items()}


def test_setting_an_attribute_changes_what_the_task_does():
    hidden = MaskedLM(encoder(), preprocessor())
    texts, few = ["a b c d e f g h"] * 4, hidden.dataset(["a b c d e f g h"] * 4)[0][1]
    hidden.objective = TokenMasking(0.9)
    assert (hidden.dataset(texts)[0][1] >= 0).sum() > 2 * (few >= 0).sum()

    embedder = TextEmbedder(encoder(), preprocessor(), prompts={"query": "good bad"})
    plain = embedder.embed(["a"])
    embedder.default_prompt_name = "query"
    assert difference(embedder.embed(["a"]), plain) > 1e-4
    assert embedder.get_config()["default_prompt_name"] == "query"

    tokens = TokenPreprocessor(WordPieceTokenizer(VOCABULARY), Packing(["[CLS]"], ["[SEP]"], ["[SEP]"], pad="[PAD]"), 8)
    spans = SpanExtractor(encoder(RobertaEncoder), tokens, doc_stride=2)
    context = "a b c d e f g h i j"
    windows = len(spans.dataset((["a"], [context]), [None]).order)
    spans.doc_stride = 1
    assert len(spans.dataset((["a"], [context]), [None]).order) > windows

    model = classifier()
    model.label_names = ["no", "yes"]
    assert set(model.predict_labels(TEXTS)) <= {"no", "yes"} and model.get_config()["label_names"] == ["no", "yes"]


def test_classes_can_be_renamed_but_their_number_does_not_change():
    model = classifier()
    for names in (["no"], ["no", "yes", "maybe"], ["no", "no"], "no", None):
        with pytest.raises(ValueError, match="`label_names` must be"):
            model.label_names = names
    assert model.label_names == ["0", "1"]
    model.label_names = np.array(["no", "yes"])
    assert model.label_names == ["no", "yes"]


def test_a_preprocessor_whose_length_has_changed_must_still_fit_the_encoder():
    model = classifier()
    model.compile("sgd")
    model.preprocessor.sequence_length = 64
    calls = [lambda: model.predict(TEXTS), lambda: model.fit(TEXTS, [0, 1, 0]), lambda: model.predict_proba(TEXTS)]
    for call in calls:
        assert "at most 32, the encoder's number of positions" in message(call)
    model.preprocessor.sequence_length = 16
    assert model.predict(TEXTS, verbose=0).shape == (3, 2)


def test_the_labels_of_several_heads_may_be_split_prepared_or_a_table():
    import pandas

    model = two()
    assert "val_loss" in model.fit(TEXTS, LABELS, validation_split=0.4, verbose=0).history
    inputs, losses = inputs_of(model), []
    for x, y in ((TEXTS, LABELS), (inputs, LABELS), (TEXTS, pandas.DataFrame(LABELS))):
        losses.append(model.evaluate(x, y, verbose=0, return_dict=True)["loss"])
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-5)
    assert model.test_on_batch(inputs, LABELS, return_dict=True)["loss"] == pytest.approx(losses[0], rel=1e-5)
    assert np.isfinite(model.train_on_batch(inputs, LABELS)).all()


def test_wrong_labels_in_a_dataset_name_the_head():
    import tensorflow as tf

    model = two()
    labels = {"topic": np.array([0, 7, 1]), "length": np.array([1.0, 2.0, 3.0], "float32")}
    stream = tf.data.Dataset.from_tensor_slices((inputs_of(model), labels)).batch(3)
    before = model.get_weights()
    assert "Labels of 'topic': Labels must be integers from 0 to 1. Received: 7" in message(
        lambda: model.fit(stream, verbose=0)
    )
    assert difference(model.get_weights(), before) == 0


def test_what_names_no_head_is_an_error():
    model = two()
    found = message(lambda: model.compile(loss={"topick": "mse", "length": "mse"}))
    assert "`loss` must be a dict with the names of heads" in found and "Did you mean 'topic'?" in found
    model.compile("sgd", loss={"topic": "focal"})
    assert isinstance(model.loss["length"], keras.losses.MeanSquaredError)
    assert "Head 'topic': Unknown metric" in message(lambda: model.compile(metrics={"topic": ["nothing"]}))


def test_fine_tune_trains_tasks_that_make_their_targets():
    model = MaskedLM(encoder(), preprocessor())
    before = model.get_weights()
    fine_tune(model, ["a b c d", "e f g h"] * 4, recipe=get_recipe("bert", epochs=1), verbose=0)
    assert difference(model.get_weights(), before) > 0
