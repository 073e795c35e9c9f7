"""Scores of words: in closed form, complete, equal to loops over `predict` and to captum's, of pieces, and shown."""

import html.parser
import sys

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_transfer.analysis import Attributions, attribute
from keras_transfer.analysis.attribution_rows import named, word_spans
from keras_transfer.checkpoints import WordVectors
from keras_transfer.encoders import (
    AlbertEncoder,
    Bart,
    BartEncoder,
    BertEncoder,
    DebertaV2Encoder,
    ElmoEncoder,
    GPT2Encoder,
    ModernBertEncoder,
    T5Encoder,
    TransformerEncoder,
    WordVectorEncoder,
    XLNetEncoder,
)
from keras_transfer.tasks import CausalLM, Seq2SeqLM, SpanExtractor, TextClassifier, TextRegressor, TokenClassifier
from keras_transfer.text import (
    BertPreprocessor,
    ByteBPETokenizer,
    ElmoPreprocessor,
    Packing,
    TokenPreprocessor,
    UnigramTokenizer,
    WordPreprocessor,
)
from keras_transfer.text.tokenizers.byte_bpe import byte_characters
from keras_transfer.text.tokenizers.sentencepiece_model import PieceType, SentencePieceModel
from tests.errors import check_errors
from tests.tasks import tiny

TEXTS = ["a good b c", "bad d e f g h i bad"]


def curved(**options):
    """A classifier whose output is far from linear in the vectors of the tokens."""
    keras.utils.set_random_seed(0)
    encoder = tiny.encoder(num_layers=2, initializer_range=0.3)
    return TextClassifier(encoder, tiny.preprocessor(), **{"num_classes": 3, "dropout": 0.0, **options})


# === Right values ===


@pytest.mark.core
def test_integrated_gradients_of_a_linear_model_are_those_by_hand():
    model = tiny.of_vectors()
    found = attribute(model, ["good a b", "bad"], target=1, steps=3)
    vectors = to_numpy(model.encoder.token_embedding.embeddings)
    kernel = to_numpy(model.get_layer("logits").kernel)[:, 1]
    for words, scores, places in zip([["good", "a", "b"], ["bad"]], found.word_scores, [[2, 4, 5], [3]]):
        np.testing.assert_allclose(scores, (vectors[places] - vectors[0]) @ kernel / len(words), atol=1e-6)
    np.testing.assert_allclose(found.delta, 0, atol=1e-6)
    zero = attribute(model, ["good"], target=1, steps=2, baseline="zero")
    assert zero.word_scores[0][0] == pytest.approx(vectors[2] @ kernel, abs=1e-6)


@pytest.mark.core
def test_scores_sum_to_the_difference_from_the_baseline(eagerly):
    model = curved()
    for options in ({}, {"baseline": "mask"}, {"output": "probability"}, {"layer": 1}):
        found = attribute(model, TEXTS, target=[0, "2"], steps=50, **options)
        change = found.prediction - found.baseline_prediction
        np.testing.assert_allclose([row.sum() for row in found.scores], change, rtol=0.01)
        assert np.abs(change).min() > 1e-3 and found.target == ["0", "2"]
    logits = model.predict(TEXTS, verbose=0)
    found = attribute(model, TEXTS, steps=2)
    np.testing.assert_allclose(found.prediction, logits.max(axis=1), atol=1e-5)


