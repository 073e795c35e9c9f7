"""Distillation: a student learns from the stored outputs of a teacher, each of which is a head beside its own."""

import dataclasses
import inspect
import json
import pathlib
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.adaptation.distillation_signals import (
    FixedTokens,
    Signal,
    StoredLabels,
    divergence_of_top,
    top_probabilities,
)
from keras_transfer.adaptation.ensembles import Ensemble
from keras_transfer.adaptation.pruning import prune
from keras_transfer.core.expect import (
    FRACTION,
    POSITIVE,
    Rule,
    expect,
    expects,
    instance_of,
    integer,
    list_of,
    optional,
)
from keras_transfer.core.names import argument_names, check_arguments
from keras_transfer.data import UNUSED, Batches, fingerprint_of, store_rows
from keras_transfer.distribute import replicas_of
from keras_transfer.encoders import Encoder, encode
from keras_transfer.losses import DistillationLoss
from keras_transfer.tasks import Head, Task, TextRegressor, check_kind, kind_of
from keras_transfer.training import or_schedule

_TASK = instance_of(Task, "a task, such as a `TextClassifier`")


class WeightedByStep(keras.layers.Layer):
    """Returns its inputs, and multiplies their gradients by a function of the number of training steps."""

    def __init__(self, weight, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.weight = weight
        self.steps = self.add_weight(shape=(), dtype="int32", initializer="zeros", trainable=False, name="steps")
        self.built = True

    def call(self, outputs, training=False):
        if not training:
            return outputs
        weight = ops.cast(self.weight(ops.convert_to_tensor(self.steps)), outputs.dtype)
        self.steps.assign_add(1)
        fixed = ops.stop_gradient(outputs)
        return fixed + weight * (outputs - fixed)


# === Distillation ===


@expects(
    student=_TASK,
    teacher=_TASK,
    temperature=POSITIVE,
    alpha=optional(or_schedule(FRACTION), "annealed"),
    signals=list_of(instance_of(Signal, "a `Signal`, such as `HiddenStates()`")),
    validation_data=Rule(
        "a tuple `(texts, labels)` or `(texts, labels, sample_weight)`",
        lambda value: isinstance(value, tuple) and len(value) in (2, 3),
    ),
    top_k=integer(1),
    epochs=integer(1),
)
def distill(
    student: Task,
    teacher: Task,
    texts: Any,
    labels: Any = None,
    *,
    temperature: float = 2.0,
    alpha: Any = 0.5,
    top_k: int = 64,
    signals: Sequence = (),
    sample_weight: Any = None,
    validation_data: Any = None,
    epochs: int = 1,
    batch_size: int | None = None,
    optimizer: Any = "auto",
    loss: Any = "auto",
    metrics: Any = "auto",
    folder: Any = None,
    dtype: str | None = None,
    **kwargs: Any,
) -> keras.callbacks.History:
    """Trains a student on the outputs of a teacher, with or without labels.

    The teacher runs once for each text, and its outputs are stored. Then a task with further heads over the layers of
    the student (`task.with_heads`) is compiled and fitted, and nothing else: its loss is `(1 - alpha)` times that of
    the labels, `alpha` times that of the teacher's outputs, and those of the signals. The teacher does not change. The
    student is not compiled.

    The outputs of the teacher are logits of the same classes, for `losses.DistillationLoss`, or numbers or vectors of
    the same size, for the mean squared error. Those of a `TokenClassifier` are the logits of words. Those of a
    `MaskedLM` are the logits of all tokens of texts in which tokens are hidden, the same ones in each epoch. Repeat the
    texts to hide different ones.

    The two models may have different encoders and tokenizers: each prepares the texts with its own preprocessor. Only
    outputs and signals of tokens need the same tokens.

    Args:
        student: `Task` that learns, such as a `TextClassifier`, `TextRegressor` or `TextEmbedder`.
        teacher: `Task` of the same kind, which is trained already.
        texts: Texts or pairs of texts in memory, as for `fit`. For a `TextEmbedder`, single texts.
        labels: Labels of the texts. In a list, those of some may be `None`. Defaults to `None`, for no labels.
        temperature: Float above 0. Temperature of the logits of both models. Defaults to `2.0`.
        alpha: Float between 0 and 1, the weight of the teacher's outputs; a
            `keras.optimizers.schedules.LearningRateSchedule` of the number of training steps; or `"annealed"`, which
            falls linearly from 1 to 0 over the run (Clark et al. 2019). A schedule weights the gradients, not the
            logged losses. Without labels, the weight is 1. 0 leaves these outputs out, also without labels.
            Defaults to `0.5`.
        top_k: Integer. For outputs of tokens, the number of classes of a token whose probabilities are stored. The
            others are one class. Defaults to `64`.
        signals: List of `HiddenStates`, `AttentionScores` and other `Signal`s, from which the student learns too.
            Defaults to `()`.
        sample_weight: Array of floats `[texts]`. Weights of the texts. Defaults to `None`.
        validation_data: Tuple `(texts, labels)` or `(texts, labels, sample_weight)`, to evaluate after each epoch. The
            labels are `None` for a student without labels. Defaults to `None`.
        epochs: Integer. Number of epochs. Defaults to `1`.
        batch_size: Integer. Number of texts in a batch. Defaults to `None`, for 32.
        optimizer: Keras optimizer, or its name. Defaults to `"auto"`, as for `Task.compile`.
        loss: Loss of the labels. Defaults to `"auto"`, the loss of the student.
        metrics: List of metrics of the labels. Defaults to `"auto"`, the metrics of the student.
        folder: String or path. Folder for the outputs of the teacher. A later run with the same teacher, signals and
            texts reads them, or completes them if the earlier run was killed. Defaults to `None`, which keeps them in
            memory or in temporary files.
        dtype: String. Dtype of the stored outputs, such as `"float16"`. Defaults to `None`, the dtype of the model.
        **kwargs: Other arguments of `fit`, such as `callbacks` or `verbose`.

    Returns:
        Keras's `History`. The head of the labels is `label`, that of the teacher's outputs `teacher`, and those of the
        signals are `hidden_1`, `attention_1` and so on, with the layers of the student.

    Raises:
        ValueError: If the student and the teacher share weights, or are on several devices; if they have several heads,
            different classes, outputs of different sizes, or outputs of different tokens; if one has `crf=True` and
            `alpha` is not 0; if the teacher was trained on pairs and the texts are single, or vice versa; if there are
            no texts, or not in memory; if a signal has a layer that does not exist, or needs the same
            tokens or as many heads; or if `folder` contains something else.

    Example:
    ```python
    data = keras_transfer.datasets.load_demo_questions()
    teacher = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=data.label_names)
    keras_transfer.adaptation.fine_tune(teacher, *data.train)
    student = keras_transfer.adaptation.student_from(teacher)  # It has every second block.
    signals = [keras_transfer.adaptation.HiddenStates()]
    keras_transfer.adaptation.distill(student, teacher, *data.train, signals=signals, epochs=3)
    student.predict_labels(["Who wrote Hamlet?"])
    ```

    Source: https://arxiv.org/abs/1503.02531
    """
    check_arguments("distill", kwargs, [*argument_names(distill), *inspect.signature(keras.Model.fit).parameters])
    _check(student, teacher, alpha)
    labels, known = _filled(labels, texts, validation_data, student)
    folder, verbose = None if folder is None else pathlib.Path(folder), kwargs.get("verbose", "auto")
    parts = {"train": _read(student, teacher, texts, labels, sample_weight, batch_size, True)}
    if validation_data is not None:
        x, y, weights = (*validation_data, None)[:3]
        expect(y is not None or labels is None, "`validation_data` must have labels if the texts have.", labels=y)
        parts["validation"] = _read(student, teacher, x, y, weights, batch_size, False)
    has_label = labels is not None or bool(student.labels.made_inputs)
    of_tokens = alpha != 0 and len(student.output.shape) == 3
    if of_tokens:
        rule = "Outputs of tokens require the same tokens. Create the student with the preprocessor of the teacher."
        expect(_have_same_tokens(parts), rule, student=student.preprocessor, teacher=teacher.preprocessor)
    if of_tokens and student.labels.made_inputs:
        parts = {name: _masked(student, *part) for name, part in parts.items()}
        student, teacher = map(_over_all_tokens, (student, teacher))
    if alpha == "annealed":
        steps = epochs * (kwargs.get("steps_per_epoch") or len(parts["train"][0]))
        alpha = keras.optimizers.schedules.PolynomialDecay(1.0, steps, 0.0)

    rest = (lambda step: 1 - alpha(step)) if callable(alpha) else 1 - alpha
    heads, tensors, layers = {}, {}, {}
    if has_label:
        heads["label"] = _weighted(student.heads["head"], rest, "label")
    if alpha != 0:
        head, tensors["teacher"] = _output_head(student, teacher, temperature, top_k)
        layers["teacher"] = [temperature, *tensors["teacher"].shape] if of_tokens else []
        heads["teacher"] = _weighted(head, alpha if has_label else 1.0, "teacher")
    for name, own, other, layer, signal in _tensors(student, teacher, signals, parts):
        expect(name not in heads, "Each layer of the student may occur once in the signals of a kind.", layer=name)
        heads[name], tensors[name] = signal.head(own, other, name), other
        layers[name] = [layer, *other.shape]
    expect(tensors, "`alpha=0` leaves the outputs of the teacher out, so it requires `signals`.", alpha=alpha)

    both = student.with_heads(heads)
    of_labels = {}
    if has_label:
        if isinstance(metrics, str) and metrics == "auto":
            metrics = student.labels.compiled(loss, metrics, None)[1]
        of_labels = {"loss": {"label": loss}, "metrics" if known is None else "weighted_metrics": {"label": metrics}}
    both.compile(optimizer, **{"metrics": None, **of_labels})

    inputs = teacher.input if "teacher" in tensors else teacher.encoder.input
    model = teacher if list(tensors) == ["teacher"] and not of_tokens else keras.Model(inputs, tensors)
    fingerprint = fingerprint_of_teacher(model, teacher, layers)
    data = {}
    for name, (own, other) in parts.items():
        options = {"folder": None if folder is None else folder / name, "dtype": dtype, "verbose": verbose}
        found = store_rows(model, other, fingerprint, **options)
        found = found if isinstance(found, dict) else {"teacher": found}
        own, weights = _weights(own, heads, known if name == "train" else None, of_tokens)
        found = found if own.labels is None else {"label": own.labels, **found}
        data[name] = own.replace(labels=found, sample_weight=weights, prepare=None, makes_labels=False, seed=None)
    return both.fit(data["train"], epochs=epochs, validation_data=data.get("validation"), **kwargs)


def _check(student, teacher, alpha):
    """Raises a `ValueError` if a student cannot learn from a teacher."""
    shared = {id(weight) for weight in student.weights} & {id(weight) for weight in teacher.weights}
    rule = "The student must not share weights with its teacher. Use `student_from(teacher)`, or another encoder."
    expect(not shared, rule, student=student.name, teacher=teacher.name)
    replicas = max(replicas_of(task)[0] for task in (student, teacher))
    rule = (
        "`distill` runs on one device. On several, train `student.with_heads(...)` on what `teacher.predict` returns."
    )
    expect(replicas == 1, rule, replicas=replicas)
    heads = {"student": list(student.heads), "teacher": list(teacher.heads)}
    expect(all(names == ["head"] for names in heads.values()), "Both tasks must have one head.", **heads)
    if alpha == 0:
        return
    own, other = student.labels, teacher.labels
    rule = "Both tasks must have outputs of texts, or of tokens without `crf=True`. Or use `alpha=0` and `signals`."
    shapes = {"student": student.output.shape, "teacher": teacher.output.shape}
    crf = any(getattr(task, "crf", False) for task in (student, teacher))
    expect({*map(len, shapes.values())} in ({2}, {3}) and not crf, rule, **shapes, crf=crf)
    kinds = {"student": type(own).__name__, "teacher": type(other).__name__}
    alike = own.one_of == other.one_of and (own.names is None) == (other.names is None)
    expect(alike, "The labels of both tasks must be of the same kind.", **kinds)
    rule = (
        "The student must have the classes of the teacher, in any order. Create it with `label_names` of the teacher."
    )
    names = {"student": own.names, "teacher": other.names}
    expect(own.names is None or {*own.names} == {*other.names}, rule, **names)
    rule = "The outputs of both tasks must have the same size. `dense=[{'units': ...}]` of a `TextEmbedder` sets it."
    expect(own.names is not None or shapes["student"] == shapes["teacher"], rule, **shapes)


def _filled(labels, texts, validation_data, student):
    """Returns labels with any label in place of each `None`, and an array that is 0 for these, or `None` without any.

    If there are labels to validate on, all labels may be missing.
    """
    others = [] if validation_data is None or validation_data[1] is None else validation_data[1]
    if labels is None and len(others):
        labels = [None] * len(texts[0] if isinstance(texts, tuple) else texts)
    if not isinstance(labels, (list, tuple)) and str(getattr(labels, "dtype", None)) != "object":
        return labels, None
    known = np.array([label is not None for label in labels], "float32")
    if known.all():
        return labels, None
    some = next((label for label in (*labels, *others) if label is not None and np.size(label)), None)
    if student.labels.places is not None:  # Each word has a label.
        words = student.reader.columns(texts)
        return [[some[0]] * len(row) if label is None else label for label, row in zip(labels, words)], known
    return [some if label is None else label for label in labels], known


def _read(student, teacher, texts, labels, sample_weight, batch_size, shuffle):
    """Returns texts as `Batches` of the student, and as `Batches` of the teacher."""
    options = {"batch_size": batch_size, "shuffle": shuffle}
    data = student.dataset(texts, labels, sample_weight, **options), _read_by(teacher, texts, batch_size)
    rule = "`texts` must be in memory, and not empty: a list of texts, or a tuple of two lists for pairs."
    expect(all(isinstance(each, Batches) for each in data), rule, texts=texts)
    rule = "The texts of a row must be encoded together. Pass single texts, or use tasks without `siamese`."
    expect(all(each.kind != "parts" for each in data), rule, texts=texts)
    return data


def _read_by(teacher, texts, batch_size):
    """Returns texts as data of a teacher, which must be trained on texts of this kind."""
    data = teacher.dataset(texts, batch_size=batch_size)
    check_kind(teacher, kind_of(teacher, data), teacher.fitted_on)
    return data


def _have_same_tokens(parts):
    """Returns whether both models have the same tokens."""
    inputs = [[each.inputs for each in part] for part in parts.values()]
    return all("padding_mask" in own and np.array_equal(own["token_ids"], other["token_ids"]) for own, other in inputs)


def _masked(student, own, other):
    """Returns `Batches` of texts of which the objective has hidden tokens once, with labels `[rows, length]`."""
    random = np.random.default_rng(student.objective.seed or 0)  # A later run must find what is stored.
    inputs, targets = own.contents.prepare((own.inputs, None, None), random)
    places, labels = inputs.pop("mask_positions"), np.full(inputs["token_ids"].shape, UNUSED)
    rows, used = np.nonzero(places >= 0)
    labels[rows, places[rows, used]] = targets[rows, used]
    other = other.replace(inputs={**other.inputs, "token_ids": inputs["token_ids"]})
    return own.replace(inputs=inputs, labels=labels, per_token=True), other


def _over_all_tokens(task):
    """Returns a `MaskedLM` as a task with logits of all tokens."""
    logits = task.token_head(encode(task.encoder).sequence)
    return Task(task.encoder, task.reader, Head(logits, FixedTokens(logits.shape[-1])))


def _output_head(student, teacher, temperature, top_k):
    """Returns the head of the student's outputs that learns from the teacher, and the tensor of the teacher."""
    labels, outputs, stored = student.labels, student.output, teacher.output
    if labels.names is not None:  # Stored outputs have the order of the teacher, whoever learns from them.
        outputs = ops.take(outputs, [labels.names.index(name) for name in teacher.label_names], axis=-1)
    if len(outputs.shape) == 3:
        power = 1 if labels.names is None else 0
        head = Head(outputs, StoredLabels(divergence_of_top(temperature), power=power))
        return head, top_probabilities(ops.cast(stored, "float32") / temperature, min(top_k, stored.shape[-1]))
    if labels.names is None:
        return Head(outputs, StoredLabels(keras.losses.mean_squared_error)), stored
    loss = DistillationLoss(temperature)
    if labels.one_of:
        return Head(outputs, StoredLabels(loss)), stored

    def yes_or_no(logits):  # The sigmoid is the softmax of a logit and 0.
        return ops.stack([logits, ops.zeros_like(logits)], axis=-1)

    def of_texts(y_true, y_pred):  # Weights are those of texts.
        return ops.mean(loss.call(yes_or_no(y_true), yes_or_no(y_pred)), axis=-1)

    return Head(outputs, StoredLabels(of_texts)), stored


def _weighted(head, weight, name):
    """Returns a head with a weight, which may be a schedule."""
    if not callable(weight):
        return dataclasses.replace(head, weight=weight)
    return dataclasses.replace(head, outputs=WeightedByStep(weight, name=f"{name}_weight")(head.outputs))


def _tensors(student, teacher, signals, parts):
    """Yields `(name, student's tensor, teacher's tensor, teacher's layer, signal)` for each layer of the signals."""
    if not signals:
        return
    counts = [len(encode(task.encoder, hidden_states=True).hidden_states) - 1 for task in (student, teacher)]
    rule = (
        "Signals of all tokens require the same tokens. Create the student with the preprocessor of the teacher, or "
        "use `HiddenStates(tokens='first')`."
    )
    names, same = {"student": student.preprocessor, "teacher": teacher.preprocessor}, _have_same_tokens(parts)
    expect(same or not any(signal.tokens == "all" for signal in signals), rule, **names)
    width = max(own.inputs["padding_mask"].shape[-1] for own, _ in parts.values()) if same else None
    for signal in signals:
        first = signal.first_layer
        spread = {own: round(own * counts[1] / max(counts[0], 1)) for own in range(first, counts[0] + 1)}
        layers = spread if signal.layers is None else signal.layers
        rule = (
            f"Layers of `{type(signal).__name__}` are from {first} to {counts[0]} of the student, and to {counts[1]}."
        )
        fit = all(first <= layer <= count for pair in layers.items() for layer, count in zip(pair, counts))
        expect(fit, rule, layers=layers)
        for own, other in layers.items():
            tensors = (signal.tensor(task.encoder, layer, width) for task, layer in ((student, own), (teacher, other)))
            yield f"{signal.kind}_{own}", *tensors, other, signal


def fingerprint_of_teacher(model, teacher, layers=None):
    """Returns a string that identifies what is stored: the teacher, and the layer and shape of each signal."""
    # Blocks with adapters have no config of their own. That of a different encoder has names that Keras numbers.
    described = isinstance(teacher.encoder, Encoder) and type(teacher) is not Task
    return fingerprint_of(model, teacher.get_config() if described else None) + json.dumps(layers)


def _weights(data, heads, known, of_tokens):
    """Returns the data, and the weights of its rows, or a dict of those of each head, or `None`."""
    weights, layout = data.sample_weight, data.contents.layout
    if layout.row is not None:  # Words have labels.
        if known is not None and data.labels is not None:
            data = data.replace(labels=np.where(layout.spread(known)[:, None] > 0, data.labels, UNUSED))
        if not of_tokens:
            return data, weights
        shape = data.inputs["padding_mask"].shape
        weights = np.ones(shape, "float32") if weights is None else weights
        are_words = layout.spread_answers(np.ones(len(layout.row), bool), shape[1], False)
        return data, {name: np.where(are_words, weights, -1) if name == "teacher" else weights for name in heads}
    if known is None:
        return data, weights
    weights = np.ones_like(known) if weights is None else weights
    return data, {name: weights * known if name == "label" else weights for name in heads}


# === Margins ===


def _are_triplets(value):
    """Returns whether a value is a tuple of three columns of equally many texts, at least one."""
    columns = value if isinstance(value, tuple) and len(value) == 3 else ("", "", "")
    are_lists = all(hasattr(column, "__len__") and not isinstance(column, str) for column in columns)
    return are_lists and len(columns[0]) == len(columns[1]) == len(columns[2]) > 0


@expects(
    teacher=instance_of((TextRegressor, Ensemble), "a `TextRegressor`, or an `Ensemble` of them"),
    triplets=Rule(
        "a tuple of three lists of equally many texts, `(queries, positives, negatives)`",
        _are_triplets,
        ((["a"], ["b"]), (["a"], ["b"], []), ([], [], []), ("a", "b", "c"), (1, 2, 3)),
    ),
    batch_size=integer(1),
)
def teacher_margins(
    teacher: Task,
    triplets: tuple,
    *,
    batch_size: int | None = None,
    folder: Any = None,
    verbose: str | int = "auto",
) -> np.ndarray:
    """Returns by how much a teacher prefers one text to another: the labels of `losses.MarginMSELoss`.

    The teacher reads both texts of a pair together, so it is more accurate than the `TextEmbedder` that learns from it,
    but too slow to search with. It runs once for each pair.

    Args:
        teacher: `TextRegressor` with one target, the score of a pair, or `Ensemble` of several. It is trained already.
        triplets: Tuple `(queries, positives, negatives)` of lists of texts, as for the `fit` of the student.
        batch_size: Integer. Number of pairs in a batch. Defaults to `None`, for 32.
        folder: String or path. Folder for the scores. A later call with the same teacher and texts reads them, or
            completes them if the earlier run was killed. Defaults to `None`, which keeps none.
        verbose: `"auto"`, `0` (silent), `1` (progress bar) or `2` (one line). Defaults to `"auto"`.

    Returns:
        Float array `[rows]`. Scores of `(query, positive)` minus scores of `(query, negative)`.

    Raises:
        ValueError: If the teacher has several targets, `windows` or `siamese=True`, was trained on single texts, or is
            on several devices, if `triplets` are not three lists of equally many texts, or if `folder` contains
            something else.

    Example:
    ```python
    queries, answers = ["Who wrote Hamlet?", "Where is Oslo?"], ["Shakespeare wrote it.", "It is in Norway."]
    triplets = queries, answers, answers[::-1]
    teacher = keras_transfer.tasks.TextRegressor.from_pretrained("minilm-l6")  # Pass a trained one.
    student = keras_transfer.tasks.TextEmbedder.from_pretrained("minilm-l6")
    student.compile(loss=keras_transfer.losses.MarginMSELoss())
    student.fit(triplets, keras_transfer.adaptation.teacher_margins(teacher, triplets))
    ```

    Source: https://arxiv.org/abs/2010.02666
    """
    expect(replicas_of(teacher)[0] == 1, "`teacher` must be on one device.", replicas=replicas_of(teacher)[0])
    windows, outputs = getattr(teacher, "windows", None), teacher.output.shape[-1]
    rule = "`teacher` must have one target, and read both texts together."
    fits = (outputs, windows, teacher.siamese) == (1, None, False)
    expect(fits, rule, num_targets=outputs, windows=windows, siamese=teacher.siamese)
    queries, positives, negatives = map(list, triplets)
    pairs = _read_by(teacher, (2 * queries, positives + negatives), batch_size)
    scores = store_rows(teacher, pairs, fingerprint_of_teacher(teacher, teacher), folder, verbose=verbose)
    return np.subtract(*np.split(np.asarray(scores)[:, 0], 2))


# === A student made of its teacher ===


@expects(teacher=_TASK, layers=list_of(integer(0), 1))
def student_from(teacher: Task, layers: Sequence | None = None) -> Task:
    """Returns a task with some of the Transformer blocks of another one, and copies of all its other weights.

    Half of the blocks need half of the time. The student needs further training, such as `distill`, before it is
    accurate.

    Args:
        teacher: `Task` with an encoder-only Transformer of this library, such as BERT.
        layers: List of integers, the blocks to keep, from 0. Defaults to `None`, every second one from the first, as
            in DistilBERT.

    Returns:
        A new task of the same class, with the same preprocessor. It is not compiled, and all of its weights train.

    Raises:
        ValueError: If there is no such block, if the blocks differ in their kind, or if the task has another encoder,
            several encoders, shared blocks, adapters, a `scalar_mix` or quantized weights.

    Example:
    ```python
    teacher = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=["bad", "good"])
    student = keras_transfer.adaptation.student_from(teacher)
    student.predict_labels(["A fine film."])
    ```

    Source: https://arxiv.org/abs/1910.01108, section 2.
    """
    blocks = getattr(teacher.encoder, "blocks", [None])
    return prune(teacher, layers=list(range(0, len(blocks), 2)) if layers is None else layers)
