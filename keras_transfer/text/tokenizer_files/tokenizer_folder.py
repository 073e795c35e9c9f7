"""Reads and writes the tokenizer and the packing in a folder in the format of Transformers."""

import json
import logging
import pathlib

from keras_transfer.core.expect import expect
from keras_transfer.text.packing import Packing
from keras_transfer.text.tokenizer_files.descriptions import follow, follow_case
from keras_transfer.text.tokenizer_files.families import FAMILIES, OF_CLASS, Family
from keras_transfer.text.tokenizer_files.fast_files import read_fast, write_fast, write_marian
from keras_transfer.text.tokenizer_files.settings import CONFIG_FILE, TokenizerFolder, read_optional
from keras_transfer.text.tokenizer_files.word_piece import read_word_piece
from keras_transfer.text.tokenizers.marian import MarianTokenizer

log = logging.getLogger("keras_transfer")

SPLIT_KEY = "keras_transfer_split"  # Transformers has no such setting.

# The kinds of models whose positions are absolute and are counted from the first column on.
_COUNTS_PADDING = {"albert", "bart", "bert", "distilbert", "electra", "marian", "mbart", "mbart50", "pegasus"}


def read_tokenizer_folder(folder, target=False, choice=None, of_bert=False, lowercase=None):
    """Returns a dict of a folder's `tokenizer`, `packing`, `sequence_length` (`None` if unknown) and `split`.

    Args:
        target: Boolean. Whether texts are the targets of an encoder-decoder, for which a folder may have another
            tokenizer (Marian) or another language (mBART).
        choice: String. `"file"` or `"config"`, which of two descriptions of the tokenizer to follow if they disagree.
            Defaults to `None`, what the folder's version of Transformers does.
        of_bert: Boolean. Whether only WordPiece models are read, as BERT's unless the folder says otherwise.
        lowercase: Boolean. Whether a `vocab.txt` is for lowercased texts. Defaults to `None`, what the folder says.
    """
    folder = TokenizerFolder.open(folder, target)
    path, config, kind = folder.path, folder.config, _kind_of(folder)
    unknown = kind is None and not folder.fast.get("post_processor") and (of_bert or (path / "vocab.txt").is_file())
    if (unknown and not folder.fast) or (of_bert and FAMILIES.get(kind, Family()).read is not read_word_piece):
        kind = "bert"
    folder.check_class()
    family = FAMILIES.get(kind, Family())
    own = _tokens(read_optional(path / "special_tokens_map.json")) | _tokens(config)
    special = folder.special = {**_tokens(folder.fast.get("padding") or {}), **family.special, **own}
    _check_padding(folder, kind)
    languages = {"language": config.get("src_lang") or "en_XX", "translation": config.get("tgt_lang")}
    if target:
        languages = {"language": languages["translation"] or languages["language"], "translation": None}

    def template_of(family):
        tokens = {**family.special, **own, **languages}
        roles = (family.start, family.between, family.end)
        return [[tokens[role] for role in group if tokens[role]] for group in roles]

    has_segments = _has_segments(folder, kind, family)
    if folder.fast:
        folder.fast, (start, between, end, segments), has_two = follow(
            folder, FAMILIES, template_of, has_segments, choice
        )
        tokenizer = read_fast(folder, of_bert)
        if unknown and of_bert:
            start, between, end = template_of(family)
        segments = segments if has_two else None
        segments = segments or ((0, 0) if folder.model else None)  # The model needs an input in any case.
    elif family.read is not None:
        folder.config |= {} if lowercase is None else {"do_lower_case": lowercase}
        tokenizer, segments = family.read(folder, family), family.segments
        if family.read is read_word_piece and (config or folder.model) and "do_lower_case" not in config:
            follow_case(path, tokenizer, choice)
        start, between, end = template_of(family)
        if config.get("add_bos_token"):
            start = [special["bos_token"]]
    else:
        names = [name for name, family in FAMILIES.items() if family.read is not None]
        hint = " `BertPreprocessor.load` reads vocab.txt." if "vocab.txt" in folder.names else ""
        raise FileNotFoundError(
            f"{path} must contain tokenizer.json, or a config.json with a `model_type` of {names} and the "
            f"older files of its tokenizer.{hint} Received: {folder.names}, model_type={kind!r}"
        )
    segments = segments if has_segments else None
    pad = next((special[role] for role in ("pad_token", "eos_token", "unk_token") if role in special), None)
    expect(pad is not None, "The folder must name a `pad_token` or an `eos_token`.", special=special, folder=path)
    side = (folder.fast.get("truncation") or {}).get("direction", "right")
    packing = Packing(start, between, end, pad, segments, config.get("truncation_side") or str(side).lower())
    if folder.fast and target and packing.language and config.get("tgt_lang"):
        packing = packing.with_language(config["tgt_lang"])
    limit = read_optional(path / "sentence_bert_config.json").get("max_seq_length") or config.get("model_max_length")
    return {
        "tokenizer": tokenizer,
        "packing": packing,
        "sequence_length": limit if limit and limit < 1e6 else None,  # Transformers writes 1e30 for an unknown length
        "split": config.get(SPLIT_KEY, "punctuation"),
    }


