"""How each kind of tokenizer is written to a `tokenizer.json` and read from one: a row of `FORMATS` for each class."""

import base64
import unicodedata
from collections.abc import Callable
from typing import NamedTuple

from keras_transfer.core.expect import expect
from keras_transfer.text.strings.normalizer import MAX_WORD_LENGTH
from keras_transfer.text.tokenizer_files.post_processor import write_post_processor
from keras_transfer.text.tokenizer_files.settings import FAST_FILE, only_step, steps_of
from keras_transfer.text.tokenizers.bpe import pairs_of, tokens_of
from keras_transfer.text.tokenizers.byte_bpe import ByteBPETokenizer
from keras_transfer.text.tokenizers.fastai import FastaiTokenizer
from keras_transfer.text.tokenizers.gpt import END_OF_WORD, GPTTokenizer
from keras_transfer.text.tokenizers.marian import MarianTokenizer
from keras_transfer.text.tokenizers.sentencepiece_bpe import SentencePieceBPETokenizer
from keras_transfer.text.tokenizers.sentencepiece_model import BYTE_PIECES, SPACE, PieceType, SentencePieceModel
from keras_transfer.text.tokenizers.unigram import UnigramTokenizer, spelled_byte
from keras_transfer.text.tokenizers.unigram_words import MODEL_STEP, SIDES, SPACE_STEPS, TWO_SPACES
from keras_transfer.text.tokenizers.wordpiece import WordPieceTokenizer, read_lines, trimmed_token


class Format(NamedTuple):
    """How tokenizers of a class are written to a folder in the format of Transformers, and read from one.

    Args:
        write: Function of a tokenizer that returns its part of a `tokenizer.json`: a dict of `normalizer`,
            `pre_tokenizer`, `model` and `decoder`.
        fits: Function of the content of a `tokenizer.json` that returns whether `read` can read it.
        read: Function of a `TokenizerFolder`, of all tokens in the order of their ids, of the added tokens that are not
            special, and of the special tokens and settings as keyword arguments. It returns the tokenizer, or raises a
            `ValueError` if the file needs something that the class does not support.
        settings: Dict from arguments that a `tokenizer.json` cannot contain to names in `tokenizer_config.json`.
        normalizes_added: Boolean. Whether added tokens are matched in normalized texts.
    """

    write: Callable
    fits: Callable = lambda fast: False
    read: Callable | None = None
    settings: dict = {}
    normalizes_added: bool = True


def format_of(tokenizer):
    """Returns the `Format` of a tokenizer."""
    found = [FORMATS[cls] for cls in type(tokenizer).__mro__ if cls in FORMATS]
    if not found:
        raise NotImplementedError(f"{type(tokenizer).__name__} cannot be written as a tokenizer.json.")
    return found[0]


def read_fast(folder, of_bert=False):
    """Returns the tokenizer of the `tokenizer.json` of a `TokenizerFolder`, as BERT's if `of_bert`."""
    model = folder.fast["model"]
    found = [each for each in reversed(FORMATS.values()) if each.fits(folder.fast)]
    found = [FORMATS[WordPieceTokenizer]] if of_bert else found
    if not found:
        names = sorted(cls.__name__ for cls, each in FORMATS.items() if each.read)
        raise ValueError(f"The tokenizer must be one of {names}. Received: {model.get('type')!r} in {folder.path}")
    if found[0].read is read_word_piece:
        return read_word_piece(folder)
    ids = model["vocab"]
    ids = ids if isinstance(ids, dict) else {token: index for index, (token, _) in enumerate(ids)}
    ids = ids | {token["content"]: token["id"] for token in folder.added}
    config = folder.config
    settings = {argument: config[key] for argument, key in found[0].settings.items() if key in config}
    return found[0].read(folder.fast, tokens_of(ids), folder.text_tokens(), **settings, **folder.roles(ids))


