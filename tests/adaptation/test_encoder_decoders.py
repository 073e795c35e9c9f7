"""Gradual unfreezing, layer-wise rates, penalties, resumed runs and cached features over encoder-decoders."""

import contextlib

import keras
import numpy as np
import pytest
from keras import ops

from keras_transfer import adaptation as kt
from keras_transfer.callbacks import GradualUnfreezing, TrainingCheckpoint
from keras_transfer.encoders import T5, Bart
from keras_transfer.optimizers import FusedAdamW, LayerwiseOptimizer
from tests.adaptation.adapters import adapter_models as models
from tests.adaptation.adapters.adapter_models import IDS, INPUTS, values
from tests.errors import check_errors
from tests.helpers import EAGER
from tests.training.runs.staging_models import Watch

GROUPS = {
    T5: ["embeddings", "block_0", "final_norm"],
    Bart: ["embeddings", "block_0"],
}
TARGETS = IDS[:, :4]


def fit(model, *callbacks, **options):
    model.fit({name: INPUTS[name] for name in model.input}, TARGETS, verbose=0, callbacks=list(callbacks), **options)
    return model


@pytest.mark.parametrize("cls", [T5, Bart])
def test_groups_thaw_from_the_head_over_the_decoder_to_the_embeddings_of_the_encoder(cls):
    model = models.writer(cls)
    groups = kt.layer_groups(model)
    names = [f"{half}_{name}" for half in ("encoder", "decoder") for name in GROUPS[cls]]
    assert [group.name for group in groups] == names + ["head"] * (cls is Bart)  # its bias
    assert sorted(id(w) for group in groups for w in group.variables) == sorted(id(w) for w in model.weights)
    model.compile(LayerwiseOptimizer(keras.optimizers.SGD(0.1), model, decay=0.5), metrics=[], run_eagerly=EAGER)
    watch = Watch()
    fit(model, GradualUnfreezing(steps=1), watch, epochs=len(groups))
    for step, moved in enumerate(watch.steps):
        thawed = {group.name for group in groups[-1 - step :]}
        assert {group.name for group in groups if moved & {v.path for v in group.variables}} == thawed
    multipliers = [model.optimizer.rates[group.name] for group in groups]
    np.testing.assert_allclose(multipliers, 0.5 ** np.arange(len(groups))[::-1])


def test_l2_sp_pulls_every_weight_of_both_halves_and_the_head_to_its_start():
    model = models.writer(Bart)
    before = values(model)
    model.compile(LayerwiseOptimizer(keras.optimizers.SGD(0.5), model, penalty=kt.L2SP(1.0)))
    weights = model.trainable_variables
    model.optimizer.build(weights)
    for weight in weights:
        weight.assign(weight + 1)
    model.optimizer.apply([ops.zeros_like(ops.convert_to_tensor(weight)) for weight in weights], weights)
    assert len(weights) == len(before)
    for path, value in values(model).items():
        np.testing.assert_allclose(value, before[path] + 0.5, atol=1e-6, err_msg=path)


def test_ewc_pulls_each_weight_by_the_squared_gradient_of_the_log_likelihood_of_the_target():
    model = models.writer(Bart)
    inputs, targets = {name: INPUTS[name][:1] for name in model.input}, TARGETS[:1]
    fisher = kt.estimate_fisher(model, inputs, targets, empirical=True)
    model.compile(LayerwiseOptimizer(keras.optimizers.SGD(0.5), model, penalty=kt.EWC(fisher, 1.0)), metrics=[])
    weights = model.trainable_variables
    assert set(fisher) == {weight.path for weight in weights}
    [bias] = [weight for weight in weights if weight.path.endswith("logits/bias")]
    place, before = np.argmax(fisher[bias.path]), values(model)

    def log_likelihood(step):
        bias.assign(before[bias.path] + step * np.eye(bias.shape[0])[place])
        return -float(model.evaluate(inputs, targets, verbose=0)) * inputs["decoder_padding_mask"].sum()

    slope = (log_likelihood(0.05) - log_likelihood(-0.05)) / 0.1
    np.testing.assert_allclose(fisher[bias.path][place], slope**2, rtol=0.01)
    bias.assign(before[bias.path])
    model.optimizer.build(weights)
    for weight in weights:
        weight.assign(weight + 1)
    model.optimizer.apply([ops.zeros_like(ops.convert_to_tensor(weight)) for weight in weights], weights)
    for path, value in values(model).items():
        np.testing.assert_allclose(value, before[path] + 1 - 0.5 * fisher[path], atol=1e-5, err_msg=path)


def test_a_run_with_dropout_that_ends_at_a_boundary_of_stages_resumes_to_the_same_weights(tmp_path):
    def run(*callbacks):
        model = models.writer(T5, dropout=0.1)
        model.compile(LayerwiseOptimizer(FusedAdamW(0.01), model, decay=0.5), metrics=[], run_eagerly=EAGER)
        return values(fit(model, GradualUnfreezing(epochs=1, below="encoder_final_norm"), *callbacks, epochs=4))

    def interrupt(epoch, logs):
        if epoch == 2:
            raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        run(TrainingCheckpoint(tmp_path / "run"), keras.callbacks.LambdaCallback(on_epoch_begin=interrupt))
    resumed, whole = run(TrainingCheckpoint(tmp_path / "run")), run()
    for path, value in whole.items():
        np.testing.assert_array_equal(resumed[path], value, err_msg=path)
    start = values(models.writer(T5, dropout=0.1))
    assert {path for path in whole if (whole[path] == start[path]).all()} == {
        path for path in whole if path.startswith(("block_0/", "token_embedding/", "relative_positions/"))
    }


test_mistakes_are_errors = check_errors(
    (
        lambda: kt.cache_features(models.writer(), INPUTS, TARGETS, below="decoder_block_0"),
        "Features of an encoder-decoder, ... cannot be cached ... Received: encoder='T5'",
    ),
)
