"""`load` returns the module and whether it is in the TF1 Hub format, with one error for all of TensorFlow's."""

import sys

import numpy as np
import pytest
import tensorflow as tf

from keras_transfer.hub import HubError
from keras_transfer.hub.module import load
from tests.hub.fetching import pack_folder, save_module
from tests.processes import run


def save_tf1_module(folder):
    """Writes a module in the TF1 Hub format: x times 2 without tags, times 3 with the tag `train`."""
    v1 = tf.compat.v1
    builder = v1.saved_model.Builder(str(folder))
    for tags, factor, add in (([], 2, builder.add_meta_graph_and_variables), (["train"], 3, builder.add_meta_graph)):
        with tf.Graph().as_default(), v1.Session() as session:
            x = v1.placeholder("float32", [None])
            signature = v1.saved_model.predict_signature_def({"x": x}, {"y": x * factor})
            add(*([session] if factor == 2 else []), tags, signature_def_map={"default": signature})
    builder.save()
    (folder / "tfhub_module.pb").write_bytes(b"\x08\x03")
    return folder


def test_a_tf2_module_is_loaded(tmp_path):
    folder = save_module(tmp_path / "module")
    for tags in (None, ["serve"], "serve"):
        module, is_tf1, path = load(folder, tags=tags)
        assert (is_tf1, path) == (False, folder)
        np.testing.assert_array_equal(module(tf.ones([1, 3])), [[3.0, 3.0]])


def test_a_tf1_module_is_loaded_for_prediction_by_default(tmp_path):
    folder = save_tf1_module(tmp_path / "module")
    for tags, factor in ((None, 2.0), ([], 2.0), (["train"], 3.0)):
        module, is_tf1, path = load(folder, tags=tags)
        assert (is_tf1, path) == (True, folder)
        np.testing.assert_array_equal(module.signatures["default"](tf.ones([1]))["y"], [factor])


def test_an_archive_is_loaded_with_a_checksum_and_load_options(tmp_path):
    (tmp_path / "module.tar.gz").write_bytes(pack_folder(save_module(tmp_path / "module"), top="top"))
    options = tf.saved_model.LoadOptions(experimental_load_function_aliases=True)
    module, _, path = load(tmp_path / "module.tar.gz", load_options=options, cache_dir=tmp_path / "cache")
    assert path.parent == tmp_path / "cache"
    assert hasattr(module, "function_aliases")
    np.testing.assert_array_equal(module(tf.ones([1, 3])), [[3.0, 3.0]])
    with pytest.raises(HubError, match="must have the sha256"):
        load(tmp_path / "module.tar.gz", cache_dir=tmp_path / "cache", sha256="0" * 64)


def test_a_module_on_a_file_system_of_tensorflow_is_loaded(tmp_path):
    folder = save_module(tmp_path / "module")
    for path in folder.rglob("*"):
        if path.is_file():
            tf.io.gfile.copy(str(path), f"ram://module/{path.relative_to(folder)}", overwrite=True)
    module, is_tf1, path = load("ram://module/")
    assert (is_tf1, path) == (False, "ram://module")
    np.testing.assert_array_equal(module(tf.ones([1, 3])), [[3.0, 3.0]])


def test_the_real_modules_are_loaded(data_dir):
    lite, is_tf1, _ = load(data_dir("tfhub/use_lite_tf2_converted"))
    assert not is_tf1 and len(lite.signatures)
    segmenter, is_tf1, _ = load(data_dir("tfhub/zh_segmenter_tf1hub"))
    assert is_tf1 and len(segmenter.signatures)


def rename_op(folder, old, new):
    graph = folder / "saved_model.pb"
    assert old in graph.read_bytes() and len(old) == len(new)
    graph.write_bytes(graph.read_bytes().replace(old, new))
    return folder


@pytest.mark.parametrize("installed", [True, False])
def test_an_op_that_is_not_registered_is_an_error_that_says_how_to_install_it(installed, tmp_path, monkeypatch):
    if not installed:
        monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    folder = rename_op(save_module(tmp_path / "module"), b"MatMul", b"MatMux")
    with pytest.raises(HubError, match="Import the package that defines this op first.*registered 'MatMux'") as error:
        load(folder)
    assert ("`pip install tensorflow-text` (ModuleNotFoundError" in str(error.value)) == (not installed)


def test_tf_text_is_imported_before_a_module_is_loaded(tmp_path, monkeypatch):
    pytest.importorskip("tensorflow_text")
    folder = save_module(tmp_path / "module")
    load_saved, there = tf.saved_model.load, []

    def loading(*arguments):
        there.append("tensorflow_text" in sys.modules)
        return load_saved(*arguments)

    monkeypatch.delitem(sys.modules, "tensorflow_text")
    monkeypatch.setattr(tf.saved_model, "load", loading)
    load(folder)
    assert there == [True]


LOADING = """
import json, sys
from keras_transfer.hub.module import load
before = "tensorflow_text" in sys.modules
print(json.dumps([before, load(sys.argv[1])[0](["a fine film"]).numpy().astype(str).tolist()]))
"""


@pytest.mark.slow
def test_a_module_with_ops_of_tf_text_loads_in_a_process_that_has_not_imported_it(tmp_path):
    tokenizer = pytest.importorskip("tensorflow_text").WhitespaceTokenizer()
    module = tf.Module()
    module.__call__ = tf.function(
        lambda texts: tokenizer.tokenize(texts).to_tensor(), input_signature=[tf.TensorSpec([None], "string")]
    )
    tf.saved_model.save(module, str(tmp_path / "module"))
    assert run("-c", LOADING, tmp_path / "module") == [False, [["a", "fine", "film"]]]
