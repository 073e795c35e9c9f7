"""XLM: languages of tokens, and positions that restart at a translation."""

import keras
import numpy as np
import pytest

from keras_transfer.encoders import Encoder, XlmEncoder
from keras_transfer.objectives import TranslationMasking
from keras_transfer.optimizers import FusedAdamW
from keras_transfer.tasks import MaskedLM, TextClassifier
from tests.architecture import FIXTURES
from tests.errors import check_errors
from tests.helpers import outputs_of
from tests.tasks.tiny import preprocessor

SMALL = {"vocabulary_size": 20, "num_layers": 1, "num_heads": 2, "hidden_dim": 8, "num_languages": 3}
IDS = np.array([[2, 5, 6, 3, 2, 8, 3], [2, 9, 3, 2, 4, 3, 0]], "int32")
INPUTS = {
    "token_ids": IDS,
    "language_ids": np.array([[0, 0, 0, 0, 2, 2, 2], [0, 0, 0, 2, 2, 2, 0]], "int32"),
    "padding_mask": np.minimum(IDS, 1),
}


def test_languages_are_inputs_or_the_same_for_all_tokens():
    encoder = Encoder.from_pretrained(FIXTURES / "xlm")
    alone = Encoder.from_pretrained(FIXTURES / "xlm", language=2)
    assert "language_ids" in encoder.input and "language_ids" not in alone.input
    every = {**INPUTS, "language_ids": np.full_like(IDS, 2)}
    expected = outputs_of(encoder, every)["sequence_output"]
    np.testing.assert_allclose(outputs_of(alone, every)["sequence_output"], expected, atol=1e-6)
    assert np.abs(outputs_of(encoder, INPUTS)["sequence_output"] - expected).max() > 0.1


def test_positions_may_restart():
    encoder = Encoder.from_pretrained(FIXTURES / "xlm")
    own = Encoder.from_pretrained(FIXTURES / "xlm", further_inputs=["positions"])
    assert own.get_config()["further_inputs"] == ["positions"]
    counted = {**INPUTS, "positions": np.broadcast_to(np.arange(7, dtype="int32"), IDS.shape)}
    restarted = {**INPUTS, "positions": np.array([[0, 1, 2, 3, 0, 1, 2], [0, 1, 2, 0, 1, 2, 0]], "int32")}
    expected = outputs_of(encoder, INPUTS)["sequence_output"]
    np.testing.assert_allclose(outputs_of(own, counted)["sequence_output"], expected, atol=1e-6)
    # Within a text, and without its neighbor, restarted positions are those of the text alone.
    apart = {name: np.where(np.arange(7) < 3, 0, value)[1:] for name, value in restarted.items()}
    alone = {name: value[1:, 3:6] for name, value in INPUTS.items()}
    found = outputs_of(own, {**apart, "token_ids": IDS[1:]})["sequence_output"][:, 3:6]
    np.testing.assert_allclose(found, outputs_of(encoder, alone)["sequence_output"], atol=1e-5)


@pytest.mark.slow
def test_translation_language_modeling_learns_words_from_their_translations():
    keras.utils.set_random_seed(0)
    random, words = np.random.default_rng(0), np.arange(5, 25)
    texts = [np.array([2, *random.choice(words, 5), 3]) for _ in range(1024)]
    translations = [np.where(text < 5, text, text + 20) for text in texts]
    tokens = {"mask_id": 4, "vocabulary_size": 45, "special_ids": range(5)}
    ids = np.concatenate([texts, translations], axis=1)
    inputs = {
        "token_ids": ids,
        "padding_mask": np.ones_like(ids),
        "language_ids": np.repeat([[0] * 7 + [1] * 7], 1024, 0),
    }
    inputs, targets = TranslationMasking()(inputs, random, **tokens)
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 32, "num_languages": 2, "dropout": 0.0}
    sizes |= {"attention_dropout": 0.0, "initializer_range": 0.1}
    model = MaskedLM(XlmEncoder(45, **sizes, further_inputs=["positions"]))
    model.compile(FusedAdamW(1e-2))
    model.fit(inputs, targets, epochs=12, batch_size=64, verbose=0)
    right = model.evaluate(inputs, targets, verbose=0, return_dict=True)
    assert right["accuracy"] > 0.8  # by chance 0.05, and from the language 0.05
    for name in ("positions", "language_ids"):
        wrong = model.evaluate({**inputs, name: 0 * inputs[name]}, targets, verbose=0, return_dict=True)
        assert wrong["loss"] > 1.5 * right["loss"], name


test_mistakes_are_errors = check_errors(
    (lambda: XlmEncoder(**SMALL, language=3), "`language` must be from 0 to 2"),
    (lambda: XlmEncoder(**SMALL, further_inputs=["languages"]), "some of ['attention_mask', 'positions']"),
    (
        lambda: TextClassifier(XlmEncoder(**SMALL), preprocessor(), num_classes=2),
        "`preprocessor` must return the encoder's input 'language_ids'",
    ),
    (
        lambda tmp_path: XlmEncoder(**SMALL, intermediate_dim=16).save_pretrained(tmp_path / "saved"),
        "only if `intermediate_dim` is 4 times `hidden_dim`",
    ),
)