def fast_content(tokenizer, packing, special_tokens=()):
    """Returns the content of the `tokenizer.json` of a tokenizer and a packing, as a dict."""
    own = format_of(tokenizer)
    special = dict.fromkeys([*packing.special_tokens, *tokenizer.special_tokens, *special_tokens])
    text_tokens = [token for token in tokenizer.added_tokens if token not in special]
    added = [
        {
            "id": tokenizer.token_to_id(token),
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": token in text_tokens and own.normalizes_added,
            "special": token in special,
        }
        for token in sorted([*special, *text_tokens], key=tokenizer.token_to_id)
    ]
    post_processor = write_post_processor(packing, tokenizer)
    if isinstance(tokenizer, ByteBPETokenizer):  # It keeps spaces out of the offsets.
        trims = {**_BYTE_LEVEL, "add_prefix_space": tokenizer.add_prefix_space}
        post_processor = {"type": "Sequence", "processors": [trims, post_processor]}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "post_processor": post_processor,
        **own.write(tokenizer),
    }


def _ids(tokenizer):
    return {token: tokenizer.token_to_id(token) for token in tokenizer.vocabulary}


# === WordPiece ===

_BERT_WORDS = {"type": "BertPreTokenizer"}


def _bert_normalizer(lowercase, strip_accents):
    settings = {"strip_accents": strip_accents, "lowercase": lowercase}
    return {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, **settings}


def _write_word_piece(tokenizer):
    return {
        "normalizer": _bert_normalizer(tokenizer.lowercase, tokenizer.strip_accents),
        "pre_tokenizer": _BERT_WORDS,
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": tokenizer.clean_up},
        "model": {
            "type": "WordPiece",
            "unk_token": tokenizer.unk_token,
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": MAX_WORD_LENGTH,
            "vocab": _ids(tokenizer),
        },
    }


def read_word_piece(folder, family=None):
    """Returns the tokenizer of BERT in a `TokenizerFolder`, from its `vocab.txt` if there is no `tokenizer.json`."""
    config, fast, special = folder.config, folder.fast, folder.special
    folder.check_setting("do_basic_tokenize", True)
    folder.check_setting("never_split", None)
    if fast:
        _check_word_piece(folder.path / FAST_FILE, fast)
    else:
        folder.check_setting("tokenize_chinese_chars", True)
    if of_text := folder.text_tokens(special.values()):
        raise ValueError(
            f"The tokenizer in {folder.path} has added tokens that are not special, which a WordPiece tokenizer does "
            f"not support. Received: {len(of_text)} tokens, starting with {of_text[:3]}"
        )
    vocabulary = _vocabulary(folder)
    normalizer = only_step(fast.get("normalizer"))
    lowercase = normalizer.get("lowercase", True) if fast else config.get("do_lower_case")
    # Transformers removes these spaces if one of the two says so.
    spaces = config.get("clean_up_tokenization_spaces", not fast)
    return WordPieceTokenizer(
        vocabulary,
        lowercase=not _looks_cased(vocabulary) if lowercase is None else lowercase,
        strip_accents=(normalizer if fast else config).get("strip_accents"),
        clean_up=bool(spaces or (fast.get("decoder") or {}).get("cleanup", bool(fast))),
        unk_token=special.get("unk_token", "[UNK]"),
        mask_token=special.get("mask_token", "[MASK]"),
    )


def _check_word_piece(path, fast):
    """Raises a `ValueError` that names each setting of a `tokenizer.json` that the tokenizer does not implement."""
    model = fast["model"]
    # Older files do not name the model's type.
    if model.get("type", "WordPiece") != "WordPiece" or model.get("continuing_subword_prefix", "##") != "##":
        raise ValueError(
            f"{path} must be a WordPiece model with the prefix '##'. "
            f"Received: {model.get('type')}, {model.get('continuing_subword_prefix')}"
        )
    wrong, limit = _unlike_bert(fast), model.get("max_input_chars_per_word", MAX_WORD_LENGTH)
    if limit != MAX_WORD_LENGTH:
        wrong.append(f"model max_input_chars_per_word={limit} (expected {MAX_WORD_LENGTH})")
    if wrong:
        raise ValueError(f"{path} must split texts as BERT does. Received: {'; '.join(wrong)}")


