#!/usr/bin/env bash
# sentencepiece 0.2.3, tokenizers 0.23.3: U+0085 (next line) is white space for the pre-tokenizer `WhitespaceSplit`,
# which stands before `Metaspace` in the tokenizers that Transformers makes for T5, ALBERT, XLM-R and others, and is
# an ordinary character for SentencePiece and its normalization. With the same vocabulary, the tokenizers find two
# words, and SentencePiece one, whose second half falls apart into letters. The character is not exotic: the three
# dots of Windows-1252 (byte 0x85) become U+0085 where a page is decoded as Latin-1. For U+2028 and the no-break
# space, both agree.
#
# Output seen:
#   good U+0085 film: sentencepiece ['▁good', '\x85', 'f', 'i', 'l', 'm'], tokenizers ['▁good', '▁film']
#   good U+2028 film: sentencepiece ['▁good', '▁film'], tokenizers ['▁good', '▁film']
#   good U+00A0 film: sentencepiece ['▁good', '▁film'], tokenizers ['▁good', '▁film']
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m pip install -q --disable-pip-version-check --target "$folder/packages" \
  tokenizers==0.23.3 sentencepiece==0.2.3 protobuf==7.36.2
PYTHONIOENCODING=utf-8 PYTHONPATH="$folder/packages" python3 - <<'PYTHON'
import io

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

texts = ["the film is good", "a good film", "the end of the film"] * 30
file = io.BytesIO()
sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=iter(texts), model_writer=file, vocab_size=60, hard_vocab_limit=False, minloglevel=2
)
model = sentencepiece.SentencePieceProcessor(model_proto=file.getvalue())
fields = sentencepiece_model_pb2.ModelProto.FromString(file.getvalue())
fast = Tokenizer(models.Unigram([(piece.piece, piece.score) for piece in fields.pieces], unk_id=0))
fast.normalizer = normalizers.Precompiled(fields.normalizer_spec.precompiled_charsmap)
fast.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
for space, equal in (("\u0085", False), ("\u2028", True), ("\u00a0", True)):
    text = f"good{space}film"
    theirs, found = model.encode(text, out_type=str), fast.encode(text).tokens
    print(f"good U+{ord(space):04X} film: sentencepiece {theirs}, tokenizers {found}")
    assert found == ["\u2581good", "\u2581film"] and (theirs == found) == equal
PYTHON
