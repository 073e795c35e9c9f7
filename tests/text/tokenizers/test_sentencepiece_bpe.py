"""`SentencePieceBPETokenizer`: the ids of SentencePiece and of Hugging Face, its files, words and texts of ids."""

import io
import json

import numpy as np
import pytest

from keras_transfer.text import Packing, SentencePieceBPETokenizer, TokenPreprocessor
from keras_transfer.text.tokenizer_files.formats import FORMATS
from keras_transfer.text.tokenizers.sentencepiece_model import SentencePieceModel
from tests.tokenizing import run_tokenizer_test

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")
sentencepiece = pytest.importorskip("sentencepiece")
tokenizers = pytest.importorskip("tokenizers")

HARD = [
    *("", " ", "   ", "the film", " the  film ", "\n\nthe\tfilm\r\n", "x\u00a0y\u2003z\u3000", "a\x85b\x0bc\x00d"),
    *("caf\u00e9 cafe\u0301", "<s> the </s>", "<unk>", "<0x41> <0x0A>", "\u65e5\u672c\u8a9e", "\U0001f600\U0001f3fd"),
    *("\ufb01lm \uff21", "\u2581the \u2581 a\u2581b", "the" * 40, "aaaa" * 9, "thefilm", "\u200bthe\u200d\ufeff"),
]
TEXTS = ["the film was long and the cafe was small", "a long film, the best film. ab c", "aa aaa the  the"] * 20
CONFIGS = [
    {"prefix": prefix, "byte_fallback": byte_fallback}
    for prefix in ("always", "missing", None)
    for byte_fallback in (True, False)
]


def train(**options):
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS),
        model_writer=file,
        model_type="bpe",
        normalization_rule_name="identity",
        **{"vocab_size": 320, "hard_vocab_limit": False, "byte_fallback": True, "minloglevel": 2},
        **{"remove_extra_whitespaces": False, **options},
    )
    return file.getvalue()


FORMAT = FORMATS[SentencePieceBPETokenizer]


@pytest.fixture(scope="module")
def model():
    return train()


def hugging_face(tokenizer):
    """Returns the tokenizer of Hugging Face without special tokens, which texts would become."""
    fast = {"version": "1.0", "added_tokens": [], "post_processor": None, **FORMAT.write(tokenizer)}
    return tokenizers.Tokenizer.from_str(json.dumps(fast))


@pytest.mark.parametrize("prefix", [True, False])
def test_the_ids_are_those_of_sentencepiece(model, prefix):
    trained = model if prefix else train(add_dummy_prefix=False)
    tokenizer = SentencePieceBPETokenizer.from_model(trained)
    assert (tokenizer.prefix, tokenizer.byte_fallback) == ("always" if prefix else None, True)
    processor = sentencepiece.SentencePieceProcessor(model_proto=trained)
    ids = tokenizer.tokenize(HARD)
    assert ids.to_list() == [processor.encode(text) for text in HARD]
    texts = [text for text in HARD if "\u2581" not in text]
    assert [text.decode() for text in tokenizer.detokenize(tokenizer.tokenize(texts)).numpy()] == texts


@pytest.mark.parametrize("config", CONFIGS)
def test_the_ids_are_those_of_hugging_face(model, config):
    made = SentencePieceBPETokenizer.from_model(model)
    ours = SentencePieceBPETokenizer(made.vocabulary, made.merges, **config)
    expected = [encoding.ids for encoding in hugging_face(ours).encode_batch(HARD)]
    assert ours.tokenize(HARD).to_list() == expected
    assert FORMAT.read(FORMAT.write(ours), ours.vocabulary, []).get_config() == ours.get_config()


def test_control_tokens_add_nothing_to_a_text_as_in_sentencepiece(model, tmp_path):
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    ids = [processor.bos_id(), *processor.encode("the film"), processor.eos_id()]
    tokenizer = SentencePieceBPETokenizer.from_model(model)
    packing = Packing(["<s>"], ["</s>"], ["</s>"], pad="</s>")
    TokenPreprocessor(tokenizer, packing).save(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    loaded = [tokenizer, TokenPreprocessor.load(tmp_path).tokenizer]
    config = json.loads(path.read_text())
    del config["keras_transfer_control_tokens"]  # as in a folder of Transformers
    path.write_text(json.dumps(config))
    loaded.append(TokenPreprocessor.load(tmp_path).tokenizer)
    assert processor.decode(ids) == "the film"
    assert [each.detokenize(ids).numpy().decode() for each in loaded] == ["the film"] * 3
    assert all(each.get_config() == tokenizer.get_config() for each in loaded)


def test_random_merges_that_cross_spaces_get_the_ids_of_hugging_face():
    random = np.random.default_rng(0)
    texts = ["".join(random.choice(list("aab c"), 40)) for _ in range(100)]
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>", fuse_unk=True))
    theirs.normalizer = tokenizers.normalizers.Replace(" ", "\u2581")
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=200, special_tokens=["<unk>"], show_progress=False)
    theirs.train_from_iterator(texts[:50], trainer)
    fast = json.loads(theirs.to_str())
    ours = FORMAT.read(fast, list(fast["model"]["vocab"]), [])
    assert (ours.prefix, ours.byte_fallback) == (None, False)
    assert any("a\u2581" in token for token in ours.vocabulary)
    texts += ["axxb \u00e9x", "x"]
    assert ours.tokenize(texts).to_list() == [encoding.ids for encoding in theirs.encode_batch(texts)]


