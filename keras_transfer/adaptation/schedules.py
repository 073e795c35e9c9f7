"""Learning rates by the step: slanted triangle, warm-up and decay, inverse square root, one cycle."""

import math
import numbers

import keras
import numpy as np
from keras import ops


class _Schedule(keras.optimizers.schedules.LearningRateSchedule):
    """A rate for each step, and its picture.

    Attributes:
        total_steps: int, how long it is; None for one that never ends.
    """

    total_steps = None
    _summit = 0.0  # where between the steps the rate is highest

    def plot(self, steps=None):
        """Draws the rate against the step.

        Args:
            steps: int, how many; `total_steps` by default, or five times the warm-up of a schedule that never ends.

        Returns:
            A `matplotlib.figure.Figure`: a notebook shows it, `figure.savefig("rates.png")` writes it.

        Raises:
            ImportError: matplotlib is missing.
        """
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ImportError("a picture needs matplotlib: `pip install matplotlib`") from error
        if steps is None:
            steps = self.total_steps or 5 * (math.ceil(self._summit) + 1)
        steps = _whole("steps", steps, 1)
        at = np.linspace(0, steps, min(steps, 2000) + 1).round()
        at = np.unique([*at, math.floor(self._summit), math.ceil(self._summit)]).astype("int64")
        at = at[(at >= 0) & (at <= steps)]
        rates = ops.convert_to_numpy(self(at))
        peak = int(rates.argmax())

        figure = Figure(figsize=(6.4, 3.6), layout="constrained")
        axes = figure.add_subplot()
        axes.plot(at, rates)
        axes.plot(at[peak], rates[peak], "o", label=f"peak: {rates[peak]:.3g} at step {at[peak]:,}")
        axes.set(title=type(self).__name__, xlabel="step", ylabel="learning rate", ylim=(0, 1.08 * rates[peak]))
        axes.locator_params(axis="x", integer=True)
        axes.ticklabel_format(axis="y", scilimits=(-2, 3))
        axes.legend()
        return figure


class _UpAndDown(_Schedule):
    """Up from the first step to a summit, and down from there to the end, where the rate stays.

    A subclass says `_first`, `_peak` and `_last`, the rates; `_summit` and `_end`, the steps; and `_rise` and `_fall`,
    how far up the rate is as a function of how far from the foot the step is, both from 0 to 1.
    """

    _first = _last = 0.0

    def __call__(self, step):
        step = ops.cast(step, "float32")  # a product of two steps would not fit into an int32
        rising, falling = (foot + (self._peak - foot) * self._height(step) for foot in (self._first, self._last))
        return ops.where(step < self._summit, rising, falling)

    def _height(self, step):
        """How far up the rate is at a float32 step: 0 at the foot, 1 at the summit."""
        # The lengths are at least 1 wherever they matter: no whole step lies within a slope that is shorter.
        up = step / max(self._summit, 1.0)
        down = ops.clip((self._end - step) / max(self._end - self._summit, 1.0), 0.0, 1.0)
        return ops.where(step < self._summit, self._rise(up), self._fall(down))

    def _rise(self, share):
        return share

    def _fall(self, share):
        return share


@keras.saving.register_keras_serializable("keras_transfer")
class SlantedTriangular(_UpAndDown):
    """A short linear rise and a long linear fall, for fine-tuning (Howard and Ruder 2018, ULMFiT).

    At step t of T, with `cut = floor(T * cut_fraction)`:

        p = t / cut                if t < cut
            (T - t) / (T - cut)    else
        rate = peak * (1 + p * (ratio - 1)) / ratio

    It begins at `peak / ratio`, reaches the peak at step `cut`, and is `peak / ratio` again from step T on, the first
    after the run. Where `T * cut_fraction` is whole, this is the paper's formula. Elsewhere that one falls below zero,
    since it stretches the fall to `cut / cut_fraction` steps, fewer than T. `cut` is 1 at least, and 0 in a run of one
    step, which has the peak.

    Args:
        peak: float, the highest rate.
        total_steps: int, T, the steps of the run: batches, also where gradients are gathered over several.
        cut_fraction: float in (0, 1), the share of the run in which the rate rises.
        ratio: float, at least 1: how much higher the peak is than the lowest rate.

    Raises:
        ValueError: an argument is out of range.

    Example:
    ```python
    schedule = keras_transfer.adaptation.SlantedTriangular(2e-4, total_steps=4 * 100)
    optimizer = keras.optimizers.AdamW(schedule)
    ```

    Source: https://arxiv.org/abs/1801.06146, equation 3.
    """

    def __init__(self, peak, total_steps, cut_fraction=0.1, ratio=32):
        self.peak = self._peak = _rate("peak", peak)
        self.total_steps = self._end = _whole("total_steps", total_steps, 1)
        self.cut_fraction = _number("cut_fraction", cut_fraction, "in (0, 1)", lambda value: 0 < value < 1)
        self.ratio = _number("ratio", ratio, "at least 1", lambda value: 1 <= value < math.inf)
        self._first = self._last = self.peak / self.ratio
        self._summit = min(max(_part(self.total_steps, self.cut_fraction), 1), self.total_steps - 1)

    def get_config(self):
        return {
            "peak": self.peak,
            "total_steps": self.total_steps,
            "cut_fraction": self.cut_fraction,
            "ratio": self.ratio,
        }


