"""Dialogues: replies that are generated, and replies that are chosen."""

from keras_transfer.tasks.dialogue.dialogue_model import DialogueModel

__all__ = [
    "DialogueModel",
]