def test_added_tokens_are_found_before_spaces_are_replaced(model):
    made = SentencePieceBPETokenizer.from_model(model)
    added = ["\n\n", "|x|"]
    ours = SentencePieceBPETokenizer([*made.vocabulary, *added], made.merges, prefix=None, added_tokens=added)
    theirs = hugging_face(ours)
    theirs.add_tokens([tokenizers.AddedToken(token, normalized=False) for token in added])
    texts = [*HARD, "the|x||x| film\n\n\na", " |x|"]
    assert ours.tokenize(texts).to_list() == [encoding.ids for encoding in theirs.encode_batch(texts)]


def test_words_are_read_as_in_the_middle_of_a_text(model):
    made = SentencePieceBPETokenizer.from_model(model)
    for prefix in ("always", None):
        tokenizer = SentencePieceBPETokenizer(made.vocabulary, made.merges, prefix=prefix)
        words = tokenizer.word_pieces(tf.constant(["film", "", "the"])).to_list()
        assert words[0] + words[2] == made.tokenize("film the").numpy().tolist()
        assert words[1] == [tokenizer.unk_id]


def test_it_is_a_well_behaved_tokenizer(model):
    made, tokens = SentencePieceBPETokenizer.from_model(model), {"mask_token": "<mask>", "eos_token": "</s>"}
    vocabulary = [*made.vocabulary, "<mask>", "\n\n"]
    tokenizer = SentencePieceBPETokenizer(vocabulary, made.merges, added_tokens=["\n\n"], **tokens)
    theirs = hugging_face(tokenizer)
    theirs.add_tokens([tokenizers.AddedToken("\n\n", normalized=False)])
    expected = [encoding.ids for encoding in theirs.encode_batch(HARD)]
    packing = Packing(["<s>"], ["</s>"], ["</s>"], "<unk>")
    run_tokenizer_test(tokenizer, HARD, packing, expected, [text for text in HARD if not {"\u2581", "\n"} & {*text}])


def test_the_packing_of_llama_is_read_for_a_model_without_segments(model, tmp_path):
    TokenPreprocessor(SentencePieceBPETokenizer.from_model(model), Packing(["<s>"], ["<s>"], [], "</s>")).save(tmp_path)
    fast = json.loads((tmp_path / "tokenizer.json").read_text("utf-8"))
    for item in fast["post_processor"]["pair"][2:]:
        next(iter(item.values()))["type_id"] = 1
    (tmp_path / "tokenizer.json").write_text(json.dumps(fast))
    assert TokenPreprocessor.load(tmp_path).packing == Packing(["<s>"], ["<s>"], [], "</s>")
    (tmp_path / "tokenizer_config.json").write_text('{"pad_token": "</s>"}')
    with pytest.raises(ValueError, match="A pair must be packed like a single text"):
        TokenPreprocessor.load(tmp_path)


def test_what_is_not_supported_is_an_error(model):
    made = SentencePieceBPETokenizer.from_model(model)
    unigram = SentencePieceModel.from_bytes(model)
    unigram.model_type = 1
    fast = FORMAT.write(made)
    metaspace = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": False}

    def read(text_tokens=(), **changes):
        return FORMAT.read({**fast, **changes}, made.vocabulary, list(text_tokens))

    for function, message in (
        (lambda: SentencePieceBPETokenizer.from_model(unigram.to_bytes()), "model_type=1, a normalization of 0 bytes"),
        (
            lambda: SentencePieceBPETokenizer.from_model(train(remove_extra_whitespaces=True)),
            "remove_extra_whitespaces=True",
        ),
        (lambda: SentencePieceBPETokenizer(prefix="first"), "Received: prefix='first'"),
        (lambda: SentencePieceBPETokenizer(made.vocabulary[4:], made.merges), "must contain .* <unk>, <0x00>"),
        (lambda: read(normalizer={"type": "Lowercase"}), "must replace each space .*'Lowercase'"),
        (lambda: read(normalizer=None, pre_tokenizer={**metaspace, "split": True}), "with split=False"),
        (lambda: read(["x"], normalizer=None, pre_tokenizer=metaspace), r"added tokens \['x'\]"),
        (
            lambda: read(["x"], added_tokens=[{"content": "x", "normalized": True}]),
            r"with normalized=False. Received: late=\['x'\]",
        ),
        (lambda: read(model={**fast["model"], "unk_token": None}), "must have an `unk_token`.*'unk_token': None"),
        (lambda: read(model={**fast["model"], "ignore_merges": True}), "must not have `ignore_merges`"),
    ):
        with pytest.raises(ValueError, match=message):
            function()
