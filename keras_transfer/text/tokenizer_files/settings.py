"""The settings in the files of a tokenizer, which decide whether this library can tokenize as the original does."""

import dataclasses
import pathlib

from keras_transfer.core.expect import expect
from keras_transfer.core.files import read_json

CONFIG_FILE, FAST_FILE = "tokenizer_config.json", "tokenizer.json"

GENERIC = {"", "PreTrained", "TokenizersBackend"}  # What a folder with any tokenizer may name as its class.


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


@dataclasses.dataclass
class TokenizerFolder:
    """What the files of a folder say about its tokenizer.

    Attributes:
        path: `pathlib.Path` of the folder.
        config: Dict, the content of `tokenizer_config.json`.
        model: Dict, the content of `config.json`.
        fast: Dict, the content of `tokenizer.json`. Empty without one.
        target: Boolean. Whether texts are the targets of an encoder-decoder.
        special: Dict from roles to special tokens.
    """

    path: pathlib.Path
    config: dict
    model: dict
    fast: dict
    target: bool = False
    special: dict = dataclasses.field(default_factory=dict)

    @classmethod
    def open(cls, path, target=False):
        path = pathlib.Path(path)
        return cls(path, *(read_optional(path / name) for name in (CONFIG_FILE, "config.json", FAST_FILE)), target)

    @property
    def class_name(self):
        """String. The class of the tokenizer that the folder names, without `Tokenizer` and `Fast`, or `""`."""
        name = self.config.get("tokenizer_class") or self.model.get("tokenizer_class") or ""
        return name.removesuffix("Fast").removesuffix("Tokenizer")

    @property
    def names(self):
        """List of strings, the files of the folder, or a string if there is none."""
        return sorted(path.name for path in self.path.iterdir()) if self.path.is_dir() else "no folder"

    @property
    def added(self):
        """List of dicts, the added tokens, in the order of their ids."""
        if self.fast:
            found = {token["content"]: token for token in self.fast.get("added_tokens") or ()}
        else:
            special = {*_contents(read_optional(self.path / "special_tokens_map.json")), *_contents(self.config)}
            ids = read_optional(self.path / "added_tokens.json")
            found = {token: {"content": token, "id": id, "special": token in special} for token, id in ids.items()}
            found |= {token["content"]: token for token in self.decoder}
        return sorted(found.values(), key=lambda token: token["id"])

    @property
    def decoder(self):
        """List of dicts, the added tokens in `tokenizer_config.json`."""
        return [{**token, "id": int(id)} for id, token in (self.config.get("added_tokens_decoder") or {}).items()]

    @property
    def named_tokens(self):
        """Dict from roles to the special tokens that the settings name."""
        return _by_role(read_optional(self.path / "special_tokens_map.json")) | _by_role(self.config)

    def special_tokens(self, family):
        """Returns a dict from roles to the special tokens of the folder, and of its family where it names none."""
        return {**_by_role(self.fast.get("padding") or {}), **family.special, **self.named_tokens}

    def template(self, family):
        """Returns the tokens before, between and after texts, as a family packs them."""
        source, translation = self.config.get("src_lang") or "en_XX", self.config.get("tgt_lang")
        languages = {"language": source, "translation": translation}
        if self.target:
            languages = {"language": translation or source, "translation": None}
        tokens = {**family.special, **self.named_tokens, **languages}
        return [
            [tokens[role] for role in group if tokens[role]] for group in (family.start, family.between, family.end)
        ]

    def text_tokens(self, special=()):
        """Returns the added tokens that texts may contain: those that are neither special nor among the given ones."""
        kept = [token for token in self.added if not token.get("special", True) and token["content"] not in special]
        for token in kept:
            rule = "An added token that is not special must match anywhere in a text."
            expect(not any(map(token.get, ("single_word", "lstrip", "rstrip"))), rule, token=token)
        return [token["content"] for token in kept]

    def roles(self, ids):
        """Returns the special tokens that a tokenizer knows. Transformers also names some that a vocabulary lacks."""
        names = ("unk_token", "mask_token", "eos_token")
        return {name: self.special[name] if self.special.get(name) in ids else None for name in names}

    def missing(self, files):
        """Returns the error that the folder has neither `tokenizer.json` nor the older files of its family."""
        return FileNotFoundError(f"{self.path} must contain tokenizer.json, or {files}. Received: {self.names}")

    def check_setting(self, key, only):
        """Raises a `ValueError` if a setting does not have the only value that this library implements."""
        if self.config.get(key, only) not in (only, []):
            raise ValueError(
                f"The tokenizer in {self.path / CONFIG_FILE} is not supported. Expected {key}={only}. "
                f"Received: {key}={self.config[key]}"
            )


def steps_of(part):
    """Returns the steps of a normalizer, pre-tokenizer or post-processor, without the `Sequence`s around them."""
    if part and part.get("type") == "Sequence":
        inner = next(part[name] for name in ("normalizers", "pretokenizers", "processors") if name in part)
        return [step for each in inner for step in steps_of(each)]
    return [part] if part else []


def only_step(part):
    """Returns the only step of a normalizer or pre-tokenizer, or the whole if it has several, or `{}` for none."""
    steps = steps_of(part)
    return steps[0] if len(steps) == 1 else part or {}


def _by_role(settings):
    """Returns the special tokens in a file of settings, by role."""
    tokens = {key: value for key, value in settings.items() if key.endswith("_token")}
    tokens = {key: value.get("content") if isinstance(value, dict) else value for key, value in tokens.items()}
    return {key: value for key, value in tokens.items() if isinstance(value, str)}


def _contents(settings):
    """Yields the special tokens that a file of settings names."""
    for key, value in settings.items():
        if key.endswith(("_token", "_tokens")):
            for token in value if isinstance(value, list) else [value]:
                yield token.get("content") if isinstance(token, dict) else str(token)
