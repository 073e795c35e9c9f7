"""The facts about a task for its model card: purpose, labels, training, and code that loads it."""

import dataclasses
import json
import pathlib
import sys
from typing import NamedTuple

import keras

from keras_transfer.checkpoints import ModelFacts
from keras_transfer.encoders import attached_to
from keras_transfer.version import __version__

_NOT_IN_TRANSFORMERS = ("awd-lstm", "awd-qrnn")
_LIMIT = "The scores can be different on other kinds of texts. Measure them on your texts before you rely on the model."


def facts_of(task, folder, source, load=None):
    """Returns the `ModelFacts` of a task that was written into a folder.

    Args:
        source: String. What the snippets of the card load: the name of the folder, or `"hf://NAME"` or
            `"hf://NAME@REVISION"`.
    """
    tag, does, call, _ = task.purpose or (None, f"is a `{type(task).__name__}`", None, None)
    several = " Each text has any number of labels." if getattr(task, "multi_label", False) else ""
    pairs = getattr(task, "fitted_on", None) == "pairs"
    usage = {"How to use it": _own_snippet(task, source, load, call, pairs)}
    others = load is None and (pathlib.Path(folder) / "config.json").exists()
    transformers = _other_snippets(task, pathlib.Path(folder), source) if others else {}
    return ModelFacts(
        task=type(task).__name__,
        summary=f"This model {does if not pairs else does.replace('texts', 'pairs of texts')}.{several} It was written "
        "by keras_transfer, a library for transfer learning in Keras 3.",
        pipeline_tag=tag,
        labels=tuple(str(name) for name in getattr(task.labels, "names", None) or ()),
        base_model=attached_to(task.encoder).files.get("source", {}).get("base_model"),
        details=_details(task),
        training=training_of(task),
        versions=versions(),
        usage={**usage, **transformers},
        limits=(_LIMIT,),
        tags=tuple(heading.rpartition(" ")[2].lower() for heading in transformers),
    )


class Purpose(NamedTuple):
    """What the model card of a task says about its class.

    Args:
        tag: String. The Hugging Face hub's name for such models, or `None`.
        does: String. What the model does, after "This model".
        call: String. A line of code that uses the model, after "model.".
        auto_class: String. The class with which Transformers loads such a model, or `None` without one. Defaults to
            `None`.
    """

    tag: str | None
    does: str
    call: str
    auto_class: str | None = None


@dataclasses.dataclass(frozen=True)
class FitRecord:
    """What the model card says about one call of `fit`.

    Args:
        epochs: Integer. Number of epochs, including those of the runs that it continued.
        restored: Integer. The epoch, counted from 0, whose weights a callback has restored at the end, or None.
    """

    epochs: int
    restored: int | None = None


def remember_fit(task, before, callbacks):
    """Adds a call of `fit` to the task's `fits`, for its model card, given the task's `history` before the call."""
    history = getattr(task, "history", None)
    # Without `epoch`, another callback has failed before the run began.
    if history is None or history is before or not getattr(history, "epoch", None):
        return
    stopping = [each for each in callbacks if isinstance(each, keras.callbacks.EarlyStopping)]
    restoring = [each.best_epoch for each in stopping if each.restore_best_weights and each.best_weights is not None]
    record = FitRecord(history.epoch[-1] + 1, restoring[-1] if restoring else None)
    # A run with `initial_epoch` continues the one before it, or an earlier checkpoint of it.
    continues = task.fits and 0 < history.epoch[0] <= task.fits[-1].epochs
    task.fits = (*(task.fits[:-1] if continues else task.fits), record)


def training_of(task):
    """Returns a dict of facts about the calls of `fit` in this process, which is empty without one."""
    history = getattr(task, "history", None)
    if history is None or not getattr(history, "epoch", None) or not task.fits:
        return {}
    counts = [each.epochs for each in task.fits]
    found = {"epochs": sum(counts)}
    if len(counts) > 1:
        found["calls of fit"] = f"{len(counts)} ({', '.join(map(str, counts))} epochs); the facts below are on the last"
    if steps := (history.params or {}).get("steps"):
        found["batches per epoch"] = steps
    found |= _optimizer(getattr(task, "optimizer", None))
    rates = [f"{rate:.6g}" for rate in history.history.get("learning_rate", ())]  # Callbacks that set it record it.
    if len(set(rates)) > 1:
        found["learning rate"] = f"from {rates[0]} in the first epoch to {rates[-1]} in the last"
    return found | _scores(history, task.fits[-1])


