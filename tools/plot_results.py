"""Draws the differences of methods from full fine-tuning, with their intervals, from docs/benchmarks/results.

    python -m tools.plot_results    # writes docs/benchmarks/trec6.png and docs/benchmarks/sst2.png

The runs are those of `python -m benchmarks.fine_tuning.methods`, which chooses the learning rate of each method on the
dev data with the first seed. Of the variants of a method that were trained with all seeds, this one is drawn.
"""

import argparse
import json
import pathlib

import numpy as np

from benchmarks.fine_tuning.methods import rate_of
from keras_transfer.experiments import Comparison

PAGES = pathlib.Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
FURTHEST = 10  # points from the baseline that are drawn


def runs_of(path):
    """Returns a dict from methods to the results of the chosen variant, in percent, in the order of the seeds.

    It is the one with the most seeds. Of several, it is the one with the best score on the dev data in the run of the
    first seed, and of equal ones the one with the lowest learning rate, as in `compare` with a grid of rising rates.
    """
    variants = {}
    for line in map(json.loads, path.read_text("utf-8").splitlines()):
        if "method" in line:
            percent = {part: 100 * line[part] for part in ("validation", "test")}
            variants.setdefault(line["method"], {}).setdefault(line["definition"], []).append({**line, **percent})
    found = {}
    for method, tried in variants.items():
        rising = sorted(tried, key=rate_of)
        ordered = [sorted(tried[definition], key=lambda run: run["seed"]) for definition in rising]
        found[method] = max(ordered, key=lambda runs: (len(runs), runs[0]["validation"]))
    return found


def draw(path, baseline="full"):
    """Returns the figure for a file of runs, with the best methods at the top."""
    runs = runs_of(path)
    seeds = [run["seed"] for run in runs[baseline]]
    runs = {method: found for method, found in runs.items() if [run["seed"] for run in found] == seeds}
    means = {method: np.mean([run["test"] for run in found]) for method, found in runs.items()}
    far = {method: mean - means[baseline] for method, mean in means.items() if means[baseline] - mean > FURTHEST}
    order = sorted(set(means) - set(far), key=lambda method: -means[method])
    comparison = Comparison({method: runs[method] for method in order}, "accuracy", "max", baseline)
    figure = comparison.plot(differences=True)
    axes = figure.axes[0]
    outside = "".join(f"\nnot shown: {method}, {difference:+.1f}" for method, difference in far.items())
    axes.set_xlabel(
        f"difference of accuracy from {baseline!r} in points, mean of {len(seeds)} seeds with its 95% interval"
        + outside,
        fontsize="small",
    )
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=pathlib.Path, default=PAGES / "results", help="folder of the runs")
    parser.add_argument("--output", type=pathlib.Path, default=PAGES, help="folder for the pictures")
    args = parser.parse_args()
    for name in ("trec6", "sst2"):
        draw(args.results / f"{name}.jsonl").savefig(args.output / f"{name}.png", dpi=90)


if __name__ == "__main__":
    main()
