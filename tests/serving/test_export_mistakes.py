"""Mistakes in `export` raise clear errors and leave no half-written files."""

import keras
import pytest

from keras_transfer import encoders, serving, tasks, text
from keras_transfer.cli.info import weight_sizes
from keras_transfer.serving import exporting
from keras_transfer.serving.formats.savedmodel import make_signatures
from keras_transfer.tasks.reader import Reader, encode_texts
from keras_transfer.tasks.task import Signature
from tests.errors import check_errors
from tests.tasks.tiny import of_vectors

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

LABELS = ["bad", "mixed", "good"]


@pytest.fixture
def occupied(tmp_path):
    """A folder with something in it."""
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "precious.txt").write_text("mine")
    return folder


class Broken(text.Preprocessor):
    """Fails when the graph is made."""

    def call(self, texts, sequence_length=None):
        raise RuntimeError("out of order")


@pytest.fixture
def broken(classifier):
    return tasks.TextClassifier(classifier.encoder, Broken(), num_classes=3)


def test_overwrite_replaces_the_folder(occupied):
    serving.export(of_vectors(), occupied, label_names=["poor", "fine"], overwrite=True)
    assert not (occupied / "precious.txt").exists()
    assert list(occupied.parent.iterdir()) == [occupied]
    outputs = tf.saved_model.load(occupied).signatures["serving_default"](text=tf.constant(["good"]))
    assert outputs["label"].numpy()[0].decode() in ("poor", "fine")


def test_a_failure_leaves_nothing_behind_and_an_old_folder_as_it_was(broken, occupied):
    for folder, options in ((occupied.with_name("other"), {}), (occupied, {"overwrite": True})):
        with pytest.raises(RuntimeError, match="out of order"):
            serving.export(broken, folder, **options)
    assert [file.name for file in occupied.iterdir()] == ["precious.txt"]
    assert list(occupied.parent.iterdir()) == [occupied]


@pytest.fixture
def written(monkeypatch):
    """The labels of each export, whose graph is not written."""
    found = []
    monkeypatch.setattr(exporting, "write_export", lambda *given: found.append(given[-1]["label_names"]))
    return found


def test_labels_may_be_a_dict_as_transformers_have_it(classifier, tmp_path, written):
    for i, key in enumerate((int, str)):  # str in `config.json`
        serving.export(classifier, tmp_path / str(i), label_names={key(2): "good", key(0): "bad", key(1): "mixed"})
    serving.export(classifier, tmp_path / "numbers")
    assert written == [LABELS, LABELS, ["0", "1", "2"]]


DIFFERENT = r"must be 3 different names, one for each class. Received: label_names=\["
KEYS = "must have the keys 0 to 2, as `id2label` of Transformers. Received: label_names="
OTHER = "in the order of `model.label_names`.* Received: "


@pytest.mark.parametrize(
    ("own", "labels", "message"),
    [
        (None, ["bad", "good"], DIFFERENT),
        (None, ["bad", "good", "good"], DIFFERENT),
        (None, [1, "1", 2], DIFFERENT),
        (None, {0: "bad", 1: "mixed"}, KEYS),
        (None, {"bad": 0, "mixed": 1, "good": 2}, KEYS),
        (None, "abc", "`label_names` must be a list of names. Received: label_names='abc'"),
        (["bad", "good"], ["good", "bad"], f"{OTHER}'good' at position 0, which is class 1"),
        (LABELS, {0: "bad", 1: "good", 2: "mixed"}, f"{OTHER}'good' at position 1, which is class 2"),
        (["0", "1"], ["1", "0"], f"{OTHER}'1' at position 0, which is class 1"),
    ],
)
def test_labels_are_a_different_name_for_each_class_and_not_that_of_another(own, labels, message, classifier, tmp_path):
    if own is None:
        model = classifier
    else:
        model = tasks.TextClassifier(classifier.encoder, preprocessor=classifier.preprocessor, label_names=own)
    with pytest.raises(ValueError, match=message):
        serving.export(model, tmp_path / "served", label_names=labels)
    assert list(tmp_path.iterdir()) == []


