"""Generation with GPT-2, against KerasHub, Transformers on torch, and without a cache.

    pip install -e .[benchmarks] && python -m benchmarks.generation.generate

GPT-2 with 4 blocks, 512 wide, 8 heads and random weights; 64 new tokens after prompts of 32 tokens, greedy, without an
end token; float32. The time is for one new token of all prompts. `uncached` computes the whole text for each token.
"""

import numpy as np

from benchmarks import harness

LAYERS, HEADS, DIM, VOCABULARY, POSITIONS = 4, 8, 512, 50257, 1024
LENGTH, NEW = 32, 64
BATCHES = (1, 8)


def prompts(batch):
    return np.random.default_rng(0).integers(0, VOCABULARY, (batch, LENGTH)).astype("int32")


def measures(generate):
    return {f"batch {batch}": lambda batch=batch: generate(prompts(batch)) for batch in BATCHES}


def make_model():
    import keras_transfer as kt

    encoder = kt.encoders.TransformerEncoder(
        VOCABULARY,
        num_layers=LAYERS,
        num_heads=HEADS,
        hidden_dim=DIM,
        intermediate_dim=4 * DIM,
        max_sequence_length=POSITIONS,
        activation="gelu_tanh",
        norm="pre",
        causal=True,
    )
    return kt.tasks.CausalLM(encoder)


def keras_transfer():
    model = make_model()

    def generate(rows):
        new = model.generate(rows, max_length=LENGTH + NEW, end_token=None, batch_size=len(rows))
        assert {len(ids) for ids in new} == {NEW}

    return measures(generate)


def uncached():
    """The same model, compiled, without a cache: the whole text for each token."""
    import keras

    model = make_model()

    class Last(keras.layers.Layer):
        def call(self, vectors, end):
            return keras.ops.take_along_axis(vectors, end[:, None, None] - 1, axis=1)[:, 0]

    end = keras.Input((), dtype="int32", name="end")
    vectors = Last()(model.encoder.output["sequence_output"], end)
    logits = keras.Model({**model.input, "end": end}, model.output_embeddings(vectors))
    logits.jit_compile = True

    def generate(rows):
        ids = np.pad(rows, [(0, 0), (0, NEW)])
        for length in range(LENGTH, LENGTH + NEW):
            end = np.full(len(rows), length, "int32")
            inputs = {"token_ids": ids, "padding_mask": np.ones_like(ids), "end": end}
            ids[:, length] = logits.predict_on_batch(inputs).argmax(-1)

    return measures(generate)


def keras_hub():
    import keras_hub

    backbone = keras_hub.models.GPT2Backbone(VOCABULARY, LAYERS, HEADS, DIM, 4 * DIM, max_sequence_length=POSITIONS)
    model = keras_hub.models.GPT2CausalLM(backbone)
    model.compile(sampler="greedy", jit_compile=True)

    def generate(rows):
        ids, mask = (np.pad(values, [(0, 0), (0, NEW)]) for values in (rows, np.ones_like(rows)))
        model.generate({"token_ids": ids, "padding_mask": mask}, stop_token_ids=None)

    return measures(generate)


def transformers():
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=POSITIONS,
        n_embd=DIM,
        n_layer=LAYERS,
        n_head=HEADS,
        attn_implementation="sdpa",
    )
    model = GPT2LMHeadModel(config).eval()

    def generate(rows):
        ids = torch.tensor(rows, dtype=torch.long)
        options = {"min_new_tokens": NEW, "max_new_tokens": NEW, "do_sample": False, "pad_token_id": 0}
        with torch.inference_mode():
            new = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), **options)
        assert new.shape[1] == LENGTH + NEW

    return measures(generate)


if __name__ == "__main__":
    contenders = {
        "keras_transfer": keras_transfer,
        "keras_hub": keras_hub,
        "transformers": transformers,
        "uncached": uncached,
    }
    harness.main(__doc__, contenders, rounds=7, per_call=NEW)