SIZES = {"num_layers": 2, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32}
FAMILIES = {
    "albert": lambda: tiny.encoder(AlbertEncoder, num_layers=2),
    "bart": lambda: tiny.encoder(BartEncoder, num_layers=2),
    "deberta": lambda: DebertaV2Encoder(17, **SIZES),
    "gpt2": lambda: tiny.encoder(GPT2Encoder, num_layers=2),
    "modernbert": lambda: tiny.encoder(ModernBertEncoder, num_layers=2),
    "t5": lambda: T5Encoder(17, **SIZES),
    "xlnet": lambda: XLNetEncoder(17, **SIZES),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_of_every_family_sum_to_the_difference(family, eagerly):
    keras.utils.set_random_seed(0)
    model = TextClassifier(FAMILIES[family](), tiny.preprocessor(), num_classes=2, dropout=0.0, pooling="mean")
    model.get_layer("logits").kernel.assign(np.random.default_rng(0).normal(size=(16, 2)))
    for layer in (0,) if family == "albert" else (0, 1):
        steps = 500 if family == "t5" else 20  # Its attention is sharper.
        found = attribute(model, TEXTS, target=1, steps=steps, layer=layer, batch_size=500)
        change = found.prediction - found.baseline_prediction
        np.testing.assert_allclose([row.sum() for row in found.scores], change, rtol=0.01, atol=1e-5)
        np.testing.assert_allclose(found.prediction, model.predict(TEXTS, verbose=0)[:, 1], atol=1e-5)
        assert np.abs(change).min() > 1e-4


@pytest.mark.core
def test_a_baseline_without_a_gradient_has_no_part_in_the_scores(eagerly):
    keras.utils.set_random_seed(0)
    encoder = tiny.encoder(activation=lambda x: keras.ops.sqrt(keras.ops.square(x)))  # Its inputs are 0 for zeros.
    model = TextClassifier(encoder, tiny.preprocessor(), num_classes=2, dropout=0.0)
    found = attribute(model, TEXTS, baseline="zero", steps=3)
    assert all(np.isfinite(scores).all() and np.abs(scores).max() > 0 for scores in found.scores)


@pytest.mark.core
def test_more_steps_than_rows_of_a_batch_give_the_same_scores(eagerly):
    model = curved()
    few, many = (attribute(model, TEXTS, steps=7, batch_size=size) for size in (3, 64))
    for one, other in zip(few.scores, many.scores):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.core
def test_the_gradient_times_the_input_is_the_limit_of_smoothgrad_without_noise(eagerly):
    model = tiny.of_vectors()
    kernel = to_numpy(model.get_layer("logits").kernel)[:, 0]
    vectors = to_numpy(model.encoder.token_embedding.embeddings)
    for method in ("gradient_x_input", "smoothgrad"):
        found = attribute(model, ["good a"], method=method, target=0, noise=0.0)
        np.testing.assert_allclose(found.word_scores[0], vectors[[2, 4]] @ kernel / 2, atol=1e-6)
    curve = curved()
    exact, noisy = (attribute(curve, TEXTS, method="smoothgrad", noise=noise).scores[0] for noise in (0.0, 0.3))
    assert np.abs(exact - noisy).max() > 1e-3


def test_occlusion_and_erasure_are_differences_of_predictions(eagerly):
    model = curved()
    words = TEXTS[1].split()
    logit = model.predict(TEXTS[1:], verbose=0)[0]
    hidden = attribute(model, TEXTS, method="occlusion", baseline="mask", target=1).word_scores[1]
    inputs = {name: np.array(values) for name, values in model.preprocessor(TEXTS[1:]).items()}
    for place in range(len(words)):
        changed = {**inputs, "token_ids": inputs["token_ids"].copy()}
        changed["token_ids"][0, place + 1] = tiny.VOCABULARY.index("[MASK]")
        assert hidden[place] == pytest.approx(logit[1] - model.predict(changed, verbose=0)[0, 1], abs=1e-5)
    deleted = attribute(model, TEXTS, method="erasure", target=1).word_scores[1]
    texts = [" ".join(words[:place] + words[place + 1 :]) for place in range(len(words))]
    np.testing.assert_allclose(deleted, logit[1] - model.predict(texts, verbose=0)[:, 1], atol=1e-5)


@pytest.mark.parity
def test_integrated_gradients_are_those_of_captum(tmp_path):
    attr = pytest.importorskip("captum.attr", reason="is compared with: pip install 'keras_transfer[parity]'")
    torch = pytest.importorskip("torch")
    import transformers

    config = transformers.BertConfig(
        vocab_size=len(tiny.VOCABULARY), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, num_labels=3,
        intermediate_size=32, initializer_range=0.3, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        max_position_embeddings=32,
    )  # fmt: skip
    torch.manual_seed(0)
    theirs = transformers.BertForSequenceClassification(config).eval()

    theirs.save_pretrained(tmp_path)
    encoder = BertEncoder.from_pretrained(tmp_path)
    model = TextClassifier(encoder, tiny.preprocessor(), num_classes=3, dropout=0.0)
    logits = model.get_layer("logits")
    logits.kernel.assign(theirs.classifier.weight.detach().numpy().T)
    logits.bias.assign(theirs.classifier.bias.detach().numpy())
    found = attribute(model, TEXTS, target=2, steps=20)
    for text, scores in zip(TEXTS, found.scores):
        inputs = {key: np.array(value).astype("int64") for key, value in model.preprocessor([text]).items()}
        real = int(inputs["padding_mask"].sum())
        ids = torch.tensor(inputs["token_ids"][:, :real])
        baseline = torch.where((ids == 2) | (ids == 3), ids, 0)
        explainer = attr.LayerIntegratedGradients(lambda ids: theirs(ids).logits, theirs.bert.embeddings)
        expected = explainer.attribute(ids, baseline, target=2, n_steps=20, method="gausslegendre")
        np.testing.assert_allclose(scores, expected.sum(-1)[0].detach().numpy(), atol=1e-4)


# === Other tasks ===


@pytest.mark.core
def test_a_tagger_explains_the_label_of_a_word(eagerly):
    keras.utils.set_random_seed(0)
    model = TokenClassifier(tiny.encoder(initializer_range=0.3), tiny.preprocessor(), label_names=["N", "V"])
    sentences = [["a", "goodbad!", "c"], ["bad", "d"]]
    found = attribute(model, sentences, target=[(1, "V"), 0])
    logits = model.predict(sentences, verbose=0)
    best = logits[1][0].argmax()
    np.testing.assert_allclose(found.prediction, [logits[0][1][1], logits[1][0][best]], atol=1e-5)
    assert found.target == ["goodbad!: V", f"bad: {'NV'[best]}"] and found.words == sentences
    np.testing.assert_allclose(
        [row.sum() for row in found.scores], found.prediction - found.baseline_prediction, rtol=0.01
    )
    deleted = attribute(model, sentences, target=[(1, "V"), 0], method="erasure").word_scores
    without = model.predict([["a", "goodbad!"], ["bad"]], verbose=0)
    assert deleted[0][2] == pytest.approx(logits[0][1][1] - without[0][1][1], abs=1e-5)
    assert deleted[0][1] == 0  # Without the word, there is nothing to label.


def test_a_tagger_explains_its_surest_label_that_is_not_the_most_frequent_one():
    words, vectors = ["a", "b", "good", "bad"], [[3.0, 0.0], [1.0, 0.0], [0.0, 2.0], [0.0, 1.0]]
    encoder = WordVectorEncoder.from_vectors(WordVectors(words, np.array(vectors)))
    model = TokenClassifier(encoder, WordPreprocessor(words, sequence_length=8), label_names=["O", "X"])
    model.get_layer("logits").kernel.assign(np.eye(2))
    sentences = [["a", "bad", "good", "b"], ["b", "a"]]
    for method in ("integrated_gradients", "erasure"):
        assert attribute(model, sentences, method=method, steps=2).target == ["good: X", "a: O"]


def test_a_tagger_with_a_random_field_explains_a_label_that_it_predicts():
    words = ["a", "b", "good"]
    encoder = WordVectorEncoder.from_vectors(
        WordVectors(words, np.array([[0.0, 2.0, 1.0], [3.0, 0.0, 0.0], [3.0, 0.0, 0.0]]))
    )
    model = TokenClassifier(
        encoder, WordPreprocessor(words, sequence_length=8), label_names=["O", "I-X", "B-X"], crf=True
    )
    model.get_layer("logits").kernel.assign(np.eye(3))  # "a" is most like "I-X", which begins no entity.
    assert model.predict_words([["a", "b", "good"]])[0][0] == ("a", "B-X")
    assert attribute(model, [["a", "b", "good"]], method="erasure").target == ["a: B-X"]


def test_a_word_that_is_labeled_is_never_deleted(eagerly):
    keras.utils.set_random_seed(0)
    model = TokenClassifier(tiny.encoder(initializer_range=0.3), tiny.preprocessor(), label_names=["N", "V"])
    found = attribute(model, [["a", "bad", "c"], ["bad"]], target=[(1, "V"), (0, "V")], method="erasure")
    alone, drop = model.predict([["bad"]], verbose=0)[0][0, 1], found.deletion_curve([1.0], seeds=1).rows[0]["drop"]
    assert drop == pytest.approx((found.prediction - alone).mean(), abs=1e-5) and abs(drop) > 1e-3


def test_a_part_of_a_long_sentence_has_all_words_that_it_reads(eagerly):
    keras.utils.set_random_seed(0)
    preprocessor = tiny.preprocessor(sequence_length=7)
    model = TokenClassifier(tiny.encoder(initializer_range=0.3), preprocessor, label_names=["N", "V"])
    words = ["a", "b!", "c", "d", "e!", "f", "g", "h"]  # b! and e! have two tokens.
    found = attribute(model, [words] * 3, target=[0, 5, 7], steps=2)
    assert found.words == [["a", "b!", "c", "d"], ["d", "e!", "f", "g"], ["g", "h"]]
    owners = [[-1, 0, 1, 1, 2, 3, -1], [-1, 0, 1, 1, 2, 3, -1], [-1, 0, 1, -1]]
    assert [owner.tolist() for owner in found.owners] == owners


def test_an_answer_is_explained_by_its_first_and_its_last_token(eagerly):
    keras.utils.set_random_seed(0)
    model = SpanExtractor(tiny.encoder(initializer_range=0.3), tiny.preprocessor())
    question, context = "a good", "bad d e f good c"
    found = attribute(model, ([question], [context]))
    assert found.target == [model.answer(question, context)["text"]]
    assert found.words == [[*question.split(), *context.split()]]
    np.testing.assert_allclose(found.scores[0].sum(), found.prediction - found.baseline_prediction, rtol=0.01)


def writer():
    keras.utils.set_random_seed(0)
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32}
    encoder = TransformerEncoder(len(tiny.VOCABULARY), causal=True, initializer_range=0.3, **sizes)
    return CausalLM(encoder, tiny.preprocessor(), max_length=8)


