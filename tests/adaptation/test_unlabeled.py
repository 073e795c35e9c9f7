"""Texts without labels: each loss against its formula, what trains, what stays as it was, and mistakes."""

import contextlib

import keras
import numpy as np
import pytest
from keras import ops

from keras_transfer.adaptation import (
    CVT,
    UDA,
    VAT,
    add_adapters,
    augment_texts,
    fit_with_unlabeled,
    get_recipe,
    self_train,
    unlabeled,
)
from keras_transfer.adaptation.self_training import confident
from keras_transfer.adaptation.unlabeled import AnnealedSignal, WithUnlabeled
from keras_transfer.callbacks import TrainingCheckpoint
from keras_transfer.data import WithLabeled
from keras_transfer.encoders import ElmoEncoder
from keras_transfer.tasks import TextClassifier, TextRegressor, TokenClassifier
from keras_transfer.text import ElmoPreprocessor
from keras_transfer.training import gradient_of
from tests.errors import check_errors
from tests.tasks import tiny

TEXTS, LABELS = ["good a b c d", "bad", "a good", "bad b c"], ["good", "bad", "good", "bad"]
MORE, NAMES = ["a b good", "c d bad e", "good f", "bad g h"], ["bad", "good"]
WORDS = [text.split() for text in MORE]


def classifier(num_layers=2, cls=TextClassifier, **options):
    """A task whose outputs differ clearly between texts."""
    keras.utils.set_random_seed(0)
    encoder = tiny.encoder(num_layers=num_layers, initializer_range=0.3)
    return cls(encoder, tiny.preprocessor(), **{"label_names": NAMES, "dropout": 0.0, **options})


def of_vectors(label_names=NAMES, **options):
    """A task whose steps are quick."""
    keras.utils.set_random_seed(0)
    return tiny.of_words(["good", "bad", *"abcdef"], label_names=label_names, **{"dropout": 0.0, **options})


def prompted():
    task = classifier()
    add_adapters(task, "prompt")
    return task


def tagger(**options):
    return classifier(cls=TokenClassifier, **options)


def elmo_tagger():
    keras.utils.set_random_seed(0)
    encoder = ElmoEncoder(embedding_dim=4, filters=[(1, 4), (2, 8)], projection_dim=8, units=16, dropout=0.0)
    for number, weight in enumerate(encoder.weights):
        weight.assign(keras.random.normal(weight.shape, stddev=0.5, seed=number))
    return TokenClassifier(encoder, ElmoPreprocessor(), label_names=NAMES)


def weights_of(model):
    return [ops.convert_to_numpy(weight) for weight in model.weights]


def softmax(values):
    values = np.exp(values - values.max(axis=-1, keepdims=True))
    return values / values.sum(axis=-1, keepdims=True)


def divergence(target, own):
    p, q = (softmax(np.asarray(logits, "float64")) for logits in (target, own))
    return np.sum(p * np.log(p / q), axis=-1)


def one_step(model, texts=MORE, rate=0.0, sample_weight=None):
    """The history of one step with all texts."""
    rows = model.task.dataset(texts, model.task.labels.placeholders(texts), batch_size=len(texts))
    labeled = model.task.dataset(TEXTS, LABELS, sample_weight, batch_size=4)
    data = WithLabeled(model.method._rows(model.task, texts, rows), labeled)
    data.seed = 0
    model.compile(keras.optimizers.SGD(rate))
    return model.fit(data, verbose=0).history


def loss_of(task, method):
    return one_step(WithUnlabeled(task, method, weight=1.0))["unlabeled_loss"][0]


def train(task, method, texts=TEXTS, labels=LABELS, more=MORE, **options):
    options = {"batch_size": 4, "optimizer": keras.optimizers.SGD(0.1), "verbose": 0, **options}
    return fit_with_unlabeled(task, texts, labels, more, method=method, **options)


# === Each loss ===


