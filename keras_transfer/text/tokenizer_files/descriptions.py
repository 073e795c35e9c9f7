"""The two descriptions of a tokenizer, `tokenizer.json` and `tokenizer_config.json`, and which one is followed.

Transformers 4 reads `tokenizer.json` and changes a few of its settings. From version 5 on, the classes of models build
their tokenizers from `tokenizer_config.json`, and use hardly more than the vocabulary of `tokenizer.json`.
"""

import logging
import re

from keras_transfer.core.expect import expect
from keras_transfer.text.tokenizer_files.post_processor import read_post_processor
from keras_transfer.text.tokenizer_files.settings import GENERIC, steps_of

log = logging.getLogger("keras_transfer")

_READ_AS_FILES = {"modernbert", "umt5", "xlm-roberta-xl"}  # by Transformers 5, whatever class their folders name
_OF_MODEL = {"mt5": "t5"}  # From a `model_type` to the kind of its class.
_OF_ROBERTA = {"bart", "longformer", "led", "roberta"}

# Parts that may differ, to the settings of `tokenizer_config.json` that decide about them.
_SETTINGS = {
    "normalizer": ("do_lower_case", "strip_accents", "tokenize_chinese_chars", "keep_accents"),
    "pre_tokenizer": ("add_prefix_space", "split_by_punct"),
    "template": ("tokenizer_class", "cls_token", "sep_token", "src_lang"),
    "segments": ("tokenizer_class", "model_input_names"),
    "model": ("unk_token",),
    "added_tokens": ("added_tokens_decoder",),
}
_QUOTES = [{"type": "Replace", "pattern": {"String": quote}, "content": '"'} for quote in ("``", "''")]
_ACCENTS = [{"type": "NFKD"}, {"type": "StripAccents"}]
_BERT = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True}
_BERT |= {"strip_accents": None, "lowercase": True}
_OF_BERT = {"lowercase": "do_lower_case", "strip_accents": "strip_accents"}
_OF_BERT["handle_chinese_chars"] = "tokenize_chinese_chars"


def follow(folder, families, has_segments, choice=None):
    """Returns the content of `tokenizer.json` as it is used, its packing, and whether a pair has two segments.

    If the two descriptions disagree and the user has not chosen one, a warning names what differs.

    Args:
        folder: `TokenizerFolder` with a `tokenizer.json`.
        families: Dict from kinds to their `Family`.
        has_segments: Boolean. Whether the model reads segments and `tokenizer_config.json` does not exclude them.
        choice: String. `"file"` for `tokenizer.json` as it is, or `"config"` for the tokenizer that Transformers 5
            builds from the settings. Defaults to `None`, what the Transformers version of the folder does.
    """
    expect(choice in (None, "file", "config"), "`tokenizer` must be 'file', 'config' or None.", tokenizer=choice)
    families = {kind: family for kind, family in families.items() if family.built}
    config, fast, name, version = folder.config, folder.fast, folder.class_name, _version(folder)
    kind = _kind_of_five(name, folder.model, families)
    family = families.get(kind)
    keeps = kind in ("gpt2", "openai-gpt") or (kind == "albert" and fast.get("post_processor"))
    own = None if family is None or keeps else (*folder.template(family), family.segments)
    file = {**fast, "template": None, "segments": has_segments}
    by_config = _built(kind, family, folder) if family else _with_settings(folder)
    by_config |= {"template": own, "segments": has_segments}
    if version >= (5,) and "model_input_names" not in config and (family or name in GENERIC):
        by_config["segments"] &= family is not None and family.gives_segments
    used = _by_four(name or kind, version, own, folder, file) if version < (5,) else by_config
    if version >= (5,) and family is None:
        used = {**_with_tokens(folder, file), "segments": by_config["segments"]}
    if choice is not None:
        used = file if choice == "file" else by_config
    else:
        _compare(folder, version, family, [_reading(each) for each in (file, by_config, used)])
    packing = used["template"] or read_post_processor(used.get("post_processor"), has_segments)
    return used, packing, used["segments"]


