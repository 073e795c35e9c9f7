"""`embed` of an exported all-MiniLM-L6-v2 gives the embeddings of sentence-transformers."""

import numpy as np
import pytest

from keras_transfer import serving, tasks
from tests.samples import REFERENCES

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

pytestmark = pytest.mark.slow

REFERENCE = REFERENCES / "sentence_embeddings.npz"


@pytest.fixture(scope="module")
def model(minilm):
    return tasks.TextClassifier.from_pretrained(minilm, num_classes=2)


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    return serving.export(model, tmp_path_factory.mktemp("minilm") / "served")


@pytest.fixture(scope="module")
def embed(folder):
    signature = tf.saved_model.load(folder).signatures["embed"]
    return lambda texts: signature(text=tf.constant(texts))["embedding"].numpy()


@pytest.fixture(scope="module")
def reference():
    with np.load(REFERENCE) as arrays:
        return arrays["texts"].tolist(), arrays["embeddings"]


def test_embeddings_are_those_of_sentence_transformers(embed, reference):
    texts, expected = reference
    assert expected.shape == (7, 384)
    for text, vector in zip(texts, expected, strict=True):
        np.testing.assert_allclose(embed([text])[0], vector, atol=1e-5, err_msg=text[:50])


def test_texts_of_different_lengths_do_not_change_each_other_s_embeddings(embed, reference):
    texts, expected = reference
    np.testing.assert_allclose(embed(texts), expected, atol=1e-5)


def test_a_text_is_truncated_after_256_tokens(embed, reference):
    texts, _ = reference
    long = texts[5]
    assert len(long.split()) > 254 and long.startswith("a b c")
    np.testing.assert_allclose(embed([long]), embed([" ".join(long.split()[:254])]), atol=1e-6)
    assert np.abs(embed([long]) - embed([" ".join(long.split()[:234])])).max() > 1e-3


def test_embeddings_have_length_1(embed, reference):
    np.testing.assert_allclose(np.linalg.norm(embed(reference[0]), axis=1), 1, atol=1e-6)


def test_the_90_megabytes_of_weights_are_written_once(model, folder):
    weights = 4 * model.count_params()
    assert weights == 90_264_584
    written = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    assert weights < written < 1.05 * weights
