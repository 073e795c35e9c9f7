"""Comparing methods: which runs take place, what is kept of them, and what their table says."""

import contextlib
import dataclasses
import functools

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import EWC, Recipe, get_recipe
from keras_transfer.core.arrays import data_digest
from keras_transfer.experiments import compare
from keras_transfer.experiments.comparison import define
from keras_transfer.experiments.comparison_report import shorten
from tests.errors import check_errors
from tests.tasks.tiny import classifier, examples, of_vectors

pytestmark = pytest.mark.usefixtures("eagerly")
X, Y = np.arange(12.0).reshape(6, 2), np.arange(6)
DATA = {"train": (X, Y), "validation": (X[:2], Y[:2]), "test": (X[2:4], Y[2:4])}


class Scored(keras.Sequential):
    """A model whose score its method sets. The score on the test data is 0.1 lower."""

    def evaluate(self, x, y, sample_weight=None, **options):
        return {"loss": 1.0, "accuracy": self.score - 0.1 * float(x[0, 0] == X[2, 0])}


def make_model():
    return Scored([keras.Input((2,)), keras.layers.Dense(1, name="dense")])


class Method:
    """A method whose scores are given by seed. It notes its runs."""

    def __init__(self, *scores):
        self.scores, self.runs = scores, []

    def __call__(self, model, train, validation, seed):
        assert train is DATA["train"] and validation is DATA["validation"]
        model.compile("sgd", "mse")
        model.score = self.scores[seed]
        self.runs.append((seed, float(np.sum(model.get_weights()[0]))))


def test_scores_are_means_with_t_intervals_and_paired_tests_against_the_baseline():
    methods = {"plain": Method(0.80, 0.82, 0.81), "better": Method(0.90, 0.93, 0.90)}
    comparison = compare(make_model, DATA, methods, seeds=3, verbose=0)
    plain, better = comparison.rows
    # The quantile of two degrees of freedom is 4.3027.
    assert plain["validation"] == pytest.approx(0.81) and plain["test"] == pytest.approx(0.71)
    assert plain["validation_interval"] == pytest.approx(4.3027 * 0.01 / 3**0.5, rel=1e-4)
    assert (plain["difference"], plain["p"]) == (None, None)
    assert better["difference"] == pytest.approx(0.1) and better["p"] == pytest.approx(0.0033, abs=1e-4)
    assert comparison.best == "better" and better["trainable"] == 1.0
    lines = str(comparison).splitlines()
    assert "0.8100 ± 0.0248  0.7100 ± 0.0248" in lines[2] and lines[2].startswith("plain ")
    assert lines[3].startswith("better *") and "+0.1000  0.003" in lines[3] and lines[3].endswith("100.00%")
    assert lines[4:] == [
        "* has the best mean accuracy on the validation data.",
        "±: 95% t interval of the mean over 3 seeds.",
        "difference, p: test accuracy against 'plain', paired t test over the seeds.",
    ]
    # With the same seed, all methods start with the same weights.
    assert methods["plain"].runs == methods["better"].runs
    assert len({start for _, start in methods["plain"].runs}) == 3


def adam(model, train, validation, seed):
    model.compile("adam", "mse")
    model.fit(*train, verbose=0)
    model.score = 0.5


def test_a_model_that_the_run_before_has_trained_is_an_error():
    shared, one_model = keras.layers.Dense(2, name="encoder"), make_model()
    make = {
        "one model": lambda: one_model,
        "one encoder": lambda: keras.Sequential([keras.Input((2,)), shared, keras.layers.Dense(1, name="head")]),
    }
    for function in make.values():
        with pytest.raises(ValueError, match="`make_model` must return a new model each time, over a new encoder"):
            compare(function, DATA, {"a": adam, "b": adam}, seeds=1, metric="loss", verbose=0)
    shared.trainable = False  # What no method changes may be shared.
    compare(make["one encoder"], DATA, {"a": adam, "b": adam}, seeds=2, metric="loss", verbose=0)


def test_one_seed_has_no_interval_and_no_test_and_the_table_says_so():
    methods = {"one": Method(0.8), "two": Method(0.7)}
    comparison = compare(make_model, {**DATA, "test": None}, methods, seeds=1, verbose=0)
    assert [row["validation_interval"] for row in comparison.rows] == [None, None]
    assert comparison.rows[1]["p"] is None and "test" not in comparison.rows[1]
    assert str(comparison).endswith("1 seed: no intervals and no tests.")
    assert "±" not in str(comparison)