def _looks_cased(vocabulary):
    """Returns whether lowercasing changes any token other than those in brackets, such as `[CLS]`."""
    words = (token for token in vocabulary if not (token.startswith("[") and token.endswith("]")))
    return any(token != token.lower() for token in words)


def _vocabulary(folder):
    file, added = folder.path / WordPieceTokenizer.vocabulary_file, folder.added
    if not folder.fast and not file.is_file():
        raise FileNotFoundError(f"{folder.path} must contain vocab.txt or tokenizer.json. Received: {folder.names}")
    # Added tokens have ids like all others. The tokenizer ensures that text never becomes one of them.
    ids = folder.fast["model"]["vocab"] if folder.fast else {}
    ids = {**ids, **{token["content"]: token["id"] for token in added}}
    if not file.is_file():
        return tokens_of(ids)
    lines = read_lines(file)
    while lines and lines[-1] == "":
        lines.pop()
    tokens = [*lines, *(token["content"] for token in added if token["id"] >= len(lines))]
    places = {token: index for index, token in enumerate(tokens)}
    if wrong := [token for token, id in ids.items() if places.get(trimmed_token(token)) != id]:
        token, place = wrong[0], places.get(trimmed_token(wrong[0]))
        raise ValueError(
            f"The files in {folder.path} must give each token the same id. Received: {token!r} with the id "
            f"{ids[token]}, and with the id {place} by its place in {file.name} (and {len(wrong) - 1} others)"
        )
    return tokens


def _unlike_bert(fast, lowercase=False):
    """Returns a list of strings that name the settings of a `tokenizer.json` with which words differ from BERT's.

    Args:
        lowercase: Boolean. Whether texts must be lowercased, and accents removed.
    """
    normalizer, pre_tokenizer = only_step(fast.get("normalizer")), only_step(fast.get("pre_tokenizer"))
    wrong = []
    if normalizer.get("type") == "BertNormalizer":
        expected = ["clean_text", "handle_chinese_chars"]
        if lowercase:
            expected += ["lowercase"] if normalizer.get("strip_accents") is None else ["lowercase", "strip_accents"]
        settings = {key: normalizer.get(key, True) for key in expected}
        wrong += [f"normalizer {key}={value} (expected True)" for key, value in settings.items() if value is not True]
    else:
        wrong.append(f"normalizer {_describe(normalizer)} (expected 'BertNormalizer')")
    if pre_tokenizer.get("type") != "BertPreTokenizer":
        wrong.append(f"pre_tokenizer {_describe(pre_tokenizer)} (expected 'BertPreTokenizer')")
    return wrong


def _describe(part):
    """Returns the types of a normalizer or pre-tokenizer, with those inside a `Sequence`."""
    return " + ".join(repr(step.get("type")) for step in steps_of(part)) or repr(part.get("type"))


# === Byte-pair encodings ===


def _bpe_model(tokenizer, end_of_word_suffix="", **settings):
    return {
        "type": "BPE",
        "unk_token": None,
        "continuing_subword_prefix": "",
        "end_of_word_suffix": end_of_word_suffix,
        "vocab": _ids(tokenizer),
        "merges": [list(pair) for pair in tokenizer.merges],
        **settings,
    }


def _merges_of(model, allowed=()):
    """Returns the merges of the BPE model of a `tokenizer.json` as a list of pairs.

    Args:
        allowed: List of strings. Settings that the tokenizer supports.
    """
    for key in ("continuing_subword_prefix", "dropout", "ignore_merges", "byte_fallback"):
        if model.get(key) and key not in allowed:
            raise ValueError(f"The BPE model must not have `{key}`. Received: {key}={model[key]!r}")
    return pairs_of(model["merges"], "The merges of `tokenizer.json`")


