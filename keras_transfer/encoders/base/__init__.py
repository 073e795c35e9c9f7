"""The encoder protocol, and the Transformer stack that carries it out."""

from keras_transfer.encoders.base.encoder import Encoder, constructor_settings, encode, select_inputs
from keras_transfer.encoders.base.id_checks import check_ids
from keras_transfer.encoders.base.on_top import dense_on, initializer_on
from keras_transfer.encoders.base.quantization import (
    Quantizes,
    by_path,
    is_quantized,
    quantization_of,
    quantize_again,
)
from keras_transfer.encoders.base.running import (
    EMBEDDINGS,
    StackLayers,
    carries_state,
    decodes_with_cache,
    embed,
    groups_of,
    run_and_record,
    run_blocks,
    step,
)
from keras_transfer.encoders.base.sharing import have_same_embeddings, with_embeddings_of
from keras_transfer.encoders.base.stack import MASKS, TransformerStack, check_further_inputs, takes_positions
from keras_transfer.encoders.base.traced import TracesAgain
from keras_transfer.encoders.base.weight_facts import (
    LoadsOwnWeights,
    store_weight_facts,
    weight_facts_of,
    without_weight_facts,
)
from keras_transfer.encoders.base.wiring import (
    bert_layers,
    gpt_layers,
    make_blocks,
    make_projection,
)

__all__ = [
    "EMBEDDINGS",
    "MASKS",
    "Encoder",
    "LoadsOwnWeights",
    "Quantizes",
    "StackLayers",
    "TracesAgain",
    "TransformerStack",
    "bert_layers",
    "by_path",
    "carries_state",
    "check_further_inputs",
    "check_ids",
    "constructor_settings",
    "decodes_with_cache",
    "dense_on",
    "embed",
    "encode",
    "gpt_layers",
    "groups_of",
    "have_same_embeddings",
    "initializer_on",
    "is_quantized",
    "make_blocks",
    "make_projection",
    "quantization_of",
    "quantize_again",
    "run_and_record",
    "run_blocks",
    "select_inputs",
    "step",
    "store_weight_facts",
    "takes_positions",
    "weight_facts_of",
    "with_embeddings_of",
    "without_weight_facts",
]
