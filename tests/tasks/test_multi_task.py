import keras
import numpy as np
import pytest

import keras_transfer as kt
from keras_transfer.data.mixture import Mixture, shares
from tests.tasks.tiny import WORDS as LETTERS
from tests.tasks.tiny import difference, encoder, examples, message, preprocessor

TEXTS, LABELS = examples(24)
WORDS = [text.split() for text in TEXTS[:10]]
DATA = {
    "mood": (TEXTS, LABELS),
    "length": (TEXTS[:16], [float(len(text.split())) / 20 for text in TEXTS[:16]]),
    "tags": (WORDS, [["X" if word in ("good", "bad") else "O" for word in words] for words in WORDS]),
}
FIT = {name: DATA[name] for name in ("mood", "length")}


VECTORS = kt.checkpoints.WordVectors(LETTERS, np.random.default_rng(0).normal(size=(len(LETTERS), 4)))


def word_vectors():
    """An encoder whose steps are traced quickly, and its preprocessor."""
    shared = kt.encoders.WordVectorEncoder.from_vectors(VECTORS)
    shared.trainable = True
    return shared, kt.text.WordPreprocessor(LETTERS, sequence_length=20)


def model_of(names=("mood", "length"), of=word_vectors, **options):
    keras.utils.set_random_seed(0)
    shared, prepare = of()
    tasks = {
        "mood": lambda: kt.tasks.TextClassifier(shared, prepare, num_classes=2, dropout=0.0),
        "length": lambda: kt.tasks.TextRegressor(shared, prepare, num_targets=1, dropout=0.0),
        "tags": lambda: kt.tasks.TokenClassifier(shared, prepare, label_names=["O", "X"], dropout=0.0),
        "words": lambda: kt.tasks.MaskedLM(shared, prepare),
    }
    return kt.tasks.MultiTask(shared, {name: tasks[name]() for name in names}, **options)


def transformer():
    """An encoder that can have adapters, and a vocabulary with a mask."""
    return encoder(), preprocessor()


def values(model):
    return [keras.ops.convert_to_numpy(weight).copy() for weight in model.weights]


def values_of(weights):
    return [np.array(weight) for weight in weights]


def head_of(task):
    shared = {id(weight) for weight in task.encoder.weights}
    return [weight for weight in task.weights if id(weight) not in shared]


# === Sampling ===


@pytest.mark.parametrize(
    ("sampling", "epoch", "exponent"),
    [("proportional", 0, 1), ("square_root", 0, 0.5), ("equal", 0, 0), (0.3, 2, 0.3), ("annealed", 1, 1 - 0.8 / 3)],
)
def test_tasks_are_drawn_in_proportion_to_a_power_of_their_sizes(sampling, epoch, exponent):
    sizes = np.array([67349, 8551, 2490, 5749])
    expected = sizes**exponent / np.sum(sizes**exponent)
    assert shares(sizes, sampling, epoch, epochs=4) == pytest.approx(expected, rel=1e-12)
    parts = {str(size): kt.text.batches(["a"] * 4, preprocessor=preprocessor(), batch_size=2) for size in sizes}
    mixture = Mixture(parts, sampling, 4, steps=100_000, seed=3)
    for part, size in zip(mixture.parts.values(), sizes):
        part.real = np.broadcast_to(4, size)
    mixture.epoch = epoch
    names = [name for name, _ in mixture.planned()]
    counts = np.array([names.count(name) for name in parts])
    chi_square = np.sum((counts - 1e5 * expected) ** 2 / (1e5 * expected))
    assert chi_square < 16.27  # 0.1% with three degrees of freedom


def test_annealed_sampling_of_one_epoch_is_proportional():
    assert shares([3, 1], "annealed", 0, 1) == pytest.approx([0.75, 0.25])


