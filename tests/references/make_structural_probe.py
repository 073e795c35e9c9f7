"""Writes structural_probe.npz: what the code of Hewitt and Manning (2019) computes for random vectors and trees.

git clone https://github.com/john-hewitt/structural-probes
python -m tests.references.make_structural_probe structural-probes
"""

import pathlib
import re
import sys
import tempfile
import types
from collections import namedtuple

import numpy as np

Observation = namedtuple("Observation", ["sentence", "xpos_sentence", "head_indices"])
LENGTHS, DIM, RANK = (5, 9, 7, 9, 1), 6, 4


def random_heads(random, length):
    """Returns the heads of a random tree."""
    order = random.permutation(length)
    heads = np.zeros(length, int)
    for place, word in enumerate(order[1:], 1):
        heads[word] = order[random.integers(place)] + 1
    return heads


def main(folder):
    sys.path.insert(0, str(pathlib.Path(folder) / "structural-probes"))
    sys.modules["seaborn"] = types.SimpleNamespace(set=lambda **_: None)  # Their plots are not drawn.
    import loss
    import probe
    import reporter
    import task
    import torch

    torch.manual_seed(0)
    random = np.random.default_rng(0)
    arguments = {"probe": {"maximum_rank": RANK}, "model": {"hidden_dim": DIM}, "device": "cpu"}
    vectors = torch.tensor(3 + random.normal(size=(len(LENGTHS), max(LENGTHS), DIM)), dtype=torch.float32)
    lengths = torch.tensor(LENGTHS)
    heads = [random_heads(random, length) for length in LENGTHS]
    tags = [np.where(random.random(length) < 0.2, ",", "NN").tolist() for length in LENGTHS]
    trees = [Observation(["w"] * len(own), own_tags, own.tolist()) for own, own_tags in zip(heads, tags)]
    found = {
        "vectors": vectors.numpy(),
        "heads": np.stack([np.pad(own, (0, max(LENGTHS) - len(own)), constant_values=-1) for own in heads]),
        "keep": np.stack([np.pad(np.array(own) == "NN", (0, max(LENGTHS) - len(own))) for own in tags]),
        "lengths": np.array(LENGTHS),
    }
    kinds = {
        "distance": (probe.TwoWordPSDProbe, loss.L1DistanceLoss, task.ParseDistanceTask, reporter.WordPairReporter),
        "depth": (probe.OneWordPSDProbe, loss.L1DepthLoss, task.ParseDepthTask, reporter.WordReporter),
    }
    for kind, (make_probe, make_loss, labels_of, make_reporter) in kinds.items():
        own = make_probe(arguments)
        labels = torch.full((len(LENGTHS), *[max(LENGTHS)] * (2 if kind == "distance" else 1)), -1.0)
        for row, (tree, length) in enumerate(zip(trees, LENGTHS)):
            labels[(row, *[slice(length)] * (labels.ndim - 1))] = labels_of.labels(tree)
        predicted = own(vectors)
        value, _ = make_loss(arguments)(predicted, labels, lengths)
        value.backward()
        found |= {
            f"{kind}_kernel": own.proj.detach().numpy(),
            f"{kind}_labels": labels.numpy(),
            f"{kind}_predicted": predicted.detach().numpy().copy(),  # Their code for roots overwrites it.
            f"{kind}_loss": value.detach().numpy(),
            f"{kind}_gradient": own.proj.grad.numpy(),
        }
        with tempfile.TemporaryDirectory() as root:
            settings = {"reporting": {"reporting_methods": [], "root": root}}
            report = make_reporter(settings)
            data = ([predicted.detach()], [(vectors, labels, lengths, [(tree, None) for tree in trees])], "test")
            report.report_spearmanr(*data)
            found[f"{kind}_spearman"] = np.loadtxt(pathlib.Path(root) / "test.spearmanr-5_50-mean")
            if kind == "distance":
                report.report_uuas_and_tikz(*data)
                found["uuas"] = np.loadtxt(pathlib.Path(root) / "test.uuas")
                edges = [reporter.prims_matrix_to_edges(predicted[1].detach(), None, tags[1])]
                edges.append(reporter.prims_matrix_to_edges(labels[1], None, tags[1]))
                found |= {"edges_predicted": np.array(edges[0]), "edges_gold": np.array(edges[1])}
            else:
                report.report_root_acc(*data)
                written = (pathlib.Path(root) / "test.root_acc").read_text()
                found["root_accuracy"] = np.array(float(re.search(r"[0-9.]+", written)[0]))  # "tensor(0.4000)"
    np.savez(pathlib.Path(__file__).with_name("structural_probe.npz"), **found)


if __name__ == "__main__":
    main(sys.argv[1])
