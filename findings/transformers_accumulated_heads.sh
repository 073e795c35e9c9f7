#!/usr/bin/env bash
# transformers 5.24.0 (accelerate 1.15.0, torch 2.13.0), Trainer(gradient_accumulation_steps=4): heads that compute
# their own mean loss get 4 times the gradient. The Trainer counts `num_items_in_batch` for every model whose
# `forward` has `**kwargs` and whose batches have `labels`, and then no longer divides the loss, although these heads
# ignore that argument. The batches of the head for questions have no `labels`, so its loss is divided.
#
# Output seen, the step of plain SGD from 4 batches of 2 rows divided by that from one batch of the same 8 rows:
#   BertForSequenceClassification 4.00
#   BertForTokenClassification 4.00
#   BertForQuestionAnswering 1.00
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m pip install -q --disable-pip-version-check --target "$folder/packages" \
  transformers==5.24.0 accelerate==1.15.0 torch==2.13.0 numpy
cat >"$folder/steps.py" <<'PYTHON'
import tempfile

import torch
import transformers
from transformers import BertConfig, Trainer, TrainingArguments

sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
config = BertConfig(vocab_size=20, **sizes, hidden_dropout_prob=0, attention_probs_dropout_prob=0)
ids = torch.randint(5, 20, (8, 6), generator=torch.Generator().manual_seed(0))
targets = {
    "BertForSequenceClassification": lambda i: {"labels": i % 2},
    "BertForTokenClassification": lambda i: {"labels": ids[i] % 2},
    "BertForQuestionAnswering": lambda i: {"start_positions": i % 6, "end_positions": (i + 2) % 6},
}
for head, target in targets.items():
    moved = []
    for rows, steps in ((8, 1), (2, 4)):
        torch.manual_seed(0)
        model = getattr(transformers, head)(config)
        before = torch.cat([p.detach().flatten().clone() for p in model.parameters()])
        with tempfile.TemporaryDirectory() as folder:
            arguments = TrainingArguments(
                folder,
                per_device_train_batch_size=rows,
                gradient_accumulation_steps=steps,
                max_steps=1,
                max_grad_norm=0.0,
                optim="sgd",
                learning_rate=0.1,
                lr_scheduler_type="constant",
                report_to=[],
                use_cpu=True,
                save_strategy="no",
                logging_strategy="no",
            )
            mask = torch.ones(6, dtype=torch.long)
            data = [{"input_ids": ids[i], "attention_mask": mask, **target(i)} for i in range(8)]
            Trainer(model, arguments, train_dataset=data).train()
        moved.append((torch.cat([p.detach().flatten() for p in model.parameters()]) - before).norm().item())
    print("ratio", head, f"{moved[1] / moved[0]:.2f}")
PYTHON
found=$(PYTHONPATH="$folder/packages" python3 "$folder/steps.py" 2>/dev/null | sed -n 's/^ratio //p')
echo "$found"
expected=$'BertForSequenceClassification 4.00\nBertForTokenClassification 4.00\nBertForQuestionAnswering 1.00'
[ "$found" = "$expected" ]