def test_labels_may_rename_classes(classifier, tmp_path, written):
    for own, labels in ((["bad", "good"], ["poor", "good"]), (["0", "1", "2"], [1, 2, 3])):
        model = tasks.TextClassifier(classifier.encoder, preprocessor=classifier.preprocessor, label_names=own)
        serving.export(model, tmp_path / own[0], label_names=labels)
    assert written == [["poor", "good"], ["1", "2", "3"]]


@pytest.mark.parametrize("cls", [keras.losses.BinaryCrossentropy, keras.losses.BinaryFocalCrossentropy])
def test_a_model_of_several_labels_per_text_is_not_exported_with_a_softmax(cls, make_classifier, tmp_path):
    model, loss = make_classifier(), cls(from_logits=True)
    model.compile("sgd", loss=loss, metrics=[])
    with pytest.raises(ValueError, match="one label for each text .* several labels per text.* Received: loss=<"):
        serving.export(model, tmp_path / "served", label_names=LABELS)
    assert list(tmp_path.iterdir()) == []
    model.compile("sgd")
    assert "serving_default" in model.signatures()


@pytest.mark.parametrize(
    ("folder", "error", "message"),
    [
        ("file/served", FileExistsError, "The parents of a folder must be folders"),
        ("gs://bucket/served", ValueError, "must be local"),
        (".", FileExistsError, "overwrite=True"),
    ],
)
def test_the_folder_is_checked_first(folder, error, message, broken, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    monkeypatch.setattr(broken, "signatures", None)  # not called
    with pytest.raises(error, match=message):
        serving.export(broken, folder)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def without_preprocessor(classifier):
    return tasks.TextClassifier(classifier.encoder, num_classes=2)


test_only_a_task_with_a_preprocessor_is_exported = check_errors(
    (without_preprocessor, "requires a model with a preprocessor ... Received: preprocessor=None"),
    (lambda task: keras.Model(task.input, task.output), "such as a `TextClassifier`. Received: Functional"),
    (lambda task: task.encoder, "must be a task, such as a `TextClassifier`. Received: BertEncoder"),
    call=lambda change, classifier, tmp_path: serving.export(change(classifier), tmp_path / "served"),
)


def test_only_a_model_that_generates_text_has_a_loop_to_compile(classifier, tmp_path):
    with pytest.raises(ValueError, match="such as a `CausalLM`. Received: jit_compile=True, task='TextClassifier'"):
        serving.export(classifier, tmp_path / "served", jit_compile=True)


def test_a_custom_task_exports_its_signatures():
    class Length(tasks.Task):
        """Returns how many real tokens a text has."""

        def signatures(self, pairs=False):
            def length(text):
                return {"length": self(encode_texts(self, text))[:, 0]}

            return {"serving_default": Signature(length, {"text": keras.KerasTensor((None,), "string")})}

    encoder = encoders.TransformerEncoder(
        6, num_layers=1, num_heads=1, hidden_dim=4, intermediate_dim=4, max_sequence_length=8
    )
    count = keras.layers.Lambda(lambda ids: keras.ops.sum(ids, 1, keepdims=True), output_shape=(1,))
    reader = Reader(text.BertPreprocessor(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b"], 8))
    model = Length(encoder, reader, tasks.Head(count(encoder.input["padding_mask"]), tasks.Labels()))
    served = make_signatures(model, [])
    assert list(served) == ["serving_default"]
    assert served["serving_default"](text=tf.constant(["a b", "a"]))["length"].numpy().tolist() == [4, 3]


def test_the_file_for_the_process_that_exports_has_no_optimizer(tmp_path):
    model = of_vectors()
    model.compile("adam", run_eagerly=True)
    model.train_on_batch(["good", "bad"], [0, 1])
    optimizer = model.optimizer
    with exporting._without_optimizer(model):
        model.save(tmp_path / "model.keras")
    assert weight_sizes(tmp_path / "model.keras")[1] == 0
    assert model.optimizer is optimizer and model.compiled
    model.save(tmp_path / "whole.keras")
    assert weight_sizes(tmp_path / "whole.keras")[1] > 0
