#!/usr/bin/env bash
# keras 3.15.1, jax 0.10.2: a Keras optimizer that keeps a reference to a weight of the model, such as
# `self.watched = model.layers[0].kernel`, or a list, tuple or dict of weights, for a penalty or a mask, counts the
# weight among its own `variables`. On JAX, `fit` fails with "Attempt to donate the same buffer twice", which names
# neither the optimizer nor the weight. The weight is also written as a part of the optimizer's state, and
# `load_own_variables` of that state sets the weight of the model back. A layer in place of the weights is not tracked,
# and neither is a function that returns them.
#
# Output seen:
#   weight: tracked, fit: JaxRuntimeError, the state of the optimizer sets the kernel back
#   list: tracked, fit: JaxRuntimeError, the state of the optimizer sets the kernel back
#   layer: not tracked, fit: runs, the state of the optimizer leaves the kernel alone
#   function: not tracked, fit: runs, the state of the optimizer leaves the kernel alone
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m pip install -q --disable-pip-version-check --target "$folder/packages" \
  keras==3.15.1 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
cat >"$folder/watching.py" <<'PYTHON'
import keras
import numpy as np


class Watching(keras.optimizers.SGD):
    def __init__(self, watched, **settings):
        super().__init__(**settings)
        self.watched = watched


found = []
for kind in ("weight", "list", "layer", "function"):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    [layer] = model.layers
    kernel = layer.kernel
    watched = {"weight": kernel, "list": [kernel], "layer": layer, "function": lambda weights=(kernel,): weights}
    optimizer = Watching(watched[kind], learning_rate=0.1)
    optimizer.build(model.trainable_variables)
    tracked = any(variable is kernel for variable in optimizer.variables)

    state = {}
    optimizer.save_own_variables(state)
    state = {name: np.array(value) for name, value in state.items()}
    before = np.array(kernel.value)
    kernel.assign(before + 1)
    optimizer.load_own_variables(state)
    restored = np.array_equal(np.array(kernel.value), before)

    model.compile(optimizer, "mse")
    try:
        model.fit(np.ones((4, 2)), np.ones((4, 1)), verbose=0)
        fit = "runs"
    except Exception as error:
        assert "donate the same buffer twice" in str(error)
        fit = type(error).__name__
    found.append((kind, tracked, fit, restored))
    print(
        f"{kind}: {'tracked' if tracked else 'not tracked'}, fit: {fit}, the state of the optimizer "
        f"{'sets the kernel back' if restored else 'leaves the kernel alone'}"
    )
assert found == [
    ("weight", True, "JaxRuntimeError", True),
    ("list", True, "JaxRuntimeError", True),
    ("layer", False, "runs", False),
    ("function", False, "runs", False),
]
PYTHON
KERAS_BACKEND=jax PYTHONPATH="$folder/packages" python3 -W ignore "$folder/watching.py" 2>"$folder/errors" ||
  { cat "$folder/errors" >&2; exit 1; }
