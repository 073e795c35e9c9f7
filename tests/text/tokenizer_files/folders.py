"""Small tokenizer folders of many kinds, as they stand beside models: the files, and settings that contradict them."""

import base64
import functools
import io
import json

from keras_transfer.text.tokenizers.byte_bpe import byte_characters
from keras_transfer.text.tokenizers.sentencepiece_model import SPACE, SentencePieceModel

# Cased and uncased words with accents, punctuation, odd spaces and widths, in six alphabets.
TEXTS = [
    "the Film, was LONG. THE film",
    "caf\u00e9 na\u00efve \u00c9lan \u00fcber",
    "  two  spaces\tand a tab\nline ",
    "`` quoted '' and \u201cthis\u201d don't",
    "\u0424\u0438\u043b\u044c\u043c \u0431\u044b\u043b \u0434\u043b\u0438\u043d\u043d\u044b\u0439 \u0439",
    "\u0397 \u03c4\u03b1\u03b9\u03bd\u03af\u03b1 \u03ae\u03c4\u03b1\u03bd \u03bc\u03b5\u03b3\u03ac\u03bb\u03b7\u03c2",
    "\u0627\u0644\u0641\u064a\u0644\u0645 \u0643\u064e\u0627\u0646 \u0637\u0648\u064a\u0644\u0627",
    "\u7535\u5f71\u5f88\u957f the\u7535\u5f71",
    "\u092b\u093f\u0932\u094d\u092e \u0932\u0902\u092c\u0940 \u0925\u0940",
    "\uff26\uff49\uff4c\uff4d \ufb01lm \u2460 x\u00a0y\u2003z \u2026",
    "",
    "word",
]
LETTERS = sorted({letter for text in TEXTS for letter in text.lower() + text if not letter.isspace()} | {"s", "e", "i"})
_WORDS = ["the", "film", "was", "long", "The", "Film", "cafe", "caf\u00e9", "word", "\u0444\u0438\u043b", "LONG"]
_BRACKETS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
_S = ["<s>", "<pad>", "</s>", "<unk>"]


def _added(tokens, **settings):
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True, **settings}
    return [{"id": index, "content": token, **flags} for token, index in tokens.items()]


def template(start, between, end, segments=(0, 0), last=None):
    """Returns a post-processor, whose tokens get their ids in `folder_files`."""

    def items(tokens, segment):
        return [{"SpecialToken": {"id": token, "type_id": segment}} for token in tokens]

    first, second = segments
    a, b = ({"Sequence": {"id": name, "type_id": id}} for name, id in (("A", first), ("B", second)))
    closing = [items(end[:-1], segment) + items(end[-1:], last or segment) for segment in (first, second)]
    pair = [*items(start, first), a, *items(between, first), b, *closing[1]]
    return {"type": "TemplateProcessing", "single": [*items(start, first), a, *closing[0]], "pair": pair}


def _word_piece(special, unk, packing):
    words = [*special, *_WORDS, *LETTERS, *(f"##{letter}" for letter in LETTERS), "##lm"]
    vocabulary = {token: index for index, token in enumerate(dict.fromkeys(words))}
    normalizer = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True}
    return {
        "added_tokens": _added({token: vocabulary[token] for token in special}),
        "normalizer": {**normalizer, "strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": packing,
        "model": {
            **{"type": "WordPiece", "unk_token": unk, "continuing_subword_prefix": "##"},
            **{"max_input_chars_per_word": 100, "vocab": vocabulary},
        },
    }


def _bpe(special, packing):
    tokens = [*special, *byte_characters(), "fi", "th", "the", "\u0120t", "\u0120the", "\u0120f"]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    merges = [["f", "i"], ["t", "h"], ["th", "e"], ["\u0120", "t"], ["\u0120", "the"], ["\u0120", "f"]]
    return {
        "added_tokens": _added({token: vocabulary[token] for token in special}),
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": packing,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "vocab": vocabulary, "merges": merges},
    }


def _gpt():
    tokens = ["<unk>", *LETTERS, *(f"{letter}</w>" for letter in LETTERS), "th", "the</w>"]
    tokens = {token: index for index, token in enumerate(dict.fromkeys(tokens))}
    normalizer = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True}
    return {
        "added_tokens": _added({"<unk>": 0}),
        "normalizer": {**normalizer, "strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": None,
        "model": {
            **{"type": "BPE", "unk_token": "<unk>", "end_of_word_suffix": "</w>", "vocab": tokens},
            "merges": [["t", "h"], ["th", "e</w>"]],
        },
    }


def _unigram(front, unk, packing, back=(), steps=(), split=True):
    words = [f"{SPACE}{word}" for word in _WORDS]
    pieces = [*front, SPACE, *words, *_WORDS[:2], *LETTERS, *back]
    pieces = [piece for index, piece in enumerate(pieces) if piece not in pieces[:index]]
    special = {*front, *back}
    scores = [[piece, 0.0 if piece in special else -2.0 - 0.01 * index] for index, piece in enumerate(pieces)]
    words = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": True}
    return {
        "added_tokens": _added({token: index for index, token in enumerate(pieces) if token in special}),
        "normalizer": {"type": "Sequence", "normalizers": [*steps]} if steps else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*([{"type": "WhitespaceSplit"}] * split), words]},
        "post_processor": packing,
        "model": {"type": "Unigram", "unk_id": pieces.index(unk), "vocab": scores, "byte_fallback": False},
    }


