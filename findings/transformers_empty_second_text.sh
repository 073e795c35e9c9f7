#!/usr/bin/env bash
# transformers 5.24.0 (and 4.57.3): an empty second text is a pair in a list and is no pair alone, so that the same two
# texts have other ids. A model of pairs that predicts one row at a time then sees a row that it has never been trained
# on as soon as a field is empty.
#
# Output seen:
#   tokenizer("the", "")       [2, 5, 3]
#   tokenizer(["the"], [""])   [2, 5, 3, 3]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m pip install -q --disable-pip-version-check --target "$folder/packages" transformers==5.24.0
PYTHONPATH="$folder/packages" python3 - <<'PYTHON'
from transformers import BertTokenizer

tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the"]
tokenizer = BertTokenizer(vocab={token: index for index, token in enumerate(tokens)})
alone, listed = tokenizer("the", "")["input_ids"], tokenizer(["the"], [""])["input_ids"][0]
print('tokenizer("the", "")      ', alone)
print('tokenizer(["the"], [""])  ', listed)
assert alone == [2, 5, 3] and listed == [2, 5, 3, 3]
PYTHON
