"""`UnigramTokenizer`: exact ids, its files, and the packings of the families that use it."""

import io
import json

import pytest

from keras_transfer.text import Packing, SentencePieceBPETokenizer, TokenPreprocessor, UnigramTokenizer
from keras_transfer.text.tokenizer_files.formats import FORMATS
from keras_transfer.text.tokenizers.sentencepiece_model import PieceType, SentencePieceModel
from tests.errors import check_errors
from tests.tokenizing import run_tokenizer_test

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")
sentencepiece = pytest.importorskip("sentencepiece")

HARD = [
    *("", " ", "the film", " the  film ", "\n\nthe\tfilm", "x\u00a0y\u2003z", "a\x85b\x0bc", "caf\u00e9 cafe\u0301"),
    *("<s> the </s>", "[CLS][MASK]", "<unk>", "<sep>", "\u65e5\u672c\u8a9e", "\U0001f600 a", "\uff21\uff22\u3000c"),
    *("\ufb01lm \u2167 \u00bd", "\u2581the \u2581 a\u2581b", "``The'' FILM", "\u0130\u03a3\u1e9e", "the" * 40),
]
TEXTS = [
    "the film was long and the cafe was small",
    "a long film, the best film. ab c",
    "x y z was a film ss i fi",
] * 20


def train_model(vocab_size=60, **options):
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS),
        model_writer=file,
        vocab_size=vocab_size,
        hard_vocab_limit=False,
        control_symbols=["<cls>", "<sep>", "[CLS]", "[SEP]", "[MASK]"],
        minloglevel=2,
        **{"user_defined_symbols": ["."], **options},
    )
    return file.getvalue()


@pytest.fixture(scope="module")
def model():
    return train_model()


def hugging_face(model, steps=()):
    tokenizers = pytest.importorskip("tokenizers")
    parsed = SentencePieceModel.from_bytes(model)
    # Control symbols get names that no text contains.
    pieces = [
        (piece if type in (PieceType.NORMAL, PieceType.USER_DEFINED) else f"\x00{piece}", score)
        for piece, score, type in parsed.pieces
    ]
    theirs = tokenizers.Tokenizer(tokenizers.models.Unigram(pieces, unk_id=0, byte_fallback=False))
    steps = [step() for step in steps] + [tokenizers.normalizers.Precompiled(parsed.charsmap)]
    theirs.normalizer = tokenizers.normalizers.Sequence(steps)
    split = tokenizers.pre_tokenizers.WhitespaceSplit()
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [split, tokenizers.pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="always")]
    )
    return theirs


def test_it_is_a_well_behaved_tokenizer_with_the_ids_of_sentencepiece_and_of_hugging_face(model):
    expected = [encoding.ids for encoding in hugging_face(model).encode_batch(HARD)]
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    assert expected == [processor.encode(text.replace("\x85", " ")) for text in HARD]
    assert UnigramTokenizer(model).tokenize(HARD).to_list() == expected
    vocabulary = [piece for piece, _, _ in SentencePieceModel.from_bytes(model).pieces]
    tokenizer = UnigramTokenizer(model, [*vocabulary, "<mask>"], mask_token="<mask>", graphemes=True)
    packing = Packing([], ["<sep>"], ["<sep>", "<cls>"], "</s>", (0, 1, 2))
    run_tokenizer_test(tokenizer, HARD, packing, expected, ["the film.", "a long film"])


def test_characters_that_a_model_with_bytes_lacks_become_their_bytes():
    model = train_model(320, byte_fallback=True)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    expected = [processor.encode(text.replace("\x85", " ")) for text in HARD]
    tokenizer = UnigramTokenizer(model)
    assert [tokenizer.vocabulary[index] for index in tokenizer.tokenize("\u65e5a").numpy()] == [
        *("\u2581", "<0xE6>", "<0x97>", "<0xA5>", "a")
    ]
    packing = Packing([], ["<sep>"], ["<sep>", "<cls>"], "</s>", (0, 1, 2))
    run_tokenizer_test(tokenizer, HARD, packing, expected, ["the film.", "\u65e5\u672c \U0001f600 film"])
    parsed = SentencePieceModel.from_bytes(model)
    written = sentencepiece.SentencePieceProcessor(model_proto=parsed.to_bytes())
    assert written.encode(HARD) == processor.encode(HARD)


def test_steps_before_the_normalization_are_those_of_hugging_face(model):
    tokenizers = pytest.importorskip("tokenizers")
    names = ["NFKD", "StripAccents", "Lowercase"]
    theirs = hugging_face(model, [getattr(tokenizers.normalizers, name) for name in names])
    ours = UnigramTokenizer(model, normalization=["NFKD", "strip_accents", "lowercase"])
    assert ours.tokenize(HARD).to_list() == [encoding.ids for encoding in theirs.encode_batch(HARD)]


