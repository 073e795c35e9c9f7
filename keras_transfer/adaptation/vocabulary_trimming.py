"""Trims the vocabulary of a task to the tokens of given texts."""

from typing import Any

import keras
import numpy as np

from keras_transfer.adaptation.pruning import remade
from keras_transfer.core.expect import expect, expects, instance_of
from keras_transfer.encoders import TransformerStack, is_quantized
from keras_transfer.tasks import Task
from keras_transfer.text import BertPreprocessor, TokenPreprocessor, is_sentences, to_list, to_sentences

_BATCH = 4096  # Number of texts that are tokenized at once.
# These generation settings consist of ids, which are not renumbered.
_LISTS = ("bad_words_ids", "force_words_ids", "forced_decoder_ids", "suppress_tokens", "begin_suppress_tokens")


@expects(model=instance_of(Task, "a task"))
def trim_vocabulary(model: Task, texts: Any, *, verbose: int = 1) -> Task:
    """Returns a copy of a task that has only the tokens of given texts, and a smaller token embedding.

    Half of the weights of a small encoder are its token embeddings, and the texts of one application use only some of
    them. The trimmed task keeps all tokens that the texts use, the special tokens, and all bytes or single characters
    of the scripts in the texts, so that other words are split into smaller pieces. For the given texts, also after each
    of the prompts of a `TextEmbedder`, the answers are the same, and so are the tokens. For other texts, answers can
    differ, so pass all texts of the domain that you have, including unlabeled ones.

    A language-model head is trimmed like the embeddings. The new task can be saved, exported, written by
    `save_pretrained` and quantized. It has copies of the weights and is not compiled.

    Args:
        model: Task with an encoder-only Transformer of this library and its preprocessor.
        texts: Strings: a list or an iterator of texts or of words, a table column, a tuple of columns (pairs),
            sentences as lists of words, or a `tf.data.Dataset` of texts, batched or not.
        verbose: Integer. `1` prints how many tokens and weights are kept, `0` prints nothing. Defaults to `1`.

    Returns:
        A new task of the same class as `model`.

    Raises:
        ValueError: If the model is not such a task, has adapters or is quantized, if its tokenizer cannot be trimmed,
            if `texts` contains anything but strings or nothing, if one of them would be split differently, or if the
            checkpoint files name a token that the tokenizer does not have.

    Example:
    ```python
    texts = keras_transfer.datasets.load_demo_questions().train.texts
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=6)
    small = keras_transfer.adaptation.trim_vocabulary(model, texts)
    ```

    Source: Abdaoui et al. 2020, "Load What You Need: Smaller Versions of Multilingual BERT",
    https://aclanthology.org/2020.sustainlp-1.16.
    """
    preprocessor = _check(model)
    tokenizer, used = preprocessor.tokenizer, set(preprocessor.special_ids)
    batches = _batches(texts, getattr(model, "prompts", {}).values())
    for batch in batches:
        words = sorted({f" {word}" for text in batch for word in text.split()})  # Inside a text, words follow a space.
        used.update(tokenizer.tokenize([*batch, *words]).values.numpy().tolist())
    expect(batches, "`texts` must contain at least one text.", texts=0)
    special = (*tokenizer.special_tokens, tokenizer.eos_token, tokenizer.mask_token)
    used.update(index for index in map(tokenizer.token_to_id, special) if index is not None)
    small = tokenizer.trimmed({*used, *_named_ids(model.encoder.attached.files)})
    kept = np.array([tokenizer.token_to_id(token) for token in small.vocabulary])
    _check_ids(tokenizer, small, kept, batches)

    config = _renumbered(model.get_config(), {int(old): new for new, old in enumerate(kept)})
    config["encoder"]["config"]["vocabulary_size"] = len(kept)
    config["preprocessor"] = _with_tokenizer(preprocessor, small)
    rows = model.encoder.vocabulary_size

    def value_of(old, new):
        value = keras.ops.convert_to_numpy(old)
        for axis, (size, other) in enumerate(zip(old.shape, new.shape, strict=True)):
            if size != other and (size, other) == (rows, len(kept)):
                value = np.take(value, kept, axis)
        return value

    trimmed = remade(model, config, value_of)
    if verbose:
        before, after = model.count_params(), trimmed.count_params()
        print(
            f"Kept {len(kept):,} of {tokenizer.vocabulary_size:,} tokens, and {after:,} of {before:,} weights "
            f"({after / before:.0%})."
        )
    return trimmed


