"""Adds the answers of an exported model to a folder of Parquet files with Ray Data, on several cores, GPUs or machines.

    pip install "ray[data]"
    python examples/predict_ray.py --model served/1 --data texts --column text --output answers --workers 2

Each file of the folder gets a file of the same name with the same rows. The same command continues a run that was
stopped: it predicts the files that are missing. On a cluster, set RAY_ADDRESS, and use folders that all machines see.
"""

import argparse
import os
import sys
import time

import keras_transfer as kt

parser = argparse.ArgumentParser()
parser.add_argument("--model", required=True, help="folder that `serving.export` has written")
parser.add_argument("--data", required=True, help="folder of Parquet files")
parser.add_argument("--column", default="text", help="column of the texts")
parser.add_argument("--output", required=True, help="folder for the files with answers")
parser.add_argument("--batch-size", type=int, default=64, help="texts that the model answers at once")
parser.add_argument("--workers", type=int, default=2, help="processes, each with a copy of the model")
parser.add_argument("--cpus", type=int, default=1, help="cores of each process")
parser.add_argument("--gpus", type=float, default=0, help="GPUs of each process")
args = parser.parse_args()

try:
    import ray.data
except ImportError as error:
    sys.exit(f'This example needs Ray Data. Run `pip install "ray[data]"`. Received: {error}')


class Worker:
    """Predicts files in a process of Ray, which loads the model once."""

    def __init__(self, job):
        self.job = job

    def __call__(self, batch):
        [name], rows, error = batch["item"], 0, ""
        try:
            rows = self.job(name)
        except (OSError, ValueError) as raised:  # Ray would try a mistake in the data again.
            error = str(raised)
        return {"name": [name], "rows": [rows], "error": [error]}


try:
    predict = kt.serving.Predictor(args.model, args.column, batch_size=args.batch_size)
    job = kt.serving.FolderPredictor(predict, args.data, args.output)
    names = job.pending()
except (ImportError, OSError, ValueError) as error:
    sys.exit(f"error: {error}")
if not names:
    print("All files have answers.")
    sys.exit()

# Ray starts again what was lost with a process or a machine: the file that it was writing.
threads = {f"TF_NUM_{kind}_THREADS": str(args.cpus) for kind in ("INTRAOP", "INTEROP")}
local = {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": max(os.cpu_count(), args.workers * args.cpus)}
ray.init(runtime_env={"env_vars": threads}, **local)
ray.data.DataContext.get_current().enable_progress_bars = False
files = ray.data.from_items(names, override_num_blocks=len(names)).map_batches(
    Worker,
    fn_constructor_args=[job],
    batch_size=1,
    concurrency=min(args.workers, len(names)),
    num_cpus=args.cpus,
    num_gpus=args.gpus,
    max_task_retries=3,
)
start, rows = time.time(), 0
try:
    for row in files.iter_rows():
        if row["error"]:
            sys.exit(f"error: {row['error']}")
        rows += row["rows"]
        print(f"{row['name']}: {row['rows']:,} texts", flush=True)
except ray.exceptions.RayError as error:
    sys.exit(f"error: {error}")
print(f"{rows:,} texts in {time.time() - start:.0f} s, {rows / (time.time() - start):,.0f} texts per second")
