"""What differs between the families of models, and how their folders without a `tokenizer.json` are read."""

import dataclasses
from collections.abc import Callable
from typing import Any

from keras_transfer.core.expect import expect
from keras_transfer.core.files import read_json
from keras_transfer.text.tokenizer_files.formats import FORMATS, read_word_piece
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
        read: Function of a `TokenizerFolder` and this record that returns the tokenizer. Defaults to `None`, for a
            family whose folders are read only with `tokenizer.json`.
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
        counts_padding: Boolean. Whether the model's positions are absolute and are counted from the first column on.
        built: Boolean. Whether Transformers 5 has a class that builds the tokenizer from settings.
        gives_segments: Boolean. Whether this class gives segments unless the settings name the inputs.
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
    counts_padding: bool = False
    built: bool = True
    gives_segments: bool = False


def read_byte_bpe(folder, family):
    """Returns GPT-2's tokenizer."""
    ids, merges, of_text = _merges(folder)
    prefix = folder.config.get("add_prefix_space", False)
    return ByteBPETokenizer(ids, merges, add_prefix_space=prefix, added_tokens=of_text, **folder.roles(ids))


def read_gpt(folder, family):
    """Returns GPT's tokenizer."""
    ids, merges, of_text = _merges(folder)
    _refuse(folder, of_text)
    return GPTTokenizer(ids, merges, **folder.roles(ids))


def _merges(folder):
    """Returns the ids of tokens, the path of the merges, and the added tokens that occur in texts."""
    path, merges = folder.path / BPETokenizer.vocabulary_file, folder.path / MERGES_FILE
    if not path.is_file() or not merges.is_file():
        raise folder.missing("vocab.json and merges.txt")
    ids = read_json(path) | {token["content"]: token["id"] for token in folder.added}
    return ids, merges, folder.text_tokens(folder.special.values())


def read_sentence_piece(folder, family):
    """Returns the tokenizer of a folder with one SentencePiece model."""
    models, config, special = sorted(folder.path.glob("*.model")), folder.config, folder.special
    if len(models) != 1:
        raise folder.missing("one SentencePiece model (*.model)")
    serialized = models[0].read_bytes()
    model = SentencePieceModel.from_bytes(serialized)
    front, replaced = family.front(config, special) if callable(family.front) else family.front
    tokens = [*front, *(piece for piece, _, _ in model.pieces[replaced:])]
    extra = family.languages.split() + ([special["mask_token"]] if "mask_token" in special else [])
    if family.sentinels is not None:
        extra = _sentinels(reversed(range(config.get("extra_ids", family.sentinels))))
    _refuse(folder, folder.text_tokens(special.values()))
    known = {*tokens}
    added = [token["content"] for token in folder.added]
    tokens += [token for token in dict.fromkeys([*added, *extra]) if token not in known]
    folder.check_setting("split_by_punct", False)
    if not family.own_spaces:
        folder.check_setting("add_prefix_space", True)
    steps = []
    if family.cleans:
        steps.append("quotes")
        steps += [] if config.get("keep_accents", False) else ["NFKD", "strip_accents"]
    if config.get("do_lower_case", family.lowercase):
        steps.append("lowercase")
    keep_spaces = family.own_spaces and not model.charsmap
    steps += ["collapse_white_space", "NFC", "strip_right"] if keep_spaces else []
    roles = folder.roles(tokens)
    return UnigramTokenizer(serialized, tokens, normalization=steps, keep_spaces=keep_spaces, **roles)


def _sentinels(numbers):
    return [f"<extra_id_{number}>" for number in numbers]


def read_bytes(folder, family):
    """Returns ByT5's tokenizer: each byte is a token, after three special ones."""
    front = [folder.special[role] for role in ("pad_token", "eos_token", "unk_token")]
    rest = [token["content"] for token in folder.added if token["content"] not in front]
    _refuse(folder, folder.text_tokens(folder.special.values()))
    rest = rest or _sentinels(range(folder.config.get("extra_ids") or 125))
    tokens = [*front, *byte_characters(), *rest]
    wrong = [token for token in folder.added if tokens.index(token["content"]) != token["id"]]
    expect(not wrong, f"The added tokens in {folder.path} must follow the 256 bytes.", wrong=wrong[:1])
    return ByteBPETokenizer(tokens, [], **folder.roles(tokens))


def _refuse(folder, of_text):
    rule = f"The tokenizer in {folder.path} must have no added tokens that are not special."
    expect(not of_text, rule, of_text=of_text[:3])


def read_marian(folder, family):
    """Returns one of the two tokenizers of a Marian model, which share their vocabulary."""
    own = folder.target and folder.config.get("separate_vocabs")
    path = folder.path / ("target_vocab.json" if own else "vocab.json")
    model = folder.path / ("target.spm" if folder.target else "source.spm")
    if not path.is_file() or not model.is_file():
        raise folder.missing(f"{path.name} and {model.name}")
    tokens, config = tokens_of(read_json(path)), folder.config
    kept = {argument: config[key] for argument, key in FORMATS[MarianTokenizer].settings.items() if key in config}
    return MarianTokenizer(model.read_bytes(), tokens, **kept, **folder.roles(tokens))


