"""Functions that add adapters to a model, and activate, merge and remove them."""

import ast
import dataclasses
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from keras_transfer.adaptation.adapters.kind import KINDS, AdapterKind
from keras_transfer.adaptation.adapters.places import take
from keras_transfer.core.expect import Rule, expect, expects
from keras_transfer.core.names import belongs, did_you_mean, hint_for
from keras_transfer.encoders import (
    BackboneEncoder,
    ComposedEncoderDecoder,
    Encoder,
    EncoderDecoder,
    TransformerStack,
    UniLM,
    is_backbone,
)
from keras_transfer.keras_internals import could_train, set_trainable, trainer
from keras_transfer.layers import WeightSlot, check_kernel
from keras_transfer.tasks import MultiTask, Task
from keras_transfer.training import layer_groups

SUPPORTED = (TransformerStack, EncoderDecoder, BackboneEncoder)


NAME = Rule(
    "a name of letters, digits, '-' and '_'",
    lambda value: isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", value) is not None,
    ("", "a b", "-a", 1, None),
)


@expects(name=NAME)
def add_adapters(model: Any, adapters: Any, *, name: str = "default") -> Any:
    """Adds adapters to the encoder of a model. From then on, only the adapters and the head train.

    The weights of the encoder do not change. Those of the adapters are in float32, even if the encoder's are in half
    precision. A kind that trains norms or biases trains copies of them. Adding adapters does not change the outputs,
    except with `Prefix` and `Prompt`. Compile the model afterwards.

    Adapters are added to the blocks of the encoder, and to both halves of an encoder-decoder. The head of a `Seq2SeqLM`
    is part of the pretrained model, and stays frozen. If the encoder is a KerasHub backbone, save the task or use
    `save_adapters`, because the backbone's own `save_to_preset` does not save adapters.

    Args:
        model: Task with a Transformer encoder or an encoder-decoder of this library or with a KerasHub backbone, or an
            encoder of this library. Wrap a KerasHub backbone in a task first. KerasHub backbones support `Houlsby`,
            `Compacter`, `LoRA`, `IA3`, `BitFit` and `LayerCopies`, and `Fusion` of the first two. Encoder-decoders
            support all kinds except `Prompt` and `PALs`. A model of `EncoderDecoder.from_encoders` cannot have
            adapters.
        adapters: Name of a kind with its sizes, a kind, or a list of these:
            - `"houlsby:64"`, `"pfeiffer:48"`, `"parallel:64"`, `"compacter:32"`: bottlenecks of this width
            - `"lora:8"`, `"lora:rank=8,alpha=16"` (also `"rslora"`, `"dora"`), `"ia3"`: changes to dense layers
            - `"prefix:20"`, `"prompt:20"`, `"pals:204"`: changes to attention
            - `"bitfit"`, `"copies:pooler"`: copies of biases, and of whole layers
            - `"movement"`: masks over the weights of dense layers, for pruning
            Arguments can be abbreviated to their first letters (`"lora:r=8"`).
        name: String. Name of the adapters. A model can have several, under different names. The last one is active.
            Defaults to `"default"`. Each task of a `MultiTask` gets adapters of its own, under the name of the task.

    Returns:
        The model, which must be compiled.

    Raises:
        ValueError: If the model has no such encoder; if `adapters` is unknown, has an invalid size, or is not possible
            with the encoder; if a target matches nothing; or if `name` is taken. The model is then unchanged.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.adaptation.add_adapters(model, "lora:r=4")
    keras_transfer.adaptation.trainable_summary(model)
    ```
    """
    if isinstance(model, MultiTask):
        expect(name == "default", "The adapters of a `MultiTask` have the names of its tasks.", name=name)
        return _add_by_task(model, get_adapters(adapters))
    return add(model, get_adapters(adapters), name)


def _add_by_task(model, found):
    """Adds adapters to each task of a `MultiTask`, under the name of the task."""
    for name, task in model.tasks.items():  # Before the first one has any, so that an error leaves all unchanged.
        _check_can_add(task, adapted_encoder(task), found, NAME.check("name", name))
    return _change_tasks(model, lambda name, task: add(task, found, name))


