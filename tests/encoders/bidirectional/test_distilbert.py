"""`DistilBertEncoder`: the protocol, and a classifier from its folder to an export of raw text."""

import shutil

import numpy as np
import pytest

from keras_transfer.tasks import TextClassifier
from keras_transfer.text import BertPreprocessor
from tests.architecture import FIXTURES
from tests.helpers import in_graph

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "film", "##s", *"abcdefghijkl"]


def test_a_classifier_loads_from_its_folder_and_its_signature_takes_texts(tmp_path):
    pytest.importorskip("tensorflow_text")
    folder = shutil.copytree(FIXTURES / "distilbert", tmp_path / "distilbert")
    BertPreprocessor(VOCABULARY, sequence_length=12).save(folder)
    model = TextClassifier.from_pretrained(folder, num_classes=2, pooling="first")
    texts = ["the films", "a b c d"]
    expected = model.predict_on_batch(texts)
    probabilities = in_graph(model.signatures()["serving_default"], texts)["probabilities"]
    np.testing.assert_allclose(np.log(probabilities[:, 1] / probabilities[:, 0]), expected @ [-1, 1], atol=1e-4)
