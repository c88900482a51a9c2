"""FLProtector: a personal model (common model plus a private increment), and an autoencoder that chooses between the two.

R. Martínez Enríquez et al., "Análise de estratexias de aprendizaxe federada robustas a datos heteroxéneos"
(FLProtector), CiTIUS, Universidade de Santiago de Compostela. After each average, a second local training starts from
common model plus increment. Its result, less the common model, is the next increment.

The autoencoder (their Algorithm 2) is trained on a node's own inputs and reconstructs others worse: the local model
answers for inputs with a small error, the common model for all others. A known limit: an autoencoder that was trained on
a broad domain reconstructs a narrow foreign one well. It is written in numpy, the same for every trainer. For images it
follows their Table 8: 3x3 convolutions with 16 and 8 filters, then with 16 and as many as there are channels, and a
sigmoid. The table does not give strides; here the first two convolutions halve the size, and each of the last two sees
its input at double size. For rows of numbers it has a dense layer of half the width, and one back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np

from flnet.algorithms.wrapper import Descent, Model, TwoModels, no_clash, overrides
from flnet.trainer import Array, InputSpec, Method, Prediction, Score, Task, Trainer


def raised(
    common: Mapping[str, Array], increment: Mapping[str, Array], kept: Collection[str] = ()
) -> dict[str, Array]:
    """The local model: common + increment.

    Args:
        kept: arrays that the increment holds whole and not as a difference: running variances, say, which may not
            become negative when the common ones fall. Arrays without an increment are the common ones.
    """
    sums = dict(common)
    for name, change in increment.items():
        sums[name] = change if name in kept else common[name] + change
    return sums


def increment_of(
    local: Mapping[str, Array],
    common: Mapping[str, Array],
    names: Collection[str],
    kept: Collection[str] = (),
) -> dict[str, Array]:
    """The increment that makes this local model of the common one, for the arrays of these names."""
    return {name: local[name] if name in kept else local[name] - common[name] for name in names}


FILTERS = (16, 8, 16)
RATE, BATCH = 1e-3, 32
_WIDTH = 3  # of a filter
Weights = Mapping[str, Array]


def fresh(shape: tuple[int, ...], seed: int) -> dict[str, Array]:
    """Uniform weights (Glorot, Bengio 2010), biases 0.

    Args:
        shape: of one input, (height, width, channels) or (columns,).
    """
    chance, arrays = np.random.default_rng(seed), {}
    for layer, (inputs, outputs) in enumerate(_widths(shape)):
        bound = (6 / (inputs + outputs)) ** 0.5
        arrays[f"{layer}.weight"] = chance.uniform(-bound, bound, (inputs, outputs)).astype(np.float32)
        arrays[f"{layer}.bias"] = np.zeros(outputs, np.float32)
    return arrays


def errors(weights: Weights, x: Array) -> Array:
    """The reconstruction error of each input: the mean squared difference, (n,).

    Args:
        x: (n, height, width, channels) in [0, 1], or (n, columns).
    """
    shapes = [
        np.square(_through(weights, _fitting(part))[-1] - _fitting(part)).reshape(len(part), -1).mean(1)
        for part in np.split(x, range(256, len(x), 256))
    ]
    return np.concatenate(shapes).astype(np.float64)


def step(weights: Weights, descent: Descent, x: Array) -> float:
    """One training step of the autoencoder, in place; returns the mean squared error before it."""
    x = _fitting(x)
    seen: list[Array] = []
    values = _through(weights, x, seen)
    difference = values[-1] - x
    descent.step(weights, _slopes(weights, values, seen, difference * (2 / difference.size)))
    return float(np.square(difference).mean())


def trained(x: Array, seed: int, epochs: int = 4, least: int = 800) -> dict[str, Array]:
    """Train an autoencoder on these inputs.

    Of images it begins with their mean colour, by the biases of the last layer: from grey, dark images (MNIST) drive
    all filters to zero on the way to black, and it stays there.

    Args:
        x: as in `errors`, at least one.
        epochs: passes, each in a new order.
        least: steps, for few inputs in more passes.
    """
    weights, descent = fresh(x.shape[1:], seed), Descent("adam", RATE)
    if x.ndim > 2:
        mean = x.reshape(-1, x.shape[-1]).mean(0, dtype=np.float64).clip(0.01, 0.99)
        weights[f"{len(FILTERS)}.bias"] = np.log(mean / (1 - mean)).astype(np.float32)
    chance, steps = np.random.default_rng(seed), -(-len(x) // BATCH)
    for _ in range(max(epochs, -(-least // steps))):
        for rows in np.array_split(chance.permutation(len(x)), steps):
            step(weights, descent, x[rows])
    return weights


def _widths(shape: tuple[int, ...]) -> list[tuple[int, int]]:
    """Inputs and outputs of each layer; of a convolution the inputs that one filter sees."""
    if len(shape) == 1:
        narrow = max(1, shape[0] // 2)
        return [(shape[0], narrow), (narrow, shape[0])]
    channels = (shape[2], *FILTERS, shape[2])
    return [(inputs * _WIDTH**2, outputs) for inputs, outputs in pairwise(channels)]


def _fitting(x: Array) -> Array:
    """Images padded by repeating the last rows and columns, so that their sides can be halved twice."""
    if x.ndim == 2:
        return x
    return np.pad(x, [(0, 0), (0, -x.shape[1] % 4), (0, -x.shape[2] % 4), (0, 0)], mode="edge")


def _through(weights: Weights, x: Array, seen: list[Array] | None = None) -> list[Array]:
    """The input of each layer and the output of the last one; `seen` collects the input of each layer's filters."""
    values, last = [x], len(weights) // 2 - 1
    for layer in range(last + 1):
        gathered = _gathered(values[-1], layer)
        if seen is not None:
            seen.append(gathered)
        out = gathered @ weights[f"{layer}.weight"] + weights[f"{layer}.bias"]
        if x.ndim == 2:
            values.append(np.tanh(out) if layer < last else out)
        else:
            values.append(np.maximum(out, 0) if layer < last else 0.5 * (np.tanh(0.5 * out) + 1))
    return values