def _scores(history, record):
    """Returns the scores of the epoch with whose weights a call of `fit` has ended, as a dict of one entry or none."""
    place, title = -1, "last epoch"
    if record.restored in history.epoch:
        place = history.epoch.index(record.restored)
        title = f"epoch {record.restored + 1} of {record.epochs}, whose weights were restored"
    logged = {name: values for name, values in history.history.items() if values and name != "learning_rate"}
    if place >= 0:  # `validation_freq` may skip epochs.
        logged = {name: values for name, values in logged.items() if len(values) == len(history.epoch)}
    scores = {name: values[place] for name, values in logged.items()}
    shown = ", ".join(f"{name} {score:.4f}" for name, score in scores.items() if isinstance(score, (int, float)))
    return {title: shown} if shown else {}


def versions():
    """Returns a dict from this library, Keras and its backend to their versions."""
    backend = keras.backend.backend()
    found = {"keras_transfer": __version__, "keras": keras.__version__}
    version = getattr(sys.modules.get(backend), "__version__", None)
    return {**found, **({backend: str(version)} if version else {})}


def _details(task):
    length = getattr(task.preprocessor, "sequence_length", None)
    rest = {"pooling": getattr(task, "pooling", None), "precision": task.dtype_policy.name}
    found = {"encoder": f"`{type(task.encoder).__name__}`", "parameters": f"{task.count_params():,}"}
    if isinstance(length, int):
        found["longest text"] = f"{length} tokens"
    return {**found, **{name: value for name, value in rest.items() if isinstance(value, str)}}


def _optimizer(optimizer):
    """Returns the class and the learning rate of an optimizer, as far as its config contains them."""
    if optimizer is None or int(keras.ops.convert_to_numpy(optimizer.iterations)) == 0:
        return {}  # The task was compiled again after its training.
    config = optimizer.get_config()
    kind = config["optimizer"] if isinstance(config.get("optimizer"), dict) else {}
    rate = {**config, **kind.get("config", {})}.get("learning_rate")
    found = {"optimizer": kind.get("class_name") or type(optimizer).__name__}
    if isinstance(rate, dict):  # The rate is a schedule.
        values = rate.get("config", {}).items()
        shown = ", ".join(f"{name}={value}" for name, value in values if isinstance(value, (int, float)))
        rate = f"{rate.get('class_name')}({shown})"
    elif isinstance(rate, float):
        rate = float(f"{rate:.6g}")  # It was rounded to float32.
    return {**found, **({"learning rate": rate} if isinstance(rate, (str, float)) else {})}


def _own_snippet(task, source, load, call, pairs):
    ours = "keras_transfer.tasks" in type(task).__module__
    lines = ["import keras_transfer as kt", ""]
    if load is not None:
        lines = ["import keras", *lines, f"model = {load}"]
    elif ours:
        preprocessor = ", preprocessor=None" if task.preprocessor is None else ""
        lines.append(f"model = kt.tasks.{type(task).__name__}.from_pretrained({source!r}{preprocessor})")
    else:
        lines.append(f"model = {type(task).__name__}.from_pretrained({source!r})  # a class of your own")
    if call is not None and task.preprocessor is not None:
        if pairs:
            call = call.replace('["A text."]', '(["A text."], ["Another text."])')
        mask = getattr(getattr(task.preprocessor, "tokenizer", None), "mask_token", None)
        call = call.replace("{mask}", str(mask))
        if mask is not None or "fill_mask" not in call:
            lines.append(f"print(model.{call})")
    return "\n".join(lines)


def _other_snippets(task, folder, source):
    """Returns a dict from headings to snippets of the other library that loads a folder, empty if none does."""
    name, revision = source, ""
    if source.startswith("hf://"):
        name, _, revision = source.removeprefix("hf://").partition("@")
    arguments = repr(name) + (f", revision={revision!r}" if revision else "")
    if task.checkpoint_head.is_embedder and (folder / "modules.json").exists():
        code = "from sentence_transformers import SentenceTransformer\n\n"
        code += f'model = SentenceTransformer({arguments})\nprint(model.encode(["A text."]))'
        return {"How to use it with sentence-transformers": code}
    config = json.loads((folder / "config.json").read_text("utf-8"))
    auto = task.purpose and task.purpose.auto_class
    if not auto or not config.get("architectures") or config.get("model_type") in _NOT_IN_TRANSFORMERS:
        return {}
    has_tokenizer = (folder / "tokenizer_config.json").exists()
    code = f"from transformers import {f'{auto}, AutoTokenizer' if has_tokenizer else auto}\n\n"
    code += f"tokenizer = AutoTokenizer.from_pretrained({arguments})\n" if has_tokenizer else ""
    code += f"model = {auto}.from_pretrained({arguments})"
    return {"How to use it with Transformers": code}
