"""One or several numbers for a text, or for a pair of texts."""

import keras
import numpy as np

from keras_transfer.checkpoints.base import TaskHead
from keras_transfer.tasks.heads import PooledTask, pooled_reader
from keras_transfer.tasks.labels import Numbers


@keras.saving.register_keras_serializable(package="keras_transfer")
class TextRegressor(PooledTask):
    """A text regressor: an encoder, a pooling over the real tokens, dropout, and a dense layer that returns numbers.

    Use it for the similarity of two sentences (STS-B), for ratings, or for several scores at once. Labels are floats
    [texts], or [texts, num_targets]. The loss is the mean squared error. `compile` also takes the metrics
    `"pearson_correlation"` and `"spearman_correlation"` by name.

    `from_pretrained` loads the head of a checkpoint that Transformers has fine-tuned for regression. For any other
    checkpoint, or with `head="new"`, a new head has `num_targets` values, one by default.

    Args:
        encoder: Encoder of this library (`hub.HubEncoder` for a TF Hub module), or a KerasHub backbone.
        preprocessor: See `TextClassifier`.
        num_targets: Integer, at least 1. Number of values to predict for each text. Defaults to `1`.
        pooling, dropout, hidden_activation, hidden_norm, scalar_mix, windows, siamese, name: See `TextClassifier`.

    Outputs:
        Float32 [batch, num_targets].

    Raises:
        ValueError: If `num_targets` is not a positive integer, or if another argument is invalid, as for
            `TextClassifier`.

    Example:
    ```python
    model = keras_transfer.tasks.TextRegressor.from_pretrained("minilm-l6")
    model.compile(keras_transfer.adaptation.FusedAdamW(1e-4))
    model.fit((["A man eats.", "A dog barks."], ["Someone eats.", "It rains."]), [4.2, 0.4], epochs=1)
    model.predict((["A man sleeps."], ["A man is asleep."]))  # an array of shape [1, 1]
    ```

    Source: https://arxiv.org/abs/1810.04805, section 4.1 (STS-B).
    """

    checkpoint_head = TaskHead(
        name="classifier", sizes=("num_targets",), default_sizes={"num_targets": 1}, problem_types=("regression",)
    )

    def __init__(
        self,
        encoder,
        preprocessor=None,
        *,
        num_targets=1,
        pooling=None,
        dropout=0.1,
        hidden_activation=None,
        hidden_norm=False,
        scalar_mix=False,
        windows=None,
        siamese=False,
        name=None,
    ):
        if not isinstance(num_targets, (int, np.integer)) or num_targets < 1:
            raise ValueError(f"`num_targets` must be a positive integer. Received: num_targets={num_targets!r}")
        super().__init__(
            encoder,
            int(num_targets),
            pooled_reader(preprocessor, windows, siamese),
            Numbers(int(num_targets)),
            pooling=pooling,
            dropout=dropout,
            name=name,
            scalar_mix=scalar_mix,
            hidden_activation=hidden_activation,
            hidden_norm=hidden_norm,
            windows=windows,
            siamese=siamese,
            settings={"num_targets": int(num_targets), "windows": windows, "siamese": bool(siamese)},
        )
