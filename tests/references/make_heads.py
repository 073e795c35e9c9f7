"""Makes heads/NAME: small random checkpoints with the heads of tasks, as Transformers writes them, and their logits.

    python tests/references/make_heads.py bert_classifier

Needs torch and transformers. Without names it makes all. Weights are large, so that errors are, too.
"""

import json
import pathlib
import sys

import numpy as np
import torch
import transformers

FOLDER = pathlib.Path(__file__).with_name("heads")
SIZES = {
    "vocab_size": 12,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 12,
    "attn_implementation": "eager",
}
ROBERTA = {"type_vocab_size": 1, "layer_norm_eps": 1e-5, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
LABELS = {"id2label": {0: "bad", 1: "fine", 2: "good"}, "label2id": {"bad": 0, "fine": 1, "good": 2}}
IDS = [[2, 7, 9, 4, 3, 5, 3], [2, 11, 3, 0, 0, 0, 0]]
MASK = [[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0, 0]]
XLNET_SEGMENTS = [[0, 0, 0, 1, 1, 1, 2], [0, 0, 2, 0, 0, 0, 0]]


def bert(**options):
    return transformers.BertConfig(**SIZES, **options)


def roberta(**options):
    return transformers.RobertaConfig(**SIZES, **ROBERTA, **options)


def electra(**options):
    return transformers.ElectraConfig(**SIZES, embedding_size=6, **options)


def distilbert(**options):
    sizes = {"vocab_size": 12, "dim": 8, "n_layers": 1, "n_heads": 2, "hidden_dim": 16, "max_position_embeddings": 12}
    return transformers.DistilBertConfig(**sizes, attn_implementation="eager", **options)


def albert(**options):
    return transformers.AlbertConfig(**SIZES, embedding_size=6, **options)


def mpnet(**options):
    return transformers.MPNetConfig(**SIZES, pad_token_id=1, bos_token_id=0, eos_token_id=2, **options)


def deberta(**options):
    attention = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "share_att_key": True}
    attention |= {"position_biased_input": False, "position_buckets": 4, "norm_rel_ebd": "layer_norm"}
    return transformers.DebertaV2Config(**SIZES, **attention, **options)


def modernbert(**options):
    special = {f"{name}_token_id": None for name in ("pad", "eos", "bos", "cls", "sep")}
    return transformers.ModernBertConfig(**SIZES, **special, local_attention=4, **options)


def xlnet(**options):
    sizes = {"vocab_size": 12, "d_model": 8, "n_layer": 1, "n_head": 2, "d_inner": 16, "mem_len": None}
    return transformers.XLNetConfig(**sizes, **options)


HEADS = {
    "bert_classifier": lambda: transformers.BertForSequenceClassification(bert(**LABELS)),
    "bert_tokens": lambda: transformers.BertForTokenClassification(bert(**LABELS)),
    "bert_masked_lm": lambda: transformers.BertForMaskedLM(bert()),
    "bert_pretraining": lambda: transformers.BertForPreTraining(bert()),
    "albert_pretraining": lambda: transformers.AlbertForPreTraining(albert()),
    "bert_span": lambda: transformers.BertForQuestionAnswering(bert()),
    "distilbert_span": lambda: transformers.DistilBertForQuestionAnswering(distilbert()),
    "roberta_span": lambda: transformers.RobertaForQuestionAnswering(roberta()),
    "modernbert_span": lambda: transformers.ModernBertForQuestionAnswering(modernbert()),
    "roberta_classifier": lambda: transformers.RobertaForSequenceClassification(roberta()),
    "roberta_masked_lm": lambda: transformers.RobertaForMaskedLM(roberta()),
    "electra_classifier": lambda: transformers.ElectraForSequenceClassification(electra(**LABELS)),
    "distilbert_classifier": lambda: transformers.DistilBertForSequenceClassification(distilbert(**LABELS)),
    "distilbert_masked_lm": lambda: transformers.DistilBertForMaskedLM(distilbert()),
    "albert_classifier": lambda: transformers.AlbertForSequenceClassification(albert(**LABELS)),
    "albert_tokens": lambda: transformers.AlbertForTokenClassification(albert(**LABELS)),
    "albert_masked_lm": lambda: transformers.AlbertForMaskedLM(albert()),
    "mpnet_classifier": lambda: transformers.MPNetForSequenceClassification(mpnet(**LABELS)),
    "mpnet_masked_lm": lambda: transformers.MPNetForMaskedLM(mpnet()),
    "electra_replaced_token": lambda: transformers.ElectraForPreTraining(electra()),
    "electra_masked_lm": lambda: transformers.ElectraForMaskedLM(electra()),
    "deberta-v2_classifier": lambda: transformers.DebertaV2ForSequenceClassification(deberta(**LABELS)),
    "deberta-v2_tokens": lambda: transformers.DebertaV2ForTokenClassification(deberta(**LABELS)),
    "deberta-v2_masked_lm": lambda: transformers.DebertaV2ForMaskedLM(deberta(legacy=False)),
    "modernbert_classifier": lambda: transformers.ModernBertForSequenceClassification(
        modernbert(classifier_pooling="mean", **LABELS)
    ),
    "modernbert_tokens": lambda: transformers.ModernBertForTokenClassification(modernbert(**LABELS)),
    "modernbert_masked_lm": lambda: transformers.ModernBertForMaskedLM(modernbert()),
    "bert_multiple_choice": lambda: transformers.BertForMultipleChoice(bert()),
    "electra_multiple_choice": lambda: transformers.ElectraForMultipleChoice(electra()),
    "distilbert_multiple_choice": lambda: transformers.DistilBertForMultipleChoice(distilbert()),
    "modernbert_multiple_choice": lambda: transformers.ModernBertForMultipleChoice(modernbert()),
    "xlnet_classifier": lambda: transformers.XLNetForSequenceClassification(xlnet(**LABELS)),
    "xlnet_tokens": lambda: transformers.XLNetForTokenClassification(xlnet(**LABELS)),
}


