"""What all objectives have in common: how a task calls them."""

from typing import Any

from keras_transfer.core.saved_arguments import SavedByArguments


class Objective(SavedByArguments):
    """Base class of all objectives, which turn the token ids of a batch into inputs and targets, in NumPy.

    A subclass is registered, so that a `.keras` file can contain it. Its config is the attributes that are named like
    the constructor's arguments. Tasks accept an objective if its `made_inputs` are those that they read.

    Call arguments:
        - `inputs`: Dict of integer arrays of shape `[batch, length]`: `token_ids`, `padding_mask` (1 for a real token)
          and possibly others. Padding is on the right.
        - `random`: `np.random.Generator`, from which everything is drawn.
        - `**tokens`: What `tokens` returns.

    Returns:
        A tuple of the inputs and the targets, an int32 array, and perhaps the weights of the targets.

    Attributes:
        made_inputs: Tuple of strings. The inputs of a task that the objective makes.
        seed: Integer, or `None` for a new one in each run. Seed of all draws, and of the order of the texts.

    Example:
    ```python
    @keras.saving.register_keras_serializable(package="my_package")
    class SecondToken(keras_transfer.objectives.Objective):
        made_inputs = ("mask_positions",)

        def __call__(self, inputs, random, mask_id):
            ids = inputs["token_ids"].copy()
            ids[:, 1] = mask_id
            places = np.ones((len(ids), 1), "int32")
            return {**inputs, "token_ids": ids, "mask_positions": places}, inputs["token_ids"][:, 1:2]

        def tokens(self, preprocessor):
            return {"mask_id": preprocessor.mask_id}


    preprocessor = keras_transfer.text.BertPreprocessor(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "film"])
    encoder = keras_transfer.encoders.BertEncoder(7, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16)
    model = keras_transfer.tasks.MaskedLM(encoder, preprocessor, objective=SecondToken())
    ```
    """

    made_inputs: tuple[str, ...] = ()
    seed: int | None = None

    def __call__(self, inputs, random, **tokens):
        raise NotImplementedError(f"{type(self).__name__} must implement `__call__`.")

    def tokens(self, preprocessor: Any) -> dict:
        """Returns the arguments of a call that depend on the vocabulary.

        Args:
            preprocessor: `text.TokenPreprocessor` whose vocabulary the ids come from.

        Returns:
            A dict of keyword arguments.

        Raises:
            ValueError: If the vocabulary lacks what the objective needs.
        """
        return {}
