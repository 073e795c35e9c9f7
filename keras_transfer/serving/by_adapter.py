"""Signatures of one encoder with several adapters: each row of a request names its adapter."""

import dataclasses

import keras

from keras_transfer.adaptation import adapted_encoder, adapter_weights, check_names, head_for
from keras_transfer.core.expect import expect
from keras_transfer.core.lazy import tf


def signatures_by_adapter(model, signatures, names):
    """Returns signatures that also accept `adapter` `[batch]` strings, the name of the adapters for each row.

    The rows of each adapter run together, so a row costs the same as without the choice. Signatures that expect
    anything other than texts are left out. Rows with `""` use the first name.
    """
    weights = {}  # `(variable, value)` for each weight of the adapters and of their head, in a fixed order.
    for name in names:
        own = adapter_weights(model.encoder, name).values()
        weights[name] = [*head_for(model, name), *((weight, weight.value) for weight in own)]
    name = keras.KerasTensor((None,), "string", name="adapter")
    found = {
        key: dataclasses.replace(
            signature,
            function=_choosing(model, signature.function, weights),
            inputs={**signature.inputs, "adapter": name},
        )
        for key, signature in signatures.items()
        if all(len(spec.shape) == 1 for spec in signature.inputs.values())
    }
    rule = f"`adapters` cannot be used with a `{type(model).__name__}`, whose signatures expect inputs other than one"
    expect(found, f"{rule} text for each row. Export each adapter separately.", adapters=names)
    return found


def check_adapters(model, names):
    """Raises a `ValueError` if a model cannot be exported with a choice of these adapters."""
    rule = "`adapters` must be a list of at least two names."
    expect(not isinstance(names, str) and len(names) > 1, rule, adapters=names)
    check_names(adapted_encoder(model), names)


def _choosing(model, function, weights):
    names, traced = list(weights), {}

    def answer(name, inputs):
        # Adapters of the same kinds differ in their weights alone, so one of them is traced for all.
        kinds = model.encoder.adapters
        first = next((other for other in traced if kinds[other] == kinds[name]), name)
        if first not in traced:
            traced[first] = tf.function(lambda values, inputs: with_weights(first, values, inputs), autograph=False)
        return traced[first]([tf.convert_to_tensor(value) for _, value in weights[name]], inputs)

    def with_weights(name, values, inputs):
        mapping = [(variable, value) for (variable, _), value in zip(weights[name], values, strict=True)]
        with model.head_adapters.applying([name]), keras.StatelessScope(state_mapping=mapping):
            return function(**inputs)

    def choose(adapter, **inputs):
        adapter = tf.where(adapter == "", names[0], adapter)
        known = tf.reduce_any(adapter[:, None] == tf.constant(names)[None], axis=1)
        message, unknown = f"`adapter` must be one of {names}. Received:", tf.boolean_mask(adapter, ~known)
        with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(known), [message, unknown])]):
            adapter = tf.identity(adapter)
        parts, places = [], []
        for name in names:
            rows = tf.where(adapter == name)[:, 0]
            parts.append(_rows_or_none(lambda found, name=name: answer(name, found), inputs, rows))
            places.append(rows)
        order = tf.argsort(tf.concat(places, axis=0))
        return {key: tf.gather(tf.concat([part[key] for part in parts], axis=0), order) for key in parts[0]}

    return choose


def _rows_or_none(function, inputs, rows):
    """Returns the outputs of a function for some rows of the inputs. Without rows, it is not called if possible."""

    def run():
        # If there are no rows, one row is added, since some kernels fail on empty tensors.
        some = tf.concat([rows, tf.zeros([tf.cast(tf.equal(tf.size(rows), 0), tf.int32)], rows.dtype)], axis=0)
        outputs = function({key: tf.gather(value, some) for key, value in inputs.items()})
        return {key: value[: tf.size(rows)] for key, value in outputs.items()}

    traced = tf.function(run, autograph=False).get_concrete_function().structured_outputs
    if any(isinstance(spec, tf.RaggedTensorSpec) or None in spec.shape[1:] for spec in traced.values()):
        return run()
    return tf.cond(
        tf.size(rows) > 0,
        run,
        lambda: {key: tf.zeros([0, *spec.shape[1:]], spec.dtype) for key, spec in traced.items()},
    )
