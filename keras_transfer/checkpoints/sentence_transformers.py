"""The modules of a sentence-transformers folder around its encoder: pooling, dense layers, normalization, prompts."""

import dataclasses
import json
import pathlib
from collections.abc import Callable

import keras
import numpy as np

from keras_transfer.checkpoints.tensors import expect, raising, read_json, reading

# Names of poolings in `1_Pooling/config.json`, ours, and the keys that older versions write.
_POOLINGS = {
    "cls": "first",
    "mean": "mean",
    "max": "max",
    "lasttoken": "last",
    "weightedmean": "weighted_mean",
    "mean_sqrt_len_tokens": "mean_sqrt",
}
_OLD_KEYS = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
_ACTIVATIONS = {
    "torch.nn.modules.linear.Identity": "linear",
    "torch.nn.modules.activation.Tanh": "tanh",
    "torch.nn.modules.activation.ReLU": "relu",
    "torch.nn.modules.activation.GELU": "gelu",
    "torch.nn.modules.activation.Sigmoid": "sigmoid",
    "torch.nn.modules.activation.SiLU": "silu",
}
_VECTOR = "sentence_embedding"  # what the modules after the pooling read and write
_SETTINGS = "config_sentence_transformers.json"


@dataclasses.dataclass
class Modules:
    """What a sentence-transformers folder says besides its encoder. All defaults apply to any other folder.

    Attributes:
        pooling, normalize, dense, truncate_dim, prompts, default_prompt_name: As for `tasks.TextEmbedder`.
        dense_folders: List of paths. The folders of the weights of the dense layers.
        pools_prompts: Boolean. Whether the pooling reads the tokens of a prompt, too.
        problem: String. What keras_transfer does not support, or `None`.
        read_tensors: Function that returns the readers of the tensors in a folder by their names.
    """

    folder: pathlib.Path
    pooling: str | None = None
    normalize: bool = False
    dense: list = dataclasses.field(default_factory=list)
    dense_folders: list = dataclasses.field(default_factory=list)
    truncate_dim: int | None = None
    prompts: dict = dataclasses.field(default_factory=dict)
    default_prompt_name: str | None = None
    pools_prompts: bool = True
    problem: str | None = None
    read_tensors: Callable | None = None

    def of_encoder(self):
        """Returns the arguments of an encoder, and remarks on what an encoder alone does not have."""
        if self.problem is not None:
            return {}, [f"{self.problem}, so `pooling` is not set"]
        if self.dense:
            return {}, ["its dense layers belong to a TextEmbedder, so `pooling` is not set"]
        return {} if self.pooling is None else {"pooling": self.pooling, "normalize": self.normalize}, []

    def of_embedder(self):
        """Returns the arguments of a `TextEmbedder` that its encoder does not have."""
        found = {name: getattr(self, name) for name in ("dense", "truncate_dim", "prompts", "default_prompt_name")}
        if self.dense:
            found |= {"pooling": self.pooling, "normalize": self.normalize}
        return {name: value for name, value in found.items() if value not in (None, [], {})}

    def load_into(self, task):
        """Loads the weights of the dense layers into a `TextEmbedder`, unless it has other layers."""
        rule = (
            "The pooling of this folder leaves out the tokens of prompts (include_prompt=false), which a TextEmbedder "
            "does not support. Pass `prompts=None, default_prompt_name=None` for texts without prompts."
        )
        if any(task.prompts.values()):
            expect(self.pools_prompts, rule, received=f"prompts={task.prompts}")
        if not self.dense or task.dense != self.dense:
            return
        for layer, folder in zip(task.dense_layers, self.dense_folders):
            with reading(folder):
                tensors = {name: np.asarray(read()) for name, read in self.read_tensors(folder).items()}
            kind = "linear" if isinstance(layer, keras.layers.Dense) else "norm"
            names = [f"{kind}.{part}" for part in ("weight", "bias")][: len(layer.weights)]
            expected = {name: tuple(weight.shape)[::-1] for name, weight in zip(names, layer.weights)}
            received = {name: tensor.shape for name, tensor in tensors.items()}
            rule = f"{folder} must contain the tensors of a dense layer or a norm, {expected}."
            expect(received == expected, rule, received=received)
            layer.set_weights([tensors[name].T for name in names])


def read_modules(folder):
    """Returns the `Modules` of a Hugging Face folder."""
    file = folder / "modules.json"
    if not file.exists():
        return Modules(folder)
    content = read_json(file, list)
    with raising(f"{file} must be sentence-transformers' list of modules."):
        modules = [(module["type"].rsplit(".", 1)[-1], folder / module["path"]) for module in content]
        found = Modules(modules[0][1])
    modules = [module for module in modules if module[0] != "Dropout"]  # It has no effect in prediction.
    kinds = [kind for kind, _ in modules]
    after = kinds[2:-1] if kinds[-1] == "Normalize" else kinds[2:]
    if kinds[:2] != ["Transformer", "Pooling"] or set(after) - {"Dense", "LayerNorm"}:
        found.problem = f"its modules {kinds} are not supported"
        return found
    found.normalize = kinds[-1] == "Normalize"
    pooling = read_json(modules[1][1] / "config.json")
    found.pooling, found.problem = _pooling(pooling)
    found.pools_prompts = bool(pooling.get("include_prompt", True))
    for kind, path in modules[2:]:
        config = read_json(path / "config.json") if (path / "config.json").exists() else {}
        ports = {config.get("module_input_name") or _VECTOR, config.get("module_output_name") or _VECTOR}
        if ports != {_VECTOR} or config.get("use_residual"):
            found.problem = found.problem or f"its {kind} {config} is not supported"
        elif kind == "LayerNorm":
            found.dense.append({"layer_norm": True})
            found.dense_folders.append(path)
        elif kind == "Dense":
            activation = config.get("activation_function", "torch.nn.modules.activation.Tanh")
            if activation not in _ACTIVATIONS:
                found.problem = found.problem or f"the activation {activation!r} of its Dense is not supported"
                continue
            with raising(f"{path / 'config.json'} must have a number as `out_features`, and not {config}."):
                settings = {"units": int(config["out_features"]), "use_bias": bool(config.get("bias", True))}
            found.dense.append({**settings, "activation": _ACTIVATIONS[activation]})
            found.dense_folders.append(path)
    _read_settings(folder, found)
    return found


