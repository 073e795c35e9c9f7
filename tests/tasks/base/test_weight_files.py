"""Files that cannot be loaded are not written, and weights of other layers, adapters or classes are not loaded."""

import keras
import pytest

from keras_transfer.adaptation import add_adapters, set_active_adapter
from tests.tasks import tiny


def saved(model, tmp_path):
    model.save_weights(tmp_path / "saved.weights.h5")
    return tmp_path / "saved.weights.h5"


def test_weights_of_more_layers_are_rejected(tmp_path):
    path = saved(tiny.two_blocks(), tmp_path)
    with pytest.raises(ValueError, match="another number of layers"):
        tiny.classifier().load_weights(path)
    path = saved(tiny.two_blocks().encoder, tmp_path)
    with pytest.raises(ValueError, match="another number of layers"):
        tiny.encoder().load_weights(path)


def test_weights_of_classes_in_another_order_are_rejected(tmp_path):
    path = saved(tiny.classifier(None, label_names=["bad", "good"]), tmp_path)
    tiny.classifier(None, label_names=["no", "yes"]).load_weights(path)
    with pytest.raises(ValueError, match=r"would be mixed up.*\['bad', 'good'\], and a model with \['good', 'bad'\]"):
        tiny.classifier(None, label_names=["good", "bad"]).load_weights(path)


@pytest.mark.parametrize("suffix", [".weights.h5", ".keras"])
def test_rejected_weights_leave_the_model_unchanged(suffix, tmp_path):
    path, model = tmp_path / f"saved{suffix}", tiny.classifier(None, label_names=["bad", "good"])
    (model.save if suffix == ".keras" else model.save_weights)(path)
    other = tiny.classifier(None, label_names=["good", "bad"])
    other.set_weights([weight + 1 for weight in other.get_weights()])
    before = other.get_weights()
    for skip in (False, True):
        with pytest.raises(ValueError, match="same classes in another order"):
            other.load_weights(path, skip_mismatch=skip)
        assert tiny.difference(other.get_weights(), before) == 0
    path.unlink()  # The file is closed, so that Windows can delete it.


def test_skip_mismatch_loads_the_encoder_of_a_model_with_more_classes(tmp_path):
    model, other = tiny.classifier(3), tiny.classifier(2)
    model.set_weights([weight + 1 for weight in model.get_weights()])
    head = other.layers[-1].get_weights()
    with pytest.warns(UserWarning, match="could not be loaded"):
        other.load_weights(saved(model, tmp_path), skip_mismatch=True)
    assert tiny.difference(other.encoder.get_weights(), model.encoder.get_weights()) == 0
    assert tiny.difference(other.layers[-1].get_weights(), head) == 0


def test_weights_of_adapters_in_another_order_are_rejected(tmp_path):
    model = add_adapters(add_adapters(tiny.classifier(), "lora:r=2", name="first"), "lora:r=2", name="second")
    path = saved(model, tmp_path)
    other = add_adapters(add_adapters(tiny.classifier(), "lora:r=2", name="second"), "lora:r=2", name="first")
    with pytest.raises(ValueError, match=r"\['first', 'second'\]\}, model=\{'adapters': \['second', 'first'\]\}"):
        set_active_adapter(other, "second").load_weights(path)


def test_a_model_that_holds_another_one_can_be_loaded(tmp_path):
    model = tiny.classifier()
    model.teacher = tiny.classifier()
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert tiny.difference(loaded.encoder.get_weights(), model.encoder.get_weights()) == 0


def test_files_without_facts_are_loaded(tmp_path, monkeypatch):
    model = tiny.classifier()
    with monkeypatch.context() as context:
        context.setattr("keras_transfer.tasks.task.store_weight_facts", lambda *_: None)
        context.setattr("keras_transfer.encoders.encoder.store_weight_facts", lambda *_: None)
        path = saved(model, tmp_path)
    other = tiny.classifier()
    other.load_weights(path)
    assert tiny.difference(other.get_weights(), model.get_weights()) == 0


def test_weights_of_a_model_with_the_same_layers_are_loaded(tmp_path):
    for model, other in ((tiny.classifier(), tiny.classifier()), (tiny.encoder(), tiny.encoder())):
        model.set_weights([weight + 1 for weight in model.get_weights()])
        other.load_weights(saved(model, tmp_path))
        assert all(
            tiny.difference([a], [b]) == 0 for a, b in zip(model.get_weights(), other.get_weights(), strict=True)
        )


def test_a_task_is_not_saved_in_a_file_that_cannot_be_loaded(tmp_path):
    with pytest.raises(ValueError, match="must be saved in a file that ends in `.keras`.*Received: filepath="):
        tiny.of_vectors().save(tmp_path / "model.h5")
    assert not list(tmp_path.iterdir())
