"""Recipes whose batches do not fit into memory: smaller batches, several of which make an update."""

import dataclasses
import logging

import keras

from keras_transfer.batches import Batches
from keras_transfer.distribute import check_memory_is_known, largest_batch

log = logging.getLogger("keras_transfer")


def check_batch_search(data, options):
    """Raises a `ValueError` if the batch size cannot be found: on several devices, without JAX, and for datasets.

    Args:
        data: Dict of arguments of `fit`.
        options: Dict of arguments of `fit`.
    """
    check_memory_is_known()
    if (distribution := keras.distribution.distribution()) is not None:
        raise ValueError(
            "Batches that fit into memory can be found on one device only. Set `gradient_accumulation_steps` to an "
            f"integer or None. Received: gradient_accumulation_steps='auto' and a {type(distribution).__name__}"
        )
    if options.get("steps_per_epoch") is not None:
        raise ValueError(
            "`steps_per_epoch` counts batches, whose size is not known yet. Leave it out, or set `batch_size`. "
            f"Received: steps_per_epoch={options['steps_per_epoch']} and gradient_accumulation_steps='auto'"
        )
    if not isinstance(data["x"], Batches) and "batch_size" not in data:
        raise ValueError(
            "Batches that fit into memory can be found for data in memory. A dataset of batches already has their "
            "size: set `gradient_accumulation_steps` to an integer or None. "
            f"Received: gradient_accumulation_steps='auto', x of type {type(data['x']).__name__}"
        )


def with_largest_batch(plan, model, data):
    """Returns a recipe with batches that fit into memory and as many rows per update, and the data in such batches.

    Args:
        plan: `Recipe` for an update after each batch.
        model: Model to train, prepared and compiled with the optimizer of the recipe.
        data: Dict of arguments of `fit`.
    """
    x = data["x"]
    if isinstance(x, Batches):
        options = x.options
        size = min(options.batch_size, len(x.order))
        longest = x.replace(lengths=options.lengths[-1:], label_lengths=options.label_lengths[-1:])
    else:
        size = min(data["batch_size"], len(keras.tree.flatten(x)[0]))
        columns = (data[name] for name in ("x", "y", "sample_weight"))
        longest = tuple(
            keras.tree.map_structure(lambda part: part[:size], each) for each in columns if each is not None
        )
    try:
        rows = largest_batch(model, longest)
    except ValueError as error:
        raise ValueError(f"{error} (The recipe has prepared the model: create it again for another one.)") from None
    count = size // rows
    several = f", and {count} of them make an update (`batch_size={rows}, gradient_accumulation_steps={count}`)"
    log.warning("Batches of %d rows fit into memory%s.", rows, several if count > 1 else "")
    found = dataclasses.replace(
        plan,
        batch_size=rows,
        gradient_accumulation_steps=count if count > 1 else None,
        steps=None if plan.steps is None else plan.steps * count,
    )
    smaller = {"x": x.replace(batch_size=rows)} if isinstance(x, Batches) else {**data, "batch_size": rows}
    return found, smaller