def _slopes(weights: Weights, values: list[Array], seen: list[Array], error: Array) -> dict[str, Array]:
    """Gradients of all weights, from the gradient of the output."""
    gradients, last = {}, len(weights) // 2 - 1
    for layer in range(last, -1, -1):
        out = values[layer + 1]
        if values[0].ndim == 2:
            error = error * (1 - out * out) if layer < last else error
        else:
            error = error * (out > 0) if layer < last else error * out * (1 - out)
        flat = error.reshape(-1, error.shape[-1])
        gradients[f"{layer}.weight"] = seen[layer].reshape(-1, seen[layer].shape[-1]).T @ flat
        gradients[f"{layer}.bias"] = flat.sum(0)
        if layer:
            error = _scattered(error @ weights[f"{layer}.weight"].T, values[layer].shape, layer)
    return gradients


def _gathered(x: Array, layer: int) -> Array:
    """The 3x3 neighbourhood of each pixel, (n, height, width, 9 channels); rows of numbers are unchanged."""
    if x.ndim == 2:
        return x
    stride = 2 if layer < 2 else 1
    x = x if layer < 2 else x.repeat(2, 1).repeat(2, 2)
    padded = np.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)])
    height, width = x.shape[1] // stride, x.shape[2] // stride
    return np.concatenate(
        [padded[:, i : i + stride * height : stride, j : j + stride * width : stride] for i, j in _PLACES], 3
    )


def _scattered(seen: Array, shape: tuple[int, ...], layer: int) -> Array:
    """The gradient by the inputs of a layer, from that by what its filters see: the opposite of `_gathered`."""
    if len(shape) == 2:
        return seen
    stride, times = (2, 1) if layer < 2 else (1, 2)
    count, channels = shape[0], shape[3]
    padded = np.zeros((count, times * shape[1] + 2, times * shape[2] + 2, channels), seen.dtype)
    height, width = seen.shape[1], seen.shape[2]
    for number, (i, j) in enumerate(_PLACES):
        window = padded[:, i : i + stride * height : stride, j : j + stride * width : stride]
        window += seen[..., number * channels : (number + 1) * channels]
    whole = padded[:, 1:-1, 1:-1]
    return np.asarray(whole.reshape(count, shape[1], times, shape[2], times, channels).sum((2, 4)))


