"""Model cards: what a folder says about its model in `README.md`, and uploads to the Hugging Face hub."""

from keras_transfer.checkpoints.cards.facts import ModelFacts
from keras_transfer.checkpoints.cards.model_card import CARD, ModelCard, keep_own_card, remove_card
from keras_transfer.checkpoints.cards.uploading import full_repo_id, push_to_hub

__all__ = ["CARD", "ModelCard", "ModelFacts", "full_repo_id", "keep_own_card", "push_to_hub", "remove_card"]
