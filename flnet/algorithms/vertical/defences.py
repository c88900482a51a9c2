"""Noise on what travels in a split network: on the outputs of bottom models, and on the gradients that go back.

Both are settings of the node that sends: a feature holder protects its outputs, a label holder its gradients. What
they gain and cost is measured with `flnet.algorithms.vertical.leakage`.

Noise is drawn from a source that is passed in, by the place where it is used and by a digest of what it protects. So a
batch that has to be sent again, because its epoch was repeated, is sent as it was, and nobody can average two releases
of it. Other numbers at the same place get noise of their own, or the difference of the two releases would show the
difference of the numbers. The source must be secret and unpredictable for peers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from flnet.params.params import Array
from flnet.vertical_trainer import GradientDefence, GradientRule, OutputDefence

Rows = NDArray[np.float64]


class NoisePlace(NamedTuple):
    """Where noise is used: epoch, step, and on what.

    Attributes:
        content: digest of the numbers that are protected, and of the amount of noise.
    """

    kind: Literal["training", "hold-out", "gradient"]
    epoch: int
    step: int
    content: str = ""

    def on(self, numbers: Array, *setting: object) -> NoisePlace:
        """This place with its content."""
        head = repr((setting, numbers.dtype.str, numbers.shape)).encode()
        return self._replace(content=blake3(head + np.ascontiguousarray(numbers).tobytes()).hexdigest())


class NormalSource(Protocol):
    """Independent standard normal numbers; the same ones for the same place."""

    def __call__(self, place: NoisePlace, shape: tuple[int, ...]) -> Rows:
        """An array of this shape."""
        ...


@dataclass(frozen=True)
class Release:
    """One release of protected outputs, for an accountant of privacy.

    Attributes:
        place: of the batch.
        rows: how many rows were released, each once.
        multiplier: standard deviation of the noise of each number, divided by the clipping norm. A row can move its
            outputs by up to twice that norm, so its noise multiplier in the sense of the Gaussian mechanism is half.
    """

    place: NoisePlace
    rows: int
    multiplier: float


class OutputNoise:
    """Clips the outputs of each row to a norm, and adds normal noise in proportion to it."""

    def __init__(
        self,
        clip: float,
        multiplier: float,
        source: NormalSource,
        released: Callable[[Release], None] = lambda release: None,
    ) -> None:
        """Args:
        clip: largest Euclidean norm of the outputs of one row.
        multiplier: standard deviation of the noise, as a multiple of `clip`; 0 for clipping alone.
        source: of noise.
        released: is told of each release.
        """
        if not 0 < clip < np.inf or not 0 <= multiplier < np.inf:
            raise ValueError(f"clip={clip!r}, multiplier={multiplier!r}")
        self.clip, self.multiplier = clip, multiplier
        self._source, self._released = source, released

    @classmethod
    def of(cls, setting: OutputDefence | None, source: NormalSource) -> OutputNoise | None:
        """The defence that a trainer asks for."""
        return None if setting is None else cls(setting.clip, setting.multiplier, source)

    def protect(self, outputs: Array, place: NoisePlace) -> Array:
        """What is sent in place of outputs (b, q)."""
        clipped = np.asarray(outputs, np.float64) * self._factor(outputs)[:, None]
        if self.multiplier:
            noise = self._source(place.on(outputs, self.clip, self.multiplier), clipped.shape)
            clipped = clipped + self.multiplier * self.clip * noise
        self._released(Release(place, len(outputs), self.multiplier))
        return np.asarray(clipped.astype(outputs.dtype))

    def gradient(self, outputs: Array, gradient: Array) -> Array:
        """The gradient by the model's own outputs, from the one by what was sent.

        A row that was clipped can only turn: the part of its gradient along its outputs is lost, and the rest is
        shortened as the outputs were.
        """
        factor = self._factor(outputs)[:, None]
        rows, back = np.asarray(outputs, np.float64), np.asarray(gradient, np.float64)
        lengths = np.maximum((rows**2).sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        along = (rows * back).sum(axis=1, keepdims=True) / lengths
        return np.asarray(np.where(factor < 1, factor * (back - along * rows), back).astype(gradient.dtype))

    def _factor(self, outputs: Array) -> Rows:
        return np.asarray(self.clip / np.maximum(norms_of(outputs), self.clip))


class GradientNoise:
    """Perturbs the gradients that a label holder sends, so that they say less of the labels.

    Two of the rules that O. Li et al., "Label Leakage and Protection in Two-party Split Learning" (ICLR 2022), compare:

    isotropic   adds normal noise whose expected squared length is `scale` times that of the longest gradient of the
                batch; hides norms and directions, and slows training down.
    max-norm    stretches each gradient along itself by a random factor, so that its expected squared length is that
                of the longest one; hides norms, and turns some directions around. Needs no scale.

    In expectation the gradients stay what they are. Gradients for several feature holders are perturbed together, as
    if they were one, so that holders who compare theirs learn no more.
    """

    def __init__(self, rule: GradientRule, source: NormalSource, scale: float = 1.0) -> None:
        """Args:
        rule: "isotropic" or "max-norm".
        source: of noise.
        scale: of isotropic noise, above 0.
        """
        if rule not in ("isotropic", "max-norm") or not 0 < scale < np.inf:
            raise ValueError(f"rule={rule!r}, scale={scale!r}")
        self.rule, self.scale, self._source = rule, scale, source

    @classmethod
    def of(cls, setting: GradientDefence | None, source: NormalSource) -> GradientNoise | None:
        """The defence that a trainer asks for."""
        return None if setting is None else cls(setting.rule, source, setting.scale)

    def protect(self, gradients: Array, place: NoisePlace) -> Array:
        """What is sent in place of gradients (b, q)."""
        rows, norms = np.asarray(gradients, np.float64), norms_of(gradients)
        longest = float(norms.max(initial=0.0))
        if longest == 0:
            return gradients
        place = place.on(gradients, self.rule, self.scale)
        if self.rule == "isotropic":
            spread = longest * (self.scale / rows.shape[1]) ** 0.5
            return np.asarray((rows + spread * self._source(place, rows.shape)).astype(gradients.dtype))
        least = np.maximum(norms, 1e-6 * longest)  # a gradient of 0 cannot be stretched
        factor = 1 + np.sqrt((longest / least) ** 2 - 1) * self._source(place, (len(rows),))
        return np.asarray((rows * factor[:, None]).astype(gradients.dtype))


def norms_of(rows: Array) -> Rows:
    """The Euclidean norm of each row, (b,)."""
    return np.asarray(np.sqrt((np.asarray(rows, np.float64) ** 2).sum(axis=1)))
