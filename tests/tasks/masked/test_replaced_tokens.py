"""Replaced token detection: a generator and a discriminator train together on raw text."""

import keras
import numpy as np
import pytest

from keras_transfer import serving
from keras_transfer.encoders import ElectraEncoder
from keras_transfer.layers import SampleTokens
from keras_transfer.objectives import TokenMasking
from keras_transfer.tasks import MaskedLM, ReplacedTokenDetection
from tests.helpers import EAGER, save_and_load
from tests.tasks.tiny import encoder, preprocessor

TEXTS = ["a b c", "d e", "f g h i j a b c d", "a b c d e f g h i j a b c d e f g h i j"]


def model(generator_dim=8, **options):
    keras.utils.set_random_seed(0)
    return ReplacedTokenDetection(
        encoder(), preprocessor(), generator=MaskedLM(encoder(hidden_dim=generator_dim)), **options
    )


def electra(share_embeddings=True, **options):
    keras.utils.set_random_seed(0)
    small = MaskedLM(encoder(ElectraEncoder, hidden_dim=8, embedding_dim=16))
    options = {"generator": small, "share_embeddings": share_embeddings, **options}
    return ReplacedTokenDetection(encoder(ElectraEncoder), preprocessor(), **options)


def numpy(x):
    return keras.ops.convert_to_numpy(x)


@pytest.mark.core
def test_the_loss_is_that_of_both_models_and_every_weight_trains():
    # With encoders of one size, JAX compiles each operation once.
    task = model(
        8 if EAGER else 16,
        objective=TokenMasking(mask_selection_rate=0.5, mask_token_rate=1.0, random_token_rate=0.0, seed=0),
    )
    task.compile(keras.optimizers.SGD(0.01), run_eagerly=EAGER)
    inputs, targets = task.dataset(TEXTS, batch_size=4)[0]
    outputs = {name: numpy(value) for name, value in task(inputs, training=True).items()}
    rows, places = np.nonzero(targets >= 0)
    positions = inputs["mask_positions"][rows, places]
    before = inputs["token_ids"].copy()
    before[rows, positions] = targets[rows, places]
    untouched = np.ones(before.shape, bool)
    untouched[rows, positions] = False
    np.testing.assert_array_equal(outputs["token_ids"][untouched], before[untouched])
    replaced = outputs["token_ids"] != before
    assert replaced.any() and (outputs["token_ids"][rows, positions] != 4).mean() > 0.5
    logits, real = outputs["discriminator"], inputs["padding_mask"] == 1
    detection = np.log1p(np.exp(np.where(replaced, -logits, logits)))[real].mean()
    scores = outputs["generator"][rows, places]
    generation = (np.log(np.exp(scores).sum(-1)) - scores[range(len(rows)), targets[rows, places]]).mean()
    loss = numpy(task.compute_loss(inputs, targets, task_outputs(outputs)))
    assert float(loss) == pytest.approx(generation + 50 * detection, rel=1e-4)

    weights = [numpy(weight).copy() for weight in task.trainable_weights]
    result = task.train_on_batch(inputs, targets, return_dict=True)
    assert set(result) == {"loss", "generator_loss", "discriminator_loss", "accuracy"}
    moved = {w.path: (numpy(w) != old).any() for w, old in zip(task.trainable_weights, weights)}
    # The generator's own pooler takes no part, and neither does the discriminator's.
    assert [path for path, has_moved in moved.items() if not has_moved] == []


def test_both_losses_train_the_shared_embeddings():
    task, apart = electra(), electra(share_embeddings=False)
    tables = [weight for weight in task.trainable_weights if weight.path == "token_embedding/embeddings"]
    assert len(tables) == 1 and tables[0] is task.generator.encoder.token_embedding.embeddings
    for each in (task, apart):
        each.sample_tokens = SampleTokens(seed=0)
        each.compile(keras.optimizers.SGD(0.01), run_eagerly=EAGER)
    own = {id(weight) for weight in task.generator.weights} - {id(weight) for weight in task.encoder.weights}
    apart.encoder.set_weights(task.encoder.get_weights())
    apart.generator.set_weights(task.generator.get_weights())
    for name in ("head_dense", "logits"):
        apart.get_layer(name).set_weights(task.get_layer(name).get_weights())
    assert len(task.trainable_weights) == len(apart.trainable_weights) - 5 and len(own) == 19

    inputs, targets = task.dataset(TEXTS, batch_size=4)[0]
    before = [numpy(weight).copy() for weight in task.encoder.weights]
    result, expected = (each.train_on_batch(inputs, targets, return_dict=True) for each in (task, apart))
    assert result["loss"] == pytest.approx(expected["loss"], rel=1e-5)
    small = {weight.path: numpy(weight) for weight in apart.generator.encoder.weights}
    for ours, theirs, start in zip(task.encoder.weights, apart.encoder.weights, before, strict=True):
        step = numpy(theirs) - start
        step += small[ours.path] - start if "embedding" in ours.path else 0.0
        np.testing.assert_allclose(numpy(ours) - start, step, atol=1e-6)


def task_outputs(outputs):
    return {name: keras.ops.convert_to_tensor(value) for name, value in outputs.items()}


