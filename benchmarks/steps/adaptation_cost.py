"""Cost of a training step, by trained weights and optimizer, against full fine-tuning.

    pip install -e . && python -m benchmarks.steps.adaptation_cost

BERT with 12 blocks, 256 wide, 4 heads, a vocabulary of 8,000, random weights; 16 texts of 128 tokens; float32, Adam,
dropout 0.1. The first contender is full fine-tuning with Keras's own Adam. The harness prints its time divided by that
of each other contender. The lines at the end print the inverse, the fraction of a step of full fine-tuning, and the
peak memory of each contender's process. Steps on cached features exclude the caching pass, which runs once for all
epochs and has its own measure, for one batch.
"""

import numpy as np

from benchmarks import harness

LAYERS, HEADS, DIM, VOCABULARY = 12, 4, 256, 8000
BATCH, LENGTH = 16, 128
RATE = 1e-4


def model():
    import keras_transfer as kt

    encoder = kt.encoders.BertEncoder(
        VOCABULARY, num_layers=LAYERS, num_heads=HEADS, hidden_dim=DIM, intermediate_dim=4 * DIM, pooler=False
    )
    return kt.tasks.TextClassifier(encoder, num_classes=6)


def batch():
    random = np.random.default_rng(0)
    token_ids = random.integers(1, VOCABULARY, (BATCH, LENGTH)).astype("int32")
    inputs = {"token_ids": token_ids, "segment_ids": 0 * token_ids, "padding_mask": np.ones_like(token_ids)}
    return inputs, random.integers(0, 6, BATCH)


def measures(model, optimizer, data=None):
    import keras

    inputs, labels = keras.tree.map_structure(keras.ops.convert_to_tensor, data or batch())
    model.compile(optimizer, metrics=[])
    return {"training step": lambda: model.train_on_batch(inputs, labels)}


def plain(frozen_below=None):
    import keras

    import keras_transfer as kt

    made = model()
    if frozen_below is not None:
        kt.adaptation.freeze(made, below=frozen_below)
    return measures(made, keras.optimizers.Adam(RATE))


def adapters(spec):
    import keras

    import keras_transfer as kt

    return measures(kt.adaptation.add_adapters(model(), spec), keras.optimizers.Adam(RATE))


def layerwise(**options):
    import keras

    import keras_transfer as kt

    made = model()
    penalty = kt.adaptation.L2SP(0.01, new_strength=0.01) if options.pop("penalty", False) else None
    return measures(
        made, kt.optimizers.LayerwiseOptimizer(keras.optimizers.Adam(RATE), made, penalty=penalty, **options)
    )


def cached(below):
    import keras

    import keras_transfer as kt

    made = kt.adaptation.freeze(model(), below=below)
    data = made.dataset(*batch(), batch_size=BATCH)
    upper, features = kt.adaptation.cache_features(made, data, below=below, verbose=0)
    caching = {"caching pass": lambda: upper.part.cut.lower.predict_on_batch(batch()[0])}
    return {**measures(upper, keras.optimizers.Adam(RATE), features[0]), **caching}


CONTENDERS = {
    "full": plain,
    "lower 6 frozen": lambda: plain("block_6"),
    "lower 9 frozen": lambda: plain("block_9"),
    "head only": lambda: plain("head"),
    "adapters of 64": lambda: adapters("houlsby:64"),
    "LoRA of rank 8": lambda: adapters("lora:r=8"),
    "BitFit": lambda: adapters("bitfit"),
    "lower 9 cached": lambda: cached("block_9"),
    "head on cached features": lambda: cached("head"),
    "rates by depth": lambda: layerwise(decay=0.95),
    "rates and L2-SP": lambda: layerwise(decay=0.95, penalty=True),
}


if __name__ == "__main__":
    results = harness.main(__doc__, CONTENDERS, ["training step", "caching pass"], rounds=5) or {}
    for measure, result in results.items():
        full = results["training step"]["contenders"]["full"]["ms"]
        for name, row in result["contenders"].items():
            peak = f", peak memory {row['peak_mb']:,.0f} MB" if measure == "training step" else f" ({measure})"
            print(f"{name:24}{row['ms'] / full:.4f} of a step of full fine-tuning{peak}")