def _write_gpt(tokenizer):
    return {
        "normalizer": _bert_normalizer(True, None),
        "pre_tokenizer": _BERT_WORDS,
        "decoder": {"type": "BPEDecoder", "suffix": END_OF_WORD},
        "model": _bpe_model(tokenizer, END_OF_WORD, unk_token=tokenizer.unk_token),
    }


def _read_gpt(fast, tokens, text_tokens, **special):
    wrong = _unlike_bert(fast, lowercase=True)
    wrong += ["model fuse_unk=True (expected False)"] if fast["model"].get("fuse_unk") else []
    wrong += [f"added tokens {text_tokens[:3]} (expected only special ones)"] if text_tokens else []
    if wrong:
        raise ValueError(
            "A BPE model of words must have BERT's normalizer and pre-tokenizer, in lower case. "
            f"Received: {'; '.join(wrong)}"
        )
    special["unk_token"] = fast["model"].get("unk_token") or special["unk_token"]
    return GPTTokenizer(tokens, _merges_of(fast["model"]), **special)


_BYTE_LEVEL = {"type": "ByteLevel", "trim_offsets": True, "use_regex": True}


def _write_byte_bpe(tokenizer):
    return {
        "normalizer": {"type": tokenizer.normalization} if tokenizer.normalization else None,
        "pre_tokenizer": {**_BYTE_LEVEL, "add_prefix_space": tokenizer.add_prefix_space},
        "decoder": {**_BYTE_LEVEL, "add_prefix_space": True},
        "model": _bpe_model(tokenizer),
    }


def _read_byte_bpe(fast, tokens, text_tokens, **special):
    normalizer = only_step(fast.get("normalizer"))
    byte_level = only_step(fast.get("pre_tokenizer"))
    rule = "The pre-tokenizer must be 'ByteLevel' with GPT-2's words."
    expect(byte_level.get("type") == "ByteLevel" and byte_level.get("use_regex", True), rule, byte_level=byte_level)
    rule = "The normalizer must be a Unicode normalization or null."
    expect(normalizer.get("type") in (None, "NFC", "NFD", "NFKC", "NFKD"), rule, normalizer=normalizer)
    if normalizer:
        _check_added(fast, text_tokens, normalizer["type"])
    return ByteBPETokenizer(
        tokens,
        _merges_of(fast["model"]),
        add_prefix_space=byte_level.get("add_prefix_space", False),
        normalization=normalizer.get("type"),
        added_tokens=text_tokens,
        **special,
    )


def _fits_byte_bpe(fast):
    return "merges" in fast["model"] and fast["model"].get("type") in (None, "BPE")


def _check_added(fast, text_tokens, form):
    """Raises a `ValueError` if an added token is found in other places before texts are normalized than after."""
    early = {token["content"] for token in fast.get("added_tokens") or () if not token.get("normalized", True)}
    for token in text_tokens:
        if unicodedata.normalize(form, token) != token:
            raise ValueError(f"The normalization {form} must not change added tokens. Received: {token!r}")
        # ASCII that is neither the result of a normalization nor combined with a following accent.
        same = token.isascii() and not {*"K;`"} & {*token} and not (token[-1].isalnum() or token[-1] in "<=>")
        if token in early and (form in ("NFKC", "NFKD") or not same):
            raise ValueError(
                f"Added tokens must be found after the normalization {form}, with normalized=True. "
                f"Received: {token!r} with normalized=False"
            )


_PREPEND = {"type": "Prepend", "prepend": SPACE}
_REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
_SPLIT = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}


