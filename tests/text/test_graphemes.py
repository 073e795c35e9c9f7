"""The compiled normalization of `UnigramTokenizer`: by grapheme clusters or by the longest match."""

import json
import random

import pytest

from keras_transfer.text import TokenPreprocessor, UnigramTokenizer
from keras_transfer.text.tokenizers.sentencepiece_model import PieceType, SentencePieceModel
from tests.samples import characters
from tests.text.tokenizers.test_unigram import hugging_face, train_model

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")
sentencepiece = pytest.importorskip("sentencepiece")

# What a text becomes, by grapheme clusters and by the longest match.
CLUSTERS = {
    "a\u0301": ("\xe1", "\xe1"),
    "e\u0302\u0301": ("\xea", "\u1ebf"),  # Hugging Face drops the second accent,
    "a\u0301\u0328\u0302": ("a\u0301\u0328\u0302", "\xe1\u0328\u0302"),  # but composes nothing in more than 5 bytes.
    "\u304b\u3099": ("\u304b\u3099", "\u304c"),
    "\uff76\uff9e": ("\u30ab\u3099", "\u30ac"),
    "\u1112\u1161\u11ab": ("\u1112\u1161\u11ab", "\ud55c"),
    "\ufb01\u0301": ("fi", "fi\u0301"),
    "a\xa0\u0301b": ("a b", "a \u0301b"),
    "\xa8\u0301": (" \u0308", " \u0308\u0301"),
    "\u0600a\u0301": ("\u0600a\u0301", "\u0600\xe1"),
    "a\u200d\u0301": ("a\u200d\u0301", "a\u200d\u0301"),
    "\x01\u0340\u0301": ("\u0300", "\u0300\u0301"),
    "a\r\nb \u0301": ("a b \u0301", "a b \u0301"),
}
POOL = [*"ae\u00e1\u00a0\u00aa\u00a8\u2122\u0600\u06dd\u304b\uff76\ufb01\u1100\u1161\uac00\u0915\u0958\u09a4\u00a9"]
POOL += [*" \n\r\t\x01\u200b\u200c\u200d\u2028\xad\u0340\u0344\u0301\u0302\u0323\u0328\u093c\u094d\u0903\u3099\uff9e"]
POOL += [*"\ufe0f\u20e3\U000e0100\U0001f3fb\U0001f600\U000110bd\U0001d158\U0001d165\u1ab0\u0f71\u0f72"]


@pytest.fixture(scope="module")
def charsmap():
    return SentencePieceModel.from_bytes(train_model()).charsmap


def model_of_characters(charsmap, found):
    """Returns a model in which each character is a piece."""
    pieces = [("<unk>", 0.0, PieceType.UNKNOWN)]
    pieces += [(piece, -1.0, PieceType.NORMAL) for piece in dict.fromkeys(["\u2581", *found]) if not piece.isspace()]
    return SentencePieceModel(pieces, charsmap).to_bytes()


def different(charsmap, texts, keep_spaces=False):
    """Returns the texts whose ids differ from Hugging Face's with a vocabulary of all their characters."""
    tokenizers = pytest.importorskip("tokenizers")
    compiled = tokenizers.normalizers.Precompiled(charsmap)
    model = model_of_characters(charsmap, sorted({*"".join(texts), *"".join(map(compiled.normalize_str, texts))}))
    theirs = hugging_face(model)
    if keep_spaces:
        theirs.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    ours = UnigramTokenizer(model, keep_spaces=keep_spaces, graphemes=True).tokenize(tf.constant(texts)).to_list()
    expected = [encoding.ids for encoding in theirs.encode_batch(texts)]
    return [text for text, mine, other in zip(texts, ours, expected, strict=True) if mine != other]


