"""Loads checkpoints with KerasHub: folders from `save_to_preset`, names that it resolves, folders that it converts."""

import contextlib
import inspect
import json
import pathlib

import keras

from keras_transfer.checkpoints.architecture import is_for_keras_hub
from keras_transfer.checkpoints.building import Format
from keras_transfer.checkpoints.tensors import CheckpointError, expect, raising, read_json, reading
from keras_transfer.core.names import closest, hint_for
from keras_transfer.encoders import Encoder
from keras_transfer.text import BertPreprocessor, TokenPreprocessor

PREFIX = "keras_hub://"
_WEIGHTS = ("model.weights.h5", "model.weights.json")  # a single file, or the index of several
_TENSORS = ("model.safetensors", "model.safetensors.index.json")  # what KerasHub converts

# Files that only KerasHub writes. They distinguish an incomplete preset from a folder of another kind.
_MARKS = (*_WEIGHTS, "task.json", "preprocessor.json", "assets/tokenizer")

_DEFAULT_EPSILON = 1e-6  # The default of Transformers for all models in the next table.

# KerasHub uses these in some layers, whatever the config says. In Qwen 3, these layers normalize queries and keys.
_EPSILONS = {"gemma": 1e-6, "gemma2": 1e-6, "gemma3_text": 1e-6, "qwen3": 1e-5}

_INPUTS = {"token_ids", "segment_ids", "padding_mask"}
_OPTIONS = {"load_weights", "dtype", "name", "trainable"}  # accepted for every backbone

# Where a block with attention to the whole text comes after blocks with a window: every so many blocks.
_WHOLE_EVERY = {"gemma2": 2, "gemma3_text": 6}

_THETAS = {"full_attention": 1_000_000, "sliding_attention": 10_000}  # of Gemma 3


def is_name(source):
    """Returns whether the source is a name for KerasHub, such as `"keras_hub://bert_tiny_en_uncased"`."""
    return isinstance(source, str) and source.startswith(PREFIX)


def recognises(source):
    """Returns whether a name or a folder is a preset, complete or not, or a folder that KerasHub converts."""
    if is_name(source):
        return True
    config = _read_config(source)
    if config is None:
        return any((source / name).exists() for name in _MARKS)
    return "registered_name" in config or is_for_keras_hub(config)


def converts(source):
    """Returns whether KerasHub converts a folder of Transformers, because no architecture here loads it."""
    return Preset(source).is_converted


def _read_config(folder):
    """Returns the configuration of a folder, or None if it cannot be read. `load` reports the error."""
    with contextlib.suppress(OSError, ValueError):
        config = json.loads((folder / "config.json").read_text("utf-8"))
        return config if isinstance(config, dict) else {}


