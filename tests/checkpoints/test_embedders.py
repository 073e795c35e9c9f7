"""A `TextEmbedder` as a folder of sentence-transformers, and back."""

import json

import numpy as np
import pytest

from keras_transfer.checkpoints import CheckpointError
from keras_transfer.encoders import ElmoEncoder
from keras_transfer.tasks import TextEmbedder
from tests.tasks.tiny import encoder, preprocessor

TEXTS = ["a b", "good", "c d e f g h", "a bad i j"]


@pytest.mark.core
@pytest.mark.parametrize(("pooling", "normalize"), [("first", False), ("max", True)])
def test_the_pooling_of_the_task_is_written_whatever_the_encoder_has(pooling, normalize, tmp_path):
    model = TextEmbedder(encoder(pooling="mean"), preprocessor(), pooling, normalize)
    model.save_pretrained(tmp_path / "saved")
    again = TextEmbedder.from_pretrained(tmp_path / "saved")
    assert (again.pooling, again.normalize) == (pooling, normalize)
    np.testing.assert_array_equal(again.embed(TEXTS, verbose=0), model.embed(TEXTS, verbose=0))
    modules = json.loads((tmp_path / "saved" / "modules.json").read_text())
    kinds = ["Transformer", "Pooling", *(["Normalize"] if normalize else [])]
    assert [module["type"].rsplit(".", 1)[1] for module in modules] == kinds


def test_what_a_folder_cannot_contain_is_an_error_and_writes_nothing(tmp_path):
    for pooling in ("pooled", "last", "concat"):
        with pytest.raises(CheckpointError, match=rf"the poolings \['first', 'max', 'mean'\].*pooling='{pooling}'"):
            TextEmbedder(encoder(), preprocessor(), pooling).save_pretrained(tmp_path / "saved")
    elmo = ElmoEncoder(4, [(1, 4), (2, 8)], projection_dim=8, units=16)
    with pytest.raises(CheckpointError, match="cannot contain the pooling of a TextEmbedder.*'normalize': True"):
        TextEmbedder(elmo, normalize=True).save_pretrained(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


@pytest.mark.parity
def test_sentence_transformers_gives_the_vectors_of_a_folder_that_we_wrote(minilm, tmp_path):
    reason = "compares with sentence-transformers on torch: run `make test-parity`"
    library = pytest.importorskip("sentence_transformers", reason=reason, exc_type=ImportError)
    model = TextEmbedder.from_pretrained(minilm, pooling="max", normalize=False)
    model.save_pretrained(tmp_path / "saved")
    texts = ["What a film!", "A longer text, of two sentences. It ends here.", ""]
    theirs = library.SentenceTransformer(str(tmp_path / "saved"), device="cpu").encode(texts)
    np.testing.assert_allclose(model.embed(texts, verbose=0), theirs, rtol=0, atol=1e-4)


@pytest.mark.slow
def test_the_packaged_encoder_gives_the_embeddings_of_sentence_transformers(minilm):
    from tests.serving.test_export_embeddings import REFERENCE

    model = TextEmbedder.from_pretrained(minilm)
    with np.load(REFERENCE) as arrays:
        texts, expected = arrays["texts"].tolist(), arrays["embeddings"]
    np.testing.assert_allclose(model.embed(texts, verbose=0), expected, atol=1e-5)
    scores, indices = model.search(texts, texts, k=1, verbose=0)
    assert indices[:, 0].tolist() == list(range(len(texts)))
    np.testing.assert_allclose(scores, 1, atol=1e-5)
