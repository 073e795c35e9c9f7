"""A masked language model trains on raw text, fills masks, and survives `.keras` and export."""

import keras
import numpy as np
import pytest

from keras_transfer import serving
from keras_transfer.adaptation import layer_groups
from keras_transfer.objectives import TokenMasking
from keras_transfer.tasks import MaskedLM
from keras_transfer.text import Packing, TokenPreprocessor, batches
from tests.helpers import EAGER, outputs_of
from tests.tasks.tiny import encoder, preprocessor

TEXTS = ["a b c", "d e", "f g h i j a b c d", "a b c d e f g h i j a b c d e f g h i j"]


def masked_lm(**options):
    keras.utils.set_random_seed(0)
    return MaskedLM(encoder(), preprocessor(), **options)


def numpy(x):
    return keras.ops.convert_to_numpy(x)


# === The model ===


def test_a_preprocessor_without_segments_is_an_error_that_names_one_with_them():
    plain = TokenPreprocessor(preprocessor().tokenizer, Packing(["[CLS]"], ["[SEP]"], ["[SEP]"]))
    with pytest.raises(ValueError, match="'segment_ids' .* Use a `BertPreprocessor`, or a `Packing` with `segments`"):
        MaskedLM(encoder(), plain)


@pytest.mark.core
def test_predict_hides_the_tokens_of_each_batch_of_a_dataset():
    model = masked_lm()
    data = model.dataset(["a b c d e f g h i j"] * 4, batch_size=2, shuffle=False)
    expected = [model.predict_on_batch(data[number][0]) for number in range(2)]
    assert not np.array_equal(data[0][0]["mask_positions"], data[1][0]["mask_positions"])
    found = model.predict(data, verbose=0)
    np.testing.assert_allclose(found, np.concatenate(expected), atol=1e-5)


@pytest.mark.core
def test_logits_are_those_of_the_whole_sequence_at_the_masked_positions():
    model = masked_lm()
    inputs = {name: np.array(value) for name, value in model.preprocessor(TEXTS[:2], "longest").items()}
    everywhere = np.tile(np.arange(5, dtype="int32"), (2, 1))
    whole = outputs_of(model, {**inputs, "mask_positions": everywhere})
    some = outputs_of(model, {**inputs, "mask_positions": np.array([[3, -1], [1, 2]], "int32")})
    assert some.shape == (2, 2, len(model.preprocessor.vocabulary)) and some.dtype == np.float32
    np.testing.assert_allclose(some[0, 0], whole[0, 3], atol=1e-6)
    np.testing.assert_allclose(some[1], whole[1, [1, 2]], atol=1e-6)


def test_the_output_embeddings_are_the_token_embeddings():
    model = masked_lm()
    shapes = [tuple(weight.shape) for weight in model.weights]
    assert shapes.count((17, 16)) == 1
    groups = layer_groups(model)
    assert [group.name for group in groups] == ["embeddings", "block_0", "head"]
    assert sorted(weight.path.split("/")[0] for weight in groups[-1].variables) == [
        *["head_dense"] * 2,
        *["head_norm"] * 2,
        "logits",
    ]


def test_an_encoder_or_a_preprocessor_that_does_not_fit_is_an_error():
    with pytest.raises(ValueError, match="`encoder` must have a `token_embedding`"):
        MaskedLM(keras.Sequential([keras.Input((None, 4)), keras.layers.Dense(4)]))
    with pytest.raises(
        ValueError, match="must be a `text.TokenPreprocessor` with a mask token. Received: preprocessor=a function"
    ):
        MaskedLM(encoder(), preprocessor=lambda texts: texts)


# === Targets ===


def test_a_batch_has_no_more_places_than_it_uses_however_many_lengths_there_are():
    model = masked_lm()
    data = model.dataset([" ".join(["a"] * size) for size in range(1, 20)], batch_size=1, shuffle=True)
    sizes = [(data[i][0]["token_ids"].shape[1], data[i][1].shape[1]) for i in range(len(data))]
    assert len(data.options.lengths) > 6 and all(places == np.ceil(0.15 * length) for length, places in sizes)


