"""Recipes: complete ways to adapt a model, and the functions that apply or suggest them."""

from keras_transfer.adaptation.recipes.fine_tuning import fine_tune
from keras_transfer.adaptation.recipes.length import STEPS, steps_of, with_enough_epochs
from keras_transfer.adaptation.recipes.recipe import RECIPES, Recipe, get_recipe

__all__ = [
    "RECIPES",
    "STEPS",
    "Recipe",
    "fine_tune",
    "get_recipe",
    "steps_of",
    "with_enough_epochs",
]
