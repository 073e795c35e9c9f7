"""Generation and the training step of an encoder-decoder, against KerasHub and Transformers on torch, and its export.

    pip install -e .[benchmarks] && python -m benchmarks.generation.sequence_to_sequence --architecture t5

The shape of T5-small, or BART of the same shape: 6 blocks in each half, 512 wide, 8 heads, 32,128 tokens, random
weights; float32. 8 sources of 64 tokens, 64 new tokens without an end token, greedy and with 4 beams, each with a
cache; the time is for all of them. A training step has AdamW, dropout 0.1 and targets of 64 tokens. In the row `xla`,
that of the Keras models is compiled with `jit_compile=True`; torch does the same as in the row without.

`texts` are the same sources as strings, which `generate` and the `exported` model turn into strings of 64 tokens:
`--contenders exported keras_transfer --measures "texts, greedy" "texts, beam 4"` compares the two. The loop of
`exported, xla` is compiled.
"""

import tempfile

import numpy as np

from benchmarks import harness

LAYERS, HEADS, DIM, HIDDEN, VOCABULARY, POSITIONS = 6, 8, 512, 2048, 32128, 512
BATCH, LENGTH, NEW, BEAMS = 8, 64, 64, 4
SIZES = {"num_layers": LAYERS, "num_heads": HEADS, "hidden_dim": DIM, "intermediate_dim": HIDDEN}
SEARCHES = {"greedy": None, f"beam {BEAMS}": BEAMS}
STEPS = {"training step": False, "training step, xla": True}


def ids(seed=0):
    return np.random.default_rng(seed).integers(5, VOCABULARY, (BATCH, LENGTH)).astype("int32")


def training_data():
    """Returns the inputs of both halves by our names, and the targets."""
    sources, targets = ids(), ids(1)
    shifted = np.pad(targets[:, :-1], [(0, 0), (1, 0)])
    inputs = {"token_ids": sources, "decoder_token_ids": shifted}
    return {
        **inputs,
        **{name.replace("token_ids", "padding_mask"): np.ones_like(ids) for name, ids in inputs.items()},
    }, targets


def texts():
    """Returns strings of which each has `LENGTH` tokens, with the two special ones."""
    return [" ".join(f"w{i}" for i in row[: LENGTH - 2]) for row in ids()]


def lazily(make, *arguments, **options):
    """Returns a function that calls what `make` returns, which its first call makes."""
    made = []

    def call():
        if not made:
            made.append(make(*arguments, **options))
        return made[0]()

    return call


# === This library ===


def make_model(architecture, **options):
    import keras

    import keras_transfer as kt

    keras.utils.set_random_seed(0)
    if architecture == "t5":
        encoder = kt.encoders.T5(VOCABULARY, **SIZES, head_dim=DIM // HEADS)
    else:
        encoder = kt.encoders.Bart(VOCABULARY, **SIZES, max_sequence_length=POSITIONS)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = [*special, *(f"w{i}" for i in range(len(special), VOCABULARY))]
    preprocessor = kt.text.BertPreprocessor(vocabulary, sequence_length=LENGTH)
    return kt.tasks.Seq2SeqLM(encoder, preprocessor, max_new_tokens=NEW, **options)


def keras_transfer(architecture):
    model = make_model(architecture)

    def generate(beams):
        new = model.generate(ids(), end_token=None, batch_size=BATCH, num_beams=beams)
        assert {len(row) for row in new} == {NEW}
        return new

    return {
        **{name: lambda beams=beams: generate(beams) for name, beams in SEARCHES.items()},
        **{
            name: lazily(lambda xla=xla: training_step(make_model(architecture), xla, "auto"))
            for name, xla in STEPS.items()
        },
        **{
            f"texts, {name}": lambda beams=beams: model.generate(texts(), num_beams=beams, batch_size=BATCH)
            for name, beams in SEARCHES.items()
        },
    }


def exported(architecture, jit_compile=False):
    import tensorflow as tf

    import keras_transfer as kt

    def served(beams):
        sampler = "greedy" if beams is None else kt.generation.BeamSearch(beams)
        with tempfile.TemporaryDirectory() as folder:
            model = make_model(architecture, sampler=sampler)
            kt.serving.export(model, folder, jit_compile=jit_compile, overwrite=True)
            module = tf.saved_model.load(folder)
        return lambda: module.signatures["serving_default"](text=tf.constant(texts()))["target"].numpy()

    return {f"texts, {name}": lazily(served, beams) for name, beams in SEARCHES.items()}


def training_step(model, xla, optimizer, rename=lambda name: name):
    """Returns a function that does a step of a Keras model, whose names of inputs `rename` makes from ours."""
    import keras

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss=loss, metrics=[], jit_compile=xla)
    inputs, targets = training_data()
    inputs = {rename(name): keras.ops.convert_to_tensor(value) for name, value in inputs.items()}
    targets = keras.ops.convert_to_tensor(targets)
    return lambda: model.train_on_batch(inputs, targets)


