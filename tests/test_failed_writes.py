"""Each write of each saver fails once: what was there is whole, nothing new is left, and the error names the path."""

import contextlib
import functools
import json
import re

import keras
import numpy as np
import pytest

from keras_transfer import serving
from keras_transfer.adaptation import Fisher, add_adapters, cache_features, save_adapters
from keras_transfer.analysis import ClassificationReport
from keras_transfer.checkpoints import WordVectors
from keras_transfer.cli import run_folder
from keras_transfer.core.files import atomic_file
from keras_transfer.experiments.comparison import RunFile
from keras_transfer.serving import exporting
from keras_transfer.tasks import TextEmbedder
from keras_transfer.text import BertPreprocessor, ByteBPETokenizer, Corpus, Packing, TokenPreprocessor
from keras_transfer.text.tokenizers.byte_bpe import byte_characters
from keras_transfer.training import checkpoint_files
from tests.adaptation import cached
from tests.data.test_corpus import documents, preprocessor
from tests.errors import check_message
from tests.failing_files import FailingFiles, check_each_failure, check_first_failures, content_of, files_of_at_most
from tests.tasks import tiny

pytestmark = pytest.mark.usefixtures("eagerly")
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]


def moved(model, number):
    """Returns a model with other weights for another number."""
    for weight in model.trainable_weights:
        weight.assign(np.full(weight.shape, number + 1.0))
    return model


@functools.cache
def classifier():
    return tiny.classifier(label_names=["x", "y"])


@functools.cache
def embedder():
    dense = [{"units": 2}]
    return TextEmbedder(tiny.encoder(), preprocessor=tiny.preprocessor(), pooling="mean", dense=dense)


@functools.cache
def adapted():
    model = tiny.classifier()
    add_adapters(model, "lora:2")
    return model


def save_task(number, path):
    moved(classifier(), number).save(path)


def save_checkpoint(number, folder):
    moved(classifier(), number).save_pretrained(folder, overwrite=True)


def save_embedder(number, folder):
    moved(embedder(), number).save_pretrained(folder, overwrite=True)


def save_words(number, folder):
    BertPreprocessor([*WORDS, "cd"[number]], sequence_length=8 + number).save(folder, overwrite=True)


def save_merges(number, folder):
    vocabulary, merges = ["<s>", *byte_characters(), "ab", "bc"], [("a", "b"), ("b", "c")][:: 1 - 2 * number]
    tokenizer = ByteBPETokenizer(vocabulary, merges, unk_token="<s>")
    TokenPreprocessor(tokenizer, Packing(pad="<s>"), 8 + number).save(folder, overwrite=True)


def save_lora(number, path, **options):
    save_adapters(moved(adapted(), number), path, overwrite=True, **options)


def save_report(number, path):
    ClassificationReport([0, 1], np.eye(2) * (3 + number), resamples=2).to_html(path)


def save_training(number, folder):
    checkpoint_files.write(folder, 0, 1, {"a": number}, {"w": np.full(5000, float(number))})


def save_run(number, path):
    RunFile(path, {"seeds": 1}).add({"score": number})


SAVERS = {
    "a .keras file": ("model.keras", save_task),
    "a checkpoint": ("model", save_checkpoint),
    "a sentence-transformers folder": ("model", save_embedder),
    "a vocabulary": ("words", save_words),
    "merges": ("merges", save_merges),
    "adapters": ("adapters.safetensors", save_lora),
    "PEFT's adapters": ("adapters", lambda number, path: save_lora(number, path, format="peft")),
    "Fisher information": (
        "fisher.npz",
        lambda n, path: Fisher({"a": np.full(3, float(n))}).save(path, overwrite=True),
    ),
    "word vectors": ("v.vec", lambda n, path: WordVectors(["a"], [[1.0 + n]]).save(path, overwrite=True)),
    "gzipped vectors": ("v.vec.gz", lambda n, path: WordVectors(["a"], [[1.0 + n]]).save(path, overwrite=True)),
    "a report": ("report.html", save_report),
    "a training checkpoint": ("", save_training),
}


@pytest.mark.parametrize("name", SAVERS)
def test_what_is_replaced_is_whole_after_each_failure(name, tmp_path):
    path, save = SAVERS[name]
    check_each_failure(lambda number: save(number, tmp_path / path), tmp_path, tmp_path / path)


@pytest.mark.parametrize("name", [name for name in SAVERS if name[0] != "a"] + ["a vocabulary", "a report"])
def test_nothing_is_left_of_what_is_new_after_each_failure(name, tmp_path):
    path, save = SAVERS[name]
    check_first_failures(lambda number: save(number, tmp_path / path), tmp_path, tmp_path / path)


def test_the_results_of_a_comparison_lose_no_run(tmp_path):
    path = tmp_path / "runs.jsonl"
    check_each_failure(lambda number: save_run(number, path), tmp_path, path)


