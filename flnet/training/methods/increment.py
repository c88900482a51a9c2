"""FLProtector's personal model: common model plus a private increment; see `flnet.personal.increment`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from flnet.personal import increment_of, raised
from flnet.training.api import Array, Prediction, Score, Task, Trainer
from flnet.training.method import Method
from flnet.training.methods.base import Model, TwoModels, no_clash, overrides
from flnet.training.methods.selector import PREFIX, Selector

OWN = "personal/"


class Increment(TwoModels):
    """A trainer that learns on by itself after each average; what it learns so is added to the common model."""

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
        self._known: dict[str, tuple[bytes, Array]] = {}  # test rows that a selector (its mark) takes for own ones

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
        found = increment_of(fit.params, params, self._raised, self.buffers)
        chosen = self._selector.learnt(params, self._inputs()) if self._selector else {}
        return {**theirs, **{OWN + name: value for name, value in found.items()}, **chosen}

    def evaluate(self, params: Model) -> Score:
        """Both models' figures; where a selector chooses, also what comes of it, as "chosen_..."."""
        score = super().evaluate(params)
        return replace(score, metrics={**score.metrics, **self._chosen(params)}) if self._selector else score

    def predict(self, params: Model, inputs: Array) -> Prediction:
        """By the selector's choice for each input."""
        if self._selector is None:
            return super().predict(params, inputs)
        is_local, why, limit = self._selector.judged(params, inputs)
        judged = self._by_choice(params, inputs, is_local)
        answered = tuple("local" if mine else "global" for mine in is_local)
        return replace(judged, answered=answered, why=tuple(map(float, why)), limit=limit)

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
        """The accuracies of whichever model the selector takes for each test row."""
        assert self._selector is not None
        found, learnt = {}, self._selector.mark(params)
        for figure, rows in self._plain.tests().items():
            if not len(rows.labels):
                continue
            inputs = np.asarray(rows.inputs, np.float32)
            if self._known.get(figure, (b"", None))[0] != learnt:
                self._known[figure] = (learnt, self._selector.judged(params, inputs)[0])
            values = self._by_choice(params, inputs, self._known[figure][1]).values
            found[f"chosen_{figure}"] = float((values.argmax(1) == rows.labels).mean())
        return found
