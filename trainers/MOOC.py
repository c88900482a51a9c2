"""Will a student drop out of an online course? A dense network of three layers of 100, in PyTorch.

A. Tornaría, "Uso de técnicas de Aprendizaje Federado para el análisis de datos sensibles", Universidad de la
República, 2024: layers of 100, 100 and 100 with ReLU and one output with a sigmoid, Adam, binary cross-entropy,
on counts of what each student did (KDD Cup 2015). There 21 columns, here the 27 of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor

from flnet.datasets.labelled import Labelled
from flnet.datasets.metrics import auc, balanced_accuracy, class_counts
from flnet.text import text
from flnet.trainer import (
    Array,
    DataInfo,
    Fit,
    HyperParams,
    InputSpec,
    Prediction,
    Rows,
    Score,
    Task,
    Trainer,
    TrainerSettings,
)

from ._dense import Learner, Learnt, gradients_of, outputs, train
from ._mooc import School, as_counts, load_school, one_scale
from ._stacked import train_together
from ._torch import CPU, Steps, chosen_device, digest

DATA_PLACE = "mooc_kddcup2015.npz"  # below FLNET_DATASETS_PATH
DATA_READER = "_mooc:load_school"  # which needs no framework
LABEL = text("Drop-out from online courses (KDD Cup 2015)")
HIDDEN = (100, 100, 100)
LAYERS = ("dense.0", "dense.1", "dense.2", "output")
Model = Mapping[str, Array]


class Part:
    """One side of the split as tensors; on a CPU the rows are those of the array."""

    def __init__(self, data: Labelled, device: torch.device) -> None:
        self.x = torch.from_numpy(data.x).to(device)
        self.y = torch.from_numpy(data.y)[:, None].to(device)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def rows(self) -> Rows:
        """The same as `predict` takes them: counts."""
        return Rows(as_counts(self.x.cpu().numpy()), self.y[:, 0].cpu().numpy())


class DropOut(Trainer):
    """The network with one school's enrolments."""

    label = LABEL
    predicts = "one_of"
    defaults = HyperParams(e=1, u=0.001, b=64)
    exchange_threshold = 0.02
    honours: ClassVar[frozenset[str]] = frozenset({"proximal", "row-privacy"})

    def __init__(self, school: School, threads: int = 1, device: torch.device = CPU) -> None:
        torch.set_num_threads(threads)
        self._info, self._columns, self._device = school.info, school.columns, device
        self.agreement = {"columns": ", ".join(school.columns)}
        self._train, self._validation, self._test = (
            Part(school.sides[name], device) for name in ("train", "validation", "test")
        )
        self._official = Part(school.official, device) if school.official else None

    def data_info(self) -> DataInfo:
        """This school's enrolments."""
        return self._info

    def initial_params(self, seed: int) -> Model:
        """Uniform weights (Glorot, Bengio 2010), biases 0."""
        chance = torch.Generator().manual_seed(seed)
        widths, params = (len(self._columns), *HIDDEN, 1), {}
        for layer, inputs, outs in zip(LAYERS, widths, widths[1:], strict=False):
            bound = (6 / (inputs + outs)) ** 0.5
            params[f"{layer}.weight"] = torch.empty(outs, inputs).uniform_(-bound, bound, generator=chance).numpy()
            params[f"{layer}.bias"] = torch.zeros(outs).numpy()
        return params

    def fit(self, task: Task) -> Fit:
        """`e` passes over the training rows, each in a new order, with a fresh Adam optimiser."""
        if task.row_privacy is not None:
            return self.gradients(task).descended(task)
        return self._fit(task, train(self._learner(task)))

    def gradients(self, task: Task) -> Steps[Tensor]:
        """The same, batch by batch."""
        return gradients_of(self._learner(task), lambda learned: self._fit(task, learned))

    @classmethod
    def fit_many(cls, jobs: Sequence[tuple[Self, Task]]) -> list[Fit]:
        """The same for many schools, whose networks are trained as one computation."""
        if any(task.row_privacy is not None for _, task in jobs):
            return super().fit_many(jobs)
        fits = train_together([trainer._learner(task) for trainer, task in jobs])
        return [trainer._fit(task, learned) for (trainer, task), learned in zip(jobs, fits, strict=True)]

    def evaluate(self, params: Model) -> Score:
        """Share of enrolments judged rightly; unless schools are alike, of the whole published test part too."""
        return self._score(params, {})

    def validation_score(self, params: Model) -> Score | None:
        """Share of validation enrolments judged rightly."""
        return self._counted(params, self._validation, {}) if len(self._validation) else None

    @classmethod
    def evaluate_many(cls, jobs: Sequence[tuple[Self, Model]]) -> list[Score]:
        """The same; a model that many schools have is measured once on what they have in common."""
        known: dict[tuple[int, bytes], float] = {}
        return [trainer._score(params, known) for trainer, params in jobs]

    def input_spec(self) -> InputSpec:
        """One enrolment: the counts, as in the data set."""
        return InputSpec(
            "table", (len(self._columns),), names=self._columns, hint=text("what a student did, in counts")
        )

    def predict(self, params: Model, inputs: Array) -> Prediction:
        """Probabilities of staying and of dropping out."""
        chance = self._scores(params, torch.from_numpy(one_scale(inputs)).to(self._device)).sigmoid()
        return Prediction(torch.stack([1 - chance, chance], 1).cpu().numpy())

    def inputs(self) -> Array:
        """The training enrolments."""
        return self._train.rows.inputs

    def tests(self) -> Mapping[str, Rows]:
        """The test enrolments; unless schools are alike, the whole published test part too."""
        official = {} if self._official is None else {"official_accuracy": self._official.rows}
        return {"accuracy": self._test.rows, **official}

    def change_rows(
        self, change: Callable[[Labelled], Labelled], side: Literal["train", "test"] = "train"
    ) -> None:
        """Go on with what becomes of the own training or test rows, for experiments."""
        part = self._test if side == "test" else self._train
        changed = Part(change(Labelled(part.x.cpu().numpy(), part.y[:, 0].cpu().numpy())), self._device)
        if side == "test":
            self._test = changed
        else:
            self._train = changed

    def _learner(self, task: Task) -> Learner:
        return Learner(LAYERS, self._train.x, self._train.y, task)

    def _fit(self, task: Task, learned: Learnt) -> Fit:
        figures = {"loss": learned.loss, "validation_accuracy": self._accuracy(learned.params, self._validation)}
        seen = min(len(self._train), learned.batches * task.hyper.b)
        return Fit(learned.params, examples=seen, metrics=figures)

    def _score(self, params: Model, known: dict[tuple[int, bytes], float]) -> Score:
        """Figures; what is known of a model on rows that several trainers share is not measured again."""
        truth, scores = self._test.y[:, 0].cpu().numpy(), self._scores(params, self._test.x).cpu().numpy()
        figures = {"balanced_accuracy": balanced_accuracy(truth, scores > 0)}
        if truth.min() < truth.max():  # else there is no such figure
            figures["auc"] = auc(truth, scores)
        if len(self._validation):
            figures["validation_accuracy"] = self._accuracy(params, self._validation)
        if self._official is not None:
            key = (self._official.x.data_ptr(), digest(params))
            if key not in known:
                known[key] = self._accuracy(params, self._official)
            figures["official_accuracy"] = known[key]
        return self._counted(params, self._test, figures)

    def _counted(self, params: Model, part: Part, figures: Mapping[str, float]) -> Score:
        """Accuracy and counts on these enrolments."""
        scores, truth = self._scores(params, part.x), part.y[:, 0].cpu().numpy()
        chance, guess = scores.sigmoid().cpu().numpy(), (scores > 0).cpu().numpy()
        chances = np.stack([1 - chance, chance], axis=1)
        counts = class_counts(truth.astype(np.int64), guess.astype(np.int64), self._info.classes, chances)
        return Score(counts.right / counts.examples, counts.examples, figures, counts=counts)

    def _accuracy(self, params: Model, part: Part) -> float:
        return float(((self._scores(params, part.x) > 0) == part.y[:, 0]).float().mean())

    @torch.inference_mode()
    def _scores(self, params: Model, x: Tensor) -> Tensor:
        """One number for each row, above 0 for who drops out."""
        tensors = {name: torch.tensor(value, device=self._device) for name, value in params.items()}
        return outputs(tensors, LAYERS, x)[:, 0]


def make_trainer(settings: TrainerSettings) -> Trainer:
    """This school's enrolments and the network for them."""
    device = chosen_device(settings.device)
    return DropOut(load_school(settings), settings.threads, device)
