"""`MaskedLM.classify`: labels by the probability of their token at the mask (PET)."""

import keras
import numpy as np
import pytest

from keras_transfer.tasks import MaskedLM
from tests.tasks.tiny import encoder, preprocessor

TEXTS = ["a b", "c"]
SHOTS = [("d e", "good"), ("f", "bad")]
TEMPLATE = "x {text} is {label} !"
LABELS = {"good": "g", "bad": "bad"}

pytestmark = pytest.mark.usefixtures("eagerly")


def masked_lm(**options):
    keras.utils.set_random_seed(0)
    return MaskedLM(encoder(initializer_range=0.5), preprocessor(**options))


def by_hand(model, text):
    """Returns the log-likelihoods of all tokens at the mask."""
    answers = model.fill_mask(text, k=17)[0][0]
    return {token: np.log(probability) for token, probability in answers}


@pytest.mark.core
def test_likelihoods_are_those_of_the_labels_tokens_in_the_written_template():
    model = masked_lm()
    found = model.label_log_likelihoods(TEXTS, LABELS, examples=SHOTS, template=TEMPLATE, separator=" ; ", batch_size=1)
    shots = "x d e is g ! ; x f is bad ! ; "
    every = [by_hand(model, f"{shots}x {text} is [MASK] !") for text in TEXTS]
    expected = [[likelihoods[word] for word in LABELS.values()] for likelihoods in every]
    np.testing.assert_allclose(found, expected, atol=1e-4)
    labels = [list(LABELS)[best] for best in np.argmax(expected, axis=1)]
    assert model.classify(TEXTS, LABELS, examples=SHOTS, template=TEMPLATE, separator=" ; ") == labels
    first = model.label_log_likelihoods(TEXTS, ["good", "bad"], template="{label}: {text}")
    np.testing.assert_allclose(first[0, 0], by_hand(model, "[MASK]: a b")["good"], atol=1e-4)
    assert model.classify([], LABELS) == []


def test_calibration_divides_by_the_likelihoods_for_texts_without_the_mask_token():
    model, template = masked_lm(), "{text} is {label}"

    def probabilities(texts):
        every = [by_hand(model, f"{text} is [MASK]") for text in texts]
        scores = np.exp([[likelihoods[word] for word in LABELS.values()] for likelihoods in every])
        return scores / scores.sum(axis=1, keepdims=True)

    texts = ["a", "b", "c", "d e", "f", "g h", "i"]
    calibrated = probabilities(texts) / probabilities(["N/A", ""]).mean(axis=0)
    labels = [list(LABELS)[best] for best in calibrated.argmax(axis=1)]
    assert model.classify(texts, LABELS, template=template, calibrate=True) == labels


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"template": "{text} is"}, r"must contain '{text}' once and '{label}' once. Received: template='{text} is'"),
        ({"template": "{text} is {label} or {label}"}, "`template` must contain"),
        ({"template": "{text} [MASK] {label}"}, r"must not contain '\[MASK\]'.*Received: 'a b \[MASK\] '"),
        ({"label_names": ["good", "bad j"]}, r"single token. Pass .* Received: 'bad j', which becomes \['bad', 'j'\]"),
        ({"label_names": ["good", "fine"]}, r"a single token. Pass .* Received: 'fine', which becomes \['\[UNK\]'\]"),
        (
            {"label_names": ["good", "Good"]},
            "must become different tokens.*Received: 'good' and 'Good', both with the ids",
        ),
        ({"examples": [("a b c d e f", "bad")] * 8}, "at most 32 tokens, .*Received: 61 tokens at position 0"),
    ],
)
def test_bad_input_is_an_error(options, message):
    with pytest.raises(ValueError, match=message):
        masked_lm().classify(TEXTS, **{"label_names": ["good", "bad"], **options})


def test_without_a_mask_token_or_a_preprocessor_it_is_an_error():
    words = [word for word in preprocessor().vocabulary if word != "[MASK]"]
    for model, message in (
        (MaskedLM(encoder(), type(preprocessor())(words, sequence_length=32)), "must contain the mask token"),
        (MaskedLM(encoder()), "requires a preprocessor"),
    ):
        with pytest.raises(ValueError, match=message):
            model.classify(TEXTS, ["good", "bad"])