def test_the_table_is_also_one_of_pandas_markdown_and_a_picture():
    methods = {"one": Method(0.8, 0.82), "two|three": Method(0.7, 0.6)}
    comparison = compare(make_model, DATA, methods, seeds=2, baseline="two|three", verbose=0)
    lines = comparison.to_markdown().splitlines()
    assert lines[0].startswith("| method | validation | test | difference |") and lines[1].startswith("| --- | ---: |")
    assert lines[0].count("|") == lines[1].count("|")
    assert lines[2].startswith("| one * | 0.8100 ± ") and lines[3].startswith(r"| two\|three |")
    pytest.importorskip("pandas")
    table = comparison.to_frame()
    assert list(table.index) == ["one", "two|three"] and table.loc["one", "difference"] == pytest.approx(0.16)
    pytest.importorskip("matplotlib")
    axes = comparison.plot().axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["one", "two|three"]
    assert axes.get_xlabel() == "accuracy\nmean of 2 seeds with its 95% interval"


def test_the_variant_with_the_best_validation_score_of_the_first_seed_is_trained_with_the_others(capsys):
    variants = [Method(0.7, 0.0), Method(0.9, 0.8), Method(float("nan"), 0.0)]
    comparison = compare(make_model, DATA, {"tuned": variants, "plain": Method(0.8, 0.8)}, seeds=2)
    printed = capsys.readouterr().out.splitlines()
    assert printed[1].startswith("tuned, Method #2, seed 0: validation accuracy 0.9000, test accuracy 0.8000, ")
    assert len(printed) == 6 and printed[5].startswith("plain, seed 1: ")
    assert [[seed for seed, _ in variant.runs] for variant in variants] == [[0], [0, 1], [0]]
    assert comparison.rows[0]["validation"] == pytest.approx(0.85)
    assert comparison.rows[0]["variant"] == "Method #2" and comparison.rows[1]["variant"] == ""
    falling = compare(make_model, DATA, {"tuned": variants}, seeds=1, mode="min", verbose=0)
    assert falling.rows[0]["validation"] == 0.7


def test_the_table_names_what_distinguishes_the_chosen_variant():
    fields = [{"learning_rate": 0.1, "epochs": 3}, {"learning_rate": 0.2, "epochs": 3}, {"learning_rate": 0.2}]
    tried = [define(get_recipe("bert", **changes)) for changes in fields]
    assert [shorten(one, tried) for one in tried] == [
        "epochs=3, learning_rate=0.1",
        "epochs=3, learning_rate=0.2",
        "epochs='auto', learning_rate=0.2",
    ]
    callables = [f"sgd.<locals>.method(rate={rate})" for rate in (1, 2)]
    assert shorten(callables[0], callables) == "rate=1"
    assert shorten(tried[0], tried[:1]) == ""


def test_recipes_are_trained_by_their_names_and_report_times_and_what_trains(capsys):
    texts, labels = examples(8)
    data = {"train": (texts, labels), "validation": (texts, labels)}
    methods = {"head": get_recipe("feature_extraction", epochs=1, batch_size=4), "one batch": Recipe(epochs=1)}
    comparison = compare(of_vectors, data, methods, seeds=[3])
    head, whole = comparison.rows
    assert 0 < head["trainable"] < 0.5 and whole["trainable"] == 1.0
    assert head["step"] > 0 and whole["step"] is None and whole["time"] > 0
    assert [run["seed"] for run in comparison.runs["head"]] == [3]
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 2 and printed[0].startswith("head, seed 3: validation accuracy ")


def test_adapters_are_trained_by_their_names(monkeypatch):
    monkeypatch.setattr("keras_transfer.adaptation.recipe.STEPS", 3)
    texts, labels = examples(8)
    data = {"train": (texts, labels), "validation": (texts, labels)}
    comparison = compare(classifier, data, ["ia3", "lora:r=2"], seeds=1, verbose=0)
    assert [row["method"] for row in comparison.rows] == ["ia3", "lora:r=2"]
    assert 0 < comparison.rows[0]["trainable"] < comparison.rows[1]["trainable"] < 0.5


