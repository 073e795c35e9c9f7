"""The variables of a training checkpoint, and the heads of inactive adapters."""

import logging

log = logging.getLogger("keras_transfer")


def variables_of(model):
    """Returns a dict from unique names to the variables of a model, its optimizer and its metrics, and its heads."""
    owners = {"model": model.variables, "optimizer": model.optimizer.variables, "metrics": model.metrics_variables}
    found = {f"{kind}/{i}/{v.path}": v for kind, variables in owners.items() for i, v in enumerate(variables)}
    heads = model.head_adapters.heads if hasattr(model, "head_adapters") else {}
    return found | {f"heads/{name}/{i:03d}": value for name, values in heads.items() for i, value in enumerate(values)}


def restore_variables(model, stored, metrics):
    """Restores what `variables_of` returned. The metrics are restored only if `metrics` is True."""
    ours, theirs = (_by_kind(names) for names in (variables_of(model), stored.tensors))
    shapes = [tuple(variable.shape) for variable in ours["metrics"].values()]
    if metrics and shapes != [shape for _, shape, _ in theirs["metrics"].values()]:
        log.warning(
            "The metrics are not built yet, or differ from the metrics of the training checkpoint. In this epoch, they "
            "cover only the remaining batches."
        )
        metrics = False
    for kind in ("model", "optimizer", "metrics") if metrics else ("model", "optimizer"):
        for variable, name in zip(ours[kind].values(), theirs[kind], strict=True):
            variable.assign(stored.read(name))
    heads = {}
    for name in sorted(theirs["heads"]):
        heads.setdefault(name.split("/", 1)[1].rpartition("/")[0], []).append(stored.read(name))
    if heads:
        model.head_adapters.heads.update(heads)


def _by_kind(tensors):
    found = {kind: {} for kind in ("model", "optimizer", "metrics", "heads")}
    for name, value in tensors.items():
        found.setdefault(name.split("/")[0], {})[name] = value
    return found
