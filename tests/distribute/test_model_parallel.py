"""Weights that are divided among devices of JAX: where, what cannot be, and training on eight devices like on one."""

import keras
import pytest

from keras_transfer.adaptation import add_adapters
from keras_transfer.distribute import ModelParallel, layout_map
from keras_transfer.encoders import T5, AWDLSTMEncoder, DebertaV2Encoder
from tests.processes import Worker
from tests.tasks import tiny

FLAGS = "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0"
SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32}
of_jax = [
    pytest.mark.core,
    pytest.mark.skipif(keras.backend.backend() != "jax", reason="only JAX divides weights among devices"),
]


class Mesh:
    """The names and sizes of the axes of a mesh, whose devices need not exist."""

    def __init__(self, **sizes):
        self.axis_names, self.shape = list(sizes), list(sizes.values())


def divided(encoder, fsdp_dim_name=None, **sizes):
    """The axes of the weights of an encoder that are divided."""
    found = layout_map(encoder, Mesh(**sizes), fsdp_dim_name=fsdp_dim_name)
    return {path: found[path].axes for path in found}


def test_attention_is_divided_by_heads_and_a_feed_forward_layer_by_its_inner_width():
    assert divided(tiny.encoder(), batch=1, model=2) == {
        "token_embedding/embeddings": (None, "model"),  # 17 tokens cannot be divided
        "block_0/attention/query_key_value/kernel": (None, "model"),
        "block_0/attention/query_key_value/bias": ("model",),
        "block_0/attention/output/kernel": ("model", None),
        "block_0/feed_forward/inner/kernel": (None, "model"),
        "block_0/feed_forward/inner/bias": ("model",),
        "block_0/feed_forward/outer/kernel": ("model", None),
    }


def test_a_vocabulary_is_divided_if_it_can_be_and_adapters_stay_whole():
    model = add_adapters(tiny.encoder(), "lora:2")
    assert all("lora" not in path for path in divided(model, batch=1, model=2))
    assert len(divided(model, batch=1, model=2)) == 7
    encoder = DebertaV2Encoder(8, **SIZES)
    assert divided(encoder, batch=1, model=2)["token_embedding/embeddings"] == ("model", None)


def test_the_layers_of_deberta_and_of_both_halves_of_t5_are_divided():
    paths = divided(DebertaV2Encoder(8, **SIZES), batch=1, model=2)
    assert {path.split("/")[0] for path in paths} == {"token_embedding", "block_0"}
    paths = divided(T5(8, gated=True, head_dim=8, **SIZES), batch=1, model=2)
    assert len(paths) == 1 + 5 + 8  # the embeddings, a block of the encoder and one of the decoder, which has no biases
    assert paths["decoder_block_0/cross_attention/key_value/kernel"] == (None, "model")
    assert paths["block_0/feed_forward/gate/kernel"] == (None, "model")


def test_fsdp_divides_the_largest_axis_that_is_left_in_any_model():
    found = divided(tiny.encoder(), "batch", batch=4, model=2)
    assert found["block_0/attention/query_key_value/kernel"] == ("batch", "model")
    assert found["block_0/feed_forward/outer/kernel"] == ("model", "batch")
    assert found["token_embedding/embeddings"] == (None, "model")
    assert found["position_embedding/embeddings"] == ("batch", None)
    assert "embeddings_norm/gamma" not in found
    recurrent = AWDLSTMEncoder(8, embedding_dim=4, units=6, num_layers=1)
    assert divided(recurrent, "batch", batch=4)["block_0/kernel"] == (None, "batch")


def test_a_weight_that_cannot_be_divided_evenly_is_an_error_which_names_it():
    with pytest.raises(
        ValueError, match="^The axis 'model' of the mesh has 3 devices, which cannot divide the weight "
    ) as error:
        divided(tiny.encoder(), batch=1, model=3)
    assert "'token_embedding/embeddings' evenly. " in str(error.value)
    assert str(error.value).endswith("Received: shape=(17, 16), divided along axis 0")


@pytest.mark.skipif(keras.backend.backend() == "jax", reason="JAX divides weights among devices")
def test_another_backend_is_an_error():
    with pytest.raises(ValueError, match=f"^Only JAX can .* Received: backend='{keras.backend.backend()}'$"):
        ModelParallel(Mesh(batch=1, model=2))


class TestTwoDevices:
    pytestmark = of_jax

    def test_a_model_that_cannot_be_divided_is_an_error_when_it_is_created(self):
        devices = ModelParallel(keras.distribution.DeviceMesh((1, 2), ["batch", "model"]))
        with (
            devices.scope(),
            pytest.raises(ValueError, match="cannot divide the weight 'block_0/feed_forward/inner/kernel'"),
        ):
            tiny.encoder(intermediate_dim=33)

    def test_weights_of_the_user_are_divided_as_the_map_says(self):
        mesh = keras.distribution.DeviceMesh((1, 2), ["batch", "model"])
        layouts = keras.distribution.LayoutMap(mesh)
        layouts["position_embedding/embeddings"] = (None, "model")
        with ModelParallel(mesh, layout_map=layouts).scope():
            encoder = tiny.encoder()
        held = {weight.path: weight.value.addressable_shards[0].data.shape for weight in encoder.weights}
        assert held["position_embedding/embeddings"] == (32, 8)
        assert held["block_0/feed_forward/outer/kernel"] == (16, 16)
        assert held["segment_embedding/embeddings"] == (2, 16)

    def test_a_mesh_without_the_axes_is_an_error(self):
        mesh = keras.distribution.DeviceMesh((2,), ["batch"])
        with pytest.raises(
            ValueError, match=r"must have the axes \['batch', 'model'\]. Received: axis_names=\['batch'\]"
        ):
            ModelParallel(mesh)

    def test_several_processes_are_an_error(self, monkeypatch):
        monkeypatch.setattr("keras_transfer.distribute.model_parallel.processes_of", lambda: (1, 2))
        with pytest.raises(ValueError, match="needs all of its devices in one process.* Received: processes=2$"):
            ModelParallel(keras.distribution.DeviceMesh((1, 2), ["batch", "model"]))


@pytest.fixture(scope="module")
def eight_devices():
    pytest.importorskip("jax", reason="needs JAX: pip install keras_transfer[jax]")
    worker = Worker(KERAS_BACKEND="jax", XLA_FLAGS=FLAGS)
    yield worker
    worker.stop()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "shape", "fsdp"),
    [
        ("language_model", (1, 8), False),
        ("lora", (2, 4), True),
        ("classifier", (8,), True),
        ("deberta", (1, 8), False),
        ("sequence_to_sequence", (2, 4), True),
    ],
)
def test_eight_devices_train_like_one_and_each_has_a_fifth_of_the_weights_at_most(eight_devices, name, shape, fsdp):
    found = eight_devices("tests.distribute.eight_devices:compare", name, shape, fsdp)
    print(found)
    assert found["difference"] < 1e-5 < 1e-2 < found["moved"]
    assert found["memory"] < 0.2
