"""`.keras` files with random damage load as they were, or are one of the two errors that the FAQ names."""

import warnings
import zipfile

import keras
import numpy as np
import pytest

from tests.damage import damage, files_of
from tests.tasks.tiny import of_vectors


@pytest.mark.parametrize("cases", [15, pytest.param(300, marks=pytest.mark.slow)])
def test_a_damaged_file_loads_as_it_was_or_is_an_error(cases, tmp_path):
    model = of_vectors()
    model.compile("sgd")
    intact, file = tmp_path / "intact.keras", tmp_path / "model.keras"
    model.save(intact)
    random, failed = np.random.default_rng(0), 0
    for case in range(cases):
        file.write_bytes(intact.read_bytes())
        done = damage(file, random)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                loaded = keras.saving.load_model(file)
            assert all(map(np.array_equal, loaded.get_weights(), model.get_weights())), f"case {case}, {done}"
        except (ValueError, zipfile.BadZipFile):
            failed += 1
        assert files_of(tmp_path) == sorted(map(str, [intact, file])), f"case {case}, {done}"
    assert failed > cases // 3
