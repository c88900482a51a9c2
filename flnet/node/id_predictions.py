"""Predictions of rows of a vertical job by id: a person asks, and waits until the job says how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import count
from typing import Any

from flnet.compute.prediction import names_of_classes, predicted
from flnet.errors import InputRefused, NotOffered, NotReady
from flnet.node.core import NodeCore
from flnet.node.interface import View
from flnet.params.params import TrainerId
from flnet.protocol.effects import HolderPrediction, TellPrediction
from flnet.protocol.events import Event, PredictionAsked
from flnet.protocol.vertical import MAX_PREDICTED
from flnet.rounds.vertical_job import VerticalJob
from flnet.rounds.vertical_predictions import SECONDS
from flnet.text import text
from flnet.trainer import Prediction

MOST_SECONDS = 2 * SECONDS  # a job says earlier how a prediction ended, unless the node has failed


class IdPredictions:
    """The people who wait for a prediction by id.

    Attributes:
        ask: hands an event to the job, and waits until it was handled.
    """

    ask: Callable[[TrainerId, Event], Awaitable[object]]

    def __init__(self, core: NodeCore) -> None:
        self._core = core
        self._tickets = count()
        self._waiting: dict[int, asyncio.Future[TellPrediction]] = {}

    async def predict(self, trainer: TrainerId, ids: Sequence[str | int]) -> View:
        """Predict rows by id; see `flnet.node.interface.Node`."""
        if not isinstance(self._core.job(trainer), VerticalJob):
            raise NotOffered(text("{trainer} predicts from inputs; its nodes all have the same columns", trainer))
        if not 1 <= len(ids) <= MAX_PREDICTED:
            raise InputRefused(text("expected 1 to {most} ids, got {got}", MAX_PREDICTED, len(ids)))
        ticket = next(self._tickets)
        ended = self._waiting[ticket] = asyncio.get_running_loop().create_future()
        try:
            await self.ask(trainer, PredictionAsked(ticket, tuple(ids)))
            told = await asyncio.wait_for(ended, MOST_SECONDS)
        except TimeoutError:
            raise NotReady(text("no prediction: this node did not answer in time")) from None
        finally:
            del self._waiting[ticket]
        if told.error is not None:
            raise told.error
        return _view(told, ids)

    def end(self, told: TellPrediction) -> None:
        """A prediction has ended; nobody may wait for it any more."""
        ended = self._waiting.get(told.ticket)
        if ended is not None and not ended.done():
            ended.set_result(told)


def _view(told: TellPrediction, ids: Sequence[str | int]) -> View:
    unknown = set(told.unknown)
    return {
        "ids": [str(value) for place, value in enumerate(ids) if place not in unknown],
        "unknown": [str(ids[place]) for place in told.unknown],
        "epoch": told.epoch,
        "predictions": [_of_holder(one) for one in told.predictions],
    }


def _of_holder(one: HolderPrediction) -> Mapping[str, Any]:
    values = one.values["values"]
    classes = names_of_classes(one.classes, values)
    return {
        "holder": one.holder,
        "classes": classes,
        "probabilities": [[round(float(value), 6) for value in row] for row in values],
        "predicted": predicted(Prediction(values, one.meaning), classes),
    }