def _change_tasks(model, change):
    """Changes the adapters of each task of a `MultiTask`. They, all heads and the learned weights of losses train."""
    of_tasks = {id(weight) for task in model.tasks.values() for weight in task.weights}
    chosen = {id(weight) for weight in model.trainable_weights} - of_tasks
    for name, task in model.tasks.items():
        change(name, task)
        chosen |= _ids(task.trainable_weights)
    set_trainable(model, [weight for weight in model.weights if id(weight) in chosen])
    model.train_function, model.compiled = None, False
    trainer.forget_jax_state(model)
    return model


def add(model, found, name, check=lambda encoder: None):
    """Adds a list of kinds of adapters to a model as `add_adapters` does, unless `check(encoder)` then raises an error.

    After an error, the model is unchanged.
    """
    encoder = adapted_encoder(model)
    _check_can_add(model, encoder, found, name)
    before = encoder.active_adapters
    try:
        encoder.attached.add(name, found)
        check(encoder)
    except BaseException:
        encoder.adapters.pop(name, None)
        take(encoder, name)
        encoder.attached.activate(before)
        raise
    return _changed(model, encoder)


def _check_can_add(model, encoder, found, name):
    """Raises a `ValueError` if a model cannot have these kinds of adapters under this name."""
    rule = "The model already has adapters with this name. Remove them, or pass a different `name`."
    expect(name not in encoder.adapters, rule, name=name)
    encoder.attached.check_shared_blocks()
    mixes = getattr(model, "scalar_mix", None) is not None
    rule = "`Prompt` cannot be combined with `scalar_mix`. Use `Prefix`, or create the task with `scalar_mix=False`."
    if mixes:
        expect(not any(kind.lengthens for kind in found), rule, model=model)
    if isinstance(encoder, BackboneEncoder) and (others := [kind for kind in found if not kind.for_backbones]):
        possible = sorted(word for word, kind in KINDS.items() if kind.func.for_backbones)
        raise ValueError(
            "A KerasHub backbone cannot have this kind of adapters, because its blocks do not expose the tensors that "
            f"it needs. Expected some of {possible}, or a `Fusion`. Received: {others[0]}"
        )


def remove_adapters(model: Any, name: str | None = None) -> Any:
    """Removes adapters. Except for the head, the model then computes the same as before they were added.

    The weights of the encoder stay frozen. To train them, call `unfreeze`. If other adapters remain active, their
    stored head is restored.

    Args:
        model: Model with adapters, or a `MultiTask` whose tasks have some.
        name: String. Name of the adapters. Defaults to `None`, which removes all of them.

    Returns:
        The model, which must be compiled again.

    Raises:
        ValueError: If the model has no adapters with this name, or if other adapters depend on them (`Fusion`).

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.adaptation.add_adapters(model, "houlsby:16")
    keras_transfer.adaptation.remove_adapters(model)
    ```
    """
    encoder = adapted_encoder(next(iter(model.tasks.values())) if isinstance(model, MultiTask) else model)
    names = list(encoder.adapters) or [None] if name is None else [name]
    check_names(encoder, names)
    for other, found in encoder.adapters.items():
        needed = {source for kind in found for source in getattr(kind, "sources", ())} & set(names)
        rule = f"The adapters {other!r} depend on these adapters. Remove {other!r} first."
        if needed:
            expect(other in names, rule, needed=sorted(needed))
    for removed in names:
        take(encoder, removed)
        encoder.adapters.pop(removed)
    if isinstance(model, MultiTask):
        return _change_tasks(model, lambda name, task: _without(task, encoder, task.head_adapters.given, names))
    return _without(model, encoder, encoder.active_adapters, names)


def _without(model, encoder, active, names):
    """Makes a model apply these adapters, except those that were removed."""
    encoder.attached.activate([name for name in active if name not in names])
    return _changed(model, encoder)