# === Other libraries ===


def keras_hub(architecture):
    import keras
    import keras_hub

    def make():
        if architecture == "t5":
            backbone = keras_hub.models.T5Backbone(VOCABULARY, **SIZES, use_gated_activation=False)
            return keras_hub.models.T5Seq2SeqLM(backbone)
        backbone = keras_hub.models.BartBackbone(VOCABULARY, **SIZES, max_sequence_length=POSITIONS)
        return keras_hub.models.BartSeq2SeqLM(backbone)

    given = {
        "encoder_token_ids": ids(),
        "encoder_padding_mask": np.ones((BATCH, LENGTH), "int32"),
        "decoder_token_ids": np.zeros((BATCH, 1 + NEW), "int32"),
        "decoder_padding_mask": np.pad(np.ones((BATCH, 1), "int32"), [(0, 0), (0, NEW)]),
    }

    def search(beams):
        model = make()
        sampler = keras_hub.samplers.GreedySampler() if beams is None else keras_hub.samplers.BeamSampler(beams)
        model.compile(sampler=sampler, jit_compile=True)
        return lambda: model.generate(given, stop_token_ids=None)

    def step(xla):
        def rename(name):
            return name if name.startswith("decoder_") else f"encoder_{name}"

        return training_step(make(), xla, keras.optimizers.AdamW(5e-5), rename)

    return {
        **{name: lazily(search, beams) for name, beams in SEARCHES.items()},
        **{name: lazily(step, xla) for name, xla in STEPS.items()},
    }


def transformers(architecture):
    import torch
    import transformers as theirs

    torch.manual_seed(0)
    if architecture == "t5":
        config = theirs.T5Config(vocab_size=VOCABULARY)  # whose defaults are T5-small's
        model = theirs.T5ForConditionalGeneration(config)
    else:
        sizes = {"layers": LAYERS, "attention_heads": HEADS, "ffn_dim": HIDDEN}
        config = theirs.BartConfig(
            vocab_size=VOCABULARY,
            d_model=DIM,
            max_position_embeddings=POSITIONS,
            forced_eos_token_id=None,
            **{f"{half}_{name}": size for half in ("encoder", "decoder") for name, size in sizes.items()},
        )
        model = theirs.BartForConditionalGeneration(config)
    optimizer = torch.optim.AdamW(model.parameters(), 5e-5)
    names = {"token_ids": "input_ids", "padding_mask": "attention_mask"}
    names |= {f"decoder_{ours}": f"decoder_{other}" for ours, other in names.items()}
    inputs, targets = training_data()
    inputs = {names[name]: torch.tensor(value, dtype=torch.long) for name, value in inputs.items()}
    targets = torch.tensor(targets, dtype=torch.long)

    def generate(beams):
        model.eval()
        given = {name: inputs[name] for name in ("input_ids", "attention_mask")}
        lengths = {"min_new_tokens": NEW, "max_new_tokens": NEW}
        with torch.inference_mode():
            new = model.generate(**given, **lengths, do_sample=False, num_beams=beams or 1, decoder_start_token_id=0)
        assert new.shape[1] == 1 + NEW
        return new

    def step():
        model.train()
        optimizer.zero_grad()
        loss = model(**inputs, labels=targets).loss
        loss.backward()
        optimizer.step()
        return loss.item()

    return {
        **{name: lambda beams=beams: generate(beams) for name, beams in SEARCHES.items()},
        **dict.fromkeys(STEPS, step),
    }


if __name__ == "__main__":
    contenders = {
        "keras_transfer": keras_transfer,
        "keras_hub": keras_hub,
        "transformers": transformers,
        "exported": exported,
        "exported, xla": lambda architecture: exported(architecture, jit_compile=True),
    }
    options = {"architecture": {"choices": ["t5", "bart"], "default": "t5"}}
    harness.main(__doc__, contenders, rounds=7, options=options)