def test_targets_are_drawn_anew_in_each_epoch_and_fixed_for_evaluation():
    model = masked_lm(objective=TokenMasking(seed=1))
    data = model.dataset(TEXTS * 4, batch_size=4, shuffle=True)
    assert data.contents.makes_labels and len(data) == 4
    before = [data[i] for i in range(4)]
    again = [data[i] for i in range(4)]
    for (inputs, targets), (same, same_targets) in zip(before, again, strict=True):
        np.testing.assert_array_equal(inputs["token_ids"], same["token_ids"])
        np.testing.assert_array_equal(targets, same_targets)
    fixed = model.dataset(TEXTS * 4, batch_size=4).apart(one_epoch=True)
    kept = fixed[0][0]["token_ids"]
    data.on_epoch_end()
    fixed.on_epoch_end()
    np.testing.assert_array_equal(fixed[0][0]["token_ids"], kept)
    hidden = [sorted(row[row >= 0].tolist() for _, targets in part for row in targets) for part in (before, data)]
    assert hidden[0] != hidden[1]
    data.epoch = 0  # as `Checkpoint` restores it
    np.testing.assert_array_equal(data[0][0]["token_ids"], before[0][0]["token_ids"])


def test_batches_of_several_lengths_with_one_number_of_places_are_one_trace():
    model = masked_lm(objective=TokenMasking(mask_selection_rate=0.01))
    data = model.dataset(
        batches(TEXTS * 2, None, preprocessor=model.preprocessor, batch_size=2, shuffle=True, lengths=[8, 16, 24])
    )
    assert {inputs["token_ids"].shape[1]: targets.shape[1] for inputs, targets in data} == {8: 1, 16: 1, 24: 1}
    model.compile("sgd")
    model.fit(data, epochs=2, verbose=0)


# === Training ===


def test_it_learns_from_raw_text_and_predicts_what_was_hidden():
    texts = ["a a a a", "b b b b", "c c c c"] * 100
    model = masked_lm(objective=TokenMasking(seed=0))
    model.compile(keras.optimizers.Adam(0.005))
    before = model.evaluate(texts[:30], verbose=0, return_dict=True)
    assert before == model.evaluate(texts[:30], verbose=0, return_dict=True)
    history = model.fit(texts, epochs=2, batch_size=6, validation_split=0.1, verbose=0).history
    assert {"loss", "accuracy", "val_loss", "val_accuracy"} <= set(history)
    after = model.evaluate(texts[:30], verbose=0, return_dict=True)
    assert after["loss"] < 0.8 * before["loss"] and after["accuracy"] > before["accuracy"]
    assert [answer[0][0][0] for answer in model.fill_mask(["a a [MASK] a", "c [MASK] c c"])] == ["a", "c"]


def test_prepared_data_train_on_every_backend():
    model = masked_lm()
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=EAGER)
    inputs, targets = model.dataset(TEXTS, batch_size=4)[0]
    before = [numpy(weight).copy() for weight in model.trainable_weights]
    result = model.train_on_batch(inputs, targets, return_dict=True)
    logits = outputs_of(masked_lm(), inputs)
    real = targets >= 0
    chosen = np.take_along_axis(logits, np.maximum(targets, 0)[..., None], -1)[..., 0]
    expected = (np.log(np.exp(logits).sum(-1)) - chosen)[real].mean()
    assert float(result["loss"]) == pytest.approx(expected, abs=1e-4)
    moved = [(numpy(weight) != old).any() for weight, old in zip(model.trainable_weights, before)]
    assert all(moved)


def test_wrong_data_are_one_clear_error():

    model, without = masked_lm(), MaskedLM(encoder())
    for each in (model, without):
        each.compile(run_eagerly=True)
    for function, message in (
        (lambda: model.fit(TEXTS, [0, 1, 0, 1], verbose=0), "Raw text has no labels"),
        (
            lambda: model.dataset(TEXTS, np.zeros((4, 2), int)),
            "A `MaskedLM` makes `mask_positions` and their targets.*Received: only targets",
        ),
        (lambda: model.fit(TEXTS, sample_weight=np.ones(4)), "has no weights of rows. Leave `sample_weight` out"),
        (lambda: model.predict(TEXTS), r"Use `fill_mask\(texts\)`.*'\[MASK\]' marks"),
        (lambda: without.fit(TEXTS), "requires a preprocessor"),
    ):
        with pytest.raises(ValueError, match=message):
            function()
    inputs, targets = model.dataset(TEXTS, batch_size=4)[0]
    with pytest.raises(ValueError, match=r"must be integers \[batch, places\] from 0 to 16, and -1 at"):
        model.fit(inputs, targets + 17, verbose=0)