def test_each_batch_of_a_task_occurs_once_before_any_occurs_again():
    data = kt.text.batches(TEXTS, LABELS, preprocessor=preprocessor(), batch_size=5, seed=1)
    other = kt.text.batches(TEXTS[:6], LABELS[:6], preprocessor=preprocessor(), batch_size=5, seed=1)
    mixture, seen = Mixture({"a": data, "b": other}, "equal", 3, seed=0), {"a": [], "b": []}
    for _ in range(3):
        for name, (_, labels) in mixture:
            seen[name].append(labels)
        mixture.on_epoch_end()
    per_epoch = len(data)
    assert len(seen["a"]) >= per_epoch
    assert sorted(np.concatenate(seen["a"][:per_epoch])) == sorted(LABELS)
    assert len(np.concatenate(seen["b"][:2])) == 6


def test_the_state_of_a_mixture_continues_with_the_same_batches():
    def made(seed):
        keras.utils.set_random_seed(seed)
        parts = {
            name: kt.text.batches(TEXTS[:count], LABELS[:count], preprocessor=preprocessor(), batch_size=4)
            for name, count in (("a", 24), ("b", 10))
        }
        return Mixture(parts, "square_root", 2)

    first, second = made(0), made(1)
    for _ in first:
        pass
    first.on_epoch_end()
    expected = list(first)
    second.load_state_dict({**first.state_dict(), "batch": 3})
    found = list(second)
    assert len(found) == len(expected) - 3
    for (name, item), (other, expected_item) in zip(found, expected[3:]):
        assert name == other
        assert difference(keras.tree.flatten(item), keras.tree.flatten(expected_item)) == 0


# === Training ===


@pytest.mark.core
def test_several_tasks_train_in_one_fit_with_metrics_of_their_own_batches():
    model = model_of(("mood", "length", "tags"))
    model.compile(keras.optimizers.Adam(0.01))
    history = model.fit(DATA, batch_size=8, epochs=3, validation_data={"mood": DATA["mood"]}, verbose=0).history
    assert {"loss", "mood_loss", "mood_accuracy", "length_loss", "tags_accuracy", "val_mood_accuracy"} <= history.keys()
    assert history["mood_loss"][-1] < history["mood_loss"][0]
    found = model.evaluate(DATA, verbose=0)
    for name, (x, y) in DATA.items():
        alone = model.tasks[name].evaluate(x, y, verbose=0, return_dict=True)
        assert {f"{name}_{metric}": value for metric, value in alone.items()}.items() <= found.items()
    assert history["val_mood_loss"][-1] == pytest.approx(found["mood_loss"], rel=1e-5)
    outputs = model.predict({"mood": TEXTS[:3]}, verbose=0)["mood"]
    assert difference([outputs], [model.tasks["mood"].predict(TEXTS[:3], verbose=0)]) < 1e-6


@pytest.mark.core
def test_a_step_of_one_task_changes_nothing_of_the_others():
    model = model_of()
    model.compile(keras.optimizers.AdamW(0.01, weight_decay=0.1))
    model.fit(FIT, batch_size=8, verbose=0)  # The optimizer has momentum for all heads.
    before = {name: [np.array(weight) for weight in head_of(task)] for name, task in model.tasks.items()}
    shared = [np.array(weight) for weight in model.encoder.weights]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Mixture, "shares", lambda self, epoch: [1.0, 0.0])
        history = model.fit(FIT, batch_size=8, steps_per_epoch=3, verbose=0).history
    assert history["length_loss"] == [0.0]  # It had no batch.
    for name, task in model.tasks.items():
        moved = difference([np.array(weight) for weight in head_of(task)], before[name])
        assert (moved > 0) == (name == "mood"), name
    assert difference([np.array(weight) for weight in model.encoder.weights], shared) > 0


