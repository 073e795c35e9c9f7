"""Adds the answers of an exported model to a folder of Parquet files with Apache Beam, on several cores or machines.

    pip install apache-beam  # in an environment of its own: it needs older versions of protobuf and pyarrow
    python examples/predict_beam.py --model served/1 --data texts --column text --output answers --workers 2

Each file of the folder gets a file of the same name with the same rows. The same command continues a run that was
stopped: it predicts the files that are missing. Options that are not listed here are those of Beam's runner, such as
`--runner FlinkRunner`; use folders that all machines see.
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
parser.add_argument("--workers", type=int, default=2, help="processes of this machine, each with a copy of the model")
args, options = parser.parse_known_args()

try:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions
except ImportError as error:
    sys.exit(f"This example needs Apache Beam. Run `pip install apache-beam`. Received: {error}")
try:
    predict = kt.serving.Predictor(args.model, args.column, batch_size=args.batch_size)
    job = kt.serving.FolderPredictor(predict, args.data, args.output)
    names = job.pending()
except (ImportError, OSError, ValueError) as error:
    sys.exit(f"error: {error}")
if not names:
    print("All files have answers.")
    sys.exit()

if not any(option.startswith("--runner") for option in options):
    options += ["--runner=DirectRunner", "--direct_running_mode=multi_processing"]
    options += [f"--direct_num_workers={args.workers}"]
    os.environ |= {f"TF_NUM_{kind}_THREADS": "1" for kind in ("INTRAOP", "INTEROP")}  # One process has one core.
start = time.time()
try:
    with beam.Pipeline(options=PipelineOptions(options)) as pipeline:
        pipeline | beam.Create(names) | beam.Reshuffle() | beam.Map(job)
except (RuntimeError, ValueError) as error:
    sys.exit(f"error: {error}")
seconds = time.time() - start
print(f"{len(names):,} files in {seconds:.0f} s")
