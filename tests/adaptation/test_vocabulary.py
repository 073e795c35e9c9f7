"""A trimmed vocabulary: ids and answers of the texts stay the same, files work, and mistakes are clear errors."""

import keras
import numpy as np
import pytest

from keras_transfer import adaptation
from keras_transfer.datasets import load_demo_questions
from keras_transfer.encoders import BertEncoder, RobertaEncoder
from keras_transfer.tasks import MaskedLM, TextClassifier, TextEmbedder
from keras_transfer.text import BertPreprocessor, Packing, TokenPreprocessor, train_vocabulary
from tests.errors import check_errors
from tests.helpers import eager, in_graph, save_and_load
from tests.tasks import tiny

QUESTIONS = load_demo_questions().train.texts
TEXTS = [*QUESTIONS[:6], "Größe – naïve 😀 ..."]
SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32, "max_sequence_length": 64}
LENGTH = 48


def wordpiece():
    trained = train_vocabulary(QUESTIONS, "wordpiece", 400)
    return BertPreprocessor(trained.vocabulary, LENGTH)


def of_kind(kind):
    packing = Packing(start=["<s>"], between=["</s>", "</s>"], end=["</s>"], pad="<pad>")
    special = ["<pad>", "<unk>", "<s>", "</s>", "<mask>"]
    trained = train_vocabulary(QUESTIONS, kind, 600, special_tokens=special)
    return TokenPreprocessor(trained, packing, LENGTH)


KINDS = {
    "wordpiece": (BertEncoder, wordpiece),
    "byte_bpe": (RobertaEncoder, lambda: of_kind("byte_bpe")),
    "unigram": (RobertaEncoder, lambda: of_kind("unigram")),
}


