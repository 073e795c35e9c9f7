"""Adds the answers of an exported model to a folder of Parquet files with Spark, on several cores or machines.

    pip install pyspark  # and a Java runtime
    python examples/predict_spark.py --model served/1 --data texts --column text --output answers --workers 2

Each file of the folder gets a file of the same name with the same rows. The same command continues a run that was
stopped: it predicts the files that are missing. On a cluster, pass `--master`, and use folders that all machines see.
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
parser.add_argument("--master", help="URL of a cluster, whose configuration then says how many processes there are")
args = parser.parse_args()


def answer(frames):
    """Writes the files that data frames name, and yields the frames with the numbers of their rows.

    Args:
        frames: Iterable of `pandas.DataFrame`s with a column `id`, the places of the names in the list of files.

    Yields:
        `pandas.DataFrame`s with another column `rows`.
    """
    for frame in frames:
        yield frame.assign(rows=[job(names[place]) for place in frame["id"]])


try:
    import pyspark
    from pyspark.sql import SparkSession
except ImportError as error:
    sys.exit(f"This example needs Spark. Run `pip install pyspark`, and install a Java runtime. Received: {error}")
try:
    predict = kt.serving.Predictor(args.model, args.column, batch_size=args.batch_size)
    job = kt.serving.FolderPredictor(predict, args.data, args.output)
    names = job.pending()
except (ImportError, OSError, ValueError) as error:
    sys.exit(f"error: {error}")
if not names:
    print("All files have answers.")
    sys.exit()

# Spark starts again what was lost with a process or a machine: the file that it was writing.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
builder = SparkSession.builder.appName("predict_spark").master(args.master or f"local[{args.workers},4]")
for kind in ("INTRAOP", "INTEROP"):  # One task has one core.
    os.environ[f"TF_NUM_{kind}_THREADS"] = "1"
    builder = builder.config(f"spark.executorEnv.TF_NUM_{kind}_THREADS", "1")
spark = builder.getOrCreate()
start = time.time()
try:
    answered = spark.range(0, len(names), 1, len(names)).mapInPandas(answer, "id long, rows long").collect()
except pyspark.errors.PySparkException as error:
    sys.exit(f"error: {error}")
finally:
    spark.stop()
rows, seconds = sum(row["rows"] for row in answered), time.time() - start
print(f"{rows:,} texts in {seconds:.0f} s, {rows / seconds:,.0f} texts per second")
