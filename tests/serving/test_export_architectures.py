"""A classifier over encoders whose graphs differ most is exported, and answers raw text."""

import numpy as np
import pytest

from keras_transfer import serving
from keras_transfer.encoders import Encoder
from keras_transfer.tasks import TextClassifier
from keras_transfer.text import Packing, TokenPreprocessor, WordPieceTokenizer
from tests.architecture import FIXTURES

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "film", "##s", "was", "good", "bad"]
TEXTS = ["the film was good", "bad films", ""]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "deberta-v2_convolution", "gpt2", "modernbert", "xlm", "xlnet"])
def test_the_export_answers_as_the_model_does(name, tmp_path):
    import tensorflow as tf

    packing = Packing(["[CLS]"], ["[SEP]"], ["[SEP]"], "[PAD]", segments=(0, 1))
    preprocessor = TokenPreprocessor(WordPieceTokenizer(WORDS), packing, sequence_length=8)
    options = {"language": 1} if name == "xlm" else {}  # Texts do not say which language they have.
    model = TextClassifier(Encoder.from_pretrained(FIXTURES / name, **options), preprocessor, num_classes=2)
    model.weights[-2].assign(np.linspace(-1, 1, 16).reshape(8, 2))
    served = tf.saved_model.load(str(serving.export(model, tmp_path / "served"))).signatures["serving_default"]
    expected = tf.nn.softmax(model.predict(TEXTS, verbose=0))
    np.testing.assert_allclose(served(text=tf.constant(TEXTS))["probabilities"], expected, atol=1e-5)
    assert np.ptp(np.array(expected)[:, 0]) > 1e-3  # The answers differ from text to text.
