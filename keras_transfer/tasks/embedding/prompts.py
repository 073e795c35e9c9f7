"""Prompts: named texts in front of the texts that an embedder reads, as in sentence-transformers."""

import numpy as np

from keras_transfer.names import did_you_mean

QUERY_PROMPTS = ("query",)
DOCUMENT_PROMPTS = ("document", "passage", "corpus")


def checked_prompts(prompts, default_name):
    """Returns prompts as a dict from names to texts."""
    prompts = {} if prompts is None else prompts
    if not isinstance(prompts, dict) or not all(isinstance(part, str) for pair in prompts.items() for part in pair):
        raise ValueError(
            "`prompts` must be a dict from names to texts, such as {'query': 'query: '}. "
            f"Received: prompts={prompts!r:.200}"
        )
    prompt_of(prompts, default_name, "default_prompt_name")
    return dict(prompts)


def prompt_of(prompts, name, argument="prompt_name"):
    """Returns the prompt with a name, or `""` for `None`."""
    if name is None:
        return ""
    if name not in prompts:
        raise ValueError(
            f"`{argument}` must be the name of a prompt, one of {sorted(prompts)}.{did_you_mean(name, prompts)} "
            f"Received: {name!r}"
        )
    return prompts[name]


def with_prompt(columns, prompt):
    """Returns an array of texts, or a tuple of such arrays, with a prompt in front of each text."""
    if not prompt:
        return columns
    if isinstance(columns, tuple):
        return tuple(with_prompt(column, prompt) for column in columns)
    prompted = np.empty(len(columns), object)
    prompted[:] = [prompt + text for text in columns]
    return prompted