def _write_sentencepiece_bpe(tokenizer):
    prefix = tokenizer.prefix
    normalizers = {"always": [_PREPEND, _REPLACE], "missing": [], None: [_REPLACE]}[prefix]
    scheme = {"prepend_scheme": "always" if tokenizer.added_tokens else "first", "split": False}
    decoders = [
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        *([] if prefix is None else [{"type": "Strip", "content": " ", "start": 1, "stop": 0}]),
    ]
    unknown = {"unk_token": tokenizer.unk_token, "fuse_unk": True, "byte_fallback": tokenizer.byte_fallback}
    return {
        "normalizer": {"type": "Sequence", "normalizers": normalizers} if normalizers else None,
        "pre_tokenizer": None if normalizers else {"type": "Metaspace", "replacement": SPACE, **scheme},
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": _bpe_model(tokenizer, **unknown),
    }


def _read_sentencepiece_bpe(fast, tokens, text_tokens, control_tokens=None, **special):
    """Returns the tokenizer. By default, the special added tokens but the unknown one are control tokens."""
    model, prefix = fast["model"], _read_prefix(fast, text_tokens)
    if not (model.get("byte_fallback") or model.get("fuse_unk")) or model.get("unk_token") is None:
        received = {name: model.get(name) for name in ("unk_token", "byte_fallback", "fuse_unk")}
        raise ValueError(
            "The BPE model must have an `unk_token`, and `byte_fallback` or `fuse_unk`, like SentencePiece models. "
            f"Received: {received}"
        )
    added = [token["content"] for token in fast.get("added_tokens") or () if token.get("normalized")]
    late = [token for token in text_tokens if token in added and (prefix == "always" or SPACE in token)]
    rule = "Added tokens must be found before texts are normalized, with normalized=False."
    expect(not (fast.get("normalizer") and late), rule, late=late[:3])
    special["unk_token"] = unknown = model["unk_token"]
    if control_tokens is None:
        control_tokens = [token["content"] for token in fast.get("added_tokens") or () if token.get("special")]
        control_tokens = [token for token in control_tokens if token != unknown]
    return SentencePieceBPETokenizer(
        tokens,
        _merges_of(model, allowed=["byte_fallback"]),
        prefix=prefix,
        byte_fallback=bool(model.get("byte_fallback")),
        added_tokens=text_tokens,
        control_tokens=control_tokens,
        **special,
    )


def _read_prefix(fast, text_tokens):
    """Returns the `prefix` of the normalizer and the pre-tokenizer of a `tokenizer.json`."""
    normalizer, pre_tokenizer = fast.get("normalizer") or {}, fast.get("pre_tokenizer") or {}
    steps = steps_of(normalizer)
    if pre_tokenizer == _SPLIT and steps == [_REPLACE]:
        pre_tokenizer = {}  # There is nothing left to split.
    if not pre_tokenizer and steps in ([_REPLACE], [_PREPEND, _REPLACE]):
        return None if steps == [_REPLACE] else "always"
    scheme = pre_tokenizer.get("prepend_scheme")
    metaspace = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": scheme, "split": False}
    known = {key: value for key, value in pre_tokenizer.items() if key != "add_prefix_space"}
    if known == metaspace and not steps and not (scheme == "first" and text_tokens):
        return None if scheme == "never" else "missing"
    raise ValueError(
        f"A SentencePiece BPE model must replace each space by {SPACE!r}: by the normalizers 'Replace', or 'Prepend' "
        "and 'Replace', or by the pre-tokenizer 'Metaspace' with split=False, which must put it in front of all parts "
        f"if added tokens separate them. Received: {normalizer}, {pre_tokenizer}, added tokens {text_tokens[:3]}"
    )


def _fits_sentencepiece_bpe(fast):
    model = fast["model"]
    return "merges" in model and SPACE in model["vocab"] and model.get("end_of_word_suffix") != END_OF_WORD


# === Unigram ===