class Preset(Format):
    """A preset of KerasHub: a folder, one that KerasHub converts, or a name that starts with `"keras_hub://"`."""

    recognises = staticmethod(recognises)

    def __init__(self, folder):
        super().__init__(folder)
        self.config = {} if is_name(folder) else _read_config(folder) or {}
        self.is_converted = is_for_keras_hub(self.config)

    def encoder(self, cls, overrides, **wanted):
        """Returns the backbone, a `keras_hub.models.Backbone`, and None, since the heads of presets are not loaded."""
        source, config = self.folder, self.config
        keras_hub = _import_keras_hub(source)
        if self.is_converted:
            _check_settings(source, config)
            overrides = {**_epsilon(source, config), **overrides}
        cls_in_hub = keras_hub.models.Backbone if cls is Encoder else cls
        rule = (
            f"{source} is for KerasHub, which makes a KerasHub backbone of it. Load it with `Encoder.from_pretrained`."
        )
        expect(issubclass(cls_in_hub, keras_hub.models.Backbone), rule, received=f"{cls.__name__}.from_pretrained")
        name = self._name(keras_hub, weights=overrides.get("load_weights", True))
        registered = keras.saving.get_registered_object(config.get("registered_name", ""))
        _check_overrides(source, registered, overrides)  # before the weights are loaded
        with _errors_of_keras_hub(source, "the backbone"):
            backbone = cls_in_hub.from_preset(name, **overrides)
        _check_inputs(source, backbone)
        _check_overrides(source, type(backbone), overrides)
        return backbone, None

    def preprocessor(self, word_level=False, **overrides):
        """Returns the `keras_hub.models.TextClassifierPreprocessor`, which accepts no sentences as lists of words.

        If these must be accepted, it is a `BertPreprocessor` with the vocabulary and the settings of the WordPiece
        tokenizer. The two produce the same ids, except for rare characters, where `BertPreprocessor` follows the
        original BERT. For a folder that KerasHub converts, it is a `TokenPreprocessor`, because KerasHub's tokenizers
        are not exact.
        """
        source = self.folder
        if self.is_converted:
            with reading(f"The tokenizer of {source}"):
                return TokenPreprocessor.load(source, **overrides)
        keras_hub = _import_keras_hub(source)
        name, options = self._name(keras_hub, weights=False), {} if word_level else overrides
        with _errors_of_keras_hub(source, "a text classifier's preprocessor", ", or pass a preprocessor to the task"):
            preprocessor = keras_hub.models.TextClassifierPreprocessor.from_preset(name, **options)
        if not word_level:
            return preprocessor
        tokenizer = preprocessor.tokenizer
        rule = (
            "The task needs a preprocessor that takes words and knows their characters. keras_transfer can create one "
            "only for KerasHub presets with BERT's WordPiece tokenizer. For any other preset, pass "
            "`from_pretrained(source, preprocessor=...)`."
        )
        expect(_is_bert(tokenizer, keras_hub), rule, received=f"{source} with {type(tokenizer).__name__}")
        settings = {
            "sequence_length": preprocessor.sequence_length,
            "lowercase": tokenizer.lowercase,
            "strip_accents": tokenizer.strip_accents,
        }
        return BertPreprocessor(tokenizer.get_vocabulary(), **{**settings, **overrides})

    def _name(self, keras_hub, weights):
        """Returns the string that `from_preset` accepts, after every check that does not need loading."""
        source = self.folder
        if not is_name(source):
            self._check_files(weights)
            # The path is absolute because KerasHub looks up a relative one among its built-in presets first.
            return str(source.absolute())
        name, known = source.removeprefix(PREFIX), keras_hub.models.Backbone.presets
        exists = "://" in name or name in known or (pathlib.Path(name) / "config.json").is_file()
        near = None if exists else closest(name, known)
        hint = "" if near is None else f" Did you mean '{PREFIX}{near}'?"
        rule = (
            "Unknown KerasHub preset. Expected a folder, the name of a built-in preset, or a handle such as "
            "'keras_hub://kaggle://organization/model/keras/variation' or 'keras_hub://hf://organization/name'."
        )
        expect(exists, f"{rule}{hint}", source)
        return name

    def _check_files(self, weights):
        """Raises a `CheckpointError` for a folder without the files that KerasHub needs."""
        folder, found = self.folder, sorted(path.name for path in self.folder.iterdir())
        if self.is_converted:
            rule = f"KerasHub converts only safetensors. Expected {_TENSORS[0]} or its shards in {folder}."
            expect(set(_TENSORS) & set(found), rule, received=found)
            return
        rule = (
            f"{folder} is an incomplete KerasHub preset. Expected config.json and {_WEIGHTS[0]}, which "
            "`backbone.save_to_preset(folder)` writes. To load a preset from the Hugging Face Hub, use "
            f"'{PREFIX}hf://organization/name'."
        )
        expect("config.json" in found and (not weights or set(_WEIGHTS) & set(found)), rule, received=found)
        read_json(folder / "config.json")


def _import_keras_hub(source):
    try:
        import keras_hub
    except ImportError as error:
        raise CheckpointError(
            f"This checkpoint requires KerasHub: `pip install keras-hub`. Received: {source} and {_reason(error)}"
        ) from error
    except Exception as error:  # of TensorFlow Text, if its version is not that of TensorFlow
        raise CheckpointError(
            "KerasHub is installed but cannot be imported. Check that the versions of keras-hub, keras, tensorflow and "
            f"tensorflow-text match. Received: {source} and {_reason(error)}"
        ) from error
    return keras_hub


def _check_settings(folder, config):
    """Raises a `CheckpointError` if a folder that KerasHub converts has a setting that KerasHub ignores."""
    ignored = {name: value for name, value in ignored_settings(config).items() if value}
    rule = (
        f"KerasHub ignores settings of {folder}, so that its outputs would be wrong. Expected a "
        f"{config['model_type']!r} without them."
    )
    expect(not ignored, rule, received=ignored)


def _epsilon(folder, config):
    """Returns the epsilon of a folder that KerasHub converts, as an argument of the backbone: it ignores some."""
    epsilon, wanted = config.get("rms_norm_eps"), _EPSILONS.get(config["model_type"])
    rule = (
        f"KerasHub's {config['model_type']} needs `rms_norm_eps` to be {wanted}, because it ignores the setting in "
        "some layers."
    )
    fits = wanted in (None, _DEFAULT_EPSILON if epsilon is None else epsilon)
    expect(fits, rule, received=f"rms_norm_eps={epsilon} in {folder}")
    return {} if epsilon is None else {"layer_norm_epsilon": epsilon}


def _check_overrides(source, cls, overrides):
    """Raises a `CheckpointError` for arguments that a backbone does not know, because KerasHub ignores them."""
    if cls is None:
        return
    known = {*inspect.signature(cls).parameters, *_OPTIONS} - {"args", "kwargs"}
    unknown = sorted(set(overrides) - known)
    hint = hint_for(unknown[0], known) if unknown else ""
    rule = f"Unknown arguments for {source}.{hint} Expected some of {sorted(known)} for {cls.__name__}."
    expect(not unknown, rule, received=unknown)


def _check_inputs(source, backbone):
    inputs = backbone.input if isinstance(backbone.input, dict) else {}
    received = f"{type(backbone).__name__}, which takes {sorted(inputs) or 'inputs without names'}"
    rule = f"The backbone of {source} must take `token_ids` and `padding_mask`."
    expect("token_ids" in inputs and inputs.keys() <= _INPUTS, rule, received=received)


