"""Makes original_names.json: the configuration of published checkpoints, and the names and shapes of their tensors.

Needs torch and transformers: `python tests/references/make_original_names.py`. The names and shapes are those of
Transformers' own classes, which are built without memory for their weights. `{0-11}` in a name stands for 0 to 11.
"""

import json
import pathlib
import re

import torch
import transformers

BERT = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "initializer_range": 0.02,
    "layer_norm_eps": 1e-12,
    "pad_token_id": 0,
    "position_embedding_type": "absolute",
}
ROBERTA = {**BERT, "vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
ROBERTA |= {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
ALBERT = {**BERT, "vocab_size": 30000, "embedding_size": 128, "num_hidden_groups": 1, "inner_group_num": 1}
ALBERT |= {"bos_token_id": 2, "eos_token_id": 3, "classifier_dropout_prob": 0.1}
DISTILBERT = {
    "vocab_size": 30522,
    "dim": 768,
    "n_layers": 6,
    "n_heads": 12,
    "hidden_dim": 3072,
    "activation": "gelu",
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "max_position_embeddings": 512,
    "sinusoidal_pos_embds": False,
    "initializer_range": 0.02,
    "qa_dropout": 0.1,
    "seq_classif_dropout": 0.2,
    "pad_token_id": 0,
    "tie_weights_": True,
}
SMALL = {"embedding_size": 128, "hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024}
MPNET = {key: value for key, value in ROBERTA.items() if key not in ("type_vocab_size", "position_embedding_type")}
XLNET = {
    "vocab_size": 32000,
    "d_model": 768,
    "n_layer": 12,
    "n_head": 12,
    "d_head": 64,
    "d_inner": 3072,
    "ff_activation": "gelu",
    "dropout": 0.1,
    "attn_type": "bi",
    "bi_data": False,
    "clamp_len": -1,
    "same_length": False,
    "untie_r": True,
    "mem_len": None,
    "reuse_len": None,
    "initializer_range": 0.02,
    "layer_norm_eps": 1e-12,
    "summary_type": "last",
    "summary_use_proj": True,
    "summary_activation": "tanh",
    "summary_last_dropout": 0.1,
    "start_n_top": 5,
    "end_n_top": 5,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 5,
}
GPT = {
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "resid_pdrop": 0.1,
    "embd_pdrop": 0.1,
    "attn_pdrop": 0.1,
    "layer_norm_epsilon": 1e-5,
    "initializer_range": 0.02,
}
MODERNBERT = {
    "vocab_size": 50368,
    "hidden_size": 768,
    "intermediate_size": 1152,
    "num_hidden_layers": 22,
    "num_attention_heads": 12,
    "hidden_activation": "gelu",
    "max_position_embeddings": 8192,
    "local_attention": 128,
    "global_attn_every_n_layers": 3,
    "global_rope_theta": 160000.0,
    "local_rope_theta": 10000.0,
    "attention_bias": False,
    "mlp_bias": False,
    "norm_bias": False,
    "norm_eps": 1e-5,
    "attention_dropout": 0.0,
    "embedding_dropout": 0.0,
    "mlp_dropout": 0.0,
    "initializer_range": 0.02,
}
DEBERTA = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "vocab_size": 128100,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "max_position_embeddings": 512,
    "max_relative_positions": -1,
    "position_biased_input": False,
    "pos_att_type": ["p2c", "c2p"],
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "relative_attention": True,
    "position_buckets": 256,
    "type_vocab_size": 0,
    "initializer_range": 0.02,
    "layer_norm_eps": 1e-7,
}
LARGE = {"hidden_size": 1536, "num_hidden_layers": 24, "num_attention_heads": 24, "intermediate_size": 6144}
# Name of the checkpoint: class, `model_type`, configuration.
CHECKPOINTS = {
    "albert-base-v1": ("AlbertForPreTraining", "albert", ALBERT),
    "albert-base-v2": (
        "AlbertForPreTraining",
        "albert",
        {**ALBERT, "hidden_act": "gelu_new", "hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0},
    ),
    "bert-base-uncased": ("BertForPreTraining", "bert", BERT),
    "camembert-base": ("CamembertForMaskedLM", "camembert", {**ROBERTA, "vocab_size": 32005}),
    "deberta-v2-xlarge": (
        "DebertaV2ForMaskedLM",
        "deberta-v2",
        {**DEBERTA, **LARGE, "conv_kernel_size": 3, "conv_act": "gelu"},
    ),
    "deberta-v3-base": ("DebertaV2ForMaskedLM", "deberta-v2", {**DEBERTA, "legacy": False}),
    "distilbert-base-uncased": ("DistilBertForMaskedLM", "distilbert", DISTILBERT),
    "electra-base-discriminator": ("ElectraForPreTraining", "electra", {**BERT, "embedding_size": 768}),
    "electra-base-generator": ("ElectraForMaskedLM", "electra", {**BERT, **SMALL, "embedding_size": 768}),
    "electra-small-discriminator": ("ElectraForPreTraining", "electra", {**BERT, **SMALL}),
    "gpt2": (
        "GPT2LMHeadModel",
        "gpt2",
        {**GPT, "vocab_size": 50257, "n_positions": 1024, "activation_function": "gelu_new"},
    ),
    "modernbert-base": ("ModernBertForMaskedLM", "modernbert", MODERNBERT),
    "mpnet-base": ("MPNetForMaskedLM", "mpnet", {**MPNET, "vocab_size": 30527, "relative_attention_num_buckets": 32}),
    "openai-gpt": (
        "OpenAIGPTLMHeadModel",
        "openai-gpt",
        {**GPT, "vocab_size": 40478, "n_positions": 512, "afn": "gelu"},
    ),
    "roberta-base": ("RobertaForMaskedLM", "roberta", ROBERTA),
    "xlm-roberta-base": ("XLMRobertaForMaskedLM", "xlm-roberta", {**ROBERTA, "vocab_size": 250002}),
    "xlnet-base-cased": ("XLNetLMHeadModel", "xlnet", XLNET),
}


def names_and_shapes(class_name, settings):
    """Returns a dict from the names of the tensors of a model to their shapes."""
    model_class = getattr(transformers, class_name)
    config = model_class.config_class(**settings)
    with torch.device("meta"):
        model = model_class(config)
        if type(model.base_model) is not model_class:  # The published files have the pooler, which some classes lack.
            setattr(model, model.base_model_prefix, type(model.base_model)(config))
    return {name: list(tensor.shape) for name, tensor in model.state_dict().items()}


def compress(shapes):
    """Returns the same dict with one name for all layers."""
    layers = {}
    for name in shapes:
        pattern = re.sub(r"\.\d+\.", ".{}.", name, count=1)
        layers.setdefault(pattern, []).extend(re.findall(r"\.(\d+)\.", name)[:1])
    compressed = {}
    for name, shape in shapes.items():
        pattern = re.sub(r"\.\d+\.", ".{}.", name, count=1)
        key = pattern.replace("{}", f"{{{layers[pattern][0]}-{layers[pattern][-1]}}}") if layers[pattern] else name
        if compressed.setdefault(key, shape) != shape:
            raise ValueError(f"The layers have different shapes: {name}")
    return compressed


def main():
    found = {}
    for name, (class_name, model_type, settings) in CHECKPOINTS.items():
        config = {"model_type": model_type, "architectures": [class_name], **settings}
        found[name] = {"config": config, "tensors": compress(names_and_shapes(class_name, settings))}
    lines = [
        f"{json.dumps(name)}: {{\n"
        + f'  "config": {json.dumps(parts["config"])},\n  "tensors": {{\n'
        + ",\n".join(f"    {json.dumps(key)}: {json.dumps(shape)}" for key, shape in parts["tensors"].items())
        + "\n  }\n}"
        for name, parts in found.items()
    ]
    file = pathlib.Path(__file__).with_name("original_names.json")
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
