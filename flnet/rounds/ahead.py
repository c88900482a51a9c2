"""An initiator that is behind: peers refuse the start of its round, because they are past it.

It starts the next round after theirs, so that they have a part in it. A single peer may have been led there alone, or may
only say so. Therefore the others have BEHIND_SECONDS to answer the start, too.
"""

from __future__ import annotations

from collections.abc import Mapping

from flnet.params.params import PeerId
from flnet.protocol.effects import CancelTimer, Effect, SetTimer
from flnet.protocol.updates import RoundKey
from flnet.rounds.model import HeldModel
from flnet.rounds.peers import Peers
from flnet.rounds.series import Opening, Series
from flnet.rounds.settings import JobSettings
from flnet.text import text

BEHIND_SECONDS = 2.0  # in which peers answer a start that one of them found to be of an old round


class Ahead:
    """The peers that are past a round which this node has started.

    Attributes:
        timer: bounds the wait for the answers of the others.
    """

    def __init__(
        self, key: RoundKey, settings: JobSettings, peers: Peers, held: HeldModel, series: Series
    ) -> None:
        self._key, self._settings, self._peers, self._held, self._series = key, settings, peers, held, series
        self.timer = f"behind:{key.number}:{key.initiator}"
        self._rounds: dict[PeerId, int] = {}  # in which they are

    def refused(self, peer: PeerId, current: int) -> list[Effect]:
        """A peer refused the start of the round, because it is past it.

        Args:
            current: the round in which it is.
        """
        is_first = not self._rounds
        self._rounds[peer] = current
        if self._are_most:
            return self.start_after()
        return [SetTimer(self.timer, BEHIND_SECONDS)] if is_first else []

    def confirmed(self, rounds: Mapping[PeerId, int], current: int) -> None:
        """The other members have said in which rounds they are, because one of them was far ahead.

        Args:
            current: the round of that one.
        """
        self._rounds |= {
            peer: min(number, current) for peer, number in rounds.items() if number >= self._key.number
        }

    def start_after(self) -> list[Effect]:
        """Start the next round after theirs, if any peer is past this one.

        If most of them are, this node sits it out, because an update from an old model would pull the average back.
        """
        if not self._rounds:
            return []
        number, hyper = max(self._rounds.values()), self._settings.round_hyper
        why = text(
            "its model is of round {number}, the mesh is in round {current}", self._held.current.round, number
        )
        sits_out = why if self._are_most else ""
        self._series.propose(Opening(RoundKey(number + 1, self._settings.my_id), hyper, sits_out=sits_out))
        return self.forget()

    def forget(self) -> list[Effect]:
        """This node has left the round, or is about to."""
        timer: list[Effect] = [CancelTimer(self.timer)] if self._rounds else []
        self._rounds = {}
        return timer

    @property
    def _are_most(self) -> bool:
        here = self._peers.here
        return not here or 2 * len(self._rounds.keys() & here) > len(here)
