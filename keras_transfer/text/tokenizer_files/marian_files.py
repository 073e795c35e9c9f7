"""The files of the two tokenizers of a Marian model, which share their vocabulary."""

import json

from keras_transfer.files import read_json
from keras_transfer.text.tokenizer_files.family_files import missing
from keras_transfer.text.tokenizer_files.fast_files import special_roles
from keras_transfer.text.tokenizers import MarianTokenizer, tokens_of


def read_marian(folder, family, config, special, added, target):
    """Returns one of the two tokenizers of a Marian model, which share their vocabulary."""
    path = folder / ("target_vocab.json" if target and config.get("separate_vocabs") else "vocab.json")
    model = folder / ("target.spm" if target else "source.spm")
    if not path.is_file() or not model.is_file():
        raise missing(folder, f"{path.name} and {model.name}")
    tokens = tokens_of(read_json(path))
    kept = {argument: config[key] for argument, key in MarianTokenizer.folder_settings.items() if key in config}
    return MarianTokenizer(model.read_bytes(), tokens, **kept, **special_roles(special, tokens))


def write_marian(folder, tokenizer, packing, roles, target):
    """Writes `source.spm`, `target.spm` and `vocab.json`: see `write_fast`."""
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
    (folder / "source.spm").write_bytes(tokenizer.serialized_model)
    (folder / "target.spm").write_bytes(target.tokenizer.serialized_model)
    ids = {token: tokenizer.token_to_id(token) for token in tokenizer.vocabulary}
    (folder / "vocab.json").write_text(json.dumps(ids, indent=2, ensure_ascii=False) + "\n", "utf-8")
    roles = {role: roles[role] for role in ("eos_token", "unk_token", "pad_token") if role in roles}
    return {"tokenizer_class": "MarianTokenizer", "tgt_lang": packing.language, **roles}