@pytest.mark.core
def test_each_generated_token_is_a_row_after_the_tokens_before_it(eagerly):
    model = writer()
    found = attribute(model, ["a good"], target=" bad c", method="occlusion", output="probability")
    assert found.words == [["a", "good"], ["a", "good", "bad"]] and found.target == ["bad", "c"]
    scores = model.score(["a good bad c"]).token_log_likelihoods[0][2:4]
    np.testing.assert_allclose(found.prediction, np.exp(scores), rtol=1e-5)


@pytest.mark.core
def test_the_words_of_a_source_are_scored_for_each_token_of_a_target(eagerly):
    keras.utils.set_random_seed(0)
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32}
    model = Seq2SeqLM(Bart(len(tiny.VOCABULARY), initializer_range=0.3, **sizes), tiny.preprocessor())
    found = attribute(model, ["a good c"], target=["bad"])
    change = found.prediction - found.baseline_prediction
    assert found.words == [["a", "good", "c"]] * 3 and found.target == ["[CLS]", "bad", "[SEP]"]
    np.testing.assert_allclose([row.sum() for row in found.scores], change, rtol=0.01)
    erased = attribute(model, ["a good c"], target=["bad"], method="erasure").word_scores[0]
    with_all, without = (np.asarray(model.score([text], ["bad"]))[0] for text in ("a good c", "a c"))
    assert erased[1] == pytest.approx(with_all - without, abs=1e-4)


