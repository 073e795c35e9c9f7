"""The structural probe on UD English EWT: seconds of both targets for all layers of MiniLM, and their scores.

The bar is 8 minutes on two idle CPU cores, with the vectors of all layers computed once for both targets. The memory is
the most that the process has held itself beyond what it held before, without pages of files.

    python -m benchmarks.analysis.structural_probe --data FOLDER

`FOLDER` contains `ud_english_ewt/`. With `--sentences N`, only the first sentences of each part are read.
"""

import argparse
import json
import pathlib
import tempfile
import time

from benchmarks.harness import OwnMemory


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--model", default="minilm-l6")
    parser.add_argument("--sentences", type=int)
    parser.add_argument("--epochs", type=int, default=20)
    args = parser.parse_args()

    import keras_transfer as kt

    data = kt.datasets.load_universal_dependencies(args.data / "ud_english_ewt", field="tree")
    train, validation, test = (
        kt.datasets.Trees(*(column[: args.sentences] for column in part)) for part in data.values()
    )
    model = kt.tasks.TextClassifier.from_pretrained(args.model, num_classes=2)
    begun = time.perf_counter()
    with OwnMemory() as memory, tempfile.TemporaryDirectory() as folder:
        for target in ("distance", "depth"):
            start = time.perf_counter()
            probe = kt.analysis.StructuralProbe(target, epochs=args.epochs)
            sweep = probe.sweep(model, train, validation, test, folder=folder, verbose=0)
            result = {"benchmark": "structural_probe", "target": target, "seconds": time.perf_counter() - start}
            print(json.dumps({**result, "rows": sweep.rows, "neighbors": sweep.neighbors}), flush=True)
            print(sweep, flush=True)
    result = {"benchmark": "structural_probe", "seconds": time.perf_counter() - begun, "GB": memory.added / 1024}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
