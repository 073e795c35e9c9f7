"""Rates by group, L2-SP and EWC on encoders of ours, of KerasHub and of TF Hub: what should move moves as it should."""

import keras
import pytest

from keras_transfer.tasks import TextClassifier
from tests.adaptation.pulls_on_encoders import CHECKS, KINDS
from tests.adaptation.staging_encoders import ENCODERS
from tests.processes import run

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="other backends run in a child")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("check", CHECKS)
def test_on_an_encoder(kind, check):
    CHECKS[check](ENCODERS[kind])


@pytest.mark.parametrize("check", CHECKS)
def test_on_a_module(check, tmp_path):
    from keras_transfer.hub import HubEncoder
    from tests.hub import modules

    folder = modules.save_bert_module(tmp_path / "module")
    ids = modules.bert_inputs(16)
    names = zip(("token_ids", "padding_mask", "segment_ids"), modules.BERT_INPUTS)
    inputs = {ours: ids[theirs] for ours, theirs in names}
    CHECKS[check](lambda: (TextClassifier(HubEncoder(folder), 2, dropout=0.0), inputs))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_on_another_backend(backend):
    pytest.importorskip(backend, reason=f"needs {backend}: pip install {backend}")
    assert run("-m", "tests.adaptation.pulls_on_encoders", KERAS_BACKEND=backend) == {
        "backend": backend,
        "kinds": KINDS,
    }
