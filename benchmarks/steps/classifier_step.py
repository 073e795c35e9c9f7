"""The training step and the forward pass of a classifier, against KerasHub and Transformers on torch.

    pip install -e .[benchmarks] && python -m benchmarks.steps.classifier_step --architecture roberta

4 blocks, 512 wide, 8 heads, 30,522 tokens, random weights, the head of the architecture; 32 texts of 64 to 128 tokens,
padded to 128; float32, AdamW, dropout 0.1 in training (none in ModernBERT). BERT has the tanh GELU, the others the
exact one. KerasHub has no ModernBERT. The `xla` rows are compiled with `jit_compile=True`; to compare them with each
other: `--contenders "keras_transfer, xla" "keras_hub, xla"`. The `bfloat16` rows have weights in float32: Keras's
policy `mixed_bfloat16`, and autocast on torch.
"""

import numpy as np

from benchmarks import harness

LAYERS, HEADS, DIM, VOCABULARY = 4, 8, 512, 30522
BATCH, LENGTH = 32, 128
SIZES = {"num_layers": LAYERS, "num_heads": HEADS, "hidden_dim": DIM}
# Our encoder and its task, the classes of KerasHub and Transformers, and their arguments.
ARCHITECTURES = {
    "bert": {
        "ours": ("BertEncoder", {"activation": "gelu_tanh"}, {"pooling": "pooled"}),
        "keras_hub": ("Bert", {}),
        "transformers": ("Bert", {"hidden_act": "gelu_pytorch_tanh"}),
    },
    "roberta": {
        "ours": ("RobertaEncoder", {"pooler": False}, {"pooling": "first", "hidden_activation": "tanh"}),
        "keras_hub": ("Roberta", {"dropout": 0.1}),
        "transformers": ("Roberta", {"max_position_embeddings": 514, "type_vocab_size": 1}),
    },
    "distilbert": {
        "ours": ("DistilBertEncoder", {}, {"pooling": "first", "hidden_activation": "relu"}),
        "keras_hub": ("DistilBert", {"dropout": 0.1}),
        "transformers": ("DistilBert", {"hidden_dim": 4 * DIM, "seq_classif_dropout": 0.1}),
    },
    "deberta_v3": {
        "ours": ("DebertaV2Encoder", {}, {"pooling": "first", "hidden_activation": "gelu"}),
        "keras_hub": ("DebertaV3", {}),
        "transformers": (
            "DebertaV2",
            {
                "relative_attention": True,
                "pos_att_type": ["p2c", "c2p"],
                "share_att_key": True,
                "position_biased_input": False,
                "position_buckets": 256,
                "norm_rel_ebd": "layer_norm",
            },
        ),
    },
    "modernbert": {
        "ours": (
            "ModernBertEncoder",
            {"intermediate_dim": 3 * DIM // 2},
            {"pooling": "mean", "hidden_activation": "gelu", "hidden_norm": True, "dropout": 0.0},
        ),
        "transformers": ("ModernBert", {"intermediate_size": 3 * DIM // 2, "classifier_pooling": "mean"}),
    },
}


def data():
    random = np.random.default_rng(0)
    mask = np.arange(LENGTH) < random.integers(64, LENGTH + 1, (BATCH, 1))
    token_ids = np.where(mask, random.integers(1000, VOCABULARY, (BATCH, LENGTH)), 0).astype("int32")
    inputs = {"token_ids": token_ids, "segment_ids": np.zeros_like(token_ids), "padding_mask": mask.astype("int32")}
    return inputs, random.integers(0, 2, BATCH)


def keras_transfer(architecture, xla=False, dtype="float32"):
    import keras_transfer as kt

    name, options, head = ARCHITECTURES[architecture]["ours"]
    encoder = getattr(kt.encoders, name)(
        VOCABULARY, **{**SIZES, "intermediate_dim": 4 * DIM, "dtype": dtype, **options}
    )
    return keras_measures(kt.tasks.TextClassifier(encoder, num_classes=2, **head), xla, "auto")  # AdamW, a rate of 5e-5


def keras_hub(architecture, xla=False):
    import keras
    import keras_hub

    if "keras_hub" not in ARCHITECTURES[architecture]:
        return {}
    name, head = ARCHITECTURES[architecture]["keras_hub"]
    backbone = getattr(keras_hub.models, f"{name}Backbone")(
        VOCABULARY, **SIZES, intermediate_dim=4 * DIM, dropout=0.1, max_sequence_length=512
    )
    model = getattr(keras_hub.models, f"{name}TextClassifier")(backbone, num_classes=2, **head)
    return keras_measures(model, xla, keras.optimizers.AdamW(5e-5))


def keras_measures(model, xla, optimizer):
    import keras

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss=loss, metrics=[], jit_compile=xla)
    inputs, labels = data()
    inputs = {name: keras.ops.convert_to_tensor(inputs[name]) for name in model.input}
    labels = keras.ops.convert_to_tensor(labels)
    one = {name: value[:1] for name, value in inputs.items()}
    return {
        "training step": lambda: model.train_on_batch(inputs, labels),
        "forward, batch 1": lambda: model.predict_on_batch(one),
        "forward, batch 32": lambda: model.predict_on_batch(inputs),
    }


def transformers(architecture, bfloat16=False):
    import torch
    import transformers as theirs

    name, options = ARCHITECTURES[architecture]["transformers"]
    sizes = {"vocab_size": VOCABULARY, "hidden_size": DIM, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS}
    special = {f"{kind}_token_id": None for kind in ("bos", "eos", "cls", "sep")} if name == "ModernBert" else {}
    config = getattr(theirs, f"{name}Config")(
        **{**sizes, "intermediate_size": 4 * DIM, "num_labels": 2, "pad_token_id": 0, **special, **options}
    )
    model = getattr(theirs, f"{name}ForSequenceClassification")(config)
    optimizer = torch.optim.AdamW(model.parameters(), 5e-5)
    if bfloat16:
        model.forward = torch.autocast("cpu", torch.bfloat16)(model.forward)
    inputs, labels = data()
    names = {"token_ids": "input_ids", "padding_mask": "attention_mask"}
    inputs = {names[key]: torch.tensor(inputs[key], dtype=torch.long) for key in names}
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
            return model(**{name: value[:rows] for name, value in inputs.items()}).logits.float().numpy()

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
        "keras_transfer, xla": lambda architecture: keras_transfer(architecture, xla=True),
        "keras_hub, xla": lambda architecture: keras_hub(architecture, xla=True),
        "keras_transfer, bfloat16": lambda architecture: keras_transfer(architecture, dtype="mixed_bfloat16"),
        "transformers, bfloat16": lambda architecture: transformers(architecture, bfloat16=True),
    }
    options = {"architecture": {"choices": list(ARCHITECTURES), "default": "bert"}}
    harness.main(__doc__, contenders, options=options)
