"""What differs between the families of models, and how their folders without a `tokenizer.json` are read."""

import dataclasses
import json
from collections.abc import Callable

from keras_transfer.core.expect import expect
from keras_transfer.core.files import read_json
from keras_transfer.text.tokenizer_files.fast_files import read_word_piece, special_roles, write_fast
from keras_transfer.text.tokenizer_files.settings import CONFIG_FILE, text_tokens
from keras_transfer.text.tokenizers.bpe import MERGES_FILE, BPETokenizer, tokens_of
from keras_transfer.text.tokenizers.byte_bpe import ByteBPETokenizer, byte_characters
from keras_transfer.text.tokenizers.gpt import GPTTokenizer
from keras_transfer.text.tokenizers.marian import MarianTokenizer
from keras_transfer.text.tokenizers.sentencepiece_model import SentencePieceModel
from keras_transfer.text.tokenizers.unigram import UnigramTokenizer


@dataclasses.dataclass(frozen=True)
class Family:
    """What the folders of a family of models do not contain if there is no `tokenizer.json`.

    Args:
        read: Function of a folder, this record, the content of `tokenizer_config.json`, the special tokens, the added
            tokens, and whether texts are targets, that returns the tokenizer. Defaults to `None`, for a family whose
            folders are read only with `tokenizer.json`.
        special: Dict from roles to special tokens.
        start, between, end: Tuples of strings. Roles of the tokens before, between and after texts. `"language"` is the
            code of the language of a text, and `"translation"`, which only sources have, that of its translation.
        segments: Tuple of integers, as for `Packing`, or None.
        num_segments: Integer. Number of segments of the model if `config.json` has no `type_vocab_size`.
        front: Tuple of the tokens in front of those of a SentencePiece model, and the number of the model's tokens that
            they replace, or a function that returns it, given the settings and the special tokens.
        languages: String of codes after those tokens, separated by spaces.
        sentinels: Integer. Number of sentinels after the tokens, unless the settings have another. `None` for none.
        lowercase: Boolean. Whether texts become lowercase, unless the settings say otherwise.
        cleans: Boolean. Whether quotes become plain ones, and accents are removed unless the settings keep them.
        own_spaces: Boolean. Whether a text begins with a space whatever the settings say, and keeps its spaces if the
            model does not normalize them.
        tokenizer: Class. The tokenizer whose folders `write` writes. Defaults to `None`, for one that a
            `tokenizer.json` can contain.
        write: Function as `write_fast`. Defaults to this.
    """

    read: Callable | None = None
    special: dict = dataclasses.field(default_factory=dict)
    start: tuple = ()
    between: tuple = ()
    end: tuple = ()
    segments: tuple | None = None
    num_segments: int = 0
    front: tuple | Callable = ((), 0)
    languages: str = ""
    sentinels: int | None = None
    lowercase: bool = False
    cleans: bool = False
    own_spaces: bool = False
    tokenizer: type | None = None
    write: Callable = write_fast


def read_vocabulary(folder, family, config, special, added, target):
    """Returns BERT's tokenizer."""
    return read_word_piece(folder, config, {}, special, added)


def read_byte_bpe(folder, family, config, special, added, target):
    """Returns GPT-2's tokenizer."""
    ids, merges, of_text = _merges(folder, special, added)
    prefix = config.get("add_prefix_space", False)
    return ByteBPETokenizer(ids, merges, add_prefix_space=prefix, added_tokens=of_text, **special_roles(special, ids))


def read_gpt(folder, family, config, special, added, target):
    """Returns GPT's tokenizer."""
    ids, merges, of_text = _merges(folder, special, added)
    _refuse(folder, of_text)
    return GPTTokenizer(ids, merges, **special_roles(special, ids))


def _merges(folder, special, added):
    """Returns the ids of tokens, the path of the merges, and the added tokens that occur in texts."""
    path, merges = folder / BPETokenizer.vocabulary_file, folder / MERGES_FILE
    if not path.is_file() or not merges.is_file():
        raise missing(folder, "vocab.json and merges.txt")
    ids = read_json(path) | {token["content"]: token["id"] for token in added}
    return ids, merges, [token["content"] for token in text_tokens(added, special.values())]


def read_sentence_piece(folder, family, config, special, added, target):
    """Returns the tokenizer of a folder with one SentencePiece model."""
    models = sorted(folder.glob("*.model"))
    if len(models) != 1:
        raise missing(folder, "one SentencePiece model (*.model)")
    serialized = models[0].read_bytes()
    model = SentencePieceModel.from_bytes(serialized)
    front, replaced = family.front(config, special) if callable(family.front) else family.front
    tokens = [*front, *(piece for piece, _, _ in model.pieces[replaced:])]
    extra = family.languages.split() + ([special["mask_token"]] if "mask_token" in special else [])
    if family.sentinels is not None:
        extra = _sentinels(reversed(range(config.get("extra_ids", family.sentinels))))
    _refuse(folder, [token["content"] for token in text_tokens(added, special.values())])
    known = {*tokens}
    added = [token["content"] for token in added]
    tokens += [token for token in dict.fromkeys([*added, *extra]) if token not in known]
    for key, only in {"split_by_punct": False, "add_prefix_space": True}.items():
        if config.get(key, only) != only and not (family.own_spaces and key == "add_prefix_space"):
            raise ValueError(
                f"The tokenizer in {folder / CONFIG_FILE} is not supported. Expected {key}={only}. "
                f"Received: {key}={config[key]}"
            )
    steps = []
    if family.cleans:
        steps.append("quotes")
        steps += [] if config.get("keep_accents", False) else ["NFKD", "strip_accents"]
    if config.get("do_lower_case", family.lowercase):
        steps.append("lowercase")
    keep_spaces = family.own_spaces and not model.charsmap
    steps += ["collapse_white_space", "NFC", "strip_right"] if keep_spaces else []
    return UnigramTokenizer(
        serialized, tokens, normalization=steps, keep_spaces=keep_spaces, **special_roles(special, tokens)
    )


def _sentinels(numbers):
    return [f"<extra_id_{number}>" for number in numbers]


def read_bytes(folder, family, config, special, added, target):
    """Returns ByT5's tokenizer: each byte is a token, after three special ones."""
    front = [special[role] for role in ("pad_token", "eos_token", "unk_token")]
    rest = [token["content"] for token in added if token["content"] not in front]
    _refuse(folder, [token["content"] for token in text_tokens(added, special.values())])
    rest = rest or _sentinels(range(config.get("extra_ids") or 125))
    tokens = [*front, *byte_characters(), *rest]
    wrong = [token for token in added if tokens.index(token["content"]) != token["id"]]
    expect(not wrong, f"The added tokens in {folder} must follow the 256 bytes.", wrong=wrong[:1])
    return ByteBPETokenizer(tokens, [], **special_roles(special, tokens))


def _refuse(folder, of_text):
    rule = f"The tokenizer in {folder} must have no added tokens that are not special."
    expect(not of_text, rule, of_text=of_text[:3])


def missing(folder, files):
    """Returns the error that a folder has neither `tokenizer.json` nor the older files of its family."""
    found = sorted(path.name for path in folder.iterdir())
    return FileNotFoundError(f"{folder} must contain tokenizer.json, or {files}. Received: {found}")


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
