"""Makes sequence_to_sequence/NAME: small random encoder-decoders, as Transformers writes them, and what they compute.

    python -m tests.references.make_sequence_to_sequence bart

Needs torch and transformers. Without names it makes all. The vectors and logits are computed in float64, and `errors`
are those of Transformers in float32. The generated ids are those of Transformers with its cache. `gradients.npz` has
the gradients of all tensors in one step, for some of the models.
"""

import json
import pathlib
import re
import sys

import numpy as np
import torch
import transformers

from tests.float64 import in_float64

FOLDER = pathlib.Path(__file__).with_name("sequence_to_sequence")
T5 = {
    "vocab_size": 60,
    "d_model": 16,
    "d_kv": 6,
    "d_ff": 24,
    "num_layers": 2,
    "num_heads": 3,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 12,
    "decoder_start_token_id": 0,
}
BART = {
    "vocab_size": 60,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 20,
    "max_position_embeddings": 40,
    "forced_eos_token_id": None,
}
MODELS = {
    "t5": ("T5ForConditionalGeneration", "T5Config", T5),
    "t5_gated": (
        "T5ForConditionalGeneration",
        "T5Config",
        {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    ),
    "mt5": ("MT5ForConditionalGeneration", "MT5Config", T5),
    "bart": ("BartForConditionalGeneration", "BartConfig", {**BART, "decoder_start_token_id": 2}),
    "bart_scaled": (
        "BartForConditionalGeneration",
        "BartConfig",
        {**BART, "decoder_start_token_id": 2, "scale_embedding": True},
    ),
    "mbart": ("MBartForConditionalGeneration", "MBartConfig", {**BART, "decoder_start_token_id": 5}),
    "pegasus": (
        "PegasusForConditionalGeneration",
        "PegasusConfig",
        {**BART, "scale_embedding": True, "activation_function": "relu", "decoder_start_token_id": 0},
    ),
    "marian": (
        "MarianMTModel",
        "MarianConfig",
        {
            **BART,
            "scale_embedding": True,
            "activation_function": "swish",
            "pad_token_id": 59,
            "eos_token_id": 1,
            "decoder_start_token_id": 59,
        },
    ),
}
BERT = {
    "vocab_size": 60,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 40,
}
GPT2 = {"vocab_size": 64, "n_embd": 12, "n_layer": 2, "n_head": 3, "n_positions": 30, "n_inner": 20}
ROBERTA = {**BERT, "type_vocab_size": 1, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
COMPOSED = {
    "bert2bert": (("BertConfig", BERT), ("BertConfig", {**BERT, "num_hidden_layers": 1})),
    "bert2gpt2": (("BertConfig", BERT), ("GPT2Config", GPT2)),
    "bert_shared": (("BertConfig", BERT), ("BertConfig", BERT)),
    "roberta_shared": (("RobertaConfig", ROBERTA), ("RobertaConfig", ROBERTA)),
}
OF_TOKENS = {"pad_token_id": 0, "decoder_start_token_id": 2, "eos_token_id": 3}
LABELS = {"id2label": {0: "no", 1: "maybe", 2: "yes"}, "label2id": {"no": 0, "maybe": 1, "yes": 2}}
HEADS = {
    "bart_classifier": ("BartForSequenceClassification", LABELS),
    "bart_span": ("BartForQuestionAnswering", {}),
}
GENERATED = {"greedy": {}, "beam": {"num_beams": 4, "length_penalty": 2.0, "no_repeat_ngram_size": 2}}
NEW, SOURCES = 12, 12
WITH_GRADIENTS = ("t5", "t5_gated", "bart")


def create(name):
    """Returns a model with the original's initial weights."""
    if name in MODELS:
        model_class, config_class, settings = MODELS[name]
        config = getattr(transformers, config_class)(**settings, attn_implementation="eager")
        return getattr(transformers, model_class)(config)
    halves = [getattr(transformers, cls)(**settings, attn_implementation="eager") for cls, settings in COMPOSED[name]]
    tying = {"tie_encoder_decoder": True} if "shared" in name else {}
    config = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(*halves, **OF_TOKENS, **tying)
    return transformers.EncoderDecoderModel(config)


def main(name):
    torch.manual_seed(0)
    random = np.random.default_rng(0)
    model = create(name).eval()
    with torch.no_grad():
        for path, weight in model.named_parameters():
            if weight.ndim == 1:
                weight.add_(0.3 * torch.randn(weight.shape))
            elif "embed_positions" not in path or "bart" in name:
                weight.copy_(torch.randn(weight.shape) * (0.5 if "shared" in path or "wte" in path else 0.3))
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.copy_(torch.randn(model.final_logits_bias.shape))
        if "shared" in name:
            model.decoder.base_model.load_state_dict(model.encoder.state_dict(), strict=False)
    if name == "t5_gated":
        model.lm_head.weight = torch.nn.Parameter(torch.randn(60, 16))
    folder = FOLDER / name
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)

    ids, decoder_ids = random.integers(6, 58, (3, 20)), random.integers(6, 58, (3, 18))
    mask, decoder_mask = np.ones_like(ids), np.ones_like(decoder_ids)
    mask[1, 9:], mask[2, 1:], decoder_mask[1, 5:] = 0, 0, 0
    inputs = {
        "input_ids": torch.tensor(ids),
        "attention_mask": torch.tensor(mask),
        "decoder_input_ids": torch.tensor(decoder_ids),
        "decoder_attention_mask": torch.tensor(decoder_mask),
    }
    exact, rounded = run(in_float64(model), inputs), run(model, inputs)
    real = {"encoder": mask == 1, "decoder": decoder_mask == 1, "logits": decoder_mask == 1}
    errors = {key: np.abs(exact[key] - rounded[key])[real[key]].max() for key in exact}
    np.savez_compressed(
        folder / "outputs.npz",
        token_ids=ids.astype("int32"),
        padding_mask=mask.astype("int32"),
        decoder_token_ids=decoder_ids.astype("int32"),
        decoder_padding_mask=decoder_mask.astype("int32"),
        **exact,
        errors=np.array([errors[key] for key in ("encoder", "decoder", "logits")]),
    )
    sources = [random.integers(6, 58, random.integers(1, 20)).tolist() for _ in range(SOURCES)]
    generated = {case: [generate(model, row, options) for row in sources] for case, options in GENERATED.items()}
    text = json.dumps({"sources": sources, "generated": generated})
    (folder / "generated.json").write_text(re.sub(r"\], \[", "],\n[", text) + "\n")


def main_head(name):
    """Makes BART with a head that reads the decoder, and its logits."""
    torch.manual_seed(0)
    random = np.random.default_rng(0)
    model_class, labels = HEADS[name]
    config = transformers.BartConfig(**BART, **labels, attn_implementation="eager")
    model = getattr(transformers, model_class)(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn(weight.shape) * 0.4 + (weight if weight.ndim == 1 else 0.0))
    model.save_pretrained(FOLDER / name)
    (FOLDER / name / "generation_config.json").unlink(missing_ok=True)
    ids, mask = random.integers(6, 58, (3, 12)), np.ones((3, 12), int)
    for row, length in enumerate((12, 7, 2)):
        ids[row, length - 1], ids[row, length:], mask[row, length:] = 2, 1, 0
    inputs = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}
    exact, rounded = head_logits(in_float64(model), inputs), head_logits(model, inputs)
    real = mask[:, None] if name == "bart_span" else 1
    np.savez_compressed(
        FOLDER / name / "outputs.npz",
        token_ids=ids.astype("int32"),
        padding_mask=mask.astype("int32"),
        logits=exact,
        error=np.abs((exact - rounded) * real).max(),
    )