@pytest.mark.core
def test_uda_learns_from_sharpened_answers_of_which_the_task_is_sure(eagerly):
    task, changed = classifier(), TEXTS[::-1]
    target, own = task.predict(MORE, verbose=0), task.predict(changed, verbose=0)
    best = np.sort(softmax(target).max(axis=1))
    threshold = float(best[1:3].mean())
    expected = np.sum(divergence(target / 0.4, own) * (softmax(target).max(axis=1) > threshold)) / 4
    assert loss_of(task, UDA(changed, threshold=threshold)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.core
@pytest.mark.parametrize(("schedule", "share"), [("linear", 0.4), ("log", 1 - np.exp(-2)), ("exp", np.exp(-3))])
def test_annealing_leaves_out_labels_that_are_more_probable_than_a_threshold(schedule, share):
    random = np.random.default_rng(0)
    logits, labels = random.normal(size=(50, 3), scale=2).astype("float32"), random.integers(0, 3, 50)
    right = softmax(logits)[np.arange(50), labels]
    counts = right <= share * (1 - 1 / 3) + 1 / 3
    loss = AnnealedSignal(schedule, iterations=4, steps=10)
    assert 0 < counts.sum() < 50
    assert float(loss(labels, logits)) == pytest.approx(-np.log(right[counts]).mean(), rel=1e-5)


@pytest.mark.core
def test_the_change_of_vat_follows_the_gradient_and_its_loss_is_the_divergence(eagerly, monkeypatch):
    task, random = of_vectors(["good", "bad", "ugly"], pooling="mean"), np.random.default_rng(1)
    noise, kernel = (random.normal(size=shape).astype("float32") for shape in ((4, 8, 4), (4, 3)))
    drawn = ops.convert_to_tensor(noise)
    monkeypatch.setattr(keras.random, "normal", lambda shape, **options: drawn[:, : shape[1]])
    task.get_layer("logits").kernel.assign(kernel)
    inputs = task.reader.in_one_batch(MORE)
    real, embeddings, noise, kernel = (
        np.asarray(ops.convert_to_numpy(values), "float64")
        for values in (inputs["padding_mask"], task.encoder.token_embedding(inputs["token_ids"]), noise, kernel)
    )
    noise, real, deviation = noise[:, : real.shape[1]], real[..., None], embeddings.std(axis=-1, keepdims=True)

    def logits(change=0.0):
        return ((embeddings + change) * real).sum(axis=1) / real.sum(axis=1) @ kernel

    def of_length(vectors, length):
        return deviation * length * vectors / np.sqrt((vectors**2).sum(axis=(1, 2), keepdims=True))

    answers = softmax(logits(of_length(noise * real, 0.5))) - softmax(logits())
    gradient = deviation * real / real.sum(axis=1, keepdims=True) * (answers @ kernel.T)[:, None]
    expected = divergence(logits(), logits(of_length(gradient, 2.0))).mean()
    assert loss_of(task, VAT(epsilon=2.0, xi=0.5)) == pytest.approx(expected, rel=1e-5)
    assert expected > 3 * divergence(logits(), logits(of_length(noise * real, 2.0))).mean()


@pytest.mark.parametrize("method", [UDA(threshold=0.0, seed=0), VAT(), CVT([0])], ids=repr)
def test_a_step_is_the_same_if_a_tape_records_the_answers_to_learn_from(method, monkeypatch):
    def step():
        task = classifier()
        one_step(WithUnlabeled(task, method, weight=1.0), rate=0.1)
        return weights_of(task)

    found = step()
    monkeypatch.setattr(unlabeled, "unrecorded", contextlib.nullcontext)
    for weight, expected in zip(found, step(), strict=True):
        np.testing.assert_allclose(weight, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.core
def test_a_gradient_within_a_step_is_that_of_the_function():
    values = ops.convert_to_tensor([[1.0, 2.0], [3.0, -1.0]])
    gradient, cubes = gradient_of(lambda values: values**3, values)
    np.testing.assert_allclose(ops.convert_to_numpy(gradient), [[3.0, 12.0], [27.0, 3.0]], rtol=1e-6)
    np.testing.assert_allclose(ops.convert_to_numpy(cubes), [[1.0, 8.0], [27.0, -1.0]], rtol=1e-6)


@pytest.mark.core
def test_the_views_of_cvt_learn_and_the_layers_above_them_do_not_move(eagerly):
    task = classifier()
    groups = {"below": task.encoder.blocks[0], "above": task.encoder.blocks[1], "head": task.get_layer("logits")}
    before = {name: weights_of(layer) for name, layer in groups.items()}
    model, inputs = WithUnlabeled(task, CVT(), weight=1.0), task.reader.in_one_batch(MORE)
    expected = divergence(task.predict(MORE, verbose=0), ops.convert_to_numpy(model.models(inputs)["layer_1"])).mean()
    history = one_step(model, rate=0.1, sample_weight=np.zeros(4))
    assert history["unlabeled_loss"][0] == history["loss"][0] == pytest.approx(expected, rel=1e-5)
    moved = {name: tiny.difference(weights_of(layer), before[name]) for name, layer in groups.items()}
    assert moved["below"] > 0 and moved["above"] == moved["head"] == 0


def test_the_views_of_a_bidirectional_lstm_are_both_directions_and_the_words_before_and_after(eagerly):
    task = elmo_tagger()
    method, width = CVT(directions=True), task.encoder.projection_dim
    model = WithUnlabeled(task, method, weight=1.0)
    inputs, labels = task.dataset(WORDS, task.labels.placeholders(WORDS), batch_size=4)[0]
    inputs = {name: ops.convert_to_tensor(values) for name, values in inputs.items()}
    views = {name: ops.convert_to_numpy(view) for name, view in model.models(inputs).items()}
    assert list(views) == ["forward_1", "backward_1", "future_1", "past_1"]
    target, real = ops.convert_to_numpy(task(inputs)), np.asarray(labels) >= 0
    expected = sum(divergence(target, view)[real].mean() for view in views.values())
    x, y = {**inputs, "unlabeled": (inputs, labels)}, ops.convert_to_tensor(labels)
    model.compile(keras.optimizers.SGD(0.0))
    model.compute_loss(x, y, model(inputs))
    assert float(model.unlabeled_loss.result()) == pytest.approx(expected, rel=1e-5)
    states = ops.convert_to_numpy(keras.Model(task.encoder.input, task.encoder.hidden_states[1])(inputs))
    before = np.pad(states[:, :-1, :width], [(0, 0), (1, 0), (0, 0)])
    after = np.pad(states[:, 1:, width:], [(0, 0), (0, 1), (0, 0)])
    for name, view in {"future_1": before, "past_1": after}.items():
        kernel, bias = weights_of(model.models.get_layer(f"{name}_logits"))
        np.testing.assert_allclose(views[name], view @ kernel + bias, atol=1e-6)


def test_the_lower_lstm_of_a_tagger_learns_from_views(eagerly):
    task = elmo_tagger()
    blocks = task.encoder.blocks
    before = [[weights_of(lstm) for lstm in block] for block in blocks]
    train(task, CVT(directions=True), WORDS, task.labels.placeholders(WORDS), WORDS, sample_weight=np.zeros(4))
    moved = [[tiny.difference(weights_of(lstm), own) for lstm, own in zip(*pair)] for pair in zip(blocks, before)]
    assert min(moved[0]) > 0 and max(moved[1]) == 0


# === A run ===


@pytest.mark.core
def test_a_step_follows_the_sum_of_both_gradients_at_the_same_weights(eagerly):
    def change(weight):
        task = of_vectors()
        before = weights_of(task)
        train(task, VAT(), weight=weight, optimizer=keras.optimizers.SGD(1.0))
        return [new - old for new, old in zip(weights_of(task), before)]

    alone = of_vectors()
    before = weights_of(alone)
    alone.compile(keras.optimizers.SGD(1.0))
    alone.train_on_batch(TEXTS, LABELS)
    of_labels, once, twice = change(0.0), change(1.0), change(2.0)
    assert tiny.difference(of_labels, [new - old for new, old in zip(weights_of(alone), before)]) < 1e-6
    assert tiny.difference(once, of_labels) > 1e-3
    for own, one, two in zip(of_labels, once, twice):
        np.testing.assert_allclose(two - own, 2 * (one - own), atol=1e-6)


@pytest.mark.core
def test_rows_with_labels_are_read_equally_often_in_other_batches_each_time():
    task = of_vectors()
    texts = ["good " * length for length in range(1, 11)]
    labeled = task.dataset(texts, ["good", "bad"] * 5, batch_size=4, shuffle=True)
    labeled = labeled.replace(labels=np.arange(10))
    keras.utils.set_random_seed(0)
    data = WithLabeled(task.dataset(MORE * 5, batch_size=4, shuffle=True), labeled)
    batches = []
    for epoch in range(6):
        data.epoch = epoch
        batches += [data[index] for index in range(len(data))]
    rows = [labels.tolist() for _, labels in batches]
    assert np.bincount(np.ravel(rows)).tolist() == [12] * 10
    assert len({tuple(sorted(batch)) for batch in rows}) > 20
    for (inputs, _), batch in zip(batches, rows):
        assert inputs["padding_mask"].sum(axis=1).tolist() == labeled.real[batch].tolist()


@pytest.mark.core
@pytest.mark.parametrize("method", [UDA(threshold=0.0, annealing="linear", seed=0), VAT(), CVT([0])], ids=repr)
def test_a_run_has_the_metrics_of_both_kinds_of_texts_and_the_task_is_whole_afterwards(method, tmp_path, eagerly):
    task = of_vectors()
    before = weights_of(task)
    save = keras.callbacks.ModelCheckpoint(tmp_path / "task.keras")
    fitted = train(task, method, epochs=2, validation_data=(MORE, LABELS), callbacks=[save])
    assert fitted.history.keys() == {"loss", "accuracy", "unlabeled_loss", "val_loss", "val_accuracy"}
    assert np.isfinite(fitted.history["unlabeled_loss"]).all() and not task.compiled
    after = weights_of(task)
    assert len(after) == len(before) and tiny.difference(after, before) > 0
    loaded = keras.saving.load_model(tmp_path / "task.keras")
    assert [weight.path for weight in loaded.weights] == [weight.path for weight in task.weights]
    np.testing.assert_allclose(loaded.predict(MORE, verbose=0), task.predict(MORE, verbose=0), atol=1e-6)


@pytest.mark.parametrize("method", [VAT(), CVT()], ids=repr)
def test_a_tagger_learns_from_sentences_without_labels(method, eagerly):
    words = [text.split() for text in TEXTS]
    tags = [[NAMES[word == "good"] for word in row] for row in words]
    history = train(tagger(), method, words, tags, WORDS).history
    assert 0 < history["unlabeled_loss"][0] < np.inf


def test_without_other_texts_the_texts_with_labels_are_perturbed(eagerly):
    assert train(of_vectors(), VAT(normalized=False), more=None).history["unlabeled_loss"][0] > 0


def test_pairs_of_texts_may_have_no_labels(eagerly):
    assert train(classifier(num_layers=1), VAT(), (TEXTS, MORE), LABELS, (MORE, TEXTS)).history["unlabeled_loss"][0] > 0


@pytest.mark.core
@pytest.mark.parametrize("method", [UDA(threshold=0.0, annealing="linear", seed=0), VAT()], ids=repr)
def test_a_run_that_is_resumed_reaches_the_same_weights(method, tmp_path, eagerly):
    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if self.model.optimizer.iterations == 4:
                raise KeyboardInterrupt

    def run(folder, *callbacks):
        task = of_vectors(dropout=0.3)
        callbacks = [*callbacks, TrainingCheckpoint(tmp_path / folder, save_every=1)]
        options = {"callbacks": callbacks, "optimizer": keras.optimizers.Adam(0.01), "epochs": 2}
        train(task, method, more=MORE * 3, **options)
        return weights_of(task)

    expected = run("whole")
    with pytest.raises(KeyboardInterrupt):
        run("stopped", Stop())
    assert tiny.difference(run("stopped"), expected) == 0


# === Self-training ===

RECIPE = get_recipe("bert", epochs=2, batch_size=16, learning_rate=0.01)


def self_trained(task=None, unlabeled=MORE, **options):
    task = task or of_vectors(dropout=0.3)
    texts, labels = tiny.examples(16)
    return task, self_train(task, texts, labels, unlabeled, recipe=RECIPE, verbose=0, **options)


@pytest.mark.core
def test_confident_rows_are_those_above_the_threshold_and_classes_may_have_equal_numbers():
    probabilities = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.55, 0.45], [0.95, 0.05]])
    rows, labels = confident(probabilities, 0.6)
    assert rows.tolist() == [0, 1, 2, 4] and labels.tolist() == [0, 0, 1, 0]
    rows, labels = confident(probabilities, 0.6, balanced=True)
    assert rows.tolist() == [4, 0, 2, 2] and labels.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("restart", [True, False])