def test_an_export_is_whole_or_the_old_one(tmp_path, monkeypatch):
    def write(model, folder, label_names, **options):
        (folder / "assets.extra").mkdir()
        (folder / "assets.extra" / "label_names.json").write_text(json.dumps(label_names))
        (folder / "saved_model.pb").write_bytes(b"graph")

    monkeypatch.setattr(exporting.FORMATS["savedmodel"], "write", write)

    def export(number):
        names = ["x", "yz"[number]]
        serving.export(classifier(), tmp_path / "served", label_names=names, overwrite=True, verbose=0)

    check_each_failure(export, tmp_path, tmp_path / "served")


NATIVE = {
    "a .keras file": ("model.keras", lambda model, path: model.save(path)),
    "safetensors": ("model", lambda model, path: model.save_pretrained(path, overwrite=True)),
    "a SavedModel": ("served", lambda model, path: serving.export(model, path, overwrite=True, verbose=0)),
    "arrays of NumPy": (
        "fisher.npz",
        lambda model, path: Fisher({"a": np.tile(model.get_weights()[0], 9)}).save(path, overwrite=True),
    ),
}


@pytest.mark.parametrize("name", NATIVE)
def test_a_file_that_the_system_cuts_leaves_the_old_one(name, tmp_path):
    model, (path, save) = tiny.of_vectors() if "SavedModel" in name else classifier(), NATIVE[name]
    save(moved(model, 0), tmp_path / path)
    before = content_of(tmp_path)
    with files_of_at_most(2000), pytest.raises(OSError) as error:
        save(moved(model, 1), tmp_path / path)
    check_message(error.value, f"{tmp_path / path} cannot be written", "File too large")
    assert content_of(tmp_path) == before


def test_weights_that_hdf5_cannot_write_leave_the_old_ones(tmp_path, monkeypatch):
    path = tmp_path / "model.weights.h5"
    moved(classifier(), 0).save_weights(path)
    before = content_of(tmp_path)

    def half(model, filepath, **options):
        filepath.write_bytes(b"half")
        raise RuntimeError("Unable to flush (errno = 28, error message = 'No space left on device')")  # as HDF5 says

    monkeypatch.setattr(keras.Model, "save_weights", half)
    with pytest.raises(OSError) as error:
        classifier().save_weights(path)
    check_message(error.value, f"{path} cannot be written. Its content is kept. If the disk is full, free some space.")
    assert content_of(tmp_path) == before


def check_resumable(run, folder, target):
    """Lets each operation of a function fail that a further call continues. That call ends as an undisturbed one."""
    with FailingFiles(folder).active() as files:
        run(target / "whole")
    expected = {path.name: content for path, content in content_of(target / "whole").items()}
    # Of the files with the same ending, one.
    seen = {
        (kind, re.sub(r"-\w+(\.tmp)?$|\d", "", path)): number
        for number, (kind, path) in enumerate(files.seen)
        if kind != "mkdir" and not path.endswith(".lock")
    }
    for (kind, path), number in seen.items():
        place = target / str(number)
        with FailingFiles(folder, number).active(), contextlib.suppress(OSError):
            run(place)
        left = content_of(place) if place.exists() else {}
        assert not [each for each in left if each.name.endswith(".tmp")], (kind, path)
        run(place)
        assert {path.name: content for path, content in content_of(place).items()} == expected, (kind, path)


def test_the_same_call_completes_a_corpus_after_each_failure(tmp_path):
    texts, words = documents(5), preprocessor()

    def build(folder):
        Corpus.build(texts, words, folder, verbose=0, shard_size=40)

    check_resumable(build, tmp_path, tmp_path)


def test_the_same_call_completes_a_cache_after_each_failure(tmp_path):
    model = cached.classifier()

    def cache(folder):
        cache_features(model, cached.texts(model), below="block_1", folder=folder, verbose=0)

    check_resumable(cache, tmp_path, tmp_path)


def test_the_folder_of_a_run_has_whole_files(tmp_path):
    def run(folder):
        with run_folder.running(folder, {"epochs": 3}) as place:
            (place / run_folder.CHECKPOINTS).mkdir(exist_ok=True)
            with atomic_file(place / run_folder.MODEL) as file:
                file.write(b"weights")
            run_folder.finish(place)

    run(tmp_path / "whole")
    expected = {path.name: content for path, content in content_of(tmp_path / "whole").items()}
    assert expected.keys() == {"run.json", "model.keras"}
    with FailingFiles(tmp_path).active() as files:
        run(tmp_path / "run")
    for number, (kind, path) in enumerate(files.seen):
        folder = tmp_path / str(number)
        with FailingFiles(tmp_path, number).active():
            try:
                run(folder)
            except OSError as error:
                assert str(folder) in str(error), (kind, path, str(error))
        assert {path.name for path in folder.glob("*")} <= {*expected, run_folder.CHECKPOINTS}, (kind, path)
        state = folder / "run.json"
        if not state.exists() or not json.loads(state.read_text("utf-8"))["finished"]:
            run(folder)
        assert {path.name: content for path, content in content_of(folder).items()} == expected
