"""OpenAI GPT's checkpoints (Radford et al. 2018)."""

from keras_transfer.checkpoints.architecture import Architecture, register_architecture
from keras_transfer.checkpoints.architectures.gpt2 import GPT_BLOCKS, GPT_HEADS, GPT_SETTINGS, read_gpt, write_gpt
from keras_transfer.checkpoints.names import check_width
from keras_transfer.encoders import GPTEncoder

# OpenAI's GELU is the tanh approximation, and so is Transformers' on torch under the name "gelu".
_ACTIVATIONS = {"gelu": "gelu_tanh", "relu": "relu", "silu": "silu", "swish": "silu"}


def _write(config, encoder):
    check_width(encoder)
    return write_gpt(config, encoder)


GPT = register_architecture(
    Architecture(
        model_type="openai-gpt",
        encoder_class=GPTEncoder,
        settings=(
            *GPT_SETTINGS,
            ("max_sequence_length", "n_positions", 512),
            ("activation", "afn", "gelu", _ACTIVATIONS),
        ),
        tensors={"token_embedding": "tokens_embed", "position_embedding": "positions_embed", **GPT_BLOCKS},
        model_class="OpenAIGPTModel",
        prefix="transformer.",
        heads=GPT_HEADS,
        tied={"lm_head.weight": "tokens_embed.weight"},
        ignored=(r"\.attn\.bias$", r"position_ids$"),  # the causal mask
        read=read_gpt,
        write=_write,
    )
)
