"""A prediction of a vertical job for some common rows, asked by id: what each holder computes for it.

The asking holder turns ids into places in the order of common rows, which all holders have agreed on; ids stay with it.
In a split network, each feature holder computes the outputs of its bottom model for these places, and a label holder
turns the outputs of all into probabilities. In an encrypted regression, both nodes with data know their own
weights in clear text, and compute their share of the score; the sum says how likely the label 1 is.
`flnet.rounds.vertical_predictions` carries the messages.
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
from flnet.errors import NotOffered, TrainerError
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


def score_share(trainer: VerticalTrainer, state: ModelState, rows: Positions, *, has_label: bool) -> Array:
    """This node's share of the score z = X theta, (n, 1), as it is sent.

    Args:
        state: weights "theta" of this node's columns; with the label, after that of the constant.
        rows: (n,) own rows.

    Raises:
        TrainerError: the trainer has other columns now, or a share is not finite.
    """
    if "theta" not in state.weights:
        raise TrainerError(text("the model was trained by another method; begin a new numbering"))
    theta = np.asarray(state.weights["theta"])
    try:
        x = np.asarray(trainer.features(rows), np.float64).reshape(len(rows), -1)
    except NotOffered:
        x = np.zeros((len(rows), 0))
    constant = int(has_label)
    if len(theta) != x.shape[1] + constant:
        raise TrainerError(
            text("the trainer has {columns} columns; its model is for {count}", x.shape[1], len(theta) - constant)
        )
    with np.errstate(over="ignore", invalid="ignore"):
        share: Array = (x @ theta[constant:] + theta[:constant].sum()).astype(DTYPE)[:, None]
    if not is_finite(share):
        raise TrainerError(text("the scores of these rows are not finite"))
    return share


def regression_prediction(shares: Mapping[PeerId, Array]) -> Prediction:
    """Probabilities (n, 2) of the labels 0 and 1, from the shares (n, 1) of both nodes with data."""
    z = np.sum([share[:, 0].astype(np.float64) for share in shares.values()], axis=0)
    positive = (1 + np.tanh(z / 2)) / 2  # 1 / (1 + exp(-z)), which cannot overflow
    return Prediction(np.column_stack([1 - positive, positive]).astype(np.float32), "one_of")


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
