"""Recipes: complete ways to adapt a model, and the functions that apply or suggest them."""

from keras_transfer.adaptation.recipes.fine_tuning import fine_tune
from keras_transfer.adaptation.recipes.recipe import RECIPES, Recipe, get_recipe

__all__ = [
    "RECIPES",
    "Recipe",
    "fine_tune",
    "get_recipe",
]
