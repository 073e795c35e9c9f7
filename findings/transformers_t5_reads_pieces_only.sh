#!/usr/bin/env bash
# transformers 5.24.0, sentencepiece 0.2.3: T5Tokenizer takes the pieces, scores and the table of characters of a
# SentencePiece model and none of its other settings. Models that were trained with them get other ids, without a
# warning: white space as a suffix, pieces across words, kept white space, no space at the start, and BPE, whose ranks
# are read as scores of a unigram model. The id of unknown letters is always 2, which is `</s>` in a model of
# SentencePiece's own default ids, so that a text with an unknown letter has an end in its middle.
#
# Output seen, a setting, a text, the pieces of SentencePiece and those of T5Tokenizer:
#   T5's settings: 'the film' | ▁ t h e ▁film | ▁ t h e ▁film
#   treat_whitespace_as_suffix: 'the film' | the▁ film▁ | ▁ t h e ▁ f i l m
#   split_by_whitespace=False: 'the film' | ▁the▁film | ▁ t h e ▁film
#   remove_extra_whitespaces=False: 'the  film' | ▁ t h e ▁ ▁film | ▁ t h e ▁film
#   add_dummy_prefix=False: 'the film' | t h e ▁film | ▁ t h e ▁film
#   BPE: 'thefilm' | ▁the film | ▁t he fi lm
#   default ids: 'the ü film' | ▁ t h e ▁ <unk> ▁film | ▁ t h e ▁ </s> ▁film
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m pip install -q --disable-pip-version-check --target "$folder/packages" \
  transformers==5.24.0 tokenizers==0.23.3 sentencepiece==0.2.3 protobuf==7.36.2
cat >"$folder/compare.py" <<'PYTHON'
import pathlib
import sys

import sentencepiece
from transformers import T5Tokenizer

texts = ["the film is good", "a good film", "the end of the film"] * 30
t5 = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
default = {"pad_id": 3, "unk_id": 0, "bos_id": 1, "eos_id": 2}


def compare(name, text, **settings):
    folder = pathlib.Path(sys.argv[1]) / str(len(list(pathlib.Path(sys.argv[1]).iterdir())))
    folder.mkdir()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_prefix=str(folder / "spiece"), vocab_size=60, hard_vocab_limit=False,
        minloglevel=2, **settings,
    )
    original = sentencepiece.SentencePieceProcessor(model_file=str(folder / "spiece.model"))
    tokenizer = T5Tokenizer.from_pretrained(folder, extra_ids=0)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    expected = original.encode(text)
    print(f"{name}: {text!r}", *(" ".join(original.id_to_piece(row)) for row in (expected, ids)), sep=" | ")
    return expected == ids


assert compare("T5's settings", "the film", **t5)
assert not compare("treat_whitespace_as_suffix", "the film", treat_whitespace_as_suffix=True, **t5)
assert not compare("split_by_whitespace=False", "the film", split_by_whitespace=False, **t5)
assert not compare("remove_extra_whitespaces=False", "the  film", remove_extra_whitespaces=False, **t5)
assert not compare("add_dummy_prefix=False", "the film", add_dummy_prefix=False, **t5)
assert not compare("BPE", "thefilm", model_type="bpe", **t5)
assert not compare("default ids", "the \u00fc film", **default)
PYTHON
PYTHONIOENCODING=utf-8 PYTHONPATH="$folder/packages" python3 "$folder/compare.py" "$folder"
