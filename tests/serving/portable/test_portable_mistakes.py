"""What cannot be exported, or would not run, is one clear error, and no folder appears."""

import functools
import importlib.util
import pathlib

import keras
import numpy as np
import pytest

import keras_transfer_command
from keras_transfer import serving, tasks, text
from keras_transfer.adaptation import add_adapters
from keras_transfer.encoders import ElmoEncoder
from keras_transfer.serving.exported import FORMATS
from keras_transfer.serving.portable import proof
from tests.errors import check_errors
from tests.tasks.tiny import encoder, preprocessor

pytest.importorskip("tensorflow")
pytest.importorskip("ai_edge_litert")
pytestmark = pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="converts TensorFlow's graphs")


def task(cls=tasks.TextClassifier, dtype=None, **options):
    labels = {} if cls is tasks.TextEmbedder else {"label_names": ["x", "y"]}
    return cls(encoder(dtype=dtype), preprocessor(sequence_length=8), **labels, **options)


@functools.cache
def plain():
    """A classifier that no mistake changes."""
    return task()


class Subclass(tasks.TextClassifier):
    pass


def quantized():
    model = task()
    model.quantize("int8")
    return model


def spans(length):
    return tasks.SpanExtractor(encoder(), preprocessor(sequence_length=length))


def export(folder, model=None, format="litert", **options):
    try:
        return serving.export(model or plain(), folder / "small", format=format, **options)
    finally:
        assert not list(folder.iterdir())


def with_elmo():
    sizes = {"embedding_dim": 3, "filters": [(1, 4)], "projection_dim": 5, "units": 8, "max_characters": 6}
    reader = text.ElmoPreprocessor(max_characters=6)
    return tasks.TextClassifier(ElmoEncoder(**sizes), reader, num_classes=2)


def with_adapters():
    model = task()
    for name in ("a", "b"):
        add_adapters(model, "lora", name=name)
    return model


test_a_mistake_is_one_clear_error = check_errors(
    (lambda tmp_path: export(tmp_path, format="lite"), "`format` must be one of ('savedmodel', 'litert', 'onnx')"),
    (
        lambda tmp_path: export(tmp_path, quantization="int4"),
        "one of (None, 'int8_dynamic', 'float16') for the format 'litert'. ... quantization='int4'",
    ),
    (
        lambda tmp_path: export(tmp_path, format="onnx", quantization="int8"),
        "Did you mean 'int8_dynamic'? Received: quantization='int8'",
    ),
    (
        lambda tmp_path: export(tmp_path, format="savedmodel", quantization="int8_dynamic"),
        "has no ['quantization']. ... Received: format='savedmodel', quantization='int8_dynamic'",
    ),
    (lambda tmp_path: export(tmp_path, task(windows="max")), "with `windows`. Received: windows='max'"),
    (lambda tmp_path: export(tmp_path, task(siamese=True), pairs=True), "with `siamese`. Received: siamese=True"),
    (
        lambda tmp_path: export(tmp_path, task(tasks.TokenClassifier, crf=True)),
        "a `TokenClassifier` with `crf`. Received: crf=True",
    ),
    (
        lambda tmp_path: export(tmp_path, tasks.MaskedLM(encoder(), preprocessor())),
        "Other formats support `TextClassifier`, ... Received: MaskedLM",
    ),
    (lambda tmp_path: export(tmp_path, task(Subclass)), "but no subclasses of these. Received: Subclass"),
    (lambda tmp_path: export(tmp_path, quantized()), "'litert' does not support a model that Keras has quantized."),
    (
        lambda tmp_path: export(tmp_path, task(dtype="mixed_bfloat16")),
        "`set_weights` ... Received: the dtype policy 'mixed_bfloat16'",
    ),
    (
        lambda tmp_path: export(tmp_path, with_elmo()),
        "format='savedmodel' ... Received: preprocessor='ElmoPreprocessor'",
    ),
    (
        lambda tmp_path: export(tmp_path, with_adapters(), adapters=["a", "b"]),
        "has no ['adapters']. ... formats ['savedmodel']. Received: format='litert', adapters=['a', 'b']",
    ),
    (
        lambda tmp_path: export(tmp_path, task(tasks.TextEmbedder), min_equal_labels=0.9),
        "A `TextEmbedder` has no labels. Use `max_difference` instead. Received: min_equal_labels=0.9",
    ),
    (lambda tmp_path: export(tmp_path, texts=[]), "at least one text"),
    (
        lambda tmp_path: export(tmp_path, texts=(["a"], ["b"])),
        "only if, `pairs=True`. Received: pairs=False",
    ),
    (
        lambda tmp_path: export(tmp_path, task(tasks.TokenClassifier), texts=[[]]),
        "`texts` must have at least one word. Received: texts=[[]]",
    ),
    (lambda tmp_path: export(tmp_path, spans(4)), "too long for a context within 4 tokens. Pass `texts`"),
    (
        lambda tmp_path: export(tmp_path, spans(8), texts=(["a b c d e f"], ["a"])),
        "must leave room",
    ),
)


