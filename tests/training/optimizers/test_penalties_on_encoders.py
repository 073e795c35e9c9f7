"""Rates by group, L2-SP and EWC have their exact effect on our encoders, KerasHub's and TF Hub modules."""

import pytest

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
        *(("module", check) for check in ("rates", "L2-SP")),
    ],
)
def test_rates_and_penalties_have_their_exact_effect_on_an_encoder(kind, check):
    CHECKS[check](ENCODERS[kind])
