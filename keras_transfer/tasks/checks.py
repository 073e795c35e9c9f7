"""Checks of a task: whether its preprocessor matches its encoder, whether it is compiled, and the options of `fit`."""

import contextlib
import logging
import math
import numbers
import warnings

import keras

from keras_transfer.core.expect import expect, integer
from keras_transfer.core.names import belongs, listed
from keras_transfer.keras_internals import layer_tracking
from keras_transfer.training import check_schedule_free

log = logging.getLogger("keras_transfer")


def check_preprocessor(encoder, reader):
    """Raises a `ValueError` if a reader's preprocessor returns inputs that the encoder does not accept."""
    preprocessor = reader.preprocessor
    if preprocessor is not None and not callable(preprocessor):
        raise ValueError(f"`preprocessor` must be callable. Received: preprocessor={preprocessor!r}")
    if hasattr(preprocessor, "encode_words") and isinstance(encoder.input, dict):
        made = preprocessor.compute_output_spec(keras.KerasTensor((None,), "string"), sequence_length="longest")
        for key, tensor in encoder.input.items():
            if key in reader.makes:
                continue
            shape = made[key].shape if key in made else None
            fits = shape is not None and len(shape) == len(tensor.shape)
            if not fits or any(a != b and None not in (a, b) for a, b in zip(shape[2:], tensor.shape[2:])):
                shapes = {key: value.shape for key, value in made.items()}
                lacks_segments = key == "segment_ids" and shape is None
                advice = " Use a `BertPreprocessor`, or a `Packing` with `segments`." if lacks_segments else ""
                raise ValueError(
                    f"`preprocessor` must return the encoder's input {key!r} of shape {tensor.shape}.{advice} "
                    f"Received: {type(preprocessor).__name__}, which returns {shapes}"
                )
    rows = getattr(encoder, "vocabulary_size", None)
    words = check_sizes(preprocessor, encoder, rows)
    if words is not None and rows is not None and words != rows:
        log.warning(
            "The encoder's embedding has %d rows, but the preprocessor's vocabulary has %d tokens. Check that both "
            "come from the same checkpoint.",
            rows,
            words,
        )


def check_sizes(preprocessor, encoder, rows, name="preprocessor"):
    """Returns the vocabulary size of a preprocessor, or `None`, after comparing its sizes with the encoder's."""
    positions = getattr(encoder, "max_sequence_length", None)
    tokens = getattr(preprocessor, "sequence_length", getattr(preprocessor, "window_length", None))
    if tokens is not None and positions is not None and tokens > positions:
        raise ValueError(
            f"The `sequence_length` of `{name}` must be at most {positions}, the encoder's number of positions. "
            f"Create it with `sequence_length={positions}`, or set it to that. Received: sequence_length={tokens}"
        )
    words = _vocabulary_size(preprocessor)
    if words is not None and rows is not None and words > rows:
        raise ValueError(
            f"The vocabulary of `{name}` must not be larger than the encoder's embedding, which has {rows} rows. Use "
            f"the preprocessor of the encoder's checkpoint. Received: a vocabulary of {words} tokens"
        )
    return words


def check_floatx():
    """Raises a `ValueError` if losses and labels would be in half precision, which rounds class ids above 256."""
    if keras.config.floatx() in ("bfloat16", "float16"):
        raise ValueError(
            "Keras computes losses in `keras.config.floatx()`, and rounds labels to it. Call "
            "`keras.config.set_floatx('float32')` and create the model again, in half precision with the argument "
            f"`dtype='mixed_bfloat16'` of the encoder. Received: floatx={keras.config.floatx()!r}"
        )


def warn_of_half_weights(model):
    """Logs a warning if the trainable weights have too little precision for small updates."""
    half = [weight for weight in model.trainable_weights if weight.dtype in ("bfloat16", "float16")]
    if half:
        log.warning(
            "%d of the %d weights to train are %s: %s. Updates that are much smaller than a weight are rounded away, "
            "so with usual learning rates most weights do not move. Create the model with the dtype policy 'mixed_%s', "
            "which keeps the weights in float32.",
            len(half),
            len(model.trainable_weights),
            half[0].dtype,
            listed([weight.path for weight in half], 3),
            half[0].dtype,
        )