def test_a_callable_may_return_another_model_and_take_callbacks_that_measure_steps():
    def method(model, train, validation, seed, callbacks):
        top = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        top.compile("sgd", "mse", run_eagerly=True)
        top.fit(*train, batch_size=2, callbacks=callbacks, verbose=0)
        model.trainable = False
        return top

    data = {"train": (X, Y), "validation": (X, Y)}
    comparison = compare(make_model, data, [method], seeds=1, metric="loss", verbose=0)
    assert comparison.rows[0]["method"] == "method" and comparison.rows[0]["step"] > 0
    assert comparison.rows[0]["validation"] != 1.0 and comparison.rows[0]["trainable"] == 1.0


def runs_of(methods, results, **options):
    """The seeds with which the methods are trained in a comparison, and its result."""
    for method in methods.values():
        method.runs.clear()
    comparison = compare(make_model, DATA, methods, results=results, verbose=0, **options)
    return [[seed for seed, _ in method.runs] for method in methods.values()], comparison


def test_finished_runs_are_not_repeated_and_methods_and_seeds_can_be_added(tmp_path):
    file, one, two = tmp_path / "new" / "runs.jsonl", Method(0.8, 0.7, 0.6), Method(0.9, 0.5, 0.4)
    seeds, first = runs_of({"one": one}, file, seeds=2)
    assert seeds == [[0, 1]]
    seeds, again = runs_of({"one": one}, file, seeds=2)
    assert seeds == [[]] and again.rows == first.rows
    seeds, more = runs_of({"one": one, "two": two}, file, seeds=[2, 0])
    assert seeds == [[2], [2, 0]] and [run["seed"] for run in more.runs["one"]] == [2, 0]
    assert len(file.read_text().splitlines()) == 1 + 2 + 3


def test_the_metrics_of_a_file_may_have_other_default_names(tmp_path):
    method = {"one": Method(0.8)}
    for macro, message in ((True, None), (True, None), (False, "metrics .* instead of")):
        options = {"metrics": [keras.metrics.F1Score(average="macro" if macro else "micro")], "seeds": 1}
        with pytest.raises(ValueError, match=message) if message else contextlib.nullcontext():
            runs_of(method, tmp_path / "runs.jsonl", **options)


def test_a_file_with_runs_of_other_settings_or_of_something_else_is_refused_and_not_changed(tmp_path):
    file, method = tmp_path / "runs.jsonl", {"one": Method(0.8)}
    runs_of(method, file, seeds=1)
    before = file.read_bytes()

    def larger():
        return Scored([keras.Input((2,)), keras.layers.Dense(2)])

    def scaled():
        model = make_model()
        model.set_weights([1.001 * weight + 0.001 for weight in model.get_weights()])
        return model

    for maker, data, options, message in [
        (make_model, {**DATA, "train": (X + 1, Y)}, {}, "data train '"),
        (make_model, {"train": DATA["train"], "validation": DATA["validation"]}, {}, "data test '"),
        (make_model, DATA, {"metric": "loss"}, "metric 'accuracy' instead of 'loss'"),
        (make_model, DATA, {"loss": "mse"}, "loss None instead of .*mse"),
        (make_model, DATA, {"metrics": ["accuracy"]}, "metrics None instead of .*accuracy"),
        (larger, DATA, {}, "model parameters 3 instead of 6"),
        (scaled, DATA, {}, "model magnitude "),
    ]:
        with pytest.raises(ValueError, match=f"different settings.*Received: results=.*{message}"):
            compare(maker, data, method, seeds=1, results=file, verbose=0, **options)
    assert file.read_bytes() == before
    for content in (b"a line\n", b"no line", before + b"[]\n", before + before):
        file.write_bytes(content)
        with pytest.raises(ValueError, match="must be a new file, or one that an experiment wrote"):
            compare(make_model, DATA, method, seeds=1, results=file, verbose=0)
        assert file.read_bytes() == content