def test_outputs_that_are_not_numbers_are_an_error_without_limits(tmp_path, monkeypatch):
    convert = FORMATS["litert"].convert

    def wrong(function, *args):
        def one_wrong(**ids):
            found = function(**ids)
            last = keras.ops.arange(found["logits"].shape[-1]) == 1
            return {**found, "logits": keras.ops.where(last, np.nan, found["logits"])}

        convert(one_wrong, *args)

    monkeypatch.setattr(FORMATS["litert"], "convert", wrong)
    with pytest.raises(ValueError, match=r"(?s)no folder was written.* must be finite numbers. Received: \[.*nan"):
        export(tmp_path, texts=["a", "b"])


def test_the_command_and_the_pages_know_each_format():
    assert FORMATS.keys() == keras_transfer_command.FORMATS.keys()
    pages = [serving.export.__doc__, pathlib.Path("docs/production/small_and_fast.md").read_text("utf-8")]
    for format in FORMATS.values():
        assert all(f'"{format.NAME}"' in page or f"`{format.NAME}`" in page for page in pages)
        assert all(f"`{format.FILES[-1]}`" in page or format is FORMATS["savedmodel"] for page in pages)


def test_a_runtime_that_is_killed_is_an_error_that_names_the_signal(tmp_path, monkeypatch):
    folder = tmp_path / "empty"
    folder.mkdir()
    (tmp_path / "killed.py").write_text("import os; os.write(2, b'\\xff'); os.kill(os.getpid(), 9)")
    monkeypatch.setattr(proof, "MEASURE_FILE", tmp_path / "killed.py")
    with pytest.raises(ValueError, match=r"The runtime cannot run .* Received: signal 9 \(Killed\)"):
        export(folder)


def test_a_model_over_the_limit_of_protobuf_is_an_error(tmp_path, monkeypatch):
    onnx, tf2onnx = pytest.importorskip("onnx"), pytest.importorskip("tf2onnx")

    class Large:
        graph = onnx.GraphProto()

        def SerializeToString(self):
            raise RuntimeError("exceeds maximum protobuf size of 2GB")

    monkeypatch.setattr(tf2onnx.convert, "from_function", lambda *args, **options: (Large(), None))
    with pytest.raises(ValueError, match=r"exceeds 2 GB, the limit of protobuf.* Received: RuntimeError: exceeds"):
        export(tmp_path, format="onnx")


def test_a_package_that_is_not_installed_is_an_error_before_anything_is_written(tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "ai_edge_litert" else find(name))
    with pytest.raises(
        ImportError, match=r"'litert' requires ai-edge-litert. Run `pip install keras_transfer\[litert\]`"
    ):
        export(tmp_path)


@pytest.mark.parametrize("format", ["litert", "onnx"])
def test_a_file_that_its_runtime_cannot_run_is_an_error(format, tmp_path, monkeypatch):
    module = FORMATS[format]
    monkeypatch.setattr(module, "convert", lambda *args: (args[-1] / module.FILES[-1]).write_bytes(b"broken" * 10))
    with pytest.raises(ValueError, match=r"(?s)The runtime cannot run the model .* no folder was written. Received: ."):
        export(tmp_path, format=format)


def test_wrong_numbers_and_a_full_disk_leave_nothing_behind(tmp_path, monkeypatch):
    model, other = task(), task()
    for weight in other.weights:
        weight.assign(np.ones(weight.shape))
    convert = FORMATS["litert"].convert

    def of_another(function, specs, weights, quantization, folder):
        from keras_transfer.serving.portable.folder import graph_of

        convert(graph_of(other), specs, other.weights, quantization, folder)

    monkeypatch.setattr(FORMATS["litert"], "convert", of_another)
    with pytest.raises(ValueError, match="differs from the model by more than the limit"):
        export(tmp_path, model, max_difference=1e-4)

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FORMATS["litert"], "convert", full)
    with pytest.raises(OSError, match="No space left"):
        export(tmp_path, model)


def test_a_tokenizer_that_splits_texts_in_another_way_is_an_error(tmp_path, monkeypatch):
    from keras_transfer.serving.portable import folder

    content = folder.fast_content

    def lowercase(*args):
        found = content(*args)
        return found | {"normalizer": {"type": "Lowercase"}}

    monkeypatch.setattr(folder, "fast_content", lowercase)
    with pytest.raises(ValueError, match=r"tokenizer.json must split texts like the model's tokenizer.* in row 1"):
        export(tmp_path, texts=["a", "\u00e9 GOOD"])
