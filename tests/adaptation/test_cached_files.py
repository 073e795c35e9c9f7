"""Files of cached features: used again, completed after a kill, and refused if they belong to something else."""

import errno
import json
import os
import shutil

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_transfer.adaptation import cache_features
from keras_transfer.core.expect import NotApplicableError
from keras_transfer.data import row_store
from keras_transfer.text import batches
from tests.adaptation import cached
from tests.helpers import logged
from tests.tasks import tiny

pytestmark = pytest.mark.usefixtures("eagerly")


@pytest.fixture(scope="module")
def model():
    return cached.classifier()


def features(model, **options):
    _, found = cache_features(model, *options.pop("data", [cached.texts(model)]), below="block_1", verbose=0, **options)
    return found.inputs["block_0_output"]


class Counted:
    """Counts the batches of the lower part, and copies a folder, as a killed process leaves it, after one of them."""

    def __init__(self, monkeypatch, folder=None, copy_at=None):
        self.batches, run = 0, keras.Model.predict_on_batch

        def predict_on_batch(model, x):
            if self.batches == copy_at:
                shutil.copytree(folder, f"{folder}_killed", ignore=shutil.ignore_patterns(".lock"))
            self.batches += 1
            return run(model, x)

        monkeypatch.setattr(keras.Model, "predict_on_batch", predict_on_batch)


def test_a_complete_cache_is_read_and_the_lower_part_does_not_run(model, tmp_path, monkeypatch):
    first = features(model, folder=tmp_path / "cache")
    counted = Counted(monkeypatch)
    again = features(model, folder=tmp_path / "cache", data=[cached.texts(model, seed=1, batch_size=8)])
    assert counted.batches == 0 and isinstance(again.values, np.memmap)
    np.testing.assert_array_equal(again.values, first.values)
    np.testing.assert_array_equal(features(model).values, first.values)  # in memory


@pytest.mark.parametrize(("interval", "runs"), [(0.0, 1), (1e9, 2)], ids=["resumed", "rebuilt"])
def test_a_cache_that_was_killed_is_completed(model, tmp_path, monkeypatch, interval, runs):
    monkeypatch.setattr(row_store, "INTERVAL", interval)
    folder = tmp_path / "cache"
    Counted(monkeypatch, folder, copy_at=1)
    whole = features(model, folder=folder)
    killed = tmp_path / "cache_killed"
    assert np.load(killed / "checksums.npy").any(axis=0).sum() == (4 if interval == 0 else 0)
    counted = Counted(monkeypatch)
    np.testing.assert_array_equal(features(model, folder=killed).values, whole.values)
    assert counted.batches == runs and np.load(killed / "checksums.npy").all()


