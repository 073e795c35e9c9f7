"""BERT's pretraining: both losses are those of Transformers, and it trains on pairs of a corpus."""

import keras
import numpy as np
import pytest

from keras_transfer import serving
from keras_transfer.encoders import BertEncoder, TransformerEncoder
from keras_transfer.objectives import TokenMasking
from keras_transfer.tasks import BertPretraining, CausalLM, MaskedLM, TextClassifier
from keras_transfer.text import Corpus
from tests.checkpoints.test_heads import HEADS, load
from tests.errors import check_errors
from tests.helpers import EAGER, outputs_of
from tests.tasks.tiny import encoder, preprocessor

TEXTS = ["a b c\nd e f\ng h", "i j\na c e", "b d f\nh j", "good bad\nbad good\na"]


def pretraining(**options):
    keras.utils.set_random_seed(0)
    return BertPretraining(encoder(), preprocessor(), **options)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return Corpus.build(TEXTS * 6, preprocessor(), tmp_path_factory.mktemp("corpus"), verbose=0)


# === The heads and the losses ===


@pytest.mark.core
@pytest.mark.parametrize("name", ["bert_pretraining", "albert_pretraining"])
def test_logits_and_losses_are_those_of_transformers(name):
    model, expected = load(BertPretraining, name), dict(np.load(HEADS / name / "outputs.npz"))
    inputs = {key: expected[key] for key in ("token_ids", "segment_ids", "padding_mask")}
    rows, places = np.nonzero(expected["targets"] >= 0)
    inputs["mask_positions"] = np.array([places[rows == 0], [places[rows == 1][0], -1, -1]], "int32")
    targets = np.where(
        inputs["mask_positions"] < 0, -1, np.take_along_axis(expected["targets"], inputs["mask_positions"], 1)
    )
    found = outputs_of(model, inputs)
    np.testing.assert_allclose(found["segment_pair"], expected["pair_logits"], atol=1e-5)
    np.testing.assert_allclose(found["masked_tokens"][0], expected["logits"][0, [1, 3, 5]], atol=1e-5)
    model.compile(run_eagerly=EAGER)
    labels = {"masked_tokens": targets, "segment_pair": expected["pairs"]}
    logs = model.test_on_batch(inputs, labels, return_dict=True)
    assert logs["loss"] == pytest.approx(float(expected["loss"]), abs=1e-5)
    model.compile(run_eagerly=EAGER, loss_weights={"masked_tokens": 2.0, "segment_pair": 0.5})
    weighted = model.test_on_batch(inputs, labels, return_dict=True)["loss"]
    parts = logs["masked_tokens_loss"], logs["segment_pair_loss"]
    assert sum(parts) == pytest.approx(logs["loss"], abs=1e-5)
    assert weighted == pytest.approx(2 * parts[0] + 0.5 * parts[1], abs=1e-5)


def test_the_dropout_of_the_pair_is_that_of_the_original(tmp_path):
    assert load(BertPretraining, "albert_pretraining").dropout == 0.1
    assert load(BertPretraining, "albert_pretraining", dropout=0.0).dropout == 0.0
    assert load(BertPretraining, "bert_pretraining").dropout == 0.0


def test_a_masked_language_model_of_the_same_folder_has_the_same_head():
    whole, alone = load(BertPretraining, "bert_pretraining"), load(MaskedLM, "bert_pretraining")
    for name in ("head_dense", "head_norm", "logits"):
        for ours, theirs in zip(whole.get_layer(name).weights, alone.get_layer(name).weights, strict=True):
            np.testing.assert_array_equal(ours, theirs)


# === Training ===


def test_targets_of_pairs_are_hidden_tokens_and_labels(corpus):
    model = pretraining(objective=TokenMasking(0.3, seed=0))
    pairs = corpus.pairs(16, batch_size=8, seed=0)
    inputs, labels = model.dataset(pairs)[0]
    plain, same = pairs[0]
    np.testing.assert_array_equal(labels["segment_pair"], same)
    rows, places = np.nonzero(labels["masked_tokens"] >= 0)
    positions = inputs["mask_positions"][rows, places]
    np.testing.assert_array_equal(plain["token_ids"][rows, positions], labels["masked_tokens"][rows, places])
    assert set(inputs) == {"token_ids", "segment_ids", "padding_mask", "mask_positions"}


@pytest.mark.slow
def test_it_learns_both_from_pairs_of_a_corpus(tmp_path):
    # The second segment of a document repeats the words of the first.
    texts = ["\n".join([" ".join([word] * 4)] * 2) for word in "abcdefghij"] * 4
    corpus = Corpus.build(texts, preprocessor(), tmp_path / "corpus", verbose=0)
    model = pretraining()
    model.compile(keras.optimizers.Adam(0.02))
    history = model.fit(corpus.pairs(12, batch_size=20, short=0.0, seed=0), epochs=8, verbose=0).history
    assert history["loss"][-1] < 0.9 * history["loss"][0]
    assert {"masked_tokens_loss", "masked_tokens_accuracy", "segment_pair_loss", "segment_pair_accuracy"} <= set(
        history
    )


