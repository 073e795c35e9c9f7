"""Distillation: each signal against its formula, what is stored, what trains, and what stays as it was."""

import functools

import keras
import numpy as np
import pytest
from keras import ops

from keras_transfer.adaptation import (
    AttentionScores,
    HiddenStates,
    LoRA,
    Signal,
    add_adapters,
    distill,
    distillation,
    student_from,
    teacher_margins,
)
from keras_transfer.adaptation.distillation_signals import divergence_of_top, top_probabilities
from keras_transfer.callbacks import TrainingCheckpoint
from keras_transfer.data import row_store
from keras_transfer.encoders import AlbertEncoder, encode
from keras_transfer.losses import MarginMSELoss
from keras_transfer.tasks import MaskedLM, TextClassifier, TextEmbedder, TextRegressor, TokenClassifier
from keras_transfer.text import BertPreprocessor
from tests.errors import check_errors
from tests.tasks import tiny

TEXTS, LABELS = ["good a b c d", "bad", "a good", "bad b c"], ["good", "bad", "good", "bad"]
NAMES, WORDS = ["bad", "good"], [text.split() for text in TEXTS]


def classifier(num_layers=2, seed=0, cls=TextClassifier, names=NAMES, sizes=(16, 2), shortened=False, **options):
    """A task whose outputs differ clearly between texts."""
    keras.utils.set_random_seed(seed)
    options_of_encoder = {"hidden_dim": sizes[0], "num_heads": sizes[1], "initializer_range": 0.3}
    encoder = tiny.encoder(num_layers=num_layers, **options_of_encoder)
    names = {"label_names": names} if cls in (TextClassifier, TokenClassifier) else {}
    dropout = {} if cls in (TextEmbedder, MaskedLM) else {"dropout": 0.0}
    preprocessor = tiny.preprocessor(sequence_length=4) if shortened else tiny.preprocessor()
    return cls(encoder, preprocessor, **names, **dropout, **options)


def student(**options):
    return classifier(**{"num_layers": 1, "seed": 1, **options})


def losses(model, teacher, labels=None, texts=TEXTS, **options):
    """The losses of one step over all texts, with the weights before it, and the task that was trained."""
    options = {"batch_size": 4, "optimizer": keras.optimizers.SGD(0.0), "verbose": 0, **options}
    history = distill(model, teacher, texts, labels, **options)
    return {name: values[0] for name, values in history.history.items()}, history.model


def log_softmax(values):
    values = np.asarray(values, "float64")
    return values - np.log(np.exp(values).sum(axis=-1, keepdims=True))


def divergence(teacher, own, temperature=2.0):
    p, q = log_softmax(teacher / temperature), log_softmax(own / temperature)
    return temperature**2 * np.mean(np.sum(np.exp(p) * (p - q), axis=-1))


def states_of(model, layer, texts=TEXTS):
    """The hidden states of all texts, and the mask of real tokens."""
    inputs = model.reader.in_one_batch(texts)
    states = keras.Model(model.encoder.input, model.encoder.hidden_states[layer])
    return ops.convert_to_numpy(states(inputs)).astype("float64"), np.asarray(inputs["padding_mask"]) != 0


def weights_of(model):
    return [ops.convert_to_numpy(weight) for weight in model.weights]


# === Each signal ===


@pytest.mark.core
def test_the_loss_is_a_share_of_the_labels_and_of_the_logits_and_the_teacher_stays_as_it_was(eagerly):
    model, teacher = student(), classifier()
    before = weights_of(teacher)
    own, others = model.predict(TEXTS, verbose=0), teacher.predict(TEXTS, verbose=0)
    positions = [NAMES.index(label) for label in LABELS]
    crossentropy = -np.mean(log_softmax(own)[range(4), positions])
    found, _ = losses(model, teacher, LABELS, temperature=3.0, alpha=0.7)
    expected = 0.3 * crossentropy + 0.7 * divergence(others, own, 3.0)
    assert found["loss"] == pytest.approx(expected, rel=1e-5)
    assert found["label_accuracy"] == np.mean(own.argmax(axis=1) == positions)
    distill(model, teacher, TEXTS, LABELS, optimizer=keras.optimizers.SGD(0.1), epochs=2, verbose=0)
    for weight, old in zip(weights_of(teacher), before, strict=True):
        np.testing.assert_array_equal(weight, old)
    assert divergence(others, model.predict(TEXTS, verbose=0)) < divergence(others, own)


