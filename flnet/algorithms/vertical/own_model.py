"""What a label holder reaches with its own columns alone: a model beside the split network, trained without a message.

It has a bottom model like the one of the split network and a top model on it, with the same seeds, settings and batches,
and is measured on the same hold-out rows. So the difference between the two is what the columns of the other holders
gain. The split network knows nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from flnet.algorithms.vertical.split_plan import SplitPlan, Step
from flnet.params.params import Array, PeerId, is_finite
from flnet.vertical_trainer import BottomModel, TopModel, VerticalTrainer

FIGURES = ("accuracy", "auc", "loss")


class OwnModel:
    """The model of a label holder's own columns in one epoch.

    Attributes:
        bottom, top: the models, as they are after the steps that were done.
    """

    def __init__(
        self,
        me: PeerId,
        plan: SplitPlan,
        trainer: VerticalTrainer,
        rows: Array,
        bottom: BottomModel,
        top: TopModel,
        epoch: int,
    ) -> None:
        """Args:
        plan: as all nodes have it; the batches, and of which rows this node has labels.
        rows: (k,) the own row of each common id.
        bottom, top: as they were when the epoch before ended.
        epoch: that is trained.
        """
        self.bottom, self.top = bottom, top
        self._me, self._trainer, self._rows = me, trainer, rows
        self._steps = [step for step in plan.training(epoch) if me in step.parts]
        self._hold_out = [step for step in plan.hold_out() if me in step.parts]
        self._done = 0
        self._is_finite = True

    @property
    def steps(self) -> int:
        """All steps of the epoch."""
        return len(self._steps)

    def train_to(self, done: int) -> None:
        """Train until so many steps are done; nothing if they are."""
        while self._done < done:
            if self._is_finite:
                self._train(self._steps[self._done])
            self._done += 1

    def figures(self) -> Mapping[str, float] | None:
        """Accuracy, AUC where it is defined, and loss on the hold-out rows.

        Returns:
            None if no rows are held out, or the numbers of the model are not finite any more.
        """
        if not self._hold_out or not self._is_finite:
            return None
        rows = np.concatenate([self._labelled(step) for step in self._hold_out])
        outputs = self.bottom.outputs(self._trainer.features(rows))
        if not is_finite(outputs):
            return None
        score = self.top.evaluate(outputs, self._trainer.labels(rows))
        found = {"accuracy": score.accuracy, **score.metrics}
        return {name: float(found[name]) for name in FIGURES if name in found and np.isfinite(found[name])}

    def _train(self, step: Step) -> None:
        rows = self._labelled(step)
        outputs = self.bottom.forward(step.number, self._trainer.features(rows))
        loss, gradient = self.top.step(outputs, self._trainer.labels(rows))
        self._is_finite = bool(np.isfinite(loss)) and is_finite(gradient)
        if self._is_finite:
            self.bottom.backward(step.number, gradient)

    def _labelled(self, step: Step) -> Array:
        """The own rows of a batch that this node has labels of."""
        return np.asarray(self._rows[step.batch.positions[step.parts[self._me]]])


def gain(together: Mapping[str, float], own: Mapping[str, float]) -> dict[str, float]:
    """By how much each figure of the joint model is above that of the own columns alone."""
    return {name: together[name] - own[name] for name in FIGURES if name in own and name in together}
