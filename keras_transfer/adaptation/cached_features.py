"""Training the upper layers of a task on stored activations of the lower layers, which run once."""

import dataclasses
import logging
from typing import Any

import keras

from keras_transfer.core.expect import expect, expects, instance_of, one_of
from keras_transfer.data import Batches, StoredRows, fingerprint_of, store_rows
from keras_transfer.distribute import replicas_of
from keras_transfer.encoders import MASKS, Encoder, EncoderDecoder, TransformerStack, encode, named_hidden_states
from keras_transfer.tasks import HiddenTokens, Reader, Task
from keras_transfer.training import depth_of, layer_groups

log = logging.getLogger("keras_transfer")


@expects(model=instance_of(Task, "a task, such as a `TextClassifier`"), dtype=one_of("float16", "float32", None))
def cache_features(
    model: Task,
    x: Any,
    y: Any = None,
    *,
    below: str | int,
    sample_weight: Any = None,
    folder: Any = None,
    dtype: str | None = None,
    memory_limit: int = 2**31,
    verbose: str | int = "auto",
) -> tuple[Task, Batches]:
    """Runs the frozen lower layers of a task once, and returns the upper layers as a task with its data.

    The upper task accepts the activations of the lower layers instead of text, and shares the layers of `model` from
    the layer group `below` up, so training it also trains `model`. The loss, metrics, callbacks, optimizers and recipes
    work as for the whole task. The result is the same as training `model` on the same batches with the lower layers
    frozen and without dropout.

    All epochs together need only a single forward pass through the lower layers. The activations need `tokens * dim *
    4` bytes for each tensor that crosses the cut, not counting padding. A head that uses all layers (`scalar_mix=True`)
    needs the activations of all of them. Dropout in the lower layers is disabled, with a warning.

    Args:
        model: `Task` whose layer groups below the cut are frozen.
        x: Data in memory, as for `fit`, or `text.batches`, `text.word_batches` or `model.dataset(...)`.
        y: Labels of data in memory, which is then shuffled in every epoch. Defaults to `None`.
        below: String or integer. Name or depth of the lowest layer group of the upper task: a block such as
            `"block_9"`, the layers after the blocks, or `"head"` to cache the outputs of the encoder. ELMo, XLNet and
            TF Hub modules can only be cut below the head.
        sample_weight: Array of floats. Weights of the rows of data in memory. Defaults to `None`.
        folder: String or path. Folder for the activations. A later run with the same lower layers, data, dtype and
            version of this library reuses them, or completes them if the earlier run was killed. Defaults to `None`,
            which keeps them in memory or in temporary files.
        dtype: String. Dtype of the stored activations. `"float16"` halves their size. Defaults to `None`, the dtype of
            the model.
        memory_limit: Integer. Number of bytes above which activations are stored in memory-mapped temporary files.
            Defaults to `2**31`.
        verbose: `"auto"`, `0` (silent), `1` (progress bar) or `2` (one line). Defaults to `"auto"`.

    Returns:
        A tuple of the upper task and the batches for its `fit`, `evaluate` and `predict`. For other batches of the same
        cut, such as validation data, call the function again.

    Raises:
        ValueError: If `model` is not a task, or has an encoder-decoder; if weights below the cut are trainable, or none
            above it are; if the data is not in memory, or changes in each epoch; if the task cannot be cut there; if
            activations exceed the range of float16; or if `folder` contains something else, such as the activations of
            a different model or of other data, or in a different dtype.
        RuntimeError: If another process writes into `folder`.
        OSError: If the disk has too little free space for the files.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2, dropout=0.0)
    keras_transfer.adaptation.freeze(model, below="head")
    texts, labels = ["What a film!", "What a bore."], [1, 0]
    upper, cached = keras_transfer.adaptation.cache_features(model, texts, labels, below="head")
    upper.compile(keras_transfer.optimizers.FusedAdamW(1e-4))
    upper.fit(cached, epochs=2)
    model.predict(["A fine film."])
    ```
    """
    expect(not isinstance(model.reader, CachedReader), "`model` must be a whole task.", model=model)
    windows = getattr(model, "windows", None)
    cannot = (
        "Features of an encoder-decoder, of a task with `windows`, and of rows of several texts (a `MultipleChoice` "
        "or `siamese=True`) cannot be cached. Call `freeze` and train the whole task."
    )
    encoder = type(model.encoder).__name__
    decodes = isinstance(model.encoder, EncoderDecoder)  # Its decoder depends on the target.
    expect(windows is None and not decodes, cannot, encoder=encoder, windows=windows)
    replicas, _ = replicas_of(model)
    expect(replicas == 1, "`model` must be on one device.", replicas=replicas)
    _check_trainable(model, below)
    batches = _batches(model, x, y, sample_weight)
    expect(batches.kind != "parts", cannot, batches=type(batches).__name__)
    cut = cut_below(model, below)
    layers = cut.lower.layers
    random = [layer.name for layer in layers if len(layer.variables) > len(layer.weights)]  # Seeds are variables only.
    if random:
        log.warning(
            "Dropout below %r is off in cached features, as if the model was created with `dropout=0.0`. "
            "Received: dropout in %s",
            cut.below,
            random,
        )
    found = store_rows(cut.lower, batches, cut.fingerprint(), folder, dtype, memory_limit, verbose)
    upper = model.over(cut.inputs, cut.outputs, CachedReader(model.reader, cut), f"{model.name}_from_{cut.below}")
    return upper, batches.apart(inputs={**batches.inputs, **found})


