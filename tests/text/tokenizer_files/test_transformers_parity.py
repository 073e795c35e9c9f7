"""Live against Transformers: ids of the tokenizers of T5, mT5, BART and mBART for sentences and for hard strings."""

import io
import json

import pytest

from keras_transfer.text import TokenPreprocessor, train_vocabulary
from tests.samples import characters, sample

pytestmark = pytest.mark.parity
pytest.importorskip("tensorflow_text")
sentencepiece = pytest.importorskip("sentencepiece")
LENGTH = 48
HARD = [
    "",
    " ",
    "the film",
    "x\u00a0y\u2003z",
    "the\tfilm\nis",
    "\ufb01lm \uff21\uff22",
    "caf\u00e9",
    "don't I'LL",
    "ab" * 200,
]
HARD += [
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 a",
    "1,234.56",
    "http://a.b/c?d=e",
    "[MASK]",
    "\u2026\u2014\u201cx\u201d",
]
FAIRSEQ = {"unk_id": 0, "bos_id": 1, "eos_id": 2}
T5 = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}


@pytest.fixture(scope="module")
def sentences(data_dir):
    found = []
    for path in sorted(data_dir("ud_english_ewt").rglob("*.conllu")):
        lines = path.read_text("utf-8").splitlines()
        found += [line.removeprefix("# text = ") for line in lines if line.startswith("# text = ")]
    return found


@pytest.fixture(scope="module")
def strings(sentences):
    odd = [f"a{character} {character}b" for character in sample(characters(), 20) if character != "\x85"]
    return [*sample(sentences, 8), *HARD, *odd]  # U+0085 is white space here and in Transformers, not in SentencePiece.


def train(sentences, **options):
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences[:4000]),
        model_writer=file,
        vocab_size=3000,
        minloglevel=2,
        num_threads=1,
        **options,
    )
    return file.getvalue()


def both(folder, model_type, tokenizer_class, files, **settings):
    """Writes a folder, and returns what our preprocessor and Transformers' tokenizer make of strings."""
    transformers = pytest.importorskip("transformers", reason="run `make test-parity`")
    for name, content in files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": tokenizer_class, **settings}))
    ours = TokenPreprocessor.load(folder, sequence_length=LENGTH)
    theirs = transformers.AutoTokenizer.from_pretrained(folder)

    def rows(strings):
        padded = ours(strings)["token_ids"].numpy().tolist()
        return padded, theirs(strings, max_length=LENGTH, truncation=True, padding="max_length")["input_ids"]

    return rows, ours


def assert_same(ours, theirs):
    """Equal scores may put the same pieces in another order, such as `...` and `.` in a long run of dots."""
    different = [sorted(row) == sorted(other) for row, other in zip(ours, theirs, strict=True) if row != other]
    assert all(different) and len(different) < 0.005 * len(ours)


def test_bart(sentences, strings, tmp_path):
    special = ["<pad>", "<unk>", "<s>", "</s>", "<mask>"]
    trained = train_vocabulary(sentences[:4000], "byte_bpe", 3000, special_tokens=special)
    merges = "\n".join(["#version: 0.2", *map(" ".join, trained.merges)]).encode()
    files = {"vocab.json": {token: index for index, token in enumerate(trained.vocabulary)}, "merges.txt": merges}
    rows, _ = both(tmp_path, "bart", "BartTokenizer", files)
    ours, theirs = rows(strings)
    assert ours == theirs


def test_t5(sentences, strings, tmp_path):
    model = train(sentences, **T5)
    rows, preprocessor = both(tmp_path, "t5", "T5Tokenizer", {"spiece.model": model}, extra_ids=100)
    ours, theirs = rows(strings)
    different = {text for text, row, other in zip(strings, ours, theirs, strict=True) if row != other}
    assert len(different) < 0.01 * len(strings)  # Transformers normalizes grapheme clusters, and not the longest match.
    original = sentencepiece.SentencePieceProcessor(model_proto=model)
    assert_same(preprocessor.tokenize(strings).to_list(), original.encode(strings))


def test_mt5_without_unknown_characters(sentences, strings, tmp_path):
    sentinels = [f"\u2581<extra_id_{index}>" for index in range(99, -1, -1)]
    model = train(sentences, **T5, byte_fallback=True, user_defined_symbols=sentinels)
    rows, preprocessor = both(tmp_path, "mt5", "T5Tokenizer", {"spiece.model": model}, extra_ids=0)
    original = sentencepiece.SentencePieceProcessor(model_proto=model)
    ids = original.encode(strings)
    assert_same(preprocessor.tokenize(strings).to_list(), ids)
    known = [text for text, row in zip(strings, ids) if not any(map(original.is_byte, row))]
    assert len(known) > 2000
    ours, theirs = rows(known)  # Transformers does not read the bytes of a model.
    assert_same(ours, theirs)


@pytest.mark.parametrize("name", ["MBart", "MBart50"])
def test_mbart(name, sentences, strings, tmp_path):
    files = {"sentencepiece.bpe.model": train(sentences, **FAIRSEQ)}
    rows, _ = both(tmp_path, "mbart", f"{name}Tokenizer", files, src_lang="en_XX", tgt_lang="de_DE")
    # Transformers keeps a space at the end, and its MBartTokenizer does not read the normalization of a model.
    ours, theirs = rows([text for text in strings if text.isascii() and text.isprintable() and text.strip() == text])
    assert len(ours) > 2000
    assert_same(ours, theirs)
