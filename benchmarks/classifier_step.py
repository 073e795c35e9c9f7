"""The training step and the forward pass of a BERT classifier, against KerasHub and Transformers on torch.

    pip install -e .[benchmarks] && python benchmarks/classifier_step.py

BERT with 4 blocks, 512 wide, 8 heads, random weights and the tanh GELU; 32 texts of 64 to 128 tokens, padded to 128;
float32, AdamW, dropout 0.1 in training. The `xla` rows are compiled with `jit_compile=True`; to compare them
with each other: `--contenders "keras_transfer, xla" "keras_hub, xla"`.
"""

import harness
import numpy as np

LAYERS, HEADS, DIM, VOCABULARY = 4, 8, 512, 30522
BATCH, LENGTH = 32, 128


def data():
    random = np.random.default_rng(0)
    mask = np.arange(LENGTH) < random.integers(64, LENGTH + 1, (BATCH, 1))
    token_ids = np.where(mask, random.integers(1000, VOCABULARY, (BATCH, LENGTH)), 0).astype("int32")
    inputs = {"token_ids": token_ids, "segment_ids": np.zeros_like(token_ids), "padding_mask": mask.astype("int32")}
    return inputs, random.integers(0, 2, BATCH)


def keras_transfer(xla=False):
    import keras_transfer as kt

    encoder = kt.encoders.BertEncoder(VOCABULARY, LAYERS, HEADS, DIM, 4 * DIM, activation="gelu_tanh")
    return keras_measures(kt.tasks.TextClassifier(encoder, num_classes=2, pooling="pooled"), xla)


def keras_hub(xla=False):
    import keras_hub

    backbone = keras_hub.models.BertBackbone(VOCABULARY, LAYERS, HEADS, DIM, 4 * DIM, dropout=0.1)
    return keras_measures(keras_hub.models.BertTextClassifier(backbone, num_classes=2), xla)


def keras_measures(model, xla):
    import keras

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.AdamW(5e-5), loss=loss, metrics=[], jit_compile=xla)
    inputs, labels = data()
    inputs = {name: keras.ops.convert_to_tensor(value) for name, value in inputs.items()}
    labels = keras.ops.convert_to_tensor(labels)
    one = {name: value[:1] for name, value in inputs.items()}
    return {
        "training step": lambda: model.train_on_batch(inputs, labels),
        "forward, batch 1": lambda: model.predict_on_batch(one),
        "forward, batch 32": lambda: model.predict_on_batch(inputs),
    }


def transformers():
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=DIM,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=4 * DIM,
        hidden_act="gelu_pytorch_tanh",
        num_labels=2,
        attn_implementation="sdpa",
    )
    model = BertForSequenceClassification(config)
    optimizer = torch.optim.AdamW(model.parameters(), 5e-5)
    inputs, labels = data()
    names = {"token_ids": "input_ids", "segment_ids": "token_type_ids", "padding_mask": "attention_mask"}
    inputs = {names[name]: torch.tensor(value, dtype=torch.long) for name, value in inputs.items()}
    labels = torch.tensor(labels)

    def step():
        model.train()
        optimizer.zero_grad()
        loss = model(**inputs, labels=labels).loss
        loss.backward()
        optimizer.step()
        return loss.item()

    def forward(rows):
        model.eval()
        with torch.inference_mode():
            return model(**{name: value[:rows] for name, value in inputs.items()}).logits.numpy()

    return {
        "training step": step,
        "forward, batch 1": lambda: forward(1),
        "forward, batch 32": lambda: forward(BATCH),
    }


if __name__ == "__main__":
    contenders = {
        "keras_transfer": keras_transfer,
        "keras_hub": keras_hub,
        "transformers": transformers,
        "keras_transfer, xla": lambda: keras_transfer(xla=True),
        "keras_hub, xla": lambda: keras_hub(xla=True),
    }
    harness.main(__doc__, contenders)