def test_a_regressor_of_pairs_scores_the_words_of_both_texts(eagerly):
    keras.utils.set_random_seed(0)
    model = TextRegressor(tiny.encoder(initializer_range=0.3), tiny.preprocessor())
    for method in ("integrated_gradients", "erasure"):
        found = attribute(model, (["a good"], ["bad d"]), method=method)
        assert found.words == [["a", "good", "bad", "d"]] and np.abs(found.word_scores[0]).min() > 0
        np.testing.assert_allclose(found.prediction, model.predict((["a good"], ["bad d"]), verbose=0)[:, 0], atol=1e-5)


@pytest.mark.parametrize("package", ["lime", "shap"])
def test_a_package_finds_the_word_that_decides(package, eagerly):
    pytest.importorskip(package, reason=f"explains predictions: pip install {package}")
    model = tiny.of_vectors()
    model.get_layer("logits").kernel.assign(10 * model.get_layer("logits").kernel)
    found = attribute(model, ["good a bad b"], method=package, target=1)
    expected = attribute(model, ["good a bad b"], method="erasure", target=1)
    assert np.abs(found.word_scores[0]).argmax() == np.abs(expected.word_scores[0]).argmax()
    again = attribute(model, ["good a bad b"], method=package, target=1)
    np.testing.assert_array_equal(found.scores[0], again.scores[0])


