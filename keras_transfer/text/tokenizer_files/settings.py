"""Settings in the files of a tokenizer that decide whether this library can tokenize as the original does."""

import pathlib

from keras_transfer.core.files import read_json

CONFIG_FILE = "tokenizer_config.json"

# The classes of Transformers whose tokenizers this library implements, by the name without `Tokenizer` and `Fast`.
_CLASSES = {
    *("Albert", "Bart", "Bert", "ByT5", "Camembert", "DebertaV2", "DistilBert", "Electra", "GPT2", "MBart", "MBart50"),
    *("MPNet", "Marian", "OpenAIGPT", "Pegasus", "Roberta", "T5", "XLMRoberta", "XLNet"),
    *("PreTrained", "TokenizersBackend", ""),  # any tokenizer
}
# Classes that split texts in Python and never read a `tokenizer.json`.
_PYTHON_CLASSES = {"BertGeneration", "BertJapanese", "Bertweet", "CTRL", "Flaubert", "Phobert", "XLM"}


def check_no_tokenizer(folder, overwrite):
    """Raises a `FileExistsError` if a folder already has a tokenizer, unless `overwrite=True`."""
    if not overwrite and (pathlib.Path(folder) / CONFIG_FILE).exists():
        raise FileExistsError(
            "The folder has a tokenizer. Choose another folder, or pass `overwrite=True`. "
            f"Received: folder={str(folder)!r}"
        )


def read_optional(path):
    """Returns the content of a file of settings in JSON, or an empty dict if the folder does not have the file."""
    return read_json(path) if path.is_file() else {}


def class_of(config, model_config):
    """Returns the class of a tokenizer that a folder names, without `Tokenizer` and `Fast`, or `""`."""
    name = config.get("tokenizer_class") or model_config.get("tokenizer_class") or ""
    return name.removesuffix("Fast").removesuffix("Tokenizer")


def check_class(folder, config, model_config, fast):
    """Raises a `ValueError` if the folder's tokenizer has a class with its own rules."""
    base = class_of(config, model_config)
    if base in _PYTHON_CLASSES or not (fast or base in _CLASSES):
        known = ", ".join(f"{base}Tokenizer" for base in sorted(_CLASSES - {"", "PreTrained", "TokenizersBackend"}))
        raise ValueError(
            f"The tokenizer of {folder} splits texts by rules that keras_transfer does not implement. Expected a "
            f"`tokenizer_class` of {known}, or another one with a tokenizer.json. Received: "
            f"tokenizer_class={config.get('tokenizer_class') or model_config.get('tokenizer_class')!r}"
        )


def single_part(part, parts):
    """Returns a normalizer or pre-tokenizer without the `Sequence` around it, if its list `parts` contains only one."""
    part = part or {}
    return single_part(part[parts][0], parts) if len(part.get(parts) or ()) == 1 else part


def unlike_bert(fast, lowercase=False):
    """Returns a list of strings that name the settings of a `tokenizer.json` with which words differ from BERT's.

    Args:
        lowercase: Boolean. Whether texts must be lowercased, and accents removed.
    """
    normalizer = single_part(fast.get("normalizer"), "normalizers")
    pre_tokenizer = single_part(fast.get("pre_tokenizer"), "pretokenizers")
    wrong = []
    if normalizer.get("type") == "BertNormalizer":
        expected = {"clean_text": True, "handle_chinese_chars": True}
        if lowercase:
            expected |= {"lowercase": True}
            expected |= {"strip_accents": True} if normalizer.get("strip_accents") is not None else {}
        settings = {key: normalizer.get(key, True) for key in expected}
        wrong += [f"normalizer {key}={value} (expected True)" for key, value in settings.items() if value is not True]
    else:
        wrong.append(f"normalizer {_describe(normalizer)} (expected 'BertNormalizer')")
    if pre_tokenizer.get("type") != "BertPreTokenizer":
        wrong.append(f"pre_tokenizer {_describe(pre_tokenizer)} (expected 'BertPreTokenizer')")
    return wrong


def added_tokens(folder, config, fast):
    """Returns the added tokens of a folder as a list of dicts, in the order of their ids."""
    if fast:
        found = {token["content"]: token for token in fast.get("added_tokens") or ()}
    else:
        roles = read_optional(folder / "special_tokens_map.json")
        special = {*_contents(roles), *_contents(config)}
        ids = read_optional(folder / "added_tokens.json")
        found = {token: {"content": token, "id": id, "special": token in special} for token, id in ids.items()}
        for id, token in (config.get("added_tokens_decoder") or {}).items():
            found[token["content"]] = {**token, "id": int(id)}
    return sorted(found.values(), key=lambda token: token["id"])


def text_tokens(added, special=()):
    """Returns the added tokens that texts may contain: those that are neither special nor among the given ones."""
    tokens = [token for token in added if not token.get("special", True) and token["content"] not in special]
    for token in tokens:
        if token.get("single_word") or token.get("lstrip") or token.get("rstrip"):
            raise ValueError(f"An added token that is not special must match anywhere in a text. Received: {token}")
    return tokens


def _contents(settings):
    """Yields the special tokens that a file of settings names."""
    for key, value in settings.items():
        if key.endswith(("_token", "_tokens")):
            for token in value if isinstance(value, list) else [value]:
                yield token.get("content") if isinstance(token, dict) else str(token)


def _describe(part):
    """Returns the types of a normalizer or pre-tokenizer, with those inside a `Sequence`."""
    parts = part.get("normalizers") or part.get("pretokenizers") or []
    return " + ".join(repr(inner.get("type")) for inner in parts) or repr(part.get("type"))
