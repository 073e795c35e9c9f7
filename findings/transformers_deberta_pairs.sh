#!/usr/bin/env bash
# transformers 5.24.0: DebertaTokenizer puts two [SEP] between the texts of a pair, as RoBERTa does, and gives both texts
# the segment 0. Its own slow tokenizer of version 4, with which DeBERTa v1 was published, gives [CLS] A [SEP] B [SEP]
# and the segments 0 and 1. tokenizer.json of the folder does not help, because the class replaces its template.
#
# Output seen:
#   DebertaTokenizer("a", "b")     ['[CLS]', 'a', '[SEP]', '[SEP]', 'b', '[SEP]'] [0, 0, 0, 0, 0, 0]
#   DebertaV2Tokenizer("a", "b")   ['[CLS]', ..., '[SEP]', ..., '[SEP]'], one [SEP] between the texts
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m pip install -q --disable-pip-version-check --target "$folder/packages" transformers==5.24.0
PYTHONPATH="$folder/packages" python3 - <<'PYTHON'
from transformers import DebertaTokenizer, DebertaV2Tokenizer

special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
one = DebertaTokenizer(vocab={token: index for index, token in enumerate([*special, "a", "b"])}, merges=[])
row = one("a", "b")
tokens = one.convert_ids_to_tokens(row["input_ids"])
print('DebertaTokenizer("a", "b")  ', tokens, row["token_type_ids"])
assert tokens == ["[CLS]", "a", "[SEP]", "[SEP]", "b", "[SEP]"] and row["token_type_ids"] == [0] * 6
pieces = [*((token, 0.0) for token in special), ("\u2581a", -1.0), ("\u2581b", -1.0)]
two = DebertaV2Tokenizer(vocab=pieces)
row = two("a", "b")
tokens = two.convert_ids_to_tokens(row["input_ids"])
print('DebertaV2Tokenizer("a", "b")', tokens, row["token_type_ids"])
assert tokens == ["[CLS]", "\u2581a", "[SEP]", "\u2581b", "[SEP]"] and row["token_type_ids"] == [0, 0, 0, 1, 1]
PYTHON
