"""Makes objectives.npz and objectives.json: what the original noise of T5, BART, MASS and XLM does, and what it drew.

    python tests/references/make_objectives.py FOLDER

Needs tensorflow and torch. FOLDER contains these files of the original repositories, under these names:

- `t5.py`: t5/data/preprocessors.py of google-research/text-to-text-transfer-transformer, e081111
- `bart.py`: fairseq/data/denoising_dataset.py of facebookresearch/fairseq, 3d262bb
- `mass.py`: MASS-summarization/mass/masked_dataset.py of microsoft/MASS, 779f22f
- `xlm_trainer.py`, `xlm_utils.py`: xlm/trainer.py and xlm/utils.py of facebookresearch/XLM, cd281d3

Their functions run as they are. Only the modules that they import are replaced: by stand-ins that draw with NumPy and
write down what they drew.
"""

import ast
import contextlib
import json
import math
import pathlib
import sys
import types
import zlib

import numpy as np

HERE = pathlib.Path(__file__).parent
LENGTHS, COUNTED = 600, 4096
T5 = {"default": (0.15, 3.0), "many": (0.5, 8.0)}
SENTINELS = np.arange(32099, 31799, -1)
WORDS, STOP, MASK, SIZE = 900, 6, 4, 5000  # Random ids are from 1000 on, and all different.
BART = {
    "bart": {"mask": 0.3, "permute_sentences": 1.0, "mask_random": 0.1},
    "insertions": {"mask": 0.3, "poisson_lambda": 0.7, "mask_random": 0.5, "insert": 0.2, "rotate": 1.0},
    "deletion": {"mask": 0.4, "replace_length": 0, "permute_sentences": 0.5, "mask_random": 0.0},
    "each token": {"mask": 0.5, "replace_length": -1, "mask_random": 0.4, "poisson_lambda": 2.0},
    "words": {"mask": 0.3, "mask_length": "word", "replace_length": -1, "mask_random": 0.5},
    "tokens": {"mask": 0.15, "mask_length": "subword", "mask_random": 0.1, "rotate": 1.0, "permute_sentences": 1.0},
}


