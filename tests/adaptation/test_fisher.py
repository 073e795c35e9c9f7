"""Fisher information: against gradients of single examples, from every form of data, without effect on the model."""

import keras
import numpy as np
import pytest

from keras_transfer.adaptation.fisher import Fisher, estimate_fisher
from keras_transfer.text import batches
from tests.adaptation.fisher_models import LABELS, TEXTS, data_of, features, linear, set_weights, small, words
from tests.hub import saved_modules as modules
from tests.samples import REFERENCES
from tests.tasks import tiny


def residuals(model, x, y):
    """d(-log p) / d logits of softmax regression, [examples, classes], by the formula."""
    kernel, bias = [np.array(weight, "float64") for weight in model.get_weights()]
    logits = x @ kernel + bias
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return probabilities - np.eye(3)[y], probabilities


def assert_same(fisher, other, tolerance=1e-5):
    assert list(fisher) == list(other)
    for path, values in fisher.items():
        np.testing.assert_allclose(values, other[path], rtol=0, atol=tolerance * np.abs(other[path]).max())


@pytest.mark.core
def test_fisher_information_is_the_mean_of_squared_gradients_of_single_examples():
    model, (x, y) = linear(), features()
    errors, _ = residuals(model, x, y)
    fisher = estimate_fisher(model, x, y, empirical=True)
    assert isinstance(fisher, Fisher) and list(fisher) == [weight.path for weight in model.trainable_weights]
    kernel, bias = fisher.values()
    assert kernel.dtype == "float32" and kernel.shape == (4, 3)
    np.testing.assert_allclose(kernel, np.mean((x[:, :, None] * errors[:, None]) ** 2, axis=0), rtol=1e-5)
    np.testing.assert_allclose(bias, np.mean(errors**2, axis=0), rtol=1e-5)


def test_the_fisher_information_of_a_task_is_exact_and_ignores_dropout():
    import tensorflow as tf

    model = small()
    weights = [weight.value for weight in model.trainable_weights]
    expected = [np.zeros(weight.shape) for weight in weights]
    for text, label in zip(TEXTS, LABELS):
        with tf.GradientTape() as tape:
            logits = model(tiny.ids_of(model, [text]), training=False)
            loss = keras.losses.sparse_categorical_crossentropy(np.array([label]), logits, from_logits=True)
        for total, gradient in zip(expected, tape.gradient(loss, weights)):
            total += tf.convert_to_tensor(gradient).numpy().astype("float64") ** 2 / len(TEXTS)
    fisher = estimate_fisher(model, TEXTS, LABELS, empirical=True)
    assert len(fisher) == len(model.trainable_weights)
    assert_same(fisher, {weight.path: total for weight, total in zip(model.trainable_weights, expected)})


def figures():
    """Results that are equal on every backend, including the drawn labels. `references/make_fisher.py` stores them."""
    ids = np.random.default_rng(0).integers(0, 6, (12, 7))
    own = estimate_fisher(words(), ids, seed=3)
    of_data = estimate_fisher(words(), ids[:5], ids[:5, 0] % 3, empirical=True)
    return {f"{kind} {path}": values for kind, f in (("own", own), ("data", of_data)) for path, values in f.items()}


@pytest.mark.core
def test_every_backend_draws_the_same_labels_and_returns_the_same_estimate():
    expected, ours = np.load(REFERENCES / "fisher.npz"), figures()
    assert set(ours) == set(expected.files)
    for name, values in ours.items():
        np.testing.assert_allclose(values, expected[name], atol=1e-5 * expected[name].max(), err_msg=name)


# === Labels ===


def test_labels_of_the_model_are_drawn_from_its_predictions():
    model = linear()
    x = np.repeat(features(1)[0], 400, axis=0)
    _, [p, *_] = residuals(model, x, np.zeros(400, int))
    _, bias = estimate_fisher(model, x, seed=0).values()
    # The expectation over labels is the variance p (1 - p). The tolerance is four standard errors of a mean of 400.
    fourth = p * (1 - p) ** 4 + (1 - p) * p**4
    expected = p * (1 - p)
    assert (np.abs(bias - expected) < 4 * np.sqrt((fourth - expected**2) / 400)).all()


def test_a_confident_model_draws_the_labels_that_it_predicts(eagerly):
    model, (x, _) = linear(), features()
    model.set_weights([40 * weight for weight in model.get_weights()])
    likely = model.predict(x, verbose=0).argmax(axis=1)
    sure = np.sort(model.predict(x, verbose=0), axis=1)
    x, likely = x[sure[:, 2] - sure[:, 1] > 12], likely[sure[:, 2] - sure[:, 1] > 12]
    assert len(x) > 8
    assert_same(estimate_fisher(model, x), estimate_fisher(model, x, likely, empirical=True))