def head_logits(model, inputs):
    with torch.no_grad():
        outputs = model(**inputs)
    logits = torch.stack([outputs.start_logits, outputs.end_logits], 1) if "start_logits" in outputs else outputs.logits
    return logits.double().numpy()


def run(model, inputs):
    with torch.no_grad():
        outputs = model(**inputs, output_hidden_states=True)
        decoder = before_logits(model)(outputs.decoder_hidden_states[-1])
    return {
        "encoder": outputs.encoder_last_hidden_state.double().numpy(),
        "decoder": decoder.double().numpy(),
        "logits": outputs.logits.double().numpy(),
    }


def before_logits(model):
    """Returns the layers of the head before the logits, which ours has in the decoder."""
    decoder = getattr(model, "decoder", None)
    if hasattr(decoder, "cls"):
        return decoder.cls.predictions.transform
    head = getattr(decoder, "lm_head", None)
    if hasattr(head, "layer_norm"):
        return lambda hidden: head.layer_norm(torch.nn.functional.gelu(head.dense(hidden)))
    return lambda hidden: hidden


def gradients(name):
    """Writes the gradients in float64 of the mean loss over real tokens. The targets are the inputs, one earlier."""
    model = getattr(transformers, MODELS[name][0]).from_pretrained(FOLDER / name, attn_implementation="eager")
    model, arrays = in_float64(model), np.load(FOLDER / name / "outputs.npz")
    tensors = dict(model.named_parameters())
    if hasattr(model, "final_logits_bias"):
        tensors["final_logits_bias"] = model.final_logits_bias.requires_grad_()
    names = {"token_ids": "input_ids", "padding_mask": "attention_mask"}
    inputs = {
        f"{half}{theirs}": torch.tensor(arrays[f"{half}{ours}"]).long()
        for half in ("", "decoder_")
        for ours, theirs in names.items()
    }
    logits, real = model(**inputs).logits, inputs["decoder_attention_mask"] == 1
    assert np.abs(logits.detach().numpy() - arrays["logits"])[real].max() < 1e-9
    targets = torch.roll(inputs["decoder_input_ids"], -1, dims=1)
    loss = torch.nn.functional.cross_entropy(logits[real], targets[real])
    loss.backward()
    found = {path: tensor.grad.numpy().astype("float32") for path, tensor in tensors.items() if tensor.grad is not None}
    np.savez_compressed(FOLDER / name / "gradients.npz", loss=loss.item(), **found)


def generate(model, row, options):
    with torch.no_grad():
        found = model.generate(torch.tensor([row]), max_new_tokens=NEW, do_sample=False, **{"num_beams": 1, **options})
    new = found[0, 1:].tolist()
    end = model.config.eos_token_id
    return new[: new.index(end) + 1] if end in new else new


if __name__ == "__main__":
    for name in sys.argv[1:] or [*MODELS, *COMPOSED, *HEADS]:
        main_head(name) if name in HEADS else main(name)
        if name in WITH_GRADIENTS:
            gradients(name)
