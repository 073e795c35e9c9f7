"""Corpora: running text, minimal pairs and dialogues."""

from keras_transfer.datasets.corpora.personachat import Dialogue, DialogueExample, Turn, load_personachat
from keras_transfer.datasets.corpora.texts import MinimalPairs, load_blimp, load_wikitext

__all__ = [
    "Dialogue",
    "DialogueExample",
    "MinimalPairs",
    "Turn",
    "load_blimp",
    "load_personachat",
    "load_wikitext",
]
