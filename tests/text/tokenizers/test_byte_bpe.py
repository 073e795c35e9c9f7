"""`ByteBPETokenizer`: exact ids, its files, words and texts of ids."""

import json

import numpy as np
import pytest

from keras_transfer.text import ByteBPETokenizer, Packing, TokenPreprocessor
from keras_transfer.text.tokenizers.byte_bpe import byte_characters
from tests.errors import check_errors
from tests.tokenizing import run_tokenizer_test

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

MERGES = [
    *(("t", "h"), ("\u0120", "th"), ("th", "e"), ("\u0120th", "e"), ("a", "a"), ("aa", "aa"), ("\u0120", "\u0120")),
    *(("l", "m"), ("f", "i"), ("fi", "lm"), ("\u0120", "film"), ("'", "s"), ("\u010a", "\u010a"), ("\u00c3", "\u00a9")),
]
VOCABULARY = ["<s>", "<pad>", "</s>", "<unk>", *byte_characters(), *map("".join, MERGES), "<mask>", "|x|", "   "]
ROBERTA = Packing(start=["<s>"], between=["</s>", "</s>"], end=["</s>"], pad="<pad>")

HARD = [
    *("", " ", "  ", "the film", " the  film ", "\n\n the", "a\n\nb", "a \n b", "a\t\tb", "x\u00a0y", "x\u2003\u2003y"),
    *("\u3000\u3000a", "a\x85\x85b", "don't we'll I'VE 's", "the film's", "12 3,4 \u00bd\u00b2", "a" * 9, "aa" * 50),
    *("caf\u00e9 cafe\u0301", "<s> the </s>", "<mask>", "a\x01b\x00c", "\U0001f600\U0001f3fd", "\u65e5\u672c \ud55c"),
    *("!!the??", "  !", "the\r\nfilm\r\n", "\u200bthe\u200d", "\ufeffthe", "'", "''s", "a'sb", " 's", "\u0660\u0661a"),
    *("\x1c\x1da \x1fb", "x   y    z", "|x||x|", " |x| the|x|  film"),
]


@pytest.fixture(scope="module")
def tokenizer():
    return ByteBPETokenizer(VOCABULARY, MERGES, unk_token="<unk>", mask_token="<mask>", eos_token="</s>")


def hugging_face(normalization=None, add_prefix_space=False, added=()):
    tokenizers = pytest.importorskip("tokenizers")
    ids = {token: index for index, token in enumerate(VOCABULARY)}
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE(ids, MERGES))
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    if normalization:
        theirs.normalizer = getattr(tokenizers.normalizers, normalization)()
    theirs.add_tokens([tokenizers.AddedToken(token, normalized=True) for token in added])
    return theirs


@pytest.mark.parametrize("options", [{}, {"add_prefix_space": True, "normalization": "NFC"}])
@pytest.mark.parametrize("added", [[], ["|x|", "   "]])
@pytest.mark.report(
    "Ids of line breaks and spaces differ in byte-level BPE.", "transformers#5738", "keras-hub#1904", "keras-hub#1910"
)
def test_the_ids_are_those_of_hugging_face(options, added):
    ours = ByteBPETokenizer(VOCABULARY, MERGES, added_tokens=added, **options)
    expected = [encoding.ids for encoding in hugging_face(added=added, **options).encode_batch(HARD)]
    assert ours.tokenize(HARD).to_list() == expected


def test_it_is_a_well_behaved_tokenizer(tokenizer):
    expected = [encoding.ids for encoding in hugging_face().encode_batch(HARD)]
    run_tokenizer_test(tokenizer, HARD, ROBERTA, expected, [text for text in HARD if text], old_model_type="roberta")


def test_random_merges_and_texts_get_the_ids_of_hugging_face():
    tokenizers = pytest.importorskip("tokenizers")
    random = np.random.default_rng(0)
    texts = ["".join(random.choice(list("aab c"), 40)) for _ in range(200)]
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE())
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    theirs.train_from_iterator(texts[:100], trainer)
    model = json.loads(theirs.to_str())["model"]
    ours = ByteBPETokenizer(model["vocab"], model["merges"])
    assert sorted(byte_characters()) == sorted(alphabet)
    assert ours.tokenize(texts).to_list() == [encoding.ids for encoding in theirs.encode_batch(texts)]


