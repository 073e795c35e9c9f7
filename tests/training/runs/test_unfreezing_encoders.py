"""Freezing and each method of unfreezing on our encoders, KerasHub's and TF Hub's: only the thawed weights move."""

import keras
import pytest

from keras_transfer.tasks import TextClassifier
from tests.helpers import EAGER
from tests.training.runs.staging_encoders import check_encoder, train
from tests.training.runs.staging_models import assert_follows


@pytest.mark.core
def test_each_stage_trains_its_groups_of_our_encoder():
    check_encoder("ours", "gradual", run_eagerly=EAGER)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "method"),
    [("keras_hub", "sequential"), ("keras_hub", "freeze"), ("module", "gradual"), ("module", "freeze")],
)
def test_each_method_trains_its_groups_of_a_keras_hub_backbone_and_of_a_module_of_tokens(kind, method):
    if kind == "keras_hub":
        pytest.importorskip("keras_hub")
    check_encoder(kind, method, run_eagerly=(kind, method) in (("keras_hub", "sequential"), ("module", "freeze")))


@pytest.mark.parametrize("method", [pytest.param("chain", marks=pytest.mark.slow), "sequential"])
def test_the_statistics_of_a_module_of_texts_change_while_one_of_its_groups_trains(method, tmp_path):
    import tensorflow as tf

    from keras_transfer.hub import HubEncoder
    from tests.hub import saved_modules as modules

    keras.utils.set_random_seed(0)
    model = TextClassifier(
        HubEncoder(modules.save_text_module(tmp_path / "text" / "module", dropout=0.0)), num_classes=2, dropout=0.0
    )
    callback, watch = train(model, tf.constant(modules.TEXTS * 4), method, run_eagerly=method != "sequential")
    statistics = {"module/layer_0/norm/moving_mean"}
    moved = [bool(paths & statistics) for paths in watch.steps]
    watch.steps = [paths - statistics for paths in watch.steps]
    assert_follows(model, callback, watch)
    assert moved == [any(path.startswith("module") for path in paths) for paths in watch.steps]
    assert any(moved) and not all(moved)
