"""AWD-QRNN: the model of AWD-LSTM with quasi-recurrent layers (Merity et al. 2018)."""

import keras

from keras_transfer.encoders.recurrent.awd_lstm import AWDLSTMEncoder
from keras_transfer.layers.blocks import QRNN


@keras.saving.register_keras_serializable(package="keras_transfer")
class AWDQRNNEncoder(AWDLSTMEncoder):
    """The encoder of AWD-QRNN: an `AWDLSTMEncoder` whose recurrent layers are `layers.QRNN`.

    The first of them has a window of 2, the others of 1. `weight_dropout` drops weights of their kernels.

    Args:
        vocabulary_size, **kwargs: See `AWDLSTMEncoder`. For WikiText-103, Merity et al. use `num_layers=4`,
            `units=2500` and `weight_dropout=0.0`.

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
        if gradient_length is not None or reverse:
            raise ValueError(
                "`AWDQRNNEncoder` has no `gradient_length` and no `reverse`. Use `AWDLSTMEncoder`. "
                f"Received: gradient_length={gradient_length!r}, reverse={reverse!r}"
            )
        return QRNN(width, window=2 if index == 0 else 1, **options)
