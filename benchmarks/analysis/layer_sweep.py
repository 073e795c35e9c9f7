"""Time and memory of a sweep over the layers of MiniLM for parts of speech, with all controls.

    python -m benchmarks.analysis.layer_sweep --data-dir shared/data/ud_english_ewt
    python -m benchmarks.analysis.layer_sweep --data-dir DIR --rivals PYTHON  # then frozen fine-tuning in Transformers

`--rivals` is an interpreter with torch and transformers. It trains a linear tagger on one frozen layer, as
`benchmarks.analysis.layer_sweep_transformers` says, and the time of all layers is that of one, times their number.
`--rows` reads only so many sentences. The memory is what the process has itself, without the mapped files of the hidden
states, above what it has when the model is loaded.
"""

import argparse
import pathlib
import subprocess
import tempfile
import time

import keras_transfer as kt
from benchmarks.harness import OwnMemory

HERE = pathlib.Path(__file__).parent


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-dir", required=True, help="folder with the treebank's three files")
    parser.add_argument("--field", default="upos")
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--rivals", default=None, help="an interpreter with torch and transformers")
    args = parser.parse_args()
    data = kt.datasets.load_universal_dependencies(args.data_dir, field=args.field)
    parts = [[column[: args.rows] for column in data[name]] for name in ("train", "validation", "test")]
    model = kt.tasks.TokenClassifier.from_pretrained("minilm-l6", label_names=data.label_names)
    options = {"seeds": args.seeds, "epochs": args.epochs}
    seconds = {}
    for name, controls in (("without description lengths and random weights", ["selectivity"]), ("with all", None)):
        with tempfile.TemporaryDirectory() as folder, OwnMemory() as memory:
            start = time.time()
            sweep = kt.analysis.Probe(controls=controls, **options).sweep(model, *parts, folder=folder, verbose=0)
            seconds[name] = time.time() - start
        print(f"{name}: {seconds[name]:.1f} s, {memory.added:.2f} GB above the model", flush=True)
    print(sweep)
    if args.rivals:
        script = [args.rivals, HERE / "layer_sweep_transformers.py", "--data-dir", args.data_dir]
        rows = [] if args.rows is None else ["--rows", str(args.rows)]
        done = subprocess.run([*map(str, script), *rows], check=True, capture_output=True, text=True)
        print(done.stdout, end="")
        one = float(done.stdout.split("seconds=")[1].split()[0])
        whole = one * len(sweep.mix[0])
        print(f"{len(sweep.mix[0])} layers in Transformers: {whole:.0f} s")
        for name, own in seconds.items():
            print(f"the sweep {name} takes {own / whole:.3f} of it")


if __name__ == "__main__":
    main()
