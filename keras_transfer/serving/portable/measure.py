"""Runs the export of a folder in a process of its own, without this library, and writes its outputs and times.

python measure.py FOLDER TEXTS.json OUTPUT RESULT.npz BATCH
"""

import importlib
import json
import pathlib
import statistics
import sys
import time

import numpy as np


def main(folder, texts, output, result, batch):
    """Writes the ids and an output of each row, the places of words, and the times of 1 text and of a batch.

    Arrays of several rows are concatenated, and their sizes are written, too.
    """
    sys.path.insert(0, folder)
    predict = importlib.import_module("predict")
    texts, batch = json.loads(pathlib.Path(texts).read_text("utf-8")), int(batch)
    model = predict.Model(num_threads=1)
    groups = model.encode(texts)
    rows = [row for rows in groups for row in rows]
    by_row = {"ids": [row.ids for row in rows], "output": model.run(rows, output, batch)}
    found = {name: np.concatenate(values) for name, values in by_row.items()}
    found |= {f"{name} sizes": [len(value) for value in values] for name, values in by_row.items()}
    if model.facts["answers"] == "words":
        limit, before, places = model.facts["max_length"], 0, []
        for rows in groups:
            places += [(before + row, place) for row, place in predict.word_places(rows, limit)]
            before += len(rows)
        found["places"] = places
    for part in (texts[:1], (texts * batch)[:batch]):
        found[f"milliseconds_of_{len(part)}"] = 1000 * _median_time(lambda part=part: model.predict(part, batch))
    np.savez(result, **found)


def _median_time(call):
    times = []
    while len(times) < 4 or (sum(times) < 0.5 and len(times) < 30):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])  # The first one is slower.


if __name__ == "__main__":
    main(*sys.argv[1:])
