"""Loads and writes the heads of tasks in checkpoints."""

import dataclasses
import inspect
import logging
import types
from collections.abc import Callable

from keras_transfer.checkpoints.architecture import check_covered, entries_of, read_settings, write_settings
from keras_transfer.checkpoints.tensors import CheckpointError, check_all, expect, fill, tensors_of
from keras_transfer.core.names import listed

log = logging.getLogger("keras_transfer")
_NEW = '`head="new"` for a new head, which is not trained yet'
OWN_SETTINGS = "keras_transfer_task"  # Arguments of a task in `config.json`, which Transformers does not know.


@dataclasses.dataclass(frozen=True)
class Head:
    """The head of a task in the checkpoints of an architecture, as tables that are read in both directions.

    Args:
        prefix: String, or a tuple of strings. Prefixes of the names of its tensors.
        model_classes: Tuple of strings. Suffixes of the names of the classes in Transformers that have this head. The
            first one is used for writing.
        tensors: Dict from the path of a layer or a variable of the task to the name of its tensors, as in
            `Architecture.tensors`. A path begins with the name of a layer of the task.
        labels: String. Name of the tensor with one row for each label. Defaults to `None`, for a head without labels.
        arguments: Dict of arguments of the task that the head determines: a value, or a function of the encoder.
        settings: Tuple of further arguments of the task, as in `Architecture.settings`. Users may change only `dropout`
            among these.
        fixed: Dict of settings of which a head can be loaded and written only with one value, which is the original's
            default.
        written: Dict of further settings that a configuration with this head has.
        own_table: String. The tensor that a language model's head has only if it does not share the token embeddings.
            Its presence determines the argument `tied` of the task. Defaults to `None`, for other heads.
        by_tensors: Boolean. Whether a checkpoint with all of its tensors has it, whatever class the configuration
            names. Defaults to `False`, since several heads may have the same tensors.
        check_preprocessor: Function of the user's own preprocessor and the checkpoint's folder that raises a
            `CheckpointError` if the head was trained with another. Defaults to `None`, for no check.
    """

    prefix: str | tuple
    model_classes: tuple
    tensors: dict
    labels: str | None = None
    arguments: dict = dataclasses.field(default_factory=dict)
    settings: tuple = ()
    fixed: dict = dataclasses.field(default_factory=dict)
    written: dict = dataclasses.field(default_factory=dict)
    own_table: str | None = None
    by_tensors: bool = False
    check_preprocessor: Callable | None = None

    def arguments_for(self, encoder):
        """Returns a dict of the arguments of a task over an encoder that the head determines."""
        return {name: value(encoder) if callable(value) else value for name, value in self.arguments.items()}

    def entries(self, task, model_type):
        """Returns an `Entry` for each weight of a task that is not one of its encoder or of `saved_apart`."""
        entries = entries_of(types.SimpleNamespace(**{layer.name: layer for layer in task.layers}), self.tensors)
        models = [getattr(task, name) for name in ("encoder", *task.saved_apart)]
        apart = {id(weight) for model in models if model is not None for weight in model.weights}
        weights = [weight for weight in task.weights if id(weight) not in apart]
        check_covered(entries, weights, model_type, type(task).__name__)
        return entries