def test_a_seed_fixes_the_labels_and_otherwise_they_follow_the_seed_of_keras():
    model, (x, _) = linear(), features()
    first = estimate_fisher(model, x, seed=1)
    assert_same(first, estimate_fisher(model, x, seed=1), 0)
    assert any((first[path] != values).any() for path, values in estimate_fisher(model, x, seed=2).items())
    keras.utils.set_random_seed(5)
    followed = estimate_fisher(model, x)
    keras.utils.set_random_seed(5)
    assert_same(followed, estimate_fisher(model, x), 0)


def test_a_custom_loss_takes_other_labels():
    model = set_weights(keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)]))
    x, _ = features()
    y = np.linspace(-1, 1, 20)[:, None]
    errors = 2 * (x @ model.get_weights()[0] + model.get_weights()[1] - y)
    _, bias = estimate_fisher(model, x, y, empirical=True, loss="mse").values()
    np.testing.assert_allclose(bias, np.mean(errors**2, axis=0), rtol=1e-5)


def test_several_outputs_take_several_losses():
    inputs = keras.Input((4,))
    model = set_weights(keras.Model(inputs, {"a": keras.layers.Dense(3)(inputs), "b": keras.layers.Dense(2)(inputs)}))
    x, y = features()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    fisher = estimate_fisher(model, x, {"a": y, "b": y % 2}, empirical=True, loss={"a": loss, "b": loss})
    alone = keras.Model(inputs, model.output["a"])
    expected = estimate_fisher(alone, x, y, empirical=True)
    assert len(expected) == 2 and len(fisher) == 4
    for path, values in expected.items():
        np.testing.assert_allclose(fisher[path], values, rtol=1e-5)


def test_the_likelihood_of_a_sequence_covers_all_positions_except_padding():
    model = set_weights(keras.Sequential([keras.Input((None, 4)), keras.layers.Dense(3)]))
    x, y = features(12)
    errors, _ = residuals(model, x, y)
    real = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 1], [1, 1, 1]], "float32")
    sums = (errors.reshape(4, 3, 3) * real[:, :, None]).sum(axis=1)
    data = [(x.reshape(4, 3, 4)[i : i + 2], y.reshape(4, 3)[i : i + 2], real[i : i + 2]) for i in (0, 2)]
    _, bias = estimate_fisher(model, data_of(data), empirical=True).values()
    np.testing.assert_allclose(bias, np.mean(sums**2, axis=0), rtol=1e-5)
    _, bias = estimate_fisher(model, x.reshape(4, 3, 4), seed=0).values()
    assert bias.shape == (3,) and (bias > 0).all()


# === Data ===


@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
def test_every_form_of_the_same_data_gives_the_same_result():
    import tensorflow as tf

    model = small()
    expected = estimate_fisher(model, TEXTS, LABELS, empirical=True)
    assert max(values.max() for values in expected.values()) > 1e-3
    ids = {name: np.array(values) for name, values in tiny.ids_of(model, TEXTS).items()}
    texts = tf.data.Dataset.from_tensor_slices((TEXTS, LABELS))
    prepared = tf.data.Dataset.from_tensor_slices((ids, LABELS))
    train = batches(TEXTS, LABELS, preprocessor=model.preprocessor, batch_size=5, seed=0)
    assert_same(estimate_fisher(model, np.array(TEXTS), np.array(LABELS), empirical=True), expected)
    assert_same(estimate_fisher(model, ids, LABELS, empirical=True), expected)
    assert_same(estimate_fisher(model, texts.batch(7), empirical=True), expected)
    assert_same(estimate_fisher(model, prepared.batch(6), empirical=True), expected)
    assert_same(estimate_fisher(model, train, empirical=True), expected)
    assert_same(estimate_fisher(model, (train[i] for i in range(len(train))), empirical=True), expected)


@pytest.mark.usefixtures("eagerly")
def test_pairs_of_texts_are_examples_of_a_task():
    model = small()
    pairs = (TEXTS, TEXTS[::-1])
    expected = estimate_fisher(model, batches(pairs, LABELS, preprocessor=model.preprocessor), empirical=True)
    assert_same(estimate_fisher(model, pairs, LABELS, empirical=True), expected)


@pytest.mark.usefixtures("eagerly")
def test_batches_of_texts_keep_their_order_for_the_next_fit():
    model = small()
    train = batches(TEXTS, LABELS, preprocessor=model.preprocessor, batch_size=5, seed=0)
    before = train.order
    estimate_fisher(model, train, samples=3)
    np.testing.assert_array_equal(train.order, before)