def test_a_step_equals_that_of_the_task_alone():
    alone, model = (model_of() for _ in range(2))
    data = {name: (x[:8], y[:8]) for name, (x, y) in FIT.items()}
    task = alone.tasks["mood"]
    task.compile(keras.optimizers.SGD(0.5), run_eagerly=True)
    task.fit(*data["mood"], batch_size=8, epochs=3, shuffle=False, verbose=0)
    model.compile(keras.optimizers.SGD(0.5), run_eagerly=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Mixture, "shares", lambda self, epoch: [1.0, 0.0])
        model.fit(data, batch_size=8, epochs=3, steps_per_epoch=1, verbose=0)
    assert difference(values(model.tasks["mood"]), values(task)) < 1e-6


def tf_data(size=8):
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices((TEXTS[:size], LABELS[:size])).batch(8)


class Loader:
    """An iterable of batches with a length."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        return iter(self.batches)

    def __len__(self):
        return len(self.batches)


@pytest.mark.core
def test_a_loader_trains_a_task_as_its_rows_in_memory_do_and_begins_again(monkeypatch):
    monkeypatch.setattr(Mixture, "shares", lambda self, epoch: [1.0, 0.0])
    rows, ends = (TEXTS[:8], LABELS[:8]), []
    for mood in (rows, tf_data(), Loader([rows])):
        model = model_of()
        model.compile(keras.optimizers.SGD(0.5), run_eagerly=True)
        options = {"batch_size": 8, "epochs": 2, "steps_per_epoch": 1, "verbose": 0}
        history = model.fit({**FIT, "mood": mood}, validation_data={"mood": mood}, **options).history
        assert history["val_mood_loss"][-1] == pytest.approx(model.evaluate({"mood": rows}, verbose=0)["loss"])
        ends.append(values(model))
    assert difference(ends[0], ends[1]) < 1e-6 and difference(ends[0], ends[2]) < 1e-6


def test_a_generator_trains_with_equal_sampling_until_it_ends():
    read = []

    def generate():
        for first in range(0, 24, 4):
            read.append(first)
            yield TEXTS[first : first + 4], LABELS[first : first + 4]

    model = model_of(sampling="equal")
    model.compile("sgd", run_eagerly=True)
    data = {**FIT, "mood": generate()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Mixture, "shares", lambda self, epoch: [0.5, 0.5])
        model.fit(data, batch_size=8, steps_per_epoch=6, verbose=0)
    assert 0 < len(read) < 6 and read == list(range(0, 4 * len(read), 4))
    assert "'mood': The loader yields its batches only" in message(lambda: model.fit(data, steps_per_epoch=30))
    options = {"validation_data": {"mood": generate()}, "epochs": 2, "verbose": 0}
    assert "Pass one that begins again. Received: task='mood'" in message(lambda: model.fit(FIT, **options))


def test_a_loader_counts_as_many_rows_as_its_batches_have_if_all_are_like_the_first_one(monkeypatch):
    seen = []
    monkeypatch.setattr("keras_transfer.data.mixture.shares", lambda sizes, *_: seen.append(sizes) or [0.5, 0.5])
    model = model_of()
    model.compile("sgd", run_eagerly=True)
    history = model.fit({**FIT, "mood": tf_data(20)}, batch_size=4, verbose=0)
    assert seen[0] == [3 * 8, 16] and history.params["steps"] == 3 + 4


def test_learned_loss_weights_follow_the_formula():
    model = model_of(loss_weights="uncertainty")
    *_, head = kt.adaptation.layer_groups(model)
    learned = {id(weight) for weight in model._log_variances.values()}
    assert head.name == "head" and learned < {id(weight) for weight in head.variables}
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    model.fit(FIT, batch_size=24, steps_per_epoch=1, verbose=0)
    name = next(name for name, weight in model._log_variances.items() if float(weight) != 0)
    logs = {name: float(value) for name, value in model.get_metrics_result().items()}
    # The gradient of exp(-s) * loss + s / 2 at s = 0 is 1 / 2 - loss.
    assert float(model._log_variances[name]) == pytest.approx(-0.1 * (0.5 - logs[f"{name}_loss"]), rel=1e-4)
    assert logs["loss"] == pytest.approx(logs[f"{name}_loss"], rel=1e-5)
    other = next(other for other in model.tasks if other != name)
    assert float(model._log_variances[other]) == 0


def test_fixed_loss_weights_scale_the_gradient():
    moved = []
    for weight in (1.0, 0.25):
        model = model_of(loss_weights={"mood": weight, "length": weight})
        before = values(model)
        model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
        model.fit(FIT, batch_size=24, steps_per_epoch=1, verbose=0)
        moved.append([after - start for after, start in zip(values(model), before)])
    assert difference([0.25 * each for each in moved[0]], moved[1]) < 1e-6


def test_an_objective_on_unlabeled_texts_is_one_of_the_tasks():
    model = model_of(("mood", "words"), of=transformer)
    model.compile(keras.optimizers.Adam(0.01))
    history = model.fit({"mood": DATA["mood"], "words": TEXTS[:8]}, batch_size=8, verbose=0).history
    assert history["words_loss"][0] > 0 and history["mood_loss"][0] > 0


@pytest.mark.core
def test_a_resumed_run_ends_with_the_same_weights(tmp_path):
    def run(folder=None, stop=None):
        model = model_of(sampling="annealed")
        model.compile(keras.optimizers.Adam(0.01), run_eagerly=True)
        callbacks = [kt.callbacks.TrainingCheckpoint(folder, save_every=2)] if folder else []
        if stop is not None:
            callbacks.insert(0, Stop(stop))
        model.fit(FIT, batch_size=8, epochs=3, callbacks=callbacks, verbose=0)
        return model

    class Stop(keras.callbacks.Callback):
        def __init__(self, step):
            super().__init__()
            self.step, self.seen = step, 0

        def on_train_batch_end(self, batch, logs=None):
            self.seen += 1
            if self.seen == self.step:
                raise KeyboardInterrupt

    expected = run()
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, stop=8)
    resumed = run(tmp_path)
    assert difference(values(resumed), values(expected)) == 0
    ours, theirs = resumed.optimizer.variables, expected.optimizer.variables
    assert difference(map(np.array, ours), map(np.array, theirs)) == 0


def test_another_fit_may_have_batches_of_another_structure():
    model = model_of()
    model.compile("sgd")
    model.fit({name: (x[:4], y[:4]) for name, (x, y) in FIT.items()}, batch_size=4, verbose=0)
    weighted = {name: (x[:9], y[:9], np.zeros(9)) for name, (x, y) in FIT.items()}
    before = values(model)
    assert model.fit(weighted, batch_size=4, verbose=0).history["loss"] == [0.0]
    assert difference(values(model), before) == 0


def test_another_fit_draws_other_targets_because_each_task_knows_that_it_was_trained():
    model = model_of(("mood", "words"), of=transformer)
    model.compile("sgd", run_eagerly=True)
    data, validation = {"mood": DATA["mood"], "words": TEXTS[:4]}, {"mood": DATA["mood"]}
    history = model.fit(data, batch_size=24, epochs=2, validation_data=validation, verbose=0).history
    assert [[record.epochs for record in task.fits] for task in model.tasks.values()] == [[2], [2]]
    scores = {f"{prefix}{name}" for prefix in ("", "val_") for name in ("loss", "accuracy")}
    assert model.tasks["mood"].history.history.keys() == scores
    assert model.tasks["mood"].history.history["val_loss"] == history["val_mood_loss"]
    model.fit(data, batch_size=24, verbose=0)
    assert [record.epochs for record in model.tasks["words"].fits] == [2, 1]


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="a policy of Keras, whatever the backend")
def test_tasks_in_float16_share_the_optimizer_that_scales_the_loss():
    shared, prepare = encoder(dtype="mixed_float16"), preprocessor()
    tasks = {name: kt.tasks.TextClassifier(shared, prepare, num_classes=2) for name in ("a", "b")}
    model = kt.tasks.MultiTask(shared, tasks)
    model.compile("sgd")
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    assert all(task.optimizer is model.optimizer for task in tasks.values())


def test_stages_unfreeze_the_shared_encoder_in_the_middle_of_an_epoch():
    model = model_of()
    before = values(model.encoder)
    stages = kt.callbacks.StagedTraining([kt.callbacks.Stage("head", steps=2), kt.callbacks.Stage("all")])
    model.compile(keras.optimizers.Adam(0.01), run_eagerly=True)
    seen = []

    class Watch(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append(difference(values(model.encoder), before) > 0)

    model.fit(FIT, batch_size=8, callbacks=[stages, Watch()], verbose=0)
    assert seen[:2] == [False, False] and all(seen[2:])


def test_a_penalty_pulls_each_head_on_its_own_although_their_weights_have_the_same_paths(tmp_path):
    def trained(penalty=None):
        model = model_of()
        before = {name: [np.array(weight) for weight in head_of(task)] for name, task in model.tasks.items()}
        optimizer = kt.optimizers.LayerwiseOptimizer(keras.optimizers.SGD(0.1), model, penalty=penalty)
        model.compile(optimizer, run_eagerly=True)
        model.fit(FIT, batch_size=24, steps_per_epoch=1, verbose=0)
        return model, before

    (plain, before), (model, _) = trained(), trained(kt.adaptation.L2SP(0.5, new_strength=0.2))
    assert {weight.path for weight in head_of(model.tasks["mood"])} & {
        weight.path for weight in head_of(model.tasks["length"])
    }
    for name in model.tasks:
        theirs, ours = (values_of(head_of(each.tasks[name])) for each in (plain, model))
        moved = difference(theirs, before[name]) > 0
        expected = [head - 0.1 * 0.2 * start * moved for head, start in zip(theirs, before[name])]
        assert difference(ours, expected) < 1e-6
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for each in (model, loaded):
        keras.utils.set_random_seed(3)
        each.fit(FIT, batch_size=24, steps_per_epoch=2, verbose=0)
    assert difference(values(loaded), values(model)) < 1e-6


def test_ewc_protects_the_encoder_of_several_tasks_and_needs_to_know_that_it_is_the_encoder():
    model = model_of()
    fisher = kt.adaptation.estimate_fisher(model.tasks["mood"], TEXTS[:2], seed=0)

    def made(**options):
        penalty = kt.adaptation.EWC(fisher, 1e4, **options)
        return kt.optimizers.LayerwiseOptimizer("sgd", model, penalty=penalty)

    assert "pass `groups='pretrained'`" in message(made)
    start = values(model.encoder)
    model.compile(made(groups="pretrained"), run_eagerly=True)
    model.fit(FIT, batch_size=8, verbose=0)
    assert 0 < difference(values(model.encoder), start) < 1
    assert model.optimizer.penalty_value() > 0


# === Adapters ===


@pytest.mark.core
@pytest.mark.parametrize("trains_encoder", [False, True])
def test_each_task_has_adapters_of_its_own_on_one_encoder(trains_encoder):
    model = kt.adaptation.add_adapters(model_of(of=transformer), "pals:size=8,num_heads=2")
    if trains_encoder:
        kt.adaptation.unfreeze(model)
    model.compile(keras.optimizers.Adam(0.01), run_eagerly=trains_encoder)
    own = {
        name: [weight for slot in model.encoder.attached.slots for weight in slot.adapters[name].weights]
        for name in model.tasks
    }
    adapters = {id(weight) for weights in own.values() for weight in weights}
    start = {name: [np.array(weight) for weight in weights] for name, weights in own.items()}
    base = [weight for weight in model.encoder.weights if id(weight) not in adapters]
    before = [np.array(weight) for weight in base]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Mixture, "shares", lambda self, epoch: [1.0, 0.0])
        model.fit(FIT, batch_size=8, steps_per_epoch=2, verbose=0)
    assert (difference([np.array(weight) for weight in base], before) > 0) == trains_encoder
    moved = {name: difference([np.array(weight) for weight in own[name]], start[name]) > 0 for name in own}
    assert moved == {"mood": True, "length": False}
    model.fit(FIT, batch_size=24, verbose=0)
    outputs = model.predict({"mood": TEXTS[:2], "length": TEXTS[:2]}, verbose=0)
    assert difference([model.tasks["mood"].predict(TEXTS[:2], verbose=0)], [outputs["mood"]]) < 1e-6
    made = [model.train_function, *(task.predict_function for task in model.tasks.values())]
    traces = [getattr(function, "experimental_get_tracing_count", int)() for function in made]
    for name in ("length", "mood"):  # Using one task after the other makes and traces nothing again.
        model.tasks[name].predict(TEXTS[:2], verbose=0)
        model.fit(FIT, batch_size=24, steps_per_epoch=1, verbose=0)
    assert made == [model.train_function, *(task.predict_function for task in model.tasks.values())]
    assert traces == [getattr(function, "experimental_get_tracing_count", int)() for function in made]


def test_removed_adapters_leave_tasks_that_compute_and_train_as_before():
    model = model_of(of=transformer)
    outputs = model.predict({"mood": TEXTS[:2], "length": TEXTS[:2]}, verbose=0)
    kt.adaptation.add_adapters(model, "prefix:2")
    kt.adaptation.remove_adapters(model, "mood")
    assert [task.head_adapters.given for task in model.tasks.values()] == [(), ("length",)]
    kt.adaptation.remove_adapters(model)
    again = model.predict({"mood": TEXTS[:2], "length": TEXTS[:2]}, verbose=0)
    assert difference(again.values(), outputs.values()) == 0
    heads = {id(weight) for task in model.tasks.values() for weight in head_of(task)}
    assert {id(weight) for weight in model.trainable_weights} == heads
    model.compile("sgd", run_eagerly=True)
    model.fit(FIT, batch_size=8, steps_per_epoch=1, verbose=0)


def test_adapters_that_one_task_cannot_have_are_added_to_none():
    shared, prepare = encoder(), preprocessor()
    tasks = {
        "a": kt.tasks.TextClassifier(shared, prepare, num_classes=2),
        "b": kt.tasks.TextClassifier(shared, prepare, num_classes=2, scalar_mix=True),
    }
    model = kt.tasks.MultiTask(shared, tasks)
    before = len(model.trainable_weights)
    assert "`Prompt` cannot be combined" in message(lambda: kt.adaptation.add_adapters(model, "prompt:2"))
    assert list(shared.adapters) == [] and len(model.trainable_weights) == before


def test_a_task_with_other_heads_has_the_adapters_of_its_task():
    model = kt.adaptation.add_adapters(model_of(of=transformer), "pfeiffer:4")
    model.tasks["length"].predict(TEXTS[:1], verbose=0)
    task = model.tasks["mood"]
    assert task.with_heads({"mood": task.heads["head"]}).head_adapters.given == ("mood",)


# === Files ===


@pytest.mark.core
@pytest.mark.parametrize("adapters", [None, "pfeiffer:4"])
def test_a_file_has_all_tasks_on_one_encoder(tmp_path, adapters):
    model = model_of(of=transformer if adapters else word_vectors, sampling=0.5, loss_weights="uncertainty")
    if adapters:
        kt.adaptation.add_adapters(model, adapters)
    model.compile(keras.optimizers.Adam(0.01), run_eagerly=adapters is not None)
    model.fit(FIT, batch_size=24, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert difference(values(loaded), values(model)) == 0
    questions = {"mood": TEXTS[:3], "length": TEXTS[:3]}
    ours, theirs = model.predict(questions, verbose=0), loaded.predict(questions, verbose=0)
    assert difference(ours.values(), theirs.values()) < 1e-6
    assert len({id(task.encoder) for task in loaded.tasks.values()}) == 1
    assert (loaded.sampling, loaded.loss_weights) == (0.5, "uncertainty")
    state = [model.optimizer.variables, loaded.optimizer.variables]
    assert difference(map(np.array, state[0]), map(np.array, state[1])) == 0
    loaded.fit(FIT, batch_size=8, steps_per_epoch=1, verbose=0)


# === Mistakes ===


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (lambda model: model.fit({"mood": DATA["mood"]}), "names of all tasks, ['mood', 'length']"),
        (lambda model: model.fit(TEXTS), "`x` must be a dict"),
        (lambda model: model.fit({**FIT, "length": (TEXTS, ["a"] * 24)}), "The data of the task 'length': "),
        (lambda model: model.fit({**FIT, "length": TEXTS}), "`x['length']` must be"),
        (lambda model: model.fit(FIT, validation_data={"moods": DATA["mood"]}), "Did you mean 'mood'?"),
        (lambda model: model.fit({**FIT, "mood": keras.utils.PyDataset()}), "`x['mood']` must be data in memory, or a"),
        (lambda model: model.fit({**FIT, "mood": (FIT["mood"] for _ in range(2))}), "requires `steps_per_epoch`, and"),
        (
            lambda model: model.fit({**FIT, "mood": (FIT["mood"] for _ in range(2))}, steps_per_epoch=2),
            "='proportional'",
        ),
        (
            lambda model: model.fit({**FIT, "mood": tf_data()}, callbacks=[kt.callbacks.TrainingCheckpoint("folder")]),
            "A run with a `TrainingCheckpoint` requires",
        ),
        (
            lambda model: model.fit({**FIT, "mood": Loader([DATA["mood"], (TEXTS, [7] * 24)])}, steps_per_epoch=9),
            "The data of the task 'mood': Invalid data in a batch",
        ),
        (lambda model: model.fit(model.dataset({**FIT, "mood": ([], [])})), "'mood': `x` must have at least one row"),
        (lambda model: kt.adaptation.fine_tune(model, {**FIT, "mood": ([], [])}), "`x` must have at least one row"),
        (lambda model: model_of().fit(FIT), "Call `compile` before `fit`"),
        (lambda model: model.fit(FIT, shuffle=True), "Unknown arguments."),
        (lambda model: model.fit(FIT, class_weight={0: 2.0}), "weights of rows are a part of the data"),
        (lambda model: model.fit(FIT, steps_per_epoch=0), "`steps_per_epoch` must be"),
        (lambda model: model.evaluate(FIT, steps=1), "Unknown arguments."),
        (lambda model: model.evaluate({"mood": TEXTS}), "`x['mood']` must be"),
        (lambda model: (model.tasks["mood"].compile("sgd"), model.fit(FIT)), "Call `compile` of the `MultiTask` again"),
        (lambda model: (kt.adaptation.add_adapters(model.tasks["mood"], "ia3"), model.fit(FIT)), "have changed since"),
        (lambda model: kt.adaptation.add_adapters(model, "ia3", name="mine"), "the names of its tasks"),
        (lambda model: kt.adaptation.set_active_adapter(model, "mood"), "Pass one of the tasks"),
        (lambda model: kt.adaptation.merge_adapters(model), "Pass one of the tasks"),
        (lambda model: kt.adaptation.save_adapters(model, "file"), "Pass one of the tasks"),
        (lambda model: kt.adaptation.load_adapters(model, "file"), "Pass one of the tasks"),
        (lambda model: model.compile(loss={"moods": "mse"}), "Did you mean 'mood'?"),
        (lambda model: model.compile(keras.optimizers.Adam(gradient_accumulation_steps=2)), "Use larger batches."),
        (lambda model: kt.tasks.MultiTask(encoder(), model.tasks), "All tasks must be created with `encoder`"),
        (lambda model: model_of(("mood",)), "at least two tasks"),
        (lambda model: model_of(sampling="random"), "`sampling` must be"),
        (lambda model: model_of(loss_weights={"moods": 1.0}), "Did you mean 'mood'?"),
    ],
)
def test_mistakes_are_errors(run, expected):
    model = model_of(of=transformer)
    model.compile("sgd")
    assert expected in message(lambda: run(model))
