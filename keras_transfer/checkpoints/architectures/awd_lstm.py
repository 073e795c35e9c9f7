"""Checkpoints of AWD-LSTM and AWD-QRNN, in folders with names of our own, as the originals have no configuration."""

from keras_transfer.checkpoints.architecture import Architecture, register_architecture
from keras_transfer.checkpoints.heads import Head
from keras_transfer.checkpoints.tensors import TRANSPOSED
from keras_transfer.encoders import AWDLSTMEncoder, AWDQRNNEncoder

_RATES = {"embedding": 0.1, "input": 0.4, "hidden": 0.25, "output": 0.4, "weight": 0.5}
_SETTINGS = (
    ("vocabulary_size", "vocab_size", int),
    ("embedding_dim", "embedding_size", int),
    ("units", "hidden_size", int),
    ("num_layers", "num_hidden_layers", int),
    *((f"{name}_dropout", f"{name}_dropout", rate) for name, rate in _RATES.items()),
    ("activation_penalty", "activation_penalty", 0.0),
    ("temporal_penalty", "temporal_penalty", 0.0),
    ("gradient_length", "gradient_length", None),
    ("reverse", "reverse", False),
)
# The token embeddings, or a table of its own.
_HEADS = {
    "causal_lm": Head(
        "decoder.",
        ("LMHeadModel",),
        tensors={"logits.kernel": ("decoder.weight", TRANSPOSED), "logits.bias": "decoder.bias"},
        settings=(("use_bias", "decoder_bias", False),),
        own_table="decoder.weight",
    )
}

AWD_LSTM = register_architecture(
    Architecture(
        model_type="awd-lstm",
        encoder_class=AWDLSTMEncoder,
        settings=_SETTINGS,
        tensors={
            "token_embedding": "encoder",
            "blocks.*.kernel": ("rnns.*.weight_ih", TRANSPOSED),
            "blocks.*.cell.recurrent_kernel": ("rnns.*.weight_hh", TRANSPOSED),
            "blocks.*.bias": "rnns.*.bias",  # the sum of torch's two
        },
        model_class="AWDLSTMModel",
        heads=_HEADS,
    )
)
AWD_QRNN = register_architecture(
    Architecture(
        model_type="awd-qrnn",
        encoder_class=AWDQRNNEncoder,
        settings=_SETTINGS,
        tensors={
            "token_embedding": "encoder",
            "blocks.*.kernel": ("rnns.*.linear.weight", TRANSPOSED),
            "blocks.*.bias": "rnns.*.linear.bias",
        },
        model_class="AWDQRNNModel",
        heads=_HEADS,
    )
)
