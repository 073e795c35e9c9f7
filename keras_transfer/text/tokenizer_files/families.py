"""The families of models whose folders have no `tokenizer.json`, by their `model_type`."""

import dataclasses
from typing import Any

from keras_transfer.text.tokenizer_files.family_files import (
    Family,
    read_byte_bpe,
    read_bytes,
    read_gpt,
    read_marian,
    read_sentence_piece,
    read_vocabulary,
    write_marian,
)
from keras_transfer.text.tokenizers.marian import MarianTokenizer

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
    read_vocabulary,
    {role: token for role, token in _BRACKETS.items() if role not in ("bos_token", "eos_token")},
    **_CLS_SEP,
    segments=(0, 1),
    num_segments=2,
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
    ),
    "bart": Family(read_byte_bpe, **_ROBERTA),
    "bert": _BERT,
    "byt5": Family(read_bytes, **_T5),
    "camembert": Family(
        read_sentence_piece, **_ROBERTA, front=(("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"), 1)
    ),
    "deberta": Family(None, _BRACKETS, **{**_CLS_SEP, "between": ("sep_token", "sep_token")}),
    "deberta-v2": Family(read_sentence_piece, _BRACKETS, **_CLS_SEP, segments=(0, 1), own_spaces=True),
    "distilbert": dataclasses.replace(_BERT, num_segments=0),
    "electra": _BERT,
    "gpt2": Family(read_byte_bpe, _GPT2),
    "marian": Family(
        read_marian,
        _EOS,
        start=("translation",),
        end=("eos_token",),
        tokenizer=MarianTokenizer,
        write=write_marian,
    ),
    "mbart": Family(read_sentence_piece, _S, end=("eos_token", "language"), front=_FAIRSEQ, languages=_MBART),
    "mbart50": Family(
        read_sentence_piece, _S, start=("language",), end=("eos_token",), front=_FAIRSEQ, languages=_MBART50
    ),
    "mpnet": Family(read_vocabulary, **{**_ROBERTA, "special": {**_S, "unk_token": "[UNK]"}}),
    "mt5": Family(read_sentence_piece, **_T5, sentinels=0),  # Its model contains the sentinels.
    "openai-gpt": Family(read_gpt, {"unk_token": "<unk>"}),
    "pegasus": Family(
        read_sentence_piece, {**_EOS, "mask_token": "<mask_2>"}, end=("eos_token",), front=_pegasus_front
    ),
    "roberta": Family(read_byte_bpe, **_ROBERTA),
    "t5": Family(read_sentence_piece, **_T5, sentinels=100),
    "umt5": Family(read_sentence_piece, **_T5, sentinels=0),
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
