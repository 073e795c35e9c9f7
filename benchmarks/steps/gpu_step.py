"""Training and prediction of a BERT classifier on a GPU: keras_transfer on JAX against Transformers with torch.compile.

    pip install jax[cuda12] "keras>=3.15,<3.16" torch transformers && pip install --no-deps .
    python -m benchmarks.steps.gpu_step

BERT-base, 64 texts of 128 token ids, bfloat16 (weights and optimizer float32), AdamW, dropout 0.1 in both.
keras_transfer runs `fit` and `predict` with `mixed_bfloat16`, Transformers a plain loop with autocast, sdpa attention
and a fused optimizer. TensorFlow is not needed. After the ratios, the script prints the fraction that each contender
reaches of its rate with one large bfloat16 matmul. Without a GPU, it prints a message and stops. `--cpu` runs a tiny
model on the CPU, to try the script.
"""

import os
import subprocess
import sys

import numpy as np

from benchmarks import harness

STEPS = 20
GPU = {"vocabulary": 30522, "layers": 12, "dim": 768, "batch": 64, "length": 128, "matmul": 8192}
CPU = {"vocabulary": 2000, "layers": 1, "dim": 64, "batch": 2, "length": 16, "matmul": 256}
HEAD_DIM = 64


def data(cpu):
    size, random = CPU if cpu else GPU, np.random.default_rng(0)
    token_ids = random.integers(1000, size["vocabulary"], (STEPS * size["batch"], size["length"])).astype("int32")
    return token_ids, random.integers(0, 2, len(token_ids)).astype("int32")


def keras_transfer(cpu):
    os.environ |= {"KERAS_BACKEND": "jax", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    import jax

    import keras_transfer as kt

    size = CPU if cpu else GPU
    layers, dim, batch = size["layers"], size["dim"], size["batch"]
    encoder = kt.encoders.BertEncoder(
        size["vocabulary"],
        num_layers=layers,
        num_heads=dim // HEAD_DIM,
        hidden_dim=dim,
        intermediate_dim=4 * dim,
        activation="gelu_tanh",
        dtype="mixed_bfloat16",
    )
    model = kt.tasks.TextClassifier(encoder, num_classes=2, pooling="pooled")
    model.compile(metrics=[])  # AdamW, a rate of 5e-5
    token_ids, labels = data(cpu)
    inputs = {"token_ids": token_ids, "segment_ids": np.zeros_like(token_ids), "padding_mask": np.ones_like(token_ids)}
    square = jax.random.normal(jax.random.key(0), (size["matmul"], size["matmul"]), "bfloat16")
    multiply = jax.jit(lambda x: x @ x)

    def matmul():
        for _ in range(STEPS):
            product = multiply(square)
        product.block_until_ready()

    return {
        "training": lambda: model.fit(inputs, labels, batch_size=batch, shuffle=False, verbose=0),
        "prediction": lambda: model.predict(inputs, batch_size=batch, verbose=0),
        "matmul": matmul,
    }


def transformers(cpu):
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    size, device = CPU if cpu else GPU, "cpu" if cpu else "cuda"
    config = BertConfig(
        vocab_size=size["vocabulary"],
        hidden_size=size["dim"],
        num_hidden_layers=size["layers"],
        num_attention_heads=size["dim"] // HEAD_DIM,
        intermediate_size=4 * size["dim"],
        hidden_act="gelu_pytorch_tanh",
        num_labels=2,
        attn_implementation="sdpa",
    )
    model = BertForSequenceClassification(config).to(device)
    compiled = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), 5e-5, fused=True)
    token_ids, labels = data(cpu)
    token_ids, labels = torch.tensor(token_ids, dtype=torch.long), torch.tensor(labels, dtype=torch.long)
    rows = [slice(start, start + size["batch"]) for start in range(0, len(labels), size["batch"])]
    square = torch.randn((size["matmul"], size["matmul"]), dtype=torch.bfloat16, device=device)

    def inputs(part):
        ids = token_ids[part].to(device, non_blocking=True)
        return {"input_ids": ids, "token_type_ids": torch.zeros_like(ids), "attention_mask": torch.ones_like(ids)}

    def training():
        model.train()
        for part in rows:
            optimizer.zero_grad()
            with torch.autocast(device, torch.bfloat16):
                loss = compiled(**inputs(part), labels=labels[part].to(device, non_blocking=True)).loss
            loss.backward()
            optimizer.step()
        return loss.item()  # waits for the GPU

    def prediction():
        model.eval()
        with torch.inference_mode(), torch.autocast(device, torch.bfloat16):
            return torch.cat([compiled(**inputs(part)).logits.float() for part in rows]).cpu().numpy()

    def matmul():
        for _ in range(STEPS):
            product = square @ square
        return product[0, 0].item()  # waits for the GPU

    return {"training": training, "prediction": prediction, "matmul": matmul}


def fractions(results, cpu):
    """Yields lines with the fraction of its matmul rate that each contender reaches."""
    size = CPU if cpu else GPU
    tokens, dim, length = size["batch"] * size["length"], size["dim"], size["length"]
    # A multiply-add counts as 2. Each token and block has 12 dim^2 in the dense layers and 2 length dim in attention.
    forward = 2 * size["layers"] * tokens * (12 * dim**2 + 2 * length * dim)
    for name, row in results.get("matmul", {"contenders": {}})["contenders"].items():
        rate = 2 * size["matmul"] ** 3 / (row["ms"] / 1e3)
        yield f"{name}: one matmul {rate / 1e12:,.2f} TFLOP/s"
        for measure, work in {"training": 3 * forward, "prediction": forward}.items():
            if measure not in results:
                continue
            fraction = work / (results[measure]["contenders"][name]["ms"] / 1e3) / rate
            yield f"{name}: {measure} at {fraction:.1%} of it"


def has_gpu():
    try:
        return subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout.startswith("GPU")
    except FileNotFoundError:
        return False


if __name__ == "__main__":
    if not {"--cpu", "--help", "-h"} & set(sys.argv) and not has_gpu():
        sys.exit(print("No GPU was found (nvidia-smi lists none). Nothing was measured."))
    options = {"cpu": {"action": "store_true", "help": "a tiny model on the CPU, to try the script"}}
    contenders = {"keras_transfer": keras_transfer, "transformers": transformers}
    results = harness.main(__doc__, contenders, per_call=STEPS, options=options)
    if results:
        print("\n".join(fractions(results, "--cpu" in sys.argv)))