def _compare(folder, version, family, readings):
    """Logs a warning if the readings of the file, of the settings, and of what is used differ."""
    config, name, (file, by_config, used) = folder.config, folder.class_name, readings
    who = f"Transformers {'.'.join(map(str, version)) if len(version) > 1 else version[0]}"
    found = []
    for part, keys in _SETTINGS.items():
        if file[part] == by_config[part] == used[part]:
            continue
        given = ", ".join(f"{key}={config[key]!r:.60}" for key in keys if key in config) or "without " + ", ".join(keys)
        values = [re.sub(r"'[A-Za-z0-9+/=]{60,}'", "'...'", str(each[part])) for each in (file, by_config)]
        found.append(
            f"{part} is {values[0]:.300} in tokenizer.json and {values[1]:.300} by tokenizer_config.json "
            f"({given}), and keras_transfer follows "
            + ("tokenizer.json" if used[part] == file[part] else "tokenizer_config.json")
        )
    if found:
        log.warning(
            "The files in %s disagree about the tokenizer: %s. This is what %s does, to which the folder belongs. If "
            "the model was trained otherwise, pass `tokenizer='file'` or `tokenizer='config'` to `load_preprocessor` "
            "or to the `load` of a preprocessor.",
            *(folder.path, "; ".join(found), who),
        )
    elif version >= (5,) and family is None and name not in GENERIC:
        log.warning(
            "%s may build the tokenizer in %s from tokenizer_config.json, by rules of its own for %sTokenizer. "
            "keras_transfer follows tokenizer.json. Compare some ids with those of Transformers, and pass "
            "`tokenizer='file'` to `load_preprocessor` if they are equal.",
            *(who, folder.path, name),
        )


def follow_case(folder, tokenizer, choice=None):
    """Decides about the case of texts for a `vocab.txt` without `do_lower_case`, which Transformers takes as `True`.

    Args:
        tokenizer: `WordPieceTokenizer`, of which `lowercase` says what the vocabulary looks like. It is changed.
        choice: String. `"file"` for what the vocabulary looks like, or `"config"`. Defaults to `None`, as in
            Transformers, with a warning if the vocabulary has upper-case letters.
    """
    if tokenizer.lowercase or choice == "file":
        return
    tokenizer.lowercase = True
    if choice is None:
        log.warning(
            "The vocab.txt in %s has tokens with upper-case letters, and tokenizer_config.json does not name "
            "`do_lower_case`. Texts are lowercased, as by Transformers. If the model was trained with cased texts, "
            "pass `tokenizer='file'` to `load_preprocessor` or to the `load` of a preprocessor, or write "
            '"do_lower_case": false into tokenizer_config.json.',
            folder,
        )


def _version(folder):
    """Returns the version of Transformers that a folder belongs to as a tuple, `(4,)` if it does not say so."""
    written = folder.config.get("transformers_version") or folder.model.get("transformers_version") or ""
    numbers = tuple(map(int, re.findall("[0-9]+", str(written))[:2]))
    return max(numbers, (5,) if "backend" in folder.config else (4,))  # Only version 5 writes its backend.


def _kind_of_five(name, model_config, families):
    """Returns the kind of the class with which Transformers 5 reads a folder, `""` for the generic one."""
    model_type = model_config.get("model_type") or ""
    if model_type in _READ_AS_FILES:
        return ""
    if not name:
        return _OF_MODEL.get(model_type, model_type)
    kinds = {kind.replace("-", ""): kind for kind in families} | {"longformer": "roberta", "led": "roberta"}
    return kinds.get(name.lower(), "")