@pytest.mark.parametrize("package", ["lime", "shap"])
def test_a_package_changes_a_text_as_often_as_there_are_samples(package, eagerly, monkeypatch):
    pytest.importorskip(package, reason=f"explains predictions: pip install {package}")
    model, counts, predict = tiny.of_vectors(), [], TextClassifier.predict
    monkeypatch.setattr(
        TextClassifier, "predict", lambda self, x, **options: counts.append(len(x)) or predict(self, x, **options)
    )
    attribute(model, ["good a bad b"], method=package, target=1, samples=24)
    assert 18 <= sum(counts) - 2 <= 24  # Two predictions are of the text itself. SHAP takes whole orders of the words.


# === Words ===


def words_of(preprocessor, texts):
    """The words of texts, and which of the words each of their tokens belongs to."""
    inputs = {name: np.array(values) for name, values in preprocessor(texts).items()}
    _, words, owners = named(preprocessor, inputs, (texts,))
    return words, [owner.tolist() for owner in owners]


def test_pieces_are_joined_to_the_words_of_the_text():
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "play", "##ing", "well", "!", "中", "文", "می", "##خواهم"]
    words, owners = words_of(
        BertPreprocessor(vocabulary, sequence_length=12), ["Playing  well!", "中文 zzz می\u200cخواهم"]
    )
    assert words == [["Playing", "well", "!"], ["中", "文", "zzz", "می\u200cخواهم"]]
    assert owners == [[-1, 0, 0, 1, 2, -1], [-1, 0, 1, 2, 3, 3, -1]]


def test_bytes_and_pieces_with_spaces_are_joined_to_words():
    merges = [("\u0120", "a"), ("a", "b")]
    tokenizer = ByteBPETokenizer(["<pad>", *byte_characters(), *map("".join, merges)], merges, eos_token="<pad>")
    words, owners = words_of(TokenPreprocessor(tokenizer, Packing(pad="<pad>")), ["abc ad!é"])
    assert words == [["abc", "ad", "!", "é"]]
    assert owners == [[0, 0, 1, 1, 2, 3, 3]]
    pieces = [("<unk>", 0.0, PieceType.UNKNOWN), ("<pad>", 0.0, PieceType.CONTROL)]
    pieces += [(piece, -1.0, PieceType.NORMAL) for piece in ("▁ab", "c", "▁d", "e", "!")]
    tokenizer = UnigramTokenizer(SentencePieceModel(pieces).to_bytes())
    words, owners = words_of(TokenPreprocessor(tokenizer, Packing(pad="<pad>")), ["abc de!c"])
    assert words == [["abc", "de", "!", "c"]] and owners == [[0, 0, 1, 1, 2, 3]]


@pytest.mark.parametrize("kind", ["bytes", "pieces"])
def test_all_methods_cut_a_text_into_the_same_words(kind, eagerly):
    if kind == "bytes":
        characters, merges = byte_characters(), [("'", "t")]
        tokenizer = ByteBPETokenizer(["<pad>", *characters, "'t"], merges, eos_token="<pad>")
    else:
        pieces = [("<unk>", 0.0, PieceType.UNKNOWN), ("<pad>", 0.0, PieceType.CONTROL)]
        pieces += [(piece, -1.0, PieceType.NORMAL) for piece in ("▁don", "'t", "▁", "go", "!")]
        tokenizer = UnigramTokenizer(SentencePieceModel(pieces).to_bytes())
    preprocessor = TokenPreprocessor(tokenizer, Packing(pad="<pad>", segments=(0, 0)))
    encoder = BertEncoder(preprocessor.vocabulary_size, num_layers=1, num_heads=2, hidden_dim=16, intermediate_dim=32)
    model = TextClassifier(encoder, preprocessor, num_classes=2)
    for method in ("gradient_x_input", "occlusion", "erasure"):
        assert attribute(model, ["don't go!!"], method=method).words == [["don't", "go", "!", "!"]]