def test_the_files_of_sentencepiece_are_read_and_written(model):
    parsed = SentencePieceModel.from_bytes(model)
    assert [piece for piece, _, _ in parsed.pieces[:5]] == ["<unk>", "<s>", "</s>", "<cls>", "<sep>"]
    assert [type.name for _, _, type in parsed.pieces[:3]] == ["UNKNOWN", "CONTROL", "CONTROL"]
    assert SentencePieceModel.from_bytes(parsed.to_bytes()) == parsed
    written = sentencepiece.SentencePieceProcessor(model_proto=parsed.to_bytes())
    # A negative number has ten bytes, the last of which is 1, for all 64 bits.
    assert parsed.to_bytes().count(b"\xff" * 9 + b"\x01") == 3
    assert written.encode(HARD) == sentencepiece.SentencePieceProcessor(model_proto=model).encode(HARD)
    for wrong in (b"", b"nonsense", model[:100]):
        with pytest.raises(ValueError, match="must be a SentencePiece model"):
            UnigramTokenizer(wrong)


def test_words_and_texts_of_ids(model):
    tokenizer = UnigramTokenizer(model)
    words = tokenizer.word_pieces(tf.constant(["film", "", "the"])).to_list()
    assert words[0] + words[2] == tokenizer.tokenize("film the").numpy().tolist()
    assert words[1] == [tokenizer.unk_id]
    assert tokenizer.detokenize(tokenizer.tokenize([" the  film.", ""])).numpy().tolist() == [b"the film.", b""]


def test_a_vocabulary_without_pieces_and_other_models_are_errors(model):
    with pytest.raises(ValueError, match=r"all pieces of the model.* Received: missing=\[',', '\.', 'b'\]"):
        UnigramTokenizer(model, ["<unk>", "a"])
    with pytest.raises(ValueError, match=r"Expected a list of.* Received: unknown=\['lower'\]"):
        UnigramTokenizer(model, normalization=["lower"])
    bpe = SentencePieceModel(SentencePieceModel.from_bytes(model).pieces, model_type=2)
    with pytest.raises(ValueError, match="Received: model_type=2"):
        UnigramTokenizer(bpe.to_bytes())


PACKINGS = {
    "albert": ("[CLS] a [SEP]", "[CLS] a [SEP] b [SEP]"),
    "xlnet": ("a <sep> <cls>", "a <sep> b <sep> <cls>"),
    "xlm-roberta": ("<s> a </s>", "<s> a </s> </s> b </s>"),
    "camembert": ("<s> a </s>", "<s> a </s> </s> b </s>"),
    "t5": ("a </s>", "a </s> b </s>"),
}


@pytest.mark.parametrize("kind", PACKINGS)
def test_a_folder_with_only_the_model_gets_the_packing_of_its_family(kind, model, tmp_path):
    parsed = SentencePieceModel.from_bytes(model)
    front = [("<pad>", 0.0, PieceType.CONTROL)] if kind in ("albert", "xlnet", "t5") else []
    parsed.pieces = front + parsed.pieces
    (tmp_path / "spiece.model").write_bytes(parsed.to_bytes())
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
    preprocessor = TokenPreprocessor.load(tmp_path, sequence_length=12)

    def tokens(texts):
        inputs = preprocessor(texts)
        ids = inputs["token_ids"].numpy()[0][inputs["padding_mask"].numpy()[0] == 1]
        text = " ".join(preprocessor.vocabulary[index] for index in ids)
        return " ".join(text.replace("\u2581", "").split())

    assert (tokens(["a"]), tokens((["a"], ["b"]))) == PACKINGS[kind]
    if kind == "xlnet":
        inputs = preprocessor((["a"], ["film"]))
        ids, segments = inputs["token_ids"].numpy()[0].tolist(), inputs["segment_ids"].numpy()[0].tolist()
        second = ids.index(preprocessor.token_to_id("<sep>")) + 1
        last = ids.index(preprocessor.token_to_id("<cls>"))
        assert segments == [0] * second + [1] * (last - second) + [2] + [0] * (11 - last)
    if kind == "xlm-roberta":
        assert preprocessor.vocabulary[:5] == ["<s>", "<pad>", "</s>", "<unk>", "<cls>"]
        assert preprocessor.vocabulary[-1] == "<mask>"
    if kind == "camembert":
        front = ["<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED", "<s>", "</s>", "<cls>"]
        assert preprocessor.vocabulary[: len(front)] == front
    if kind == "t5":
        assert preprocessor.vocabulary[-1] == "<extra_id_0>"
        assert "<extra_id_0>" in preprocessor.tokenizer.special_tokens
        assert "a" not in preprocessor.tokenizer.special_tokens