def write_tokenizer_folder(folder, tokenizer, packing, sequence_length, split, target=None):
    """Writes `tokenizer.json`, `tokenizer_config.json` and the older files, which Transformers can read."""
    folder = pathlib.Path(folder)
    start, end = ([t for t in tokens if t != packing.language] for tokens in (packing.start, packing.end))
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
    write = write_marian if isinstance(tokenizer, MarianTokenizer) else write_fast
    written = write(folder, tokenizer, packing, roles, target)
    names = {"token_ids": "input_ids", "segment_ids": "token_type_ids", "padding_mask": "attention_mask"}
    config = {
        "model_input_names": [names[name] for name in packing.features],
        "model_max_length": sequence_length,
        "clean_up_tokenization_spaces": False,
        SPLIT_KEY: split,
        **{key: getattr(tokenizer, argument) for argument, key in tokenizer.folder_settings.items()},
        **({"truncation_side": "left"} if packing.truncation_side == "left" else {}),
        **({"add_prefix_space": True} if getattr(tokenizer, "add_prefix_space", False) else {}),
        **({"padding_side": "left"} if cls and not start else {}),  # XLNet reads the last position
        **{key: value for key, value in written.items() if value is not None},
    }
    (folder / CONFIG_FILE).write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", "utf-8")


def _check_padding(folder, kind):
    """Raises a `ValueError`, or warns, if a folder pads on the left and positions are counted from the padding on."""
    side = folder.config.get("padding_side") or (folder.fast.get("padding") or {}).get("direction", "right")
    if side.lower() == "left" and kind in ("gpt2", "openai-gpt"):
        log.warning(
            "The tokenizer in %s pads on the left. keras_transfer pads on the right, which is the same for `generate`. "
            "A head that Transformers trained over texts with padding on the left has seen other positions.",
            folder.path,
        )
    elif side.lower() == "left" and kind in _COUNTS_PADDING:
        raise ValueError(
            f"The tokenizer in {folder.path} pads on the left, so that the positions in a {kind} model depend on the "
            "length of the padding. keras_transfer pads on the right. If the model was trained so, set `padding_side` "
            f"in {CONFIG_FILE} to 'right'. Received: padding_side='left'"
        )


def _tokens(config):
    """Returns the special tokens in a file of settings, by role."""
    tokens = {key: value for key, value in config.items() if key.endswith("_token")}
    tokens = {key: value.get("content") if isinstance(value, dict) else value for key, value in tokens.items()}
    return {key: value for key, value in tokens.items() if isinstance(value, str)}


def _kind_of(folder):
    """Returns the family of a folder's tokenizer, or the `model_type` of its model."""
    name = folder.class_name
    kinds = {kind.replace("-", ""): kind for kind, family in FAMILIES.items() if family.read is not None}
    return OF_CLASS.get(name) or folder.model.get("model_type") or kinds.get(name.lower())


def _has_segments(folder, kind, family):
    """Returns whether the model reads segments and the tokenizer gives them.

    A `tokenizer.json` also describes segments for models without any, such as GPT-2, DistilBERT, ModernBERT and MPNet.
    """
    if "token_type_ids" not in folder.config.get("model_input_names", ["token_type_ids"]):
        return False
    if not folder.model and kind is None:
        return folder.config.get("tokenizer_class") in (None, "PreTrainedTokenizerFast", "TokenizersBackend")
    segments = folder.model.get("type_vocab_size")
    return (family.num_segments if segments is None else segments) > 1
