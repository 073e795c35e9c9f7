"""Checkpoint folders with random damage load, or fail with one `CheckpointError`."""

import shutil
import warnings

import numpy as np
import pytest

from keras_transfer import checkpoints
from keras_transfer.checkpoints import CheckpointError
from keras_transfer.encoders import BertEncoder, ElmoEncoder
from keras_transfer.text import BertPreprocessor, ElmoPreprocessor
from tests.damage import damage, files_of

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefgh"]
SIZES = {"num_layers": 1, "num_heads": 1, "hidden_dim": 4, "intermediate_dim": 4, "max_sequence_length": 8}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A small checkpoint in each format that is written, with all files that belong to it."""
    folder = tmp_path_factory.mktemp("intact")
    bert = BertEncoder(len(WORDS), **SIZES, pooling="mean", normalize=True)
    bert.save_pretrained(folder / "bert", BertPreprocessor(WORDS, sequence_length=8))
    elmo = ElmoEncoder(embedding_dim=2, filters=[(1, 2)], projection_dim=2, units=2, num_layers=1, max_characters=4)
    elmo.save_pretrained(folder / "elmo", ElmoPreprocessor(sequence_length=8, max_characters=4))
    return folder


@pytest.mark.parametrize(
    ("kind", "cases"),
    [
        ("bert", 20),
        ("elmo", 10),
        pytest.param("bert", 120, marks=pytest.mark.slow),
        pytest.param("elmo", 40, marks=pytest.mark.slow),
    ],
)
def test_a_damaged_folder_loads_or_is_a_checkpoint_error(kind, cases, folders, tmp_path):
    random = np.random.default_rng(0)
    failed = 0
    for case in range(cases):
        folder = shutil.copytree(folders / kind, tmp_path / "damaged")
        done = damage(folder, random)
        before = files_of(tmp_path)
        for load in (checkpoints.load_preprocessor, checkpoints.load):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    load(folder)
            except CheckpointError:
                failed += 1
            except Exception as error:
                raise AssertionError(f"case {case}, {done}: {error!r}") from error
        assert files_of(tmp_path) == before
        shutil.rmtree(folder)
    assert failed > cases // 4
