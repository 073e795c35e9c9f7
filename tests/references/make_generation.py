"""Makes generation/: a small random GPT-2, how Transformers continues 50 prompts with it, and what it does to scores.

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
from transformers.generation import logits_process as processors_of

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
    "new_tokens": {"max_new_tokens": 7},
    "least": {"min_length": 14, "forced_eos_token_id": END},
    "least_new": {"min_new_tokens": 6, "suppress_tokens": [11, 18]},
    "first": {"forced_bos_token_id": 17, "min_length": 6},
    "beam_forced": {"num_beams": 4, "forced_bos_token_id": 17, "forced_eos_token_id": END, "min_new_tokens": 5},
    "beam_never": {"num_beams": 3, "length_penalty": 2.0, "early_stopping": "never"},
    "beam_never_short": {"num_beams": 3, "length_penalty": -0.5, "early_stopping": "never"},
    "beam_ends": {"num_beams": 3, "eos_token_id": [END, 18, 22], "early_stopping": True},
}
# Prompts of one token, for which the first new token is forced.
SHORT_CASES = ("first", "beam_forced")


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
                prompt = prompt[:1] if name in SHORT_CASES else prompt
                ids = torch.tensor([prompt])
                settings = {"max_length": MAX_LENGTH, "eos_token_id": END, **options}
                if "max_new_tokens" in settings:
                    settings.pop("max_length")
                found = model.generate(
                    ids, attention_mask=torch.ones_like(ids), do_sample=False, pad_token_id=0, **settings
                )
                ends = np.atleast_1d(settings["eos_token_id"]).tolist()
                rows = [row[len(prompt) :].tolist() for row in found]
                places = [next((i + 1 for i, token in enumerate(row) if token in ends), len(row)) for row in rows]
                outputs[name].append([row[:place] for row, place in zip(rows, places)])
        for prompt in prompts:
            logs = model(torch.tensor([prompt])).logits[0].double().log_softmax(-1)
            values = [logs[place, token].item() for place, token in enumerate(prompt[1:])]
            outputs["likelihoods"].append([round(value, 6) for value in values])
    (FOLDER / "outputs.json").write_text(json.dumps(outputs) + "\n")
    (FOLDER / "constraints.json").write_text(json.dumps([constrained(random) for _ in range(60)]) + "\n")


def constrained(random, vocabulary=9, rows=2):
    """Returns random scores of the next token, and what the processors of Transformers make of them."""
    length = int(random.integers(1, 4))
    room = length + int(random.integers(2, 8))
    column = int(random.integers(length, room))
    tokens = random.integers(0, random.integers(3, vocabulary + 1), (rows, column))
    logits = random.normal(scale=3, size=(rows, vocabulary)).round(2).astype("float32")
    ends = [int(token) for token in random.choice(vocabulary, random.integers(1, 3), replace=False)]
    options = {
        "repetition_penalty": float(random.choice([1.0, 1.3, 0.7])),
        "no_repeat_ngram": int(random.integers(0, 4)),
        "bad_words": [random.integers(0, vocabulary, random.integers(1, 4)).tolist() for _ in range(2)],
        "min_length": int(random.integers(0, 8)),
        "min_new_tokens": int(random.integers(0, 5)),
        "forced_first": int(random.integers(vocabulary)) if random.random() < 0.5 else None,
        "forced_last": ends if random.random() < 0.5 else [],
    }
    processors = [
        processors_of.RepetitionPenaltyLogitsProcessor(options["repetition_penalty"]),
        processors_of.NoBadWordsLogitsProcessor(options["bad_words"]),
        processors_of.MinLengthLogitsProcessor(options["min_length"], ends),
        processors_of.MinNewTokensLengthLogitsProcessor(length, options["min_new_tokens"], ends),
    ]
    if options["no_repeat_ngram"]:
        processors.append(processors_of.NoRepeatNGramLogitsProcessor(options["no_repeat_ngram"]))
    if options["forced_first"] is not None:
        processors.append(processors_of.ForcedBOSTokenLogitsProcessor(options["forced_first"]))
    if options["forced_last"]:
        processors.append(processors_of.ForcedEOSTokenLogitsProcessor(room, options["forced_last"]))
    scores = torch.tensor(logits)
    for processor in processors:
        scores = processor(torch.tensor(tokens), scores)
    sizes = {"length": length, "room": room, "column": column, "ends": ends}
    values = [[None if np.isinf(x) else float(f"{x:.7g}") for x in row] for row in scores.tolist()]
    given = [[float(f"{x:.7g}") for x in row] for row in logits.tolist()]
    return {**sizes, "tokens": tokens.tolist(), "constraints": options, "logits": given, "scores": values}


if __name__ == "__main__":
    main()
