"""Versions of the peers' models, where each node trains and merges by itself.

Roy et al., "BrainTorrent: A Peer-to-Peer Environment for Decentralized Federated Learning" (2019): a node that
wakes asks all others for their versions, fetches the models that are newer than what it merged of them before,
averages them with its own, and trains. Here a version is known by the run of its node and its digest in addition to
its number, so a node that lost its state is never mistaken for what it was.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flnet.params.params import Digest, Params, PeerId
from flnet.protocol.effects import Effect, Send
from flnet.protocol.events import Mark, Version
from flnet.protocol.messages import MAX_PEERS, AskVersion, VersionReply
from flnet.protocol.updates import RoundKey, Update
from flnet.rounds.model import HeldModel
from flnet.rounds.peers import Peers
from flnet.rounds.round_messages import stated
from flnet.rounds.settings import JobSettings, Tell
from flnet.text import text


@dataclass(frozen=True)
class MergedVersion:
    """The newest version of a peer that this node has merged.

    Attributes:
        into: the own version that came of it.
        at: when that was ready, in seconds since 1970 by this node's clock; None if that was not noted.
    """

    mark: Mark
    into: int
    at: float | None = None


Known = tuple[Mapping[PeerId, Mark], Mapping[PeerId, MergedVersion]]  # what was heard of peers, and merged of them


class Versions:
    """What one node knows of the others' versions, and what it says of its own.

    Attributes:
        heard: the newest mark that each peer has told.
        merged: what was merged of it last.
        base: shared parameters that the newest own training began with; None after a restart.
        under_way: how many messages to a peer have not ended yet.
    """

    def __init__(self, settings: JobSettings, held: HeldModel, peers: Peers, tell: Tell) -> None:
        self._settings, self._held, self._peers, self._tell = settings, held, peers, tell
        self.heard: dict[PeerId, Mark] = {}
        self.merged: dict[PeerId, MergedVersion] = {}
        self.base: Params | None = None
        self.under_way: dict[PeerId, int] = {}

    # --- the own version

    @property
    def own(self) -> Version:
        """The newest version of this node; of number 0 as long as it never trained what it trains now."""
        me, own, run = self._settings.my_id, self._held.own, self._settings.run or self._settings.my_id
        if own is None:
            mark = Mark(run, 0, self._held.current.shared.digest)
            return Version(mark, Update(me, RoundKey(0, me), Params(), examples=0))
        return Version(Mark(run, own.key.number, own.params.digest), replace(own, params=Params()))

    def ask(self, to: Iterable[PeerId]) -> list[Effect]:
        """Tell peers this node's version; each answers with its own."""
        peers, settings = tuple(sorted(to)), self._settings
        if not peers or self._held.model is None:
            return []
        own = self.own
        key = RoundKey(own.mark.number, settings.my_id)
        message = settings.message(AskVersion, key, **_stated(own))
        self.under_way |= {peer: self.under_way.get(peer, 0) + 1 for peer in peers}
        return [Send(peers, message)]

    def reply(self) -> VersionReply:
        """The answer to a peer that told its version."""
        own = self.own
        return VersionReply(i_am=self._settings.me, round=own.mark.number, **_stated(own))

    # --- those of peers

    def ended(self, peer: PeerId) -> bool:
        """A message to a peer has ended, well or not; whether none is under way any more."""
        left = self.under_way.pop(peer, 1) - 1
        if left > 0:
            self.under_way[peer] = left
        return left <= 0

    def lost(self, peer: PeerId) -> None:
        """A peer is not reachable any more: nothing that was sent to it ends."""
        self.under_way.pop(peer, None)

    def hear(self, version: Version) -> list[Effect]:
        """Note what a peer says of itself.

        Returns:
            What people read of a new version.
        """
        peer, mark, before = version.peer, version.mark, self.heard.get(version.peer)
        if before is not None and before.run == mark.run and mark.number < before.number:
            return []  # it was long on its way
        if before is None and len(self.heard) >= MAX_PEERS and not self._forget_one():
            return []
        self.heard[peer] = mark
        if not mark.is_newer_than(before):
            return []
        is_again = before is not None and before.run != mark.run and mark.number <= before.number
        what = (peer, mark.number, self._settings.trainer)
        words = (
            text("{peer} started again from new parameters, and has version {number} of {trainer} now", *what)
            if is_again
            else text("{peer} has version {number} of {trainer} now", *what)
        )
        return [self._tell("version_heard", words, peer=peer, version=mark.number)]

    def newer(self, told: Mapping[PeerId, Version]) -> list[Version]:
        """Those that this node has not merged yet, sorted by peer."""
        known = {peer: merged.mark for peer, merged in self.merged.items()}
        return [told[peer] for peer in sorted(told) if told[peer].mark.is_newer_than(known.get(peer))]

    def merge(self, marks: Mapping[PeerId, Mark], into: int, at: float | None, base: Params) -> None:
        """Note of which versions an own one came.

        Args:
            base: shared parameters that its training began with.
        """
        self.merged |= {peer: MergedVersion(mark, into, at) for peer, mark in marks.items()}
        self.base = base

    # --- what is shown and kept

    def view(self) -> Mapping[str, Any]:
        """The own version, and a row for each peer of which anything is known, as JSON-ready data."""
        own = self._held.own
        rows = [self._row(peer) for peer in sorted({*self.heard, *self.merged})]
        return {"own": own.key.number if own else 0, "peers": rows}

    def kept(self) -> Mapping[str, Any]:
        """What outlives a restart, as plain JSON data."""
        return {
            "heard": {peer: _written(mark) for peer, mark in self.heard.items()},
            "merged": {
                peer: [*_written(merged.mark), merged.into, merged.at] for peer, merged in self.merged.items()
            },
        }

    def restore(self, known: Known) -> None:
        """Take up what an earlier run saved."""
        self.heard, self.merged = dict(known[0]), dict(known[1])

    def forget(self) -> None:
        """The job begins with another model than all that was about."""
        self.heard, self.merged, self.base, self.under_way = {}, {}, None, {}

    def _row(self, peer: PeerId) -> Mapping[str, Any]:
        heard, merged = self.heard.get(peer), self.merged.get(peer)
        waits = heard is not None and heard.is_newer_than(merged.mark if merged else None)
        return {
            "peer": peer,
            "version": heard.number if heard else None,
            "merged": merged.mark.number if merged else None,
            "into": merged.into if merged else None,
            "at": merged.at if merged else None,
            "newer": waits,
            "reachable": peer in self._peers.here,
        }

    def _forget_one(self) -> bool:
        """Make room for another peer; those that are reachable stay noted."""
        gone = min((peer for peer in self.heard if peer not in self._peers.here), default=None)
        if gone is None:
            return False
        del self.heard[gone]
        self.merged.pop(gone, None)
        return True