@pytest.mark.core
def test_tokens_are_drawn_from_the_generators_distribution():
    probabilities = np.array([0.1, 0.2, 0.7])
    logits = np.tile(np.log(probabilities).astype("float32"), (4000, 1, 1))
    ids = np.tile(np.array([[5, 6, 7]], "int32"), (4000, 1))
    drawn = numpy(SampleTokens(seed=0)(ids, np.ones((4000, 1), "int32"), logits))
    np.testing.assert_array_equal(drawn[:, [0, 2]], ids[:, [0, 2]])
    counts = np.bincount(drawn[:, 1], minlength=3)
    assert ((counts - 4000 * probabilities) ** 2 / (4000 * probabilities)).sum() < 13.8  # chi-square, p = 0.001


def test_it_trains_on_raw_text_and_detects():
    task = model()
    task.compile(keras.optimizers.Adam(0.01), run_eagerly=True)
    history = task.fit(TEXTS, batch_size=4, verbose=0).history
    assert all(np.isfinite(values).all() for values in history.values())
    assert task.evaluate(TEXTS, verbose=0, return_dict=True)["loss"] > 0
    answers = task.detect(["a zzz b", "c"])
    assert [[token for token, _ in answer] for answer in answers] == [["a", "[UNK]", "b"], ["c"]]
    inputs = {name: np.array(value) for name, value in task.preprocessor(["a zzz b"], "longest").items()}
    probabilities = 1 / (1 + np.exp(-task.predict(inputs, verbose=0)))
    np.testing.assert_allclose([value for _, value in answers[0]], probabilities[0, 1:-1], atol=1e-5)


def test_it_survives_keras_files_with_its_generator():
    task = electra(discriminator_weight=7.0, activation="relu")
    again = save_and_load(task)
    assert again.get_config() == task.get_config()
    assert again.generator.encoder.token_embedding is again.encoder.token_embedding
    for ours, theirs in zip(again.weights, task.weights, strict=True):
        np.testing.assert_array_equal(numpy(ours), numpy(theirs))


def test_folders_of_both_models_are_the_whole_task(tmp_path):
    task = electra()
    task.save_pretrained(tmp_path / "discriminator")
    task.generator.save_pretrained(tmp_path / "generator")
    again = ReplacedTokenDetection.from_pretrained(
        tmp_path / "discriminator",
        generator=MaskedLM.from_pretrained(tmp_path / "generator", preprocessor=None),
        share_embeddings=True,
    )
    for ours, theirs in zip(again.weights, task.weights, strict=True):
        np.testing.assert_array_equal(numpy(ours), numpy(theirs))


def test_the_generator_keeps_its_head_and_what_is_frozen():
    small = MaskedLM(encoder(ElectraEncoder, hidden_dim=8, embedding_dim=16), preprocessor(), activation="relu")
    small.get_layer("head_norm").trainable = False
    small.get_layer("logits").bias.assign(np.arange(17.0))
    task = electra(generator=small)
    assert task.generator is not small and task.generator.activation == "relu"
    assert task.generator.preprocessor is small.preprocessor
    np.testing.assert_array_equal(task.generator.get_layer("logits").bias, np.arange(17.0))
    assert not task.generator.get_layer("head_norm").trainable_weights


def test_wrong_parts_and_data_are_one_clear_error():
    task = model()
    for function, message in (
        (lambda: electra(generator=None), "requires a `generator`, a `MaskedLM`. Received: generator=None"),
        (
            lambda: electra(generator=MaskedLM(encoder(hidden_dim=8))),
            r"name='token_embedding', .*\(17, 8\).*\(17, 16\)",
        ),
        (lambda: ReplacedTokenDetection(encoder(), generator=encoder()), "must be a `MaskedLM`.*Received: BertEncoder"),
        (lambda: task.compile(loss="mse"), "computes its own loss and metrics.*Received: loss='mse'"),
        (lambda: task.predict(TEXTS), r"Use `detect\(texts\)`"),
        (
            lambda: task.dataset(TEXTS, [0, 1, 0, 1]),
            "A `ReplacedTokenDetection` makes `mask_positions` and their targets.*Received: only targets",
        ),
        (lambda: task.compute_loss(sample_weight=np.ones(4)), "does not support sample weights. Received: sample_w"),
    ):
        with pytest.raises(ValueError, match=message):
            function()
    alone = ReplacedTokenDetection(encoder(), preprocessor())
    alone.compile(run_eagerly=True)
    with pytest.raises(ValueError, match="Training requires a generator"):
        alone.fit(TEXTS, verbose=0)


@pytest.mark.slow
def test_an_export_detects_in_raw_text(tmp_path):
    import tensorflow as tf

    task = electra()
    serving.export(task, tmp_path / "served")
    served = tf.saved_model.load(str(tmp_path / "served")).signatures["serving_default"]
    outputs = {name: value.numpy() for name, value in served(text=tf.constant(["a b", "c"])).items()}
    assert outputs["token"].astype(str).tolist() == [["[CLS]", "a", "b", "[SEP]"], ["[CLS]", "c", "[SEP]", ""]]
    expected = [value for _, value in task.detect(["a b"])[0]]
    np.testing.assert_allclose(outputs["probability"][0, 1:3], expected, atol=1e-6)