def classifier(kind="wordpiece", task=TextClassifier, **options):
    cls, preprocessor = KINDS[kind]
    preprocessor = preprocessor()
    keras.utils.set_random_seed(0)
    return task(cls(preprocessor.vocabulary_size, **SIZES, dropout=0.0), preprocessor, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_texts_have_the_same_tokens_and_answers(kind, eagerly):
    model = classifier(kind, num_classes=3)
    small = adaptation.trim_vocabulary(model, TEXTS, verbose=0)
    assert small.encoder.vocabulary_size == small.preprocessor.vocabulary_size < model.preprocessor.vocabulary_size

    before, after = (
        task.preprocessor.to_tokens(task.preprocessor(TEXTS)["token_ids"]).numpy() for task in (model, small)
    )
    np.testing.assert_array_equal(before, after)
    np.testing.assert_allclose(small.predict_on_batch(TEXTS), model.predict_on_batch(TEXTS), atol=1e-6)
    [ids] = small.preprocessor.tokenize(["qqzzx"]).to_list()
    unknown = small.preprocessor.unk_id
    assert len(ids) > 1 and (unknown is None or unknown not in ids)


def test_files_and_signatures_of_a_trimmed_task_have_the_same_answers(tmp_path):
    model = classifier(num_classes=3)
    with eager():
        expected = model.predict_on_batch(TEXTS)
        small = adaptation.trim_vocabulary(model, TEXTS, verbose=0)
        np.testing.assert_allclose(save_and_load(small).predict_on_batch(TEXTS), expected, atol=1e-6)
        small.save_pretrained(tmp_path / "folder")
        loaded = TextClassifier.from_pretrained(tmp_path / "folder")
        np.testing.assert_allclose(loaded.predict_on_batch(TEXTS), expected, atol=1e-6)
    served = in_graph(small.signatures()["serving_default"], TEXTS)
    np.testing.assert_allclose(served["probabilities"], keras.ops.softmax(expected), atol=1e-6)
    with eager():
        for task in (model, small):
            task.quantize("int8")
        quantized = small.predict_on_batch(TEXTS)
        np.testing.assert_allclose(quantized, model.predict_on_batch(TEXTS), atol=1e-6)
    assert (quantized != expected).all()


def test_a_tied_head_is_trimmed_too_and_its_mask_token_remains(capsys, eagerly):
    model = classifier(task=MaskedLM)
    small = adaptation.trim_vocabulary(model, iter(TEXTS))
    counts = f"{small.count_params():,} of {model.count_params():,} weights"
    assert f"Kept {small.encoder.vocabulary_size:,} of 400 tokens, and {counts} (" in capsys.readouterr().out
    places = [model.preprocessor.token_to_id(token) for token in small.preprocessor.vocabulary]
    texts = [f"{TEXTS[0]} [MASK]"]
    expected = np.asarray(model.predict_on_batch(texts))[..., places]
    np.testing.assert_allclose(np.asarray(small.predict_on_batch(texts)), expected, atol=1e-5)


def test_texts_are_strings_in_any_order_of_columns_and_batches():
    model = tiny.classifier()
    sources = [["a", "good b"], np.array(["a", "good b"]), (["a"], ["good b"]), [["a"], ["good", "b"]]]
    for source in sources:
        assert trim(model, source).preprocessor.vocabulary == [*tiny.VOCABULARY[:5], *"abcdefghij", "good"]


def test_columns_of_tables_are_read():
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    model = tiny.classifier()
    table = pandas.DataFrame({"text": ["a", "good b"], "label": ["bad", "bad"]})
    arrow = pyarrow.table({"text": ["a", "good b"], "label": ["bad", "bad"]})
    for column in (table["text"], arrow["text"]):
        assert trim(model, column).preprocessor.vocabulary == [*tiny.VOCABULARY[:5], *"abcdefghij", "good"]
    for each in (table, arrow):
        with pytest.raises(ValueError, match=r"Pass `table\['text'\]`"):
            trim(model, each)


def test_datasets_of_texts_are_read():
    tf = pytest.importorskip("tensorflow")
    model, texts = tiny.classifier(), ["a", "good b"]
    labeled = tf.data.Dataset.from_tensor_slices((texts, [0, 1]))
    only_texts = labeled.map(lambda text, label: text)
    pairs = tf.data.Dataset.from_tensor_slices((["a", "b"], texts)).batch(2)
    sentences = tf.data.Dataset.from_tensors(tf.ragged.constant([["a"], ["good", "b"]]))
    for dataset in (only_texts, only_texts.batch(2), pairs, sentences):
        assert trim(model, dataset).preprocessor.vocabulary == [*tiny.VOCABULARY[:5], *"abcdefghij", "good"]
    with pytest.raises(ValueError, match="texts only. Map it to its texts"):
        trim(model, labeled)


def test_texts_with_a_prompt_have_the_same_vectors(eagerly):
    keras.utils.set_random_seed(0)
    options = {"prompts": {"query": "good bad: ", "other": "j"}, "default_prompt_name": "query"}
    model = TextEmbedder(tiny.encoder(initializer_range=0.5), tiny.preprocessor(), **options)
    small = trim(model, ["a b"])
    assert {"good", "bad"} <= {*small.preprocessor.vocabulary}
    for name in (None, "query", "other"):
        expected = model.embed(["a b"], prompt_name=name)
        np.testing.assert_allclose(small.embed(["a b"], prompt_name=name), expected, atol=1e-6)


def test_special_tokens_that_files_of_a_checkpoint_name_are_kept_and_renumbered():
    model = tiny.classifier()
    b, bad = (model.preprocessor.token_to_id(token) for token in ("b", "bad"))
    model.encoder.attached.files["config.json"] = {
        "eos_token_id": [bad, b],
        "bos_token_id": None,
        "pad_token_id": -1,
    }
    small = adaptation.trim_vocabulary(model, ["a"], verbose=0)
    names = [small.preprocessor.token_to_id(token) for token in ("bad", "b")]
    expected = {"eos_token_id": names, "bos_token_id": None, "pad_token_id": -1}
    assert small.encoder.attached.files["config.json"] == expected
    assert names[0] == bad - 1 and small.preprocessor.token_to_id("good") is None


def quantized():
    model = tiny.classifier()
    model.quantize("int8", filters="logits")
    return model


def with_unknown_id():
    model = tiny.classifier()
    model.encoder.attached.files["config.json"] = {"eos_token_id": 50_256}
    return model


def trim(model, texts=("a",)):
    return adaptation.trim_vocabulary(model, texts, verbose=0)


def trim_to_lines(tmp_path):
    (tmp_path / "texts.txt").write_text("a\n")
    with (tmp_path / "texts.txt").open() as file:
        trim(tiny.classifier(), file)


test_a_mistake_is_one_clear_error = check_errors(
    (lambda: trim(tiny.classifier(), "a"), "several texts. Received: texts='a'"),
    (lambda: trim(tiny.classifier(), []), "at least one text. Received: texts=0"),
    (lambda: trim(tiny.classifier(), {"text": ["a"]}), "Texts must be ... Received: dict"),
    (trim_to_lines, "open file. Pass `file.read().splitlines()`"),
    (lambda: trim(with_unknown_id()), "tokenizer does not have ... Received: eos_token_id=[50256]"),
    (lambda: trim(tiny.of_vectors()), "Received: model=<TextClassifier ... encoder=<WordVectorEncoder"),
    (lambda: trim(TextClassifier(tiny.encoder(), num_classes=2)), "`BertPreprocessor` ... Received: preprocessor=None"),
    (lambda: trim(adaptation.add_adapters(tiny.classifier(), "lora:r=2")), "`adaptation.merge_adapters` ... ['default"),
    (lambda: trim(quantized()), "before `quantize` ... Received: model=<TextClassifier"),
)