def _is_bert(tokenizer, keras_hub):
    """Returns whether `BertPreprocessor` splits texts and packs ids as the preprocessor with this tokenizer does."""
    if not isinstance(tokenizer, keras_hub.tokenizers.WordPieceTokenizer):
        return False
    names = ("start_token", "end_token", "pad_token", "oov_token", "suffix_indicator")
    same = [getattr(tokenizer, name, None) for name in names] == ["[CLS]", "[SEP]", "[PAD]", "[UNK]", "##"]
    return same and tokenizer.split and tokenizer.split_on_cjk and not tokenizer.special_tokens_in_strings


def _errors_of_keras_hub(source, what, advice=""):
    """Turns every error of KerasHub and what it uses into one that says what failed to load and what to check."""
    advice = ("check its name and the network" if is_name(source) else "check its files and the arguments") + advice
    return raising(f"KerasHub cannot load {what} of the preset {source}: {advice}.", describe=_reason)


def _reason(error):
    """Returns an exception in one line. From Keras's deserialization, it keeps only the cause at the end."""
    text = str(error).rpartition("Exception encountered: ")[2].partition("List of objects that could not be loaded")[0]
    if "could not be loaded" in text:  # Keras does not say what is wrong.
        text = f"The weights do not match config.json. {text}"
    return f"{type(error).__name__}: {' '.join(text.split())[:400]}"


def ignored_settings(config):
    """Returns a dict from the settings that KerasHub ignores to their values, false for those that are right."""
    kind = config["model_type"]
    biases = {name: config.get(name) for name in ("attention_bias", "mlp_bias")}
    return {**biases, **_activation(kind, config), **_positions(kind, config), **_attention(kind, config)}


def _activation(kind, config):
    name = "hidden_activation" if config.get("hidden_activation") else "hidden_act"
    # Gemma's first files say "gelu" and mean the approximation, as Transformers knows.
    right = {"gemma": ("gelu_pytorch_tanh", "gelu"), "gemma2": ("gelu_pytorch_tanh",)}.get(kind, ("silu",))
    right = ("gelu_pytorch_tanh",) if kind == "gemma3_text" else right
    value = config.get(name) or right[0]
    return {name: value not in right and value}


def _positions(kind, config):
    rope = config.get("rope_scaling") or config.get("rope_parameters") or {}
    if kind == "gemma3_text":
        return _positions_of_gemma3(config)
    scaling = rope.get("rope_type", rope.get("type", "default"))
    theta = rope.get("rope_theta", config.get("rope_theta", 10000))
    reads_scaling = kind == "llama" and scaling == "llama3" and config.get("rope_scaling")
    return {
        "rope_type": scaling != "default" and not reads_scaling and scaling,
        "rope_theta": kind in ("gemma", "gemma2") and theta != 10000 and theta,
    }


def _positions_of_gemma3(config):
    old = config.get("rope_scaling") or {}
    given, found = config.get("rope_parameters") or {}, {}
    old_thetas = {"full_attention": "rope_theta", "sliding_attention": "rope_local_base_freq"}
    for name, wanted in _THETAS.items():
        rope = given.get(name) or (old if name == "full_attention" else {})
        theta = rope.get("rope_theta", config.get(old_thetas[name], wanted))
        scaling = rope.get("rope_type", rope.get("type", "default"))
        found[f"{name}.rope_theta"] = theta != wanted and theta
        found[f"{name}.rope_type"] = scaling not in ("default", "linear") and scaling
    return found


def _attention(kind, config):
    found, layers = {}, config.get("num_hidden_layers", 0)
    kinds = config.get("layer_types") or []
    window = config.get("use_sliding_window") and config.get("sliding_window")
    if kind in _WHOLE_EVERY:
        head_dim = config.get("head_dim", 256)
        scalar = config.get("query_pre_attn_scalar", 256)
        usual = ["full_attention" if (i + 1) % _WHOLE_EVERY[kind] == 0 else "sliding_attention" for i in range(layers)]
        found["query_pre_attn_scalar"] = scalar != head_dim and scalar
        found["layer_types"] = bool(kinds) and kinds != usual and kinds
    if kind == "gemma3_text":
        found["attn_logit_softcapping"] = config.get("attn_logit_softcapping")
    if kind in ("qwen2", "qwen2_moe"):
        found["use_sliding_window"] = bool(window) or "sliding_attention" in kinds
    if kind == "qwen3" and window:  # KerasHub's has the window in all blocks.
        found["max_window_layers"] = config.get("max_window_layers", 28)
    if kind == "smollm3":
        found["use_sliding_window"] = "sliding_attention" in kinds if kinds else bool(window)
    if kind in ("llama", "mixtral"):
        usual = config.get("hidden_size", 0) // max(config.get("num_attention_heads", 1), 1)
        found["head_dim"] = config.get("head_dim") not in (None, usual) and config["head_dim"]
    if kind in ("mixtral", "qwen2_moe"):
        found["tie_word_embeddings"] = config.get("tie_word_embeddings")
    return found
