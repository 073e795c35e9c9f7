"""Reads and writes the tokenizer and the packing in a folder in the format of Transformers."""

import json
import pathlib

from keras_transfer.text.base import CONFIG_FILE, Packing, added_tokens, check_class, read_optional, text_tokens
from keras_transfer.text.tokenizer_files.families import FAMILIES, OF_CLASS
from keras_transfer.text.tokenizer_files.family_files import Family, special_roles
from keras_transfer.text.tokenizer_files.marian_files import check_target, write_marian_files
from keras_transfer.text.tokenizer_files.post_processor import read_post_processor, write_post_processor
from keras_transfer.text.tokenizers import (
    SPLIT_KEY,
    ByteBPETokenizer,
    MarianTokenizer,
    SentencePieceBPETokenizer,
    Tokenizer,
    WordPieceTokenizer,
    is_language_code,
    looks_cased,
    read_folder,
    tokens_of,
)

FAST_FILE = "tokenizer.json"


def read_tokenizer_folder(folder, target=False):
    """Returns what a preprocessor needs from a folder.

    Args:
        folder: Path of a folder with `tokenizer.json` or the older files of the tokenizer.
        target: Boolean. Whether texts are the targets of an encoder-decoder, for which a folder may have another
            tokenizer (Marian) or another language (mBART). Defaults to `False`.

    Returns:
        Dict of `tokenizer`, `packing`, `sequence_length` (`None` if the folder does not specify it) and `split`.

    Raises:
        FileNotFoundError: If the folder has no tokenizer.
        ValueError: If the tokenizer is not supported.
    """
    folder = pathlib.Path(folder)
    config, model_config = read_optional(folder / CONFIG_FILE), read_optional(folder / "config.json")
    kind = _kind_of(config, model_config)
    fast = read_optional(folder / FAST_FILE)
    check_class(folder, config, model_config, fast)
    added = added_tokens(folder, config, fast)
    family = FAMILIES.get(kind, Family())
    special, segments = family.special, family.segments
    special = {**special, **_tokens(read_optional(folder / "special_tokens_map.json")), **_tokens(config)}
    special = {**_tokens(fast.get("padding") or {}), **special}
    has_segments = _has_segments(kind, family, config, model_config)
    if fast:
        tokenizer = _fast_tokenizer(folder, config, fast, special, added)
        start, between, end, segments = read_post_processor(fast.get("post_processor"), has_segments)
        if target and config.get("tgt_lang"):
            start, end = ([config["tgt_lang"] if is_language_code(t) else t for t in part] for part in (start, end))
    elif family.read is not None:
        special["language"] = config.get("src_lang") or "en_XX"
        if target:
            special["language"] = config.get("tgt_lang") or special["language"]
        tokenizer = family.read(folder, family, config, special, added, target)
        start, between, end = (
            [special[role] for role in roles] for roles in (family.start, family.between, family.end)
        )
        if config.get("add_bos_token"):
            start = [special["bos_token"]]
        if kind == "marian" and config.get("tgt_lang") and not target:  # Sources name the language of the translation.
            start = [config["tgt_lang"]]
    else:
        found = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else "no folder"
        names = [name for name, family in FAMILIES.items() if family.read is not None]
        raise FileNotFoundError(
            f"{folder} must contain tokenizer.json, or a config.json with a `model_type` of {names} and the "
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


def write_tokenizer_folder(folder, tokenizer, packing, sequence_length, split, target=None):
    """Writes `tokenizer.json`, `tokenizer_config.json` and the older files, which Transformers can read.

    Args:
        folder: Path.
        tokenizer, packing, sequence_length, split: See `TokenPreprocessor`.
        target: `TokenPreprocessor` of the targets, or None for that of the sources. Defaults to `None`.

    Raises:
        ValueError: If a folder cannot contain the tokenizer of the targets.
    """
    check_target(tokenizer, packing, target)
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    language = next(filter(is_language_code, (*packing.start, *packing.end)), None)
    start, end = ([token for token in tokens if token != language] for tokens in (packing.start, packing.end))
    cls, sep = start[:1] or end[1:][-1:], packing.between[:1]
    roles = {
        "bos_token": start[0] if start else None,
        "eos_token": tokenizer.eos_token,
        "unk_token": tokenizer.unk_token,
        "pad_token": packing.pad,
        "mask_token": tokenizer.mask_token,
        "cls_token": cls[0] if cls else None,
        "sep_token": sep[0] if sep else None,
    }
    roles = {role: token for role, token in roles.items() if tokenizer.token_to_id(token) is not None}
    is_marian = isinstance(tokenizer, MarianTokenizer)
    if is_marian:
        roles = {role: roles[role] for role in ("eos_token", "unk_token", "pad_token") if role in roles}
        write_marian_files(folder, tokenizer, target.tokenizer)
    else:
        _write_fast(folder, tokenizer, packing, roles)
    languages = {"src_lang": language, "tgt_lang": None if target is None else target.language}
    languages = {"tgt_lang": language} if is_marian else languages
    names = {"token_ids": "input_ids", "segment_ids": "token_type_ids", "padding_mask": "attention_mask"}
    config = {
        "tokenizer_class": "MarianTokenizer" if is_marian else "PreTrainedTokenizerFast",
        "model_input_names": [names[name] for name in packing.features],
        "model_max_length": sequence_length,
        "clean_up_tokenization_spaces": False,
        SPLIT_KEY: split,
        **{key: getattr(tokenizer, argument) for argument, key in tokenizer.folder_settings.items()},
        **({"padding_side": "left"} if cls and not start else {}),  # XLNet reads the last position
        **{key: code for key, code in languages.items() if code is not None},
        **roles,
    }
    (folder / CONFIG_FILE).write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", "utf-8")


def _write_fast(folder, tokenizer, packing, roles):
    """Writes `tokenizer.json` and the older files of a tokenizer, given the special tokens by their roles."""
    tokenizer.save_assets(folder)
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
    return found[0].from_json(fast, tokens_of(ids), of_text, **settings, **special_roles(special, ids))


def _subclasses(cls):
    """Returns the subclasses of a class, each after those that it inherits from."""
    direct = cls.__subclasses__()
    return [*direct, *(found for other in direct for found in _subclasses(other))]


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


def _tokens(config):
    """Returns the special tokens in a file of settings, by role."""
    tokens = {key: value for key, value in config.items() if key.endswith("_token")}
    tokens = {key: value.get("content") if isinstance(value, dict) else value for key, value in tokens.items()}
    return {key: value for key, value in tokens.items() if isinstance(value, str)}


def _kind_of(config, model_config):
    """Returns the family of a folder's tokenizer, or the `model_type` of its model."""
    name = config.get("tokenizer_class") or model_config.get("tokenizer_class") or ""
    name = name.removesuffix("Fast").removesuffix("Tokenizer")
    kinds = {kind.replace("-", ""): kind for kind, family in FAMILIES.items() if family.read is not None}
    return OF_CLASS.get(name) or model_config.get("model_type") or kinds.get(name.lower())


def _has_segments(kind, family, config, model_config):
    """Returns whether the model reads segments and the tokenizer gives them.

    A `tokenizer.json` also describes segments for models without any, such as GPT-2, DistilBERT, ModernBERT and MPNet.
    """
    if "token_type_ids" not in config.get("model_input_names", ["token_type_ids"]):
        return False
    if not model_config and kind is None:
        return config.get("tokenizer_class") in (None, "PreTrainedTokenizerFast", "TokenizersBackend")
    segments = model_config.get("type_vocab_size")
    return (family.num_segments if segments is None else segments) > 1
