"""Rates by group, L2-SP and EWC have their exact effect on our encoders, KerasHub's and TF Hub modules."""

import pytest

from keras_transfer.tasks import TextClassifier
from tests.training.optimizers.penalties_on_encoders import CHECKS, KINDS
from tests.training.runs.staging_encoders import ENCODERS

pytestmark = pytest.mark.usefixtures("eagerly")


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        ("ours", "rates"),
        ("ours", "EWC"),
        pytest.param("ours", "L2-SP", marks=pytest.mark.core),
        *((kind, check) for kind in KINDS if kind != "ours" for check in ("rates", "EWC")),
    ],
)
def test_rates_and_penalties_have_their_exact_effect_on_an_encoder(kind, check):
    CHECKS[check](ENCODERS[kind])


@pytest.mark.parametrize("check", ["rates", "L2-SP"])
def test_rates_and_penalties_have_their_exact_effect_on_a_module(check, tmp_path):
    from keras_transfer.hub import HubEncoder
    from tests.hub import saved_modules as modules

    folder = modules.save_bert_module(tmp_path / "module")
    ids = modules.bert_inputs(16)
    names = zip(("token_ids", "padding_mask", "segment_ids"), modules.BERT_INPUTS)
    inputs = {ours: ids[theirs] for ours, theirs in names}
    CHECKS[check](lambda: (TextClassifier(HubEncoder(folder), 2, dropout=0.0), inputs))
