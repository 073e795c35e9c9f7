"""A callback that generates texts at the end of each epoch, and logs metrics that compare them with references."""

import inspect
from collections.abc import Sequence
from typing import Any

import keras

from keras_transfer.core.expect import expect, expects, integer
from keras_transfer.core.names import check_arguments
from keras_transfer.metrics import TextMetric, check_counts, list_of_texts
from keras_transfer.training.progress import RunCallback

# The callback sets these arguments of `generate` itself.
_OWN = ("self", "prompts", "sources", "num_sequences", "on_token")


@keras.saving.register_keras_serializable(package="keras_transfer")
class GenerationMetrics(RunCallback):
    """Generates texts at the end of each epoch, and logs metrics that compare them with references.

    The results are added to the logs of the epoch, and so to the `History` that `fit()` returns. Callbacks after it in
    the list, such as `EarlyStopping`, `ModelCheckpoint` and `CSVLogger`, see them. Callbacks that monitor a result need
    their `mode`, such as `EarlyStopping("val_rougeL", mode="max")`.

    A metric is computed from generated texts, which takes much longer than the loss. For a fast estimate, use `limit`
    and greedy search. Training does not depend on this callback: generation draws no random numbers from the run.

    Args:
        sources: List of strings. The input of `generate`: the sources of a `Seq2SeqLM`, or the prompts of a `CausalLM`,
            whose continuations are compared.
        targets: List with the reference of each source, a string, or with a list of several references.
        metrics: `metrics.TextMetric` or a list of them.
        batch_size: Integer. Number of sources in a batch of `generate`. Defaults to `8`.
        limit: Integer. Number of rows to use, from the start. Defaults to `None`, for all of them.
        prefix: String. Prefix of the names of results in the logs. Defaults to `"val_"`.
        seed: Integer. Seed of random samplers, the same in each epoch. Defaults to `0`.
        **generation: Arguments of the model's `generate`, such as `max_new_tokens`, `num_beams` and `sampler`.

    Attributes:
        texts: List of strings. The texts of the last epoch.

    Raises:
        ValueError: If `sources` and `targets` differ in length or contain anything but texts; if `metrics` contains
            anything but `TextMetric`s or two with equal names; or if a number is not positive. In `fit()`, if the model
            has no `generate`; or if a callback that monitors a result comes before this one or has no `mode`.
        TypeError: If `generate` has no argument of a name in `generation`, in `fit()`.

    Example:
    ```python
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "c"]
    encoder = keras_transfer.encoders.T5(7, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16, head_dim=4)
    model = keras_transfer.tasks.Seq2SeqLM(encoder, keras_transfer.text.BertPreprocessor(vocabulary))
    model.compile()
    callback = keras_transfer.callbacks.GenerationMetrics(
        ["a b", "b c"], ["b a", "c b"], keras_transfer.metrics.Chrf(), max_new_tokens=4
    )
    history = model.fit(["a b c", "c b"], ["c b a", "b c"], callbacks=[callback])
    print(history.history["val_chrf"], callback.texts)
    ```
    """

    @expects(batch_size=integer(1), limit=integer(1))
    def __init__(
        self,
        sources: Sequence[str],
        targets: Sequence[Any],
        metrics: Any,
        *,
        batch_size: int = 8,
        limit: int | None = None,
        prefix: str = "val_",
        seed: int | None = 0,
        **generation: Any,
    ) -> None:
        super().__init__()
        metrics = list(metrics) if isinstance(metrics, (list, tuple)) else [metrics]
        if not metrics or (wrong := [each for each in metrics if not isinstance(each, TextMetric)]):
            raise ValueError(
                "`metrics` must be a `metrics.TextMetric`, such as `Rouge()` or `Bleu()`, or a list of them. "
                f"Received: {(wrong[0] if metrics else metrics)!r:.100}"
            )
        names = [name for metric in metrics for name in metric.result_names]
        rule = "The names of results must be unique. Pass `name=...` to metrics."
        expect(len(set(names)) == len(names), rule, names=names)
        self.sources = list_of_texts(sources, "sources")
        references = [metric.references(targets, "targets") for metric in metrics]
        check_counts(self.sources, references[0], "sources", "targets")
        expect(self.sources, "`sources` must have at least one row.", sources=self.sources)
        self.sources, self.targets = self.sources[:limit], references[0][:limit]
        self.metrics, self.batch_size, self.limit, self.prefix, self.seed = metrics, batch_size, limit, prefix, seed
        self.generation, self.texts = generation, None

    def on_train_begin(self, logs=None):
        model = self.model
        generate = getattr(model, "generate", None)
        known = list(inspect.signature(generate).parameters) if callable(generate) else []
        if "max_new_tokens" not in known or model.preprocessor is None:
            raise ValueError(
                "`GenerationMetrics` requires a `Seq2SeqLM` or `CausalLM` with a preprocessor. "
                f"Received: {type(model).__name__}{' without a preprocessor' if 'max_new_tokens' in known else ''}"
            )
        known = [name for name in known if name not in _OWN]
        check_arguments(f"{type(model).__name__}.generate", self.generation, known)
        model.generate([], **self._options())  # Raises if a value is invalid, before the run begins.
        self._check_monitors()

    def _options(self):
        return {"batch_size": self.batch_size, "seed": self.seed, **self.generation}

    def _check_monitors(self):
        """Raises a `ValueError` if a callback monitors a result that it cannot see or compare."""
        callbacks = self.progress.callbacks or []
        modes = {f"{self.prefix}{name}": each.monitor_mode for each in self.metrics for name in each.result_names}
        seen = False
        for callback in callbacks:
            seen |= callback is self
            monitor, kind = getattr(callback, "monitor", None), type(callback).__name__
            if monitor not in modes:
                continue
            if not seen:
                raise ValueError(
                    f"`GenerationMetrics` must come before the callbacks that monitor its results. Received: {kind} "
                    f"with monitor={monitor!r} before it"
                )
            mode, advice = getattr(callback, "mode", None), f"Pass `mode={modes[monitor]!r}` to `{kind}`."
            rule = f"Keras does not know whether {monitor!r} should rise or fall. {advice}"
            expect(mode != "auto", rule, mode=mode)

    def on_epoch_end(self, epoch, logs=None):
        self.texts = self.model.generate(self.sources, **self._options())
        for metric in self.metrics:
            metric.reset_state()
            result = metric(self.targets, self.texts)
            if logs is not None:
                found = result if isinstance(result, dict) else {metric.name: result}
                logs.update({f"{self.prefix}{name}": float(value) for name, value in found.items()})

    def get_config(self):
        return {
            "sources": self.sources,
            "targets": self.targets,
            "metrics": [keras.saving.serialize_keras_object(metric) for metric in self.metrics],
            "batch_size": self.batch_size,
            "limit": self.limit,
            "prefix": self.prefix,
            "seed": self.seed,
            **{name: keras.saving.serialize_keras_object(value) for name, value in self.generation.items()},
        }

    @classmethod
    def from_config(cls, config):
        own = {name: config[name] for name in ("sources", "targets", "batch_size", "limit", "prefix", "seed")}
        rest = {name: value for name, value in config.items() if name not in own}
        return cls(**own, **{name: keras.saving.deserialize_keras_object(value) for name, value in rest.items()})
