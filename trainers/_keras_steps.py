"""A training of a Keras network taken apart, for methods that change its steps: `flnet.trainer.Gradients`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flnet.datasets.labelled import Labelled
from flnet.trainer import Array, Fit, Optimiser, Task

from ._keras import Augment, Network, Trained, batches, batches_in


class Steps:
    """The batches of a training one after another, each with the loss and gradient of any parameters.

    Moving statistics follow the first parameters that are asked for in a step: they are the ones that are trained.
    """

    optimiser: Optimiser = "momentum"

    def __init__(
        self,
        network: Network,
        task: Task,
        data: Labelled,
        class_weights: Array,
        augment: Augment,
        told: Callable[[Trained], Fit],
    ) -> None:
        """Args:
        network: is reset to the start of the task.
        task: where to start, how long, with which chance.
        data: images uint8 and class numbers.
        class_weights: what a row of each class counts in the loss.
        augment: changes the images of each batch.
        told: what is said of a training.
        """
        self.steps = batches_in(task, data)
        self._network, self._weights, self._told = network, class_weights, told
        self._batches, self._rows = batches(task, data, augment), len(data)
        self._done, self._seen = 0, 0
        self._moving: dict[str, Array] = {}
        network.begin(task)

    def __call__(self, params: Mapping[str, Array], step: int) -> tuple[float, Mapping[str, Array]]:
        """Loss and gradient on the batch of this step; steps come in their order."""
        is_first = step >= self._done
        while self._done <= step:
            self._batch = next(self._batches)
            self._done, self._seen = self._done + 1, self._seen + len(self._batch[1])
        loss, found, moving = self._network.slopes({**params, **self._moving}, self._batch, self._weights)
        self._moving = moving if is_first else self._moving
        return loss, found

    def fit(self, params: Mapping[str, Array], steps: int, loss: float) -> Fit:
        """What is said of a training that ended here."""
        return self._told(Trained({**params, **self._moving}, loss, min(self._seen, self._rows)))
