"""A prediction of a split network for some common rows, asked by id: what each holder computes for it.

The asking holder turns ids into places in the order of common rows, which all holders have agreed on; ids stay with it.
Each feature holder computes the outputs of its bottom model for these places. A label holder turns the outputs of all
into probabilities. `flnet.rounds.vertical_predictions` carries the messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from flnet.algorithms.vertical.aligned_batches import AlignedBatches, seed_for
from flnet.algorithms.vertical.batches import batch_digest
from flnet.algorithms.vertical.defences import NoisePlace, OutputNoise
from flnet.algorithms.vertical.groups import Positions
from flnet.algorithms.vertical.identifiers import normalised
from flnet.algorithms.vertical.split_network import LabelHolder
from flnet.algorithms.vertical.split_plan import SplitPlan
from flnet.errors import TrainerError
from flnet.params.params import Array, PeerId, is_finite
from flnet.protocol.messages import HyperParams
from flnet.text import text
from flnet.trainer import Prediction
from flnet.vertical_trainer import ModelState, VerticalTrainer

DTYPE = "float32"  # of outputs


def places_of(asked: Sequence[str | int], ids: Sequence[str], rows: Positions) -> tuple[Positions, list[int]]:
    """Where the rows with these ids stand among the common rows.

    Args:
        asked: ids as a person writes them.
        ids: of all own rows, normalised.
        rows: (k,) the own row of each common id.

    Returns:
        The places of those that are common, in the order in which they were asked for; and which of `asked` are not.
    """
    place_of = {ids[row]: place for place, row in enumerate(rows.tolist())}
    found = [place_of.get(normalised(value)) for value in asked]
    unknown = [number for number, place in enumerate(found) if place is None]
    return np.array([place for place in found if place is not None], np.int64), unknown


def rows_digest(alignment: str, epoch: int, places: Positions) -> str:
    """What identifies the rows of a prediction in messages: 64 hexadecimal digits."""
    return batch_digest(f"predict,{alignment}", epoch, 0, places)


def outputs_for(
    trainer: VerticalTrainer,
    state: ModelState,
    rows: Positions,
    hyper: HyperParams,
    epoch: int,
    noise: OutputNoise | None = None,
) -> Array:
    """Outputs (n, q) of the bottom model, as they are sent.

    With noise, each row is computed and protected by itself: its outputs and its noise are the same to the last bit
    whichever rows are asked for with it, so nobody can average two releases of it.

    Args:
        state: of the bottom model.
        rows: (n,) own rows.
        epoch: after which the state is.

    Raises:
        TrainerError: there is no bottom model any more, or its outputs are not finite.
        ParamsRefused: the trainer's bottom model has another form now.
    """
    bottom = trainer.bottom_model(0, hyper)
    if bottom is None:
        raise TrainerError(text("the trainer has no bottom model any more"))
    bottom.load(state)
    features = trainer.features(rows)
    if noise is None:
        outputs = np.asarray(bottom.outputs(features))
    else:
        place = NoisePlace("hold-out", epoch, 0)
        single = (np.asarray(bottom.outputs(features[at : at + 1])) for at in range(len(rows)))
        outputs = np.vstack([noise.protect(row, place) for row in single])
    with np.errstate(over="ignore"):
        outputs = outputs.astype(DTYPE, copy=False)
    if not is_finite(outputs):
        raise TrainerError(text("the outputs of the bottom model are not finite"))
    return outputs


def prediction_from(
    trainer: VerticalTrainer,
    me: PeerId,
    state: ModelState,
    outputs: Mapping[PeerId, Array],
    hyper: HyperParams,
    seed: int = 0,
) -> Prediction:
    """Probabilities (n, k) of a label holder, from the outputs (n, q) of all feature holders.

    Args:
        state: of the top model.

    Raises:
        TrainerError: there is no top model any more, or its probabilities are not finite.
        PeerError: the outputs have other shapes, or the trainer's top model has another form now.
    """
    widths = {peer: values.shape[1] for peer, values in outputs.items()}
    plan = SplitPlan(widths, {me: None}, AlignedBatches(1, 1, 0, ""))
    top = trainer.top_model(plan.width, seed_for(seed, "top"), hyper)
    if top is None:
        raise TrainerError(text("the trainer has no top model any more"))
    top.load(state)
    values = np.asarray(LabelHolder(me, plan, np.zeros(0), top).predict(outputs))
    if not is_finite(values):
        raise TrainerError(text("the probabilities of the top model are not finite"))
    return Prediction(np.asarray(values, np.float32), top.meaning)
