"""What the tasks that predict hidden tokens have in common: their objective, and the checks of their encoders."""

from keras_transfer.encoders.base import TransformerStack, encode
from keras_transfer.tasks.base import Task, of_part


class HiddenTokenTask(Task):
    """Base class of the tasks whose objective hides tokens. One batch of raw text is read as in a call of the model."""

    objective = of_part("labels", "objective", "The objective, such as `objectives.TokenMasking`.")

    def predict_on_batch(self, x):
        """Returns the outputs for one batch of prepared data, or of raw text as in a call of the model."""
        return super().predict_on_batch(self.reader.inputs(x) if self.reader.accepts(x) else x)


def check_reads_ahead(encoder):
    """Raises a `ValueError` if the tokens of an encoder see only earlier ones."""
    if isinstance(encoder, TransformerStack) and all(block.attention.causal for block in encoder.blocks):
        raise ValueError(
            "A hidden token is predicted from the tokens on both sides of it, but the tokens of this encoder see only "
            f"earlier ones. Use a `CausalLM`. Received: {type(encoder).__name__}"
        )


def tokens_of(encoder):
    """Returns the layer of an encoder's token embeddings, and its symbolic vectors of the tokens.

    Raises:
        ValueError: If the encoder lacks one of them.
    """
    table = getattr(encoder, "token_embedding", None)
    sequence = None if table is None else encode(encoder).sequence
    if sequence is None:
        raise ValueError(
            f"`encoder` must have a `token_embedding` and return a vector for each token. Received: encoder={encoder!r}"
        )
    return table, sequence
