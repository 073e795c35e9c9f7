"""Writes edge_probe.npz: what the edge probe of jiant 1 (Tenney et al. 2019) computes for random vectors and spans.

git clone https://github.com/lena-voita/description-length-probing  # with jiant 1, which other checkouts lack
git clone https://github.com/allenai/allennlp && git -C allennlp checkout 030ef755a  # 0.8.4, which it requires
python -m tests.references.make_edge_probe description-length-probing allennlp
"""

import pathlib
import sys
import types

import numpy as np

CLASSES, DIM, WIDTH, LENGTH = 4, 6, 5, 7


def stand_in(name, path=None, **values):
    """Puts a module in place of a package, whose own `__init__` would import what is not needed here."""
    module = types.ModuleType(name)
    module.__dict__.update(values, **({} if path is None else {"__path__": [str(path)]}))
    sys.modules[name] = module


class Registrable:
    """A class whose subclasses have names, which are not used."""

    @staticmethod
    def register(name):
        return lambda cls: cls


def main(jiant, allennlp):
    import torch

    jiant, allennlp = pathlib.Path(jiant, "jiant", "jiant"), pathlib.Path(allennlp, "allennlp")
    for name in ("modules", "modules/span_extractors", "nn", "training", "training/metrics", "."):
        stand_in(".".join(["allennlp", *pathlib.Path(name).parts]), allennlp / name)
    stand_in("allennlp.common", allennlp / "common")
    stand_in("allennlp.common.registrable", Registrable=Registrable)
    stand_in("allennlp.common.checks", ConfigurationError=ValueError)
    stand_in("overrides", overrides=lambda method: method)
    from allennlp.modules.span_extractors.self_attentive_span_extractor import SelfAttentiveSpanExtractor
    from allennlp.training.metrics.f1_measure import F1Measure

    extractors = sys.modules["allennlp.modules.span_extractors"]
    extractors.SelfAttentiveSpanExtractor, extractors.EndpointSpanExtractor = SelfAttentiveSpanExtractor, None
    for name in (".", "modules", "tasks"):
        stand_in(".".join(["jiant", *pathlib.Path(name).parts]), jiant / name)
    sys.modules["jiant"].BayesianLayers = None
    stand_in("jiant.tasks.edge_probing", EdgeProbingTask=None)
    from jiant.modules.edge_probing import EdgeClassifierModule

    torch.manual_seed(0)
    random, found = np.random.default_rng(0), {}
    vectors = random.normal(size=(3, LENGTH, DIM)).astype("float32")
    settings = {"cls_loss_fn": "sigmoid", "cls_span_pooling": "attn", "cls_type": "mlp", "dropout": 0.0}
    settings |= {"edgeprobe_cnn_context": 0, "edgeprobe_symmetric": False, "d_hid": WIDTH}
    spans = np.array([[[0, 1], [2, 5]], [[1, 4], [4, 7]], [[6, 7], [0, 7]]])  # Ends are exclusive.
    labels = np.array([[1, 0, 0, 1], [0, 0, 1, 0], [0, 0, 0, 0]])
    for sides in (1, 2):
        task = types.SimpleNamespace(single_sided=sides == 1, n_classes=CLASSES, f1_scorer=F1Measure(1))
        task.mcc_scorer = task.acc_scorer = task.xent_scorer = lambda *_: None
        module = EdgeClassifierModule(task, DIM, settings)
        with torch.no_grad():
            for weight in module.parameters():
                weight.copy_(torch.tensor(random.normal(size=weight.shape)))
        batch = {"labels": torch.tensor(labels)[:, None]}
        for side in range(sides):
            batch[f"span{side + 1}s"] = torch.tensor(spans[:, side] - [0, 1])[
                :, None
            ]  # The field's ends are inclusive.
        out = module(batch, torch.tensor(vectors), torch.ones(3, LENGTH, 1), task, predict=False)
        names = {name: value.detach().numpy() for name, value in module.named_parameters()}
        found |= {f"{sides}/{name}": value for name, value in names.items()}
        found |= {
            f"{sides}/logits": out["logits"][:, 0].detach().numpy(),
            f"{sides}/loss": out["loss"].detach().numpy(),
        }
        found[f"{sides}/f1"] = task.f1_scorer.get_metric()[2]
    found |= {"vectors": vectors, "spans": spans, "labels": labels}
    np.savez(pathlib.Path(__file__).with_name("edge_probe.npz"), **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