_S = {
    **{"cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>"},
    **{"bos_token": "<s>", "eos_token": "</s>"},
}

_BRACKETS = {
    **{"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]"},
    **{"bos_token": "[CLS]", "eos_token": "[SEP]"},
}

_GPT2 = dict.fromkeys(["bos_token", "eos_token", "unk_token"], "<|endoftext|>")
_EOS = {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
_CLS_SEP: dict[str, Any] = {"start": ("cls_token",), "between": ("sep_token",), "end": ("sep_token",)}
_ROBERTA: dict[str, Any] = {"special": _S, **_CLS_SEP, "between": ("sep_token", "sep_token")}
_T5: dict[str, Any] = {"special": _EOS, "between": ("eos_token",), "end": ("eos_token",)}
_FAIRSEQ = (("<s>", "<pad>", "</s>", "<unk>"), 3)

_MBART = (
    "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM ne_NP nl_XX "
    "ro_RO ru_RU si_LK tr_TR vi_VN zh_CN"
)

_MBART50 = (
    f"{_MBART} af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX sv_SE "
    "sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI"
)

_BERT = Family(
    read_word_piece,
    {role: token for role, token in _BRACKETS.items() if role not in ("bos_token", "eos_token")},
    **_CLS_SEP,
    segments=(0, 1),
    num_segments=2,
    counts_padding=True,
    gives_segments=True,
)

# From the class of a tokenizer to its family, where two families have the same `model_type`.
OF_CLASS = {"ByT5": "byt5", "MBart50": "mbart50"}


def _pegasus_front(config, special):
    """Returns the tokens in front of the pieces of a Pegasus model, and the number of the pieces that they replace."""
    offset = config.get("offset", 103)
    if not offset:
        return [], 0
    masks = [config.get("mask_token_sent", "<mask_1>"), special["mask_token"]]
    return [special["pad_token"], special["eos_token"], *masks, *(f"<unk_{i}>" for i in range(2, offset))], 2


FAMILIES = {
    "albert": Family(
        read_sentence_piece,
        {**_BRACKETS, "pad_token": "<pad>", "unk_token": "<unk>"},
        **_CLS_SEP,
        segments=(0, 1),
        num_segments=2,
        lowercase=True,
        cleans=True,
        counts_padding=True,
    ),
    "bart": Family(read_byte_bpe, **_ROBERTA, counts_padding=True),
    "bert": _BERT,
    "byt5": Family(read_bytes, **_T5, built=False),
    "camembert": Family(
        read_sentence_piece, **_ROBERTA, front=(("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"), 1)
    ),
    "deberta": Family(None, _BRACKETS, **{**_CLS_SEP, "between": ("sep_token", "sep_token")}, gives_segments=True),
    "deberta-v2": Family(
        read_sentence_piece, _BRACKETS, **_CLS_SEP, segments=(0, 1), own_spaces=True, gives_segments=True
    ),
    "distilbert": dataclasses.replace(_BERT, num_segments=0, gives_segments=False),
    "electra": _BERT,
    "gpt2": Family(read_byte_bpe, _GPT2),
    "marian": Family(read_marian, _EOS, start=("translation",), end=("eos_token",), counts_padding=True, built=False),
    "mbart": Family(
        read_sentence_piece, _S, end=("eos_token", "language"), front=_FAIRSEQ, languages=_MBART, counts_padding=True
    ),
    "mbart50": Family(
        read_sentence_piece,
        _S,
        start=("language",),
        end=("eos_token",),
        front=_FAIRSEQ,
        languages=_MBART50,
        counts_padding=True,
    ),
    "mpnet": Family(read_word_piece, **{**_ROBERTA, "special": {**_S, "unk_token": "[UNK]"}}),
    "mt5": Family(read_sentence_piece, **_T5, sentinels=0, built=False),  # Its model contains the sentinels.
    "openai-gpt": Family(read_gpt, {"unk_token": "<unk>"}),
    "pegasus": Family(
        read_sentence_piece,
        {**_EOS, "mask_token": "<mask_2>"},
        end=("eos_token",),
        front=_pegasus_front,
        counts_padding=True,
    ),
    "roberta": Family(read_byte_bpe, **_ROBERTA),
    "t5": Family(read_sentence_piece, **_T5, sentinels=100),
    "umt5": Family(read_sentence_piece, **_T5, sentinels=0, built=False),
    "xlm-roberta": Family(read_sentence_piece, **_ROBERTA, front=_FAIRSEQ),
    "xlnet": Family(
        read_sentence_piece,
        {**_S, "cls_token": "<cls>", "sep_token": "<sep>"},
        between=("sep_token",),
        end=("sep_token", "cls_token"),
        segments=(0, 1, 2),
        num_segments=3,
        cleans=True,
    ),
}
