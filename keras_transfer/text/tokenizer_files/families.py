"""The tokenizers of folders without a `tokenizer.json`, by the family of the model."""

from keras_transfer.files import read_json
from keras_transfer.text.base import CONFIG_FILE, text_tokens
from keras_transfer.text.sentencepiece import SentencePieceModel
from keras_transfer.text.tokenizers import (
    MERGES_FILE,
    BPETokenizer,
    ByteBPETokenizer,
    GPTTokenizer,
    MarianTokenizer,
    UnigramTokenizer,
    byte_characters,
    tokens_of,
)

_S = {
    **{"cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>"},
    **{"bos_token": "<s>", "eos_token": "</s>"},
}
_BRACKETS = {
    **{"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]"},
    **{"bos_token": "[CLS]", "eos_token": "[SEP]"},
}
_GPT2 = dict.fromkeys(["bos_token", "eos_token", "unk_token"], "<|endoftext|>")

# Settings that folders without `tokenizer.json` do not contain, by `model_type`: the special tokens, the tokens in
# front of, between and after texts, and the segments. `language` is the code of the language of a text.
_T5 = ({"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}, [], ["eos_token"], ["eos_token"], None)
FAMILIES = {
    "albert": (
        {**_BRACKETS, "pad_token": "<pad>", "unk_token": "<unk>"},
        *(["cls_token"], ["sep_token"], ["sep_token"], (0, 1)),
    ),
    "bart": (_S, ["cls_token"], ["sep_token", "sep_token"], ["sep_token"], None),
    "byt5": _T5,
    "camembert": (_S, ["cls_token"], ["sep_token", "sep_token"], ["sep_token"], None),
    "deberta-v2": (_BRACKETS, ["cls_token"], ["sep_token"], ["sep_token"], (0, 1)),
    "gpt2": (_GPT2, [], [], [], None),
    "marian": ({"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}, [], [], ["eos_token"], None),
    "mbart": (_S, [], [], ["eos_token", "language"], None),
    "mbart50": (_S, ["language"], [], ["eos_token"], None),
    "mt5": _T5,
    "openai-gpt": ({"unk_token": "<unk>"}, [], [], [], None),
    "pegasus": (
        {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask_2>"},
        *([], [], ["eos_token"], None),
    ),
    "roberta": (_S, ["cls_token"], ["sep_token", "sep_token"], ["sep_token"], None),
    "t5": _T5,
    "umt5": _T5,
    "xlm-roberta": (_S, ["cls_token"], ["sep_token", "sep_token"], ["sep_token"], None),
    "xlnet": (
        {**_S, "cls_token": "<cls>", "sep_token": "<sep>"},
        *([], ["sep_token"], ["sep_token", "cls_token"], (0, 1, 2)),
    ),
}
# Families whose `model_type` is that of another one, by the class of the tokenizer.
OF_CLASS = {"ByT5": "byt5", "MBart50": "mbart50"}
_WITH_MERGES = {"bart", "gpt2", "openai-gpt", "roberta"}
# The tokens in front of those of the SentencePiece model, and the number of the model's tokens that they replace.
_FAIRSEQ = {
    **dict.fromkeys(["mbart", "mbart50", "xlm-roberta"], (["<s>", "<pad>", "</s>", "<unk>"], 3)),
    "camembert": (["<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"], 1),
}
_LANGUAGES = {
    "mbart": "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM "
    "ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN",
}
_LANGUAGES["mbart50"] = (
    f"{_LANGUAGES['mbart']} af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF "
    "pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI"
)


def read_family_files(folder, kind, config, special, added, target=False):
    """Returns the tokenizer of a folder without `tokenizer.json`.

    Args:
        folder: Path.
        kind: String, a key of `FAMILIES`.
        config: Dict, the content of `tokenizer_config.json`.
        special: Dict from roles to special tokens.
        added: List from `added_tokens`.
        target: Boolean. Whether to return the tokenizer of the targets, if the folder has one. Defaults to `False`.
    """
    if kind == "byt5":
        return _bytes(folder, config, special, added)
    if kind == "marian":
        return _marian(folder, config, special, target)
    if kind not in _WITH_MERGES:
        return _sentence_piece(folder, kind, config, special, added)
    path, merges = folder / BPETokenizer.vocabulary_file, folder / MERGES_FILE
    if not path.is_file() or not merges.is_file():
        raise _missing(folder, "vocab.json and merges.txt")
    ids = read_json(path) | {token["content"]: token["id"] for token in added}
    of_text = [token["content"] for token in text_tokens(added, special.values())]
    if kind == "openai-gpt":
        _refuse(folder, of_text)
        return GPTTokenizer(ids, merges, **special_roles(special, ids))
    prefix = config.get("add_prefix_space", False)
    return ByteBPETokenizer(ids, merges, add_prefix_space=prefix, added_tokens=of_text, **special_roles(special, ids))


def _sentence_piece(folder, kind, config, special, added):
    models = sorted(folder.glob("*.model"))
    if len(models) != 1:
        raise _missing(folder, "one SentencePiece model (*.model)")
    serialized = models[0].read_bytes()
    model = SentencePieceModel.from_bytes(serialized)
    pieces = [piece for piece, _, _ in model.pieces]
    front, replaced = _FAIRSEQ.get(kind, ([], 0))
    if kind == "pegasus":
        front, replaced = _pegasus_front(config, special)
    tokens = [*front, *pieces[replaced:]]
    extra = _LANGUAGES.get(kind, "").split() + ([special["mask_token"]] if "mask_token" in special else [])
    if kind in ("t5", "mt5", "umt5"):  # The models of mT5 and UMT5 contain their sentinels.
        extra = _sentinels(reversed(range(config.get("extra_ids", 100 if kind == "t5" else 0))))
    _refuse(folder, [token["content"] for token in text_tokens(added, special.values())])
    known = {*tokens}
    added = [token["content"] for token in added]
    tokens += [token for token in dict.fromkeys([*added, *extra]) if token not in known]
    for key, only in {"split_by_punct": False, "add_prefix_space": True}.items():
        # DeBERTa's tokenizer puts a space before a text in either case.
        if config.get(key, only) != only and not (kind == "deberta-v2" and key == "add_prefix_space"):
            raise ValueError(
                f"The tokenizer in {folder / CONFIG_FILE} is not supported. Expected {key}={only}. "
                f"Received: {key}={config[key]}"
            )
    steps = []
    if kind in ("albert", "xlnet"):
        steps.append("quotes")
        steps += [] if config.get("keep_accents", False) else ["NFKD", "strip_accents"]
    if config.get("do_lower_case", kind == "albert"):
        steps.append("lowercase")
    keep_spaces = kind == "deberta-v2" and not model.charsmap
    steps += ["collapse_white_space", "NFC", "strip_right"] if keep_spaces else []
    return UnigramTokenizer(
        serialized, tokens, normalization=steps, keep_spaces=keep_spaces, **special_roles(special, tokens)
    )


def _pegasus_front(config, special):
    """Returns the tokens in front of the pieces of a Pegasus model, and the number of the pieces that they replace."""
    offset = config.get("offset", 103)
    if not offset:
        return [], 0
    masks = [config.get("mask_token_sent", "<mask_1>"), special["mask_token"]]
    return [special["pad_token"], special["eos_token"], *masks, *(f"<unk_{i}>" for i in range(2, offset))], 2


def _sentinels(numbers):
    return [f"<extra_id_{number}>" for number in numbers]


def _bytes(folder, config, special, added):
    """Returns ByT5's tokenizer: each byte is a token, after three special ones."""
    front = [special[role] for role in ("pad_token", "eos_token", "unk_token")]
    rest = [token["content"] for token in added if token["content"] not in front]
    _refuse(folder, [token["content"] for token in text_tokens(added, special.values())])
    rest = rest or _sentinels(range(config.get("extra_ids") or 125))
    tokens = [*front, *byte_characters(), *rest]
    if wrong := [token for token in added if tokens.index(token["content"]) != token["id"]]:
        raise ValueError(f"The added tokens in {folder} must follow the 256 bytes. Received: {wrong[0]}")
    return ByteBPETokenizer(tokens, [], **special_roles(special, tokens))


def _marian(folder, config, special, target):
    """Returns one of the two tokenizers of a Marian model, which share their vocabulary."""
    path = folder / ("target_vocab.json" if target and config.get("separate_vocabs") else "vocab.json")
    model = folder / ("target.spm" if target else "source.spm")
    if not path.is_file() or not model.is_file():
        raise _missing(folder, f"{path.name} and {model.name}")
    tokens = tokens_of(read_json(path))
    return MarianTokenizer(model.read_bytes(), tokens, **special_roles(special, tokens))


def _refuse(folder, of_text):
    if of_text:
        raise ValueError(
            f"The tokenizer in {folder} must have no added tokens that are not special. "
            f"Received: {len(of_text)} tokens, starting with {of_text[:3]}"
        )


def _missing(folder, files):
    found = sorted(path.name for path in folder.iterdir())
    return FileNotFoundError(f"{folder} must contain tokenizer.json, or {files}. Received: {found}")


def special_roles(special, ids):
    """Returns the special tokens that a tokenizer knows. Transformers also names some that a vocabulary lacks."""
    names = ("unk_token", "mask_token", "eos_token")
    return {name: special[name] if special.get(name) in ids else None for name in names}