def test_a_round_trains_on_both_kinds_of_texts_from_the_first_weights_or_from_the_last(restart, monkeypatch, eagerly):
    begun, fit = [], TextClassifier.fit

    def noted(task, x, **options):
        begun.append((weights_of(task), len(x.real), x.sample_weight))
        return fit(task, x, **options)

    monkeypatch.setattr(TextClassifier, "fit", noted)
    _, histories = self_trained(restart=restart, threshold=0.0, weight=0.5)
    (first, count, _), (second, both, weights) = begun
    assert len(histories) == 2 and (count, both) == (16, 20)
    assert weights.tolist() == [1.0] * 16 + [0.5] * 4
    assert (tiny.difference(first, second) == 0) == restart


def test_self_training_that_is_resumed_reaches_the_same_weights(tmp_path, monkeypatch, eagerly):
    options, fit = {"threshold": 0.0, "augment": "word_dropout"}, TextClassifier.fit

    def run(folder):
        return weights_of(self_trained(folder=tmp_path / folder, **options)[0])

    expected, counts = run("whole"), []

    def stopped(*args, **kwargs):
        counts.append(1)
        if len(counts) == 2:
            raise KeyboardInterrupt
        return fit(*args, **kwargs)

    monkeypatch.setattr(TextClassifier, "fit", stopped)
    with pytest.raises(KeyboardInterrupt):
        run("stopped")
    monkeypatch.setattr(TextClassifier, "fit", fit)
    assert tiny.difference(run("stopped"), expected) == 0


