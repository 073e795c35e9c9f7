"""LoRA in PEFT folders: its matrices for Transformers modules, and its settings."""

import re

import numpy as np

from keras_transfer.adaptation.adapters.kinds import LoRA


def read_lora(config, modules, matrices, folder):
    """Returns a `LoRA` that computes the same as the adapters in a folder, and its tensors.

    Ranks and scales that differ between modules become one rank, the largest, and one scale: smaller matrices are
    padded with zeros, and differing scales are multiplied into the second matrices.

    Args:
        config: Dict. The configuration.
        modules: Dict that `modules_of` returns.
        matrices: Dict from `(module, its full name)` to dicts of its tensors.
        folder: Path, for errors.
    """
    stabilized, magnitude = bool(config.get("use_rslora")), bool(config.get("use_dora"))
    rank = max((len(parts["lora_A"]) for parts in matrices.values() if "lora_A" in parts), default=config["r"])
    alpha = config["lora_alpha"]
    if rank != config["r"]:
        alpha = alpha * (rank / config["r"]) ** (0.5 if stabilized else 1)
    scale, targets, found = LoRA(rank, alpha=alpha, rank_stabilized=stabilized).scale, set(), {}
    for (module, name), parts in matrices.items():
        if not {"lora_A", "lora_B"} <= set(parts) or (len(parts) == 3) != magnitude:
            raise ValueError(f"{folder} must have all tensors of each module. Received: {sorted(parts)} of {name!r}")
        a, b = parts["lora_A"].T, parts["lora_B"].T
        own_rank = a.shape[1]
        own_scale = scale_of(config, name, own_rank)
        if abs(own_scale / scale - 1) > 1e-12:
            b = (b * (own_scale / scale)).astype(b.dtype)
        if own_rank < rank:
            a, b = np.pad(a, ((0, 0), (0, rank - own_rank))), np.pad(b, ((0, rank - own_rank), (0, 0)))
        for segment in modules[module]:
            target, columns = segment.target, slice(segment.offset, segment.offset + segment.size)
            targets.add(segment.path)
            found[f"adapter/{segment.layer}/{target}_a"] = a
            found[f"adapter/{segment.layer}/{target}_b"] = b[:, columns]
            if magnitude:
                found[f"adapter/{segment.layer}/{target}_magnitude"] = parts["lora_magnitude_vector"].ravel()[columns]
    if not targets:
        raise ValueError(f"The folder must contain LoRA for at least one module. Received: no such tensors in {folder}")
    return LoRA(
        rank,
        alpha=alpha,
        targets=sorted(targets),
        dropout=config.get("lora_dropout", 0.0),
        rank_stabilized=stabilized,
        magnitude=magnitude,
    ), found


def scale_of(config, module, rank):
    """Returns the factor of LoRA in a module, whose alpha may differ: PEFT has a dict of endings or expressions."""
    patterns = (config.get("alpha_pattern") or {}).items()
    alpha = next((value for end, value in patterns if re.match(rf"(.*\.)?({end})$", module)), config["lora_alpha"])
    return LoRA(rank, alpha=alpha, rank_stabilized=bool(config.get("use_rslora"))).scale


def changed_weight(config, module, parts, weight):
    """Returns the weight of a Transformers module with LoRA or DoRA, or the table of an embedding with LoRA."""
    if "lora_embedding_A" in parts and len(parts) == 2:
        a, b = parts["lora_embedding_A"], parts["lora_embedding_B"]
        return weight + (b @ a).T * scale_of(config, module, len(a))
    a, b, lengths = parts["lora_A"], parts["lora_B"], parts.get("lora_magnitude_vector")
    changed = weight + b @ a * scale_of(config, module, len(a))
    return changed if lengths is None else changed * (lengths.ravel() / np.linalg.norm(changed, axis=1))[:, None]


def written_lora(kind, modules, arrays, prefix):
    """Returns the tensors of a `LoRA` for PEFT, the names of their modules, the keys written, and the settings.

    Args:
        kind: `LoRA`.
        modules: Dict that `modules_of` returns.
        arrays: Dict from the names of `adapter_weights` to arrays.
        prefix: String. Prefix of the module names in PEFT.
    """
    tensors, ranks, used = {}, {}, set()
    for name, segments in modules.items():
        pieces = [piece for segment in segments for piece in segment.pieces(arrays)]
        if not pieces:
            continue
        suffixes = ("_a", "_b", "_magnitude") if kind.magnitude else ("_a", "_b")
        used |= {f"{piece.key}{suffix}" for piece in pieces for suffix in suffixes}
        module = f"{prefix}{name}"
        a, b = _joined(pieces, sum(segment.size for segment in segments))
        ranks[module] = a.shape[1]
        tensors[f"{module}.lora_A.weight"] = a.T.copy()
        tensors[f"{module}.lora_B.weight"] = b.T.copy()
        if kind.magnitude:
            lengths = np.concatenate([segment.lengths(arrays) for segment in segments])
            tensors[f"{module}.lora_magnitude_vector"] = lengths
    others = {module: rank for module, rank in ranks.items() if rank != kind.rank}
    alphas = {rank: kind.scale * (rank**0.5 if kind.rank_stabilized else rank) for rank in {kind.rank, *ranks.values()}}
    settings = {
        "bias": "none",
        "lora_bias": False,
        "r": kind.rank,
        "lora_alpha": alphas[kind.rank],
        "rank_pattern": others,
        "alpha_pattern": {module: alphas[rank] for module, rank in others.items()},
        "lora_dropout": kind.dropout,
        "use_rslora": kind.rank_stabilized,
        "use_dora": kind.magnitude,
        "init_lora_weights": True,
    }
    return tensors, list(ranks), used, settings


def _joined(pieces, size):
    """Returns the two matrices of a module, joined from its parts. Parts with the same first matrix share it."""
    firsts = []
    for piece in pieces:
        if not any(np.array_equal(piece.a, a) for a in firsts):
            firsts.append(piece.a)
    starts = np.cumsum([0, *(a.shape[1] for a in firsts)])
    b = np.zeros((starts[-1], size), "float32")
    for piece in pieces:
        start = starts[next(i for i, a in enumerate(firsts) if np.array_equal(piece.a, a))]
        b[start : start + len(piece.b), piece.offset : piece.offset + piece.b.shape[1]] = piece.b
    return np.concatenate(firsts, axis=1), b
