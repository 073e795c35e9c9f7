"""Recipes: whole ways of fine-tuning, and what they are made from."""

from keras_transfer.adaptation.recipes.recipes import RECIPES, Recipe, fine_tune, get_recipe

__all__ = [
    "RECIPES",
    "Recipe",
    "fine_tune",
    "get_recipe",
]