def test_digests_of_data_tell_texts_in_other_lists_apart():
    one, other = ([["a"], ["b", "c"]], [0, 1]), ([["a", "b"], ["c"]], [0, 1])
    assert data_digest(one) != data_digest(other)
    assert data_digest(([{"a": "b"}], [0])) != data_digest(([{"c": "b"}], [0]))
    assert data_digest((["a", "b"], [0, 1])) == "0fb9c93bb5e1ec46"  # as in files of earlier versions
    assert data_digest((np.arange(3), {"y": np.zeros((2, 2))})) == "7a04ca1f1a20f828"


def test_the_plain_values_of_a_callable_distinguish_it():
    def tuned(rate):
        def method(model, train, validation, seed):
            return rate

        return method

    def free(model, train, validation, seed, rate=0):
        pass

    assert define(tuned(0.1)).endswith("method(rate=0.1)") and define(tuned(0.1)) == define(tuned(0.1))
    assert define(functools.partial(free, rate=0.2)).endswith("free(rate=0.2)")
    assert define(Method(1)) == "Method"
    recipe = get_recipe("bert")  # A setting that was new in a version does not change what earlier results are of.
    assert define(recipe).startswith("Recipe(epochs='auto', ") and define(recipe).endswith(", scalar_mix=False)")
    other = dataclasses.replace(recipe, gradient_accumulation_steps=2, rematerialize=True)
    assert define(other) == define(recipe)[:-1] + ", gradient_accumulation_steps=2, rematerialize=True)"
    values = (np.arange(3.0), np.arange(3.0), np.ones(3))
    penalties = [EWC({"dense/kernel": fisher}, 2.0, groups="pretrained") for fisher in values]
    first, again, third = (define(get_recipe("bert", weight_decay=0.0, penalty=penalty)) for penalty in penalties)
    assert first == again != third and first.endswith(", strength=2.0, groups='pretrained'))")


def mistake(methods=None, data=DATA, maker=make_model, **options):
    return lambda: compare(maker, data, {"one": Method(0.5, 0.5)} if methods is None else methods, verbose=0, **options)


test_a_mistake_is_one_error = check_errors(
    (
        lambda: compare(make_model(), DATA, {"a": adam}),
        "must be a function that returns a new model each time ... Received: make_model=<Scored",
    ),
    (mistake([]), "`methods` must have at least one method. Received: methods=[]"),
    (mistake("bert"), "`methods` must be a list or a dict. Received: methods='bert'"),
    (mistake(["brt"]), "Did you mean 'bert'", "Received: 'brt'"),
    (mistake({"mine": "huolsby:8"}), "Did you mean 'houlsby'", "Received: 'huolsby:8'"),
    (mistake(["lora:size=8"]), "Unknown argument of 'lora'", "Received: spec='lora:size=8'"),
    (mistake({"mine": 3}), "A method must be a `Recipe`", "Received: 3"),
    (mistake(["bert", "bert"]), "must have different names"),
    (mistake([lambda *args: None]), "To name other methods, pass a dict"),
    (mistake([Recipe()]), "To name other methods, pass a dict"),
    (mistake({"one": []}), "at least one variant. Received: name='one', method=[]"),
    (mistake(data={"train": (X, Y), "test": (X, Y)}), "hold out", "Received: ['test', 'train']"),
    (mistake(data=(X, Y)), "`data` must be a dict", "Received: a tuple"),
    (mistake(data={**DATA, "dev": (X, Y)}), "perhaps 'test' ... Received: unknown=['dev']"),
    (mistake(data={**DATA, "train": [X, Y]}), "`data['train']` must be ... in memory. Received: part=[array("),
    (mistake(seeds=0), "`seeds` must be a positive integer", "Received: seeds=0"),
    (mistake(seeds=[1, 1]), "Received: seeds=[1, 1]"),
    (mistake(seeds=[-1]), "Received: seeds=[-1]"),
    (mistake(baseline="two"), "`baseline` must be one of ['one']. Received: baseline='two'"),
    (mistake(metric="goodness"), "Pass `mode='max'` if ", "Received: metric='goodness'"),
    (mistake(metric="f1", seeds=1), "`metric` must be one of ['accuracy', 'loss'] ... Received: metric='f1'"),
    (mistake(maker=lambda: None), "`make_model` must return a built `keras.Model` ... Received: model=None"),
    (mistake({"idle": lambda *args: None}, seeds=1), "must compile the model"),
)
