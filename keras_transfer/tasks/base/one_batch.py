"""The methods of a task that take one batch, such as `train_on_batch`, and the call of the model."""

import keras
import numpy as np

from keras_transfer.keras_internals import NotCloned
from keras_transfer.tasks.base.checks import require_compiled
from keras_transfer.tasks.base.failures import KeepsErrors, mends_failures
from keras_transfer.tasks.base.prediction import Prediction
from keras_transfer.tasks.base.signatures import encode_texts
from keras_transfer.tasks.inputs import (
    NoRows,
    check_columns,
    check_kind,
    columns_of,
    kind_of,
    require_preprocessor,
    to_array,
)
from keras_transfer.text.base import check_weights

_ALL_ROWS = 2**31  # With this batch size, all rows are one batch.


class OneBatch(KeepsErrors, NotCloned):
    """A mixin that lets the methods of a task for one batch take raw text as `fit` does, and prepared data."""

    def __call__(self, inputs, *args, **kwargs):
        """Returns the outputs of one batch of prepared inputs or of raw text."""
        if self.is_raw(inputs):
            check_kind(self, inputs, self.fitted_on)
            inputs = self.encode_batch(inputs)
        return super().__call__(inputs, *args, **kwargs)

    def encode_batch(self, texts):
        """Returns the encoder's inputs of raw text or pairs, padded to the longest if the preprocessor can."""
        require_preprocessor(self)
        columns = texts if isinstance(texts, tuple) else (texts,)
        columns = tuple([part] if isinstance(part, (str, bytes)) else part for part in columns)
        inputs = encode_texts(self, *columns)
        if keras.backend.backend() == "tensorflow":
            return inputs
        return {name: np.asarray(value) for name, value in inputs.items()}

    def encode_columns(self, x):
        """Returns the encoder's inputs of raw data in memory, as the only batch that `make_batches` returns."""
        require_preprocessor(self)
        return self.make_batches(self.raw_columns(x), None, _ALL_ROWS, False, None)[0][0]

    def train_on_batch(self, x, y=None, sample_weight=None, class_weight=None, return_dict=False):
        """Trains on one batch as `keras.Model.train_on_batch` does. `x` may be raw text."""
        self.check_class_weight(class_weight)
        batch = self._one_batch("train_on_batch", x, y, sample_weight)
        self.fitted_on = kind_of(self, x)
        with mends_failures(self, "train_function"):
            return super().train_on_batch(*batch, class_weight=class_weight, return_dict=return_dict)

    def test_on_batch(self, x, y=None, sample_weight=None, return_dict=False):
        """Evaluates one batch as `keras.Model.test_on_batch` does. `x` may be raw text."""
        check_kind(self, x, self.fitted_on)
        batch = self._one_batch("test_on_batch", x, y, sample_weight)
        with mends_failures(self, "test_function"):
            return super().test_on_batch(*batch, return_dict=return_dict)

    def predict_on_batch(self, x):
        """Returns what `predict` returns, for one batch. `x` may be raw text."""
        self.check_adapters()
        if not self.is_raw(x):
            return super().predict_on_batch(x)
        check_kind(self, x, self.fitted_on)
        data = self.dataset(x, batch_size=_ALL_ROWS)
        if isinstance(data, NoRows):
            return self.predict_nothing(data.columns)
        predict = super().predict_on_batch
        return self.predict_in_order(data, Prediction(self, lambda batches, **options: predict(batches[0][0])))

    def _one_batch(self, method, x, y, sample_weight):
        """Returns `(x, y, sample_weight)` with prepared inputs."""
        self.check_adapters()
        require_compiled(self, method)
        check_columns(x, y, sample_weight)
        if y is not None:
            y = self.encode_labels(y)
            self.check_labels(y)
        if not self.is_raw(x):
            if sample_weight is not None:
                check_weights(to_array(sample_weight))
            return x, y, sample_weight
        data = self.make_targets(self._dataset_of(columns_of(self, x), x, y, sample_weight, _ALL_ROWS, False))
        if isinstance(data, NoRows) or not data.has_labels:
            received = "no rows" if isinstance(data, NoRows) else "y=None"
            raise ValueError(f"Raw text must have at least one row, and labels. Received: {received}")
        inputs, labels, *weights = data[0]
        return inputs, labels, weights[0] if weights else None
