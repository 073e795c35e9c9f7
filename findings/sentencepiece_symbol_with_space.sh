#!/usr/bin/env bash
# sentencepiece 0.2.3: the trainer accepts a user-defined symbol with a space and gives it an id, but no text ever
# becomes it, because spaces are already U+2581 when symbols are looked for. The symbol has to be written with U+2581, and
# is then found within words as well ("xa b").
#
# Output seen:
#   "a b" has the id 3, and "in a b case" is ['▁i', 'n', '▁', 'a', '▁', 'b', '▁case']
#   "a▁b" has the id 3, and "in a b case" is ['▁i', 'n', '▁', 'a▁b', '▁case']
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m pip install -q --disable-pip-version-check --target "$folder/packages" sentencepiece==0.2.3
PYTHONIOENCODING=utf-8 PYTHONPATH="$folder/packages" python3 - <<'PYTHON'
import io

import sentencepiece

texts = ["the film is good", "a good film", "the end of the film in a b case"] * 30
for symbol, found in (("a b", False), ("a\u2581b", True)):
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=file, vocab_size=60, hard_vocab_limit=False,
        user_defined_symbols=[symbol], minloglevel=2,
    )
    model = sentencepiece.SentencePieceProcessor(model_proto=file.getvalue())
    pieces = model.encode("in a b case", out_type=str)
    print(f'"{symbol}" has the id {model.piece_to_id(symbol)}, and "in a b case" is {pieces}')
    assert model.id_to_piece(3) == symbol and (symbol in pieces) == found
PYTHON
