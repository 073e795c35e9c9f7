"""The losses of the pretrained language models in an encoder-decoder, which keep their knowledge in fine-tuning."""

import keras
from keras import ops

from keras_transfer.distribute import factors_of_means, share_of_loss
from keras_transfer.encoders.base import encode
from keras_transfer.layers.embeddings import table_of


class LanguageModelLoss(keras.layers.Layer):
    """The mean loss of the decoder as a language model, and of the encoder if it is one (Ramachandran et al. 2017).

    The decoder runs once more without cross-attention, and the encoder predicts the next token of the source. This is a
    layer without weights, so that the layers that it calls know whether the model is in training.

    Args:
        encoder: `EncoderDecoder`.
        logits: Layer from the vectors of the decoder to logits.

    Call arguments:
        inputs: Dict of the inputs of the model.
        targets: Integer tensor of shape `[batch, decoder_length]`.
        weights: Tensor that broadcasts to the targets. Defaults to `None`, the padding mask of the decoder.

    Returns:
        A scalar, the sum of the losses, each of which is the mean over its tokens.
    """

    def __init__(self, encoder, logits, **kwargs):
        super().__init__(**kwargs)
        # Keras must not track these layers, which the model already has.
        object.__setattr__(self, "both", encoder)
        object.__setattr__(self, "logits", logits)
        self.built = True

    @property
    def reads_source(self):
        """Boolean. Whether the encoder is also a language model, whose tokens see only earlier ones."""
        encoder = self.both.encoder
        width = encoder.output["sequence_output"].shape[-1]
        return encoder.is_causal and encoder.token_embedding.output_dim == width

    def call(self, inputs, targets, weights=None, training=None):
        weights = inputs["decoder_padding_mask"] if weights is None else weights
        loss = _mean(self.logits(self.both.decode_alone(inputs)), targets, weights)
        if self.reads_source:
            encoder = self.both.encoder
            vectors = encode(encoder, inputs).sequence[:, :-1]
            table = ops.cast(table_of(encoder.token_embedding), vectors.dtype)
            ids, mask = (ops.convert_to_tensor(inputs[name])[:, 1:] for name in ("token_ids", "padding_mask"))
            weights = ops.max(ops.cast(weights, "float32"), axis=1, keepdims=True)  # A row has one weight.
            mask = weights * ops.cast(mask, "float32")
            loss = loss + _mean(ops.matmul(vectors, ops.transpose(table)), ids, mask)
        return loss


def _mean(logits, targets, weights):
    losses = keras.losses.sparse_categorical_crossentropy(targets, ops.cast(logits, "float32"), from_logits=True)
    weights = ops.broadcast_to(ops.cast(weights, "float32"), ops.shape(losses))
    count = ops.sum(ops.cast(weights != 0, "float32"))  # Weights scale the loss. Only padding is left out.
    (factor,) = factors_of_means(count)
    return share_of_loss(factor * ops.sum(losses * weights) / ops.maximum(count, 1e-7))
