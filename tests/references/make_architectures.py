"""Makes architectures/NAME: small random checkpoints with heads, as Transformers writes them, and what it computes.

    python tests/references/make_architectures.py bert

Needs torch, transformers and safetensors. Without names it makes all. Weights are large, so that errors are, too. The
files also hold copies of tied weights and buffers, as those of older versions do.
"""

import pathlib
import re
import sys

import numpy as np
import torch
import transformers
from safetensors.torch import save_file

FOLDER = pathlib.Path(__file__).with_name("architectures")
SIZES = {
    "vocab_size": 20,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "attn_implementation": "eager",
}
MASK = [[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0, 0]]
GPT_SIZES = {
    "vocab_size": 20,
    "n_embd": 8,
    "n_layer": 2,
    "n_head": 2,
    "n_positions": 12,
    "attn_implementation": "eager",
}
IDS = [[2, 7, 9, 14, 3, 5, 3], [2, 11, 3, 0, 0, 0, 0]]
LONG_IDS = [[2, 7, 9, 14, 3, 5, 3, 8, 6, 4, 11, 12], [2, 11, 3, 9, 3, 8, 0, 0, 0, 0, 0, 0]]
LONG_MASK = [[1] * 12, [1] * 6 + [0] * 6]
SEGMENTS = [[0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 0, 0]]


def bert():
    model = transformers.BertForPreTraining(transformers.BertConfig(max_position_embeddings=12, **SIZES))
    return model, {"token_ids": IDS, "segment_ids": SEGMENTS, "padding_mask": MASK}


def albert():
    config = transformers.AlbertConfig(max_position_embeddings=12, embedding_size=4, **SIZES)
    return transformers.AlbertForPreTraining(config), {"token_ids": IDS, "segment_ids": SEGMENTS, "padding_mask": MASK}


def distilbert():
    sizes = {"vocab_size": 20, "dim": 8, "n_layers": 2, "n_heads": 2, "hidden_dim": 16, "attn_implementation": "eager"}
    config = transformers.DistilBertConfig(max_position_embeddings=12, **sizes)
    return transformers.DistilBertForMaskedLM(config), {"token_ids": IDS, "padding_mask": MASK}


def electra(model_class=transformers.ElectraForPreTraining, embedding_size=8):
    config = transformers.ElectraConfig(max_position_embeddings=12, embedding_size=embedding_size, **SIZES)
    return model_class(config), {"token_ids": IDS, "segment_ids": SEGMENTS, "padding_mask": MASK}


def electra_generator():
    return electra(transformers.ElectraForMaskedLM, embedding_size=12)


def mpnet():
    config = transformers.MPNetConfig(max_position_embeddings=46, layer_norm_eps=1e-5, **SIZES)
    model = transformers.MPNetForMaskedLM(config)
    model.mpnet = transformers.MPNetModel(config)  # with a pooler, which the class leaves out
    # Long enough for buckets of several distances.
    ids = [[0, *(3 + i % 17 for i in range(38)), 2], [0, 11, 2, *[1] * 37]]
    return model, {"token_ids": ids, "padding_mask": [[1] * 40, [1] * 3 + [0] * 37]}


def xlnet():
    sizes = {"vocab_size": 20, "d_model": 8, "n_layer": 2, "n_head": 2, "d_inner": 16, "mem_len": None}
    model = transformers.XLNetLMHeadModel(transformers.XLNetConfig(**sizes))
    ids = [[7, 9, 14, 4, 8, 4, 3], [11, 4, 3, 5, 5, 5, 5]]
    segments = [[0, 0, 0, 0, 1, 1, 2], [0, 0, 2, 0, 0, 0, 0]]
    return model, {"token_ids": ids, "segment_ids": segments, "padding_mask": MASK}


def two_streams(model, inputs):
    """Returns what `XLNetLMHeadModel` computes at some positions, and the order in which it sees the tokens."""
    order = np.array([[2, 0, 0, 4, 0, 1, 3], [2, 0, 1, 0, 0, 0, 0]])
    positions, targets = np.array([[0, 3, 6], [2, 0, -1]]), np.array([[7, 4, 3], [3, 11, -1]])
    is_target = np.zeros(order.shape, bool)
    for row, places in enumerate(positions):
        is_target[row, places[places >= 0]] = True
    hidden = np.where(is_target[:, :, None], order[:, None] >= order[:, :, None], order[:, None] > order[:, :, None])
    mapping = np.eye(order.shape[1] + 1)[positions][..., :-1]  # only zeros at an unused place
    tensors = {THEIRS[key]: torch.tensor(value) for key, value in inputs.items()}
    with torch.no_grad():
        outputs = model(
            **tensors,
            perm_mask=torch.tensor(hidden).float(),
            target_mapping=torch.tensor(mapping).float(),
            output_hidden_states=True,
        )
    logits = outputs.logits
    real = torch.tensor(targets) >= 0
    loss = torch.nn.functional.cross_entropy(logits[real], torch.tensor(targets)[real])
    found = {"factorization_order": order, "mask_positions": positions, "targets": targets}
    found = {name: value.astype("int32") for name, value in found.items()}
    states = torch.stack(outputs.hidden_states[::2]).numpy()  # those of the two streams take turns
    query = outputs.hidden_states[-1].numpy()
    return {**found, "states": states, "query": query, "logits": logits.numpy(), "loss": loss.numpy()}