@pytest.mark.slow
def test_samples_are_drawn_from_data_in_memory_and_taken_from_the_start_of_a_stream():
    model, (x, y) = linear(), features()
    stream = ((x[i : i + 3], y[i : i + 3]) for i in range(0, 20, 3))
    first = estimate_fisher(model, x[:4], y[:4], empirical=True)
    assert_same(estimate_fisher(model, stream, empirical=True, samples=4), first)
    drawn = estimate_fisher(model, x, y, empirical=True, samples=4, seed=0)
    assert_same(estimate_fisher(model, x, y, empirical=True, samples=4, seed=0), drawn, 0)
    assert any((drawn[path] != values).any() for path, values in first.items())
    singles = [estimate_fisher(model, x[i : i + 1], y[i : i + 1], empirical=True) for i in range(20)]
    # The result is the mean over exactly four different examples.
    biases = np.array([list(single.values())[1] for single in singles])
    rows = np.random.default_rng(0).choice(20, 4, replace=False)
    np.testing.assert_allclose(list(drawn.values())[1], biases[rows].mean(axis=0), rtol=1e-5)
    everything = estimate_fisher(model, x, y, empirical=True)
    assert_same(estimate_fisher(model, x, y, empirical=True, samples=100), everything, 0)


def test_a_sample_weight_of_n_counts_an_example_n_times():
    model, (x, y) = linear(), features(6)
    weights = np.array([1, 2, 0, 1, 0, 0], "float32")
    rows = [0, 1, 1, 3]
    expected = estimate_fisher(model, x[rows], y[rows], empirical=True)
    assert_same(estimate_fisher(model, data_of([(x, y, weights)]), empirical=True), expected)


def test_a_module_that_takes_strings_has_fisher_information(tmp_path):
    import tensorflow as tf

    from keras_transfer.hub import HubLayer

    layer = HubLayer(modules.save_text_module(tmp_path / "module"), trainable=True)
    model = keras.Sequential([keras.Input((), dtype="string"), layer, keras.layers.Dense(2)])
    fisher = estimate_fisher(model, tf.constant(modules.TEXTS), modules.LABELS, empirical=True)
    assert list(fisher) == [weight.path for weight in model.trainable_weights]
    expected = dict.fromkeys(fisher, 0.0)
    weights = [weight.value for weight in model.trainable_weights]
    for text, label in zip(modules.TEXTS, modules.LABELS):
        with tf.GradientTape() as tape:  # Without the dropout and the regularization of the module.
            logits = model(tf.constant([text]), training=False)
            loss = keras.losses.sparse_categorical_crossentropy(np.array([label]), logits, from_logits=True)
        for path, gradient in zip(fisher, tape.gradient(loss, weights)):
            expected[path] = expected[path] + tf.convert_to_tensor(gradient).numpy() ** 2 / 4
    assert_same(fisher, expected)


# === The model ===


def test_only_trainable_weights_are_included_and_unused_ones_are_zero():
    inputs = keras.Input((4,))
    hidden = keras.layers.Dense(4, name="hidden")

    class Half(keras.layers.Layer):
        def build(self, shape):
            self.used = self.add_weight(shape=(), initializer="ones", name="used")
            self.unused = self.add_weight(shape=(), initializer="ones", name="unused")

        def call(self, x):
            return self.used * x

    half = Half(name="half")
    model = keras.Model(inputs, keras.layers.Dense(3, name="logits")(half(hidden(inputs))))
    hidden.trainable = False
    fisher = estimate_fisher(model, features()[0], seed=0)
    assert list(fisher) == ["half/used", "half/unused", "logits/kernel", "logits/bias"]
    assert fisher["half/unused"] == 0 and fisher["half/used"] > 0


@pytest.mark.parametrize(
    ("options", "tolerance"),
    [({"kernel_regularizer": keras.regularizers.L2(10.0)}, 0), ({"dtype": "mixed_bfloat16"}, 0.05)],
    ids=["regularization", "mixed precision"],
)
def test_regularization_has_no_effect_and_mixed_precision_nearly_none(options, tolerance):
    x, y = features()
    expected = estimate_fisher(linear(), x, y, empirical=True)
    assert_same(estimate_fisher(linear(**options), x, y, empirical=True), expected, tolerance)


def state(model):
    variables = [*model.variables, *model.optimizer.variables, *model.metrics_variables]
    return [(variable.path, variable.trainable, keras.ops.convert_to_numpy(variable).copy()) for variable in variables]