def replace(pattern, content=" ", kind="Regex"):
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


_QUOTES = [replace("``", '"', "String"), replace("''", '"', "String")]
_ACCENTS = [{"type": "NFKD"}, {"type": "StripAccents"}]
_LOWER = [{"type": "Lowercase"}]
_SPACES = [replace(r"\s{2,}|[\n\r\t]"), {"type": "NFC"}, {"type": "Strip", "strip_left": False, "strip_right": True}]
_OF_BERT = template(["[CLS]"], ["[SEP]"], ["[SEP]"], (0, 1))
_OF_ROBERTA = {
    **{"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]},
    **{"trim_offsets": True, "add_prefix_space": False},
}
_OF_XLMR = template(["<s>"], ["</s>", "</s>"], ["</s>"])
_CODES = [
    "ar_AR",
    "cs_CZ",
    "de_DE",
    "en_XX",
    "es_XX",
    "et_EE",
    "fi_FI",
    "fr_XX",
    "gu_IN",
    "hi_IN",
    "it_IT",
    "ja_XX",
    "kk_KZ",
    "ko_KR",
    "lt_LT",
    "lv_LV",
    "my_MM",
    "ne_NP",
    "nl_XX",
    "ro_RO",
    "ru_RU",
    "si_LK",
    "tr_TR",
    "vi_VN",
    "zh_CN",
]
_MORE_CODES = [
    "af_ZA",
    "az_AZ",
    "bn_IN",
    "fa_IR",
    "he_IL",
    "hr_HR",
    "id_ID",
    "ka_GE",
    "km_KH",
    "mk_MK",
    "ml_IN",
    "mn_MN",
    "mr_IN",
    "pl_PL",
    "ps_AF",
    "pt_XX",
    "sv_SE",
    "sw_KE",
    "ta_IN",
    "te_IN",
    "th_TH",
    "tl_XX",
    "uk_UA",
    "ur_PK",
    "xh_ZA",
    "gl_ES",
    "sl_SI",
]
_SENTINELS = [f"<extra_id_{index}>" for index in range(99, -1, -1)]
_T5_TEMPLATE = template([], ["</s>"], ["</s>"])
_PEGASUS = ["<pad>", "</s>", "<mask_1>", "<mask_2>", *(f"<unk_{index}>" for index in range(2, 103)), "<unk>"]

_ROLES = {
    **{"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"},
    **{"cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>"},
}
_OF_BRACKETS = {
    **{"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"},
    **{"mask_token": "[MASK]"},
}


@functools.lru_cache
def charsmap():
    """Returns the normalization of T5's and XLM-R's SentencePiece models, as a step of a `tokenizer.json`."""
    import sentencepiece

    file = io.BytesIO()
    options = {"vocab_size": 40, "hard_vocab_limit": False, "minloglevel": 2, "normalization_rule_name": "nmt_nfkc"}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(["the film"] * 9), model_writer=file, **options)
    compiled = SentencePieceModel.from_bytes(file.getvalue()).charsmap
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(compiled).decode("ascii")}


def _bert():
    return _word_piece(_BRACKETS, "[UNK]", _OF_BERT)


def _roberta():
    return _bpe([*_S, "<mask>"], _OF_ROBERTA)


