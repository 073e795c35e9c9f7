"""Checks that apply to every kind of adapters, so that the test of a new one is a line with its numbers."""

import numpy as np
import pytest
from keras import ops

from keras_transfer import adaptation as kt
from keras_transfer.adaptation.adapters.adapters import adapter_weights
from keras_transfer.keras_internals.trainable import layers_within
from keras_transfer.layers.adapters.wrapper import Adapted
from tests.adaptation.adapters.adapter_models import INPUTS, count, outputs, randomize, train, values
from tests.helpers import save_and_load, unbuilt

HEAD = {"logits/kernel", "logits/bias"}


def run_adapter_test(make, spec, parameters, group, folder, tolerance=1e-6, change=1e-5, merges=False, head=HEAD):
    """Checks adapters: identity at the start, what trains, layer groups, both kinds of files, removal and merging.

    Args:
        make: Function that returns a task without adapters, the same each time.
        spec: As for `add_adapters`.
        parameters: Integer. Number of weights of the adapters, by the formula of the paper.
        group: String. Name of the layer group of the adapters of the first block.
        folder: Path of an empty folder.
        tolerance: Float. Difference of the outputs that is allowed at the start, or None if they may change. Defaults
            to `1e-6`.
        change: Float. Difference of the outputs that adapters with random weights make, at least. Defaults to `1e-5`.
        merges: Boolean. Whether they can be merged into the weights of the encoder. Defaults to `False`.
        head: Set of paths. The weights of the head, which train too. Defaults to those of a classifier.
    """
    model = make()
    encoder, before, base = model.encoder, outputs(model), values(model)
    assert kt.add_adapters(model, spec) is model
    if tolerance is not None:
        np.testing.assert_allclose(outputs(model), before, rtol=0, atol=tolerance)
    own = adapter_weights(model.encoder, "default")
    assert count(own.values()) == parameters
    assert {weight.path for weight in model.trainable_weights} == {weight.path for weight in own.values()} | head
    assert len({weight.path for weight in model.weights}) == len(model.weights)

    # Adapters are groups of their own, above their block.
    groups = kt.layer_groups(model)
    assert sum(len(group.variables) for group in groups) == len(model.weights)
    added = [weight for group in groups if group.kind == "adapters" for weight in group.variables]
    assert {id(weight) for weight in added} == {id(weight) for weight in own.values()}
    assert group in [group.name for group in groups if not group.pretrained]

    # Every weight that trains moves, and no weight of the encoder does.
    randomize(model)
    start = values(model)
    assert np.abs(outputs(model) - before).max() > change
    after = values(train(model))
    assert unbuilt(model) == []
    assert {path for path in base if (after[path] != base[path]).any()} == head
    assert {path for path in after if (after[path] == start[path]).all()} == base.keys() - head

    # A classifier computes only the first token of its last block where the adapters permit it.
    trained = outputs(model)
    if isinstance(model.encoder.output, dict) and "pooled_output" in model.encoder.output:
        pooled = model.encoder({name: INPUTS[name] for name in model.encoder.input})["pooled_output"]
        np.testing.assert_allclose(ops.convert_to_numpy(model.get_layer("logits")(pooled)), trained, atol=1e-5)

    # A file of the model has the state of the optimizer too, and a file of the adapters has their head.
    again, other = save_and_load(model), make()
    kt.load_adapters(other, kt.save_adapters(model, folder / "adapters.safetensors"))
    for loaded in (again, other):
        np.testing.assert_array_equal(outputs(loaded), trained)
        assert [w.path for w in loaded.trainable_weights] == [w.path for w in model.trainable_weights]
    for ours, theirs in zip(again.optimizer.variables, model.optimizer.variables, strict=True):
        np.testing.assert_array_equal(ops.convert_to_numpy(ours), ops.convert_to_numpy(theirs))

    # Without the adapters, each is the old one.
    for each in (model, again, other):
        kt.remove_adapters(each)
        assert values(each).keys() == base.keys()
        if head:
            each.get_layer("logits").set_weights([base["logits/kernel"], base["logits/bias"]])
        np.testing.assert_array_equal(outputs(each), before)
        assert not any(isinstance(layer, Adapted) for layer, _ in layers_within(each))
    assert model.encoder is encoder

    # Merged adapters compute the same in plain layers.
    expected = outputs(randomize(kt.add_adapters(model, spec)))
    if merges:
        kt.merge_adapters(model)
        assert [weight.path for weight in model.weights] == list(base)
        np.testing.assert_allclose(outputs(model), expected, rtol=0, atol=1e-5)
    else:
        with pytest.raises(ValueError, match=r"cannot be merged.*Expected some of \[.*'lora'"):
            kt.merge_adapters(model)