_PLACES = [(i, j) for i in range(_WIDTH) for j in range(_WIDTH)]


SPREADS = 3.0


def threshold(errors: Array) -> float:
    """The error up to which an input counts as known: the mean plus three (population) standard deviations.

    Args:
        errors: of the autoencoder on the own training inputs; -1 without any, so that nothing is known.
    """
    return float(errors.mean() + SPREADS * errors.std()) if len(errors) else -1.0


def known(errors: Array, limit: float) -> Array:
    """Whether the local model is to answer, for each input."""
    return np.asarray(errors <= limit)


PREFIX = "selector/"
MOST = 3000  # own inputs that the autoencoder sees: as many as it needs, and a minute of learning at most
STATE = PREFIX + "state"  # inputs that there were when it learnt (-1: it has not learnt), and the threshold
MIDDLE, SPREAD = PREFIX + "middle", PREFIX + "spread"


class Selector:
    """Chooses the model for each input; its state consists of arrays only."""

    def __init__(self, spec: InputSpec, seed: int) -> None:
        """Args:
        spec: what inputs look like.
        seed: of the autoencoder, and of which inputs it sees.
        """
        self._spec, self._seed = spec, seed
        self._shape = (*spec.shape, 1) if len(spec.shape) == 2 else tuple(spec.shape)
        self._is_image = len(spec.shape) > 1

    def initial(self) -> dict[str, Array]:
        """The state before any training."""
        side = (1,) if self._is_image else self._shape
        weights = {PREFIX + name: value for name, value in fresh(self._shape, self._seed).items()}
        state = {
            STATE: np.array([-1.0, -1.0]),
            MIDDLE: np.zeros(side, np.float32),
            SPREAD: np.ones(side, np.float32),
        }
        return {**weights, **state}

    def learnt(self, params: Model, inputs: Array) -> dict[str, Array]:
        """The arrays after training on the node's own inputs; unchanged if it has seen as many before."""
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
        """A value that changes when the selector was trained again."""
        return params[STATE].tobytes() + params[PREFIX + "0.weight"].tobytes()

    def choose(self, params: Model, inputs: Array) -> tuple[Array, Array, float]:
        """Whether the local model is to answer, for each input; the error by which, and the threshold."""
        names = fresh(self._shape, 0)
        measured = errors({name: params[PREFIX + name] for name in names}, self._scaled(inputs, params))
        limit = float(params[STATE][1])
        return known(measured, limit), measured, limit

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


OWN = "personal/"