# === Filling masks ===


def test_the_mask_token_is_the_only_special_token_that_a_text_may_contain():
    model = masked_lm()
    token = model.preprocessor.token_to_id
    inputs = model.preprocessor.encode_masked(["a[MASK]b [SEP]  [MASK]", "[MASK]", ""], sequence_length=12)
    ids, positions = np.array(inputs["token_ids"]), np.array(inputs["mask_positions"])
    as_text = [1, 1, 1]  # "[", "sep" and "]" are not in the vocabulary
    assert ids[0].tolist() == [2, token("a"), 4, token("b"), *as_text, 4, 3, 0, 0, 0]
    assert ids[1].tolist() == [2, 4, 3, *[0] * 9] and ids[2].tolist() == [2, 3, *[0] * 10]
    np.testing.assert_array_equal(positions, [[2, 7], [1, -1], [-1, -1]])


def test_fill_mask_returns_the_most_likely_tokens_of_each_mask():
    model = masked_lm()
    texts = ["a [MASK] c", "[MASK] [MASK] b", "[MASK] [MASK] c", "a [MASK]"]  # two batches of one shape
    answers = model.fill_mask(texts, k=3, batch_size=2)
    assert [len(answer) for answer in answers] == [1, 2, 2, 1]
    whole = model.fill_mask(texts[1::-1], k=17)[0][1]
    assert sorted(token for token, _ in whole) == sorted(model.preprocessor.vocabulary)
    assert sum(value for _, value in whole) == pytest.approx(1, abs=1e-5)
    assert [token for token, _ in whole[:3]] == [token for token, _ in answers[1][1]]
    assert all(type(token) is str and type(value) is float for token, value in whole)
    logits = numpy(model(["a [MASK] c"]))[0, 0] if EAGER else model.predict_on_batch(texts[:2])[0, 0]
    assert answers[0][0][0][0] == model.preprocessor.vocabulary[int(logits.argmax())]


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        (["a [MASK]", "b"], {}, r"must contain '\[MASK\]'. Received: 'b' at position 1"),
        (
            ["a [MASK]", "b " * 40 + "[MASK]"],
            {},
            "within the first 32 tokens.*1 behind them, in the text at position 1",
        ),
        (["[MASK]"], {"k": 18}, "`k` must be an integer from 1 to 17.*Received: k=18"),
        ((["[MASK]"], ["b"]), {}, "`texts` must be a list of strings. Received: tuple"),
    ],
)
def test_a_text_that_cannot_be_filled_is_an_error(texts, options, message):
    with pytest.raises(ValueError, match=message):
        masked_lm().fill_mask(texts, **options)


def test_without_a_mask_token_in_the_vocabulary_training_and_filling_are_errors():
    words = [word for word in preprocessor().vocabulary if word != "[MASK]"]
    other = type(preprocessor())(words, sequence_length=8)
    model = MaskedLM(encoder(), other)
    with pytest.raises(ValueError, match=r"must contain the special tokens \[MASK\]"):
        model.dataset(TEXTS)
    with pytest.raises(ValueError, match="must contain the mask token"):
        model.fill_mask(["a [MASK]"])


# === Files ===


@pytest.mark.slow
def test_an_export_fills_masks_in_raw_text(tmp_path):
    import tensorflow as tf

    model = masked_lm()
    serving.export(model, tmp_path / "served")
    served = tf.saved_model.load(str(tmp_path / "served")).signatures["serving_default"]
    texts = ["a [MASK] c", "[MASK] [MASK] b", "no mask"]
    outputs = {name: value.numpy() for name, value in served(text=tf.constant(texts)).items()}
    assert outputs["token"].shape == (3, 2, 5)
    for row, answer in enumerate(model.fill_mask(texts[:2])):
        for place, best in enumerate(answer):
            assert outputs["token"][row, place].astype(str).tolist() == [token for token, _ in best]
            np.testing.assert_allclose(outputs["probability"][row, place], [value for _, value in best], atol=1e-6)
    assert (outputs["token"][2] == b"").all() and (outputs["token_id"][0, 1] == -1).all()
    assert served(text=tf.constant([], tf.string))["token"].shape[0] == 0
