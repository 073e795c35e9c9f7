"""Recipes: complete ways to adapt a model, and the functions that apply them."""

from keras_transfer.adaptation.recipes.fine_tuning import fine_tune
from keras_transfer.adaptation.recipes.length import STEPS, enough_epochs, steps_of
from keras_transfer.adaptation.recipes.recipe import RECIPES, Recipe, get_recipe

__all__ = [
    "RECIPES",
    "STEPS",
    "Recipe",
    "enough_epochs",
    "fine_tune",
    "get_recipe",
    "steps_of",
]