def test_classes_in_another_order_are_matched_by_their_names(eagerly):
    teacher = classifier(names=["good", "bad"])
    own, others = student().predict(TEXTS, verbose=0), teacher.predict(TEXTS, verbose=0)[:, ::-1]
    found, _ = losses(student(), teacher)
    assert found["loss"] == pytest.approx(divergence(others, own), rel=1e-5)


def test_each_of_several_labels_of_a_text_is_a_class_of_its_own(eagerly):
    model, teacher = student(multi_label=True), classifier(multi_label=True)
    own, others = (each.predict(TEXTS, verbose=0).reshape(-1, 1) for each in (model, teacher))
    expected = divergence(*(np.concatenate([logits, 0 * logits], axis=1) for logits in (others, own)))
    found, _ = losses(model, teacher)
    assert found["loss"] == pytest.approx(expected, rel=1e-5)


def test_several_labels_of_a_text_have_the_weight_of_the_text(eagerly):
    model, teacher = student(multi_label=True), classifier(multi_label=True)
    own, others = (each.predict(TEXTS, verbose=0)[:1].reshape(-1, 1) for each in (model, teacher))
    expected = divergence(*(np.concatenate([logits, 0 * logits], axis=1) for logits in (others, own))) / 4
    labels = [["good"], [], None, ["good", "bad"]]
    found, _ = losses(model, teacher, labels, alpha=1.0, sample_weight=np.array([1.0, 0.0, 0.0, 0.0]))
    assert found["loss"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("cls", [TextRegressor, TextEmbedder])
def test_numbers_and_vectors_learn_by_their_mean_squared_error(cls, eagerly):
    model, teacher = student(cls=cls), classifier(cls=cls)
    own, others = model.predict(TEXTS, verbose=0), teacher.predict(TEXTS, verbose=0)
    found, _ = losses(model, teacher)
    assert found["loss"] == pytest.approx(np.mean((own - others) ** 2), rel=1e-5)


@pytest.mark.core
@pytest.mark.parametrize("loss", ["mse", "cosine"])
def test_hidden_states_learn_at_real_tokens_through_a_projection(loss, eagerly):
    model, teacher = student(sizes=(8, 2)), classifier()
    (own, real), (others, _) = states_of(model, 1), states_of(teacher, 2)
    found, both = losses(model, teacher, alpha=0, signals=[HiddenStates({1: 2}, loss=loss, weight=0.5)])
    kernel, bias = weights_of(both.get_layer("hidden_1_projection"))
    own = own @ kernel + bias
    if loss == "mse":
        each = np.mean((own - others) ** 2, axis=-1)
    else:
        each = 1 - np.sum(own * others, axis=-1) / np.linalg.norm(own, axis=-1) / np.linalg.norm(others, axis=-1)
    assert found["loss"] == pytest.approx(0.5 * each[real].mean(), rel=1e-5)


def test_first_tokens_need_no_common_tokens(eagerly):
    model, teacher = student(), classifier()
    teacher.preprocessor = BertPreprocessor([*tiny.VOCABULARY[:5], *tiny.VOCABULARY[:4:-1]], sequence_length=32)
    (own, _), (others, _) = states_of(model, 1), states_of(teacher, 2)
    units = [states[:, 0] / np.linalg.norm(states[:, 0], axis=-1, keepdims=True) for states in (own, others)]
    # The loss of patient distillation is the squared distance of vectors of length 1.
    signal = HiddenStates({1: 2}, loss="cosine", tokens="first", weight=2.0)
    found, _ = losses(model, teacher, alpha=0, signals=[signal])
    assert found["loss"] == pytest.approx(np.mean(np.sum((units[0] - units[1]) ** 2, axis=-1)), rel=1e-5)


class FirstNumbers(Signal):
    """The first number of the first vector of a layer."""

    kind, tokens, layers, weight = "first", "first", {1: 2}, 0.5

    def tensor(self, encoder, layer, width):
        states = encode(encoder, hidden_states=True).hidden_states[layer]
        return states[:, 0, :1]

    def distance(self, y_true, y_pred):
        return keras.losses.mean_absolute_error(y_true, y_pred)


def test_a_signal_of_ones_own_needs_a_tensor_and_a_distance(eagerly):
    model, teacher = student(), classifier()
    own, other = (states_of(task, layer)[0][:, 0, 0] for task, layer in ((model, 1), (teacher, 2)))
    found, both = losses(model, teacher, alpha=0, signals=[FirstNumbers()])
    assert list(both.heads) == ["first_1"]
    assert found["loss"] == pytest.approx(0.5 * np.abs(own - other).mean(), rel=1e-5)


def scores_of(model, block):
    """The attention scores `[texts, heads, queries, keys]` of a block before the softmax."""
    states, real = states_of(model, block)
    kernel, bias = weights_of(model.encoder.blocks[block].attention)[:2]
    projected = (states @ kernel + bias).reshape(*states.shape[:2], 3, 2, -1)
    query, key = projected[:, :, 0], projected[:, :, 1]
    return np.einsum("bqhd,bkhd->bhqk", query, key) / np.sqrt(query.shape[-1]), real


@pytest.mark.core
def test_attention_scores_learn_at_pairs_of_real_tokens(eagerly):
    model, teacher = student(sizes=(8, 2)), classifier()
    (own, real), (others, _) = scores_of(model, 0), scores_of(teacher, 1)
    pairs = real[:, :, None] & real[:, None]
    expected = np.mean(((own - others) ** 2).transpose(0, 2, 3, 1)[pairs])
    found, _ = losses(model, teacher, alpha=0, signals=[AttentionScores()])
    assert found["loss"] == pytest.approx(expected, rel=1e-5)


def test_without_layers_those_of_the_student_are_spread_over_the_teacher(eagerly):
    found, _ = losses(student(num_layers=2), classifier(num_layers=4), signals=[HiddenStates(), AttentionScores()])
    assert {name for name in found if name.endswith("_loss")} == {
        *("teacher_loss", "hidden_0_loss", "hidden_1_loss", "hidden_2_loss", "attention_1_loss", "attention_2_loss")
    }
    states = [states_of(each, layer) for each, layer in ((student(num_layers=2), 1), (classifier(num_layers=4), 2))]
    expected = np.mean((states[0][0] - states[1][0])[states[0][1]] ** 2)
    assert found["hidden_1_loss"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.core
def test_the_share_of_labels_rises_linearly_over_an_annealed_run(eagerly):
    found = []
    for shares in (["annealed"], [1.0, 0.5]):
        model = student()
        for share in shares:
            options = {"alpha": share, "epochs": 2 // len(shares), "optimizer": keras.optimizers.SGD(0.1)}
            distill(model, classifier(), TEXTS, LABELS, batch_size=4, verbose=0, **options)
        found.append(weights_of(model))
    assert tiny.difference(*found) < 1e-6
    assert tiny.difference(found[0], weights_of(student())) > 1e-3


# === Labels, texts and tasks ===


def test_texts_without_labels_learn_from_the_teacher_alone(eagerly):
    own, others = student().predict(TEXTS, verbose=0), classifier().predict(TEXTS, verbose=0)
    crossentropy = -log_softmax(own)[range(4), [NAMES.index(label) for label in LABELS]]
    some = [LABELS[0], None, None, LABELS[3]]
    found, _ = losses(student(), classifier(), some, alpha=0.5)
    expected = 0.5 * (crossentropy[0] + crossentropy[3]) / 4 + 0.5 * divergence(others, own)
    assert found["loss"] == pytest.approx(expected, rel=1e-5)
    assert found["label_accuracy"] == np.mean([own[0].argmax() == 1, own[3].argmax() == 0])
    found, _ = losses(student(), classifier(), validation_data=(TEXTS, LABELS))
    assert found["loss"] == pytest.approx(0.5 * divergence(others, own), rel=1e-5)
    assert found["val_label_loss"] == pytest.approx(crossentropy.mean(), rel=1e-5)


def test_weights_of_texts_count_for_all_heads(eagerly):
    weights = np.array([1.0, 0.0, 0.0, 0.0])
    found, _ = losses(student(), classifier(), LABELS, sample_weight=weights, signals=[HiddenStates({1: 2})])
    own, others = student().predict(TEXTS, verbose=0), classifier().predict(TEXTS, verbose=0)
    (states, real), (of_teacher, _) = states_of(student(), 1), states_of(classifier(), 2)
    hidden = np.mean((states - of_teacher) ** 2, axis=-1)[0, real[0]].sum() / real.sum()
    expected = -0.5 * log_softmax(own)[0, 1] / 4 + 0.5 * divergence(others[:1], own[:1]) / 4 + hidden
    assert found["loss"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.core
def test_a_student_of_another_family_reads_its_own_tokens():
    texts, _ = tiny.examples(32)
    model, teacher = tiny.of_words(["good", "bad", *"abcdef"], label_names=NAMES, dropout=0.0), classifier()
    history = distill(model, teacher, texts, optimizer=keras.optimizers.Adam(0.1), epochs=8, verbose=0).history
    assert history["loss"][-1] < 0.7 * history["loss"][0]
    assert len(model.predict_labels(texts, verbose=0)) == 32


def test_a_language_model_learns_from_hidden_tokens_and_hidden_states(eagerly):
    model, teacher = student(cls=MaskedLM), classifier()
    before = model.encoder.get_weights()
    found, _ = losses(
        model, teacher, alpha=0, signals=[HiddenStates({1: 2}, loss="cosine")], optimizer=keras.optimizers.SGD(0.1)
    )
    assert {"label_loss", "hidden_1_loss"} <= found.keys() and np.isfinite(found["loss"])
    assert tiny.difference(model.encoder.get_weights(), before) > 0


@pytest.mark.core
def test_a_tagger_learns_from_its_tags_and_from_hidden_states(eagerly):
    words = WORDS
    tags, weights = [[NAMES[len(word) % 2] for word in row] for row in words], np.array([1.0, 2.0, 0.0, 0.5])
    model, teacher = student(cls=TokenClassifier), classifier(cls=TokenClassifier)
    model.compile(keras.optimizers.SGD(0.0), metrics=None)
    (own, real), (others, _) = states_of(model, 1, words), states_of(teacher, 2, words)
    each = np.mean((own - others) ** 2, axis=-1)
    options = {"alpha": 0, "texts": words, "sample_weight": weights}
    expected = model.fit(words, tags, sample_weight=weights, batch_size=4, verbose=0).history["loss"][0]
    found, _ = losses(model, teacher, tags, signals=[HiddenStates({1: 2})], **options)
    assert found["label_loss"] == pytest.approx(expected, rel=1e-5)
    assert found["hidden_1_loss"] == pytest.approx((each * real * weights[:, None]).sum() / real.sum(), rel=1e-5)
    found, _ = losses(model, teacher, tags, signals=[HiddenStates({1: 2}, tokens="first")], **options)
    assert found["hidden_1_loss"] == pytest.approx((each[:, 0] * weights).mean(), rel=1e-5)


@pytest.mark.core
def test_taggers_learn_from_the_same_stored_logits_of_words_in_the_order_of_their_tags(tmp_path, eagerly):
    model, teacher = student(cls=TokenClassifier), classifier(cls=TokenClassifier, names=NAMES[::-1])
    own, others = (task.predict(WORDS, verbose=0) for task in (model, teacher))
    options = {"texts": WORDS, "folder": tmp_path / "teacher", "top_k": 1}  # The other class is all others.
    found, _ = losses(student(cls=TokenClassifier, names=NAMES[::-1]), teacher, **options)
    each = [divergence(b, a) * len(a) for a, b in zip(own, others)]
    assert found["loss"] == pytest.approx(sum(each) / sum(map(len, WORDS)), rel=1e-5)
    tags = [[NAMES[len(word) % 2] for word in row] for row in WORDS]
    weights = np.array([1.0, 2.0, 0.0, 0.5])
    found, _ = losses(model, teacher, [tags[0], None, tags[2], None], sample_weight=weights, **options)
    each = [divergence(b[:, ::-1], a) * len(a) for a, b in zip(own, others)]
    assert found["teacher_loss"] == pytest.approx(np.dot(weights, each) / sum(map(len, WORDS)), rel=1e-5)
    crossentropy = -log_softmax(own[0])[range(5), [NAMES.index(tag) for tag in tags[0]]].sum()
    assert found["label_loss"] == pytest.approx(crossentropy / (len(tags[0]) + len(tags[2])), rel=1e-5)


@pytest.mark.core
def test_a_masked_language_model_learns_from_hidden_tokens_soft_targets_and_hidden_states(tmp_path, eagerly):
    torch = pytest.importorskip("torch", reason="needs torch: pip install torch")
    functional, signals = torch.nn.functional, [HiddenStates({1: 2}, loss="cosine", weight=0.25)]
    model, teacher = student(cls=MaskedLM), classifier(cls=MaskedLM)
    options = {"signals": signals, "folder": tmp_path / "teacher", "top_k": 17}  # all tokens of the vocabulary
    found, _ = losses(model, teacher, **options)
    inputs = model.dataset(TEXTS).inputs
    hidden, targets = model.objective(inputs, np.random.default_rng(0), **model.objective.tokens(model.preprocessor))
    places, real = hidden.pop("mask_positions"), torch.tensor(inputs["padding_mask"] == 1)
    everywhere = np.tile(np.arange(real.shape[1], dtype="int32"), (4, 1))
    own, others = (task.predict({**hidden, "mask_positions": everywhere}, verbose=0) for task in (model, teacher))
    own, others = torch.tensor(own), torch.tensor(others)
    labels = torch.full(real.shape, -100)
    for row, place in zip(*np.nonzero(places >= 0)):
        labels[row, places[row, place]] = int(targets[row, place])
    crossentropy = functional.cross_entropy(own.reshape(-1, 17), labels.reshape(-1), ignore_index=-100)
    pair = functional.log_softmax(own[real] / 2, dim=-1), functional.softmax(others[real] / 2, dim=-1)
    soft = functional.kl_div(*pair, reduction="batchmean") * 4
    states = [keras.Model(task.encoder.input, task.encoder.hidden_states[-1]) for task in (model, teacher)]
    states = [torch.tensor(each.predict(hidden, verbose=0))[real] for each in states]
    cosine = functional.cosine_embedding_loss(*states, torch.ones(len(states[0])))
    for name, expected in {"label": crossentropy, "teacher": soft, "hidden_1": cosine}.items():
        assert found[f"{name}_loss"] == pytest.approx(float(expected), rel=1e-5), name
    expected = 0.5 * crossentropy + 0.5 * soft + 0.25 * cosine
    assert found["loss"] == pytest.approx(float(expected), rel=1e-5)
    again, _ = losses(model, teacher, **options)
    assert again == pytest.approx(found, rel=1e-6)  # The same tokens are hidden, and read from files.


def test_the_most_likely_classes_are_stored_and_all_others_are_one():
    torch = pytest.importorskip("torch", reason="needs torch: pip install torch")
    teacher, own = np.random.default_rng(0).normal(size=(2, 3, 4, 3000)).astype("float32") * 3
    stored = top_probabilities(ops.convert_to_tensor(teacher / 2), 5)
    found = divergence_of_top(2.0)(stored, own)
    p, q = (torch.softmax(torch.tensor(each).double() / 2, dim=-1) for each in (teacher, own))
    best = torch.topk(p, 5).indices
    p, q = (torch.cat([each.gather(-1, best), 1 - each.gather(-1, best).sum(-1, keepdim=True)], -1) for each in (p, q))
    expected = 4 * torch.nn.functional.kl_div(q.log(), p, reduction="none").sum(-1)
    np.testing.assert_allclose(ops.convert_to_numpy(found), expected.numpy(), rtol=1e-5)
    half = ops.convert_to_numpy(stored).astype("float16").astype(int)
    assert (1024 * half[..., 5:10] + half[..., 10:] == best.numpy()).all()


def test_word_vectors_learn_from_word_vectors_and_texts_without_tokens_do_not_count(eagerly):
    words = ["good", "bad", *"abcdef"]
    keras.utils.set_random_seed(0)
    teacher, model = (tiny.of_words(words, label_names=NAMES, dropout=0.0) for _ in range(2))
    history = distill(model, teacher, ["", "", "a"], batch_size=1, signals=[HiddenStates()], verbose=0).history
    assert history["hidden_0_loss"][0] > 0 and np.isfinite(model.predict(TEXTS, verbose=0)).all()


def test_probabilities_of_labels_have_the_metrics_of_their_loss(eagerly):
    labels = np.array([[0.3, 0.7], [1.0, 0.0], [0.5, 0.5], [0.9, 0.1]])
    crossentropy = -np.mean(np.sum(labels * log_softmax(student().predict(TEXTS, verbose=0)), axis=-1))
    loss = keras.losses.CategoricalCrossentropy(from_logits=True)
    found, _ = losses(student(), classifier(), labels, loss=loss)
    assert found["label_loss"] == pytest.approx(crossentropy, rel=1e-5) and "label_accuracy" in found
    found, _ = losses(student(), classifier(), [*labels[:3], None], loss=loss)
    assert "label_accuracy" in found


# === The store, and a run that is resumed ===


def test_what_is_stored_is_not_computed_again(tmp_path, monkeypatch, eagerly):
    run, computed = row_store._run, []

    def counted(*args):
        computed.append(len(args[-1]))
        return run(*args)

    monkeypatch.setattr(row_store, "_run", counted)
    options = {"folder": tmp_path / "teacher", "validation_data": (TEXTS[:2], LABELS[:2]), "signals": [HiddenStates()]}
    first, _ = losses(student(), classifier(), LABELS, epochs=3, **options)
    second, _ = losses(student(), classifier(), LABELS, **options)
    assert computed == [4, 2, 0, 0] and first == second
    with pytest.raises(ValueError, match="different model"):
        losses(student(), classifier(seed=5), LABELS, **options)
    with pytest.raises(ValueError, match="different model"):
        losses(student(), classifier(), LABELS, **{**options, "signals": [HiddenStates({0: 1, 1: 2})]})


def test_a_teacher_may_have_adapters(tmp_path, eagerly):
    teacher, options = adapted(), {"folder": tmp_path / "teacher", "signals": [HiddenStates({1: 2})]}
    own, others = student().predict(TEXTS, verbose=0), teacher.predict(TEXTS, verbose=0)
    found, _ = losses(student(), teacher, **options)
    assert found["teacher_loss"] == pytest.approx(divergence(others, own), rel=1e-5)
    assert losses(student(), teacher, **options)[0] == found
    teacher = classifier()
    add_adapters(teacher, LoRA(alpha=64))
    with pytest.raises(ValueError, match="different model"):
        losses(student(), teacher, **options)


def test_a_run_that_is_resumed_reaches_the_same_weights(tmp_path, eagerly):
    steps = []

    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            steps.append(int(self.model.optimizer.iterations))
            if steps == [1, 2, 3]:
                raise KeyboardInterrupt

    def run(folder, *callbacks):
        model = student(sizes=(8, 2))
        keras.utils.set_random_seed(2)
        options = {"callbacks": [*callbacks, TrainingCheckpoint(tmp_path / folder, save_every=1)], "epochs": 3}
        options |= {"signals": [HiddenStates({1: 2})], "optimizer": keras.optimizers.Adam(0.01), "alpha": "annealed"}
        distill(model, classifier(), TEXTS, LABELS, batch_size=2, folder=tmp_path / "teacher", verbose=0, **options)
        return weights_of(model)

    expected = run("whole")
    with pytest.raises(KeyboardInterrupt):
        run("stopped", Stop())
    assert tiny.difference(run("stopped", Stop()), expected) == 0
    assert steps == [1, 2, 3, 3, 4, 5, 6]  # The third step was not saved yet.


@pytest.mark.core
def test_an_embedder_learns_from_margins_which_are_computed_once_and_completed(tmp_path, monkeypatch, eagerly):
    model, teacher = student(cls=TextEmbedder), classifier(cls=TextRegressor)
    triplets = TEXTS, ["a b", "good", "c d e", "f"], ["bad bad", "c", "good", "a b"]
    scores = [teacher.predict((TEXTS, column), verbose=0)[:, 0] for column in triplets[1:]]
    query, positive, negative = (model.predict(column, verbose=0) for column in triplets)
    run, computed, margins = row_store._run, [], scores[0] - scores[1]

    def stopped(*args):
        computed.append(len(args[-1]))
        for batch in run(*args):
            yield batch
            if len(computed) == 1:
                raise KeyboardInterrupt

    monkeypatch.setattr(row_store, "_run", stopped)
    monkeypatch.setattr(row_store, "INTERVAL", 0.0)
    options = {"batch_size": 2, "folder": tmp_path / "scores", "verbose": 0}
    with pytest.raises(KeyboardInterrupt):
        teacher_margins(teacher, triplets, **options)
    for _ in range(2):
        np.testing.assert_allclose(teacher_margins(teacher, triplets, **options), margins, atol=1e-5)
    assert computed == [8, 6, 0]
    expected = np.mean((np.sum(query * (positive - negative), axis=1) - margins) ** 2)
    model.compile(keras.optimizers.SGD(0.0), MarginMSELoss())
    found = model.fit(triplets, margins, batch_size=4, verbose=0).history["loss"]
    assert found == pytest.approx([expected], rel=1e-5)


# === A student made of its teacher ===


@pytest.mark.core
def test_a_student_has_blocks_of_its_teacher_and_answers_and_is_saved_like_it(tmp_path, eagerly):
    teacher = classifier(num_layers=4)
    model = student_from(teacher)
    assert model.encoder.num_layers == 2 and model.label_names == NAMES
    for own, other in zip(model.encoder.blocks, (teacher.encoder.blocks[0], teacher.encoder.blocks[2])):
        assert tiny.difference(weights_of(own), weights_of(other)) == 0
    whole = student_from(teacher, [0, 1, 2, 3])
    np.testing.assert_array_equal(whole.predict(TEXTS, verbose=0), teacher.predict(TEXTS, verbose=0))
    before = weights_of(teacher)
    distill(model, teacher, TEXTS, LABELS, optimizer=keras.optimizers.SGD(0.1), verbose=0)
    assert tiny.difference(weights_of(teacher), before) == 0
    model.save(tmp_path / "student.keras")
    loaded = keras.saving.load_model(tmp_path / "student.keras")
    assert loaded.predict_labels(TEXTS, verbose=0) == model.predict_labels(TEXTS, verbose=0)
    np.testing.assert_allclose(loaded.predict(TEXTS, verbose=0), model.predict(TEXTS, verbose=0), atol=1e-6)


def adapted():
    teacher = classifier()
    add_adapters(teacher, "lora")
    return teacher


def of_other_encoder():
    encoder = tiny.encoder(AlbertEncoder, num_layers=2, embedding_dim=8)
    return TextClassifier(encoder, tiny.preprocessor(), label_names=NAMES)


def of_other_tokens():
    preprocessor = tiny.preprocessor(sequence_length=4)
    return TextClassifier(tiny.encoder(), preprocessor, label_names=NAMES)


def tagger():
    return TokenClassifier(tiny.encoder(), tiny.preprocessor(), label_names=NAMES)


def of_chains():
    return classifier(cls=TokenClassifier, crf=True)


made = functools.cache(lambda make: make())  # A task for all mistakes, which change none.


def run(model=student, teacher=classifier, texts=TEXTS, labels=None, **options):
    return lambda: distill(made(model), made(teacher), texts, labels, **options)


def run_on_two_devices(monkeypatch):
    monkeypatch.setattr(distillation, "replicas_of", lambda task: (2, False))
    distill(made(student), made(classifier), TEXTS)


def run_with_windows(monkeypatch):
    monkeypatch.setattr(distillation, "store_rows", None)  # The teacher does not run.
    distill(student(windows="mean"), made(classifier), TEXTS)


def run_on_its_teacher():
    distill(made(classifier), made(classifier), TEXTS)


def of_pairs(cls=TextClassifier, fitted_on="pairs", **options):
    teacher = classifier(cls=cls, **options)
    teacher.fitted_on = fitted_on
    return teacher


def margins(triplets=(TEXTS,) * 3, **options):
    return lambda: teacher_margins(of_pairs(TextRegressor, **options), triplets)


test_what_does_not_fit_is_an_error_before_anything_runs = check_errors(
    (run_on_its_teacher, "must not share weights with its teacher ... `student_from(teacher)`"),
    (run_on_two_devices, "runs on one device ... `student.with_heads(...)` ... replicas=2"),
    (run(lambda: student(names=["good", "evil"])), "classes of the teacher ... ['good', 'evil'] ... ['bad', 'good']"),
    (run(lambda: student(cls=TextRegressor)), "of the same kind ... student='Numbers', teacher='ClassNames'"),
    (
        run(lambda: student(cls=TextEmbedder, sizes=(8, 2)), lambda: classifier(cls=TextEmbedder)),
        "must have the same size. `dense=[{'units': ...}]`",
    ),
    (run(tagger), "outputs of texts, or of tokens without `crf=True`. Or use `alpha=0` and `signals`"),
    (run(of_chains, lambda: of_chains(), WORDS), "of tokens without `crf=True` ... crf=True"),
    (
        run(tagger, lambda: classifier(cls=TokenClassifier, shortened=True), WORDS),
        "Outputs of tokens require the same tokens",
    ),
    (run(alpha=0), "requires `signals`"),
    (run_with_windows, "cuts texts into `windows` cannot have further heads"),
    (run(texts=iter(TEXTS)), "`x` must not be an iterator"),
    (run(validation_data=TEXTS), "must be a tuple `(texts, labels)`"),
    (run(labels=LABELS, validation_data=(TEXTS, None)), "`validation_data` must have labels"),
    (run(signals=[HiddenStates({1: 3})]), "Layers of `HiddenStates` are from 0 to 1 of the student, and to 2."),
    (run(signals=[AttentionScores({0: 1})]), "Layers of `AttentionScores` are from 1 to 1"),
    (run(signals=[HiddenStates(), HiddenStates(loss="cosine")]), "may occur once ... layer='hidden_0'"),
    (run(of_other_tokens, signals=[HiddenStates()]), "require the same tokens ... `HiddenStates(tokens='first')`"),
    (
        run(lambda: student(sizes=(16, 4)), signals=[AttentionScores()]),
        "the same number of heads. Received: student=4, teacher=2",
    ),
    (run(epoch=3), TypeError, "`distill` has no argument `epoch`"),
    (run(texts=[]), "`texts` must be in memory, and not empty"),
    (run(teacher=of_pairs), "The model is trained on pairs of texts"),
    (margins(windows="mean"), "read both texts together. Received: num_targets=1, windows='mean', siamese=False"),
    (margins(num_targets=2), "must have one target ... num_targets=2"),
    (margins(fitted_on="texts"), "The model is trained on single texts"),
    (margins(("a", "b", "c")), "three lists of equally many texts ... Received: triplets=('a', 'b', 'c')"),
    (lambda: student_from(made(classifier), [0, 2]), "`layers` must be blocks from 0 to 1. Received: layers=[0, 2]"),
    (lambda: student_from(adapted()), "must be without adapters"),
    (lambda: student_from(of_other_encoder()), "with different blocks"),
)
