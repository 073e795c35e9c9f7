"""Reads and writes the `tokenizer.json` of a folder, and writes the files of Marian, which it cannot contain."""

import json

from keras_transfer.core.expect import expect
from keras_transfer.text.tokenizer_files.post_processor import write_post_processor
from keras_transfer.text.tokenizer_files.settings import FAST_FILE
from keras_transfer.text.tokenizer_files.word_piece import read_word_piece
from keras_transfer.text.tokenizers.bpe import tokens_of
from keras_transfer.text.tokenizers.byte_bpe import ByteBPETokenizer
from keras_transfer.text.tokenizers.marian import MarianTokenizer
from keras_transfer.text.tokenizers.tokenizer import Tokenizer
from keras_transfer.text.tokenizers.wordpiece import WordPieceTokenizer


def read_fast(folder, of_bert=False):
    """Returns the tokenizer of the `tokenizer.json` of a `TokenizerFolder`."""
    fast, model = folder.fast, folder.fast["model"]
    kind = model.get("type") or ("BPE" if "merges" in model else None)
    if kind == "WordPiece" or of_bert:
        return read_word_piece(folder)
    known = [cls for cls in _subclasses(Tokenizer) if "reads_json" in vars(cls)]
    # The most specific class, and for other BPE models the bytes of GPT-2.
    found = [cls for cls in reversed(known) if cls.reads_json(fast)] + ([ByteBPETokenizer] if kind == "BPE" else [])
    if not found:
        names = sorted(cls.__name__ for cls in (WordPieceTokenizer, ByteBPETokenizer, *known))
        raise ValueError(f"The tokenizer must be one of {names}. Received: {kind!r} in {folder.path}")
    ids = model["vocab"]
    ids = ids if isinstance(ids, dict) else {token: index for index, (token, _) in enumerate(ids)}
    ids = ids | {token["content"]: token["id"] for token in folder.added}
    config = folder.config
    settings = {argument: config[key] for argument, key in found[0].folder_settings.items() if key in config}
    return found[0].from_json(fast, tokens_of(ids), folder.text_tokens(), **settings, **folder.roles(ids))


def _subclasses(cls):
    """Returns the subclasses of a class, each after those that it inherits from."""
    direct = cls.__subclasses__()
    return [*direct, *(found for other in direct for found in _subclasses(other))]


def fast_content(tokenizer, packing, special_tokens=()):
    """Returns the content of the `tokenizer.json` of a tokenizer and a packing, as a dict."""
    special = dict.fromkeys([*packing.special_tokens, *tokenizer.special_tokens, *special_tokens])
    text_tokens = [token for token in tokenizer.added_tokens if token not in special]
    added = [
        {
            "id": tokenizer.token_to_id(token),
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": token in text_tokens and tokenizer.normalizes_added_tokens,
            "special": token in special,
        }
        for token in sorted([*special, *text_tokens], key=tokenizer.token_to_id)
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "post_processor": _post_processor(packing, tokenizer),
        **tokenizer.to_json(),
    }


def _post_processor(packing, tokenizer):
    """Returns the post-processor of a `tokenizer.json`. In byte-level BPE, it keeps spaces out of the offsets."""
    template = write_post_processor(packing, tokenizer)
    if not isinstance(tokenizer, ByteBPETokenizer):
        return template
    trims = {
        "type": "ByteLevel",
        "add_prefix_space": tokenizer.add_prefix_space,
        "trim_offsets": True,
        "use_regex": True,
    }
    return {"type": "Sequence", "processors": [trims, template]}


def write_fast(folder, tokenizer, packing, roles, target):
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


def write_marian(folder, tokenizer, packing, roles, target):
    """Writes `source.spm`, `target.spm` and `vocab.json`: see `write_fast`."""
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