def _by_four(name, version, own, folder, file):
    """Returns what Transformers 4 makes of a `tokenizer.json`."""
    config, used = folder.config, _with_tokens(folder, file)
    words, kind = file.get("pre_tokenizer") or {}, name.lower()
    if (
        kind in ("bert", "distilbert", "electra", "mpnet")
        and (file.get("normalizer") or {}).get("type") == _BERT["type"]
    ):
        used["normalizer"] = {
            **_BERT,
            **file["normalizer"],
            **_of_bert(config, {"lowercase": True, "strip_accents": None}),
        }
    if (kind in _OF_ROBERTA | {"deberta", "gpt2"} or version >= (4, 45)) and words.get("type") == "ByteLevel":
        used["pre_tokenizer"] = {**words, "add_prefix_space": bool(config.get("add_prefix_space", False))}
    return used | ({"template": own} if kind in ("mbart", "mbart50") else {})


def _with_tokens(folder, fast):
    """Returns a `tokenizer.json` with the added tokens that only `tokenizer_config.json` names."""
    added = fast.get("added_tokens") or []
    known = {token["content"] for token in added}
    return {**fast, "added_tokens": [*added, *(each for each in folder.decoder if each["content"] not in known)]}


def _with_settings(folder):
    """Returns a `tokenizer.json` with the settings that `tokenizer_config.json` gives to a generic class."""
    config, changed = folder.config, _with_tokens(folder, folder.fast)
    normalizer, words = changed.get("normalizer"), changed.get("pre_tokenizer")
    if (normalizer or {}).get("type") == _BERT["type"]:
        changed["normalizer"] = {**normalizer, **_of_bert(config)}
    if (words or {}).get("type") == "ByteLevel" and "add_prefix_space" in config:
        changed["pre_tokenizer"] = {**words, "add_prefix_space": bool(config["add_prefix_space"])}
    return changed


def _of_bert(config, defaults=()):
    """Returns the settings of BERT's normalizer that `tokenizer_config.json` has, and the defaults of others."""
    return {**dict(defaults), **{ours: config[key] for ours, key in _OF_BERT.items() if key in config}}


def _built(kind, family, folder):
    """Returns the `tokenizer.json` of the tokenizer that a class of Transformers 5 builds from settings."""
    config, fast = folder.config, folder.fast
    model, unk = fast["model"], config.get("unk_token") or family.special.get("unk_token")
    unk = unk["content"] if isinstance(unk, dict) else unk
    built = {key: model[key] for key in ("vocab", "merges") if key in model} | {"unk_token": unk}
    if kind in ("bert", "distilbert", "electra", "mpnet", "openai-gpt"):
        of_gpt = {"type": "BPE", "end_of_word_suffix": "</w>"}
        normalizer, words = (
            {**_BERT, **({} if kind == "openai-gpt" else _of_bert(config))},
            {"type": "BertPreTokenizer"},
        )
        built |= of_gpt if kind == "openai-gpt" else {"type": "WordPiece"}
    elif family.front == ((), 0) and kind in _OF_ROBERTA | {"deberta", "gpt2"}:
        normalizer, words = None, {"type": "ByteLevel", "add_prefix_space": bool(config.get("add_prefix_space", False))}
        built |= {"type": "BPE", "unk_token": None}
    else:
        normalizer, words, unk_id = _of_sentence_piece(kind, family, config, fast)
        places = [index for index, (piece, _) in enumerate(model["vocab"]) if unk_id is None and piece == unk]
        built |= {"type": "Unigram", "unk_token": None, "unk_id": places[0] if places else unk_id}
    added, decoder = fast.get("added_tokens") or [], folder.decoder
    if decoder:  # The class then ignores those of the file, but knows the special tokens by their roles.
        known = {token["content"] for token in decoder}
        added = decoder + [each for each in added if each.get("special", True) and each["content"] not in known]
    decoder = {"decoder": {"type": "WordPiece"}} if built["type"] == "WordPiece" else {}
    built = {"normalizer": normalizer, "pre_tokenizer": words, "model": built, "added_tokens": added}
    return {**fast, **built, **decoder}