def trained():
    """A partly trained classifier with dropout, and therefore with seeds."""
    model = small()
    model.get_layer("token_embedding").trainable = False
    model.compile(keras.optimizers.Adam(1e-2))
    model.fit(TEXTS, LABELS, shuffle=False, verbose=0)
    return model


@pytest.mark.usefixtures("eagerly")
def test_the_model_does_not_change_and_continues_to_train_the_same():
    model, untouched = trained(), trained()
    before, compiled = state(model), (model.optimizer, model.loss, model.train_function)
    estimate_fisher(model, TEXTS, seed=0)
    for (path, trainable, values), (_, trainable_now, now) in zip(before, state(model), strict=True):
        assert trainable == trainable_now, path
        np.testing.assert_array_equal(now, values, err_msg=path)
    assert (model.optimizer, model.loss, model.train_function) == compiled
    for each in (model, untouched):
        keras.utils.set_random_seed(1)  # Dropout on torch follows this, not the seeds of the layers.
        each.fit(TEXTS, LABELS, shuffle=False, verbose=0)
    for ours, theirs in zip(model.get_weights(), untouched.get_weights()):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_the_state_of_layers_is_restored_even_after_an_error():
    class Noise(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.seeds = keras.random.SeedGenerator(0)

        def call(self, x):
            return x + keras.random.normal(keras.ops.shape(x), seed=self.seeds)

    model = keras.Sequential([keras.Input((4,)), Noise(), keras.layers.Dense(3)])
    before = [keras.ops.convert_to_numpy(variable).copy() for variable in model.variables]
    x, y = features()
    estimate_fisher(model, x)
    with pytest.raises(ValueError, match="from 0 to 2"):
        estimate_fisher(model, data_of([(x, y), (x, y + 1)]), empirical=True)
    for variable, values in zip(model.variables, before, strict=True):
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(variable), values)


# === Files ===


def test_a_file_restores_fisher_information_with_any_paths(tmp_path):
    fisher = Fisher({"a/b:0": np.ones((2, 3), "float32"), "file": np.zeros((), "float32"), "ü": np.ones(1, "float32")})
    fisher.save(tmp_path / "new" / "fisher")
    loaded = Fisher.load(tmp_path / "new" / "fisher")
    assert isinstance(loaded, Fisher)
    assert_same(loaded, fisher, 0)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["fisher"]


def test_a_file_is_replaced_only_on_request_and_completely(tmp_path):
    path = tmp_path / "fisher.npz"
    Fisher({"a": np.ones(2)}).save(path)
    with pytest.raises(FileExistsError, match="`overwrite=True`. Received: path="):
        Fisher({"a": np.zeros(2)}).save(path)

    class Broken:
        def __array__(self, *args, **kwargs):
            raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        Fisher({"a": Broken()}).save(path, overwrite=True)
    assert Fisher.load(path)["a"].tolist() == [1, 1]
    Fisher({"a": np.zeros(2)}).save(path, overwrite=True)
    assert Fisher.load(path)["a"].tolist() == [0, 0]
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("content", ["nonsense", "other arrays", "one array"])
def test_a_file_of_another_format_is_an_error(tmp_path, content):
    path = tmp_path / "other.npz"
    path.write_bytes(b"nonsense")
    if content == "other arrays":
        np.savez(path, a=np.ones(2))
    if content == "one array":
        with open(path, "wb") as file:
            np.save(file, np.ones(2))
    with pytest.raises(ValueError, match="`Fisher.save` wrote. Received: .*other.npz"):
        Fisher.load(path)
    with pytest.raises(FileNotFoundError):
        Fisher.load(tmp_path / "none.npz")


def test_only_the_drawn_samples_of_raw_text_are_prepared(monkeypatch):
    texts, labels = tiny.examples(16)
    model, seen = tiny.classifier(), []
    prepare = model.reader.batches

    def batches(columns, y, **options):
        seen.append(len(columns))
        return prepare(columns, y, **options)

    monkeypatch.setattr(model.reader, "batches", batches)
    estimate_fisher(model, texts, labels, empirical=True, samples=3, seed=0)
    estimate_fisher(model, texts, samples=3, seed=0)
    assert seen == [3, 3]


def test_labels_for_a_custom_loss_are_not_checked_by_the_task():
    texts, _ = tiny.examples(4)
    model = tiny.classifier()
    model.compile("sgd")
    soft = np.full((4, 2), 0.5, "float32")
    loss = keras.losses.CategoricalCrossentropy(from_logits=True, reduction="sum")
    fisher = estimate_fisher(model, texts, soft, empirical=True, loss=loss)
    assert all(np.isfinite(value).all() for value in fisher.values())
