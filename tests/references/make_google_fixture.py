"""Makes google_fixture.npz: the outputs of Transformers' BertModel with the weights of a small Google checkpoint.

Two steps, because TensorFlow and torch may be in different environments:

1. with TensorFlow: `python tests/references/make_google_fixture.py read FOLDER weights.npz`
2. with torch and transformers: `python tests/references/make_google_fixture.py run FOLDER weights.npz`
"""

import json
import pathlib
import sys

import numpy as np

PARTS = {
    "word_embeddings": "word_embeddings.weight",
    "position_embeddings": "position_embeddings.weight",
    "token_type_embeddings": "token_type_embeddings.weight",
    "kernel": "weight",
    "gamma": "weight",
    "beta": "bias",
    "bias": "bias",
}


def read(folder, weights):
    """Writes the encoder's variables, under their own names."""
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(folder / "bert_model.ckpt"))
    names = [name for name in reader.get_variable_to_shape_map() if name.startswith("bert/") and "adam" not in name]
    np.savez(weights, **{name: reader.get_tensor(name) for name in names})


def run(folder, weights):
    """Runs Transformers' BertModel with these weights."""
    import torch
    import transformers

    config = transformers.BertConfig(**json.loads((folder / "bert_config.json").read_text()))
    model = transformers.BertModel(config).eval()
    state = {}
    for name, value in np.load(weights).items():
        *scopes, part = name.removeprefix("bert/").replace("layer_", "layer/").split("/")
        state[".".join([*scopes, PARTS[part]])] = torch.tensor(value.T if part == "kernel" else value)
    print(model.load_state_dict(state, strict=True))
    inputs = {
        "input_ids": torch.tensor([[2, 7, 9, 14, 3, 5, 3], [2, 11, 3, 0, 0, 0, 0]]),
        "token_type_ids": torch.tensor([[0, 0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0, 0]]),
        "attention_mask": torch.tensor([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0, 0]]),
    }
    with torch.no_grad():
        outputs = model(**inputs, output_hidden_states=True)
    np.savez_compressed(
        pathlib.Path(__file__).with_name("google_fixture.npz"),
        token_ids=inputs["input_ids"].numpy().astype("int32"),
        segment_ids=inputs["token_type_ids"].numpy().astype("int32"),
        padding_mask=inputs["attention_mask"].numpy().astype("int32"),
        states=torch.stack(outputs.hidden_states).numpy(),
        pooled=outputs.pooler_output.numpy(),
    )


if __name__ == "__main__":
    {"read": read, "run": run}[sys.argv[1]](pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))
