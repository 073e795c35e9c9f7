"""Reads and writes the tokenizer and the packing in a folder in the format of Transformers."""

import json
import logging
import pathlib

from keras_transfer.core.expect import expect
from keras_transfer.text.packing import Packing
from keras_transfer.text.tokenizer_files.descriptions import follow, follow_case
from keras_transfer.text.tokenizer_files.families import FAMILIES, OF_CLASS, Family
from keras_transfer.text.tokenizer_files.formats import fast_content, format_of, read_fast, read_word_piece
from keras_transfer.text.tokenizer_files.settings import CONFIG_FILE, FAST_FILE, GENERIC, TokenizerFolder, read_optional
from keras_transfer.text.tokenizers.marian import MarianTokenizer

log = logging.getLogger("keras_transfer")

SPLIT_KEY = "keras_transfer_split"  # Transformers has no such setting.

# Classes that split texts in Python and never read a `tokenizer.json`.
_PYTHON_CLASSES = {"BertGeneration", "BertJapanese", "Bertweet", "CTRL", "Flaubert", "Phobert", "XLM"}


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
    _check_class(folder)
    family = FAMILIES.get(kind, Family())
    special = folder.special = folder.special_tokens(family)
    _check_padding(folder, kind)
    has_segments = _has_segments(folder, kind, family)
    if folder.fast:
        folder.fast, (start, between, end, segments), has_two = follow(folder, FAMILIES, has_segments, choice)
        tokenizer = read_fast(folder, of_bert)
        if unknown and of_bert:
            start, between, end = folder.template(family)
        segments = segments if has_two else None
        segments = segments or ((0, 0) if folder.model else None)  # The model needs an input in any case.
    else:
        tokenizer = _read_older_files(folder, kind, choice, lowercase)
        (start, between, end), segments = folder.template(family), family.segments
        if config.get("add_bos_token"):
            start = [special["bos_token"]]
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


def _read_older_files(folder, kind, choice, lowercase):
    """Returns the tokenizer of a folder without `tokenizer.json`."""
    family = FAMILIES.get(kind, Family())
    if family.read is None:
        names = [name for name, family in FAMILIES.items() if family.read is not None]
        hint = " `BertPreprocessor.load` reads vocab.txt." if "vocab.txt" in folder.names else ""
        raise FileNotFoundError(
            f"{folder.path} must contain tokenizer.json, or a config.json with a `model_type` of {names} and the "
            f"older files of its tokenizer.{hint} Received: {folder.names}, model_type={kind!r}"
        )
    folder.config |= {} if lowercase is None else {"do_lower_case": lowercase}
    tokenizer = family.read(folder, family)
    if family.read is read_word_piece and (folder.config or folder.model) and "do_lower_case" not in folder.config:
        follow_case(folder.path, tokenizer, choice)
    return tokenizer


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
    write = _write_marian if isinstance(tokenizer, MarianTokenizer) else _write_fast
    written = write(folder, tokenizer, packing, roles, target)
    names = {"token_ids": "input_ids", "segment_ids": "token_type_ids", "padding_mask": "attention_mask"}
    config = {
        "model_input_names": [names[name] for name in packing.features],
        "model_max_length": sequence_length,
        "clean_up_tokenization_spaces": False,
        SPLIT_KEY: split,
        **{key: getattr(tokenizer, argument) for argument, key in format_of(tokenizer).settings.items()},
        **({"truncation_side": "left"} if packing.truncation_side == "left" else {}),
        **({"add_prefix_space": True} if getattr(tokenizer, "add_prefix_space", False) else {}),
        **({"padding_side": "left"} if cls and not start else {}),  # XLNet reads the last position
        **{key: value for key, value in written.items() if value is not None},
    }
    (folder / CONFIG_FILE).write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", "utf-8")


