"""Makes seqeval.json: entities and scores that seqeval finds in random labels, many of them ill-formed.

Needs seqeval: `pip install seqeval==1.2.2 'setuptools<81'`, then `python tests/references/make_seqeval.py`.
"""

import json
import pathlib
import random
import warnings

from seqeval.metrics import classification_report
from seqeval.metrics.sequence_labeling import get_entities

SCHEMES = {
    "IOB2": ["O", *(f"{prefix}-{kind}" for kind in ("PER", "LOC") for prefix in "BI")],
    "IOBES": ["O", *(f"{prefix}-{kind}" for kind in ("PER", "LOC-2") for prefix in "BIES")],
    "no types": ["O", "B", "I", "E", "S", "I-_", "B-"],
}
FIELDS = {"precision": "precision", "recall": "recall", "f1-score": "f1", "support": "support"}


def sequence(labels, length):
    """Random labels, mostly ill-formed. Some occur twice in a row, for longer entities."""
    sequence = []
    while len(sequence) < length:
        sequence += [random.choice(labels)] * random.choice([1, 1, 2])
    return sequence[:length]


def pair(labels):
    """The labels of a few sentences, and the same with some labels replaced."""
    true = [sequence(labels, random.randint(1, 12)) for _ in range(random.randint(1, 4))]
    rate = random.choice([0, 0.2, 0.2, 0.5, 1])
    changed = [[random.choice(labels) if random.random() < rate else label for label in part] for part in true]
    return true, changed


def report(true, predicted):
    """seqeval's report under our names."""
    found = classification_report(true, predicted, output_dict=True, zero_division=0)
    found.pop("weighted avg")
    rows = {name.removesuffix(" avg"): row for name, row in found.items()}
    return {name: {ours: float(row[theirs]) for theirs, ours in FIELDS.items()} for name, row in rows.items()}


def main():
    random.seed(0)
    warnings.simplefilter("ignore")
    sentences, documents = [], []
    for i in range(300):
        labels = SCHEMES[list(SCHEMES)[i % 3]]
        found = sequence(labels, random.randint(0, 12))
        # Their end is the last word, ours the one after it.
        spans = [[kind, start, end + 1] for kind, start, end in get_entities(found)]
        sentences.append({"labels": " ".join(found), "entities": spans})
    while len(documents) < 60:
        scheme = list(SCHEMES)[len(documents) % 3]
        true, predicted = pair(SCHEMES[scheme])
        if get_entities(true) or get_entities(predicted):  # without any entities seqeval has no report
            found = report(true, predicted)
            true, predicted = ([" ".join(part) for part in parts] for parts in (true, predicted))
            documents.append({"scheme": scheme, "true": true, "predicted": predicted, "report": found})
    file = pathlib.Path(__file__).with_name("seqeval.json")
    rows = {"schemes": SCHEMES.items(), "sentences": sentences, "documents": documents}
    lines = (f'"{name}": [\n' + ",\n".join(map(json.dumps, values)) + "\n]" for name, values in rows.items())
    file.write_text("{" + ",\n".join(lines) + "}\n", "utf-8")


if __name__ == "__main__":
    main()