def _write_unigram(tokenizer):
    parsed = tokenizer.parsed_model
    scores = {piece: score for piece, score, _ in parsed.pieces}
    has_bytes = any(type == PieceType.BYTE for _, _, type in parsed.pieces)
    metaspace = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": True}
    words = {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace]}
    of_bytes = {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, metaspace]}
    return {
        "normalizer": _write_steps(tokenizer.normalization, parsed.charsmap),
        "pre_tokenizer": metaspace if tokenizer.keep_spaces else words,
        "decoder": of_bytes if has_bytes else metaspace,
        "model": {
            "type": "Unigram",
            "unk_id": tokenizer.unk_id,
            "vocab": [[token, scores.get(token, 0.0)] for token in tokenizer.vocabulary],
            "byte_fallback": has_bytes,
        },
    }


def _read_unigram(fast, tokens, text_tokens, graphemes=True, **special):
    expect(not text_tokens, "Added tokens must be special.", text_tokens=text_tokens)
    model = fast["model"]
    expect(model.get("unk_id") is not None, "The unigram model must have an `unk_id`.", unk_id=None)
    of_bytes = {*BYTE_PIECES} if model.get("byte_fallback") else set()
    keep_spaces = _keeps_spaces(fast.get("pre_tokenizer"))
    steps, charsmap = _read_steps(fast.get("normalizer"), keep_spaces)
    control = {token["content"] for token in fast.get("added_tokens") or []}
    pieces = []
    for index, (piece, score) in enumerate(model["vocab"]):
        type = PieceType.CONTROL if piece in control else PieceType.NORMAL
        type = PieceType.BYTE if piece in of_bytes else type
        pieces.append((piece, score, PieceType.UNKNOWN if index == model["unk_id"] else type))
    # In these files, a text that spells a byte piece becomes it, unlike in a model of SentencePiece.
    pieces += [(spelled_byte(piece), score, PieceType.NORMAL) for piece, score in model["vocab"] if piece in of_bytes]
    serialized = SentencePieceModel(pieces, charsmap).to_bytes()
    special["unk_token"] = model["vocab"][model["unk_id"]][0]
    options = {"normalization": steps, "keep_spaces": keep_spaces, "graphemes": graphemes}
    return UnigramTokenizer(serialized, tokens, **options, **special)


def _keeps_spaces(settings):
    """Returns whether a pre-tokenizer makes a word of each space."""
    parts = steps_of(settings)
    kinds = [part.get("type") for part in parts]
    last = parts[-1] if parts else {}
    prefix = last.get("prepend_scheme", "always" if last.get("add_prefix_space", True) else "never")
    alone = kinds == ["Metaspace"]
    expect(
        (alone or kinds == ["WhitespaceSplit", "Metaspace"])
        and last["replacement"] == SPACE
        and last.get("split", True)
        and (prefix == "always" or (alone and prefix == "first")),
        "The pre-tokenizer must be 'Metaspace' with split=True, with or without 'WhitespaceSplit', and must put "
        f"{SPACE!r} in front of each word.",
        settings=settings,
    )
    return alone


_SPACES = r"\s{2,}|[\n\r\t]"


def _replacing(kind, pattern, content=" "):
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


# What stands for a step in a `tokenizer.json`.
_PARTS = {
    "quotes": [_replacing("String", quotes, '"') for quotes in ("``", "''")],
    **{name: [{"type": name}] for name in ("NFC", "NFD", "NFKC", "NFKD")},
    "strip_accents": [{"type": "StripAccents"}],
    "lowercase": [{"type": "Lowercase"}],
    "collapse_spaces": [_replacing("Regex", TWO_SPACES)],
    "collapse_white_space": [_replacing("Regex", _SPACES)],
    **{name: [{"type": "Strip", **{side: side == name for side in SIDES}}] for name in SIDES},
}


