#!/usr/bin/env bash
# peft 0.21.2 (transformers 5.24.0, torch 2.13.0): add_weighted_adapter(..., combination_type="linear") does not add
# the changes of LoRA adapters. It multiplies A and B each by the square root of weight times scaling, adds all A and
# all B, and the product of the two sums has the terms of B of one adapter and A of another. The mean of n equal
# adapters, with weights of 1/n, is n times the change of one of them: weights that sum to 1 say nothing about the size.
# One adapter with a weight of 1 is right, so that a test of one shows nothing. "cat" adds the changes exactly, with the
# sum of the ranks; "svd" is exact if the sum has the rank that is asked for, which is the case for equal adapters.
#
# Output seen, the size of the merged change along the weighted sum of the changes, and the relative distance between
# the two (1.00 and 0.00 are right), of adapters of rank 2:
#   equal, weights 1.0: linear 1.00 0.00, cat 1.00 0.00, svd 1.00 0.00
#   equal, weights 0.5 0.5: linear 2.00 1.00, cat 1.00 0.00, svd 1.00 0.00
#   equal, weights 0.25 0.25 0.25 0.25: linear 4.00 3.00, cat 1.00 0.00, svd 1.00 0.00
#   equal, weights 0.9 0.1: linear 1.60 0.60, cat 1.00 0.00, svd 1.00 0.00
#   random, weights 0.5 0.5: linear 0.31 1.17, cat 1.00 0.00, svd 0.88 0.34
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m pip install -q --disable-pip-version-check --target "$folder/packages" \
  peft==0.21.2 transformers==5.24.0 torch==2.13.0 numpy
PYTHONPATH="$folder/packages" python3 -W ignore - <<'PYTHON'
import math

import torch
from peft import LoraConfig, get_peft_model


def merged(kind, weights, equal):
    torch.manual_seed(0)
    config = LoraConfig(r=2, lora_alpha=4, target_modules=["0"], init_lora_weights=False)
    names = [f"adapter_{index}" for index in range(len(weights))]
    model = get_peft_model(torch.nn.Sequential(torch.nn.Linear(6, 6, bias=False)), config, adapter_name=names[0])
    layer = model.base_model.model[0]
    for name in names[1:]:
        model.add_adapter(name, config)
        if equal:
            layer.lora_A[name].load_state_dict(layer.lora_A[names[0]].state_dict())
            layer.lora_B[name].load_state_dict(layer.lora_B[names[0]].state_dict())
    model.add_weighted_adapter(names, weights, "merged", combination_type=kind)
    change = layer.get_delta_weight("merged")
    right = sum(weight * layer.get_delta_weight(name) for name, weight in zip(names, weights))
    size = (change * right).sum() / (right * right).sum()
    return size.item(), ((change - right).norm() / right.norm()).item()


for equal, weights in (
    (True, [1.0]), (True, [0.5, 0.5]), (True, [0.25] * 4), (True, [0.9, 0.1]), (False, [0.5, 0.5])
):
    found = {kind: merged(kind, weights, equal) for kind in ("linear", "cat", "svd")}
    shown = ", ".join(f"{kind} {size:.2f} {distance:.2f}" for kind, (size, distance) in found.items())
    print(f"{'equal' if equal else 'random'}, weights {' '.join(map(str, weights))}: {shown}")
    assert math.isclose(found["cat"][0], 1, abs_tol=1e-4) and found["cat"][1] < 1e-4
    if equal:
        factor = sum(math.sqrt(weight) for weight in weights) ** 2
        assert math.isclose(found["linear"][0], factor, abs_tol=1e-4)
        assert math.isclose(found["linear"][1], factor - 1, abs_tol=1e-4)
        assert found["svd"][1] < 1e-4
    else:
        assert found["linear"][1] > 0.5 and 0.01 < found["svd"][1] < 0.5
PYTHON
