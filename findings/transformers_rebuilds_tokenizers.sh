#!/usr/bin/env bash
# transformers 5.24.0 builds the tokenizer of a class such as BertTokenizer or T5Tokenizer from tokenizer_config.json and
# takes hardly more than the vocabulary of tokenizer.json: a tokenizer.json that keeps upper case is lowercased, and one
# that lowercases is not. No warning says so. AutoTokenizer does so also if no class is named. The generic class
# PreTrainedTokenizerFast follows tokenizer.json.
#
# Output seen:
#   BERT, file {'lowercase': False}: tokenizers [1], AutoTokenizer [0], generic class [1]
#   T5, file Lowercase: tokenizers [4], AutoTokenizer [3], generic class [4]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m pip install -q --disable-pip-version-check --target "$folder/packages" transformers==5.24.0 tokenizers==0.23.3
cat >"$folder/show.py" <<'PYTHON'
import json
import pathlib
import sys

from tokenizers import Tokenizer
from transformers import AutoTokenizer

words = {"type": "BertPreTokenizer"}
vocabulary = {token: index for index, token in enumerate(["the", "The", "[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"])}
bert = {
    "normalizer": {"type": "BertNormalizer", "lowercase": False, "clean_text": True, "handle_chinese_chars": True},
    "pre_tokenizer": words,
    "model": {"type": "WordPiece", "vocab": vocabulary, "unk_token": "[UNK]", "max_input_chars_per_word": 100},
}
bert["normalizer"]["strip_accents"] = None
bert["model"]["continuing_subword_prefix"] = "##"
pieces = [["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0], ["\u2581The", -1.0], ["\u2581the", -1.0]]
space = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
t5 = {
    "normalizer": {"type": "Lowercase"},
    "pre_tokenizer": space,
    "model": {"type": "Unigram", "unk_id": 2, "vocab": pieces, "byte_fallback": False},
}


def ids(name, model_type, fast, **config):
    folder = pathlib.Path(sys.argv[1]) / name
    folder.mkdir()
    rest = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": []}
    rest |= {"post_processor": None, "decoder": None}
    (folder / "tokenizer.json").write_text(json.dumps(rest | fast))
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    if config:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    alone = Tokenizer.from_file(str(folder / "tokenizer.json")).encode("The").ids
    return alone, AutoTokenizer.from_pretrained(folder)("The", add_special_tokens=False)["input_ids"]


file, built = ids("bert", "bert", bert)
_, generic = ids("generic", "bert", bert, tokenizer_class="PreTrainedTokenizerFast", unk_token="[UNK]")
print(f"BERT, file {{'lowercase': False}}: tokenizers {file}, AutoTokenizer {built}, generic class {generic}")
assert (file, built, generic) == ([1], [0], [1])
file, built = ids("t5", "t5", t5)
_, generic = ids("generic_t5", "t5", t5, tokenizer_class="PreTrainedTokenizerFast", unk_token="<unk>")
print(f"T5, file Lowercase: tokenizers {file}, AutoTokenizer {built}, generic class {generic}")
assert (file, built, generic) == ([4], [3], [4])
PYTHON
PYTHONPATH="$folder/packages" python3 "$folder/show.py" "$folder"
