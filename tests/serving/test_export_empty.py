"""Requests without texts, words or ids: every signature answers them, and no network runs on an empty tensor."""

import keras
import numpy as np
import pytest

from keras_transfer import encoders, hub, tasks, text
from keras_transfer.serving.formats.savedmodel import concrete_signature, make_signatures
from tests.tasks.tagging.taggers import NAMES, VOCABULARY, WORDS, elmo, vectors

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

from tests.hub.saved_modules import save_bert_module, save_text_module  # noqa: E402 (it imports tensorflow)


class NotEmpty(keras.layers.Layer):
    """Returns its input, and fails when it runs on a tensor without entries, on any CPU."""

    def call(self, inputs):
        with tf.control_dependencies([tf.debugging.assert_positive(tf.size(inputs), "an empty tensor")]):
            return tf.identity(inputs)

    def compute_output_spec(self, inputs):
        return keras.KerasTensor(inputs.shape, inputs.dtype)


def guarded(encoder):
    """An encoder whose inputs and outputs must not be empty."""
    inputs = {name: NotEmpty(name=f"guard_{name}")(tensor) for name, tensor in encoder.input.items()}
    outputs = keras.tree.map_structure(lambda output: NotEmpty()(output), encoder(inputs))
    return keras.Model(encoder.input, outputs)


class WithSegments(text.WordPreprocessor):
    """Returns all inputs of BERT, with a small graph."""

    def _pack_words(self, pieces, sequence_length):
        inputs = super()._pack_words(pieces, sequence_length)
        return {**inputs, "segment_ids": tf.zeros_like(inputs["token_ids"])}

    def compute_output_spec(self, texts, sequence_length=None):
        inputs = super().compute_output_spec(texts, sequence_length)
        return {**inputs, "segment_ids": inputs["token_ids"]}


SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 8, "max_sequence_length": 24}


def words():
    return WithSegments(WORDS, sequence_length=24)


def bert(folder):
    return encoders.BertEncoder(len(WORDS) + 2, **SIZES), words()


def keras_hub_bert(folder):
    return pytest.importorskip("keras_hub").models.BertBackbone(len(WORDS) + 2, **SIZES), words()


def hub_ids(folder):
    return hub.HubEncoder(save_bert_module(folder / "ids", layers=1, vocabulary=len(WORDS) + 2)), words()


def hub_text(folder):
    return hub.HubEncoder(save_text_module(folder / "module" / "text")), None


KINDS = {
    "bert": bert,
    "elmo": lambda folder: elmo(),
    "vectors": lambda folder: vectors(),
    "keras_hub": keras_hub_bert,
    "hub_ids": hub_ids,
    "hub_text": hub_text,
}


def answers(signature, **inputs):
    """Shapes and dtypes of a signature's outputs."""
    return {name: (tuple(value.shape), value.dtype.name) for name, value in signature(**inputs).items()}


def ids(model, *shape):
    """Zeros [batch, length] for every input of a model, with further axes where it has them."""
    return {name: tf.zeros([*shape, *tensor.shape[2:]], tensor.dtype) for name, tensor in model.input.items()}


NOTHING = tf.constant([], tf.string)
LABELS = {"label": ((0,), "string"), "label_id": ((0,), "int32"), "probabilities": ((0, 3), "float32")}


# The signatures of a task are the same over each of them.
OTHERS = ("elmo", "vectors", "keras_hub", "hub_ids")


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=[pytest.mark.slow] * (kind in OTHERS)) for kind in KINDS])
def test_no_texts_get_no_answers_and_no_encoder_sees_an_empty_tensor(kind, tmp_path):
    encoder, preprocessor = KINDS[kind](tmp_path)
    model = tasks.TextClassifier(guarded(encoder), preprocessor, num_classes=3)
    signatures = make_signatures(model, NAMES)
    assert answers(signatures["serving_default"], text=NOTHING) == LABELS
    dim = signatures["embed"].structured_outputs["embedding"].shape[-1]
    assert answers(signatures["embed"], text=NOTHING) == {"embedding": ((0, dim), "float32")}
    if "tokens" in signatures:
        for shape in [(0, 0), (0, 3), (2, 0)]:
            assert answers(signatures["tokens"], **ids(model, *shape)) == {"logits": ((shape[0], 3), "float32")}


def test_no_pairs_get_no_answers_and_texts_without_a_pair_or_ids_without_a_mask_are_errors():
    encoder = encoders.BertEncoder(len(VOCABULARY), **SIZES)
    model = tasks.TextClassifier(guarded(encoder), text.BertPreprocessor(VOCABULARY, sequence_length=24), num_classes=3)
    signatures = make_signatures(model, NAMES, pairs=True)
    assert answers(signatures["serving_default"], text=NOTHING, text_pair=NOTHING) == LABELS
    for texts in [{"text": ["a"], "text_pair": []}, {"text": [], "text_pair": ["a"]}]:
        with pytest.raises(tf.errors.InvalidArgumentError, match="same batch size"):
            signatures["serving_default"](**{name: tf.constant(value, tf.string) for name, value in texts.items()})
    with pytest.raises(tf.errors.InvalidArgumentError, match="same batch size"):
        signatures["tokens"](**{**ids(model, 1, 5), "padding_mask": tf.zeros((1, 0), tf.int32)})


def test_requests_whose_inputs_differ_in_size_are_errors():
    def function(first, second):
        return {"sum": first + second, "second": second}

    specs = {name: tf.TensorSpec([None, None], tf.int32, name=name) for name in ("first", "second")}
    signature = concrete_signature(function, specs, axes=2)
    for first, second in [((2, 3), (2, 0)), ((2, 3), (0, 3)), ((2, 0), (2, 3)), ((1, 3), (0, 3)), ((1, 5), (1, 1))]:
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r"Inputs must have the same batch size.*first.*second"
        ):
            signature(first=tf.zeros(first, tf.int32), second=tf.zeros(second, tf.int32))
    assert answers(signature, first=tf.zeros((0, 0), tf.int32), second=tf.zeros((0, 0), tf.int32)) == {
        "sum": ((0, 0), "int32"),
        "second": ((0, 0), "int32"),
    }


@pytest.mark.parametrize("kind", ["bert", pytest.param("elmo", marks=pytest.mark.slow)])
def test_no_words_get_no_labels_and_no_encoder_sees_an_empty_tensor(kind, tmp_path):
    encoder, preprocessor = KINDS[kind](tmp_path)
    model = tasks.TokenClassifier(guarded(encoder), preprocessor, label_names=NAMES)
    signatures = make_signatures(model, NAMES)

    def labels(*shape):
        return {"label": (shape, "string"), "label_id": (shape, "int32"), "probabilities": ((*shape, 3), "float32")}

    for texts in ([], ["", " "]):
        shape = (len(texts), 0)
        found = answers(signatures["serving_default"], text=tf.constant(texts, tf.string))
        assert found == {"words": (shape, "string"), **labels(*shape)}
    for shape in [(0, 0), (0, 3), (2, 0), (2, 3)]:
        assert answers(signatures["words"], words=tf.zeros(shape, tf.string)) == labels(*shape)
        assert answers(signatures["tokens"], **ids(model, *shape)) == {"logits": ((*shape, 3), "float32")}
    assert signatures["tokens"].structured_outputs["logits"].shape.as_list() == [None, None, 3]
    assert not np.isnan(signatures["tokens"](**ids(model, 2, 3))["logits"]).any()