def read_known(kept: Mapping[str, Any] | None) -> Known:
    """What `Versions.kept` said before a restart.

    Raises:
        AttributeError, KeyError, TypeError, ValueError: it is damaged.
    """
    if kept is None:
        return {}, {}
    merged = {
        PeerId(peer): MergedVersion(_mark(row[:3]), int(row[3]), None if row[4] is None else float(row[4]))
        for peer, row in kept["merged"].items()
        if len(row) == 5
    }
    return {PeerId(peer): _mark(row) for peer, row in kept["heard"].items()}, merged


def common_start(own: Digest, told: Collection[Version]) -> Version | None:
    """Where nobody has trained yet, the model that all begin with: the one of the lowest digest; None for the own.

    Models that began apart cannot be averaged well, and trainers may begin with different ones on different nodes.
    """
    if any(version.mark.number > 0 for version in told):
        return None
    lowest = min(told, key=lambda version: (version.mark.digest, version.peer), default=None)
    return lowest if lowest is not None and lowest.mark.digest < own else None


def _written(mark: Mark) -> list[Any]:
    return [mark.run, mark.number, mark.digest]


def _mark(row: Sequence[Any]) -> Mark:
    run, number, digest = row
    return Mark(str(run), int(number), Digest(str(digest)))


def _stated(version: Version) -> Mapping[str, Any]:
    fields = {"run": version.mark.run, "digest": version.mark.digest, **stated(version.update)}
    return {**fields, "examples": version.update.examples or 0}
