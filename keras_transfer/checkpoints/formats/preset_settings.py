"""The settings of Transformers' folders that KerasHub's conversion ignores, found by comparing their outputs."""

# Where a block with attention to the whole text comes after blocks with a window: every so many blocks.
_WHOLE_EVERY = {"gemma2": 2, "gemma3_text": 6}
_THETAS = {"full_attention": 1_000_000, "sliding_attention": 10_000}  # of Gemma 3


def ignored_settings(config):
    """Returns a dict from the names of settings that KerasHub ignores to their values, false for those that are right.

    Args:
        config: Dict. The configuration of a folder whose `model_type` KerasHub converts.
    """
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
