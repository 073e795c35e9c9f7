#!/usr/bin/env bash
# shap 0.51.0 (numpy 2.4.6): making a Permutation explainer seeds NumPy's global generator, with or without a seed. It
# calls np.random.seed(seed), whose default is None, so that a script that has called np.random.seed(0) draws other
# numbers in each run from there on: what is shuffled, split or initialized after an explanation is not reproducible.
# With seed=7, all later draws are those after np.random.seed(7), whatever was drawn before. shap.Explainer makes the
# same explainer for a function of more than ten features, with its seed or None. Who explains a model in the middle
# of a training script should keep np.random.get_state() and set it back.
#
# Output seen, the next draw after np.random.seed(0):
#   without shap: 0.548814
#   after an explainer with seed=7: 0.076308 (that of np.random.seed(7))
#   after explainers without a seed: other numbers, different each time
#   after shap.Explainer: the same
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m pip install -q --disable-pip-version-check --target "$folder/packages" shap==0.51.0 numpy==2.4.6
PYTHONPATH="$folder/packages" python3 -W ignore - <<'PYTHON'
import numpy as np
import shap


def drawn(make):
    np.random.seed(0)
    make()
    return float(np.random.random())


def predict(rows):
    return rows.sum(axis=1)


background = np.zeros((1, 12))
plain = drawn(lambda: None)
seeded = drawn(lambda: shap.explainers.Permutation(predict, background, seed=7))
without = [drawn(lambda: shap.explainers.Permutation(predict, background)) for _ in range(2)]
general = [drawn(lambda: shap.Explainer(predict, background)) for _ in range(2)]
print(f"without shap: {plain:.6f}")
print(f"after an explainer with seed=7: {seeded:.6f} (that of np.random.seed(7))")
assert plain == np.random.RandomState(0).random_sample()
assert seeded == np.random.RandomState(7).random_sample()
assert len({plain, *without}) == 3
print("after explainers without a seed: other numbers, different each time")
assert len({plain, *general}) == 3
print("after shap.Explainer: the same")
PYTHON