def _read_steps(normalizer, keep_spaces=False):
    """Returns the steps of a `normalizer` and the compiled normalization of SentencePiece, empty for none.

    Args:
        keep_spaces: Boolean. Whether the steps on white space matter. They do not if texts are split at white space
            afterwards.
    """
    steps, charsmap = [], b""
    for part in steps_of(normalizer):
        if part["type"] == "Precompiled":
            charsmap = base64.b64decode(part["precompiled_charsmap"] or "")
            found = [MODEL_STEP] if charsmap else []
        elif part["type"] == "Strip":
            found = [side for side in SIDES if part.get(side, True)]
        else:
            plain = _replacing("Regex", TWO_SPACES) if part == _replacing("Regex", TWO_SPACES, SPACE) else part
            found = [step for step, parts in _PARTS.items() if plain in parts] or _refuse(part)
        found = [step for step in found if keep_spaces or step not in SPACE_STEPS]
        found = [] if found == ["quotes"] and "quotes" in steps else found
        if MODEL_STEP in steps and not {*found} <= SPACE_STEPS:
            _refuse(part)
        steps += found
    return steps[:-1] if steps[-1:] == [MODEL_STEP] else steps, charsmap


def _write_steps(steps, charsmap):
    """Returns the `normalizer` of steps and of the compiled normalization of SentencePiece."""
    compiled = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode("ascii")}
    steps = [*steps, *([MODEL_STEP] if charsmap and MODEL_STEP not in steps else [])]
    parts = [part for step in steps for part in ([compiled] if step == MODEL_STEP else _PARTS[step])]
    return {"type": "Sequence", "normalizers": parts} if parts else None


def _refuse(part):
    raise ValueError(
        f"The normalizer has an unknown step, or one in another place around 'Precompiled'. Received: {part!r:.300}"
    )


def _refuse_marian(tokenizer):
    raise ValueError(
        "A `MarianTokenizer` cannot be written as a tokenizer.json, because its vocabulary also contains pieces of "
        "another model. Write both with `TokenPreprocessor.save(folder, target=...)`. "
        f"Received: a vocabulary of {tokenizer.vocabulary_size} tokens"
    )


# === fastai's words ===

_FASTAI_SPLIT = {"type": "Split", "pattern": {"String": " "}, "behavior": "Removed", "invert": False}


def _write_fastai(tokenizer):
    model = {"type": "WordLevel", "vocab": _ids(tokenizer), "unk_token": tokenizer.unk_token}
    return {"normalizer": None, "pre_tokenizer": _FASTAI_SPLIT, "decoder": None, "model": model}


def _read_fastai(fast, tokens, text_tokens, **special):
    return FastaiTokenizer(tokens, **{**special, "unk_token": fast["model"]["unk_token"]})


# If several formats fit a file, the last one reads it. Transformers has no settings of our own names.
_GRAPHEMES = {"graphemes": "keras_transfer_graphemes"}
_MARIAN = {**_GRAPHEMES, "source_lang": "source_lang", "target_lang": "target_lang"}
FORMATS = {
    WordPieceTokenizer: Format(
        _write_word_piece, lambda fast: fast["model"].get("type") == "WordPiece", read_word_piece
    ),
    ByteBPETokenizer: Format(_write_byte_bpe, _fits_byte_bpe, _read_byte_bpe),
    UnigramTokenizer: Format(
        _write_unigram, lambda fast: fast["model"].get("type") == "Unigram", _read_unigram, _GRAPHEMES
    ),
    MarianTokenizer: Format(_refuse_marian, settings=_MARIAN),
    FastaiTokenizer: Format(
        _write_fastai,
        lambda fast: fast["model"].get("type") == "WordLevel" and fast.get("pre_tokenizer") == _FASTAI_SPLIT,
        _read_fastai,
    ),
    SentencePieceBPETokenizer: Format(
        _write_sentencepiece_bpe,
        _fits_sentencepiece_bpe,
        _read_sentencepiece_bpe,
        {"control_tokens": "keras_transfer_control_tokens"},
        normalizes_added=False,
    ),
    GPTTokenizer: Format(_write_gpt, lambda fast: fast["model"].get("end_of_word_suffix") == END_OF_WORD, _read_gpt),
}
