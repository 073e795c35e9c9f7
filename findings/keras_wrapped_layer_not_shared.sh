#!/usr/bin/env bash
# keras 3.15.1, jax 0.10.2: a layer that a model uses twice is one layer again after load_model, and a layer that is
# within two other layers of the model is not, here a Dense in two TimeDistributed, as in a model of two texts with one
# encoder. `save` writes the weights once and says nothing, and load_model makes two layers and is an error. The mark of
# a shared object is put into the first of its configs when the second is made, and by then serialize_keras_object of
# the first outer layer has copied what its `get_config` returned. An outer layer whose own `get_config` serializes the
# same layer twice is loaded with one layer, because both configs are made before the copy. to_json and clone_model set
# no marks, and part the layers in both cases without a word. load_weights into a model that the same code has built
# is right.
#
# Output seen, the number of different layers named "shared":
#   used twice: 1 before, 1 in JSON, 1 in a clone, load_model: 1, load_weights: right
#   in two TimeDistributed: 1 before, 2 in JSON, 2 in a clone, load_model: ValueError, load_weights: right
#   twice in one layer: 1 before, 2 in JSON, 2 in a clone, load_model: 1, load_weights: right
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m pip install -q --disable-pip-version-check --target "$folder/packages" \
  keras==3.15.1 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
cat >"$folder/shared.py" <<'PYTHON'
import sys

import keras
import numpy as np
from keras import layers, saving


@saving.register_keras_serializable("example")
class Pair(layers.Layer):
    def __init__(self, first, second, **settings):
        super().__init__(**settings)
        self.first, self.second = first, second

    def build(self, shape):
        for layer in (self.first, self.second):
            if not layer.built:
                layer.build(shape)

    def call(self, inputs):
        return self.first(inputs) + self.second(inputs)

    def get_config(self):
        inner = {name: saving.serialize_keras_object(getattr(self, name)) for name in ("first", "second")}
        return super().get_config() | inner

    @classmethod
    def from_config(cls, config):
        inner = {name: saving.deserialize_keras_object(config[name]) for name in ("first", "second")}
        return cls(**config | inner)


def build(kind):
    shared = layers.Dense(3, name="shared")
    inputs = [keras.Input((4, 3)), keras.Input((4, 3))]
    if kind == "used twice":
        outputs = [shared(each) for each in inputs]
    elif kind == "in two TimeDistributed":
        outputs = [layers.TimeDistributed(shared)(each) for each in inputs]
    else:
        outputs = [Pair(shared, shared)(inputs[0]), inputs[1]]
    return keras.Model(inputs, outputs)


def count(model):
    return len({id(layer) for layer in model._flatten_layers() if layer.name == "shared"})


found = {}
for kind in ("used twice", "in two TimeDistributed", "twice in one layer"):
    model, again = build(kind), build(kind)
    copies = keras.models.model_from_json(model.to_json()), keras.models.clone_model(model)
    numbers = [count(each) for each in (model, *copies)]
    model.save(f"{sys.argv[1]}/model.keras")
    try:
        loaded = count(keras.models.load_model(f"{sys.argv[1]}/model.keras"))
    except ValueError as error:
        assert "Layer 'shared' expected 2 variables, but received 0" in str(error)
        loaded = "ValueError"
    model.save_weights(f"{sys.argv[1]}/model.weights.h5")
    again.load_weights(f"{sys.argv[1]}/model.weights.h5")
    rows = [np.ones((1, 4, 3))] * 2
    right = np.allclose(model.predict(rows, verbose=0), again.predict(rows, verbose=0))
    found[kind] = *numbers, loaded, right
    print(
        f"{kind}: {numbers[0]} before, {numbers[1]} in JSON, {numbers[2]} in a clone, load_model: {loaded}, "
        f"load_weights: {'right' if right else 'wrong'}"
    )
assert found == {
    "used twice": (1, 1, 1, 1, True),
    "in two TimeDistributed": (1, 2, 2, "ValueError", True),
    "twice in one layer": (1, 2, 2, 1, True),
}
PYTHON
KERAS_BACKEND=jax PYTHONPATH="$folder/packages" python3 -W ignore "$folder/shared.py" "$folder"