@dataclasses.dataclass(frozen=True)
class TaskHead:
    """What a class of tasks expects of checkpoints: its attribute `checkpoint_head`.

    Args:
        name: String. Name of the head in `Architecture.heads`. Defaults to `None`, for a head that no checkpoint
            contains.
        sizes: Tuple of strings, some of `"num_classes"`, `"label_names"` and `"num_targets"`. Arguments of the task
            that determine the size of the head. If one of them is passed and the checkpoint has no head, a new head is
            created.
        default_sizes: Dict of arguments that determine the size of a new head if the user passes none of `sizes`.
            Defaults to `{}`, for a task that requires one of them.
        problem_types: Tuple of strings. Values of `problem_type` in the configuration of a checkpoint whose head the
            task can load.
        word_level: Boolean. Whether the preprocessor must be one of this library, which accepts words and knows their
            characters.
        is_embedder: Boolean. Whether the task returns the vectors that a sentence-transformers folder describes.
        check_encoder: Function that raises a `ValueError` if no task of this class can be built over an encoder.
            Defaults to `None`, for tasks over any encoder.
        exclusive: Tuple of strings. Arguments of which only one may be given.
        encoder_class: Class of the encoders that the task needs. Defaults to `None`, for any class.
        encoder_arguments: Dict of arguments of these encoders that the task needs.
        found: Tuple of strings. Arguments that checkpoints contain in another form.
    """

    name: str | None = None
    sizes: tuple = ()
    default_sizes: dict = dataclasses.field(default_factory=dict)
    problem_types: tuple = ("single_label_classification",)
    word_level: bool = False
    is_embedder: bool = False
    check_encoder: Callable | None = None
    exclusive: tuple = ()
    encoder_class: type | None = None
    encoder_arguments: dict = dataclasses.field(default_factory=dict)
    found: tuple = ()


@dataclasses.dataclass
class FoundHead:
    """A head in a checkpoint, which is loaded into a task.

    Attributes:
        source: The checkpoint's name in errors.
        readers: Dict from the names of its tensors to functions that read them.
    """

    head: Head
    model_type: str
    source: object
    config: dict
    readers: dict

    def arguments(self, encoder, task, given, labels=None):
        """Returns the arguments of the task."""
        rule = f"The head of {self.source} reads one vector of a text or a pair. With `siamese=True`, pass {_NEW}."
        expect(not given.get("siamese"), rule, received="siamese=True")
        found, problems = read_settings(self.head.settings, self.config, self.head.fixed)
        check_all(f"The head of {self.source} cannot be loaded:", problems)
        fixed = self.head.arguments_for(encoder) | {name: value for name, value in found.items() if name != "dropout"}
        if self.head.own_table is not None:
            fixed["tied"] = self.head.own_table not in self.readers
        if self.head.labels in self.readers:  # If the tensor is missing, `load_into` reports it.
            fixed |= self._sizes(task, given, labels)
        for name, value in given.items():
            value = list(value) if name == "label_names" and value is not None else value
            rule = (
                f"The head of {self.source} has {name}={_shown(fixed.get(name))}. Leave the argument out, or pass "
                f"{_NEW}."
            )
            expect(name not in fixed or value in (None, fixed[name]), rule, received=f"{name}={_shown(value)}")
        own = self.config.get(OWN_SETTINGS, {})
        exclusive = task.checkpoint_head.exclusive if set(task.checkpoint_head.exclusive) & set(given) else ()
        return {**{name: own[name] for name in own if name not in exclusive}, **found, **given, **fixed}

    def _sizes(self, task, given, labels):
        """Returns the arguments of the task that the number of labels and their names determine."""
        count, wanted = self.readers[self.head.labels]().shape[0], task.checkpoint_head
        problem = self.config.get("problem_type") or _problem_type(count)
        rule = (
            f"The head of {self.source} must be one for {' or '.join(map(repr, wanted.problem_types))} to load it as a "
            f"{task.__name__}. Pass {_NEW}."
        )
        rows = f"{self.head.labels} with {count} row{'s' if count > 1 else ''}"
        expect(problem in wanted.problem_types, rule, received=f"problem_type={problem!r}, {rows}")
        names = self._label_names(count, given.get("label_names") if "label_names" in wanted.sizes else ())
        missing = sorted(set(labels or ()) - set(names or ()))
        advice = "" if names else "Its labels have no names: pass `label_names` in the order of the head. "
        rule = f"The head of {self.source} must have the names of all `labels`. {advice}Pass {_NEW}."
        expect(not missing, rule, received=f"{missing!s:.200}, the head has {listed(names or ())}")
        own = names or given.get("label_names")
        own = [f"LABEL_{i}" for i in range(count)] if own is None or len(own) != count else list(own)
        sizes = {"num_classes": count, "label_names": own, "num_targets": count}
        found = {name: value for name, value in sizes.items() if name in wanted.sizes}
        if "multi_label_classification" in wanted.problem_types:
            found["multi_label"] = problem == "multi_label_classification"
        return found

    def load_into(self, task):
        """Sets the weights of a task's head."""
        fill(self.head.entries(task, self.model_type), self.readers, f"the head of {self.source}")

    def load_layers(self, layers):
        """Sets the weights of layers outside a task, given as a dict by their names in the task."""
        fill(entries_of(types.SimpleNamespace(**layers), self.head.tensors), self.readers, f"the head of {self.source}")

    def _label_names(self, count, given):
        """Returns the names of the labels in their order, or None if the checkpoint does not name them.

        If it has the same name for several labels, those given by the user replace them. `given` is `()` for a task
        whose outputs have no names.
        """
        named = self.config.get("id2label")
        if named is None:
            return None
        fits = isinstance(named, dict) and len(named) == count
        names = [named.get(str(i)) for i in range(count)] if fits else [None]
        rule = (
            f"`id2label` of {self.source} must name the {count} labels of its head, with the keys '0' to '{count - 1}'."
        )
        expect(all(isinstance(name, str) for name in names), rule, id2label=named)
        if len(set(names)) < count and given != ():
            if given is not None and len(given) == count:
                return None
            name = next(name for place, name in enumerate(names) if name in names[:place])
            places = [place for place, other in enumerate(names) if other == name]
            raise CheckpointError(
                f"`id2label` of {self.source} must give each label a name of its own. Pass `label_names`, {count} "
                f"different names in the order of the head. Received: {name!r:.100} for the labels {places[:10]}"
            )
        return None if names == [f"LABEL_{i}" for i in range(count)] else names