def roberta():
    special = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    config = transformers.RobertaConfig(
        max_position_embeddings=14, type_vocab_size=1, layer_norm_eps=1e-5, **special, **SIZES
    )
    model = transformers.RobertaForMaskedLM(config)
    model.roberta = transformers.RobertaModel(config)  # with a pooler, which the class leaves out
    ids = [[0, 7, 9, 14, 3, 5, 2], [0, 11, 2, 1, 1, 1, 1]]
    return model, {"token_ids": ids, "padding_mask": MASK}


def gpt2():
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_inner=16, **GPT_SIZES))
    for block in model.transformer.h:
        block.attn.register_buffer("bias", torch.ones(1, 1, 12, 12).tril())
        block.attn.register_buffer("masked_bias", torch.tensor(-1e4))
    return model, {"token_ids": IDS, "padding_mask": MASK}


def gpt():
    model = transformers.OpenAIGPTLMHeadModel(transformers.OpenAIGPTConfig(**GPT_SIZES))
    return model, {"token_ids": IDS, "padding_mask": MASK}


def modernbert():
    special = {f"{name}_token_id": None for name in ("pad", "eos", "bos", "cls", "sep")}
    sizes = {**SIZES, "num_hidden_layers": 3, "max_position_embeddings": 16, "local_attention": 4}
    config = transformers.ModernBertConfig(global_attn_every_n_layers=2, decoder_bias=True, **sizes, **special)
    config.rope_parameters["full_attention"]["rope_theta"] = 100.0
    return transformers.ModernBertForMaskedLM(config), {"token_ids": LONG_IDS, "padding_mask": LONG_MASK}


def deberta_v2(**options):
    attention = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "share_att_key": True}
    attention |= {"position_biased_input": False, "position_buckets": 4, "norm_rel_ebd": "layer_norm"}
    config = transformers.DebertaV2Config(max_position_embeddings=10, **attention, **options, **SIZES)
    return transformers.DebertaV2ForMaskedLM(config), {"token_ids": LONG_IDS, "padding_mask": LONG_MASK}


def deberta_v2_convolution():
    return deberta_v2(conv_kernel_size=3, conv_act="gelu", legacy=False)  # the other head


def xlm():
    sizes = {"vocab_size": 20, "emb_dim": 8, "n_layers": 2, "n_heads": 2, "n_langs": 3, "max_position_embeddings": 12}
    model = transformers.XLMWithLMHeadModel(transformers.XLMConfig(**sizes, attn_implementation="eager"))
    languages = [[0, 0, 0, 0, 2, 2, 2], [1, 1, 1, 0, 0, 0, 0]]
    return model, {"token_ids": IDS, "language_ids": languages, "padding_mask": MASK}


ARCHITECTURES = {
    "albert": albert,
    "bert": bert,
    "deberta-v2": deberta_v2,
    "deberta-v2_convolution": deberta_v2_convolution,
    "distilbert": distilbert,
    "electra": electra,
    "electra_generator": electra_generator,
    "gpt2": gpt2,
    "modernbert": modernbert,
    "mpnet": mpnet,
    "openai-gpt": gpt,
    "roberta": roberta,
    "xlm": xlm,
    "xlnet": xlnet,
}
BUFFERS = ("position_ids", "attn.bias")
NORM_SCALES = r"(norm|ln_\w|norm_emb|norm[12]\.\d)\.weight$"
FINAL_NORMS = ("ln_f", "final_norm")
THEIRS = {
    "token_ids": "input_ids",
    "segment_ids": "token_type_ids",
    "language_ids": "langs",
    "padding_mask": "attention_mask",
}


def main(name):
    torch.manual_seed(0)
    model, inputs = ARCHITECTURES[name]()
    model.eval().tie_weights()
    with torch.no_grad():
        for path, weight in model.named_parameters():
            weight.copy_(0.3 * torch.randn(weight.shape) + (1.0 if re.search(NORM_SCALES, path.lower()) else 0.0))
    encoder, before_norm = model.base_model, []
    for path, module in encoder.named_children():
        if path in FINAL_NORMS:  # Transformers has the state before it only here.
            module.register_forward_pre_hook(lambda module, inputs: before_norm.append(inputs[0]))
    with torch.no_grad():
        outputs = encoder(
            **{THEIRS[key]: torch.tensor(value) for key, value in inputs.items()}, output_hidden_states=True
        )
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    tensors = {**model.state_dict(), **{path: x for path, x in model.named_buffers() if path.endswith(BUFFERS)}}
    tensors = {path: tensor.clone().contiguous() for path, tensor in tensors.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    arrays = {key: np.array(value, "int32") for key, value in inputs.items()}
    states = list(outputs.hidden_states)
    if before_norm:
        arrays["sequence"] = outputs.last_hidden_state.numpy()
        states[-1] = before_norm[0]
    if "pooler_output" in outputs:
        arrays["pooled"] = outputs.pooler_output.numpy()
    np.savez_compressed(folder / "outputs.npz", **arrays, states=torch.stack(states).numpy())
    if name == "xlnet":
        np.savez_compressed(folder / "two_streams.npz", **two_streams(model, inputs))


if __name__ == "__main__":
    for name in sys.argv[1:] or ARCHITECTURES:
        main(name)
