"""Makes sequence_to_sequence/NAME_trained: small encoder-decoders whose continuations are diverse.

    python -m tests.references.make_trained bart

Needs torch and transformers. Without names it makes all. Models with random weights repeat a few tokens whatever they
read. These have learned, in part, to copy a text of different words and to begin it again, so that their continuations
depend on the source, repeat n-grams, and end by themselves. `generated.json` has the sources, those among random ones
whose continuations have at least 8 distinct tokens in all cases of
`tests/encoders/sequence_to_sequence/continuations.py`, and the continuations of Transformers in one of these cases.
"""

import json
import re
import sys

import numpy as np
import torch

from tests.encoders.sequence_to_sequence.continuations import CASES, RECORDED, theirs
from tests.references.make_sequence_to_sequence import FOLDER, create

LOSSES = {"t5": 1.6, "t5_gated": 1.7, "bart": 1.5}  # Below these, training ends.
WORDS, SOURCES, RATE, STEPS = np.arange(6, 58), 50, 1e-2, 1500


def texts(random, count):
    return [random.permutation(WORDS)[: random.integers(10, 15)].tolist() for _ in range(count)]


def batch(random, config):
    """Returns sources, their mask and targets, in which -100 is no token."""
    sources = texts(random, 64)
    targets = [row + row[: random.integers(2, 7)] + [config.eos_token_id] for row in sources]
    length, longest = (max(map(len, rows)) for rows in (sources, targets))
    return {
        "input_ids": torch.tensor([row + [config.pad_token_id] * (length - len(row)) for row in sources]),
        "attention_mask": torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in sources]),
        "labels": torch.tensor([row + [-100] * (longest - len(row)) for row in targets]),
    }


def train(name):
    torch.manual_seed(0)
    random, model = np.random.default_rng(0), create(name).eval()
    if name == "t5_gated":
        model.lm_head.weight = torch.nn.Parameter(torch.zeros(60, 16))
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.copy_(0.25 * torch.randn(weight.shape))
    optimizer, mean = torch.optim.AdamW(model.parameters(), RATE), 5.0
    for step in range(STEPS):
        optimizer.param_groups[0]["lr"] = RATE * min(1, (step + 1) / 50) * (1 - 0.9 * step / STEPS)
        loss = model(**batch(random, model.config)).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        mean = 0.95 * mean + 0.05 * loss.item()
        if mean < LOSSES[name]:
            return model
    raise RuntimeError(f"{name} did not learn enough: its loss is {mean}")


def diverse_texts(model):
    """Returns texts whose continuations have at least 8 distinct tokens in all cases."""
    sources = texts(np.random.default_rng(1), 2 * SOURCES)
    continuations = zip(*(theirs(model, sources, **options) for options in CASES.values()))
    return [row for row, found in zip(sources, continuations) if min(len(set(each)) for each in found) >= 8][:SOURCES]


if __name__ == "__main__":
    for name in sys.argv[1:] or LOSSES:
        folder, model = FOLDER / f"{name}_trained", train(name)
        model.save_pretrained(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)
        sources = diverse_texts(model)
        generated = {RECORDED: theirs(model, sources, **CASES[RECORDED])}
        text = json.dumps({"sources": sources, "generated": generated})
        (folder / "generated.json").write_text(re.sub(r"\], \[", "],\n[", text) + "\n")
