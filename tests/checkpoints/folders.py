"""Small checkpoints of random numbers, in Hugging Face's layout."""

import json

import numpy as np

CONFIG = {
    "model_type": "bert",
    "vocab_size": 12,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 10,
    "type_vocab_size": 2,
}
IDS = {
    "token_ids": np.array([[5, 6, 7, 0], [8, 9, 4, 3]], "int32"),
    "segment_ids": np.array([[0, 0, 1, 0], [0, 1, 1, 1]], "int32"),
    "padding_mask": np.array([[1, 1, 1, 0], [1, 1, 1, 1]], "int32"),
}


def bert_tensors(pooler=True, seed=0):
    """Returns a dict of random tensors that fit `CONFIG`, under Transformers' names."""
    dim, wide = CONFIG["hidden_size"], CONFIG["intermediate_size"]
    shapes = {
        "embeddings.word_embeddings.weight": (CONFIG["vocab_size"], dim),
        "embeddings.position_embeddings.weight": (CONFIG["max_position_embeddings"], dim),
        "embeddings.token_type_embeddings.weight": (CONFIG["type_vocab_size"], dim),
    }

    def add(name, *shape):
        shapes[f"{name}.weight"] = shape
        shapes[f"{name}.bias"] = shape[:1]

    add("embeddings.LayerNorm", dim)
    for i in range(CONFIG["num_hidden_layers"]):
        layer = f"encoder.layer.{i}"
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            add(f"{layer}.attention.{part}", dim, dim)
        add(f"{layer}.attention.output.LayerNorm", dim)
        add(f"{layer}.intermediate.dense", wide, dim)
        add(f"{layer}.output.dense", dim, wide)
        add(f"{layer}.output.LayerNorm", dim)
    if pooler:
        add("pooler.dense", dim, dim)
    rng = np.random.default_rng(seed)
    return {name: rng.normal(scale=0.3, size=shape).astype("float32") for name, shape in shapes.items()}


def write_config(folder, **changes):
    """Writes `config.json`; a change to None leaves the key out."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {key: value for key, value in {**CONFIG, **changes}.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def write_bert(folder, tensors=None, **config):
    """Writes a whole Hugging Face folder and returns it."""
    from safetensors.numpy import save_file

    write_config(folder, **config)
    save_file(bert_tensors() if tensors is None else tensors, folder / "model.safetensors")
    return folder


def outputs_of(encoder, inputs=IDS):
    """Returns the encoder's outputs as a dict of numpy arrays."""
    return {name: np.array(value) for name, value in encoder(inputs).items()}


def assert_same_outputs(encoder, other, atol=0.0):
    """Asserts that two encoders give the same outputs for `IDS`."""
    ours, theirs = outputs_of(encoder), outputs_of(other)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_allclose(value, theirs[name], rtol=0, atol=atol)