def test_a_text_is_cut_alike_whatever_the_other_texts_are():
    pieces = [("<unk>", 0.0, PieceType.UNKNOWN), ("<pad>", 0.0, PieceType.CONTROL)]
    pieces += [(piece, -1.0, PieceType.NORMAL) for piece in ("▁don", "'t", "▁go")]
    tokenizer = UnigramTokenizer(SentencePieceModel(pieces).to_bytes(), normalization=["lowercase"])
    preprocessor = TokenPreprocessor(tokenizer, Packing(pad="<pad>"))
    [alone], [with_other, other] = (word_spans(preprocessor, texts) for texts in (["don't go"], ["don't go", "Don't"]))
    assert alone == with_other == [(0, 5), (6, 8)]
    assert other == [(0, 3), (3, 4), (4, 5)]  # Its pieces do not stand in it.


# === How they are shown ===

HOSTILE = "<script>alert(1)</script>"


class Balance(html.parser.HTMLParser):
    """The open tags of a page, and all tags that occur."""

    def __init__(self, page):
        super().__init__()
        self.open, self.seen = [], set()
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def shown(words):
    """Attributions of one row with these words."""
    scores = [np.linspace(-1, 1, len(words))]
    return Attributions(
        "erasure", "logit", [HOSTILE], [words], [words], [np.arange(len(words))], scores, np.ones(1), id
    )


@pytest.mark.parametrize(
    "words", [[HOSTILE, "\u202eabc", "שלום", '"&\ud800', "\x1b[31m", "a\rb", "$x^$"], ["שלום<b>"] * 10_000]
)
def test_a_page_of_hostile_words_is_harmless_and_small(words, tmp_path):
    found = shown(words)
    found.to_html(tmp_path / "why.html")
    page = (tmp_path / "why.html").read_text("utf-8")
    balance = Balance(page)
    assert not balance.open and not balance.seen & {"script", "b", "img", "link"} and "http" not in page
    assert 'dir="auto"' in page and "\u202e" not in page and len(page) < 2_000_000
    assert not set("\x1b\u202e\r") & {*str(found)} and len(str(found)) < 20_000
    found.plot().savefig(tmp_path / "why.svg")
    if len(words) > 1000:
        assert "9,000 more words" in page and "9,000 more words" in str(found)


def test_a_terminal_shows_colors_unless_it_should_not(monkeypatch):
    found = shown(["bad", "good"])
    assert str(found) == f"[0] {HOSTILE}: 1\n    bad(-1) good(+1)"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert "\x1b[38;5;16;48;5;" in str(found)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in str(found)


def test_the_table_has_a_line_for_each_word():
    frame = attribute(tiny.of_vectors(), ["good a", "bad"], steps=2).to_frame()
    assert frame.index.tolist() == [(0, 0), (0, 1), (1, 0)] and frame["word"].tolist() == ["good", "a", "bad"]


def test_hiding_the_words_that_score_most_lowers_the_output_faster_than_random_words():
    model = tiny.of_vectors()
    found = attribute(model, ["good a b c", "bad d e f"], target=1, steps=2)
    few, all_words, mean = found.deletion_curve([0.25, 1.0], seeds=3).rows
    assert few["drop"] == pytest.approx(np.mean([scores.max() for scores in found.word_scores]), abs=1e-5)
    assert all_words["drop"] == pytest.approx(np.mean([scores.sum() for scores in found.word_scores]), abs=1e-5)
    assert all_words["random"] == pytest.approx(all_words["drop"], abs=1e-5) and few["random"] < few["drop"]
    assert mean["fraction"] == "mean" and mean["drop"] == pytest.approx((few["drop"] + all_words["drop"]) / 2)


# === Mistakes ===


def of_characters():
    sizes = {"num_layers": 2, "projection_dim": 4, "units": 4, "filters": [(1, 8)], "num_highways": 1}
    return TextClassifier(ElmoEncoder(**sizes), ElmoPreprocessor(), num_classes=2)


def test_words_of_characters_can_be_hidden_and_deleted(eagerly):
    for method in ("occlusion", "erasure"):
        found = attribute(of_characters(), ["a good"], method=method)
        assert found.words == [["a", "good"]] and np.abs(found.word_scores[0]).max() > 0


