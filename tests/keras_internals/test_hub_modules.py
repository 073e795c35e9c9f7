"""The private names of tensorflow_hub and of TensorFlow 1 modules mean what `keras_internals.hub_modules` expects."""

import keras
import pytest

from keras_transfer.keras_internals import hub_modules

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="modules need TensorFlow")


def test_the_registry_lists_the_resolvers_of_tensorflow_hub_in_the_order_of_their_registration():
    registry = pytest.importorskip("tensorflow_hub").registry
    found = hub_modules.resolvers_of(registry)
    assert [type(each).__name__ for each in found[:4]] == [
        "PathResolver",
        "HttpUncompressedFileResolver",
        "GcsCompressedFileResolver",
        "HttpCompressedFileResolver",
    ]
    found.clear()  # The registry keeps its own list.
    assert len(hub_modules.resolvers_of(registry)) >= 4


def test_the_initializer_of_a_module_reads_its_files_and_fills_its_tables():
    import tensorflow as tf

    from tests.hub import tf1_modules

    loaded = tf.saved_model.load(tf1_modules.folder("vocabulary"), tags=[])
    function = hub_modules.table_initializer(loaded)
    assert isinstance(function, tf.types.experimental.ConcreteFunction)
    assert [op.type for op in function.graph.get_operations() if "InitializeTable" in op.type]
    hub_modules.fill_tables(loaded)