# By kind: the `model_type`, the class, the special tokens, and a function that returns the `tokenizer.json` that the
# class itself would write.
KINDS = {
    "bert": ("bert", "BertTokenizer", _OF_BRACKETS, _bert),
    "distilbert": ("distilbert", "DistilBertTokenizer", _OF_BRACKETS, _bert),
    "electra": ("electra", "ElectraTokenizer", _OF_BRACKETS, _bert),
    "mpnet": (
        "mpnet",
        "MPNetTokenizer",
        {**_ROLES, "unk_token": "[UNK]"},
        lambda: _word_piece([*_S[:3], "[UNK]", "<mask>"], "[UNK]", _OF_ROBERTA),
    ),
    "roberta": ("roberta", "RobertaTokenizer", _ROLES, _roberta),
    "bart": ("bart", "BartTokenizer", _ROLES, _roberta),
    "gpt2": (
        "gpt2",
        "GPT2Tokenizer",
        dict.fromkeys(("pad_token", "eos_token", "unk_token", "bos_token"), "<|endoftext|>"),
        lambda: _bpe(["<|endoftext|>"], {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False}),
    ),
    "openai-gpt": ("openai-gpt", "OpenAIGPTTokenizer", {"unk_token": "<unk>", "pad_token": "<unk>"}, _gpt),
    "modernbert": (
        "modernbert",
        "PreTrainedTokenizerFast",
        _OF_BRACKETS,
        lambda: {**_bpe(_BRACKETS, template(["[CLS]"], ["[SEP]"], ["[SEP]"])), "normalizer": {"type": "NFC"}},
    ),
    "deberta-v2": (
        "deberta-v2",
        "DebertaV2Tokenizer",
        {**_OF_BRACKETS, "bos_token": "[CLS]", "eos_token": "[SEP]"},
        lambda: _unigram(["[PAD]", "[CLS]", "[SEP]", "[UNK]"], "[UNK]", _OF_BERT, ["[MASK]"], _SPACES, False),
    ),
    "albert": (
        "albert",
        "AlbertTokenizer",
        {**_OF_BRACKETS, "pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "[CLS]", "eos_token": "[SEP]"},
        lambda: _unigram(
            ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"],
            "<unk>",
            _OF_BERT,
            (),
            [*_QUOTES, *_ACCENTS, *_LOWER, charsmap()],
        ),
    ),
    "camembert": (
        "camembert",
        "CamembertTokenizer",
        _ROLES,
        lambda: _unigram(
            ["<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED", "<s>", "</s>"],
            "<unk>",
            _OF_XLMR,
            ["<mask>"],
            [charsmap()],
        ),
    ),
    "xlm-roberta": (
        "xlm-roberta",
        "XLMRobertaTokenizer",
        _ROLES,
        lambda: _unigram(_S, "<unk>", _OF_XLMR, ["<mask>"], [charsmap()]),
    ),
    "xlnet": (
        "xlnet",
        "XLNetTokenizer",
        {**_ROLES, "cls_token": "<cls>", "sep_token": "<sep>", "padding_side": "left"},
        lambda: _unigram(
            ["<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eop>", "<eod>"],
            "<unk>",
            template([], ["<sep>"], ["<sep>", "<cls>"], (0, 1), 2),
            (),
            [*_QUOTES, *_ACCENTS, charsmap()],
        ),
    ),
    "t5": (
        "t5",
        "T5Tokenizer",
        {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"},
        lambda: _unigram(["<pad>", "</s>", "<unk>"], "<unk>", _T5_TEMPLATE, _SENTINELS, [charsmap()]),
    ),
    "mbart": (
        "mbart",
        "MBartTokenizer",
        {**_ROLES, "src_lang": "en_XX", "tgt_lang": "de_DE"},
        lambda: _unigram(_S, "<unk>", template([], [], ["</s>", "en_XX"]), [*_CODES, "<mask>"]),
    ),
    "mbart50": (
        "mbart",
        "MBart50Tokenizer",
        {**_ROLES, "src_lang": "en_XX", "tgt_lang": "de_DE"},
        lambda: _unigram(
            _S,
            "<unk>",
            template(["en_XX"], [], ["</s>"]),
            [*_CODES, *_MORE_CODES, "<mask>"],
            [charsmap(), replace(" {2,}")],
            False,
        ),
    ),
    "pegasus": (
        "pegasus",
        "PegasusTokenizer",
        {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>", "mask_token": "<mask_2>"},
        lambda: _unigram(_PEGASUS, "<unk>", template([], [], ["</s>"]), (), [charsmap(), replace(" {2,}")], False),
    ),
}
GENERIC = "PreTrainedTokenizerFast"
# Folders whose class is the generic one, or is not named, so that the `model_type` decides, or only the class is known.
for _name in ("bert", "roberta", "albert", "xlm-roberta", "t5"):
    _model, _class, _roles, _make = KINDS[_name]
    KINDS[f"{_name}, generic"] = (_model, GENERIC, _roles, _make)
for _name in ("bert", "gpt2", "xlnet"):
    _model, _class, _roles, _make = KINDS[_name]
    KINDS[f"{_name}, no class"] = (_model, None, _roles, _make)
KINDS["mt5, no class"] = ("mt5", None, *KINDS["t5"][2:])
KINDS["umt5"] = ("umt5", "T5Tokenizer", *KINDS["t5"][2:])


def _steps(*steps):
    def change(fast):
        old = (fast["normalizer"] or {}).get("normalizers", [])
        fast["normalizer"] = {"type": "Sequence", "normalizers": [*steps, *old]}

    return change


def _normalizer(**settings):
    return lambda fast: fast["normalizer"].update(settings)


def _own_template(fast):
    """Puts the first special token of the folder around a text, and not between the texts of a pair."""
    [first] = [token["content"] for token in fast["added_tokens"][:1]]
    fast["post_processor"] = template([first], [], [first])


def _segmentless(fast):
    if (fast["post_processor"] or {}).get("type") == "TemplateProcessing":
        text = (
            json.dumps(fast["post_processor"])
            .replace('"type_id": 1', '"type_id": 0')
            .replace('"type_id": 2', '"type_id": 0')
        )
        fast["post_processor"] = json.loads(text)


def _prefix(scheme):
    return lambda fast: fast["pre_tokenizer"]["pretokenizers"][-1].update(prepend_scheme=scheme)


# By setting: what it changes in `tokenizer.json`, and what it adds to `tokenizer_config.json`.
ALL = {
    "agreeing": (None, {}),
    "own template": (_own_template, {}),
    "template without segments": (_segmentless, {}),
    "truncation_side": (None, {"truncation_side": "left"}),
    "named inputs": (None, {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}),
}
WORDS = {
    "cased file": (_normalizer(lowercase=False), {}),
    "cased file, named": (_normalizer(lowercase=False), {"do_lower_case": False}),
    "cased settings": (None, {"do_lower_case": False}),
    "file keeps accents": (_normalizer(strip_accents=False), {}),
    "settings keep accents": (None, {"strip_accents": False}),
    "accents of a cased one": (_normalizer(lowercase=False, strip_accents=True), {"do_lower_case": False}),
    "accents of both": (_normalizer(strip_accents=False), {"strip_accents": False}),
}
BYTES = {
    "prefix in the file": (lambda fast: fast["pre_tokenizer"].update(add_prefix_space=True), {}),
    "prefix in the settings": (None, {"add_prefix_space": True}),
    "prefix in both": (lambda fast: fast["pre_tokenizer"].update(add_prefix_space=True), {"add_prefix_space": True}),
    "NFC": (lambda fast: fast.update(normalizer={"type": "NFC"}), {}),
    "NFKC": (lambda fast: fast.update(normalizer={"type": "NFKC"}), {}),
    "no template": (lambda fast: fast.update(post_processor=None), {}),
    "token of a text": (
        lambda fast: fast["added_tokens"].extend(
            _added({"film": len(fast["model"]["vocab"])}, special=False, normalized=True)
        ),
        {},
    ),
}
UNIGRAM = {
    "Lowercase": (_steps({"type": "Lowercase"}), {}),
    "NFKC": (_steps({"type": "NFKC"}), {}),
    "no normalizer": (lambda fast: fast.update(normalizer=None), {}),
    "do_lower_case": (None, {"do_lower_case": True}),
    "do_lower_case=False": (None, {"do_lower_case": False}),
    "keep_accents": (None, {"keep_accents": True}),
    "prefix in the settings": (None, {"add_prefix_space": False}),
    "split by spaces": (
        lambda fast: (
            fast["pre_tokenizer"]["pretokenizers"].insert(0, {"type": "WhitespaceSplit"})
            if len(fast["pre_tokenizer"]["pretokenizers"]) == 1
            else fast["pre_tokenizer"]["pretokenizers"].pop(0)
        ),
        {},
    ),
}


def settings_of(kind):
    """Returns the settings that make sense for a kind."""
    fast = KINDS[kind][3]()
    own = (
        UNIGRAM
        if fast["model"]["type"] == "Unigram"
        else BYTES
        if fast["pre_tokenizer"]["type"] == "ByteLevel"
        else WORDS
    )
    return {**ALL, **own}


def write_folder(folder, kind, setting, version=None):
    """Writes a folder of a kind with a setting, as a model of a version of Transformers has it."""
    model_type, name, roles, make = KINDS[kind]
    change, more = settings_of(kind)[setting]
    fast = make()
    if change is not None:
        change(fast)
    processor = fast["post_processor"] or {}
    if processor.get("type") == "TemplateProcessing":
        ids = {token["content"]: token["id"] for token in fast["added_tokens"]}
        items = [item["SpecialToken"]["id"] for item in processor["pair"] if "SpecialToken" in item]
        processor["special_tokens"] = {t: {"id": t, "ids": [ids[t]], "tokens": [t]} for t in items}
    fast = {"version": "1.0", "truncation": None, "padding": None, "decoder": None, **fast}
    folder.mkdir(parents=True, exist_ok=True)
    config = {**({"tokenizer_class": name} if name else {}), **roles, **more}
    model = {"model_type": model_type, **({"transformers_version": version} if version else {})}
    if model_type in ("bert", "electra", "albert"):
        model["type_vocab_size"] = 2
    for file, content in {"tokenizer.json": fast, "tokenizer_config.json": config, "config.json": model}.items():
        (folder / file).write_text(json.dumps(content, ensure_ascii=False), "utf-8")