def _shown(value):
    return listed(value) if isinstance(value, list) else repr(value)


def _problem_type(count):
    """Returns the type that Transformers assumes for a head with `count` outputs if the configuration has none."""
    return "regression" if count == 1 else "single_label_classification"


def find_head(architecture, name, config, readers, source):
    """Returns the `FoundHead` of a task in a checkpoint, or None if it has none.

    Two heads may have the same tensors, so that only the class in the configuration distinguishes them.

    Args:
        readers: Dict from the plain names of all its tensors to functions that read them.
    """
    head = architecture.heads.get(name)
    if not isinstance(head, Head):
        return None
    stems = [] if head.own_table else _stems(head)
    present = [any(f"{stem}{part}" in readers for part in ("", ".weight", ".bias")) for stem in stems]
    classes = config.get("architectures")
    if head.by_tensors and all(present):
        is_there = True
    elif isinstance(classes, list) and classes:
        # A file may contain less than the class, such as only the encoder.
        is_there = any(str(cls).endswith(head.model_classes) for cls in classes) and (any(present) or not stems)
    else:
        is_there = all(present)
    if not is_there:
        return None
    own = {key: read for key, read in readers.items() if key.startswith(head.prefix)}
    return FoundHead(head, architecture.model_type, source, config, own)


def _stems(head):
    """Returns the names of the tensors of a head without `.weight` and `.bias`."""
    names = [found[0] if isinstance(found, tuple) else found for found in head.tensors.values()]
    return [stem for found in names for stem in ([found] if isinstance(found, str) else found)]


def check_supported(architecture, name, readers, source):
    """Raises a `CheckpointError` if a checkpoint has a head for a task, but its record has no table for it."""
    if name in architecture.heads and not isinstance(architecture.heads[name], Head):
        tensors = sorted(key for key in readers if key.startswith(architecture.head_prefixes[name]))
        rule = (
            f"The head {name!r} of {source} cannot be loaded, because heads of {architecture.model_type!r} are not "
            f"supported for this task. Pass {_NEW}."
        )
        expect(not tensors, rule, received=tensors[:5])


