"""News of members that is passed on beside probes, each piece some times and the freshest first."""

from __future__ import annotations

from dataclasses import dataclass

from flnet.messages import News
from flnet.params import PeerId

PER_MESSAGE = 32  # pieces of news beside one probe


@dataclass
class _Waiting:
    news: News
    told: int = 0


class Gossip:
    """What is still to be told, at most one piece for each member and accuser."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[PeerId, PeerId | None], _Waiting] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, news: News) -> None:
        """Tell this from now on; older claims about the same member are dropped."""
        for key in [key for key in self._waiting if key[0] == news.id and self._older(key, news)]:
            del self._waiting[key]
        self._waiting[PeerId(news.id), PeerId(news.by) if news.by else None] = _Waiting(news)

    def take(self, limit: int, first: PeerId | None = None) -> list[News]:
        """Some pieces for one message, those told least first; what was told `limit` times is forgotten.

        Args:
            first: news of this member goes first, as the message is for it.
        """
        if not self._waiting:
            return []
        in_turn = sorted(self._waiting.items(), key=lambda item: (item[0][0] != first, item[1].told))
        taken = in_turn[:PER_MESSAGE]
        for key, waiting in taken:
            waiting.told += 1
            if waiting.told >= limit:
                del self._waiting[key]
        return [waiting.news for _, waiting in taken]

    def _older(self, key: tuple[PeerId, PeerId | None], news: News) -> bool:
        old = self._waiting[key].news
        return (old.incarnation, old.state) != (news.incarnation, news.state)
