"""Fills original_names.json in: for the configuration of each published checkpoint, its tensors' names and shapes.

Needs torch and transformers: `python tests/references/make_original_names.py`. The names and shapes are those of
Transformers' own classes, which are built without memory for their weights. `{0-11}` in a name stands for 0 to 11. A
new checkpoint is an entry with `"config"` alone, which names its class in `"architectures"`.
"""

import json
import pathlib
import re

import torch
import transformers

FILE = pathlib.Path(__file__).with_name("original_names.json")


def names_and_shapes(class_name, settings):
    """Returns a dict from the names of the tensors of a model to their shapes."""
    model_class = getattr(transformers, class_name)
    config = model_class.config_class(**settings)
    with torch.device("meta"):
        model = model_class(config)
        if type(model.base_model) is not model_class:  # The published files have the pooler, which some classes lack.
            setattr(model, model.base_model_prefix, type(model.base_model)(config))
    return {name: list(tensor.shape) for name, tensor in model.state_dict().items()}


def compress(shapes):
    """Returns the same dict with one name for all layers."""
    layers = {}
    for name in shapes:
        pattern = re.sub(r"\.\d+\.", ".{}.", name, count=1)
        layers.setdefault(pattern, []).extend(re.findall(r"\.(\d+)\.", name)[:1])
    compressed = {}
    for name, shape in shapes.items():
        pattern = re.sub(r"\.\d+\.", ".{}.", name, count=1)
        key = pattern.replace("{}", f"{{{layers[pattern][0]}-{layers[pattern][-1]}}}") if layers[pattern] else name
        if compressed.setdefault(key, shape) != shape:
            raise ValueError(f"The layers have different shapes: {name}")
    return compressed


def main():
    found = json.loads(FILE.read_text())
    lines = []
    for name, parts in found.items():
        config, settings = parts["config"], dict(parts["config"])
        [class_name], _ = settings.pop("architectures"), settings.pop("model_type")
        tensors = compress(names_and_shapes(class_name, settings))
        shapes = ",\n".join(f"    {json.dumps(key)}: {json.dumps(shape)}" for key, shape in tensors.items())
        head = f'{json.dumps(name)}: {{\n  "config": {json.dumps(config)},\n  "tensors": {{\n'
        lines.append(f"{head}{shapes}\n  }}\n}}")
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