@dataclasses.dataclass
class WrittenHead:
    """The part of a checkpoint that a task's head adds.

    Attributes:
        model_class: String. The class of the encoder with the head in Transformers.
        generation: Dict of the task's generation settings, which replace the encoder's.
    """

    model_class: str
    config: dict
    tensors: dict
    generation: dict = dataclasses.field(default_factory=dict)


def check_head(architecture, task, action, advice):
    """Returns the `Head` of a task in the checkpoints of an architecture."""
    head, kind = architecture.heads.get(task.checkpoint_head.name), type(task).__name__
    what = f"The head of a {kind} cannot be {action} with"
    rule = f"{what} a {type(task.encoder).__name__}. {advice}"
    expect(isinstance(head, Head), rule, received=f"{kind} with model_type={architecture.model_type!r}")
    for name, value in head.arguments_for(task.encoder).items():
        rule = (
            f"The head of a {kind} can be {action} with a {type(task.encoder).__name__} only if it has "
            f"{name}={value!r}. Create the task with `{name}={value!r}` before training. Otherwise: {advice}"
        )
        expect(getattr(task, name) == value, rule, received=f"{name}={getattr(task, name)!r}")
    for name in ("scalar_mix", "siamese", "batch_norm", "hidden_dim", "hidden_dropout"):
        value = getattr(task, name, None)
        expect(not value, f"{what} its `{name}`. {advice}", received=f"{name}={value!r}")
    return head


def _further_settings(head, task):
    """Returns the arguments of a task that its head does not determine, as a dict, and the names of those not kept."""
    wanted = task.checkpoint_head
    known = {"encoder", "preprocessor", "target_preprocessor", "name", "tied", "multi_label"}
    known |= {*head.arguments, *(setting[0] for setting in head.settings), *wanted.sizes, *wanted.found}
    kept, lost = {}, []
    for name, parameter in inspect.signature(type(task).__init__).parameters.items():
        if name in known or name in task.saved_apart or not hasattr(task, name):
            continue
        value = getattr(task, name)
        if name == "windows" or not _is_plain(value):  # Windows need another preprocessor.
            lost += [name] * (value is not None and task.arguments.get(name) != parameter.default)
        elif value != parameter.default and not (name == "thresholds" and not task.tuned_thresholds):
            kept[name] = value
    return kept, lost


def _is_plain(value):
    values = value if isinstance(value, (list, tuple)) else [value]
    return all(each is None or isinstance(each, (str, bool, int, float)) for each in values)


def write_head(architecture, task):
    """Returns the `WrittenHead` of a task."""
    advice = (
        "Write the encoder alone with `model.encoder.save_pretrained(folder, model.preprocessor)`, or the whole model "
        "with `model.save('model.keras')`."
    )
    head, kind = check_head(architecture, task, "written", advice), type(task).__name__
    kept, lost = _further_settings(head, task)
    if lost:
        log.warning("A checkpoint does not contain %s. `model.save('model.keras')` does.", " and ".join(lost))
    config = {**write_settings(head.settings, vars(task), kind), **head.fixed, **head.written}
    if kept:
        config[OWN_SETTINGS] = kept
    if head.labels:
        names = list(task.label_names or [f"LABEL_{i}" for i in range(task.num_targets)])
        config["id2label"] = {str(i): name for i, name in enumerate(names)}
        config["label2id"] = {name: i for i, name in enumerate(names)}
    if task.labels.problem_type is not None:
        config["problem_type"] = task.labels.problem_type
    tensors = tensors_of(head.entries(task, architecture.model_type))
    model_class = architecture.model_class.removesuffix("Model") + head.model_classes[0]
    return WrittenHead(model_class, config, tensors, getattr(task, "generation_settings", dict)())
