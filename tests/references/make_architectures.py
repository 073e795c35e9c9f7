"""Makes architectures/NAME: small random checkpoints with heads, as Transformers writes them, and what it computes.

    python tests/references/make_architectures.py bert

Needs torch, transformers and safetensors. Without names it makes all. Weights are large, so that errors are, too. The
files also hold copies of tied weights, as those of older versions do.
"""

import pathlib
import sys

import numpy as np
import torch
import transformers
from safetensors.torch import save_file

FOLDER = pathlib.Path(__file__).with_name("architectures")
SIZES = {
    "vocab_size": 20,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "attn_implementation": "eager",
}
MASK = [[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0, 0]]
SEGMENTS = [[0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 0, 0]]


def bert():
    model = transformers.BertForPreTraining(transformers.BertConfig(max_position_embeddings=12, **SIZES))
    ids = [[2, 7, 9, 14, 3, 5, 3], [2, 11, 3, 0, 0, 0, 0]]
    return model, {"token_ids": ids, "segment_ids": SEGMENTS, "padding_mask": MASK}


def roberta():
    special = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    config = transformers.RobertaConfig(
        max_position_embeddings=14, type_vocab_size=1, layer_norm_eps=1e-5, **special, **SIZES
    )
    model = transformers.RobertaForMaskedLM(config)
    model.roberta = transformers.RobertaModel(config)  # with a pooler, which the class leaves out
    ids = [[0, 7, 9, 14, 3, 5, 2], [0, 11, 2, 1, 1, 1, 1]]
    return model, {"token_ids": ids, "padding_mask": MASK}


ARCHITECTURES = {"bert": bert, "roberta": roberta}
THEIRS = {"token_ids": "input_ids", "segment_ids": "token_type_ids", "padding_mask": "attention_mask"}


def main(name):
    torch.manual_seed(0)
    model, inputs = ARCHITECTURES[name]()
    model.eval().tie_weights()
    with torch.no_grad():
        for path, weight in model.named_parameters():
            weight.copy_(0.3 * torch.randn(weight.shape) + (1.0 if "norm.weight" in path.lower() else 0.0))
    encoder = model.base_model
    with torch.no_grad():
        outputs = encoder(
            **{THEIRS[key]: torch.tensor(value) for key, value in inputs.items()}, output_hidden_states=True
        )
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    tensors = {path: tensor.clone().contiguous() for path, tensor in model.state_dict().items()}
    positions = f"{model.base_model_prefix}.embeddings.position_ids"
    tensors[positions] = torch.arange(model.config.max_position_embeddings)[None]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    np.savez_compressed(
        folder / "outputs.npz",
        **{key: np.array(value, "int32") for key, value in inputs.items()},
        states=torch.stack(outputs.hidden_states).numpy(),
        pooled=outputs.pooler_output.numpy(),
    )


if __name__ == "__main__":
    for name in sys.argv[1:] or ARCHITECTURES:
        main(name)
