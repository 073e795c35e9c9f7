"""Recipes: whole ways of fine-tuning, and what they are made from."""

from keras_transfer.adaptation.recipes.few_shot import sample_pairs, set_fit
from keras_transfer.adaptation.recipes.fisher import Fisher, estimate_fisher
from keras_transfer.adaptation.recipes.recipes import RECIPES, Recipe, fine_tune, get_recipe
from keras_transfer.adaptation.recipes.suggestion import suggest

__all__ = [
    "RECIPES",
    "Fisher",
    "Recipe",
    "estimate_fisher",
    "fine_tune",
    "get_recipe",
    "sample_pairs",
    "set_fit",
    "suggest",
]
