"""Makes keras_hub/llama: a small random Llama as Transformers writes it, which KerasHub converts, and its outputs.

    python tests/references/make_keras_hub.py

Needs torch, transformers and safetensors. Weights are large, so that errors are, too.
"""

import pathlib

import numpy as np
import torch
import transformers

FOLDER = pathlib.Path(__file__).with_name("keras_hub") / "llama"
IDS = [[5, 7, 9, 14, 3, 5, 8], [6, 11, 3, 0, 0, 0, 0]]
MASK = [[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0, 0]]


def main():
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=300,
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=16,
        max_position_embeddings=32,
        rms_norm_eps=1e-2,
        tie_word_embeddings=True,
        attn_implementation="eager",
    )
    model = transformers.LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.copy_(0.4 * torch.randn(weight.shape) + ("norm" in name))
        outputs = model.model(input_ids=torch.tensor(IDS), attention_mask=torch.tensor(MASK))
    model.save_pretrained(FOLDER)
    (FOLDER / "generation_config.json").unlink()
    np.savez(
        FOLDER / "outputs.npz",
        token_ids=np.array(IDS, "int32"),
        padding_mask=np.array(MASK, "int32"),
        sequence=outputs.last_hidden_state.numpy(),
    )


if __name__ == "__main__":
    main()
