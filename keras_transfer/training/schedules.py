"""Learning rate schedules: slanted triangular, warmup and decay, inverse square root, one cycle, by window length."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import keras
import numpy as np
from keras import ops

from keras_transfer.core.expect import FRACTION, POSITIVE, Rule, expect, expects, integer, list_of, number
from keras_transfer.core.plots import BLACK, BLUE, new_axes
from keras_transfer.core.saved_arguments import SavedByArguments


def or_schedule(rule: Rule) -> Rule:
    """Returns the rule of a value that meets a rule of numbers, or is a `LearningRateSchedule`."""

    def is_schedule(value):
        return isinstance(value, keras.optimizers.schedules.LearningRateSchedule)

    return rule._replace(
        words=f"{rule.words} or a `LearningRateSchedule`",
        is_met=lambda value: is_schedule(value) or rule.is_met(value),
        convert=lambda value: value if is_schedule(value) else rule.convert(value),
    )


class _Schedule(SavedByArguments, keras.optimizers.schedules.LearningRateSchedule):
    """Base class of the schedules, dataclasses with a method that plots them.

    Attributes:
        total_steps: Integer. Length of the schedule, or `None` if it never ends.
    """

    _summit: Any = 0.0  # The step of the highest rate, not always an integer.

    @expects(steps=integer(1))
    def plot(self, steps: int | None = None) -> Any:
        """Plots the learning rate over the steps.

        Args:
            steps: Integer. Number of steps. Defaults to `None`, for `total_steps`, or five times the warmup if the
                schedule never ends.

        Returns:
            A `matplotlib.figure.Figure`. A notebook displays it. To save it, call `figure.savefig("rates.png")`.

        Raises:
            ImportError: If matplotlib is not installed.
        """
        axes = new_axes()
        if steps is None:
            steps = getattr(self, "total_steps", None) or 5 * (math.ceil(self._summit) + 1)
        at = np.linspace(0, steps, min(steps, 2000) + 1).round()
        at = np.unique([*at, math.floor(self._summit), math.ceil(self._summit)]).astype("int64")
        at = at[(at >= 0) & (at <= steps)]
        rates = ops.convert_to_numpy(self(at))
        peak = int(rates.argmax())

        axes.plot(at, rates, color=BLUE)
        axes.plot(at[peak], rates[peak], "o", color=BLACK, label=f"peak: {rates[peak]:.3g} at step {at[peak]:,}")
        axes.set(title=type(self).__name__, xlabel="step", ylabel="learning rate", ylim=(0, 1.08 * rates[peak]))
        axes.locator_params(axis="x", integer=True)
        axes.ticklabel_format(axis="y", scilimits=(-2, 3))
        axes.legend()
        return axes.figure


class _UpAndDown(_Schedule):
    """A schedule that rises to a peak, falls to its end, and is constant from then on.

    A subclass defines the rates `_first`, `peak` and `_last`, the steps `_summit` and `_end`, and the shapes `_rise`
    and `_fall`: the height of the rate as a function of the distance from the foot of the slope. Both are between 0 and
    1.
    """

    _first = _last = 0.0

    def __call__(self, step):
        step = ops.cast(step, "float32")  # A product of two steps could overflow an int32.
        rising, falling = (foot + (self.peak - foot) * self._height(step) for foot in (self._first, self._last))
        return ops.where(step < self._summit, rising, falling)

    def _height(self, step):
        """Returns the height of the rate at a float32 step, from 0 at a foot to 1 at the summit."""
        # A slope shorter than 1 contains no step, so the minimum of 1 only prevents a division by zero.
        up = step / max(self._summit, 1.0)
        down = ops.clip((self._end - step) / max(self._end - self._summit, 1.0), 0.0, 1.0)
        return ops.where(step < self._summit, self._rise(up), self._fall(down))

    def _rise(self, fraction):
        return fraction

    def _fall(self, fraction):
        return fraction


@keras.saving.register_keras_serializable(package="keras_transfer")
@expects(peak=POSITIVE, total_steps=integer(1), cut_fraction=number(above=0, below=1), ratio=number(1))
@dataclasses.dataclass(eq=False)
class SlantedTriangular(_UpAndDown):
    """A short linear rise and a long linear fall, for fine-tuning (Howard and Ruder 2018, ULMFiT).

    At step t of T, with `cut = floor(T * cut_fraction)`:

        p = t / cut                if t < cut
            (T - t) / (T - cut)    else
        rate = peak * (1 + p * (ratio - 1)) / ratio

    The rate begins at `peak / ratio`, reaches the peak at step `cut`, and is `peak / ratio` again from step T on, the
    first step after the run. This is the paper's formula if `T * cut_fraction` is an integer. Otherwise the paper's
    rate becomes negative, because its fall lasts only `cut / cut_fraction` steps, fewer than T. `cut` is at least 1. In
    a run of a single step, the rate is the peak.

    Args:
        peak: Float. Highest learning rate.
        total_steps: Integer. T, the number of batches in the run, even if gradients are accumulated over several
            batches.
        cut_fraction: Float in (0, 1). Fraction of the run in which the rate rises. Defaults to `0.1`.
        ratio: Float, at least 1. Ratio of the highest to the lowest learning rate. Defaults to `32`.

    Raises:
        ValueError: If an argument is out of range.

    Example:
    ```python
    schedule = keras_transfer.optimizers.schedules.SlantedTriangular(2e-4, total_steps=4 * 100)
    optimizer = keras.optimizers.AdamW(schedule)
    ```

    Source: https://arxiv.org/abs/1801.06146, equation 3.
    """

    peak: float
    total_steps: int
    _: dataclasses.KW_ONLY
    cut_fraction: float = 0.1
    ratio: float = 32

    def __post_init__(self):
        self._first = self._last = self.peak / self.ratio
        self._summit = min(max(_part(self.total_steps, self.cut_fraction), 1), self.total_steps - 1)
        self._end = self.total_steps


@expects(peak=POSITIVE, total_steps=integer(1), warmup_steps=integer(0), warmup_fraction=FRACTION, end=number(0))
@dataclasses.dataclass(eq=False)
class _Warmup(_UpAndDown):
    """A schedule that rises linearly from 0, and falls in a shape that a subclass defines."""

    peak: float
    total_steps: int
    warmup_steps: int | None = None
    warmup_fraction: float = 0.1
    end: float = 0.0

    def __post_init__(self):
        expect(self.end <= self.peak, "`end` must be at most `peak`.", end=self.end, peak=self.peak)
        given = self.warmup_steps is not None
        self._summit = self.warmup_steps if given else _part(self.total_steps, self.warmup_fraction)
        self._last, self._end = self.end, self.total_steps
        expect(
            self._summit <= self.total_steps,
            "`warmup_steps` must be at most `total_steps`.",
            warmup_steps=self.warmup_steps,
            total_steps=self.total_steps,
        )


@keras.saving.register_keras_serializable(package="keras_transfer")
class LinearWarmupDecay(_Warmup):
    """A linear rise from 0 and a linear fall, the schedule of BERT's fine-tuning (Devlin et al. 2019).

    At step t of T, with a warmup of W steps:

        rate = peak * t / W                                if t < W
               end + (peak - end) * (T - t) / (T - W)      else

    This is Transformers' `get_linear_schedule_with_warmup`. Google's code uses `peak * (T - t) / T` for the fall: it
    never reaches the peak, and drops by `peak * W / T` at the end of the warmup. From then on, its rates equal this
    schedule's times (T - W) / T, which is 90% in BERT's fine-tuning.

    Args:
        peak: Float. Highest learning rate, at step W.
        total_steps: Integer. T, the number of batches in the run, even if gradients are accumulated over several
            batches.
        warmup_steps: Integer. W, the number of steps of the warmup. Defaults to `None`, for `warmup_fraction`.
        warmup_fraction: Float in [0, 1]. W as a fraction of the run, rounded down to whole steps. Defaults to `0.1`.
        end: Float. Learning rate from step T on, the first after the run. Defaults to `0.0`.

    Raises:
        ValueError: If an argument is out of range, or if the warmup is longer than the run.

    Example:
    ```python
    schedule = keras_transfer.optimizers.schedules.LinearWarmupDecay(2e-5, total_steps=3 * 1000, warmup_steps=100)
    optimizer = keras.optimizers.AdamW(schedule)
    ```

    Source: https://arxiv.org/abs/1810.04805, appendix A.2.
    """


@keras.saving.register_keras_serializable(package="keras_transfer")
class WarmupCosine(_Warmup):
    """A linear rise from 0 and a fall of half a cosine wave (Loshchilov and Hutter 2017, without restarts).

    At step t of T, with a warmup of W steps:

        rate = peak * t / W                                                       if t < W
               end + (peak - end) * (1 + cos(pi * (t - W) / (T - W))) / 2         else

    With `end=0` this is Transformers' `get_cosine_schedule_with_warmup`, which, however, rises again after step T.

    Args:
        peak: Float. Highest learning rate, at step W.
        total_steps: Integer. T, the number of batches in the run, even if gradients are accumulated over several
            batches.
        warmup_steps: Integer. W, the number of steps of the warmup. Defaults to `None`, for `warmup_fraction`.
        warmup_fraction: Float in [0, 1]. W as a fraction of the run, rounded down to whole steps. Defaults to `0.1`.
        end: Float. Learning rate from step T on, the first after the run. Defaults to `0.0`.

    Raises:
        ValueError: If an argument is out of range, or if the warmup is longer than the run.

    Example:
    ```python
    schedule = keras_transfer.optimizers.schedules.WarmupCosine(2e-5, total_steps=3 * 1000)
    optimizer = keras.optimizers.AdamW(schedule)
    ```

    Source: https://arxiv.org/abs/1608.03983, equation 5.
    """

    def _fall(self, fraction):
        return _half_wave(fraction)


@keras.saving.register_keras_serializable(package="keras_transfer")
@expects(peak=POSITIVE, warmup_steps=integer(1))
@dataclasses.dataclass(eq=False)
class InverseSquareRoot(_Schedule):
    """A linear rise, and an endless fall with the inverse square root of the step (Vaswani et al. 2017).

    With s = t + 1, because the paper's steps begin at 1 and Keras's at 0, and a warmup of W steps:

        rate = peak * min(s / W, sqrt(W / s))

    The rate reaches its peak at s = W, and half of its peak at s = 4 W.

    Args:
        peak: Float. Highest learning rate.
        warmup_steps: Integer, at least 1. W, the number of steps of the warmup.

    Raises:
        ValueError: If an argument is out of range.

    Example:
    ```python
    schedule = keras_transfer.optimizers.schedules.InverseSquareRoot(1e-3, warmup_steps=4000)
    schedule = keras_transfer.optimizers.schedules.InverseSquareRoot.of_model(hidden_dim=512, warmup_steps=4000)
    ```

    Source: https://arxiv.org/abs/1706.03762, equation 3.
    """

    peak: float
    warmup_steps: int
    total_steps: ClassVar[None] = None

    def __post_init__(self):
        self._summit = self.warmup_steps - 1

    @classmethod
    @expects(hidden_dim=integer(1), warmup_steps=integer(1))
    def of_model(cls, hidden_dim: int, warmup_steps: int) -> Self:
        """Returns the schedule of the paper, `hidden_dim ** -0.5 * min(s ** -0.5, s * warmup_steps ** -1.5)`.

        Args:
            hidden_dim: Integer. Hidden size of the model.
            warmup_steps: Integer. Number of steps of the warmup.

        Returns:
            An `InverseSquareRoot` whose peak is `(hidden_dim * warmup_steps) ** -0.5`.
        """
        return cls((int(hidden_dim) * int(warmup_steps)) ** -0.5, warmup_steps)

    def __call__(self, step):
        fraction = (ops.cast(step, "float32") + 1.0) / self.warmup_steps
        return self.peak * ops.minimum(fraction, ops.rsqrt(fraction))


@keras.saving.register_keras_serializable(package="keras_transfer")
@expects(
    peak=POSITIVE,
    total_steps=integer(1),
    warmup_fraction=number(0, below=1),
    start_factor=number(most=1, above=0),
    end_factor=FRACTION,
)
@dataclasses.dataclass(eq=False)
class OneCycle(_UpAndDown):
    """A rise and a fall to almost 0, each half a cosine wave (Smith and Topin 2018, in fastai's form).

    At step t of T, with the peak at `S = warmup_fraction * T - 1`, which is not always an integer, and with
    `wave(x) = (1 - cos(pi * x)) / 2`:

        rate = first + (peak - first) * wave(t / S)                         if t < S
               last + (peak - last) * wave((T - 1 - t) / (T - 1 - S))       else

    where `first = peak * start_factor`, and `last = first * end_factor` is the rate from the last step T - 1 on. This
    is torch's `OneCycleLR`.

    Args:
        peak: Float. Highest learning rate.
        total_steps: Integer. T, the number of batches in the run, even if gradients are accumulated over several
            batches.
        warmup_fraction: Float in [0, 1). Fraction of the run in which the rate rises. Defaults to `0.3`.
        start_factor: Float in (0, 1]. First learning rate as a fraction of the peak. Defaults to `1 / 25`.
        end_factor: Float in [0, 1]. Last learning rate as a fraction of the first. Defaults to `1 / 1e4`.

    Raises:
        ValueError: If an argument is out of range.

    Example:
    ```python
    schedule = keras_transfer.optimizers.schedules.OneCycle(0.1, total_steps=5 * 100)
    optimizer = keras.optimizers.SGD(schedule, momentum=0.95)
    ```

    Source: https://arxiv.org/abs/1708.07120. The two phases and the cosines follow fastai and torch.
    """

    peak: float
    total_steps: int
    _: dataclasses.KW_ONLY
    warmup_fraction: float = 0.3
    start_factor: float = 1 / 25
    end_factor: float = 1 / 1e4

    def __post_init__(self):
        self._first = self.peak * self.start_factor
        self._last = self._first * self.end_factor
        self._summit = self.warmup_fraction * self.total_steps - 1
        self._end = self.total_steps - 1

    def _rise(self, fraction):
        return _half_wave(fraction)

    def _fall(self, fraction):
        return _half_wave(fraction)


@keras.saving.register_keras_serializable(package="keras_transfer")
@expects(learning_rate=or_schedule(POSITIVE), lengths=list_of(integer(1)), window=integer(1))
@dataclasses.dataclass(eq=False)
class WindowRate(_Schedule):
    """A rate in proportion to the length of each window of `Corpus.streams(lengths=...)` (Merity et al. 2018).

        rate = learning_rate(t) * lengths[t] / window

    The loss of a window is the mean over its tokens. With one rate for all windows, the tokens of short windows would
    therefore count more than those of long ones. After the last of `lengths`, the rate is that of a window of the
    length `window`.

    Args:
        learning_rate: Float or schedule. Learning rate of a window of the length `window`.
        lengths: List of integers. The length of the window of each step, from `Streams.window_lengths`.
        window: Integer. The usual length of a window.

    Raises:
        ValueError: If the rate is neither a schedule nor above 0, or if a length is not a positive integer.

    Example:
    ```python
    schedule = keras_transfer.optimizers.schedules.WindowRate(30.0, [70, 35, 70], window=70)
    float(schedule(0)), float(schedule(1)), float(schedule(2))  # 30.0, 15.0, 30.0
    optimizer = keras_transfer.optimizers.NTASGD(schedule, global_clipnorm=0.25)
    ```

    Source: https://arxiv.org/abs/1708.02182, section 5.
    """

    learning_rate: Any
    lengths: Sequence[int]
    window: int

    def __post_init__(self):
        self.lengths = list(self.lengths)
        self.total_steps = len(self.lengths)
        self._factors = np.array([*self.lengths, self.window], "float32") / np.float32(self.window)

    def __call__(self, step):
        base = self.learning_rate(step) if callable(self.learning_rate) else self.learning_rate
        place = ops.minimum(ops.cast(step, "int32"), self.total_steps)
        return base * ops.take(ops.convert_to_tensor(self._factors), place, axis=0)


def _half_wave(fraction):
    """Returns half a cosine wave from 0 to 1, (1 - cos(pi x)) / 2, in a form that is accurate near 0."""
    return ops.square(ops.sin(fraction * (math.pi / 2)))


def _part(total, fraction):
    """Returns a fraction of the steps, rounded down. It is 29 for 0.29 of 100, although the float product is less."""
    return math.floor(total * fraction + 1e-6)