# === Changed texts ===


@pytest.mark.core
def test_words_are_dropped_at_a_rate_and_a_text_keeps_one_at_least():
    (text,) = augment_texts([" ".join("abcdefghij" * 100)], rate=0.2, seed=0)
    assert 750 < len(text.split()) < 850
    assert augment_texts(["a", "b"], rate=0.99, seed=0) == ["a", "b"]
    assert augment_texts(["a", "b"], str.upper) == ["A", "B"]
    assert augment_texts(["a", "b"], ["c", "d"]) == ["c", "d"]


@pytest.mark.core
def test_a_seed_replaces_the_same_words_in_every_process():
    texts = ["the king of the town", "the mill of a town", "a bell of the king"]
    found = augment_texts(texts, "tf_idf", rate=0.5, seed=0)
    assert found == ["a king of of town", "the mill of of town", "the bell the of of"]


@pytest.mark.core
def test_words_with_the_highest_score_stay_and_are_never_inserted():
    texts = [f"the {word} of the town" for word in ("king", "mill", "end", "bell")] * 50 + ["zebra zebra zebra"]
    found = [text.split() for text in augment_texts(texts, "tf_idf", rate=0.4, seed=0)]
    changed = np.mean([new != old for text, words in zip(texts, found) for new, old in zip(words, text.split())])
    assert 0.2 < changed < 0.4  # Some words are replaced with themselves.
    assert all(words[1] == text.split()[1] for text, words in zip(texts[:-1], found))


