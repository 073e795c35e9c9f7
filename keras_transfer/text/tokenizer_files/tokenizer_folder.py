"""Reads and writes the tokenizer and the packing in a folder in the format of Transformers."""

import json
import pathlib

from keras_transfer.files import read_json
from keras_transfer.text.base import CONFIG_FILE, Packing, added_tokens, check_class, read_optional, text_tokens
from keras_transfer.text.sentencepiece import SentencePieceModel
from keras_transfer.text.tokenizer_files.post_processor import read_post_processor, write_post_processor
from keras_transfer.text.tokenizers import (
    MERGES_FILE,
    SPLIT_KEY,
    BPETokenizer,
    ByteBPETokenizer,
    GPTTokenizer,
    SentencePieceBPETokenizer,
    Tokenizer,
    UnigramTokenizer,
    WordPieceTokenizer,
    looks_cased,
    read_folder,
    tokens_of,
)

FAST_FILE = "tokenizer.json"

_S = {
    **{"cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>"},
    **{"bos_token": "<s>", "eos_token": "</s>"},
}
_BRACKETS = {
    **{"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]"},
    **{"bos_token": "[CLS]", "eos_token": "[SEP]"},
}
_GPT2 = dict.fromkeys(["bos_token", "eos_token", "unk_token"], "<|endoftext|>")

