"""Model cards: what they contain, what other libraries read in them, and that edited ones are kept."""

import json

import keras
import numpy as np
import pytest

import keras_transfer as kt
from keras_transfer.checkpoints import ModelCard
from tests.errors import check_errors
from tools.tiny_tasks import CASES

yaml = pytest.importorskip("yaml", reason="needs PyYAML")

WORDS = ["good", "bad", *"abcdefgh"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
TEXTS = ["a good b", "bad", "c d e f g h", "good bad a"]
LABELS = ['say "no": |really|', "# é\n日本"]
SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 4, "intermediate_dim": 8, "max_sequence_length": 16}


def encoder(cls=kt.encoders.BertEncoder):
    return cls(len(VOCABULARY), **SIZES)


def preprocessor():
    return kt.text.BertPreprocessor(VOCABULARY, sequence_length=16)


def classifier(**options):
    keras.utils.set_random_seed(0)
    return kt.tasks.TextClassifier(encoder(), preprocessor(), **{"label_names": LABELS, **options})


def report():
    return kt.analysis.ClassificationReport([0, 1, 1, 0], [[2.0, -1.0], [0.5, 0.1], [-1.0, 3.0], [1.0, -2.0]])


def card_of(folder):
    """The front matter and the text of a folder's card."""
    _, front, text = (folder / "README.md").read_text("utf-8").split("---\n", 2)
    return yaml.safe_load(front), text


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A classifier that was trained and saved with all that a card can say."""
    model, folder = classifier(), tmp_path_factory.mktemp("cards") / "reviews"
    model.compile(kt.optimizers.FusedAdamW(1e-3))
    model.fit(TEXTS, [LABELS[0], LABELS[1]] * 2, epochs=2, batch_size=2, verbose=0)
    card = ModelCard(
        language=["en", "no"],
        license="apache-2.0",
        base_model="somebody/bert",
        datasets="glue",
        tags=["reviews"],
        data_size={"train": 4000, "test": 20},
        training={"recipe": "bert", "seed": 0},
        metrics={"accuracy": (0.9, 0.8, 0.95), "macro_f1": 0.7},
        evaluated_on="20 held-out reviews",
        limits="Not for reviews of bridges.",
    )
    model.save_pretrained(folder, card=card)
    return model, folder


def test_the_front_matter_has_what_the_hub_reads(saved):
    front, _ = card_of(saved[1])
    assert front["language"] == ["en", "no"]
    assert (front["license"], front["library_name"]) == ("apache-2.0", "keras_transfer")
    assert (front["pipeline_tag"], front["base_model"]) == ("text-classification", "somebody/bert")
    assert front["datasets"] == ["glue"]
    assert front["tags"] == ["keras", "keras_transfer", "transformers", "reviews"]
    [index] = front["model-index"]
    [result] = index["results"]
    assert index["name"] == "reviews"
    assert result["dataset"] == {"name": "20 held-out reviews", "type": "glue"}
    assert result["metrics"][0] == {"type": "accuracy", "value": 0.9, "name": "accuracy"}
    own = front["keras_transfer"]
    assert own["labels"] == LABELS
    assert own["data_size"] == {"train": 4000, "test": 20}
    assert own["intervals"] == {"confidence": 0.95, "accuracy": [0.8, 0.95]}
    assert own["versions"]["keras"] == keras.__version__


def test_the_text_has_training_scores_and_limits(saved):
    text = card_of(saved[1])[1]
    for part in (
        "# reviews\n",
        r"say \"no\": \|really\|, \# é 日本".replace('\\"', '"'),
        "| train | 4,000 rows |",
        "| epochs | 2 |",
        "| batches per epoch | 2 |",
        "| optimizer | FusedAdamW |",
        "| learning rate | 0.001 |",
        "| recipe | bert |",
        "| metric | value | 95% interval |",
        r"| accuracy | 0.9 | 0.8 to 0.95 |",
        r"| macro\_f1 | 0.7 |  |",
        "Measured on 20 held-out reviews.",
        "- Not for reviews of bridges.",
        "AutoModelForSequenceClassification",
    ):
        assert part in text, part


def test_the_snippet_of_this_library_runs(saved, monkeypatch, capsys):
    _, folder = saved
    text = card_of(folder)[1]
    monkeypatch.chdir(folder.parent)
    exec(text.split("```python\n")[1].split("```")[0], {})
    assert eval(capsys.readouterr().out)[0] in LABELS


def test_a_card_without_knowledge_claims_nothing(tmp_path):
    classifier().save_pretrained(tmp_path / "new")
    front, text = card_of(tmp_path / "new")
    assert not {"language", "license", "base_model", "datasets", "metrics", "model-index"} & set(front)
    assert not {"training", "data_size", "intervals"} & set(front["keras_transfer"])
    assert not any(part in text for part in ("## Data", "## Training", "## Metrics", "None", "Unknown"))


def test_the_hub_package_reads_the_card(saved):
    hub = pytest.importorskip("huggingface_hub", reason="needs huggingface-hub")
    data = hub.ModelCard.load(saved[1] / "README.md").data
    assert data.pipeline_tag == "text-classification"
    assert {result.metric_type: result.metric_value for result in data.eval_results} == {
        "accuracy": 0.9,
        "macro_f1": 0.7,
    }


def test_a_report_gives_its_metrics_and_intervals(tmp_path):
    classifier().save_pretrained(tmp_path / "new", card=ModelCard(metrics=report()))
    front, _ = card_of(tmp_path / "new")
    assert front["keras_transfer"]["intervals"]["accuracy"] == pytest.approx(
        list(report().metrics["accuracy"][1:]), abs=1e-5
    )
    assert front["model-index"][0]["results"][0]["metrics"][0]["value"] == 0.75


def test_numbers_of_numpy_and_the_confidence_are_written_as_they_are(tmp_path):
    card = ModelCard(
        data_size={"train": np.int64(720)},
        training={"rate": np.float32(1e-3)},
        metrics={"f1": (0.5, 0.4, 0.6)},
        confidence=0.975,
    )
    classifier().save_pretrained(tmp_path / "new", card=card)
    front, text = card_of(tmp_path / "new")
    own = front["keras_transfer"]
    assert (own["data_size"], own["training"]) == ({"train": 720}, {"rate": 0.001})
    assert "| metric | value | 97.5% interval |" in text
    classifier().save_pretrained(tmp_path / "plain", card=ModelCard(metrics={"f1": 0.5}))
    assert "| metric | value |\n" in card_of(tmp_path / "plain")[1]


def test_the_training_on_a_card_is_the_training_that_happened(tmp_path):
    model = classifier()
    model.compile("sgd", run_eagerly=True)
    data = {"x": TEXTS, "y": [LABELS[0], LABELS[1]] * 2, "verbose": 0}
    halved = keras.callbacks.LearningRateScheduler(lambda epoch: 0.5**epoch)
    model.fit(**data, initial_epoch=1, epochs=3, callbacks=[halved])
    model.save_pretrained(tmp_path / "resumed")
    facts = card_of(tmp_path / "resumed")[0]["keras_transfer"]["training"]
    assert (facts["epochs"], facts["optimizer"]) == (3, "SGD")
    assert facts["learning rate"] == "from 0.5 in the first epoch to 0.25 in the last"
    model.fit(**data, initial_epoch=3, epochs=4)  # It continues the run.
    model.compile("adam")  # Another optimizer, which has trained nothing.
    model.save_pretrained(tmp_path / "compiled")
    facts = card_of(tmp_path / "compiled")[0]["keras_transfer"]["training"]
    assert facts["epochs"] == 4 and not {"optimizer", "calls of fit"} & set(facts)


def test_a_card_counts_the_epochs_of_all_calls_of_fit_and_has_the_scores_of_the_restored_weights(tmp_path):
    model = classifier()
    model.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    data = {"x": TEXTS, "y": [LABELS[0], LABELS[1]] * 2, "verbose": 0}
    other = keras.callbacks.Callback()  # with attributes of the same names
    other.restore_best_weights, other.best_weights, other.stages = True, np.ones(2), 3
    model.fit(**data, epochs=2, callbacks=[other])
    best = keras.callbacks.EarlyStopping("fall", mode="min", restore_best_weights=True)
    values = iter([3.0, 1.0, 2.0, 0.0])
    fall = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: logs.update(fall=next(values)))
    model.fit(**data, epochs=9, callbacks=[fall, best])
    model.save_pretrained(tmp_path / "model")
    facts = card_of(tmp_path / "model")[0]["keras_transfer"]["training"]
    assert (facts["epochs"], facts["calls of fit"]) == (5, "2 (2, 3 epochs); the facts below are on the last")
    assert "last epoch" not in facts and "fall 1.0000" in facts["epoch 2 of 3, whose weights were restored"]
    model.fit(**data)
    model.fit(**data, epochs=3, initial_epoch=1)
    model.fit(**data, epochs=4, initial_epoch=2)  # from an earlier checkpoint
    assert [record.epochs for record in model.fits] == [2, 3, 4]


def test_a_generated_card_is_replaced_and_an_edited_one_is_kept(tmp_path, caplog):
    model, folder = classifier(), tmp_path / "model"
    model.save_pretrained(folder)
    model.save_pretrained(folder, overwrite=True, card=ModelCard(license="mit"))
    assert card_of(folder)[0]["license"] == "mit"
    assert "is kept" not in caplog.text
    (folder / "README.md").write_text("My own card.")
    model.save_pretrained(folder, overwrite=True)
    assert (folder / "README.md").read_text() == "My own card."
    assert "README.md was not written by keras_transfer, or was edited, and is kept" in caplog.text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


@pytest.mark.parametrize(
    ("make", "tag", "parts"),
    [
        (lambda: kt.tasks.TextRegressor(encoder(), preprocessor()), "text-classification", ["predict(["]),
        (
            lambda: kt.tasks.TokenClassifier(encoder(), preprocessor(), label_names=["O", "B-X"]),
            "token-classification",
            ["predict_words", "AutoModelForTokenClassification"],
        ),
        (
            lambda: kt.tasks.TextEmbedder(encoder(), preprocessor(), pooling="mean"),
            "sentence-similarity",
            ["embed(", "SentenceTransformer("],
        ),
        (lambda: kt.tasks.MaskedLM(encoder(), preprocessor()), "fill-mask", ['fill_mask(["A [MASK]."])']),
        (lambda: kt.tasks.MultipleChoice(encoder(), preprocessor()), "multiple-choice", ["AutoModelForMultipleChoice"]),
    ],
    ids=["TextRegressor", "TokenClassifier", "TextEmbedder", "MaskedLM", "MultipleChoice"],
)
def test_each_task_says_how_to_use_it(make, tag, parts, tmp_path):
    folder = tmp_path / "model"
    make().save_pretrained(folder)
    front, text = card_of(folder)
    assert front["pipeline_tag"] == tag
    assert all(part in text for part in parts), text


@pytest.mark.parametrize(
    ("name", "pairs"),
    [
        *((name, False) for name, case in CASES.items() if case.checkpoint),
        *((name, True) for name in ("TextClassifier", "BertPretraining")),
    ],
)
def test_the_snippet_of_every_card_runs(name, pairs, request, tmp_path, monkeypatch):
    request.getfixturevalue("traced" if name in ("CausalLM", "Seq2SeqLM") else "eagerly")  # Many tokens take long.
    task = CASES[name].make()
    task.fitted_on = "pairs" if pairs else None
    task.save_pretrained(tmp_path / "model")
    [snippet, *_] = card_of(tmp_path / "model")[1].split("```python\n")[1:]
    assert "print(model." in snippet
    monkeypatch.chdir(tmp_path)
    exec(snippet.split("```")[0], {})


def test_the_method_that_a_card_calls_exists():
    tasks = [task for task in map(vars(kt.tasks).get, kt.tasks.__all__) if getattr(task, "purpose", None)]
    assert len(tasks) > 8
    for task in tasks:
        assert callable(getattr(task, task.purpose[2].partition("(")[0], None)), task


def test_the_name_of_the_pretrained_encoder_stays_in_keras_files(tmp_path, small_minilm):
    model = kt.tasks.TextEmbedder.from_pretrained(small_minilm)
    model.save(tmp_path / "model.keras")
    keras.models.load_model(tmp_path / "model.keras").save_pretrained(tmp_path / "model")
    assert card_of(tmp_path / "model")[0]["base_model"] == "sentence-transformers/all-MiniLM-L6-v2"
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert "source" not in config and "base_model" not in config


test_each_mistake_is_one_clear_error = check_errors(
    (lambda: ModelCard(language=[1]), "`language` must be a string or a list of strings. Received: language=[1]"),
    (lambda: ModelCard(license=""), "`license` must be a string that is not empty"),
    (lambda: ModelCard(data_size={"train": 0.5}), "`data_size` must be a dict from strings to integers of at least 0"),
    (lambda: ModelCard(training={"rate": float("nan")}), "to strings, finite numbers or booleans. Received: training="),
    (lambda: ModelCard(metrics=report(), confidence=0.5), "Received: confidence=0.5, report=0.95"),
    (lambda: ModelCard(metrics={"f1": float("nan")}), "Each metric must be a finite number"),
    (lambda: ModelCard(metrics={"f1": (0.5, 0.6, 0.7)}), "low <= value <= high. Received: metrics={'f1'"),
    (lambda: ModelCard(metrics=[0.5]), "`metrics` must be a dict from names to numbers"),
    (lambda: classifier().save_pretrained("x", card={"license": "mit"}), "`card` must be a `checkpoints.ModelCard`"),
)