def shift(rows, direction):
    """Returns rows that are padded on the left (`direction=1`), as XLNet's are, or on the right again (-1)."""
    return np.stack([np.roll(row, direction * np.sum(np.array(real) == 0), axis=0) for row, real in zip(rows, MASK)])


def losses(model, ids, mask):
    """Returns targets of hidden tokens and of pairs, and the loss of a model for both."""
    targets, pairs = np.full(ids.shape, -100), np.array([0, 1])
    targets[0, [1, 3, 5]], targets[1, 1] = [6, 8, 10], 7
    pair = "sentence_order_label" if model.config.model_type == "albert" else "next_sentence_label"
    inputs = {"input_ids": ids, "attention_mask": mask, "labels": targets, pair: pairs}
    loss = model(**{key: torch.tensor(value) for key, value in inputs.items()}).loss
    return {"targets": targets.astype("int32"), "pairs": pairs.astype("int32"), "loss": loss.numpy()}


def main(name):
    torch.manual_seed(0)
    model = HEADS[name]().eval()
    ids, mask, extra = np.array(IDS), np.array(MASK), {}
    if model.config.model_type in ("roberta", "mpnet"):
        ids = np.where(mask == 0, 1, np.where(ids == 2, 0, np.where(ids == 3, 2, ids)))
    if name.endswith("multiple_choice"):
        ids, mask = ids[None], mask[None]  # one row of two choices
    with torch.no_grad():
        for path, weight in model.named_parameters():
            weight.copy_(0.3 * torch.randn(weight.shape) + (1.0 if "norm.weight" in path.lower() else 0.0))
        if model.config.model_type == "xlnet":
            inputs = {"input_ids": ids, "attention_mask": MASK, "token_type_ids": XLNET_SEGMENTS}
            logits = model(**{key: torch.tensor(shift(np.array(rows), 1)) for key, rows in inputs.items()}).logits
            logits = torch.tensor(shift(logits.numpy(), -1)) if logits.ndim == 3 else logits
        else:
            outputs = model(input_ids=torch.tensor(ids), attention_mask=torch.tensor(mask))
            is_span = name.endswith("_span")
            if name.endswith("_pretraining"):
                logits = outputs.prediction_logits
                pair = outputs.sop_logits if "albert" in name else outputs.seq_relationship_logits
                extra = {"pair_logits": pair.numpy(), **losses(model, ids, mask)}
            else:
                logits = torch.stack([outputs.start_logits, outputs.end_logits], -1) if is_span else outputs.logits
    folder = FOLDER / name
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    arrays = {"token_ids": ids, "padding_mask": mask}
    if hasattr(model.config, "type_vocab_size") and model.config.type_vocab_size == 2:
        arrays["segment_ids"] = np.zeros_like(ids)
    if model.config.model_type == "xlnet":
        arrays["segment_ids"] = np.array(XLNET_SEGMENTS)
    np.savez_compressed(
        folder / "outputs.npz",
        **{key: value.astype("int32") for key, value in arrays.items()},
        logits=logits.numpy(),
        **extra,
    )
    print(name, json.loads((folder / "config.json").read_text())["architectures"], logits.shape)


if __name__ == "__main__":
    for name in sys.argv[1:] or HEADS:
        main(name)
