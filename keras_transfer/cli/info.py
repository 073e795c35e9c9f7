"""Describes the content of a checkpoint and what can load it, from its configuration and its file headers only."""

import math
import re
import types

from keras_transfer import checkpoints
from keras_transfer.checkpoints import Head, find_head, huggingface, presets
from keras_transfer.core.names import listed

# From the name of each head to the names of the tasks that load it.
TASKS = {
    "causal_lm": "tasks.CausalLM",
    "masked_lm": "tasks.MaskedLM",
    "permutation_lm": "tasks.PermutationLM",
    "pretraining": "tasks.BertPretraining",
    "replaced_token": "tasks.ReplacedTokenDetection",
    "classifier": "tasks.TextClassifier",
    "tokens": "tasks.TokenClassifier",
    "multiple_choice": "tasks.MultipleChoice",
    "seq2seq": "tasks.Seq2SeqLM",
    "span": "tasks.SpanExtractor",
}


def describe(source):
    """Returns a description of a Hugging Face folder as lines of text, without loading its weights."""
    folder = checkpoints.resolve(source)
    for_keras_hub = presets.converts(folder)
    if not for_keras_hub and (presets.recognises(folder) or not huggingface.recognises(folder)):
        raise checkpoints.CheckpointError(
            f"`info` describes Hugging Face folders, which have a config.json. Received: {folder}"
        )
    architecture, config, shapes = huggingface.headers(folder)
    size = f"{len(shapes)} with {_count(shapes, shapes)} numbers"
    if for_keras_hub:
        rows = [("architecture", f"{config['model_type']}, loaded by KerasHub without its heads"), ("tensors", size)]
        return _table(folder, [*rows, ("tokenizer", _tokenizer(folder, {"vocabulary_size": config.get("vocab_size")}))])
    arguments = architecture.arguments(config, folder)
    shapes = {architecture.plain_name(name): shape for name, shape in shapes.items()}
    rows = [("architecture", f"{architecture.model_type}, loaded as {architecture.encoder_class.__name__}")]
    rows += [(name, str(value)) for name, value in arguments.items()]

    encoder = types.SimpleNamespace(**arguments)
    table = [name for names in architecture.tensors.values() for name in _listed(names, encoder)]
    patterns = [re.escape(name).replace(r"\*", r"\d+") + r"(\.weight|\.bias)?" for name in table]
    in_encoder = [name for name in shapes if any(re.fullmatch(pattern, name) for pattern in patterns)]
    rest = [name for name in shapes if name not in in_encoder]
    rows.append(("tensors", size))
    rows.append(("encoder", f"{len(in_encoder)} tensors with {_count(in_encoder, shapes)} numbers, which load"))
    readers = dict.fromkeys(shapes)
    for name, prefix in architecture.head_prefixes.items():
        found = find_head(architecture, name, config, readers, folder)
        if found is not None and name in TASKS:
            rows.append((f"head {name}", f"{len(found.readers)} tensors, which {TASKS[name]} loads"))
            rest = [tensor for tensor in rest if tensor not in found.readers]
        elif not isinstance(architecture.heads[name], Head) and any(tensor.startswith(prefix) for tensor in rest):
            rows.append((f"head {name}", "not supported"))
            rest = [tensor for tensor in rest if not tensor.startswith(prefix)]
    if isinstance(config.get("id2label"), dict):
        rows.append(("labels", listed(config["id2label"].values())))
    rest = [name for name in rest if name not in architecture.tied]
    rest = [name for name in rest if not any(re.search(pattern, name) for pattern in architecture.ignored)]
    more = f" and {len(rest) - 10} more" if len(rest) > 10 else ""
    rows.append(("not loaded", (", ".join(sorted(rest)[:10]) or "nothing else") + more))
    rows.append(("tokenizer", _tokenizer(folder, arguments)))
    return _table(folder, rows)


def print_info(source):
    """Prints what `describe` returns."""
    print("\n".join(describe(source)))


def _table(folder, rows):
    width = max(len(name) for name, _ in rows)
    return [str(folder), *(f"  {name:<{width}}  {value}" for name, value in rows)]


def _listed(names, encoder):
    names = names[0] if isinstance(names, tuple) else names
    names = names(encoder) if callable(names) else names
    return [names] if isinstance(names, str) else names


def _count(names, shapes):
    return f"{sum(math.prod(shapes[name]) for name in names):,}"


def _tokenizer(folder, arguments):
    try:
        preprocessor = checkpoints.load_preprocessor(folder)
    except (ValueError, OSError, ImportError) as error:
        return f"does not load: {error}"
    size, rows = preprocessor.vocabulary_size, arguments.get("vocabulary_size")
    fits = "" if rows is None or size <= rows else f", which do not fit the embedding of {rows} rows"
    return (
        f"{type(preprocessor).__name__}, {size} tokens{fits}, texts are truncated to {preprocessor.sequence_length} ids"
    )