def test_a_tokenizer_json_without_an_unknown_token_is_an_error(model, tmp_path):
    TokenPreprocessor(UnigramTokenizer(model), Packing(end=["</s>"], pad="<s>")).save(tmp_path)
    fast = json.loads((tmp_path / "tokenizer.json").read_text("utf-8"))
    fast["model"]["unk_id"] = None
    (tmp_path / "tokenizer.json").write_text(json.dumps(fast))
    with pytest.raises(ValueError, match="must have an `unk_id`. Received: unk_id=None"):
        TokenPreprocessor.load(tmp_path)


# === Fields of a model, and texts that look like its pieces ===


def test_a_text_that_spells_a_byte_piece_is_read_as_the_format_of_the_file_reads_it():
    tokenizers = pytest.importorskip("tokenizers")
    model = train_model(330, byte_fallback=True)
    parsed = sentencepiece.SentencePieceProcessor(model_proto=model)
    pieces = [(parsed.id_to_piece(index), parsed.get_score(index)) for index in range(len(parsed))]
    theirs = tokenizers.Tokenizer(tokenizers.models.Unigram(pieces, unk_id=0, byte_fallback=True))
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    theirs.normalizer = tokenizers.normalizers.Precompiled(SentencePieceModel.from_bytes(model).charsmap)
    texts = ["the <0x41> film", "<0x4a> <0x4A>\u00e9", "a<0x41>b<0x4", "<0x00>", "<0xFF><0xE4>"]
    fast = json.loads(theirs.to_str())
    ours = FORMATS[UnigramTokenizer].read(fast, [piece for piece, _ in pieces], [], graphemes=False)
    expected = [theirs.encode(text).ids for text in texts]
    assert ours.tokenize(texts).to_list() == expected
    assert expected[0] != parsed.encode(texts[0])
    assert UnigramTokenizer(model).tokenize(texts).to_list() == parsed.encode(texts)
    copy = UnigramTokenizer(ours.serialized_model, ours.vocabulary, **ours.get_config())
    write = FORMATS[UnigramTokenizer].write
    assert copy.tokenize(texts).to_list() == expected and write(copy)["model"]["vocab"] == write(ours)["model"]["vocab"]


def test_control_symbols_add_nothing_to_a_text(model):
    theirs = sentencepiece.SentencePieceProcessor(model_proto=model)
    ids = [theirs.piece_to_id(piece) for piece in ("<s>", "[CLS]", "\u2581film", "<sep>", "s", "</s>")]
    assert UnigramTokenizer(model).detokenize([ids]).numpy().tolist() == [theirs.decode(ids).encode()]


test_fields_that_would_split_texts_differently_are_errors = check_errors(
    (
        lambda: UnigramTokenizer(train_model(treat_whitespace_as_suffix=True)),
        "Train it with treat_whitespace_as_suffix=False ... Received: settings={'treat_whitespace_as_suffix': True",
    ),
    (
        lambda: SentencePieceBPETokenizer.from_model(train_model(model_type="bpe", treat_whitespace_as_suffix=True)),
        "Train it with treat_whitespace_as_suffix=False ... Received: settings={'treat_whitespace_as_suffix': True",
    ),
    (
        lambda: UnigramTokenizer(_with_a_phrase(False)),
        "Train the model with split_by_whitespace=True. Received: inside=['▁the▁film']",
    ),
    (
        lambda: UnigramTokenizer(train_model(user_defined_symbols=["<x>", "\u2163", "\ufb01"])),
        "Train the model with normalized symbols. Received: ['\u2163', '\ufb01']",
    ),
)


def _with_a_phrase(split):
    """A model with a piece of two words, and the value of split_by_whitespace."""
    from sentencepiece import sentencepiece_model_pb2 as proto

    found = proto.ModelProto.FromString(train_model())
    found.trainer_spec.split_by_whitespace = split
    found.pieces.add(piece="\u2581the\u2581film", score=-1.0)
    return found.SerializeToString()


def test_extra_spaces_that_a_model_keeps_are_named_in_a_warning(caplog):
    tokenizer = UnigramTokenizer(train_model(remove_extra_whitespaces=False))
    assert "keeps consecutive spaces (remove_extra_whitespaces=False)" in caplog.text
    assert tokenizer.tokenize(["the  film"]).to_list() == tokenizer.tokenize(["the film"]).to_list()
