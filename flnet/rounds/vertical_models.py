"""What a node keeps of a vertical job between epochs: its models, the alignment, and what follows for the next epoch.

A holder keeps the models of the two newest epochs that ended here or may have ended. One holder of labels decides
whether an epoch has ended; another holder that was cut off before it heard so can go on from either. Holders of labels
that average their models cannot be further apart than one epoch. So the newest epoch that all holders have is found
from what each states, and holders of labels check the digests of the bottom models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from flnet.errors import BatchRefused
from flnet.params.params import Array, Params
from flnet.protocol.vertical import ENCRYPTED, BeginPart, Checkpoint, EpochClosedPart, PositionPart
from flnet.text import joined, text

KEPT = 2  # epochs
MOST_WARNINGS = 5
_ROWS = "rows"


@dataclass(frozen=True)
class Ended:
    """The models of this node at the end of an epoch, or after all its steps if the end is not known.

    Attributes:
        params: of the bottom and top model.
        bottom: digest of the bottom model; None without features.
        report: with which the epoch ended here, if this node holds labels, or takes part in an encrypted regression.
        own: accuracy, AUC and loss of this node's own columns alone after as many epochs, if it holds features and
            labels.
    """

    params: Params = field(default_factory=Params)
    bottom: str | None = None
    report: EpochClosedPart | None = None
    own: Mapping[str, float] | None = None

    def checkpoint(self, epoch: int) -> Checkpoint:
        """What others are told of it."""
        bottoms = None if self.report is None else dict(self.report.bottoms)
        return Checkpoint(epoch=epoch, bottom=self.bottom, bottoms=bottoms)


@dataclass
class VerticalModels:
    """The models of a job by epoch, and its alignment.

    Attributes:
        ended: by epoch, the newest ones.
        closed: the newest epoch that is known to have ended; -1 before the first.
        rows: own row of each common id; None before the first alignment, and when the ids have changed.
        alignment: digest of these.
        aligned_with: the holders of that alignment.
        holders: what each held in the last epoch.
        seed: of the models; None before the first epoch.
        ids: checksum of the own ids.
        common: number of common rows as a key holder is told it; None elsewhere.
        warnings: what people should know of this job, the newest last.
    """

    ended: dict[int, Ended] = field(default_factory=dict)
    closed: int = -1
    rows: Array | None = None
    alignment: str = ""
    aligned_with: tuple[str, ...] = ()
    holders: Mapping[str, PositionPart] = field(default_factory=dict)
    seed: int | None = None
    ids: str = ""
    common: int | None = None
    warnings: tuple[str, ...] = ()
    _params: Params | None = field(default=None, init=False, compare=False)  # as long as nothing changes

    @property
    def count(self) -> int | None:
        """The number of common rows; None before they are aligned."""
        return self.common if self.rows is None else len(self.rows)

    @property
    def params(self) -> Params:
        """All arrays, to be saved; the same object as long as nothing changes."""
        if self._params is None:
            self._params = self._joined()
        return self._params

    def _joined(self) -> Params:
        arrays = {f"{epoch}/{name}": a for epoch, ended in self.ended.items() for name, a in ended.params.items()}
        return Params(arrays if self.rows is None else {**arrays, _ROWS: self.rows})

    @property
    def compared(self) -> tuple[Mapping[str, float], Mapping[str, float]] | None:
        """Figures of the newest epoch on hold-out rows: of the joint model, and of the own columns alone."""
        ended = self.ended.get(self.closed)
        if ended is None or ended.own is None or ended.report is None or ended.report.score is None:
            return None
        score = ended.report.score
        return {**score.metrics, "accuracy": score.accuracy}, ended.own

    def declare(self, ids: str) -> None:
        """The trainer was loaded; with other ids, rows have to be aligned again."""
        if ids != self.ids:
            self.common = None
            self.ids, self.rows, self.alignment, self.aligned_with = ids, None, "", ()
            self._params = None

    def checkpoints(self, *, afresh: bool) -> tuple[Checkpoint, ...]:
        """The epochs that this node can go on from."""
        if afresh:
            return ()
        return tuple(ended.checkpoint(epoch) for epoch, ended in sorted(self.ended.items()))

    def begin(self, begin: BeginPart) -> None:
        """An epoch begins."""
        self.holders, self.seed = begin.holders, begin.seed
        kept = {epoch: ended for epoch, ended in self.ended.items() if epoch <= begin.closed}
        self.ended, self.closed = (kept if begin.closed >= 0 else {}), begin.closed
        self._params = None
        if begin.aligns or begin.closed < 0:
            self.warnings = ()

    def warn(self, words: Sequence[str]) -> list[str]:
        """Note what people should know, and return what is new of it."""
        new = [one for one in dict.fromkeys(words) if one not in self.warnings]
        self.warnings = (*self.warnings, *new)[-MOST_WARNINGS:]
        return new

    def align(self, rows: Array, digest: str, holders: tuple[str, ...]) -> None:
        """Rows were aligned."""
        self.rows, self.alignment, self.aligned_with = rows, digest, holders
        self._params = None

    def add(
        self,
        epoch: int,
        params: Params,
        bottom: str | None,
        report: EpochClosedPart | None,
        own: Mapping[str, float] | None = None,
    ) -> None:
        """Models became those of the end of an epoch; what is known of it already stays."""
        before = self.ended.get(epoch, Ended())
        stated = (bottom or before.bottom, report or before.report, own or before.own)
        ended = Ended(before.params.merged_with(params), *stated)
        newest = sorted({**self.ended, epoch: ended})[-KEPT:]
        self.ended = {one: ended if one == epoch else self.ended[one] for one in newest}
        self._params = None

    def kept(self) -> Mapping[str, Any]:
        """The state that is saved for a restart, as plain JSON data; arrays are saved separately."""
        return {
            "closed": self.closed,
            "ended": [
                [epoch, ended.bottom, ended.report.as_dict() if ended.report else None, ended.own]
                for epoch, ended in sorted(self.ended.items())
            ],
            "alignment": self.alignment,
            "aligned_with": list(self.aligned_with),
            "holders": {peer: position.as_dict() for peer, position in self.holders.items()},
            "seed": self.seed,
            "ids": self.ids,
            "common": self.common,
            "warnings": list(self.warnings),
        }

    @classmethod
    def read(cls, kept: Mapping[str, Any] | None, params: Params | None) -> VerticalModels:
        """What an earlier run saved.

        Raises:
            AttributeError, KeyError, TypeError, ValueError: it is damaged.
        """
        if not kept or params is None:
            return cls()
        ended = {}
        for epoch, bottom, report, *more in kept["ended"]:  # of an earlier version without the last one
            prefix = f"{int(epoch)}/"
            part = {name.removeprefix(prefix): a for name, a in params.items() if name.startswith(prefix)}
            stated = None if report is None else EpochClosedPart.model_validate(report)
            own = {str(name): float(value) for name, value in more[0].items()} if more and more[0] else None
            ended[int(epoch)] = Ended(Params(part), bottom, stated, own)
        rows = np.asarray(params[_ROWS]) if _ROWS in params and kept["alignment"] else None
        holders = {peer: PositionPart.model_validate(position) for peer, position in kept["holders"].items()}
        alignment = ("", ()) if rows is None else (str(kept["alignment"]), tuple(kept["aligned_with"]))
        read = cls(ended, int(kept["closed"]), rows, *alignment, holders, kept["seed"], str(kept["ids"]))
        read.common, read.warnings = kept.get("common"), tuple(kept.get("warnings", ()))
        return read


def common_epoch(positions: Mapping[str, PositionPart]) -> int:
    """The newest epoch that all holders can go on from; -1 if the first epoch has not ended.

    Raises:
        BatchRefused: there is none, although some were trained.
    """
    epochs = {
        peer: {checkpoint.epoch: checkpoint for checkpoint in position.checkpoints}
        for peer, position in positions.items()
    }
    if not any(epochs.values()):
        return -1
    for epoch in sorted({epoch for known in epochs.values() for epoch in known}, reverse=True):
        if all(epoch in known for known in epochs.values()):
            points = {peer: known[epoch] for peer, known in epochs.items()}
            if all(_agrees(positions[peer], point, points, positions) for peer, point in points.items()):
                return epoch
    is_first = all(epoch == 0 for known in epochs.values() for epoch in known)
    if is_first and not all(
        any(checkpoint.bottoms is not None for checkpoint in position.checkpoints)
        for position in positions.values()
        if position.closes
    ):
        return -1  # the first epoch has not ended at all nodes that end it
    stated = [
        text("{peer} has {epochs}", peer, ", ".join(map(str, sorted(known))) or text("none"))
        for peer, known in sorted(epochs.items())
    ]
    raise BatchRefused(
        text(
            "the holders have no common epoch to go on from ({stated}); begin a new numbering to train from new models",
            joined(stated),
        )
    )


def _agrees(
    position: PositionPart,
    point: Checkpoint,
    points: Mapping[str, Checkpoint],
    positions: Mapping[str, PositionPart],
) -> bool:
    """Whether a holder has what it needs of this epoch; nodes that end it know the models of others by digest."""
    if _has_bottom(position) and point.bottom is None:
        return False
    if not position.closes:
        return True
    bottoms = {peer: points[peer].bottom for peer, other in positions.items() if _has_bottom(other)}
    return point.bottoms is not None and dict(point.bottoms) == bottoms


def defences_of(position: PositionPart) -> list[str]:
    """How a holder protects what it sends, as it states it, in words."""
    words: list[str] = []
    if (outputs := position.output_noise) is not None:
        clip, multiplier = f"{outputs.clip:g}", f"{outputs.multiplier:g}"
        words.append(
            text("outputs are clipped to {clip}, with noise of {multiplier} times that", clip, multiplier)
        )
    if (gradients := position.gradient_noise) is not None:
        words.append(
            text("gradients are stretched at random (max-norm)")
            if gradients.rule == "max-norm"
            else text("gradients have isotropic noise of scale {scale}", f"{gradients.scale:g}")
        )
    if not position.tells_score:
        words.append(text("figures on hold-out rows are not told"))
    return words


def agreed_in_flight(positions: Mapping[str, PositionPart]) -> int:
    """How many batches may be under way at once: no more than any holder lets be."""
    return min(position.in_flight for position in positions.values())


def _has_bottom(position: PositionPart) -> bool:
    """Whether it keeps a model of its own columns; in a regression, a label holder has at least the constant one."""
    return position.has_data if position.method == ENCRYPTED else position.width > 0


def check_holders(
    positions: Mapping[str, PositionPart], absent: Mapping[str, str], before: Mapping[str, Any]
) -> None:
    """Check that these holders can train together.

    Args:
        positions: of those who take part.
        absent: why others do not.
        before: who took part in the last epoch.

    Raises:
        BatchRefused: they cannot; says why.
    """
    for peer in sorted(before.keys() - positions.keys()):
        raise BatchRefused(
            text(
                "{peer} holds columns of this job and is needed: {reason}",
                peer,
                absent.get(peer) or text("it is not reachable"),
            )
        )
    others = [text("{peer}: {reason}", peer, reason) for peer, reason in sorted(absent.items())]
    if len(positions) < 2:
        raise BatchRefused(
            joined([text("no other node holds columns of this job; it takes two or more holders"), *others])
        )
    _check_same(text("method"), {peer: position.method for peer, position in positions.items()})
    labels = sorted(peer for peer, position in positions.items() if position.has_label)
    if not labels:
        words = text("no holder has the label; one of {names} needs it", ", ".join(sorted(positions)))
        raise BatchRefused(joined([words, *others]))
    if len(labels) > 1 and not all(positions[peer].several_labels for peer in labels):
        raise BatchRefused(
            text("{names} all hold a label, but this job is meant for one label holder", ", ".join(labels))
        )
    if not any(position.width for position in positions.values()):
        raise BatchRefused(joined([text("no holder has features"), *others]))
    _check_same(text("rule of ids"), {peer: position.rule for peer, position in positions.items()})
    _check_same(text("group of the elements"), {peer: position.group for peer, position in positions.items()})
    if next(iter(positions.values())).method == ENCRYPTED:
        _check_encrypted(positions, absent)


def _check_encrypted(positions: Mapping[str, PositionPart], absent: Mapping[str, str]) -> None:
    """Raises:
    BatchRefused: these are not the three nodes that an encrypted regression takes.
    """
    data = sorted(peer for peer, position in positions.items() if position.has_data)
    keys = sorted(positions.keys() - set(data))
    others = [text("{peer}: {reason}", peer, reason) for peer, reason in sorted(absent.items())]
    labels = [peer for peer in data if positions[peer].has_label]
    if len(data) == 1:
        words = text(
            "only {node} holds columns; an encrypted regression takes two nodes with columns and a third one with the "
            "key",
            data[0],
        )
        raise BatchRefused(joined([words, *others]))
    if len(data) > 2 or len(labels) > 1:
        raise BatchRefused(
            text(
                "{names} hold columns; an encrypted regression takes two nodes with columns, one of them with the label",
                ", ".join(data),
            )
        )
    if not keys:
        words = text(
            "no node holds the key: encrypted regression takes a third node that has this job and no data of it, since "
            "{names} could decrypt each other's rows",
            ", ".join(data),
        )
        raise BatchRefused(joined([words, *others]))
    if len(keys) > 1:
        raise BatchRefused(
            text("{names} have this job and no data of it; only one node can hold the key", ", ".join(keys))
        )
    if not positions[next(peer for peer in data if peer not in labels)].width:
        raise BatchRefused(text("no holder has features"))
    _check_same(text("encryption"), {peer: position.scheme for peer, position in positions.items()})
    hides = {True: text("by the node with the key"), False: text("by the nodes with data")}
    _check_same(text("alignment"), {peer: hides[position.hides_matches] for peer, position in positions.items()})


def _check_same(name: str, values: Mapping[str, str]) -> None:
    """Raises:
    BatchRefused: a value is not the same at all nodes.
    """
    first = min(values)
    for peer, got in sorted(values.items()):
        if got != values[first]:
            raise BatchRefused(
                text(
                    "{name} differs: {expected} at {first}, {got} at {peer}", name, values[first], first, got, peer
                )
            )