def _write_fast(folder, tokenizer, packing, roles, target):
    """Writes the files of a tokenizer, and returns the entries of `tokenizer_config.json` that depend on their kind.

    Args:
        roles: Dict from roles to special tokens.
        target: `TokenPreprocessor` of the targets of an encoder-decoder, or `None` to use the sources' preprocessor.
    """
    if target is not None and (
        target.vocabulary != tokenizer.vocabulary
        or (target.packing != packing and target.packing != packing.with_language(target.packing.language or ""))
    ):
        raise ValueError(
            "The tokenizer of targets may differ from that of sources only in the language, unless both are a "
            f"`MarianTokenizer`. Received: target={target!r} with packing={target.packing}, and {packing}"
        )
    tokenizer.save_assets(folder)
    fast = fast_content(tokenizer, packing, roles.values())
    (folder / FAST_FILE).write_text(json.dumps(fast, ensure_ascii=False) + "\n", "utf-8")
    languages = {"src_lang": packing.language, "tgt_lang": None if target is None else target.packing.language}
    return {"tokenizer_class": "PreTrainedTokenizerFast", **languages, **roles}


def _write_marian(folder, tokenizer, packing, roles, target):
    """Writes `source.spm`, `target.spm` and `vocab.json`: see `_write_fast`."""
    rule = (
        "The folder of a Marian model has a tokenizer of sources and one of targets. Pass "
        "`TokenPreprocessor.save(folder, target=...)`, or write a `Seq2SeqLM` with `target_preprocessor`."
    )
    expect(target is not None and isinstance(target.tokenizer, MarianTokenizer), rule, target=target)
    if target.vocabulary != tokenizer.vocabulary:
        raise ValueError(
            "The two tokenizers of a Marian model must have the same vocabulary. Received: "
            f"{tokenizer.vocabulary_size} and {target.vocabulary_size} tokens"
        )
    if wrong := [each for each in (tokenizer, target.tokenizer) if each.normalization or each.keep_spaces]:
        raise ValueError(
            "The files of a Marian model cannot contain `normalization` and `keep_spaces`. "
            f"Received: {wrong[0].get_config()}"
        )
    (folder / "source.spm").write_bytes(tokenizer.serialized_model)
    (folder / "target.spm").write_bytes(target.tokenizer.serialized_model)
    ids = {token: tokenizer.token_to_id(token) for token in tokenizer.vocabulary}
    (folder / "vocab.json").write_text(json.dumps(ids, indent=2, ensure_ascii=False) + "\n", "utf-8")
    roles = {role: roles[role] for role in ("eos_token", "unk_token", "pad_token") if role in roles}
    return {"tokenizer_class": "MarianTokenizer", "tgt_lang": packing.language, **roles}


def _check_class(folder):
    """Raises a `ValueError` if the tokenizer has a class with its own rules."""
    name, known = folder.class_name, _kinds_of_classes()
    if name in _PYTHON_CLASSES or not (folder.fast or name in GENERIC or name.lower() in known):
        received = folder.config.get("tokenizer_class") or folder.model.get("tokenizer_class")
        raise ValueError(
            f"The tokenizer of {folder.path} splits texts by rules that keras_transfer does not implement. Expected "
            f"the `tokenizer_class` of one of the models {sorted(known.values())}, or another one with a "
            f"tokenizer.json. Received: tokenizer_class={received!r}"
        )


def _kinds_of_classes():
    """Returns a dict from the classes of tokenizers, in lower case, to the families that can be read without a JSON."""
    return {kind.replace("-", ""): kind for kind, family in FAMILIES.items() if family.read is not None}


def _check_padding(folder, kind):
    """Raises a `ValueError`, or warns, if a folder pads on the left and positions are counted from the padding on."""
    side = folder.config.get("padding_side") or (folder.fast.get("padding") or {}).get("direction", "right")
    if side.lower() == "left" and kind in ("gpt2", "openai-gpt"):
        log.warning(
            "The tokenizer in %s pads on the left. keras_transfer pads on the right, which is the same for `generate`. "
            "A head that Transformers trained over texts with padding on the left has seen other positions.",
            folder.path,
        )
    elif side.lower() == "left" and FAMILIES.get(kind, Family()).counts_padding:
        raise ValueError(
            f"The tokenizer in {folder.path} pads on the left, so that the positions in a {kind} model depend on the "
            "length of the padding. keras_transfer pads on the right. If the model was trained so, set `padding_side` "
            f"in {CONFIG_FILE} to 'right'. Received: padding_side='left'"
        )


def _kind_of(folder):
    """Returns the family of a folder's tokenizer, or the `model_type` of its model."""
    name = folder.class_name
    return OF_CLASS.get(name) or folder.model.get("model_type") or _kinds_of_classes().get(name.lower())


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