# === Mistakes ===

test_a_mistake_is_one_clear_error = check_errors(
    (
        lambda: train(classifier(num_layers=1), VAT(), more=(MORE, MORE)),
        "both single texts ... x='texts', unlabeled='pairs'",
    ),
    (lambda: train(classifier(), UDA(), (TEXTS, MORE), LABELS, (MORE, MORE)), "Only single texts can be augmented"),
    (lambda: train(of_vectors(), VAT(), steps_per_epoch=2), "Use more `epochs` ... steps_per_epoch=2, batches=1"),
    (lambda: train(of_vectors(), UDA(["a"])), "one text for each text ... texts=4, augment=1"),
    (lambda: train(tagger(), UDA(), WORDS, [["good"] * len(row) for row in WORDS], WORDS), "Use `VAT` or `CVT`"),
    (
        lambda: train(elmo_tagger(), VAT(), WORDS, [["good"] * len(row) for row in WORDS], WORDS),
        "Use `CVT` ... ElmoEncoder",
    ),
    (lambda: train(prompted(), CVT()), "of the kind `Prompt` ... adapters=[Prompt("),
    (lambda: train(classifier(), CVT([3])), "from 0 to 2 ... [3]"),
    (lambda: train(classifier(num_layers=1), CVT()), "from 0 to 1 ... at least one ... []"),
    (lambda: train(of_vectors(), UDA(annealing="exp"), loss="focal"), "Leave `loss` out ... 'focal'"),
    (lambda: train(of_vectors(multi_label=True), VAT()), "without `multi_label` ... multi_label=True"),
    (lambda: train(tagger(crf=True), VAT()), "without `multi_label` ... crf=True"),
    (
        lambda: train(TextRegressor(tiny.encoder(), tiny.preprocessor()), VAT()),
        "`TextClassifier` or a `TokenClassifier`",
    ),
    (lambda: train(of_vectors(), "uda"), "`UDA()`, `VAT()` or `CVT()` ... 'uda'"),
    (lambda: self_trained(threshold=1.0), "sure of no text ... threshold=1.0, round=1"),
    (lambda: self_trained(unlabeled=(MORE, MORE)), "form of `x` ... x='texts', unlabeled='pairs'"),
    (lambda: self_trained(of_vectors(multi_label=True)), "one class of each text ... 'MultiHot'"),
)
