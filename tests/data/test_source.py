"""Every form of the user's data answers the same questions, so that no method asks which form it is."""

import keras
import numpy as np
import pytest

from keras_transfer.data import GivenDataset, NoRows
from keras_transfer.data.source import Source, for_keras
from keras_transfer.tasks.source import source_of
from tests.tasks import tiny
from tests.tasks.loaders import Loader

TEXTS, LABELS = tiny.examples(4)


class Given(keras.utils.PyDataset):
    def __len__(self):
        return 1

    def __getitem__(self, index):
        ids = np.ones((2, 3), "int32")
        return dict.fromkeys(("token_ids", "segment_ids", "padding_mask"), ids), np.array([0, 1])


@pytest.fixture(scope="module")
def model():
    return tiny.classifier()


@pytest.mark.core
@pytest.mark.parametrize(
    ("x", "in_memory", "kind"),
    [
        (TEXTS, True, "texts"),
        ((TEXTS, TEXTS), True, "pairs"),
        ([], True, None),
        (Loader([(TEXTS, LABELS)]), False, "texts"),
        (Given(), False, None),
    ],
    ids=["texts", "pairs", "no rows", "loader", "dataset of Keras"],
)
def test_each_form_of_data_becomes_a_source(model, x, in_memory, kind):
    data = source_of(model, "predict", x)
    assert isinstance(data, Source) and (data.in_memory, data.kind) == (in_memory, kind)
    assert all(hasattr(data, name) for name in Source.__annotations__)
    assert data.error is None and for_keras(data) is not None


def test_only_a_dataset_of_keras_leaves_shuffling_and_weights_of_classes_to_keras(model):
    found = source_of(model, "predict", TEXTS).options_of_fit(True, {0: 2.0})
    assert found == {"shuffle": False, "class_weight": None}
    given = GivenDataset(Given())
    assert given.options_of_fit(True, {0: 2.0}) == {"shuffle": True, "class_weight": {0: 2.0}}
    assert not GivenDataset(object()).options_of_fit(True, None)["shuffle"]
    assert given.for_user() is given.for_keras() is given.dataset
    assert len(NoRows([])) == 0 and for_keras("anything else") == "anything else"
