"""Text generation with a causal language model."""

from keras_transfer import tasks


def print_texts(model, prompts, max_new_tokens, sampler, seed):
    """Prints each prompt, followed by the text that a causal language model generates for it."""
    task = tasks.CausalLM.from_pretrained(model)
    options = {"max_new_tokens": max_new_tokens, "sampler": sampler, "seed": seed}
    found = task.generate(prompts, **options)
    print("\n\n".join(prompt + continuation for prompt, continuation in zip(prompts, found)))
