"""An export works without this library: in Python with only TensorFlow, and in a C program without Python."""

import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
tensorflow_text = pytest.importorskip("tensorflow_text")

TEXTS = ["the film was good", "bad films", "", "😀 good 👍🏽", "[MASK]", "good " * 2_000]


@pytest.fixture(scope="module")
def expected(exported):
    outputs = tf.saved_model.load(exported).signatures["serving_default"](text=tf.constant(TEXTS))
    return [label.decode() for label in outputs["label"].numpy()], outputs["probabilities"].numpy()


# Python


def test_a_process_with_only_tensorflow_gives_the_same_answers(
    exported, expected, tmp_path, process_without_this_package
):
    served = shutil.copytree(exported, tmp_path / "served")
    found = process_without_this_package("tests.serving.alone:answers", served, TEXTS, "serving_default")
    assert found["signatures"] == ["embed", "serving_default", "tokens"]
    answers = found["outputs"]
    assert answers["label"] == expected[0] and len(set(answers["label"])) == 3
    np.testing.assert_allclose(answers["probabilities"], expected[1], atol=1e-6)


# C


@pytest.fixture(scope="module")
def serve(tmp_path_factory):
    """A function that runs the C program serve.c with arguments."""
    if not sys.platform.startswith("linux"):
        pytest.skip("the C program is linked as on Linux")
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    program = tmp_path_factory.mktemp("serve") / "serve"
    libraries = tf.sysconfig.get_lib()
    version = tf.__version__.partition(".")[0]
    command = ["gcc", "-std=gnu11", "-Wall", "-Werror", str(pathlib.Path(__file__).with_name("serve.c"))]
    command += ["-isystem", tf.sysconfig.get_include(), "-L", libraries, f"-Wl,-rpath,{libraries}", "-o", str(program)]
    command += [f"-l:libtensorflow_cc.so.{version}", f"-l:libtensorflow_framework.so.{version}"]
    compiled = subprocess.run(command, capture_output=True, text=True)
    assert compiled.returncode == 0, compiled.stderr
    return lambda *arguments: subprocess.run([program, *arguments], capture_output=True, encoding="utf-8")


@pytest.fixture(scope="module")
def operations():
    """The arguments that load TensorFlow Text's operations."""
    folder = pathlib.Path(tensorflow_text.__file__).parent / "python" / "ops"
    return [argument for library in sorted(folder.glob("*.so")) for argument in ("-l", str(library))]


@pytest.fixture(scope="module")
def tensors(exported):
    """The names of the signature's tensors, which a SavedModel lists in its `saved_model.pb`."""
    from tensorflow.core.protobuf import saved_model_pb2

    saved = saved_model_pb2.SavedModel.FromString((exported / "saved_model.pb").read_bytes())
    signature = saved.meta_graphs[0].signature_def["serving_default"]
    return [signature.inputs["text"].name, *(signature.outputs[name].name for name in ("label", "probabilities"))]


@pytest.mark.slow
def test_a_program_without_python_gives_the_same_answers(serve, operations, exported, tensors, expected):
    result = serve(*operations, str(exported), *tensors, *TEXTS)
    assert result.returncode == 0, result.stderr
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    assert [label for label, _ in lines] == expected[0]
    probabilities = [[float(value) for value in values.split(" ")] for _, values in lines]
    np.testing.assert_allclose(probabilities, expected[1], atol=1e-6)


@pytest.mark.slow
@pytest.mark.report(
    "A server lacks the operations of the tokenizer.", "serving#2267", "serving#2064", "text#173", "text#200", "hub#729"
)
def test_a_program_without_the_text_operations_says_that_they_are_required(serve, exported, tensors):
    result = serve(str(exported), *tensors, "good")
    assert result.returncode == 1 and result.stdout == ""
    assert "cannot load the model: Op type not registered" in result.stderr
    assert "needs the operations of TensorFlow Text: pass their libraries with -l" in result.stderr


@pytest.mark.slow
def test_a_program_without_arguments_says_how_to_use_it(serve):
    result = serve()
    assert result.returncode == 2 and "usage: serve [-l OPERATIONS.so]... MODEL INPUT" in result.stderr
