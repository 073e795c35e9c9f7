"""An exported `TextEmbedder` answers raw text with its vectors, without this library."""

import numpy as np
import pytest

from keras_transfer import serving
from keras_transfer.tasks import TextEmbedder
from tests.tasks.tiny import encoder, message, preprocessor

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

TEXTS = ["a b", "good", "", "c d e f g h", "a bad i j " * 20]


def test_a_process_with_only_tensorflow_gives_the_vectors_of_texts(tmp_path, process_without_this_package):
    model = TextEmbedder(encoder(initializer_range=0.3), preprocessor(), normalize=True)
    folder = serving.export(model, tmp_path / "served")
    found = process_without_this_package("tests.serving.alone:answers", folder, TEXTS, "serving_default")
    assert found["signatures"] == ["serving_default", "tokens"]
    np.testing.assert_allclose(found["outputs"]["embedding"], model.embed(TEXTS, verbose=0), atol=1e-5)


def test_pairs_of_texts_have_no_vector(tmp_path):
    model = TextEmbedder(encoder(), preprocessor())
    assert "does not support pairs of texts" in message(lambda: serving.export(model, tmp_path / "s", pairs=True))


def test_each_prompt_has_a_signature_and_the_default_prompt_is_in_front_of_texts(tmp_path):
    prompts = {"query": "bad ", "document": ""}
    options = {"dense": [{"units": 6, "activation": "tanh"}], "normalize": True, "truncate_dim": 4}
    model = TextEmbedder(
        encoder(initializer_range=0.3), preprocessor(), **options, prompts=prompts, default_prompt_name="query"
    )
    served = tf.saved_model.load(str(serving.export(model, tmp_path / "served"))).signatures
    assert set(served) == {"serving_default", "embed_query", "embed_document", "tokens"}
    for signature, prompt in (("serving_default", None), ("embed_query", "query"), ("embed_document", "document")):
        found = served[signature](text=tf.constant(["a b", "good"]))["embedding"]
        np.testing.assert_allclose(found, model.embed(["a b", "good"], verbose=0, prompt_name=prompt), atol=1e-5)
