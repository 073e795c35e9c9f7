"""`CausalLM.classify`: labels by likelihood."""

import numpy as np
import pytest

from keras_transfer.tasks.in_context import CONTENT_FREE
from tests.tasks.language.test_causal_lm import small

TEXTS = ["a b", "c"]
SHOTS = [("d e", "good"), ("f", "bad")]
TEMPLATE = "x {text} is {label} !"
# Labels of one and two tokens.
LABELS = {"good": "good", "bad": "bad j"}

pytestmark = pytest.mark.usefixtures("eagerly")


def by_hand(model, start, label):
    """Returns the log-likelihood of a label after a text: the difference of two whole texts."""
    first, second = model.score([start, f"{start}{label}"]).token_log_likelihoods
    return second[: second.size - 1].sum() - first[: first.size - 1].sum()  # without the token at the end


@pytest.mark.core
def test_likelihoods_equal_those_of_the_written_template():
    model = small()
    found = model.label_log_likelihoods(TEXTS, LABELS, examples=SHOTS, template=TEMPLATE, separator=" ; ")
    shots = "x d e is good ! ; x f is bad j ! ; "
    expected = [[by_hand(model, f"{shots}x {text} is ", label) for label in LABELS.values()] for text in TEXTS]
    np.testing.assert_allclose(found, expected, atol=1e-4)
    labels = [list(LABELS)[best] for best in np.argmax(expected, axis=1)]
    assert model.classify(TEXTS, LABELS, examples=SHOTS, template=TEMPLATE, separator=" ; ") == labels


def test_calibration_divides_by_the_likelihoods_for_texts_without_content():
    model = small()

    def probabilities(texts):
        scores = np.array([[by_hand(model, f"{text}\n", label) for label in LABELS.values()] for text in texts])
        return np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)

    texts = ["a", "b", "c", "d e", "f", "g h", "i"]
    calibrated = probabilities(texts) / probabilities(CONTENT_FREE).mean(axis=0)
    labels = [list(LABELS)[best] for best in calibrated.argmax(axis=1)]
    assert model.classify(texts, LABELS, calibrate=True) == labels


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"template": "{text} is"},
            r"`template` must contain '{text}' once and, after it, '{label}' once. Received: te",
        ),
        ({"template": "{label}: {text}"}, "`template` must contain"),
        ({"label_names": ["good"]}, "`label_names` must contain at least two different strings"),
        (
            {"label_names": "good"},
            "`label_names` must contain at least two different strings. Received: label_names='good'",
        ),
        ({"label_names": ["g", "G"]}, r"different tokens.*Received: 'g' and 'G', both with the ids \[\d"),
        ({"label_names": ["good", "\u200b"]}, r"at least one token. Received: the label '\\u200b' without any"),
        ({"examples": [("a", "fine")]}, r"Labels of `examples` must be among \['good', 'bad'\]. Received: 'fine'"),
    ],
)
def test_bad_input_is_an_error(options, message):
    with pytest.raises(ValueError, match=message):
        small().classify(TEXTS, **{"label_names": ["good", "bad"], **options})