class Increment(TwoModels):
    """A trainer with a second local training after each average, whose result is added to the common model."""

    def __init__(self, inner: Trainer, plain: Trainer, seed: int, method: Method) -> None:
        """Args:
        plain: the trainer itself, which does the second training, whatever is around it in the first one.
        method: epochs of that training, and which model answers.
        """
        super().__init__(inner, seed)
        no_clash(self.names, (OWN, PREFIX))
        self._plain, self._epochs = plain, method.epochs
        first = plain.initial_params(seed)
        self._own_names = tuple(first)
        floats = [name for name, value in first.items() if np.asarray(value).dtype.kind == "f"]
        self._raised = tuple(floats)
        self.takes_local = method.choice != "global"
        self.personalises = True
        self.shared = self.sent
        spec = plain.input_spec()
        offers = spec is not None and overrides(plain, "inputs") and method.choice == "by-input"
        self._selector = Selector(spec, seed) if spec is not None and offers else None
        self._known: dict[str, tuple[bytes, Array, Array]] = {}  # by figure: mark, test rows known, their errors

    def initial_params(self, seed: int) -> Model:
        """The increment begins at 0, so the local model as the common one."""
        first = self.inner.initial_params(seed)
        own = {OWN + n: np.array(first[n]) if n in self.buffers else np.zeros_like(first[n]) for n in self._raised}
        return {**first, **own, **(self._selector.initial() if self._selector else {})}

    def local_model(self, params: Model) -> dict[str, Array]:
        """Common model plus increment."""
        own = {name: params[OWN + name] for name in self._raised}
        common = {name: params[name] for name in self._own_names}
        local = raised(common, own, self.buffers)
        return {**self.inside(params), **local}

    def personalise(self, task: Task) -> Model:
        """The second training, from the new average plus increment; and the selector's, once."""
        theirs = self.inner.personalise(self.added(task)) if self.inner.personalises else {}
        params = {**task.params, **theirs}
        local = self.local_model(params)
        hyper = task.hyper if self._epochs is None else task.hyper.model_copy(update={"e": self._epochs})
        begin = {name: local[name] for name in self._own_names}
        fit = self._plain.fit(replace(task, params=begin, hyper=hyper, proximal=0.0))
        increment = increment_of(fit.params, params, self._raised, self.buffers)
        chosen = self._selector.learnt(params, self._inputs()) if self._selector else {}
        return {**theirs, **{OWN + name: value for name, value in increment.items()}, **chosen}

    def evaluate(self, params: Model) -> Score:
        """Both models' figures; where a selector chooses, also what comes of it, as "chosen_..."."""
        score = super().evaluate(params)
        return replace(score, metrics={**score.metrics, **self._chosen(params)}) if self._selector else score

    def predict(self, params: Model, inputs: Array) -> Prediction:
        """Predict with the selector's choice for each input."""
        if self._selector is None:
            return super().predict(params, inputs)
        is_local, why, limit = self._selector.choose(params, inputs)
        predictions = self._by_choice(params, inputs, is_local)
        answered = tuple("local" if mine else "global" for mine in is_local)
        return replace(predictions, answered=answered, why=tuple(map(float, why)), limit=limit)

    @property
    def stands_alone(self) -> bool:
        """The common model is right for inputs of any kind; the local one stands alone where it alone answers."""
        return self.takes_local and self._selector is None

    def _by_choice(self, params: Model, inputs: Array, is_local: Array) -> Prediction:
        """The local model's values where it is to answer, else the common one's."""
        local, common = (
            self._plain.predict({n: model[n] for n in self._own_names}, inputs)
            for model in (self.local_model(params), params)
        )
        return replace(common, values=np.where(is_local[:, None], local.values, common.values))

    def _inputs(self) -> Array:
        rows = self._plain.inputs()
        return np.empty((0, 1)) if rows is None else rows

    def _chosen(self, params: Model) -> dict[str, float]:
        """What the selector makes of the test rows, also by group of rows.

        The accuracy of whichever model it takes for each row, the share of rows that the local model answers, the mean
        reconstruction error, and the threshold.
        """
        assert self._selector is not None
        learnt, chosen = self._selector.mark(params), {"reconstruction_threshold": float(params[STATE][1])}
        for figure, rows in self._plain.tests().items():
            if not len(rows.labels):
                continue
            if self._known.get(figure, (b"",))[0] != learnt:
                is_local, measured, _ = self._selector.choose(params, np.asarray(rows.inputs, np.float32))
                self._known[figure] = (learnt, is_local, measured)
            _, is_local, measured = self._known[figure]
            values = self._by_choice(params, np.asarray(rows.inputs, np.float32), is_local).values
            is_right, accuracies = values.argmax(1) == rows.labels, []
            groups = np.full(len(rows.labels), "") if rows.groups is None else rows.groups
            for group in np.unique(groups):
                part, of = groups == group, f"_{group}" if group else ""
                accuracies.append(float(is_right[part].mean()))
                if group or figure == "accuracy":
                    chosen[f"chosen_accuracy{of}"] = accuracies[-1]
                    chosen[f"answered_locally{of}"] = float(is_local[part].mean())
                    chosen[f"reconstruction_error{of}"] = float(measured[part].mean())
            chosen[f"chosen_{figure}"] = sum(accuracies) / len(accuracies)
        return chosen