def _check_trainable(model, below):
    """Raises a `ValueError` unless all weights below the cut are frozen and at least one above it is trainable."""
    groups, depth = layer_groups(model), depth_of(model, below)
    trains = [weight.path for group in groups[:depth] for weight in group.variables if weight.trainable]
    rule = f"All weights below {groups[depth].name!r} must be frozen. Call `freeze(model, below={below!r})` first."
    expect(not trains, rule, trainable=trains[:3])
    rule = f"Some weights must be trainable from {groups[depth].name!r} up. Call `unfreeze`."
    expect(any(weight.trainable for group in groups[depth:] for weight in group.variables), rule, model=model)


def _batches(model, x, y, sample_weight):
    """Returns the user's data as `Batches`."""
    batches = model.dataset(x, y, sample_weight, shuffle=y is not None)
    rule = "`x` must be in memory, `text.batches(...)`, `text.word_batches(...)` or `model.dataset(...)`."
    expect(isinstance(batches, Batches), rule, x=x)
    rule = (
        f"A `{type(model).__name__}` hides other tokens in each epoch, so its lower layers must run again. Use "
        "`freeze`, or prepared inputs with targets."
    )
    hides = batches.contents.makes_labels and any(
        isinstance(each.labels, HiddenTokens) for each in model.heads.values()
    )
    expect(not hides, rule, x=type(x).__name__)
    return batches


class CachedReader(Reader):
    """Accepts only what `cache_features` returned for the upper layers of a task."""

    def __init__(self, whole, cut):
        super().__init__(whole.preprocessor)
        self.whole, self.cut = whole, cut
        self.takes_either, self.makes = whole.takes_either, whole.makes

    @property
    def fitted_on(self):
        """What the whole task was trained on, which its upper part trains, too."""
        return self.whole.fitted_on

    @fitted_on.setter
    def fitted_on(self, kind):
        """What the whole task was trained on. Training the upper layers trains it, too."""
        self.whole.fitted_on = kind

    def require(self):
        self._refuse("texts")

    def require_whole(self, action):
        raise ValueError(
            f"The upper layers of a task cannot be {action}. Use the whole task, which has the same weights. "
            f"Received: the layers from {self.cut.below!r} up"
        )

    def accepts(self, x):
        return self.whole.accepts(x)

    def check(self, x, method):
        if method.endswith("_on_batch"):
            return
        columns = x.inputs if isinstance(x, Batches) else {}
        found = [columns.get(name) for name in self.cut.names]
        if not all(isinstance(column, StoredRows) for column in found):
            self._refuse(x)
        rule = (
            f"The features belong to different weights or settings from the model's below {self.cut.below!r}. Call "
            "`cache_features` again."
        )
        expect({column.fingerprint for column in found} == {self.cut.fingerprint()}, rule, x=type(x).__name__)

    def restore(self, data, predict):
        return self.whole.restore(data, predict)

    def _refuse(self, x):
        raise ValueError(
            f"The layers of a task from {self.cut.below!r} up require the data that `cache_features` returned. Use the "
            f"whole task for texts: it has the same weights. Received: {x!r:.100}"
        )


@dataclasses.dataclass
class Cut:
    """The lower and the upper layers of a task.

    Attributes:
        below: Name of the lowest upper layer group.
        lower: Functional model from the encoder's inputs to a dict of the tensors that the upper layers need.
        inputs: Dict of symbolic inputs of the upper layers: these tensors, and inputs of the task.
        outputs: Symbolic outputs of the upper layers, which belong to the task.
    """

    below: str
    lower: keras.Model
    inputs: dict
    outputs: object
    encoder: keras.Model

    @property
    def names(self):
        """List of strings. Names of the tensors that pass from the lower to the upper layers."""
        return list(self.lower.output)

    def fingerprint(self):
        """Returns a string that identifies the weights and settings of the lower layers."""
        # The config of an encoder of this library describes its layers and names the active adapters.
        ours = isinstance(self.encoder, Encoder)
        return fingerprint_of(self.lower, self.encoder.get_config() if ours else None)


