"""`train_vocabulary`: tokenizers trained on texts."""

import gzip
import json
import sys

import pytest

from keras_transfer.datasets import load_demo_questions
from keras_transfer.text import Packing, TokenPreprocessor, train_vocabulary

pytest.importorskip("tensorflow_text")
pytest.importorskip("tokenizers")
pytest.importorskip("sentencepiece")

TEXTS = load_demo_questions().train.texts[:200]
SPECIAL = ["<pad>", "<unk>", "<s>", "</s>", "<mask>", "<x>"]


@pytest.mark.parametrize("kind", ["wordpiece", "byte_bpe", "unigram"])
def test_a_trained_tokenizer_splits_its_texts_and_survives_its_folder(kind, tmp_path):
    tokenizer = train_vocabulary(TEXTS, kind, 330, special_tokens=SPECIAL)
    assert tokenizer.vocabulary[:6] == SPECIAL
    assert 300 < tokenizer.vocabulary_size <= 330
    assert (tokenizer.unk_id, tokenizer.mask_id) == (1, 4)
    ids = tokenizer.tokenize(TEXTS)
    assert (ids.values.numpy() == 1).mean() < 0.01  # SentencePiece leaves out the rarest characters
    assert ids.row_lengths().numpy().sum() < 0.65 * sum(map(len, TEXTS))
    TokenPreprocessor(tokenizer, Packing(["<s>"], ["</s>"], ["</s>"], "<pad>")).save(tmp_path)
    assert TokenPreprocessor.load(tmp_path).tokenize(TEXTS).to_list() == ids.to_list()


@pytest.mark.parametrize("kind", ["wordpiece", "byte_bpe", "unigram"])
def test_text_never_becomes_a_special_token(kind):
    tokenizer = train_vocabulary(TEXTS, kind, 300)
    assert min(tokenizer.tokenize("what [MASK] [PAD] [SEP]").numpy().tolist()) >= 1
    assert not {0, 2, 3, 4} & set(tokenizer.tokenize("what [MASK] [PAD] [SEP]").numpy().tolist())


def test_long_texts_count_in_the_training_of_a_unigram_vocabulary():
    tokenizer = train_vocabulary([*TEXTS, "zebra zebras " * 400], "unigram", 330)
    assert "\u2581zebra" in tokenizer.vocabulary


def test_files_give_the_same_vocabulary_as_their_texts(tmp_path):
    (tmp_path / "a.txt").write_text("\n\n".join(TEXTS[:90]))
    rows = "".join(json.dumps({"question": text}) + "\n" for text in TEXTS[90:])
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(rows.encode()))
    paths = [tmp_path / "a.txt", tmp_path / "b.jsonl.gz"]
    for kind in ("byte_bpe", "unigram"):
        read = train_vocabulary(paths, kind, 330, text_column="question")
        assert read.vocabulary == train_vocabulary(TEXTS, kind, 330).vocabulary
    assert train_vocabulary(tmp_path / "a.txt", "unigram", 330).vocabulary != read.vocabulary


def test_a_sample_is_drawn_from_all_texts_and_its_seed_repeats_it():
    texts = [f"w{i}" for i in range(400)]
    found = []
    for seed in (0, 0, 1):
        words = train_vocabulary(texts, "wordpiece", 1000, sample=200, seed=seed).vocabulary
        found.append([i for i in range(400) if f"w{i}" in words])
    assert found[0] == found[1] != found[2]
    # Two-digit ends are shared, so that pieces of texts that were not drawn can be in the vocabulary as well.
    for part in found[1:]:
        assert 200 <= len(part) < 400
        assert min(part) < 100 and max(part) > 300


def test_a_mistake_is_one_clear_error(monkeypatch, tmp_path):
    (tmp_path / "a.txt").write_text("good")
    for arguments, message in (
        (([], "unigram", 300), r"needs texts.*Received: texts=\[\]"),
        ((TEXTS, "unigram", 300, {"special_tokens": ["[PAD]"]}), r"special_tokens=\['\[PAD\]'\]"),
        ((TEXTS, "byte_bpe", 260), "`size` must be at least 261. Received: size=260"),
        (
            ([str(tmp_path / "a.txt")], "unigram", 330),
            "as a list of `pathlib.Path`.*a.txt', the name of a file",
        ),
        ((TEXTS, "unigram", 10), "cannot train a vocabulary of this size"),
        ((TEXTS, "byte_bpe", 300, {"lowercase": True}), "keeps upper case.*Received: kind='byte_bpe', lowercase=True"),
    ):
        with pytest.raises(ValueError, match=message):
            train_vocabulary(*arguments[:3], **dict(*arguments[3:]))
    with pytest.raises(FileNotFoundError, match="There is no file texts.txt"):
        train_vocabulary("texts.txt", "unigram", 300)
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(ImportError, match="`pip install sentencepiece`"):
        train_vocabulary(TEXTS, "unigram", 300)
