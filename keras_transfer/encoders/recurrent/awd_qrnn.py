"""AWD-QRNN: the model of AWD-LSTM with quasi-recurrent layers (Merity et al. 2018)."""

import keras

from keras_transfer.core.expect import expect
from keras_transfer.encoders.recurrent.awd_lstm import AWDLSTMEncoder
from keras_transfer.layers import QRNN


@keras.saving.register_keras_serializable(package="keras_transfer")
class AWDQRNNEncoder(AWDLSTMEncoder):
    """The encoder of AWD-QRNN: an `AWDLSTMEncoder` whose recurrent layers are `layers.QRNN`.

    The first of them has a window of 2, the others of 1. `weight_dropout` drops weights of their kernels.

    Args:
        vocabulary_size: Integer. Number of tokens.
        embedding_dim: Integer. Width of the embeddings and of the last LSTM. Defaults to `400`.
        units: Integer. Width of the other LSTMs. Defaults to `1150`.
        num_layers: Integer. Number of LSTMs. Defaults to `3`.
        embedding_dropout: Float between 0 and 1. Fraction of the vocabulary that is dropped, see
            `layers.EmbeddingDropout`. Defaults to `0.1`.
        input_dropout: Float between 0 and 1. Dropout rate of the embeddings, as all further rates with one mask for all
            steps of a text. Defaults to `0.4`.
        hidden_dropout: Float between 0 and 1. Dropout rate between two LSTMs. Defaults to `0.25`.
        output_dropout: Float between 0 and 1. Dropout rate of the outputs. Defaults to `0.4`.
        weight_dropout: Float between 0 and 1. Dropout rate of the recurrent weights. Defaults to `0.5`.
        activation_penalty: Float, at least 0. Factor of activation regularization (AR) of the outputs, see
            `layers.ActivationPenalty`. Merity et al. use 2. Defaults to `0.0`, no penalty.
        temporal_penalty: Float, at least 0. Factor of temporal activation regularization (TAR) of the outputs. Merity
            et al. use 1. Defaults to `0.0`, no penalty.
        gradient_length: Integer. Number of tokens of a text, the last ones that the LSTMs process, through which
            gradients flow in training, as in ULMFiT's classifier of long texts. The outputs are the same if padding
            follows the texts. The published code uses 1,400 (20 windows of 70). Defaults to `None`, all tokens.
        reverse: Boolean. Whether the LSTMs read each text from its last token to its first, with the weights of a
            language model of reversed texts (`Corpus.streams(reverse=True)`). Each output has the position of its
            token, so a classifier uses `pooling="concat_first"`. Such an encoder has no `step`. Defaults to `False`.
        dtype: Dtype or dtype policy of all layers. Defaults to `None`, the global policy.
        **kwargs: `pooling`, `normalize`, `name` and `trainable` of `Encoder`.

    Raises:
        ValueError: If `gradient_length` or `reverse` is used, and see `AWDLSTMEncoder`.

    Inputs: Dict of `token_ids` and `padding_mask`, each `[batch, length]`.

    Outputs: Dict of `sequence_output` `[batch, length, embedding_dim]`, the last hidden state, 0 at padding.

    Example:
    ```python
    encoder = keras_transfer.encoders.AWDQRNNEncoder(100, embedding_dim=8, units=16)
    encoder({"token_ids": np.array([[5, 6, 0]]), "padding_mask": np.array([[1, 1, 0]])})["sequence_output"]
    ```

    Source: https://arxiv.org/abs/1803.08240
    """

    @staticmethod
    def _make_block(index, width, gradient_length=None, reverse=False, **options):
        rule = "`AWDQRNNEncoder` has no `gradient_length` and no `reverse`. Use `AWDLSTMEncoder`."
        expect(gradient_length is None and not reverse, rule, gradient_length=gradient_length, reverse=reverse)
        return QRNN(width, window=2 if index == 0 else 1, **options)