def cut_below(task, below):
    """Returns the `Cut` of a task below a block, the layers after the blocks, or the head, by name or depth."""
    groups, depth, encoder = layer_groups(task), depth_of(task, below), task.encoder
    below, kind = groups[depth].name, groups[depth].kind
    expect(depth != 0, f"No layer group is below {below!r}, the lowest one.", below=below)
    if kind not in ("block", "pooler", "other", "head"):
        raise ValueError(_cannot(encoder, groups, depth))
    lower, upper = read, head = _head_of(task, encoder)
    try:
        if kind != "head":
            lower, upper = _at_block(task, encoder, groups, depth, read, head)
        inputs = {
            name: keras.Input(tensor.shape[1:], dtype=tensor.dtype, name=name)
            for name, tensor in {**lower, **_inputs_above(task, encoder)}.items()
        }
        outputs = upper(inputs)
    except ValueError as error:
        raise ValueError(_cannot(encoder, groups, depth)) from error
    return Cut(below, keras.Model(encoder.input, lower, name="lower_part"), inputs, outputs, encoder)


def _head_of(task, encoder):
    """Returns the encoder outputs that the head uses, by name, and a function from such a dict to outputs."""
    if task.scalar_mix is not None:
        tensors = _hidden_states(encoder)
    else:
        encoded = encode(encoder)
        pooled = encoder.pooled_alone() if _reads_only_pooled(task, encoder) else encoded.pooled
        tensors = {"pooled_output": pooled, "sequence_output": encoded.sequence}
        tensors = {name: tensor for name, tensor in tensors.items() if name in task.reads and tensor is not None}
    try:
        return tensors, _function(task, encoder, tensors)
    except ValueError as error:
        raise ValueError(
            f"The head of the task must use only the encoder's outputs, {list(tensors)}, and masks. "
            f"Received: model={task.name!r}"
        ) from error


def _at_block(task, encoder, groups, depth, read, head):
    """Returns the tensors at the boundary of a block by name, and a function from such a dict to outputs."""
    states, below = _hidden_states(encoder), sum(group.kind == "block" for group in groups[:depth])
    number = below if any(group.kind == "block" for group in groups[depth:]) else len(states) - 1
    names = list(states)[: number + 1]
    lower = {name: states[name] for name in (names if task.scalar_mix is not None else names[-1:])}
    if not isinstance(encoder, TransformerStack):
        return lower, _function(task, encoder, lower)

    def upper(inputs):
        options = {"start": number, "first_only": _reads_only_pooled(task, encoder)}
        masks = {name: inputs[name] for name in MASKS if name in inputs}
        outputs, later = encoder.run_blocks(inputs[names[-1]], **masks, **options)
        found = {**dict(zip(list(states)[number:], later)), **outputs, **inputs}
        return head({name: found[name] for name in {**read, **_inputs_above(task, encoder)}})

    return lower, upper


def _reads_only_pooled(task, encoder):
    """Returns whether the head uses only `pooled_output`, for which the last block has to compute a single token."""
    return isinstance(encoder, TransformerStack) and task.reads == ("pooled_output",) and task.scalar_mix is None


def _function(task, encoder, tensors):
    """Returns a function that applies the layers above some tensors of a task to a dict of other tensors."""
    tensors = {**tensors, **_inputs_above(task, encoder)}
    part = keras.Model(list(tensors.values()), task.output)
    return lambda inputs: part.call([inputs[name] for name in tensors])


def _inputs_above(task, encoder):
    """Returns the inputs of a task that are not embedded, by name: masks, and inputs of its head."""
    own = encoder.input if isinstance(encoder.input, dict) else {tensor.name: tensor for tensor in encoder.inputs}
    inputs = {tensor.name: tensor for tensor in task.inputs}
    return {name: tensor for name, tensor in inputs.items() if name in MASKS or name not in own}


def _hidden_states(encoder):
    """Returns the hidden states of an encoder by name: `"embeddings_output"`, then one for each block."""
    return {f"{name}_output": state for name, state in named_hidden_states(encoder).items()}


def _cannot(encoder, groups, depth):
    """Returns the error message for a layer group at which a task cannot be cut."""
    refused = groups[depth]
    places = [group.name for group in groups[1:] if group.kind in ("block", "head") and group.kind != refused.kind]
    return (
        f"A `{type(encoder).__name__}` cannot be cut below {refused.name!r}. Cut below one of {places} instead. "
        f"Received: below={refused.name!r}"
    )
