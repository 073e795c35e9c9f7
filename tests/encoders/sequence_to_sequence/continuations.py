"""Cases of generation with encoder-decoders, in the words of Transformers and in ours."""

from keras_transfer.generation import BeamSearch

NEW = 24
CASES = {
    "greedy": {},
    "greedy, bigrams": {"no_repeat_ngram_size": 2},
    "greedy, trigrams": {"no_repeat_ngram_size": 3},
    "greedy, forced": {"forced_bos_token_id": 7, "forced_eos_token_id": 9, "max_new_tokens": 14},
    "greedy, min length": {"min_new_tokens": 20},
    "beams, short": {"num_beams": 4, "length_penalty": 0.6},
    "beams, long": {"num_beams": 4, "length_penalty": 2.0},
    "beams, short, early": {"num_beams": 4, "length_penalty": 0.6, "early_stopping": True},
    "beams, long, early": {"num_beams": 4, "length_penalty": 2.0, "early_stopping": True},
    "beams, long, never": {"num_beams": 4, "length_penalty": 2.0, "early_stopping": "never"},
    "beams, bigrams": {"num_beams": 4, "no_repeat_ngram_size": 2},
    "beams, trigrams, early": {"num_beams": 4, "no_repeat_ngram_size": 3, "early_stopping": True},
    "beams, forced": {"num_beams": 4, "forced_bos_token_id": 7, "forced_eos_token_id": 9, "max_new_tokens": 14},
    "beams, min length": {"num_beams": 4, "min_new_tokens": 20},
    "beams, all": {
        "num_beams": 4,
        "length_penalty": 0.6,
        "early_stopping": True,
        "no_repeat_ngram_size": 2,
        "min_new_tokens": 16,
        "forced_bos_token_id": 7,
        "forced_eos_token_id": 9,
        "max_new_tokens": 20,
    },
}
RECORDED = "beams, all"
_NAMES = {
    "no_repeat_ngram_size": "no_repeat_ngram",
    "forced_bos_token_id": "forced_first",
    "forced_eos_token_id": "forced_last",
}
_OF_BEAMS = ("num_beams", "length_penalty", "early_stopping")


def ours(model, sources, **options):
    """Returns what our task writes, given the arguments of Transformers."""
    beams = {name: options.pop(name) for name in _OF_BEAMS if name in options}
    options = {"max_new_tokens": NEW, **{_NAMES.get(name, name): value for name, value in options.items()}}
    sampler = BeamSearch(**beams) if beams else "greedy"
    return model.generate(sources, batch_size=len(sources), sampler=sampler, **options)


def theirs(model, sources, **options):
    """Returns what a model of Transformers writes. The sources are one batch."""
    import torch

    pad, end, length = model.config.pad_token_id, model.config.eos_token_id, max(map(len, sources))
    ids = torch.tensor([row + [pad] * (length - len(row)) for row in sources])
    mask = torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in sources])
    options = {"max_new_tokens": NEW, "num_beams": 1, "do_sample": False, **options}
    with torch.no_grad():
        rows = model.generate(input_ids=ids, attention_mask=mask, **options)[:, 1:].tolist()
    return [row[: row.index(end) + 1] if end in row else row[: options["max_new_tokens"]] for row in rows]


def assert_diverse(rows):
    """A model that always writes the same, or repeats itself, must not pass."""
    assert len(rows) == 50 and len(set(map(tuple, rows))) >= 45 and min(len(set(row)) for row in rows) >= 8