def _of_sentence_piece(kind, family, config, fast):
    """Returns the normalizer, the pre-tokenizer and the unknown id of a tokenizer with a unigram model."""
    charsmap = [part for part in _steps(fast.get("normalizer")) if part["type"] == "Precompiled"][:1]
    steps = [*_QUOTES] if family.cleans else []
    if family.cleans and (kind == "xlnet" or not config.get("keep_accents", False)):
        steps += _ACCENTS
    if kind in ("albert", "deberta-v2", "xlnet") and config.get("do_lower_case", family.lowercase):
        steps.append({"type": "Lowercase"})
    if kind == "deberta-v2":
        steps += [_regex(r"\s{2,}|[\n\r\t]"), {"type": "NFC"}, {"type": "Strip", "strip_left": False}]
    elif kind != "mbart":
        steps += charsmap
    if kind in ("mbart50", "pegasus"):
        steps += [] if charsmap or kind == "mbart50" else [_regex("\\n")]
        steps.append(_regex(" {2,}"))
    words = [] if kind in ("deberta-v2", "mbart50", "pegasus") else [{"type": "WhitespaceSplit"}]
    words += [{"type": "Punctuation"}] if kind == "deberta-v2" and config.get("split_by_punct") else []
    fixed = kind not in ("albert", "camembert", "deberta-v2", "xlm-roberta") or config.get("add_prefix_space", True)
    scheme = "always" if fixed else "first" if kind == "deberta-v2" else "never"
    words.append({"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": True})
    unknown = {"albert": 1, "t5": 2, "mbart": 3, "mbart50": 3, "xlm-roberta": 3, "xlnet": 0}.get(kind)
    normalizer = {"type": "Sequence", "normalizers": steps} if steps else None
    return normalizer, {"type": "Sequence", "pretokenizers": words}, unknown


def _regex(pattern):
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": " "}


def _reading(tokenizer):
    """Returns the parts of a tokenizer in a form in which equal ones are equal."""
    template = tokenizer["template"]
    if template is None:
        try:
            template = read_post_processor(tokenizer.get("post_processor"), tokenizer["segments"])
        except ValueError:
            template = (tokenizer["post_processor"],)
    *template, segments = template
    model = {key: tokenizer["model"].get(key) or None for key in ("unk_token", "unk_id", "end_of_word_suffix")}
    model |= {key: bool(tokenizer["model"].get(key)) for key in ("byte_fallback", "ignore_merges", "fuse_unk")}
    if "unk_id" in tokenizer["model"] or (tokenizer.get("pre_tokenizer") or {}).get("type") == "ByteLevel":
        model["unk_token"] = None  # Unigram models have none, and each byte is known.
    tokens = [token["content"] for token in tokenizer.get("added_tokens") or () if not token.get("special", True)]
    return {
        "normalizer": [_step(part) for part in _steps(tokenizer.get("normalizer"))],
        "pre_tokenizer": [_step(part) for part in _steps(tokenizer.get("pre_tokenizer"))],
        "template": [*map(list, template)],
        "segments": list(segments or (0, 0)) if tokenizer["segments"] else None,
        "model": model,
        "added_tokens": sorted(tokens),
    }


def _steps(part):
    """Returns the steps of a normalizer or pre-tokenizer, without those that do nothing."""
    return [step for step in steps_of(part) if step["type"] != "Precompiled" or step.get("precompiled_charsmap")]


def _step(step):
    """Returns a step with the settings that it has if a file does not name them, without those of no effect."""
    step = {key: value for key, value in step.items() if key not in ("trim_offsets", "str_rep")}
    if step["type"] == "BertNormalizer":
        step = _BERT | step
        step["strip_accents"] = step["lowercase"] if step["strip_accents"] is None else step["strip_accents"]
    defaults = {
        "ByteLevel": {"add_prefix_space": True, "use_regex": True},
        "Punctuation": {"behavior": "Isolated"},
        "Strip": {"strip_left": True, "strip_right": True},
    }
    if step["type"] == "Metaspace":
        prefix = step.pop("add_prefix_space", True)
        step = {"replacement": "\u2581", "prepend_scheme": "always" if prefix else "never", "split": True} | step
    return defaults.get(step["type"], {}) | step
