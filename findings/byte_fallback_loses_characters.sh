#!/usr/bin/env bash
# tokenizers 0.23.3 (TOKENIZERS=... for another version), sentencepiece 0.2.3.
#
# 1. The decoder `ByteFallback` replaces every byte of a run by U+FFFD if the run as a whole is not UTF-8, so that one
#    incomplete character erases the complete characters beside it: the pieces <0xE4> <0xB8> <0x41> become three U+FFFD,
#    and the "A" is lost. SentencePiece, whose models these are, writes two U+FFFD and "A". Texts that are cut within a
#    character, as while they are generated, are the usual case.
# 2. `Unigram(byte_fallback=True)` matches byte pieces in texts: a text that spells "<0x41>" becomes the piece of the
#    byte, and is decoded to "A". In SentencePiece, a text never becomes a byte piece by its name.
#
# Output seen:
#   decode <0xE4> <0xB8> <0x41>: tokenizers ['0xfffd', '0xfffd', '0xfffd'], sentencepiece ['0xfffd', '0xfffd', '0x41']
#   the text <0x41>: tokenizers ['▁', '<0x41>'] -> 'A', sentencepiece 7 pieces -> '<0x41>'
#
# The script fails if the behavior changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m pip install --quiet --target "$folder" "tokenizers==${TOKENIZERS:-0.23.3}" "sentencepiece==0.2.3"
PYTHONPATH="$folder" "${PYTHON:-python3}" - <<'PYTHON'
import io

import sentencepiece
import tokenizers
from tokenizers import decoders, models, pre_tokenizers

file = io.BytesIO()
texts = ["the film is good", "a good film", "the end of the film"] * 30
sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=iter(texts), model_writer=file, vocab_size=330, hard_vocab_limit=False, byte_fallback=True,
    minloglevel=2,
)
theirs = sentencepiece.SentencePieceProcessor(model_proto=file.getvalue())
pieces = [(theirs.id_to_piece(index), theirs.get_score(index)) for index in range(len(theirs))]
fast = tokenizers.Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=True))
fast.pre_tokenizer = pre_tokenizers.Metaspace()
fast.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])

ids = [theirs.piece_to_id(piece) for piece in ("<0xE4>", "<0xB8>", "<0x41>")]
found = [[hex(ord(character)) for character in each.decode(ids)] for each in (fast, theirs)]
print(f"decode <0xE4> <0xB8> <0x41>: tokenizers {found[0]}, sentencepiece {found[1]}")
encoding, own = fast.encode("<0x41>"), theirs.encode("<0x41>")
print(
    f"the text <0x41>: tokenizers {encoding.tokens} -> {fast.decode(encoding.ids)!r}, "
    f"sentencepiece {len(own)} pieces -> {theirs.decode(own)!r}"
)
assert found == [["0xfffd"] * 3, ["0xfffd", "0xfffd", "0x41"]]
assert encoding.tokens == ["\u2581", "<0x41>"] and fast.decode(encoding.ids) == "A"
assert len(own) == 7 and theirs.decode(own) == "<0x41>"
PYTHON