def test_words_are_read_as_in_the_middle_of_a_text(tokenizer):
    words = ["the", "film", "", " the"]
    ids = tokenizer.word_pieces(tf.constant(words)).to_list()
    the, film = VOCABULARY.index("\u0120the"), VOCABULARY.index("\u0120film")
    assert ids == [[the], [film], [VOCABULARY.index("\u0120")], [the]]


def test_texts_of_ids_have_no_padding_and_mark_bytes_that_are_no_character(tokenizer):
    assert tokenizer.detokenize([0, VOCABULARY.index("\u00c3"), 2]).numpy().decode() == "<s>\ufffd</s>"
    preprocessor = TokenPreprocessor(tokenizer, ROBERTA, 12)
    assert preprocessor.detokenize(preprocessor(["the film", ""])["token_ids"]).numpy().tolist() == [b"the film", b""]


def test_merges_may_be_written_as_in_the_files_of_others():
    vocabulary = [*byte_characters(), "ab"]
    written, pairs = (ByteBPETokenizer(vocabulary, merges) for merges in (["a b"], [["a", "b"]]))
    assert written.merges == pairs.merges == [("a", "b")]
    assert written.tokenize(["abc"]).to_list() == pairs.tokenize(["abc"]).to_list() == [[256, vocabulary.index("c")]]


test_a_vocabulary_without_a_byte_and_without_merges_is_an_error = check_errors(
    (
        lambda: ByteBPETokenizer([token for token in byte_characters() if token != "a"], []),
        "each of the 256 bytes. Received: missing=['a']",
    ),
    (lambda: ByteBPETokenizer(byte_characters()), "must be passed together"),
    (
        lambda: ByteBPETokenizer(byte_characters(), [("x", "y")]).tokenize("x"),
        "both tokens of each merge ... missing=[('x', 'y')]",
    ),
    (lambda: ByteBPETokenizer(byte_characters(), ["a b c"]), "`merges` must be two tokens. Received: wrong=['a b c']"),
    (lambda: ByteBPETokenizer(byte_characters(), ["ab"]), "`merges` must be two tokens. Received: wrong=['ab']"),
)


def test_gpt2_has_no_special_tokens_and_pads_with_the_end_of_the_text(tmp_path):
    vocabulary = [*byte_characters(), "th", "<|endoftext|>"]
    ByteBPETokenizer(vocabulary, [("t", "h")]).save_assets(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    gpt2 = TokenPreprocessor.load(tmp_path)
    assert (gpt2.packing, gpt2.tokenizer.eos_id, gpt2.pad_id) == (Packing(pad="<|endoftext|>"), 257, 257)
    assert gpt2(["th"], sequence_length=3)["token_ids"].numpy().tolist() == [[256, 257, 257]]


def test_an_unknown_folder_is_an_error_that_names_what_is_there(tokenizer, tmp_path):
    with pytest.raises(FileNotFoundError, match="must contain tokenizer.json.* Received: no folder"):
        TokenPreprocessor.load(tmp_path / "none")
    tokenizer.save_assets(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"Received: \['merges.txt', 'vocab.json'\], model_type=None"):
        TokenPreprocessor.load(tmp_path)
    TokenPreprocessor(tokenizer, ROBERTA).save(tmp_path)
    fast = json.loads((tmp_path / "tokenizer.json").read_text())
    for part, value, message in (
        ("pre_tokenizer", {"type": "Whitespace"}, "must be 'ByteLevel'"),
        ("normalizer", {"type": "Lowercase"}, "must be a Unicode normalization"),
        ("post_processor", {"type": "Other"}, "post-processor must be one of"),
        ("model", {**fast["model"], "type": "WordLevel"}, "must be one of .*'WordLevel'"),
        ("model", {**fast["model"], "ignore_merges": True}, "must not have `ignore_merges`"),
    ):
        (tmp_path / "tokenizer.json").write_text(json.dumps({**fast, part: value}))
        with pytest.raises(ValueError, match=message):
            TokenPreprocessor.load(tmp_path)
