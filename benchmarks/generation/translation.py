"""A small Transformer that learns to translate captions from English to German, beside the same model in Transformers.

    pip install -e .[benchmarks,parity,generation]
    python -m benchmarks.generation.translation --data-dir MULTI30K --results translation.jsonl

`MULTI30K` has the official raw files of Multi30k (`data/task1/raw`). The contenders begin with the same random weights
of BART's architecture and train on the same batches in the same order; the draws of dropout are their own. Lengths are
padded to a multiple (`--length-multiple`), so that a compiled step sees few shapes. BLEU is that of the translations of
test_2016_flickr, greedy or with `--num-beams`. Each run has its own process, adds a line to the results, and is not
repeated.
"""

import itertools
import statistics

from benchmarks import runs

CONTENDERS = ("keras_transfer", "transformers")
SIZES = {"epochs": 10, "pairs": 29_000, "hidden_dim": 256, "num_layers": 3, "vocabulary_size": 8000}
SIZES |= {"dropout": 0.1, "batch_size": 64, "length_multiple": 8, "num_beams": 1}


def main(arguments=None):
    parser = runs.parser(__doc__, ["multi30k"], CONTENDERS, "translation.jsonl")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    for name, value in SIZES.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    parser.add_argument("--prepared", help="folder of the prepared data of these sizes, filled if it is empty")
    args = parser.parse_args(arguments)
    sizes = {name: getattr(args, name) for name in SIZES}
    planned = runs.plan(args, CONTENDERS, [{"seed": seed} for seed in args.seeds], [sizes])
    runs.write(report, planned, "generation.translation_run", args, ("bleu", "training", "generation"))


def report(lines):
    """Returns a table with a row for each contender, and a sentence on the machine."""
    text = runs.head("contender", "seeds", "BLEU", "loss", "training, CPU s", "generation, CPU s")
    for contender, group in itertools.groupby(
        sorted(lines, key=lambda line: line["contender"]), lambda line: line["contender"]
    ):
        group = list(group)
        bleu = runs.figure(*runs.mean_and_error([line["bleu"] for line in group]))
        times = [f"{statistics.mean(line[name][1] for line in group):.1f}" for name in ("training", "generation")]
        loss = f"{statistics.mean(line['losses'][-1] for line in group):.3f}"
        text += runs.row(contender, len(group), bleu, loss, *times)
    return text + (f"\n{runs.quiet(lines)}\n" if lines else "")


if __name__ == "__main__":
    main()
