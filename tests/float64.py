"""Models of Transformers that compute in float64 throughout, for references that are exact."""

import copy
import functools


def in_float64(model):
    """Returns a copy of a torch model in float64. T5's norms would compute in float32 whatever their weights are."""
    model = copy.deepcopy(model).double().eval()
    for module in model.modules():
        if type(module).__name__ in ("T5LayerNorm", "MT5LayerNorm"):
            module.forward = functools.partial(_norm, module)
    return model


def _norm(norm, states):
    return norm.weight * states * (states.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon).rsqrt()
