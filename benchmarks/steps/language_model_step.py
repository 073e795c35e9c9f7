"""The training step of a language model, against torch's LSTM (AWD-LSTM), and KerasHub and Transformers (GPT-2).

    pip install -e .[benchmarks]
    python -m benchmarks.steps.language_model_step --model awd-lstm --rounds 5
    python -m benchmarks.steps.language_model_step --model gpt2

AWD-LSTM: 400-1150-1150-400, 10,000 tokens, 32 texts of 70 tokens with a carried state, all five dropouts, SGD with
clipped gradients. GPT-2: 6 blocks, 384 wide, 6 heads, 50,257 tokens, 8 texts of 256 tokens, dropout 0.1, AdamW. Random
weights and ids, float32.
"""

import itertools

import numpy as np

from benchmarks import harness

WORDS, STREAMS, WINDOW, DIM, UNITS, CLIP = 10_000, 32, 70, 400, 1150, 0.25
EMBEDDING, INPUT, HIDDEN, OUTPUT, WEIGHT = 0.1, 0.4, 0.25, 0.4, 0.5  # dropout rates
VOCABULARY, BATCH, LENGTH, RATE = 50_257, 8, 256, 5e-5
GPT2 = {"num_layers": 6, "num_heads": 6, "hidden_dim": 384, "intermediate_dim": 1536}


def ids(model):
    size, shape = (WORDS, (STREAMS, WINDOW + 1)) if model == "awd-lstm" else (VOCABULARY, (BATCH, LENGTH + 1))
    drawn = np.random.default_rng(0).integers(0, size, shape, dtype="int32")
    return drawn[:, :-1], drawn[:, 1:]


def step_of(model, x, y, weights=None):
    """Returns a training step of a Keras model."""
    import keras

    columns = keras.tree.map_structure(keras.ops.convert_to_tensor, (x, y, weights), none_is_leaf=False)
    return {"training step": lambda: model.train_on_batch(*columns)}


def keras_transfer(model):
    import keras

    import keras_transfer as kt

    token_ids, targets = ids(model)
    inputs, weights = (
        {"token_ids": token_ids, "padding_mask": np.ones_like(token_ids)},
        np.ones(targets.shape, "float32"),
    )
    if model == "awd-lstm":
        task = kt.tasks.CausalLM(kt.encoders.AWDLSTMEncoder(WORDS, embedding_dim=DIM, units=UNITS), streams=STREAMS)
        task.compile(keras.optimizers.SGD(1.0, global_clipnorm=CLIP), metrics=[])
        return step_of(task, {**inputs, "begins": np.zeros((STREAMS, 1), "int32")}, targets, weights)
    task = kt.tasks.CausalLM(kt.encoders.GPT2Encoder(VOCABULARY, **GPT2))
    task.compile(kt.optimizers.FusedAdamW(RATE), metrics=[])
    return step_of(task, inputs, targets, weights)


def keras_hub(model):
    import keras
    import keras_hub

    if model != "gpt2":
        return {}
    token_ids, targets = ids(model)
    backbone = keras_hub.models.GPT2Backbone(VOCABULARY, **GPT2, dropout=0.1, max_sequence_length=1024)
    task = keras_hub.models.GPT2CausalLM(backbone, preprocessor=None)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    task.compile(keras.optimizers.AdamW(RATE), loss=loss, metrics=[], weighted_metrics=[], jit_compile=False)
    return step_of(task, {"token_ids": token_ids, "padding_mask": np.ones_like(token_ids)}, targets)


def transformers(model):
    import torch
    import transformers as theirs

    if model != "gpt2":
        return {}
    sizes = {"n_layer": GPT2["num_layers"], "n_head": GPT2["num_heads"], "n_embd": GPT2["hidden_dim"]}
    network = theirs.GPT2LMHeadModel(theirs.GPT2Config(vocab_size=VOCABULARY, **sizes)).train()
    optimizer = torch.optim.AdamW(network.parameters(), RATE)
    inputs = torch.tensor(ids(model)[0], dtype=torch.long)

    def step():
        optimizer.zero_grad()
        loss = network(input_ids=inputs, labels=inputs).loss
        loss.backward()
        optimizer.step()
        return loss.item()

    return {"training step": step}


def torch_lstm(model):
    import torch
    from torch import nn
    from torch.nn import functional

    if model != "awd-lstm":
        return {}
    token_ids, targets = (torch.tensor(column, dtype=torch.long) for column in ids(model))
    table = nn.Parameter(torch.empty(WORDS, DIM).uniform_(-0.1, 0.1))
    widths = [DIM, UNITS, UNITS, DIM]
    layers = [nn.LSTM(*pair, batch_first=True) for pair in itertools.pairwise(widths)]
    whole = [nn.Parameter(layer.weight_hh_l0.detach().clone()) for layer in layers]
    for layer in layers:
        del layer._parameters["weight_hh_l0"]  # Each step sets it to a weight with dropped elements.
    weights = [table, *whole, *(weight for layer in layers for weight in layer.parameters())]
    optimizer = torch.optim.SGD(weights, 1.0)
    states = [tuple(torch.zeros(1, STREAMS, width) for _ in range(2)) for width in widths[1:]]

    def variational(x, rate):
        return x * functional.dropout(torch.ones(len(x), 1, x.shape[-1]), rate)

    def step():
        optimizer.zero_grad()
        x = functional.embedding(token_ids, table * functional.dropout(torch.ones(WORDS, 1), EMBEDDING))
        x = variational(x, INPUT)
        for i, layer in enumerate(layers):
            layer.weight_hh_l0 = functional.dropout(whole[i], WEIGHT)
            x, state = layer(x, states[i])
            states[i] = tuple(part.detach() for part in state)
            x = variational(x, OUTPUT if i == len(layers) - 1 else HIDDEN)
        loss = functional.cross_entropy((x @ table.T).flatten(0, 1), targets.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(weights, CLIP)
        optimizer.step()
        return loss.item()

    return {"training step": step}


if __name__ == "__main__":
    contenders = {
        "keras_transfer": keras_transfer,
        "torch": torch_lstm,
        "keras_hub": keras_hub,
        "transformers": transformers,
    }
    options = {"model": {"choices": ["awd-lstm", "gpt2"], "default": "awd-lstm"}}
    harness.main(__doc__, contenders, ["training step"], options=options)