def merge_adapters(model: Any) -> Any:
    """Merges the active adapters into the weights of the encoder and removes them.

    The model then returns the same outputs as with the adapters, and is as fast as a model without them.

    Args:
        model: Model whose active adapters can all be merged, such as `LoRA` and `IA3`.

    Returns:
        The model, which must be compiled again.

    Raises:
        ValueError: If no adapters are active; if another task has changed them; if one of them cannot be merged; if a
            dense layer that they change is quantized or has Keras's own LoRA; or if the model has other adapters, whose
            base would change.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.adaptation.add_adapters(model, "lora:r=4")
    keras_transfer.adaptation.merge_adapters(model)
    ```
    """
    encoder = adapted_encoder(model)
    if isinstance(model, Task):
        model.head_adapters.check()
    active = encoder.active_adapters
    if not active:
        advice = "Activate some with `set_active_adapter`" if encoder.adapters else "Call `add_adapters` first"
        raise ValueError(
            f"The model has no active adapters to merge. {advice}. Received: a model with the adapters "
            f"{list(encoder.adapters)}, of which none are active"
        )
    others = [name for name in encoder.adapters if name not in active]
    expect(not others, "Merging changes the base of other adapters. Remove these first.", others=others)
    if others := [kind for name in active for kind in encoder.adapters[name] if not kind.merges]:
        possible = sorted(word for word, kind in KINDS.items() if kind.func.merges)
        raise ValueError(
            "Adapters of this kind cannot be merged into the weights of the encoder. Expected some of "
            f"{possible}. Received: {others[0]}"
        )
    slots = sorted(encoder.attached.slots, key=lambda slot: isinstance(slot, WeightSlot))  # Others may change copies.
    for slot in slots:
        if not isinstance(slot, WeightSlot):
            check_kernel(slot.base)
    for slot in slots:
        slot.merge()
    return remove_adapters(model)


def set_active_adapter(model: Any, name: str | Sequence[str] | None) -> Any:
    """Sets the adapters that a model applies. They and the head train, and all other weights are frozen.

    Each choice of adapters has its own head weights. They are stored when other adapters are chosen, and restored when
    the choice is active again. With newly added adapters, the head keeps its current weights.

    Tasks on the same encoder share its adapters. After a change through one task, the methods of the others raise an
    error until you call this function for them.

    Args:
        model: Model with adapters.
        name: String, a list of names to apply in this order, or `None` to apply no adapters.

    Returns:
        The model, which must be compiled again, unless it applied the same adapters already.

    Raises:
        ValueError: If the model has no adapters with such a name.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.adaptation.add_adapters(model, "lora:r=4", name="first")
    keras_transfer.adaptation.add_adapters(model, "pfeiffer:8", name="second")
    keras_transfer.adaptation.set_active_adapter(model, ["first", "second"])
    ```
    """
    encoder = adapted_encoder(model)
    names = [] if name is None else [name] if isinstance(name, str) else list(name)
    check_names(encoder, names)
    if _is_given(model, encoder, names):
        return model
    encoder.attached.activate(names)
    return _changed(model, encoder)


def _is_given(model, encoder, names):
    """Returns whether nothing has changed since a task was given these adapters, and the same weights train."""
    if not isinstance(model, Task) or encoder.active_adapters != tuple(names):
        return False
    own = model.head_adapters
    same = own.given == tuple(names) and own.known.keys() == encoder.adapters.keys() and not own.replaced()
    return same and own.trained == _ids(model.trainable_weights)


def _ids(weights):
    return {id(weight) for weight in weights}


def get_adapters(spec):
    """Returns the kinds of adapters that a specification describes, as a list."""
    if isinstance(spec, (list, tuple)) and spec:
        return [kind for part in spec for kind in get_adapters(part)]
    if isinstance(spec, AdapterKind):
        return [spec]
    word, _, arguments = str(spec).partition(":")
    if not isinstance(spec, str) or word not in KINDS:
        raise ValueError(
            "`spec` must be a kind of adapters, a list, or a name, one of "
            f"{sorted(KINDS)}.{belongs(spec) or did_you_mean(word, KINDS)} Received: {spec!r}"
        )
    fields, values = [field.name for field in dataclasses.fields(KINDS[word].func)], {}
    for i, argument in enumerate(part for part in arguments.split(",") if part):
        key, equals, value = argument.partition("=")
        key, value = (key.strip(), value) if equals else (fields[i] if i < len(fields) else argument, key)
        found = [field for field in fields if key and field.startswith(key)]
        expect(found, f"Unknown argument of {word!r}.{hint_for(key, fields)} Expected some of {fields}.", spec=spec)
        expect(found[0] not in values, f"The argument {found[0]!r} of {word!r} occurs twice.", spec=spec)
        try:
            values[found[0]] = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError):
            values[found[0]] = value.strip()
    return [KINDS[word](**values)]