# Settings that folders without `tokenizer.json` do not contain, by `model_type`: the special tokens, the tokens in
# front of, between and after texts, and the segments.
_KINDS = {
    "albert": (
        {**_BRACKETS, "pad_token": "<pad>", "unk_token": "<unk>"},
        *(["cls_token"], ["sep_token"], ["sep_token"], (0, 1)),
    ),
    "camembert": (_S, ["cls_token"], ["sep_token", "sep_token"], ["sep_token"], None),
    "deberta-v2": (_BRACKETS, ["cls_token"], ["sep_token"], ["sep_token"], (0, 1)),
    "gpt2": (_GPT2, [], [], [], None),
    "openai-gpt": ({"unk_token": "<unk>"}, [], [], [], None),
    "roberta": (_S, ["cls_token"], ["sep_token", "sep_token"], ["sep_token"], None),
    "t5": (
        {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"},
        *([], ["eos_token"], ["eos_token"], None),
    ),
    "xlm-roberta": (_S, ["cls_token"], ["sep_token", "sep_token"], ["sep_token"], None),
    "xlnet": (
        {**_S, "cls_token": "<cls>", "sep_token": "<sep>"},
        *([], ["sep_token"], ["sep_token", "cls_token"], (0, 1, 2)),
    ),
}
_WITH_MERGES = {"gpt2", "openai-gpt", "roberta"}
# The tokens in front of those of the SentencePiece model, and the number of the model's tokens that they replace.
_FAIRSEQ = {
    "xlm-roberta": (["<s>", "<pad>", "</s>", "<unk>"], 3),
    "camembert": (["<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"], 1),
}
# The number of segments of the models that have any, if `config.json` has no `type_vocab_size`. A `tokenizer.json`
# also describes segments for models without any, such as GPT-2, DistilBERT, ModernBERT and MPNet.
_SEGMENTS = {"albert": 2, "bert": 2, "electra": 2, "xlnet": 3}


def read_tokenizer_folder(folder):
    """Returns what a preprocessor needs from a folder.

    Args:
        folder: Path of a folder with `tokenizer.json` or the older files of the tokenizer.

    Returns:
        Dict of `tokenizer`, `packing`, `sequence_length` (`None` if the folder does not specify it) and `split`.

    Raises:
        FileNotFoundError: If the folder has no tokenizer.
        ValueError: If the tokenizer is not supported.
    """
    folder = pathlib.Path(folder)
    config, model_config = read_optional(folder / CONFIG_FILE), read_optional(folder / "config.json")
    kind = model_config.get("model_type") or _kind_of_class(config.get("tokenizer_class") or "")
    fast = read_optional(folder / FAST_FILE)
    check_class(folder, config, model_config, fast)
    added = added_tokens(folder, config, fast)
    special, *layout, segments = _KINDS.get(kind, ({}, [], [], [], None))
    special = {**special, **_tokens(read_optional(folder / "special_tokens_map.json")), **_tokens(config)}
    special = {**_tokens(fast.get("padding") or {}), **special}
    has_segments = _has_segments(kind, config, model_config)
    if fast:
        tokenizer = _fast_tokenizer(folder, config, fast, special, added)
        start, between, end, segments = read_post_processor(fast.get("post_processor"), has_segments)
    elif kind in _KINDS:
        tokenizer = _old_tokenizer(folder, kind, config, special, added)
        start, between, end = ([special[role] for role in roles] for roles in layout)
        if config.get("add_bos_token"):
            start = [special["bos_token"]]
    else:
        found = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else "no folder"
        raise FileNotFoundError(
            f"{folder} must contain tokenizer.json, or a config.json with a `model_type` of {sorted(_KINDS)} and the "
            f"older files of its tokenizer. Received: {found}, model_type={kind!r}"
        )
    segments = segments if has_segments else None
    pad = next((special[role] for role in ("pad_token", "eos_token", "unk_token") if role in special), None)
    if pad is None:
        raise ValueError(f"The folder must name a `pad_token` or an `eos_token`. Received: {special} in {folder}")
    limit = read_optional(folder / "sentence_bert_config.json").get("max_seq_length") or config.get("model_max_length")
    return {
        "tokenizer": tokenizer,
        "packing": Packing(start, between, end, pad, segments),
        "sequence_length": limit if limit and limit < 1e6 else None,  # Transformers writes 1e30 for an unknown length
        "split": config.get(SPLIT_KEY, "punctuation"),
    }


def write_tokenizer_folder(folder, tokenizer, packing, sequence_length, split):
    """Writes `tokenizer.json`, `tokenizer_config.json` and the older files, which Transformers can read."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_assets(folder)
    cls, sep = packing.start[:1] or packing.end[1:][-1:], packing.between[:1]
    roles = {
        "bos_token": packing.start[0] if packing.start else None,
        "eos_token": tokenizer.eos_token,
        "unk_token": tokenizer.unk_token,
        "pad_token": packing.pad,
        "mask_token": tokenizer.mask_token,
        "cls_token": cls[0] if cls else None,
        "sep_token": sep[0] if sep else None,
    }
    roles = {role: token for role, token in roles.items() if tokenizer.token_to_id(token) is not None}
    special = dict.fromkeys([*packing.special_tokens, *tokenizer.special_tokens, *roles.values()])
    text_tokens = [token for token in tokenizer.added_tokens if token not in special]
    added = [
        {
            "id": tokenizer.token_to_id(token),
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": token in text_tokens and not isinstance(tokenizer, SentencePieceBPETokenizer),
            "special": token in special,
        }
        for token in sorted([*special, *text_tokens], key=tokenizer.token_to_id)
    ]
    fast = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "post_processor": write_post_processor(packing, tokenizer),
        **tokenizer.to_json(),
    }
    (folder / FAST_FILE).write_text(json.dumps(fast, ensure_ascii=False) + "\n", "utf-8")
    names = {"token_ids": "input_ids", "segment_ids": "token_type_ids", "padding_mask": "attention_mask"}
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": [names[name] for name in packing.features],
        "model_max_length": sequence_length,
        "clean_up_tokenization_spaces": False,
        SPLIT_KEY: split,
        **{key: getattr(tokenizer, argument) for argument, key in tokenizer.folder_settings.items()},
        **({"padding_side": "left"} if cls and not packing.start else {}),  # XLNet reads the last position
        **roles,
    }
    (folder / CONFIG_FILE).write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", "utf-8")


def _fast_tokenizer(folder, config, fast, special, added):
    """Returns the tokenizer of a `tokenizer.json`."""
    model = fast["model"]
    kind = model.get("type") or ("BPE" if "merges" in model else None)
    if kind == "WordPiece":
        return _word_piece(folder, special)
    known = [cls for cls in _subclasses(Tokenizer) if "reads_json" in vars(cls)]
    # The most specific class, and for other BPE models the bytes of GPT-2.
    found = [cls for cls in reversed(known) if cls.reads_json(fast)] + ([ByteBPETokenizer] if kind == "BPE" else [])
    if not found:
        names = sorted(cls.__name__ for cls in (WordPieceTokenizer, ByteBPETokenizer, *known))
        raise ValueError(f"The tokenizer must be one of {names}. Received: {kind!r} in {folder}")
    ids = model["vocab"]
    ids = ids if isinstance(ids, dict) else {token: index for index, (token, _) in enumerate(ids)}
    ids = ids | {token["content"]: token["id"] for token in added}
    of_text = [token["content"] for token in text_tokens(added)]
    settings = {argument: config[key] for argument, key in found[0].folder_settings.items() if key in config}
    return found[0].from_json(fast, tokens_of(ids), of_text, **settings, **_roles(special, ids))


def _subclasses(cls):
    """Returns the subclasses of a class, each after those that it inherits from."""
    direct = cls.__subclasses__()
    return [*direct, *(found for other in direct for found in _subclasses(other))]


def _old_tokenizer(folder, kind, config, special, added):
    """Returns the tokenizer of a folder without `tokenizer.json`."""
    if kind not in _WITH_MERGES:
        return _sentence_piece(folder, kind, config, special, added)
    path, merges = folder / BPETokenizer.vocabulary_file, folder / MERGES_FILE
    if not path.is_file() or not merges.is_file():
        raise _missing(folder, "vocab.json and merges.txt")
    ids = read_json(path) | {token["content"]: token["id"] for token in added}
    of_text = [token["content"] for token in text_tokens(added, special.values())]
    if kind == "openai-gpt":
        _refuse(folder, of_text)
        return GPTTokenizer(ids, merges, **_roles(special, ids))
    prefix = config.get("add_prefix_space", False)
    return ByteBPETokenizer(ids, merges, add_prefix_space=prefix, added_tokens=of_text, **_roles(special, ids))


def _sentence_piece(folder, kind, config, special, added):
    models = sorted(folder.glob("*.model"))
    if len(models) != 1:
        raise _missing(folder, "one SentencePiece model (*.model)")
    serialized = models[0].read_bytes()
    model = SentencePieceModel.from_bytes(serialized)
    pieces = [piece for piece, _, _ in model.pieces]
    front, replaced = _FAIRSEQ.get(kind, ([], 0))
    tokens = [*front, *pieces[replaced:]]
    extra = [special["mask_token"]] if "mask_token" in special else []
    if kind == "t5":
        extra = [f"<extra_id_{index}>" for index in reversed(range(config.get("extra_ids", 100)))]
    _refuse(folder, [token["content"] for token in text_tokens(added, special.values())])
    known = {*tokens}
    added = [token["content"] for token in added]
    tokens += [token for token in dict.fromkeys([*added, *extra]) if token not in known]
    for key, only in {"split_by_punct": False, "add_prefix_space": True}.items():
        # DeBERTa's tokenizer puts a space before a text in either case.
        if config.get(key, only) != only and not (kind == "deberta-v2" and key == "add_prefix_space"):
            raise ValueError(
                f"The tokenizer in {folder / CONFIG_FILE} is not supported. Expected {key}={only}. "
                f"Received: {key}={config[key]}"
            )
    steps = []
    if kind in ("albert", "xlnet"):
        steps.append("quotes")
        steps += [] if config.get("keep_accents", False) else ["NFKD", "strip_accents"]
    if config.get("do_lower_case", kind == "albert"):
        steps.append("lowercase")
    keep_spaces = kind == "deberta-v2" and not model.charsmap
    steps += ["collapse_white_space", "NFC", "strip_right"] if keep_spaces else []
    return UnigramTokenizer(serialized, tokens, normalization=steps, keep_spaces=keep_spaces, **_roles(special, tokens))


def _refuse(folder, of_text):
    if of_text:
        raise ValueError(
            f"The tokenizer in {folder} must have no added tokens that are not special. "
            f"Received: {len(of_text)} tokens, starting with {of_text[:3]}"
        )


def _missing(folder, files):
    found = sorted(path.name for path in folder.iterdir())
    return FileNotFoundError(f"{folder} must contain tokenizer.json, or {files}. Received: {found}")


def _word_piece(folder, special):
    found = read_folder(folder, [*special.values()])
    lowercase = found["lowercase"]
    return WordPieceTokenizer(
        found["vocabulary"],
        lowercase=not looks_cased(found["vocabulary"]) if lowercase is None else lowercase,
        strip_accents=found["strip_accents"],
        unk_token=special.get("unk_token", "[UNK]"),
        mask_token=special.get("mask_token", "[MASK]"),
    )


def _roles(special, ids):
    """Returns the special tokens that a tokenizer knows. Transformers also names some that a vocabulary lacks."""
    names = ("unk_token", "mask_token", "eos_token")
    return {name: special[name] if special.get(name) in ids else None for name in names}


def _tokens(config):
    """Returns the special tokens in a file of settings, by role."""
    tokens = {key: value for key, value in config.items() if key.endswith("_token")}
    tokens = {key: value.get("content") if isinstance(value, dict) else value for key, value in tokens.items()}
    return {key: value for key, value in tokens.items() if isinstance(value, str)}


def _kind_of_class(name):
    kinds = {kind.replace("-", ""): kind for kind in _KINDS}
    return kinds.get(name.removesuffix("Fast").removesuffix("Tokenizer").lower())


def _has_segments(kind, config, model_config):
    """Returns whether the model reads segments and the tokenizer gives them."""
    if "token_type_ids" not in config.get("model_input_names", ["token_type_ids"]):
        return False
    if not model_config and kind is None:
        return config.get("tokenizer_class") in (None, "PreTrainedTokenizerFast", "TokenizersBackend")
    segments = model_config.get("type_vocab_size")
    return (_SEGMENTS.get(kind, 0) if segments is None else segments) > 1
