"""One run of `real_data.py` in a process of its own: fine-tunes one model on one dataset, and prints its cost."""

from benchmarks import one_run  # first, since it records when the process starts

# ruff: isort: split

import statistics
import time

from benchmarks.fine_tuning import real_texts
from benchmarks.fine_tuning.contenders import CONTENDERS

PREDICTED = 1024
SIZES = {"sst2": 2000, "ewt": 2000}  # Where only some of the training data are used.


def main(run):
    """Does a run and returns its figures.

    Args:
        run: Dict of `dataset`, `contender`, `epochs`, `round` (the seed), `precision`, `threads`, `examples`,
            `data_dir` and `folder`, the checkpoint's.
    """
    one_run.limit_threads(run["threads"])
    data, clock = real_texts.read(run["dataset"], run["data_dir"], run["examples"], SIZES), one_run.Clock()
    contender = CONTENDERS[run["contender"]]
    options = {"precision": run["precision"]}
    test_accuracy, padded_tokens, predict = contender(
        data, run["folder"], run["epochs"], run["round"], clock, **options
    )
    accuracy = test_accuracy()
    figures = {
        **one_run.usage(),
        "first_step": clock.epochs[0][1],
        "first_step_of_fit": clock.epochs[0][1] - clock.epochs[0][0],
        "fit": clock.training[0],
        "steady_epoch": clock.steady_epoch(),
        "accuracy": accuracy,
        "padded": padded_tokens(),
    }
    texts = data.train[0]
    texts = tuple(column[:PREDICTED] for column in texts) if isinstance(texts, tuple) else texts[:PREDICTED]
    times = []
    for _ in range(4):
        begin = time.perf_counter()
        predict(texts)
        times.append(time.perf_counter() - begin)
    return {**figures, "prediction": statistics.median(times[1:])}


if __name__ == "__main__":
    one_run.answer(main)