def warn_of_own_lora(model):
    """Logs a warning if layers have Keras's own LoRA, which is gone in a file."""
    own = [layer.path for layer in layer_tracking.layers_in(model) if getattr(layer, "lora_enabled", False)]
    if own:
        log.warning(
            "Keras merges its own LoRA (`enable_lora`) into the kernels that it saves. A model from this file returns "
            "the same, but has no LoRA, and its LoRA weights no longer train. For adapters that files contain, use "
            "`keras_transfer.adaptation.add_adapters(model, 'lora:8')` instead of `enable_lora`. Received: LoRA in %s",
            listed(own, 3),
        )


def check_optimizer(optimizer):
    """Raises a `ValueError` if what was passed to `compile` is no optimizer, or has an impossible learning rate."""
    advice = belongs(optimizer, "Optimizer")
    if not advice and isinstance(optimizer, type):
        advice = " Create it: add `()` after its name."
    if isinstance(optimizer, numbers.Real):
        advice = f" For a learning rate, pass `keras_transfer.optimizers.FusedAdamW({optimizer!r})`."
    expect(not advice, f"`optimizer` must be a Keras optimizer or its name.{advice}", optimizer=optimizer)
    if isinstance(optimizer, keras.optimizers.Optimizer):
        check_schedule_free(optimizer)
    rate = None
    if type(optimizer).__module__.startswith(("keras.", "keras_transfer.")):
        with warnings.catch_warnings(), contextlib.suppress(OSError, TypeError):  # A learning rate may be a function.
            warnings.simplefilter("ignore")
            rate = optimizer.get_config().get("learning_rate")
    rule = "The learning rate of `optimizer` must be a finite number of at least 0."
    if isinstance(rate, numbers.Real):
        expect(0 <= rate < math.inf, rule, learning_rate=rate)


def require_compiled(task, method):
    """Raises a `ValueError` if a task is not compiled, before its data is processed."""
    if task.compiled:
        own = not type(task).train_step.__module__.startswith("keras_transfer.")  # It may have optimizers of its own.
        if task.optimizer is None and method in ("fit", "train_on_batch") and not own:
            raise ValueError(
                f"`{method}` requires an optimizer. Call `model.compile()` for the task's own, or pass another one to "
                "it. Received: a model that was compiled with `optimizer=None`"
            )
        return
    if task.head_adapters.compile_again:
        raise ValueError(
            "The adapters of the model have changed since it was compiled, and with them the weights that train. "
            f"Call `model.compile(...)` again before `{method}`. Received: adapters {list(task.head_adapters.given)}"
        )
    raise ValueError(
        f"Call `compile` before `{method}`: `model.compile()` uses the task's loss and metrics. "
        "Received: a model that is not compiled"
    )


def check_fit_options(epochs, callbacks, validation_split, shuffle, options):
    """Raises a `ValueError` if options of `fit` are not what Keras expects, and warns if no epoch would be trained."""
    epochs = integer(0).check("epochs", epochs)
    first = integer(0).check("initial_epoch", options.get("initial_epoch", 0))
    if first and first >= epochs:
        log.warning(
            "`fit` trains no epoch, because `epochs` is the number of the last one, and not how many follow "
            "`initial_epoch`. Received: initial_epoch=%d, epochs=%d",
            first,
            epochs,
        )
    for name in ("steps_per_epoch", "validation_steps", "validation_freq"):
        value = options.get(name)
        if value is not None and (name != "validation_freq" or isinstance(value, numbers.Real)):
            integer(1).check(name, value)
    rule = "`validation_split` must be a number between 0 and 1."
    expect(isinstance(validation_split, numbers.Real), rule, validation_split=validation_split)
    expect(not isinstance(shuffle, str), "`shuffle` must be a boolean.", shuffle=shuffle)
    for callback in keras.tree.flatten(getattr(callbacks, "callbacks", callbacks) or []):
        if not isinstance(callback, keras.callbacks.Callback):
            advice = " Create it: add `()` after its name." if isinstance(callback, type) else ""
            advice = belongs(callback, "Callback") or advice
            raise ValueError(
                f"`callbacks` must be a list of `keras.callbacks.Callback`s.{advice} Received: {callback!r:.100}"
            )


def _vocabulary_size(preprocessor):
    try:
        if hasattr(preprocessor, "vocabulary_size"):
            return preprocessor.vocabulary_size
        tokenizer = getattr(preprocessor, "tokenizer", None)  # KerasHub's preprocessors have one.
        return None if tokenizer is None else tokenizer.vocabulary_size()
    except ValueError:  # A `.keras` file restores the vocabulary after the model.
        return None