class _Warmup(_UpAndDown):
    """A linear rise from 0, and a fall whose form a subclass says."""

    def __init__(self, peak, total_steps, warmup_steps=None, warmup_fraction=0.1, end=0.0):
        self.peak = self._peak = _rate("peak", peak)
        self.total_steps = self._end = _whole("total_steps", total_steps, 1)
        self.warmup_steps = None if warmup_steps is None else _whole("warmup_steps", warmup_steps, 0)
        self.warmup_fraction = _number("warmup_fraction", warmup_fraction, "in [0, 1]", lambda value: 0 <= value <= 1)
        self.end = self._last = _number("end", end, "from 0 to `peak`", lambda value: 0 <= value <= self.peak)
        if self.warmup_steps is None:
            self._summit = _part(self.total_steps, self.warmup_fraction)
        else:
            self._summit = self.warmup_steps
        if self._summit > self.total_steps:
            raise ValueError(
                f"the warm-up must fit into the run of {self.total_steps} steps. Received: warmup_steps={warmup_steps}"
            )

    def get_config(self):
        return {
            "peak": self.peak,
            "total_steps": self.total_steps,
            "warmup_steps": self.warmup_steps,
            "warmup_fraction": self.warmup_fraction,
            "end": self.end,
        }


@keras.saving.register_keras_serializable("keras_transfer")
class LinearWarmupDecay(_Warmup):
    """A linear rise from 0 and a linear fall, as BERT is fine-tuned (Devlin et al. 2019).

    At step t of T, with a warm-up of W steps:

        rate = peak * t / W                                if t < W
               end + (peak - end) * (T - t) / (T - W)      else

    This is Transformers' `get_linear_schedule_with_warmup`. Google's own code falls by `peak * (T - t) / T` instead: it
    never reaches the peak, and drops by the share W / T of it where the warm-up ends; its rates after that are those
    here times (T - W) / T, nine tenths in BERT's fine-tuning.

    Args:
        peak: float, the highest rate, at step W.
        total_steps: int, T, the steps of the run: batches, also where gradients are gathered over several.
        warmup_steps: int, W; counts before `warmup_fraction`.
        warmup_fraction: float in [0, 1], the share of the run that the warm-up takes, rounded down to whole steps.
        end: float, the rate at step T, the first after the run, and from there on.

    Raises:
        ValueError: an argument is out of range, or the warm-up longer than the run.

    Example:
    ```python
    schedule = keras_transfer.adaptation.LinearWarmupDecay(2e-5, total_steps=3 * 1000, warmup_steps=100)
    optimizer = keras.optimizers.AdamW(schedule)
    ```

    Source: https://arxiv.org/abs/1810.04805, appendix A.2.
    """


@keras.saving.register_keras_serializable("keras_transfer")
class WarmupCosine(_Warmup):
    """A linear rise from 0, and a fall by half a cosine wave (Loshchilov and Hutter 2017, without restarts).

    At step t of T, with a warm-up of W steps:

        rate = peak * t / W                                                       if t < W
               end + (peak - end) * (1 + cos(pi * (t - W) / (T - W))) / 2         else

    With `end=0` this is Transformers' `get_cosine_schedule_with_warmup`; that one would rise again after step T.

    Args:
        peak: float, the highest rate, at step W.
        total_steps: int, T, the steps of the run: batches, also where gradients are gathered over several.
        warmup_steps: int, W; counts before `warmup_fraction`.
        warmup_fraction: float in [0, 1], the share of the run that the warm-up takes, rounded down to whole steps.
        end: float, the rate at step T, the first after the run, and from there on.

    Raises:
        ValueError: an argument is out of range, or the warm-up longer than the run.

    Example:
    ```python
    schedule = keras_transfer.adaptation.WarmupCosine(2e-5, total_steps=3 * 1000)
    optimizer = keras.optimizers.AdamW(schedule)
    ```

    Source: https://arxiv.org/abs/1608.03983, equation 5.
    """

    def _fall(self, share):
        return _half_wave(share)