def flip(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 64
    path.write_bytes(content)


def resave(change):
    return lambda path: np.save(path, change(np.load(path)))


@pytest.mark.parametrize(
    "name, damage, said",
    [
        ("activations_0.npy", lambda path: path.unlink(), "is computed again, because its files are not complete"),
        ("activations_0.npy", flip, "1 of 8 rows of the cache"),
        ("checksums.npy", flip, "1 of 8 rows of the cache"),
        ("activations_0.npy", resave(lambda array: array[:, :8]), "not complete or are damaged: Arrays must have"),
        ("activations_0.npy", resave(lambda array: array.view("int32")), "Arrays must have the shapes"),
        ("activations_0.npy", lambda path: path.write_bytes(b""), "is computed again"),
        ("checksums.npy", resave(lambda array: np.ones((1, 9), "uint32")), "Arrays must have the shapes"),
    ],
)
def test_damaged_files_are_noticed_and_computed_again(model, tmp_path, caplog, name, damage, said):
    folder = tmp_path / "cache"
    values = np.array(features(model, folder=folder).values)
    damage(folder / name)
    # A row that is computed alone can be rounded differently.
    again, tolerance = features(model, folder=folder), 1e-5 if "1 of 8 rows" in said else 0
    np.testing.assert_allclose(again.values, values, rtol=0, atol=tolerance)
    assert said in caplog.text
    caplog.clear()
    np.testing.assert_allclose(features(model, folder=folder).values, values, atol=1e-5)
    assert not logged(caplog)


def test_a_row_that_has_a_checksum_but_was_not_written_is_computed(model, tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setattr(row_store, "INTERVAL", 0.0)
    Counted(monkeypatch, folder, copy_at=1)
    whole = features(model, folder=folder)
    killed = tmp_path / "cache_killed"
    np.save(killed / "checksums.npy", np.ones((1, 8), "uint32"))
    np.testing.assert_array_equal(features(model, folder=killed).values, whole.values)


def test_a_cache_whose_record_describes_other_arrays_is_computed_again(model, tmp_path, caplog):
    folder = tmp_path / "cache"
    values = np.array(features(model, folder=folder).values)
    record = json.loads((folder / "cache.json").read_text())
    for kinds in ([], record["kinds"] * 2, [{**record["kinds"][0], "extra": 1}], [{}], 3):
        (folder / "cache.json").write_text(json.dumps({**record, "kinds": kinds}))
        caplog.clear()
        np.testing.assert_array_equal(features(model, folder=folder).values, values)
        assert "is computed again, because its files are not complete or are damaged" in caplog.text


def test_a_disk_that_is_full_is_an_error_before_anything_is_written(model, tmp_path, monkeypatch):
    """Otherwise, writing into the mapped memory would kill the process."""

    def full(descriptor, offset, length):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(OSError, match=r"The activations need .* GB\. Use `dtype='float16'`.*GB free in"):
        features(model, folder=tmp_path / "cache")
    assert not [path for path in (tmp_path / "cache").iterdir() if not path.name.startswith(".")]
    monkeypatch.undo()
    features(model, folder=tmp_path / "cache")


def test_a_file_system_that_cannot_reserve_room_is_used_without(model, tmp_path, monkeypatch):
    def unsupported(descriptor, offset, length):
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "posix_fallocate", unsupported, raising=False)
    np.testing.assert_array_equal(features(model, folder=tmp_path / "cache").values, features(model).values)


def test_a_cache_of_another_model_other_data_another_dtype_or_version_is_refused(model, tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    features(model, folder=folder)
    other = cached.classifier()
    other.encoder.token_embedding.embeddings.assign_add(np.ones((17, 16), "float32"))
    shorter = batches(cached.TEXTS, cached.LABELS, preprocessor=tiny.preprocessor(sequence_length=8))
    for changed, options, what in [
        (other, {}, "model"),
        (model, {"data": [cached.pairs(model)]}, "data"),
        (model, {"data": [shorter]}, "data"),
        (model, {"dtype": "float16"}, "dtype"),
    ]:
        with pytest.raises(ValueError, match=f"contains the cache of a different {what}\\. .*Received: folder="):
            features(changed, folder=folder, **options)
    with monkeypatch.context() as patched, pytest.raises(ValueError, match="of a different version"):
        patched.setattr(row_store, "__version__", "0.0")
        features(model, folder=folder)
    features(model, folder=folder)  # is unchanged


def test_a_folder_that_holds_something_else_or_has_no_room_is_refused(model, tmp_path, monkeypatch):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"must be new, empty, or contain a cache.*\['notes.txt'\]"):
        features(model, folder=tmp_path)
    for content in ("no json", "{}", "[]"):
        (tmp_path / "cache.json").write_text(content)
        with pytest.raises(ValueError, match="must contain a cache, or be new.*is damaged"):
            features(model, folder=tmp_path)
    usage = shutil.disk_usage(tmp_path)._replace(free=10)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(OSError, match="The activations need .* GB free in"):
        features(model, folder=tmp_path / "new")


def test_large_activations_are_in_temporary_files(model):
    small, large = features(model), features(model, memory_limit=1000)
    assert not isinstance(small.values, np.memmap) and isinstance(large.values, np.memmap)
    np.testing.assert_array_equal(small.values, large.values)


def test_float16_takes_half_the_room_and_refuses_what_is_out_of_its_range(model):
    whole, half = features(model), features(model, dtype="float16")
    assert half.values.nbytes * 2 == whole.values.nbytes
    np.testing.assert_allclose(half.values, whole.values, rtol=1e-3, atol=1e-3)
    upper, data = cache_features(model, cached.texts(model), below="block_1", dtype="float16", verbose=0)
    np.testing.assert_allclose(to_numpy(upper(data[0][0])), to_numpy(model(cached.texts(model)[0][0])), atol=1e-2)
    large = cached.classifier()
    for weight in large.weights:
        if "block_0" in weight.path and weight.path.endswith("gamma"):
            weight.assign(np.full(weight.shape, 1e6))
    with pytest.raises(NotApplicableError, match="exceed the range of float16"):
        features(large, dtype="float16")


def test_the_record_of_a_cache_is_plain_json(model, tmp_path):
    features(model, folder=tmp_path / "cache")
    record = json.loads((tmp_path / "cache" / "cache.json").read_text())
    assert record["kinds"] == [{"tokens": True, "extra": 0, "shape": [16], "dtype": "float32"}]
    assert set(record["made_by"]) == {"model", "data", "dtype", "version"}