@pytest.mark.parametrize("method", ["integrated_gradients", "occlusion", "erasure"])
def test_a_text_without_words_has_no_scores(method, eagerly):
    found = attribute(tiny.classifier(), [""], method=method)
    assert found.words == [[]] and found.rows == [] and "[0]" in str(found)
    assert found.deletion_curve(seeds=1).rows[-1]["drop"] == 0


def repeating():
    return TextClassifier(tiny.encoder(AlbertEncoder, num_layers=2), tiny.preprocessor(), num_classes=2)


def diverged():
    model = tiny.of_vectors()
    model.get_layer("logits").bias.assign([np.nan, 0.0])
    return model


def quantized():
    model = tiny.of_vectors()
    model.quantize("int8")
    return model


def tagger(**options):
    return TokenClassifier(tiny.encoder(), tiny.preprocessor(), label_names=["N", "V"], **options)


test_a_mistake_is_one_clear_error = check_errors(
    (lambda: attribute(tiny.encoder(), TEXTS), "one of the tasks ... BertEncoder"),
    (lambda: attribute(tiny.of_vectors(), TEXTS, method="ig"), "`method` must be one of ... 'ig'"),
    (lambda: attribute(tiny.of_vectors(), TEXTS, steps=1), "at least 2 ... steps=1"),
    (lambda: attribute(tiny.of_vectors(), TEXTS, target=7), "a number from 0 to 1 ... target=7, row=0"),
    (lambda: attribute(tiny.of_vectors(), TEXTS, target=[0]), "one target for all rows ... rows=2, targets=1"),
    (lambda: attribute(tiny.of_vectors(), TEXTS, layer=3), "from 0 to 0 ... layer=3"),
    (lambda: attribute(quantized(), TEXTS), "Use 'occlusion' or 'erasure' ... 'integrated_gradients'"),
    (
        lambda: attribute(tiny.of_vectors(), TEXTS, method="occlusion", baseline="zero"),
        "`baseline='zero'` is for integrated gradients ... method='occlusion'",
    ),
    (lambda: attribute(tiny.of_vectors(), TEXTS, baseline="mask"), "no mask token ... baseline='mask'"),
    (lambda: attribute(tiny.classifier(siamese=True), (["a"], ["b"])), "Use `erasure` ... siamese=True"),
    (lambda: attribute(tagger(), [["a"], []]), "the position of a word ... target=None, row=1, words=0"),
    (lambda: attribute(tagger(), [[]]), "the position of a word ... target=None, row=0, words=0"),
    (lambda: attribute(tagger(), [["a"]], target=1), "the position of a word ... target=1, row=0, words=1"),
    (lambda: attribute(tagger(crf=True), [["a"]], target=0), "Use `method='erasure'` ... crf=True"),
    (
        lambda: attribute(TextRegressor(tiny.encoder(), tiny.preprocessor()), TEXTS, output="probability"),
        "predicts classes or tokens ... 'TextRegressor'",
    ),
    (lambda: attribute(writer(), ["a"], target=3), "must be a text, or a list ... target=3"),
    (
        lambda: attribute(writer(), ["a", "b " * 256], target="a"),
        "Each text with its continuation must have at most 256 tokens ... 258 tokens at position 1",
    ),
    (lambda: attribute(diverged(), TEXTS), "outputs of the model, and their gradients, must be finite ... nan"),
    (lambda: attribute(tiny.of_vectors(), [], method="erasure"), "at least one text ... x=[]"),
    (lambda: attribute(TextClassifier(tiny.encoder(), num_classes=2), TEXTS), "requires a preprocessor"),
    (lambda: shown(["a"]).plot(1), "from 0 to 0 ... row=1"),
    (lambda: attribute(of_characters(), TEXTS), "Use another `layer`, or 'occlusion' ... ElmoEncoder"),
    (lambda: attribute(of_characters(), TEXTS, layer=3), "from 0 to 2 ... layer=3"),
    (lambda: attribute(repeating(), TEXTS, layer=1), "share a layer, so only `layer=0` ... not connected"),
)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "lime.lime_text", None)
    with pytest.raises(ImportError, match="pip install lime"):
        attribute(tiny.of_vectors(), TEXTS, method="lime")