def test_short_grapheme_clusters_are_normalized_as_a_whole_or_the_longest_match(charsmap):
    found = sorted({*"".join(map("".join, CLUSTERS.values()))})
    model = model_of_characters(charsmap, found)
    plain = UnigramTokenizer(model_of_characters(b"", found))
    for graphemes in (True, False):
        tokenizer = UnigramTokenizer(model, graphemes=graphemes)
        expected = plain.tokenize([results[not graphemes] for results in CLUSTERS.values()]).to_list()
        assert tokenizer.tokenize([*CLUSTERS]).to_list() == expected


@pytest.mark.parametrize("keep_spaces", [False, True])
def test_grapheme_clusters_give_the_ids_of_hugging_face(keep_spaces, charsmap):
    rng = random.Random(0)
    texts = ["".join(rng.choices(POOL, k=rng.randint(1, 9))) for _ in range(3000)]
    assert different(charsmap, [*CLUSTERS, *texts], keep_spaces) == []


def test_the_longest_match_gives_the_ids_of_sentencepiece(charsmap):
    rng = random.Random(1)
    texts = [*CLUSTERS, *("".join(rng.choices(POOL, k=rng.randint(1, 9))) for _ in range(1000))]
    normalizer = sentencepiece.SentencePieceProcessor(model_proto=model_of_characters(charsmap, "a"))
    model = model_of_characters(charsmap, sorted({*"".join(texts), *"".join(map(normalizer.normalize, texts))}))
    theirs = sentencepiece.SentencePieceProcessor(model_proto=model)
    assert UnigramTokenizer(model).tokenize(texts).to_list() == theirs.encode(texts)


def test_a_folder_keeps_the_rule_of_its_files(tmp_path):
    (tmp_path / "spiece.model").write_bytes(train_model())
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "xlm-roberta"}))
    alone = TokenPreprocessor.load(tmp_path)
    alone.save(tmp_path / "saved")
    assert not alone.tokenizer.graphemes
    assert not TokenPreprocessor.load(tmp_path / "saved").tokenizer.graphemes
    (tmp_path / "saved" / "tokenizer_config.json").write_text(json.dumps({"pad_token": "<pad>"}))
    other = TokenPreprocessor.load(tmp_path / "saved")
    other.save(tmp_path / "other")
    assert other.tokenizer.graphemes
    assert TokenPreprocessor.load(tmp_path / "other").tokenizer.graphemes
    assert UnigramTokenizer.from_config(other.tokenizer.get_config()).graphemes


FAMILIES = {  # where Transformers 5 drops the model's normalization or its accents
    "xlnet": {"keep_accents": True, "pad_token": "<unk>"},
    "deberta-v2": {"cls_token": "<s>", "sep_token": "</s>", "pad_token": "<unk>", "unk_token": "<unk>"},
}


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_model_alone_keeps_its_normalization_as_in_sentencepiece(kind, charsmap, tmp_path):
    texts = ["caf\xe9 \uff21\uff22 \ufb01", "e\u0302\u0301 \u304b\u3099", "mollà\xa0\u0301", "a\x0bb \xbd"]
    model = model_of_characters(charsmap, sorted({*"".join(texts), *"AB1\u20442fi\u1ebf\u304c"}))
    parsed = SentencePieceModel.from_bytes(model)
    control = [(token, 0.0, PieceType.CONTROL) for token in ("<s>", "</s>", "<cls>", "<sep>")]
    parsed.pieces = [parsed.pieces[0], *control, *parsed.pieces[1:]]
    (tmp_path / "spiece.model").write_bytes(parsed.to_bytes())
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(FAMILIES[kind]))
    expected = sentencepiece.SentencePieceProcessor(model_proto=parsed.to_bytes()).encode(texts)
    assert TokenPreprocessor.load(tmp_path).tokenizer.tokenize(texts).to_list() == expected


@pytest.mark.parametrize("form", ["a{}", "a{}\u0301", "\u00aa{}", "{}a\u0301", "{}\u0340\u0301", "\u0301{}b"])
def test_every_character_is_in_the_cluster_of_hugging_face(form, charsmap):
    texts = [form.format(character) for character in characters(97) if character != "\0"]
    assert [ascii(text) for text in different(charsmap, texts)] == []