def run_functions(path, names, namespace):
    """Runs the definitions of some functions or classes of a file, and returns their namespace."""
    tree = ast.parse(path.read_text("utf-8"))
    found = {node.name: node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    exec(compile(ast.Module([found[name] for name in names], []), path.name, "exec"), namespace)
    return types.SimpleNamespace(**namespace)


class StandIn:
    """A module some of whose names are replaced."""

    def __init__(self, module, **names):
        vars(self).update(names, _module=module)

    def __getattr__(self, name):
        return getattr(self._module, name)


def row_of(length):
    return (np.arange(length) * 7 % 1000 + 3).astype("int32")


# === T5 ===


def make_t5(path):
    import tensorflow as tf

    draws, bounds = np.random.default_rng(0), []

    def uniform(shape, minval, maxval, dtype, seed):
        bounds.append((int(minval), int(maxval) - 1))
        return minval

    stateless = StandIn(tf.random, stateless_uniform=uniform)
    names = {
        "tf": StandIn(tf, random=stateless),
        "seqio": types.SimpleNamespace(stateless_shuffle=lambda value, seed: draws.permutation(value.numpy())),
        "gin": types.SimpleNamespace(configurable=lambda: lambda function: function),
    }
    t5 = run_functions(
        path,
        [
            *("random_spans_noise_mask", "random_prefix_noise_mask", "sentinel_id"),
            *("noise_span_to_unique_sentinel", "nonnoise_span_to_unique_sentinel"),
        ],
        names,
    )
    vocabulary, arrays = types.SimpleNamespace(vocab_size=int(SENTINELS[0]) + 1), {}

    def digests(masks):
        pairs = []
        for mask in masks:
            row = tf.constant(row_of(len(mask)))
            sides = (t5.noise_span_to_unique_sentinel, t5.nonnoise_span_to_unique_sentinel)
            pairs.append(
                [zlib.crc32(side(row, tf.constant(mask), vocabulary, None).numpy().tobytes()) for side in sides]
            )
        return np.array(pairs, "uint32")

    for name, (density, mean) in T5.items():
        masks = [t5.random_spans_noise_mask(n, density, [0, 1], mean).numpy() for n in range(1, COUNTED + 1)]
        spans = [(mask & ~np.concatenate([[False], mask[:-1]])).sum() for mask in masks]
        arrays[f"counts_{name}"] = np.array([[mask.sum() for mask in masks], spans], "int16")
        arrays[f"masks_{name}"] = np.packbits(np.concatenate(masks[:LENGTHS]))
        arrays[f"digests_{name}"] = digests(masks[:LENGTHS])
    masks = [draws.random(length) < 0.4 for length in range(1, 201)]
    arrays["masks_any"], arrays["digests_any"] = np.packbits(np.concatenate(masks)), digests(masks)
    for name, density in {"half": 0.5, "quarter": 0.25}.items():
        bounds.clear()
        for length in range(1, LENGTHS + 1):
            t5.random_prefix_noise_mask(length, density, [0])
        arrays[f"bounds_{name}"] = np.array(bounds, "int16")
    np.savez_compressed(HERE / "objectives.npz", **arrays)


# === BART ===


class Vocabulary:
    pad_index, nspecial = 1, 4

    def __len__(self):
        return SIZE

    def bos(self):
        return 0

    def eos(self):
        return 2

    def index(self, token):
        return {"13": STOP, "[MASK]": MASK}[token]


def make_bart(path):
    import torch

    draws, drawn = np.random.default_rng(1), {}

    def note(kind, values):
        drawn.setdefault(kind, []).append(np.asarray(values).tolist())
        return values

    def permutation(count):
        return torch.tensor(note("permutation", draws.permutation(count)))

    def integers(low, high, size):
        first = 1000 + sum(len(values) for values in drawn.get("ids", []))
        return torch.tensor(note("ids", first + np.arange(int(size[0]))))

    def floats(given):
        if not isinstance(given, int):
            return torch.FloatTensor(given)

        def uniform():
            return torch.tensor(note("random", draws.random(given).round(3) + 0.0005), dtype=torch.float32)

        return types.SimpleNamespace(uniform_=uniform)

    numpy = StandIn(
        np,
        random=types.SimpleNamespace(
            random=lambda: note("rotation", 0.5),
            randint=lambda low, high: note("offset", int(draws.integers(low, high))),
        ),
    )
    names = {
        "torch": StandIn(torch, randperm=permutation, randint=lambda low, high, size: integers(low, high, size)),
        "np": numpy,
        "math": math,
        "FairseqDataset": object,
        "data_utils": types.SimpleNamespace(numpy_seed=lambda *seeds: contextlib.nullcontext()),
    }
    names["torch"].FloatTensor = floats
    original = run_functions(path, ["DenoisingDataset"], names).DenoisingDataset

    class Noting(original):
        def word_starts(self, source):
            self.masked = source  # Masks are written into it before tokens are deleted from a copy.
            return super().word_starts(source)

        def add_insertion_noise(self, tokens, p):
            before = len(drawn.get("ids", []))
            found = super().add_insertion_noise(tokens, p)
            drawn.setdefault("inserted", []).extend(drawn.get("ids", [])[before:])
            return found

    def lengths_of(probabilities):
        values = np.asarray(probabilities, "float64")

        def sample(sample_shape):
            return torch.tensor(note("lengths", draws.choice(len(values), sample_shape[0], p=values / values.sum())))

        return types.SimpleNamespace(sample=sample)

    word_starts, cases = draws.random(WORDS) < 0.6, []
    starts = np.concatenate([word_starts, np.ones(SIZE - WORDS, bool)]).astype("uint8")
    for name, changes in BART.items():
        options = {"insert": 0.0, "rotate": 0.0, "permute_sentences": 0.0, "replace_length": 1}
        options = {**options, "mask_length": "span-poisson", "poisson_lambda": 3.5, **changes}
        whole = torch.tensor(starts) if options["mask_length"] != "subword" else None
        for length in [1, 2, 3, 4, *draws.integers(5, 45, 20)]:
            row = draws.choice(np.arange(7, WORDS), length)
            row[draws.random(length) < 0.15] = STOP
            tokens = torch.tensor([0, *row, 2])
            dataset = Noting([tokens.clone()], None, Vocabulary(), MASK, whole, False, 0, bpe="gpt2", **options)
            if dataset.mask_span_distribution is not None:
                dataset.mask_span_distribution = lengths_of(dataset.mask_span_distribution.probs)
            drawn.clear()
            item = dataset[0]
            assert item["source"][0] == 0 and item["source"][-1] == 2
            assert item["target"].tolist() == tokens.tolist()
            case = {"name": name, "row": row.tolist(), "source": item["source"][1:-1].tolist(), "drawn": dict(drawn)}
            # The random ids at the places of the row in which they stood before anything was deleted.
            case["drawn"]["ids"] = [int(value) if value >= 1000 else 0 for value in dataset.masked[1:-1]]
            cases.append(case)
    return {"word_starts": np.flatnonzero(word_starts).tolist(), "options": BART, "cases": cases}


# === MASS and XLM ===


def make_mass(path):
    import torch

    torch.manual_seed(0)
    draws, drawn = np.random.default_rng(2), {}

    def choice(values, count):
        index = int(draws.integers(len(values)))
        drawn["starts"].append(index)
        return values[index : index + 1]

    def multinomial(probabilities, count, replacement):
        drawn["kinds"] = draws.choice(3, count, p=[0.5, 0.2, 0.3]).tolist()
        return torch.tensor(drawn["kinds"])

    names = {
        "torch": StandIn(torch, multinomial=multinomial),
        "np": StandIn(np, random=types.SimpleNamespace(choice=choice)),
        "LanguagePairDataset": object,
    }
    dataset_class = run_functions(path, ["MaskedLanguagePairDataset"], names).MaskedLanguagePairDataset
    cases = []
    for rate, block in ((0.5, 64), (0.3, 10)):
        for length in (5, 6, 17, 40, 64, 65, 68, 70):
            drawn.clear()
            drawn["starts"] = []
            row = draws.integers(7, WORDS, length)
            data = dataset_class([torch.tensor(row)], [length], Vocabulary(), mask_prob=rate, block_size=block)
            item = {name: np.asarray(value).tolist() for name, value in data[0].items() if name != "id"}
            cases.append({"rate": rate, "block": block, "row": row.tolist(), "drawn": dict(drawn), **item})
            assert len(cases[-1]["source"]) == length
    return cases


def make_xlm(trainer, utils):
    import torch

    draws, drawn = np.random.default_rng(3), {}

    def rand(*shape):
        drawn["chosen"] = draws.random(shape).round(3) + 0.0005
        return drawn["chosen"]

    def multinomial(probabilities, count, replacement):
        drawn["kinds"] = draws.choice(3, count, p=[0.5, 0.2, 0.3]).tolist()
        return torch.tensor(drawn["kinds"])

    names = {
        # New versions of torch do not take masks of integers.
        "torch": StandIn(torch, multinomial=multinomial, from_numpy=lambda mask: torch.from_numpy(mask).bool()),
        "np": StandIn(np, random=types.SimpleNamespace(rand=rand)),
        "math": math,
    }
    mask_out = run_functions(trainer, ["mask_out"], names).mask_out
    concat = run_functions(utils, ["concat_batches"], {"torch": torch}).concat_batches
    params = types.SimpleNamespace(
        sample_alpha=0, word_pred=0.3, pad_index=1, fp16=False, n_words=SIZE, mask_index=MASK, pred_probs=None
    )
    cases = []
    for lengths in ((1, 1), (4, 6), (9, 3), (12, 15)):
        rows = [np.array([2, *draws.integers(7, WORDS, length), 2]) for length in lengths]
        columns = [torch.tensor(row)[:, None] for row in rows]
        sizes = [torch.tensor([len(row)]) for row in rows]
        joined, _, positions, languages = concat(columns[0], sizes[0], 5, columns[1], sizes[1], 9, 1, 2, True)
        source, targets, mask = mask_out(types.SimpleNamespace(params=params), joined.clone(), None)
        cases.append(
            {
                "rows": [row.tolist() for row in rows],
                "token_ids": source[:, 0].tolist(),
                "positions": positions[:, 0].tolist(),
                "language_ids": languages[:, 0].tolist(),
                "mask_positions": np.flatnonzero(mask[:, 0]).tolist(),
                "targets": targets.tolist(),
                "drawn": {"chosen": drawn["chosen"][:, 0].tolist(), "kinds": drawn["kinds"]},
            }
        )
    return cases


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    make_t5(folder / "t5.py")
    found = {
        "bart": make_bart(folder / "bart.py"),
        "mass": make_mass(folder / "mass.py"),
        "xlm": make_xlm(folder / "xlm_trainer.py", folder / "xlm_utils.py"),
    }
    (HERE / "objectives.json").write_text(json.dumps(found, separators=(",", ":")) + "\n", "utf-8")
