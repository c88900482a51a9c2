"""A selector as arrays: an autoencoder of the own inputs, how they are scaled, from which error it yields."""

from __future__ import annotations

import numpy as np

from flnet.personal import known, threshold
from flnet.personal.autoencoder import errors, fresh, trained
from flnet.training.api import Array, InputSpec
from flnet.training.methods.base import Model

PREFIX = "selector/"
MOST = 3000  # own inputs that the autoencoder sees: as many as it needs, and a minute of learning at most
STATE = PREFIX + "state"  # inputs that there were when it learnt (-1: it has not learnt), and the threshold
MIDDLE, SPREAD = PREFIX + "middle", PREFIX + "spread"


class Selector:
    """Chooses by input; all that it remembers are arrays."""

    def __init__(self, spec: InputSpec, seed: int) -> None:
        """Args:
        spec: what inputs look like.
        seed: of the autoencoder, and of which inputs it sees.
        """
        self._spec, self._seed = spec, seed
        self._shape = (*spec.shape, 1) if len(spec.shape) == 2 else tuple(spec.shape)
        self._is_image = len(spec.shape) > 1

    def initial(self) -> dict[str, Array]:
        """Before it learnt."""
        side = (1,) if self._is_image else self._shape
        weights = {PREFIX + name: value for name, value in fresh(self._shape, self._seed).items()}
        state = {
            STATE: np.array([-1.0, -1.0]),
            MIDDLE: np.zeros(side, np.float32),
            SPREAD: np.ones(side, np.float32),
        }
        return {**weights, **state}

    def learnt(self, params: Model, inputs: Array) -> dict[str, Array]:
        """Its arrays after it learnt the own inputs; as they are if it has seen as many before."""
        if params[STATE][0] == len(inputs):
            return {name: params[name] for name in self.initial()}
        rows = np.random.default_rng(self._seed).permutation(len(inputs))[:MOST]
        some = np.asarray(inputs[np.sort(rows)], np.float32)
        middle, spread = self._scale(some)
        scale = {MIDDLE: middle, SPREAD: spread}
        if not len(some):
            return {**self.initial(), **scale, STATE: np.array([0.0, -1.0])}
        x = self._scaled(some, scale)
        weights = trained(x, self._seed)
        state = np.array([float(len(inputs)), threshold(errors(weights, x))])
        return {**{PREFIX + name: value for name, value in weights.items()}, **scale, STATE: state}

    def mark(self, params: Model) -> bytes:
        """Differs when it learnt anew."""
        return params[STATE].tobytes() + params[PREFIX + "0.weight"].tobytes()

    def judged(self, params: Model, inputs: Array) -> tuple[Array, Array, float]:
        """Whether the local model is to answer, for each input; the error by which, and the threshold."""
        names = fresh(self._shape, 0)
        found = errors({name: params[PREFIX + name] for name in names}, self._scaled(inputs, params))
        limit = float(params[STATE][1])
        return known(found, limit), found, limit

    def _scale(self, inputs: Array) -> tuple[Array, Array]:
        """Middle and spread: of images their range, of rows of numbers what the own ones have."""
        if self._is_image:
            low = 0.0 if self._spec.low is None else self._spec.low
            high = 1.0 if self._spec.high is None else self._spec.high
            return np.full(1, low, np.float32), np.full(1, high - low or 1.0, np.float32)
        if not len(inputs):
            return np.zeros(self._shape, np.float32), np.ones(self._shape, np.float32)
        spread = inputs.std(0, dtype=np.float64)
        return inputs.mean(0, dtype=np.float64).astype(np.float32), np.where(spread > 0, spread, 1).astype(
            np.float32
        )

    def _scaled(self, inputs: Array, params: Model) -> Array:
        x = (np.asarray(inputs, np.float32) - params[MIDDLE]) / params[SPREAD]
        return np.nan_to_num(x).reshape(len(inputs), *self._shape)