@keras.saving.register_keras_serializable("keras_transfer")
class InverseSquareRoot(_Schedule):
    """A linear rise, and a fall with the square root of the step that never ends (Vaswani et al. 2017).

    With s = t + 1, since the paper's steps begin at 1 and Keras's at 0, and a warm-up of W steps:

        rate = peak * min(s / W, sqrt(W / s))

    The W-th step has the peak; four times as far the rate is half of it.

    Args:
        peak: float, the highest rate.
        warmup_steps: int, W, at least 1.

    Raises:
        ValueError: an argument is out of range.

    Example:
    ```python
    schedule = keras_transfer.adaptation.InverseSquareRoot(1e-3, warmup_steps=4000)
    schedule = keras_transfer.adaptation.InverseSquareRoot.of_model(hidden_dim=512, warmup_steps=4000)
    ```

    Source: https://arxiv.org/abs/1706.03762, equation 3.
    """

    def __init__(self, peak, warmup_steps):
        self.peak = _rate("peak", peak)
        self.warmup_steps = _whole("warmup_steps", warmup_steps, 1)
        self._summit = self.warmup_steps - 1

    @classmethod
    def of_model(cls, hidden_dim, warmup_steps):
        """Returns the paper's own schedule, `hidden_dim ** -0.5 * min(s ** -0.5, s * warmup_steps ** -1.5)`.

        Args:
            hidden_dim: int, the model's width.
            warmup_steps: int.

        Returns:
            An `InverseSquareRoot` whose peak is `(hidden_dim * warmup_steps) ** -0.5`.
        """
        product = _whole("hidden_dim", hidden_dim, 1) * _whole("warmup_steps", warmup_steps, 1)
        return cls(product**-0.5, warmup_steps)

    def __call__(self, step):
        share = (ops.cast(step, "float32") + 1.0) / self.warmup_steps
        return self.peak * ops.minimum(share, ops.rsqrt(share))

    def get_config(self):
        return {"peak": self.peak, "warmup_steps": self.warmup_steps}


@keras.saving.register_keras_serializable("keras_transfer")
class OneCycle(_UpAndDown):
    """Up to a high rate and down to almost nothing, both by half a cosine wave (Smith and Topin 2018, fastai's form).

    At step t of T, with the summit at `S = warmup_fraction * T - 1`, which need not be whole, and with
    `wave(x) = (1 - cos(pi * x)) / 2`:

        rate = first + (peak - first) * wave(t / S)                         if t < S
               last + (peak - last) * wave((T - 1 - t) / (T - 1 - S))       else

    where `first = peak * start_factor` and `last = first * end_factor`, the rate at the last step T - 1 and after it.
    This is torch's `OneCycleLR`. `OneCycleMomentum` moves the momentum against it.

    Args:
        peak: float, the highest rate.
        total_steps: int, T, the steps of the run: batches, also where gradients are gathered over several.
        warmup_fraction: float in [0, 1), the share of the run in which the rate rises.
        start_factor: float in (0, 1], the first rate as a share of the peak.
        end_factor: float in [0, 1], the last rate as a share of the first.

    Raises:
        ValueError: an argument is out of range.

    Example:
    ```python
    schedule = keras_transfer.adaptation.OneCycle(0.1, total_steps=5 * 100)
    optimizer = keras.optimizers.SGD(schedule, momentum=0.95)
    ```

    Source: https://arxiv.org/abs/1708.07120; with two phases and cosines as in fastai and torch.
    """

    def __init__(self, peak, total_steps, warmup_fraction=0.3, start_factor=1 / 25, end_factor=1 / 1e4):
        self.peak = self._peak = _rate("peak", peak)
        self.total_steps = _whole("total_steps", total_steps, 1)
        self.warmup_fraction = _number("warmup_fraction", warmup_fraction, "in [0, 1)", lambda value: 0 <= value < 1)
        self.start_factor = _number("start_factor", start_factor, "in (0, 1]", lambda value: 0 < value <= 1)
        self.end_factor = _number("end_factor", end_factor, "in [0, 1]", lambda value: 0 <= value <= 1)
        self._first = self.peak * self.start_factor
        self._last = self._first * self.end_factor
        self._summit = self.warmup_fraction * self.total_steps - 1
        self._end = self.total_steps - 1

    def height(self, step):
        """Returns how far up the cycle is at a step: float32 from 0 to 1 at the summit, and back to 0."""
        return self._height(ops.cast(step, "float32"))

    def _rise(self, share):
        return _half_wave(share)

    def _fall(self, share):
        return _half_wave(share)

    def get_config(self):
        return {
            "peak": self.peak,
            "total_steps": self.total_steps,
            "warmup_fraction": self.warmup_fraction,
            "start_factor": self.start_factor,
            "end_factor": self.end_factor,
        }


def _half_wave(share):
    """Half a cosine wave from 0 up to 1: (1 - cos(pi x)) / 2, in a form that loses no digits near 0."""
    return ops.square(ops.sin(share * (math.pi / 2)))


def _part(total, fraction):
    """A share of the steps, rounded down; 0.29 of 100 are 29, though their product is a little less."""
    return math.floor(total * fraction + 1e-6)


# === What arguments may be ===


def _number(name, value, expected, holds):
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not holds(float(value)):
        raise ValueError(f"`{name}` must be a number {expected}. Received: {name}={value!r}")
    return float(value)


def _rate(name, value):
    return _number(name, value, "above 0", lambda value: 0 < value < math.inf)


def _whole(name, value, least):
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"`{name}` must be a whole number, at least {least}. Received: {name}={value!r}")
    return int(value)
