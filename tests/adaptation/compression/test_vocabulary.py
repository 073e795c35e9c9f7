"""A trimmed vocabulary: ids and answers of the texts stay the same, files work, and mistakes are clear errors."""

import keras
import numpy as np
import pytest

from keras_transfer import adaptation, serving
from keras_transfer.datasets import load_demo_questions
from keras_transfer.encoders import BertEncoder, RobertaEncoder
from keras_transfer.tasks import MaskedLM, TextClassifier
from keras_transfer.text import BertPreprocessor, Packing, TokenPreprocessor, train_vocabulary
from tests.errors import check_errors
from tests.helpers import save_and_load
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


@pytest.mark.core
@pytest.mark.parametrize("kind", KINDS)
def test_texts_have_the_same_tokens_and_answers(kind):
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


def test_files_of_a_trimmed_task_have_the_same_answers(tmp_path):
    tf = pytest.importorskip("tensorflow")
    model = classifier(num_classes=3)
    expected = model.predict_on_batch(TEXTS)
    small = adaptation.trim_vocabulary(model, TEXTS, verbose=0)
    np.testing.assert_allclose(save_and_load(small).predict_on_batch(TEXTS), expected, atol=1e-6)
    small.save_pretrained(tmp_path / "folder")
    loaded = TextClassifier.from_pretrained(tmp_path / "folder")
    np.testing.assert_allclose(loaded.predict_on_batch(TEXTS), expected, atol=1e-6)
    serving.export(small, tmp_path / "served")
    served = tf.saved_model.load(str(tmp_path / "served")).signatures["serving_default"](tf.constant(TEXTS))
    np.testing.assert_allclose(served["probabilities"], keras.ops.softmax(expected), atol=1e-6)
    small.quantize("int8")
    assert small.encoder.token_embedding.embeddings.shape[0] == small.encoder.vocabulary_size


def test_a_tied_head_is_trimmed_too_and_its_mask_token_remains(capsys):
    model = classifier(task=MaskedLM)
    small = adaptation.trim_vocabulary(model, iter(TEXTS))
    assert f"Kept {small.encoder.vocabulary_size:,} of 400 tokens" in capsys.readouterr().out
    places = [model.preprocessor.token_to_id(token) for token in small.preprocessor.vocabulary]
    texts = [f"{TEXTS[0]} [MASK]"]
    expected = np.asarray(model.predict_on_batch(texts))[..., places]
    np.testing.assert_allclose(np.asarray(small.predict_on_batch(texts)), expected, atol=1e-5)


def test_texts_are_strings_in_any_order_of_columns_and_batches():
    model = tiny.classifier()
    sources = [["a", "good b"], np.array(["a", "good b"]), (["a"], ["good b"]), [["a"], ["good", "b"]]]
    sizes = {adaptation.trim_vocabulary(model, source, verbose=0).encoder.vocabulary_size for source in sources}
    assert sizes == {5 + len("abcdefghij") + len(["good"])}


def test_special_tokens_that_files_of_a_checkpoint_name_are_kept_and_renumbered():
    model = tiny.classifier()
    b, bad = (model.preprocessor.token_to_id(token) for token in ("b", "bad"))
    model.encoder.checkpoint_settings["config.json"] = {"eos_token_id": [bad, b], "bos_token_id": None}
    small = adaptation.trim_vocabulary(model, ["a"], verbose=0)
    names = [small.preprocessor.token_to_id(token) for token in ("bad", "b")]
    assert small.encoder.checkpoint_settings["config.json"] == {"eos_token_id": names, "bos_token_id": None}
    assert names[0] == bad - 1 and small.preprocessor.token_to_id("good") is None


def quantized():
    model = tiny.classifier()
    model.quantize("int8", filters="logits")
    return model


def trim(model, texts=("a",)):
    return adaptation.trim_vocabulary(model, texts)


test_a_mistake_is_one_clear_error = check_errors(
    (lambda: trim(tiny.classifier(), "a"), "several texts. Received: one string, 'a'"),
    (lambda: trim(tiny.classifier(), []), "at least one text. Received: no texts"),
    (lambda: trim(tiny.classifier(), [1, 2]), "strings only. Received: 1"),
    (lambda: trim(tiny.encoder()), "must be a task. Received: a BertEncoder"),
    (lambda: trim(tiny.of_vectors()), "Received: a TextClassifier over a WordVectorEncoder"),
    (lambda: trim(TextClassifier(tiny.encoder(), num_classes=2)), "`BertPreprocessor` ... Received: preprocessor=None"),
    (lambda: trim(adaptation.add_adapters(tiny.classifier(), "lora:r=2")), "`adaptation.merge_adapters` ... ['default"),
    (lambda: trim(quantized()), "before `quantize` ... quantized model"),
)
