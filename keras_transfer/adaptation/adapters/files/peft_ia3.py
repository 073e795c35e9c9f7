"""IA3 in PEFT folders: its scales for Transformers modules."""

import numpy as np

from keras_transfer.adaptation.adapters.kinds import IA3


def read_ia3(config, modules, scales, folder):
    """Returns an `IA3` that computes the same as the adapters in a folder, and its tensors.

    Args:
        config: Dict. The configuration, which is not used: the shapes of the scales show where they act.
        modules: Dict that `modules_of` returns.
        scales: Dict from `(module, its full name)` to dicts of its tensors.
        folder: Path, for errors.
    """
    targets, input_targets, found = set(), set(), {}
    for (module, name), parts in scales.items():
        if parts.keys() != {"ia3_l"} or parts["ia3_l"].ndim != 2:
            raise ValueError(
                f"{folder} must have one matrix of scales for each module. Received: {sorted(parts)} of {name!r}"
            )
        values, of_inputs = parts["ia3_l"].ravel(), parts["ia3_l"].shape[0] == 1
        for segment in modules[module]:
            if not of_inputs:
                targets.add(segment.path)
                columns = slice(segment.offset, segment.offset + segment.size)
                found[f"adapter/{segment.layer}/{segment.target}"] = values[columns]
            elif segment.is_whole:
                input_targets.add(segment.path)
                found[f"adapter/{segment.layer}/inputs"] = values
            else:
                raise ValueError(
                    "The inputs of query, key and value cannot be scaled separately, because they share a dense layer. "
                    f"Received: `feedforward_modules` with {name!r} in {folder}"
                )
    if not found:
        raise ValueError(f"The folder must contain IA3 for at least one module. Received: no such tensors in {folder}")
    return IA3(sorted(targets), input_targets=sorted(input_targets)), found


def written_ia3(kind, modules, arrays, prefix):
    """Returns the tensors of an `IA3` for PEFT, the names of their modules, the keys written, and the settings.

    Args:
        kind: `IA3`.
        modules: Dict that `modules_of` returns.
        arrays: Dict from the names of `adapter_weights` to arrays.
        prefix: String. Prefix of the module names in PEFT.
    """
    tensors, of_inputs, used = {}, [], set()
    for name, segments in modules.items():
        module, outputs = f"{prefix}{name}", set()
        values = np.ones(sum(segment.size for segment in segments), "float32")
        for segment in segments:
            for target, low, high, first in segment.shared(arrays):
                outputs.add(f"{segment.layer}/{target}")
                start = segment.offset - segment.start
                values[start + low : start + high] = arrays[f"{segment.layer}/{target}"][low - first : high - first]
        keys = [f"{segment.layer}/inputs" for segment in segments]
        inputs = [arrays[key] for key in keys if key in arrays]
        if inputs and (outputs or len(inputs) < len(keys) or any((other != inputs[0]).any() for other in inputs)):
            raise ValueError(
                "PEFT scales either the outputs or the inputs of a module. Use `format='keras_transfer'`. "
                f"Received: {kind} for the module {module!r}"
            )
        if inputs:
            of_inputs.append(module)
            tensors[f"{module}.ia3_l"] = np.array(inputs[0][None])
            used |= set(keys)
        elif outputs:
            tensors[f"{module}.ia3_l"] = values[:, None]
            used |= outputs
    targets = [name.removesuffix(".ia3_l") for name in tensors]
    return tensors, targets, used, {"feedforward_modules": of_inputs, "init_ia3_weights": True}