def check_lowercase(folder, preprocessor):
    """Raises a `CheckpointError` if a folder lowercases its texts and its preprocessor does not."""
    file = folder / "sentence_bert_config.json"
    if not file.exists() or not read_json(file).get("do_lower_case"):
        return
    tokenizer = getattr(preprocessor, "tokenizer", preprocessor)
    rule = (
        f"The tokenizer of {folder} does not lowercase texts, which the model requires. Pass a `preprocessor` that "
        "lowercases them."
    )
    lowers = getattr(tokenizer, "lowercase", False) or "lowercase" in (getattr(tokenizer, "normalization", ()) or ())
    expect(lowers, rule, received="do_lower_case=true in sentence_bert_config.json")


def write_modules(embedder, folder):
    """Writes the modules of an encoder or of a `TextEmbedder` into its folder."""
    from safetensors.numpy import save_file

    encoder, layers = getattr(embedder, "encoder", embedder), getattr(embedder, "dense_layers", [])
    settings = getattr(embedder, "dense", [])
    kinds = ["LayerNorm" if "layer_norm" in each else "Dense" for each in settings]
    kinds = ["Transformer", "Pooling", *kinds, *(["Normalize"] if embedder.normalize else [])]
    paths = ["", *(f"{index}_{kind}" for index, kind in enumerate(kinds[1:], 1))]
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate(zip(kinds, paths))
    ]
    _write_json(folder / "modules.json", modules)
    for path in paths[1:]:
        (folder / path).mkdir()
    config = {"word_embedding_dimension": encoder.hidden_dim}
    config |= {key: _POOLINGS[name] == embedder.pooling for name, key in _OLD_KEYS.items()}
    _write_json(folder / paths[1] / "config.json", config)
    names = {ours: name for name, ours in _ACTIVATIONS.items()}
    for path, layer, each in zip(paths[2:], layers, settings):
        weights, kind = layer.get_weights(), "norm" if "layer_norm" in each else "linear"
        config = {"dimension": len(weights[0])}
        if kind == "linear":
            config = {
                "in_features": weights[0].shape[0],
                "out_features": weights[0].shape[1],
                "bias": each["use_bias"],
                "activation_function": names[each["activation"]],
            }
        _write_json(folder / path / "config.json", config)
        parts = zip(("weight", "bias"), weights)
        tensors = {f"{kind}.{name}": np.ascontiguousarray(weight.T) for name, weight in parts}
        save_file(tensors, folder / path / "model.safetensors", metadata={"format": "pt"})
    settings = {name: getattr(embedder, name, None) for name in ("prompts", "default_prompt_name", "truncate_dim")}
    if any(settings.values()):
        _write_json(folder / _SETTINGS, {name: value for name, value in settings.items() if value})


def check_writable(embedder):
    """Raises a `CheckpointError` if a sentence-transformers folder cannot contain the pooling or the dense layers."""
    activations = [settings.get("activation", "linear") for settings in getattr(embedder, "dense", [])]
    for name, values, known in (
        ("pooling", [embedder.pooling], {None, *_POOLINGS.values()}),
        ("activation", activations, set(_ACTIVATIONS.values())),
    ):
        wrong = sorted(set(values) - known)
        rule = (
            f"A folder of sentence-transformers can contain the {name}s {sorted(known - {None})}. Save the model with "
            "`model.save('model.keras')`."
        )
        expect(not wrong, rule, received=f"{name}={''.join(wrong[:1])!r}")


def _pooling(config):
    """Returns our name of the pooling, and what is not supported or None."""
    modes = config.get("pooling_mode")
    if modes is None:
        modes = [name for name, key in _OLD_KEYS.items() if config.get(key)]
        modes = modes or (["mean"] if not any(key.startswith("pooling_mode") and config[key] for key in config) else [])
    modes = [modes] if isinstance(modes, str) else list(modes)
    unknown = [key for key, value in config.items() if key.startswith("pooling_mode_") and value]
    if len(modes) != 1 or modes[0] not in _POOLINGS or set(unknown) - set(_OLD_KEYS.values()):
        return None, f"its pooling {config} is not supported"
    return _POOLINGS[modes[0]], None


def _read_settings(folder, found):
    """Adds the prompts and the truncation of a folder to its `Modules`. A `TextEmbedder` checks them."""
    file = folder / _SETTINGS
    settings = read_json(file) if file.exists() else {}
    prompts, name, found.truncate_dim = map(settings.get, ("prompts", "default_prompt_name", "truncate_dim"))
    with reading(file):
        prompts = {key: text or "" for key, text in dict(prompts or {}).items()}
    if any(prompts.values()):
        found.prompts = prompts
    if found.prompts or name not in prompts:  # Without texts, there are no prompts, and none is the default.
        found.default_prompt_name = name


def _write_json(path, content):
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")