def test_prepared_pairs_get_targets_of_both_heads():
    rows = {name: np.asarray(values) for name, values in preprocessor()((["a b c", "c d"], ["e", "g h"])).items()}
    inputs, targets = pretraining().dataset(rows, np.array([0, 1]), batch_size=2)[0]
    assert targets["segment_pair"].tolist() == [0, 1]
    where, places = np.nonzero(targets["masked_tokens"] >= 0)
    hidden = rows["token_ids"][where, inputs["mask_positions"][where, places]]
    np.testing.assert_array_equal(targets["masked_tokens"][where, places], hidden)


@pytest.mark.parametrize("form", ["loader", "stream", "prepared stream"])
def test_loaders_and_streams_of_pairs_and_labels_get_targets_of_both_heads(form, eagerly):
    tf = pytest.importorskip("tensorflow")
    texts, labels = (["a b c", "c d"], ["e f", "g h"]), [0, 1]
    if form == "loader":
        source = torch_loader(*texts, labels)
    else:
        rows = preprocessor()(texts) if form == "prepared stream" else texts
        source = tf.data.Dataset.from_tensor_slices((rows, labels)).batch(2)
    model = compiled(objective=TokenMasking(0.3, seed=0))
    inputs, targets = next(iter(model.dataset(source)))
    assert targets["segment_pair"].numpy().tolist() == labels
    places, found = inputs["mask_positions"].numpy(), targets["masked_tokens"].numpy()
    plain = preprocessor()(texts)["token_ids"].numpy()
    rows, columns = np.nonzero(places >= 0)
    np.testing.assert_array_equal(found[rows, columns], plain[rows, places[rows, columns]])
    history = model.fit(source, validation_data=source, verbose=0).history
    assert {"masked_tokens_accuracy", "val_segment_pair_accuracy"} <= set(history)


def test_a_classifier_trains_on_the_labels_of_pairs_alone(corpus, eagerly):
    model = TextClassifier(encoder(), num_classes=2, preprocessor=preprocessor())
    model.compile(run_eagerly=True)
    assert np.isfinite(model.fit(corpus.pairs(16, seed=0), verbose=0).history["loss"]).all()


# === Files and mistakes ===


def test_both_heads_survive_a_folder(tmp_path):
    model = pretraining()
    model.save_pretrained(tmp_path / "saved")
    again = BertPretraining.from_pretrained(tmp_path / "saved")
    assert again.score_pairs((["a b"], ["c"])) == model.score_pairs((["a b"], ["c"]))


@pytest.mark.slow
def test_an_export_scores_pairs_of_raw_text(tmp_path):
    import tensorflow as tf

    model = pretraining()
    serving.export(model, tmp_path / "served", pairs=True)
    served = tf.saved_model.load(str(tmp_path / "served")).signatures["serving_default"]
    found = served(text=tf.constant(["a b", "c"]), text_pair=tf.constant(["d", "e f g"]))["probability"]
    np.testing.assert_allclose(found, model.score_pairs((["a b", "c"], ["d", "e f g"])), atol=1e-6)


def compiled(**options):
    model = pretraining(**options)
    model.compile(run_eagerly=True)
    return model


def torch_loader(*columns):
    """A loader whose batches are `[[first, second], labels]`, as torch collates them."""
    data = pytest.importorskip("torch.utils.data")
    first, second, labels = columns
    return data.DataLoader([((one, other), label) for one, other, label in zip(first, second, labels)], batch_size=2)


def prepared(**more):
    return {**{name: np.asarray(values) for name, values in preprocessor()((["a"], ["b"])).items()}, **more}


PLACES = np.array([[1]])


def without_pooler():
    return BertPretraining(BertEncoder(17, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16, pooler=False))


def of_corpus(cls, corpus):
    model = cls(encoder(TransformerEncoder, causal=True) if cls is CausalLM else encoder(), preprocessor())
    model.compile(run_eagerly=True)
    model.fit(corpus.pairs(16), verbose=0)


test_a_mistake_is_one_clear_error = check_errors(
    (lambda corpus: of_corpus(CausalLM, corpus), "A `CausalLM` has no head for pairs of segments"),
    (lambda corpus: of_corpus(MaskedLM, corpus), "has no head for pairs of segments. Use `tasks.BertPretraining`"),
    (without_pooler, "`encoder` must have a pooled output ... Received: BertEncoder"),
    (lambda: compiled().fit(["a", "b"], [0, 1]), "Rows must be pairs of texts ... Received: list"),
    (lambda: compiled().fit((["a"], ["b"]), [2]), "Received: "),
    (
        lambda: compiled().fit(prepared(), np.array([1]), sample_weight=np.array([2.0])),
        "Leave `sample_weight` out. Received: sample_weight=",
    ),
    (
        lambda: compiled().fit(prepared(mask_positions=PLACES), np.array([1])),
        "`mask_positions` and a dict of targets, or neither",
    ),
    (
        lambda: compiled().fit(torch_loader(["a"], ["b"], ["c"])),
        "Labels must be names ... Received: 'c'",
    ),
    (lambda: compiled().predict((["a"], ["b"])), "Use `score_pairs(texts)`"),
    (
        lambda: compiled().predict(torch_loader(["a"], ["b"], [1])),
        "`predict` requires prepared inputs. Use `score_pairs(texts)` for texts. Received: (['a'], ['b'])",
    ),
    (lambda: pretraining().signatures(), "Use `pairs=True`. Received: pairs=False"),
)
