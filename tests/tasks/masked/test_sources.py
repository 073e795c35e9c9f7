"""Replaced token detection and permutation language models train on every source of texts."""

import numpy as np
import pytest

from keras_transfer.text import Corpus
from tests.tasks.loaders import TEXTS, Loader
from tests.tasks.masked.test_permutation_lm import permutation_lm
from tests.tasks.masked.test_replaced_tokens import model as replaced_tokens
from tests.tasks.tiny import preprocessor

TASKS = {"replaced tokens": replaced_tokens, "permutation": permutation_lm}


def source(kind, folder):
    import tensorflow as tf

    rows = {name: np.asarray(values) for name, values in preprocessor(sequence_length=16)(TEXTS).items()}
    found = {
        "texts": lambda: TEXTS,
        "rows": lambda: rows,
        "stream of rows": lambda: tf.data.Dataset.from_tensor_slices(rows).batch(2),
        "loader": Loader,
        "torch": lambda: pytest.importorskip("torch.utils.data").DataLoader(TEXTS, batch_size=2),
        "corpus": lambda: Corpus.build(TEXTS, preprocessor(), folder, verbose=0).blocks(8, batch_size=2, seed=0),
    }
    return found[kind]()


@pytest.mark.parametrize(
    ("task", "kind"),
    [("replaced tokens", kind) for kind in ("texts", "stream of rows", "torch", "corpus")]
    + [("permutation", kind) for kind in ("rows", "loader")],
)
def test_a_source_trains_a_task(kind, task, tmp_path, eagerly):
    pytest.importorskip("tensorflow")
    model, data = TASKS[task](), source(kind, tmp_path / "corpus")
    model.compile("sgd", run_eagerly=True)
    before = [weight.copy() for weight in model.get_weights()]
    options = {"batch_size": 2} if kind in ("texts", "rows") else {}
    history = model.fit(data, verbose=0, **options).history
    assert np.isfinite(history["loss"]).all()
    assert int(model.optimizer.iterations) >= 2
    moved = sum(not np.array_equal(one, other) for one, other in zip(before, model.get_weights()))
    assert moved > len(before) // 2
