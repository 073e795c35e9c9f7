"""SetFit: training a classifier on a few labeled texts, by sampling pairs of these texts."""

from typing import Any

import keras
import numpy as np

from keras_transfer.adaptation.fine_tuning import fine_tune
from keras_transfer.adaptation.recipe import get_recipe
from keras_transfer.core.arrays import to_array
from keras_transfer.core.expect import expect, expects, instance_of, integer
from keras_transfer.data import part_batches
from keras_transfer.keras_internals import remember_trainable
from keras_transfer.losses import CosineSimilarityLoss
from keras_transfer.tasks import TextClassifier, TextEmbedder
from keras_transfer.text import to_columns
from keras_transfer.training import FusedAdamW


@expects(model=instance_of(TextClassifier, "a `TextClassifier`"))
def setfit(
    model: TextClassifier,
    x: Any,
    y: Any,
    *,
    num_iterations: int = 20,
    batch_size: int = 16,
    epochs: int = 1,
    learning_rate: float = 2e-5,
    seed: int | None = None,
    verbose: str | int = "auto",
) -> tuple[keras.callbacks.History, keras.callbacks.History]:
    """Trains a classifier on a few texts for each class, in the two stages of SetFit.

    First, the encoder is trained on pairs of the texts, as a `TextEmbedder` with the `CosineSimilarityLoss`. It learns
    to return similar vectors for texts of the same class and dissimilar vectors for others. Even a few texts form many
    pairs. Then the head learns the classes with the recipe `"feature_extraction"`, which freezes the encoder during
    this stage.

    Start with a sentence encoder, such as `"minilm-l6"`. Afterwards, the same weights are trainable as before. The
    model is compiled again with the defaults of `compile`, so that `fit` trains all of these weights.

    Args:
        model: `TextClassifier` of one label per text, with a preprocessor, and without `windows` and `siamese`.
        x: List of strings. The texts.
        y: List of labels as for `fit`, one for each text.
        num_iterations: Integer. Number of pairs of the same class that are drawn for each text, if the classes have the
            same size. As many pairs of different classes are drawn. Defaults to `20`.
        batch_size: Integer. Number of pairs per batch. Defaults to `16`.
        epochs: Integer. Number of epochs over the pairs. Defaults to `1`.
        learning_rate: Float. Learning rate of the encoder. Defaults to `2e-5`.
        seed: Integer. Seed of the pairs and of their order. Defaults to `None`, which follows
            `keras.utils.set_random_seed`.
        verbose: `"auto"`, `0` (silent), `1` (progress bar) or `2` (one line per epoch). Defaults to `"auto"`.

    Returns:
        Tuple of two Keras `History` objects: one for training the encoder on pairs, and one for training the head.

    Raises:
        ValueError: If `model` is not such a `TextClassifier`, if its encoder has no trainable weights, if `y` has
            labels that the model does not know or not one for each text, or if a class has fewer than two texts. The
            model is then unchanged.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    texts = ["What a film!", "I loved it.", "What a bore.", "I fell asleep."]
    keras_transfer.adaptation.setfit(model, texts, [1, 1, 0, 0], num_iterations=2)
    model.predict(["A fine film."])
    ```

    Source: https://arxiv.org/abs/2209.11055
    """
    rule = "`model` must predict one label of a single text, without `multi_label`, `siamese` and `windows`."
    options = {name: getattr(model, name) for name in ("multi_label", "siamese", "windows")}
    expect(not any(options.values()), rule, **options)
    model.reader.require()
    x = to_columns(x)
    expect(not isinstance(x, tuple), "`x` must be one column of texts, such as a list.", x=type(x).__name__)
    encoded = model.labels.encode(y)
    model.labels.check(encoded, model.loss)
    encoded = to_array(encoded)
    expect(len(encoded) == len(x), "Each text must have a label.", texts=len(x), labels=len(encoded))
    seed = np.random.randint(2**31) if seed is None else seed
    first, second, same = sample_pairs(encoded, num_iterations=num_iterations, seed=seed)
    embedder = TextEmbedder(model.encoder, model.preprocessor, pooling=model.pooling)
    rule = (
        "The encoder must have trainable weights. Call `keras_transfer.adaptation.unfreeze(model)`, or train only the "
        "head with `fit`."
    )
    expect(embedder.trainable_weights, rule, model=model)
    embedder.compile(FusedAdamW(learning_rate), loss=CosineSimilarityLoss())
    pairs = part_batches((x[first], x[second]), same, preprocessor=model.preprocessor, batch_size=batch_size, seed=seed)
    on_pairs = embedder.fit(pairs, epochs=epochs, verbose=verbose)
    restore = remember_trainable(model)
    recipe = get_recipe("feature_extraction", epochs=10, batch_size=batch_size)
    try:
        return on_pairs, fine_tune(model, x, y, recipe=recipe, verbose=verbose)
    finally:
        restore()
        model.compile()  # The optimizer of the head has no state for other weights.


@expects(num_iterations=integer(1))
def sample_pairs(
    y: Any, *, num_iterations: int = 20, seed: int | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draws pairs of examples of the same class and of different classes.

    The classes take turns, so that a small class is in as many pairs as a large one. In its turn, the next example of a
    class is paired with another example of the class, and with an example of another class.

    Args:
        y: List or array `[examples]` of labels, one for each example.
        num_iterations: Integer. Number of pairs of each kind for each example, if the classes have the same size.
            Defaults to `20`.
        seed: Integer. The same seed gives the same pairs. Defaults to `None`, which follows
            `keras.utils.set_random_seed`.

    Returns:
        Three arrays `[2 * examples * num_iterations]`: the positions of the first examples, the positions of the second
        examples, and 1.0 for pairs of the same class or 0.0 for other pairs.

    Raises:
        ValueError: If `y` is not one label for each example, if there are fewer than two classes, or if a class has
            only one example.

    Example:
    ```python
    first, second, same = keras_transfer.adaptation.sample_pairs([0, 0, 1, 1], num_iterations=1)
    same  # 1.0 and 0.0 in turn
    ```

    Source: https://arxiv.org/abs/2209.11055
    """
    y = np.asarray(y)
    expect(y.ndim == 1, "`y` must be one label for each example.", y=y.shape)
    classes, counts = np.unique(y, return_counts=True)
    rule = "There must be at least two classes, and at least two examples of each."
    expect(len(classes) >= 2 and counts.min() >= 2, rule, classes=dict(zip(classes.tolist(), counts.tolist())))
    random = np.random.default_rng(np.random.randint(2**31) if seed is None else seed)
    total, order, ends = len(y) * num_iterations, np.argsort(y, kind="stable"), np.cumsum(counts)
    first, same, other = (np.zeros(total, int) for _ in range(3))
    for kind, (end, count) in enumerate(zip(ends, counts)):
        where = slice(kind, None, len(counts))  # Classes take turns, so that each has the same number of pairs.
        size, begin = len(first[where]), end - count
        places = np.concatenate([random.permutation(count) for _ in range(-(-size // count))])[:size]
        first[where] = begin + places
        same[where] = begin + (places + random.integers(1, count, size)) % count
        other[where] = (end + random.integers(0, len(y) - count, size)) % len(y)
    second = order[np.stack([same, other], axis=1)].ravel()
    return np.repeat(order[first], 2), second, np.tile(np.array([1.0, 0.0], "float32"), total)
