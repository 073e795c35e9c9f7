"""Makes transformer.npz: the 2019 NAACL tutorial's Transformer and torch's own, with random weights, and their outputs.

Needs torch: `python tests/references/make_transformer.py`. The tutorial's class is written here from its description.
"""

import pathlib

import numpy as np
import torch
from torch import nn

VOCABULARY, DIM, HEADS, WIDE, LAYERS, POSITIONS = 11, 8, 2, 16, 2, 7
TOKEN_IDS = torch.tensor([[3, 1, 4, 1, 5, 9], [2, 6, 5, 0, 0, 0]])
PADDING_MASK = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]])


class TutorialLayer(nn.Module):
    """One layer of the tutorial: both residuals start from the normalised input."""

    def __init__(self):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(DIM, HEADS, batch_first=True)
        self.linear1, self.linear2 = nn.Linear(DIM, WIDE), nn.Linear(WIDE, DIM)
        self.norm1, self.norm2 = nn.LayerNorm(DIM, eps=1e-12), nn.LayerNorm(DIM, eps=1e-12)

    def forward(self, h, hidden, padding):
        h = self.norm1(h)
        h = h + self.self_attn(h, h, h, attn_mask=hidden, key_padding_mask=padding, need_weights=False)[0]
        h = self.norm2(h)
        return h + self.linear2(torch.relu(self.linear1(h)))


class Transformer(nn.Module):
    """Token and position embeddings, then layers called as `layer(h, hidden, padding)`, then perhaps a norm."""

    def __init__(self, layers, norm=None):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, DIM), nn.Embedding(POSITIONS, DIM)
        self.layers, self.norm = nn.ModuleList(layers), norm

    def forward(self, causal):
        length = TOKEN_IDS.shape[1]
        h = self.tokens(TOKEN_IDS) + self.positions(torch.arange(length))
        hidden = torch.ones(length, length, dtype=torch.bool).triu(1) if causal else None
        states = [h]
        for layer in self.layers:
            h = layer(h, hidden, PADDING_MASK == 0)
            states.append(h)
        return states, h if self.norm is None else self.norm(h)


def torch_layers(norm_first):
    options = {"activation": "gelu", "layer_norm_eps": 1e-5, "batch_first": True, "norm_first": norm_first}
    return [nn.TransformerEncoderLayer(DIM, HEADS, WIDE, **options) for _ in range(LAYERS)]


def main():
    torch.manual_seed(0)
    cases = {
        "input": (Transformer([TutorialLayer() for _ in range(LAYERS)]), False),
        "input_causal": (Transformer([TutorialLayer() for _ in range(LAYERS)]), True),
        "post": (Transformer(torch_layers(norm_first=False)), False),
        "pre_causal": (Transformer(torch_layers(norm_first=True), nn.LayerNorm(DIM, eps=1e-5)), True),
    }
    arrays = {"token_ids": TOKEN_IDS.numpy(), "padding_mask": PADDING_MASK.numpy()}
    for name, (model, causal) in cases.items():
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.5)
        with torch.no_grad():
            states, output = model.eval()(causal)
        arrays |= {f"{name}/{key}": value.numpy() for key, value in model.state_dict().items()}
        arrays |= {f"{name}/states": torch.stack(states).numpy(), f"{name}/output": output.numpy()}
    np.savez_compressed(pathlib.Path(__file__).with_name("transformer.npz"), **arrays)


if __name__ == "__main__":
    main()
