#!/usr/bin/env bash
# peft 0.21.2 (transformers 5.24.0, torch 2.13.0): the adapters of a classifier over a pretrained encoder are saved
# with the layers that are named `classifier` or `score`, and no others. The classifiers of DeBERTa v2 and ModernBERT
# have a second new layer of random weights (`pooler`, `head`), so that a folder that PEFT has written gives other
# logits when it is loaded over the same encoder. DistilBERT's `pre_classifier` is saved, because its name ends in
# `classifier`; for the same reason `target_modules="all-linear"` is a TypeError on DistilBERT.
#
# Output seen, the largest difference between the logits of a model and of the same model loaded again:
#   BertForSequenceClassification 0.00
#   DistilBertForSequenceClassification 0.00
#   DebertaV2ForSequenceClassification 2.58
#   ModernBertForSequenceClassification 1.88
#   DistilBERT with "all-linear": modules_to_save cannot be applied to modules of type <class 'peft....layer.Linear'>
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m pip install -q --disable-pip-version-check --target "$folder/packages" \
  peft==0.21.2 transformers==5.24.0 torch==2.13.0 numpy
cat >"$folder/reload.py" <<'PYTHON'
import sys

import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
ids = torch.arange(2, 8)[None]
sizes = {"vocab_size": 20, "initializer_range": 0.5}
others = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
distilbert = {"dim": 8, "n_layers": 1, "n_heads": 2, "hidden_dim": 16}
special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 1, "cls_token_id": 1, "sep_token_id": 1}
settings = {
    "Bert": (others, ["query", "value"]),
    "DistilBert": (distilbert, ["q_lin", "v_lin"]),
    "DebertaV2": (others, ["query_proj", "value_proj"]),
    "ModernBert": (others | special, ["Wqkv"]),
}


def classifier(name, seed):
    torch.manual_seed(seed)
    return getattr(transformers, f"{name}ForSequenceClassification").from_pretrained(f"{sys.argv[1]}/{name}")


for name, (own, targets) in settings.items():
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**sizes, **own)
    getattr(transformers, f"{name}Model")(config).save_pretrained(f"{sys.argv[1]}/{name}")
    lora = LoraConfig(task_type="SEQ_CLS", target_modules=targets)
    model = get_peft_model(classifier(name, 1), lora).eval()
    model.save_pretrained(f"{sys.argv[1]}/{name}-adapters")
    again = PeftModel.from_pretrained(classifier(name, 2), f"{sys.argv[1]}/{name}-adapters").eval()
    difference = (model(ids).logits - again(ids).logits).abs().max().item()
    print(f"{name}ForSequenceClassification {difference:.2f}")
    assert (difference == 0) == (name in ("Bert", "DistilBert")), name
try:
    get_peft_model(classifier("DistilBert", 1), LoraConfig(task_type="SEQ_CLS", target_modules="all-linear"))
except TypeError as error:
    print('DistilBERT with "all-linear":', error)
else:
    raise SystemExit("the behavior has changed")
PYTHON
PYTHONPATH="$folder/packages" python3 -W ignore "$folder/reload.py" "$folder"
