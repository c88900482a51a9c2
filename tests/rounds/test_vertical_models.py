"""From which epoch holders go on, and which holders can train together."""

from __future__ import annotations

from typing import Any

import pytest

from flnet.errors import BatchRefused
from flnet.params.params import Params
from flnet.protocol.vertical import Checkpoint, EpochClosedPart, PositionPart
from flnet.rounds.vertical_models import (
    VerticalModels,
    agreed_in_flight,
    check_holders,
    common_epoch,
    defences_of,
)

A, B, X = "a" * 64, "b" * 64, "c" * 64


def position(*checkpoints: Checkpoint, **fields: Any) -> PositionPart:
    values: dict[str, Any] = {"columns": 2, "hasLabel": False, "width": 3, "rows": 9, "rule": "r", "group": "g"}
    return PositionPart(**{**values, "seed": 0, "number": 0, "checkpoints": checkpoints, **fields})


def bottom(epoch: int, digest: str = A) -> Checkpoint:
    return Checkpoint(epoch=epoch, bottom=digest)


def ended(epoch: int, a: str = A) -> Checkpoint:
    return Checkpoint(epoch=epoch, bottom=B, bottoms={"a": a, "b": B})


@pytest.mark.parametrize(
    ("feature", "label", "expected"),
    [
        ((), (), -1),
        ((bottom(0),), (ended(0),), 0),
        ((bottom(3), bottom(4)), (ended(3), ended(4)), 4),
        ((bottom(3), bottom(4, X)), (ended(2), ended(3)), 3),  # the label holder did not end epoch 4
        ((bottom(3), bottom(4)), (ended(3), bottom(4, B)), 3),  # its own steps were done
        ((bottom(4), bottom(5)), (ended(3), ended(4)), 4),
        ((bottom(3), bottom(4, X)), (ended(3), ended(4)), 3),  # other bottom model than the one of epoch 4
        ((bottom(0),), (), -1),  # the first epoch ended nowhere
        ((bottom(0),), (bottom(0, B),), -1),
    ],
)
def test_the_newest_epoch_that_all_have_is_taken(
    feature: tuple[Checkpoint, ...], label: tuple[Checkpoint, ...], expected: int
) -> None:
    assert common_epoch({"a": position(*feature), "b": position(*label, hasLabel=True)}) == expected


@pytest.mark.parametrize(
    ("feature", "label"),
    [((), (ended(0),)), ((), (ended(4), ended(5))), ((bottom(4), bottom(5)), ()), ((bottom(2, X),), (ended(2),))],
)
def test_without_a_common_epoch_who_has_what_is_said(
    feature: tuple[Checkpoint, ...], label: tuple[Checkpoint, ...]
) -> None:
    with pytest.raises(BatchRefused, match="no common epoch to go on from"):
        common_epoch({"a": position(*feature), "b": position(*label, hasLabel=True)})


@pytest.mark.parametrize(
    ("positions", "words"),
    [
        ({"a": position()}, "two or more holders; c: it has no data"),
        ({"a": position(), "b": position()}, "no holder has the label; one of a, b needs it"),
        ({"a": position(hasLabel=True), "b": position(hasLabel=True)}, "a, b all hold a label"),
        ({"a": position(width=0, hasLabel=True), "b": position(width=0)}, "no holder has features"),
        ({"a": position(hasLabel=True), "b": position(rule="s")}, "rule of ids differs: r at a, s at b"),
        (
            {"a": position(hasLabel=True), "b": position(group="h")},
            "group of the elements differs: g at a, h at b",
        ),
    ],
)
def test_holders_that_cannot_train_together_are_named(positions: dict[str, PositionPart], words: str) -> None:
    with pytest.raises(BatchRefused, match=words):
        check_holders(positions, {"c": "it has no data"}, {})


def test_a_holder_of_the_last_epoch_is_needed_and_several_label_holders_may_be_meant() -> None:
    both = {name: position(hasLabel=True, severalLabels=True) for name in "ab"}
    check_holders(both, {}, {"a": 0, "b": 0})
    with pytest.raises(BatchRefused, match="c holds columns of this job and is needed: it is paused"):
        check_holders(both, {"c": "it is paused"}, {"a": 0, "c": 0})


def test_models_of_two_epochs_are_kept_and_come_back_after_a_restart() -> None:
    models = VerticalModels(ids="i")
    report = EpochClosedPart(epoch=2, loss=0.5, bottoms={"a": A}, top=X)
    for epoch in range(3):
        models.add(epoch, Params({"bottom/weights/w": [float(epoch)]}), A, None)
    models.add(2, Params({"top/weights/w": [7.0]}), None, report)
    assert sorted(models.ended) == [1, 2]
    read = VerticalModels.read(models.kept(), models.params)
    assert read.ended[2].params == models.ended[2].params
    assert (read.ended[2].bottom, read.ended[2].report, read.ended[1].report) == (A, report, None)
    read.declare("i")
    assert read.alignment == models.alignment


def test_no_holder_has_more_batches_in_flight_than_it_allows() -> None:
    holders = {"a": position(inFlight=8), "b": position(inFlight=3), "c": position(inFlight=4)}
    assert agreed_in_flight(holders) == 3
    assert agreed_in_flight({**holders, "d": position()}) == 1


def test_a_holder_states_its_defences_in_words() -> None:
    assert defences_of(position()) == []
    stated = position(
        outputNoise={"clip": 4.0, "multiplier": 0.3},
        gradientNoise={"rule": "isotropic", "scale": 10.0},
        tellsScore=False,
    )
    assert defences_of(stated) == [
        "outputs are clipped to 4, with noise of 0.3 times that",
        "gradients have isotropic noise of scale 10",
        "figures on hold-out rows are not told",
    ]
    stretched = position(gradientNoise={"rule": "max-norm", "scale": 1.0})
    assert defences_of(stretched) == ["gradients are stretched at random (max-norm)"]