def adapted_encoder(model):
    """Returns the encoder of a model that can have adapters, a new `BackboneEncoder` for a backbone without any."""
    if isinstance(model, Task):
        model.reader.require_whole("given adapters")
    rule = "Each task of a `MultiTask` applies its own adapters. Pass one of the tasks, such as `model.tasks['name']`."
    expect(not isinstance(model, MultiTask), rule, tasks=list(getattr(model, "tasks", ())))
    encoder = model if isinstance(model, Encoder) else getattr(model, "encoder", None)
    if is_backbone(encoder):
        return BackboneEncoder(encoder)
    rule = (
        "Adapters are added to the blocks of a Transformer encoder. Expected an encoder of this library, or a task "
        "such as `TextClassifier` with one or with a KerasHub backbone. An encoder-decoder made from encoders has new "
        "layers that must train: use `freeze` and `unfreeze`."
    )
    is_composed = isinstance(encoder, (ComposedEncoderDecoder, UniLM))
    expect(isinstance(encoder, SUPPORTED) and not is_composed, rule, model=model, encoder=encoder)
    return encoder


def check_names(encoder, names):
    """Raises a `ValueError` if an encoder has no adapters with one of these names, or if a name occurs twice."""
    if names:
        expect(encoder.adapters, "The model has no adapters. Call `add_adapters` first.", names=names)
    for name in names:
        hint = "" if name in encoder.adapters else did_you_mean(name, encoder.adapters)
        rule = f"Unknown adapters. Expected some of {list(encoder.adapters)}.{hint}"
        expect(name in encoder.adapters, rule, name=name)
    expect(len(set(names)) == len(names), "Each name must occur once.", names=names)


def adapter_weights(encoder, name):
    """Returns a dict from the slot and the name of each weight of adapters (`"block_0.attention/up_kernel"`) to it."""
    found = {}
    for slot in encoder.attached.slots:
        if name in slot.adapters:
            layer = slot.adapters[name]
            for weight in layer.weights:
                if weight.path.startswith(f"{layer.path}/"):  # Otherwise, another block's adapter owns it.
                    found[f"{slot.place}/{weight.path.removeprefix(layer.path + '/')}"] = weight
    return found


def head_weights(model):
    """Returns the weights of a model that belong neither to its encoder nor to adapters."""
    new = [group for group in layer_groups(model) if not group.pretrained and group.kind != "adapters"]
    return [weight for group in new for weight in group.variables]


def head_for(model, name):
    """Returns `(weight, value)` for each head weight of a task with the adapters of a given name."""
    weights = head_weights(model)
    if model.head_adapters.given == (name,) and name not in model.head_adapters.replaced():
        return [(weight, ops.convert_to_numpy(weight)) for weight in weights]
    model.head_adapters.forget_replaced()
    heads = model.head_adapters.heads
    rule = (
        "The model has no head for these adapters, which were never the active ones in it. Use the model with which "
        f"they were trained, or call `set_active_adapter(model, {name!r})` to use the current head."
    )
    if weights:
        expect(name in heads, rule, name=name, heads=sorted(filter(None, heads)))
    return list(zip(weights, model.head_adapters.heads.get(name, ())))


def _changed(model, encoder):
    """Makes only the active adapters and the head trainable, and discards what Keras has traced and compiled."""
    active, head = encoder.active_adapters, [] if model is encoder else head_weights(model)
    if isinstance(model, Task):
        _exchange_heads(model, head, active)
        model.head_adapters.remember()
        model.head_adapters.compile_again |= model.compiled
    active = [weight for name in active for weight in adapter_weights(encoder, name).values()]
    chosen = _ids((*head, *active)) & _ids(could_train(model))
    set_trainable(model, [weight for weight in model.weights if id(weight) in chosen])
    if isinstance(model, Task):
        model.head_adapters.trained = _ids(model.trainable_weights)
    parts = (model, encoder, getattr(encoder, "backbone", encoder))
    for changed in {id(part): part for part in parts}.values():
        changed.train_function = changed.test_function = changed.predict_function = None
        changed.compiled = False
        trainer.forget_jax_state(changed)
    return model


def _exchange_heads(task, head, after):
    """Stores the head weights for the previous adapters of a task, and restores those for the new ones, if any."""
    adapters = task.head_adapters
    before, removed = adapters.given, adapters.replaced() & set(adapters.given)
    adapters.forget_replaced()
    if before == after and not removed:
        return
    if not removed:
        adapters.heads["+".join(before)] = [np.array(ops.convert_to_numpy(weight)) for weight in head]
    if after or not removed:  # After all adapters are removed, the head keeps the weights that were trained with them.
        for weight, value in zip(head, adapters.heads.get("+".join(after), ())):
            weight.assign(value)
