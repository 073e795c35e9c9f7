"""Makes generation/: a small random GPT-2 as Transformers writes it, and how Transformers continues 50 prompts with it.

    python tests/references/make_generation.py

Needs torch, transformers and safetensors. Weights are large, so that one token is far more likely than all others, and
rounding changes no choice. Each prompt is continued alone, so that there is no padding.
"""

import json
import pathlib

import numpy as np
import torch
import transformers
from safetensors.torch import save_file

FOLDER = pathlib.Path(__file__).with_name("generation")
END, MAX_LENGTH = 5, 24
SIZES = {"vocab_size": 24, "n_embd": 8, "n_layer": 2, "n_head": 2, "n_inner": 16, "n_positions": 32}
CASES = {
    "greedy": {},
    "constrained": {
        "repetition_penalty": 1.3,
        "no_repeat_ngram_size": 2,
        "bad_words_ids": [[18], [11, 12], [17, 11, 11]],
    },
    "beam": {"num_beams": 3, "num_return_sequences": 2},
    "beam_short": {"num_beams": 4, "length_penalty": -1.0},
    "beam_early": {"num_beams": 2, "length_penalty": 0.5, "early_stopping": True, "no_repeat_ngram_size": 3},
}


def main():
    torch.manual_seed(3)
    torch.set_num_threads(1)
    config = transformers.GPT2Config(**SIZES, bos_token_id=END, eos_token_id=END, attn_implementation="eager")
    model = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for path, weight in model.named_parameters():
            scale = 0.4 if "wte" in path else 0.8
            shift = 1.0 if "ln_" in path and path.endswith("weight") else 0.0
            weight.copy_(scale * torch.randn(weight.shape) + shift)
        model.transformer.ln_f.weight.mul_(4)
    FOLDER.mkdir(exist_ok=True)
    config.architectures = ["GPT2LMHeadModel"]
    config.save_pretrained(FOLDER)
    tensors = {path: tensor.clone() for path, tensor in model.state_dict().items() if not path.startswith("lm_head")}
    save_file(tensors, FOLDER / "model.safetensors", metadata={"format": "pt"})

    random = np.random.default_rng(0)
    prompts = [random.integers(8, SIZES["vocab_size"], random.integers(1, 18)).tolist() for _ in range(50)]
    outputs = {"prompts": prompts, "likelihoods": []}
    with torch.no_grad():
        for name, options in CASES.items():
            outputs[name] = []
            for prompt in prompts:
                ids = torch.tensor([prompt])
                found = model.generate(
                    ids,
                    attention_mask=torch.ones_like(ids),
                    max_length=MAX_LENGTH,
                    do_sample=False,
                    pad_token_id=0,
                    eos_token_id=END,
                    **options,
                )
                rows = [row[len(prompt) :].tolist() for row in found]
                outputs[name].append([row[: row.index(END) + 1] if END in row else row for row in rows])
        for prompt in prompts:
            logs = model(torch.tensor([prompt])).logits[0].double().log_softmax(-1)
            values = [logs[place, token].item() for place, token in enumerate(prompt[1:])]
            outputs["likelihoods"].append([round(value, 6) for value in values])
    (FOLDER / "outputs.json").write_text(json.dumps(outputs) + "\n")


if __name__ == "__main__":
    main()