def _check(model):
    """Returns the preprocessor of a task that can be trimmed."""
    encoder, preprocessor = model.encoder, model.preprocessor
    rule = "Only the vocabulary of a task with one Transformer of `keras_transfer.encoders` can be trimmed."
    expect(isinstance(encoder, TransformerStack), rule, model=model, encoder=encoder)
    rule = "Only a task with a `BertPreprocessor` or a `TokenPreprocessor` can be trimmed."
    expect(type(preprocessor) in (BertPreprocessor, TokenPreprocessor), rule, preprocessor=preprocessor)
    parts = [name for name in model.saved_apart if getattr(model, name) is not None]
    expect(not parts, "A task with a second encoder cannot be trimmed.", parts=parts)
    rule = "Call `adaptation.merge_adapters` or `remove_adapters` before the vocabulary is trimmed."
    expect(not encoder.adapters and not model.head_adapters.heads, rule, adapters=list(encoder.adapters))
    files = encoder.attached.files.items()
    lists = [f"{name} of {file}" for file, found in files for name in _LISTS if found.get(name)]
    rule = (
        "The files of the checkpoint refer to tokens by their numbers. Remove these settings from "
        "`generation_config.json` and `config.json` first."
    )
    expect(not lists, rule, settings=lists)
    expect(not is_quantized(model), "Trim the vocabulary before `quantize`, not after.", model=model)
    return preprocessor


def _strings(texts):
    """Yields the strings of a column, of sentences, of a tuple of these, or of a `tf.data.Dataset`."""
    if hasattr(texts, "element_spec"):
        rule = (
            "A `tf.data.Dataset` must contain texts only. Map it to its texts, for example by "
            "`dataset.map(lambda text, label: text)`."
        )
        specs = keras.tree.flatten(texts.element_spec)
        expect(all(spec.dtype == "string" for spec in specs), rule, element_spec=texts.element_spec)
        for part in (part for row in texts for part in keras.tree.flatten(row)):
            values = getattr(part, "flat_values", part)  # Sentences are ragged tensors.
            yield from to_list(np.ravel(np.asarray(values.numpy(), object)))
    elif isinstance(texts, tuple):
        for column in texts:
            yield from _strings(column)
    elif hasattr(texts, "read"):
        raise ValueError(
            f"`texts` must not be an open file. Pass `file.read().splitlines()`. Received: {type(texts).__name__}"
        )
    else:
        texts = list(texts) if hasattr(texts, "__next__") else texts
        if is_sentences(texts):
            for words in to_sentences(texts):
                yield from words
        else:
            yield from to_list(texts)


def _batches(texts, prompts):
    """Returns the distinct strings in batches, also after each of the prompts."""
    expect(not isinstance(texts, (str, bytes)), "`texts` must be several texts.", texts=texts)
    distinct = list(dict.fromkeys(_strings(texts)))
    prompted = [prompt + text for prompt in prompts for text in ("", *distinct)] if distinct else []
    distinct = list(dict.fromkeys([*distinct, *prompted]))
    return [distinct[start : start + _BATCH] for start in range(0, len(distinct), _BATCH)]


def _check_ids(tokenizer, small, kept, batches):
    """Raises a `ValueError` if the trimmed tokenizer splits a text differently."""
    for batch in batches:
        before, after = tokenizer.tokenize(batch).to_list(), small.tokenize(batch).to_list()
        for text, expected, found in zip(batch, before, after, strict=True):
            rule = "The trimmed tokenizer would split a text differently. Remove the text to trim without it."
            expect(kept[found].tolist() == expected, rule, text=text)


def _named_ids(settings):
    """Yields the ids of special tokens that a checkpoint's files name, such as `bos_token_id`."""
    for name, part in settings.items():
        if isinstance(part, dict):
            yield from _named_ids(part)
        elif str(name).endswith("token_id"):
            yield from part if isinstance(part, list) else [part]


def _renumbered(config, places):
    """Returns a config with the new ids of special tokens that a checkpoint's files name."""
    if isinstance(config, (list, tuple)):
        return type(config)(_renumbered(part, places) for part in config)
    if not isinstance(config, dict):
        return config
    found = {name: _renumbered(part, places) for name, part in config.items()}
    for name in [name for name in config if str(name).endswith("token_id")]:
        part = config[name]
        ids = part if isinstance(part, list) else [part]
        unknown = [index for index in ids if index is not None and index >= 0 and index not in places]
        rule = (
            "The files of the checkpoint name a token that the tokenizer does not have. Remove the setting from "
            "`config.json` and `generation_config.json` first."
        )
        expect(not unknown, rule, **{name: unknown[:1]})
        ids = [places.get(index, index) for index in ids]  # None and negative numbers stand for no token.
        found[name] = ids if isinstance(part, list) else ids[0]
    return found


def _with_tokenizer(preprocessor, tokenizer):
    """Returns the preprocessor with a different tokenizer."""
    config = preprocessor.get_config()
    if "tokenizer" not in config:  # `BertPreprocessor` creates its own tokenizer.
        return type(preprocessor)(tokenizer.vocabulary, **config)
    packing = preprocessor.packing
    return type(preprocessor)(tokenizer, packing, config["sequence_length"], split=config["split"], name=config["name"])
