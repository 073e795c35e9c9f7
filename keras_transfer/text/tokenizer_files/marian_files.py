"""The files of the two tokenizers of a Marian model, and what the tokenizer of targets may be in other folders."""

import json

from keras_transfer.text.tokenizers import MarianTokenizer, is_language_code


def write_marian_files(folder, tokenizer, target):
    """Writes `source.spm`, `target.spm` and `vocab.json` of two `MarianTokenizer`s with the same vocabulary."""
    (folder / "source.spm").write_bytes(tokenizer.serialized_model)
    (folder / "target.spm").write_bytes(target.serialized_model)
    ids = {token: tokenizer.token_to_id(token) for token in tokenizer.vocabulary}
    (folder / "vocab.json").write_text(json.dumps(ids, indent=2, ensure_ascii=False) + "\n", "utf-8")


def check_target(tokenizer, packing, target):
    """Raises a `ValueError` if the folder of a tokenizer cannot contain the preprocessor of targets.

    Args:
        tokenizer, packing: Those of the sources.
        target: `TokenPreprocessor` of the targets, or None for that of the sources.
    """
    if not isinstance(tokenizer, MarianTokenizer):
        if target is not None and (
            target.vocabulary != tokenizer.vocabulary or _without_codes(target.packing) != _without_codes(packing)
        ):
            raise ValueError(
                "The tokenizer of targets may differ from that of sources only in the language, unless both are a "
                f"`MarianTokenizer`. Received: target={target!r} with packing={target.packing}, and {packing}"
            )
        return
    if target is None or not isinstance(target.tokenizer, MarianTokenizer):
        raise ValueError(
            "The folder of a Marian model has a tokenizer of sources and one of targets. Pass "
            "`TokenPreprocessor.save(folder, target=...)`, or write a `Seq2SeqLM` with `target_preprocessor`. "
            f"Received: target={target!r}"
        )
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


def _without_codes(packing):
    """Returns a packing as a dict, with the same token for all language codes."""
    config = packing.get_config()
    for name in ("start", "end"):
        config[name] = ["" if is_language_code(token) else token for token in config[name]]
    return config
