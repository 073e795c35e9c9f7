"""A classifier takes raw text in `fit`, `evaluate` and `predict`, learns, and survives `.keras`."""

import keras
import numpy as np
import pandas
import pytest

from keras_transfer.encoders import BertEncoder, TransformerEncoder
from keras_transfer.tasks import TextClassifier
from keras_transfer.text import BertPreprocessor, batches
from tests.helpers import save_and_load

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij", "good", "bad"]


def preprocessor(**options):
    return BertPreprocessor(VOCABULARY, **{"sequence_length": 32, **options})


def encoder(cls=BertEncoder, **options):
    sizes = {"num_layers": 2, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32, "max_sequence_length": 32}
    return cls(len(VOCABULARY), **{**sizes, "dropout": 0.0, **options})


def classifier(num_classes=2, **options):
    keras.utils.set_random_seed(0)
    return TextClassifier(encoder(), num_classes, preprocessor=preprocessor(), dropout=0.0, **options)


def ids_of(model, texts):
    return {key: keras.ops.convert_to_tensor(np.array(value)) for key, value in model.preprocessor(texts).items()}


def examples(count=64):
    """Texts of 3 to 20 letters with one word that decides."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, count)
    texts = []
    for label in labels:
        words = random.choice(list("abcdefghij"), random.integers(2, 20)).tolist()
        words.insert(random.integers(0, len(words)), ["bad", "good"][label])
        texts.append(" ".join(words))
    return texts, labels.tolist()


# === The model ===


@pytest.mark.parametrize("pooling", ["pooled", "first", "mean", "max", "concat"])
def test_every_pooling_sees_real_tokens_only(pooling):
    model = classifier(pooling=pooling)
    short = model.preprocessor(["a b c"], sequence_length="longest")
    long = {key: value.numpy() for key, value in model.preprocessor(["a b c"], sequence_length=32).items()}
    long = {**long, "token_ids": np.where(long["padding_mask"] == 1, long["token_ids"], 7)}
    np.testing.assert_allclose(model(short), model(long), atol=1e-5)
    width = {"concat": 48}.get(pooling, 16)
    assert model.get_layer("logits").kernel.shape == (width, 2)


def test_the_default_pooling_is_the_checkpoints_then_pooled_then_mean():
    assert TextClassifier(encoder(), 2).pooling == "pooled"
    assert TextClassifier(encoder(pooler=False), 2).pooling == "mean"
    assert TextClassifier(encoder(pooling="max"), 2).pooling == "max"
    assert TextClassifier(encoder(TransformerEncoder), 2).pooling == "mean"


def test_every_layer_of_the_encoder_is_a_layer_of_the_task():
    model = classifier()
    assert {f"block_{i}" for i in range(2)} < {layer.name for layer in model.layers}
    features = keras.Model(model.input, model.get_layer("block_0").output)
    rest = keras.Model([model.get_layer("block_0").output, model.input["padding_mask"]], model.output)
    inputs = ids_of(model, ["a b", "c"])
    np.testing.assert_allclose(rest([features(inputs), inputs["padding_mask"]]), model(inputs), atol=1e-6)


def test_weights_that_are_not_used_are_not_the_tasks():
    assert not [w.path for w in classifier(pooling="mean").weights if "pooler" in w.path]


def test_logits_are_float32_under_mixed_precision():
    model = TextClassifier(encoder(dtype="mixed_bfloat16"), 2, preprocessor=preprocessor())
    assert model.predict(["a b"], verbose=0).dtype == np.float32
    assert model.get_layer("block_0").compute_dtype == "bfloat16"


# === Raw text ===


def test_it_learns_from_raw_text_and_predicts_in_the_order_of_the_texts():
    texts, labels = examples()
    model = classifier()
    model.compile(keras.optimizers.Adam(5e-3))
    history = model.fit(texts, labels, batch_size=16, epochs=15, verbose=0).history
    assert history["loss"][-1] < 0.2 < history["loss"][0]
    logits = model.predict(texts, batch_size=8, verbose=0)
    right = (logits.argmax(-1) == labels).mean()
    assert logits.shape == (64, 2) and right > 0.95
    assert model.evaluate(texts, labels, verbose=0, return_dict=True)["accuracy"] == pytest.approx(right)
    alone = model.predict(texts[10], verbose=0)
    np.testing.assert_allclose(alone, logits[10:11], atol=1e-5)


def test_every_form_of_the_same_data_trains_to_the_same_weights():
    import tensorflow as tf

    texts, labels = examples(16)
    prep = preprocessor()
    dataset = tf.data.Dataset.from_tensor_slices((texts, labels)).batch(16)
    forms = {
        "list": (texts, labels),
        "object array": (np.array(texts, object), np.array(labels)),
        "string array": (np.array(texts), np.array(labels)),
        "pandas": (pandas.Series(texts), pandas.Series(labels)),
        "tensor": (tf.constant(texts), labels),
        "batches": (batches(texts, labels, prep, batch_size=16, shuffle=False), None),
        "tf.data of texts": (dataset, None),
        "tf.data of ids": (dataset.map(lambda x, y: (prep(x), y)), None),
        "dict of ids": ({key: value.numpy() for key, value in prep(texts).items()}, np.array(labels)),
    }
    results = {}
    for name, (x, y) in forms.items():
        model = classifier()
        model.compile(keras.optimizers.SGD(0.1))
        model.fit(x, y, batch_size=16, epochs=3, shuffle=False, verbose=0)
        results[name] = model.get_layer("logits").kernel.numpy()
    for name, kernel in results.items():
        np.testing.assert_allclose(kernel, results["list"], atol=1e-5, err_msg=name)


def test_loss_and_metrics_are_those_of_the_texts_whatever_the_batches():
    texts, labels = examples(33)
    model = classifier()
    for loss in ("auto", keras.losses.SparseCategoricalCrossentropy(from_logits=True)):
        model.compile(keras.optimizers.SGD(0.1), loss=loss, metrics="auto")
        model.fit(texts, labels, batch_size=8, verbose=0)
        logits = model.predict(texts, verbose=0)
        expected = -np.log(np.exp(logits)[range(33), labels] / np.exp(logits).sum(axis=1)).mean()
        accuracy = (logits.argmax(-1) == labels).mean()
        for size in (8, 32, 33):
            result = model.evaluate(texts, labels, batch_size=size, verbose=0)
            np.testing.assert_allclose(result, [expected, accuracy], atol=1e-5)


@pytest.mark.parametrize("size", [1, 16])
def test_sample_weights_and_class_weights_reach_the_loss_as_in_keras(size):
    texts, labels = examples(16)
    weights = np.where(np.array(labels) == 1, 3.0, 1.0)
    order = batches(texts, labels, preprocessor(), batch_size=size, shuffle=False).order
    ids = {key: value.numpy()[order] for key, value in preprocessor()(texts).items()}
    kernels = []
    for x, y, options in (
        (texts, labels, {"sample_weight": weights}),
        (texts, labels, {"class_weight": {1: 3.0}}),
        (ids, np.array(labels)[order], {"sample_weight": weights[order]}),
        (texts, labels, {}),
    ):
        model = classifier()
        model.compile(keras.optimizers.SGD(0.1))
        model.fit(x, y, batch_size=size, shuffle=False, verbose=0, **options)
        kernels.append(model.get_layer("logits").kernel.numpy())
    np.testing.assert_allclose(kernels[0], kernels[1], atol=1e-6)
    np.testing.assert_allclose(kernels[0], kernels[2], atol=1e-5)
    assert np.abs(kernels[0] - kernels[3]).max() > 1e-3


def test_validation_data_may_be_raw_text_and_a_share_may_be_split_off():
    texts, labels = examples(20)
    model = classifier()
    model.compile("sgd")
    history = model.fit(texts, labels, validation_data=(texts[:5], labels[:5]), verbose=0).history
    assert {"val_loss", "val_accuracy"} < set(history)
    split = model.fit(texts, labels, validation_split=0.25, verbose=0).history
    assert split["val_accuracy"][0] == pytest.approx(model.evaluate(texts[15:], labels[15:], verbose=0)[1])


def test_pairs_of_texts_are_a_tuple_of_two_columns():
    texts, labels = examples(16)
    model = classifier()
    model.compile("sgd")
    model.fit((texts, texts[::-1]), labels, verbose=0)
    logits = model.predict((texts, texts[::-1]), verbose=0)
    np.testing.assert_allclose(logits, model(model.preprocessor((texts, texts[::-1]))), atol=1e-5)


def test_an_encoder_without_segments_ignores_the_preprocessors_segment_ids(recwarn):
    texts, labels = examples(16)
    model = TextClassifier(encoder(TransformerEncoder), 2, preprocessor=preprocessor())
    model.compile("sgd")
    model.fit(texts, labels, verbose=0)
    assert model.predict(texts, verbose=0).shape == (16, 2)
    assert not [str(w.message) for w in recwarn if "structure" in str(w.message)]


# === What survives `.keras` ===


def test_weights_preprocessor_optimizer_loss_and_metrics_survive_keras():
    texts, labels = examples(16)
    model = classifier(pooling="max")
    model.compile(keras.optimizers.SGD(0.123, momentum=0.9), metrics=["accuracy"])
    model.fit(texts, labels, batch_size=16, shuffle=False, verbose=0)
    same = save_and_load(model)
    np.testing.assert_array_equal(same.predict(texts, verbose=0), model.predict(texts, verbose=0))
    assert same.preprocessor.vocabulary == VOCABULARY
    assert same.get_config() == model.get_config()
    assert type(same.optimizer) is keras.optimizers.SGD
    assert float(same.optimizer.learning_rate) == pytest.approx(0.123)
    results = []
    for either in (model, same):  # momentum came along: the next steps are the same
        either.fit(texts, labels, batch_size=16, shuffle=False, verbose=0)
        results.append(either.predict(texts, verbose=0))
    np.testing.assert_array_equal(*results)


def test_which_weights_are_frozen_survives_keras():
    model = classifier()
    model.encoder.blocks[0].trainable = False
    model.get_layer("block_1").attention.query_key_value.bias.trainable = False
    model.compile("adam")
    texts, labels = examples(16)
    model.fit(texts, labels, verbose=0)
    same = save_and_load(model)
    frozen = [weight.path for weight in model.weights if not weight.trainable]
    assert len(frozen) == 13
    assert [weight.path for weight in same.weights if not weight.trainable] == frozen
    before = [weight.numpy() for weight in same.weights]
    same.fit(texts, labels, verbose=0)
    for weight, old in zip(same.weights, before):
        assert (np.abs(weight.numpy() - old).max() > 0) == (weight.path not in frozen), weight.path


def test_what_was_frozen_before_saving_can_be_thawed_after_loading():
    model = classifier()
    model.encoder.trainable = False
    model.get_layer("block_0").attention.output_dense.trainable = False
    same = save_and_load(model)
    assert len(same.trainable_weights) == 2
    same.encoder.trainable = True
    assert len(same.trainable_weights) == len(same.weights) == 33
    partly = classifier()
    partly.get_layer("block_0").attention.trainable = False
    partly = save_and_load(partly)
    assert len(partly.trainable_weights) == 29
    partly.get_layer("block_0").attention.trainable = True
    assert len(partly.trainable_weights) == 33


def test_a_frozen_encoder_stays_frozen_in_a_task():
    model = TextClassifier(encoder(trainable=False), 2, preprocessor=preprocessor())
    assert [weight.path for weight in model.trainable_weights] == ["logits/kernel", "logits/bias"]


def test_the_encoder_of_a_reloaded_task_is_the_one_that_it_trains():
    same = save_and_load(classifier())
    inputs = ids_of(same, ["a b c"])
    before = keras.ops.convert_to_numpy(same.encoder(inputs)["sequence_output"])
    same.compile(keras.optimizers.SGD(0.5))
    same.fit(["a b c"], [1], verbose=0)
    after = keras.ops.convert_to_numpy(same.encoder(inputs)["sequence_output"])
    assert np.abs(after - before).max() > 1e-4


# === What a user can get wrong ===


def trained():
    model = classifier()
    model.compile("sgd")
    return model


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 2], r"from 0 to 1. Received: \[2\], first at position 1"),
        ([-1, 0], r"Received: \[-1\], first at position 0"),
        (["yes", "no"], r"whole numbers from 0 to 1, one for each text. Received: <U3"),
        ([0.5, 1.0], "Received: float64"),
        ([0], "Received: 1 labels, 2 texts"),
        ([[1, 0, 0], [0, 1, 0]], r"shape \(2, 3\)"),
        ([[1, 0], [0, 1]], r"shape \(2, 2\)"),
        (1, r"Received: int64 of shape \(\)"),
        (None, "texts need labels, the second argument. Received: None"),
    ],
)
def test_labels_that_cannot_be_are_one_clear_error_and_nothing_is_trained(labels, message):
    model = trained()
    before = model.get_layer("logits").kernel.numpy()
    for call in (model.fit, model.evaluate):
        with pytest.raises(ValueError, match=message):
            call(["a", "b"], labels, verbose=0)
    np.testing.assert_array_equal(model.get_layer("logits").kernel.numpy(), before)


def test_labels_of_prepared_batches_are_checked_too():
    model = trained()
    with pytest.raises(ValueError, match=r"Received: \[5\]"):
        model.fit(batches(["a", "b"], [0, 5], model.preprocessor), verbose=0)


def test_labels_of_prepared_ids_are_checked_too():
    model = trained()
    ids = {key: value.numpy() for key, value in model.preprocessor(["a", "b"]).items()}
    for call in (model.fit, model.evaluate):
        with pytest.raises(ValueError, match=r"Received: \[5\]"):
            call(ids, np.array([0, 5]), verbose=0)
    with pytest.raises(ValueError, match=r"Received: \[5\]"):
        model.fit(ids, np.array([0, 1]), validation_data=(ids, np.array([0, 5])), verbose=0)


def test_one_hot_labels_go_with_a_loss_that_takes_them():
    model = classifier()
    model.compile("sgd", loss=keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1), metrics=[])
    model.fit(["a", "b"], np.eye(2), verbose=0)


def test_arguments_that_batches_have_already_are_keras_errors_and_not_ignored():
    model = trained()
    prepared = batches(["a", "b"], [0, 1], model.preprocessor)
    with pytest.raises(ValueError, match="`y` should not be passed"):
        model.fit(prepared, [0, 1], verbose=0)
    for size in (0, -7):
        with pytest.raises(ValueError, match=f"Received: {size}"):
            model.fit(["a", "b"], [0, 1], batch_size=size, verbose=0)
        with pytest.raises(ValueError, match=f"Received: {size}"):
            model.fit(["a"], [0], validation_data=(["b"], [1]), validation_batch_size=size, verbose=0)
    with pytest.raises(ValueError, match="Received: steps=2"):
        model.predict(["a"], steps=2, verbose=0)


def test_a_split_that_leaves_nothing_is_an_error_with_the_numbers_of_the_user():
    with pytest.raises(ValueError, match=r"Received: 2 texts, 2 labels, validation_split=0.999"):
        trained().fit(["a", "b"], [0, 1], validation_split=0.999, verbose=0)
    with pytest.raises(ValueError, match="Received: 4 texts, 2 labels"):
        trained().fit(["a", "b", "c", "d"], [0, 1], validation_split=0.5, verbose=0)


def test_missing_texts_and_empty_data_are_errors():
    model = trained()
    with pytest.raises(ValueError, match=r"Received: \[None\]"):
        model.fit(["a", None], [0, 1], verbose=0)
    with pytest.raises(ValueError, match="there are no texts"):
        model.fit([], [], verbose=0)
    with pytest.raises(ValueError, match="there are no texts"):
        model.predict([], verbose=0)


def test_a_loss_that_expects_probabilities_is_an_error():
    for loss in (
        "sparse_categorical_crossentropy",
        "bce",
        ["categorical_focal_crossentropy"],
        keras.losses.sparse_categorical_crossentropy,
        keras.losses.CategoricalCrossentropy(),
    ):
        with pytest.raises(ValueError, match="returns logits"):
            classifier().compile("adam", loss=loss)


def test_raw_text_without_a_preprocessor_is_an_error():
    model = TextClassifier(encoder(), 2)
    model.compile("sgd")
    with pytest.raises(ValueError, match="raw text needs a preprocessor"):
        model.fit(["a"], [0], verbose=0)


def test_a_dataset_of_texts_that_is_not_batched_is_an_error():
    import tensorflow as tf

    with pytest.raises(ValueError, match="must be batched"):
        trained().fit(tf.data.Dataset.from_tensor_slices((["a"], [0])), verbose=0)
    with pytest.raises(ValueError, match=r"pairs without labels are `\(\(a, b\),\)`"):
        trained().predict(tf.data.Dataset.from_tensor_slices((["a"], ["b"])).batch(1), verbose=0)


def test_a_preprocessor_that_does_not_fit_the_encoder_is_an_error():
    with pytest.raises(ValueError, match="positions for 32 tokens.*Received: sequence_length=64"):
        TextClassifier(encoder(), 2, preprocessor=preprocessor(sequence_length=64))
    more = BertPreprocessor([*VOCABULARY, "more"], sequence_length=32)
    with pytest.raises(ValueError, match="17 rows. Received: a vocabulary of 18 tokens"):
        TextClassifier(encoder(), 2, preprocessor=more)


def test_a_smaller_vocabulary_than_the_embedding_is_logged(caplog):
    TextClassifier(encoder(), 2, preprocessor=BertPreprocessor(VOCABULARY[:-1], sequence_length=32))
    assert "17 rows and the vocabulary 16 tokens" in caplog.text


def test_a_sequence_longer_than_the_position_table_is_an_error():
    model = trained()
    ids = {name: np.ones((2, 40), "int32") for name in model.input}
    for call in (lambda: model(ids), lambda: model.fit(ids, np.array([0, 1]), verbose=0)):
        with pytest.raises(ValueError, match="position table has 32 rows.*Received: 40 tokens"):
            call()


def test_a_misspelt_argument_is_an_error():
    with pytest.raises(TypeError, match="droput"):
        TextClassifier(encoder(), 2, droput=0.0)


def test_unknown_poolings_and_too_few_classes_are_errors():
    with pytest.raises(ValueError, match="Received: 'average'"):
        TextClassifier(encoder(), 2, pooling="average")
    with pytest.raises(ValueError, match="has no pooled output"):
        TextClassifier(encoder(pooler=False), 2, pooling="pooled")
    for classes in (1, None):
        with pytest.raises(ValueError, match=f"at least 2. Received: {classes}"):
            TextClassifier(encoder(), classes)
    with pytest.raises(ValueError, match="from_pretrained. Received: 'minilm-l6'"):
        TextClassifier("minilm-l6", 2)
    with pytest.raises(ValueError, match="Received: preprocessor='minilm-l6'"):
        TextClassifier(encoder(), 2, preprocessor="minilm-l6")


# === Reproducibility ===


def test_the_same_seed_gives_the_same_weights():
    texts, labels = examples(40)
    kernels = []
    for seed in (1, 1, 2):
        keras.utils.set_random_seed(seed)
        model = TextClassifier(encoder(dropout=0.1), 2, preprocessor=preprocessor())
        model.compile(keras.optimizers.Adam(1e-3))
        model.fit(texts, labels, batch_size=8, epochs=2, verbose=0)
        kernels.append(model.get_layer("logits").kernel.numpy())
    np.testing.assert_array_equal(kernels[0], kernels[1])
    assert np.abs(kernels[0] - kernels[2]).max() > 1e-3


# === A pretrained encoder ===


def test_from_pretrained_brings_encoder_preprocessor_and_pooling(minilm):
    model = TextClassifier.from_pretrained(minilm, num_classes=6, sequence_length=64, encoder={"dropout": 0.0})
    assert model.pooling == "mean"
    assert model.preprocessor.sequence_length == 64
    assert model.encoder.dropout == 0.0
    assert model.predict(["Who?"], verbose=0).shape == (1, 6)
