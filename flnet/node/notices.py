"""Notices: watches the event log for what a person should know, and sends it by webhook and mail.

`NoticeRules` decides what is worth a notice and knows no clock; `NoticeSender` sends. Each channel has a place for one
notice of each kind: while one waits there, later ones of that kind replace it and are counted. So a channel that does not
answer costs a bounded amount of memory and delays nobody, and a person gets at most one notice of a kind in an interval.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from flnet.errors import StartError
from flnet.node.event_log import EventLog, FeedItem
from flnet.security.ownership import check_file
from flnet.settings import PREFIX, Settings, check_notify_mail
from flnet.text import text
from flnet.wire.notice_channels import Channel, Mail, Notice, NotSent, Webhook

RETRY_SECONDS = (2.0, 10.0, 60.0, 300.0)  # after each try; then the notice is given up
LOOK_SECONDS = 5.0  # between two looks for nodes that are gone for long
LONGEST = 2000  # characters of a sentence
ROUNDING = 1e-9  # of differences between accuracies
MOST_LOST = 10_000  # nodes that are remembered as gone
_NOT_LOST = frozenset(  # any more
    f"peer_{what}" for what in ("back", "answers", "joined", "left", "forgotten", "replaced", "untrusted")
)
_MOST_FILE_BYTES = 64 * 1024


@dataclass(frozen=True)
class Worth:
    """Something worth a notice: kind, sentence and trainer."""

    kind: str
    text: str
    trainer: str = ""


class NoticeRules:
    """What of the events of a node is worth a notice. Times are seconds of any clock that only goes forward."""

    def __init__(
        self,
        lost_seconds: float,
        accuracy_fall: float,
        alone: Callable[[str, int], bool] = lambda *_: False,
        budget: Callable[[str], Mapping[str, Any] | None] = lambda _: None,
    ) -> None:
        """Args:
        lost_seconds: how long a node must be gone.
        accuracy_fall: by how much the accuracy must fall below the best one since the last notice, in [0, 1]; 0: never.
        alone: whether this node was alone in this round of a trainer (`RoundRecord.alone`).
        budget: what was spent of the privacy budget of a trainer, as in its view; None without one.
        """
        self._lost_seconds, self._fall = lost_seconds, accuracy_fall
        self._alone, self._budget = alone, budget
        self._best: dict[str, float] = {}  # accuracy, by trainer
        self._spent: dict[str, str] = {}  # name of the budget that a notice was about, by trainer
        self._lost: dict[str, float] = {}  # since when, by peer

    def remember(self, items: Sequence[FeedItem]) -> None:
        """Take accuracies from events of earlier runs, without notices."""
        for item in items:
            if item.kind == "round_closed":
                list(self._fell(item))

    def hear(self, item: FeedItem, now: float) -> list[Worth]:
        """The notices that an event is worth."""
        peer = str(item.data.get("peer", ""))
        if item.kind in ("peer_lost", "peer_pruned") and len(self._lost) < MOST_LOST:
            self._lost.setdefault(peer, now)
        elif item.kind in _NOT_LOST:
            self._lost.pop(peer, None)
        elif item.kind == "trust_pending":
            return [Worth("key_waits", item.text)]
        elif item.kind == "round_closed":
            bad = [Worth("round_bad", item.text, item.trainer)] if self._is_bad(item) else []
            return [*bad, *self._fell(item), *self._spent_now(item.trainer)]
        elif item.kind == "sits_out":
            return list(self._spent_now(item.trainer))
        return []

    def lost(self, now: float) -> list[Worth]:
        """The notice about nodes that are gone for long enough by now; each node is named once."""
        gone = sorted(peer for peer, since in self._lost.items() if 0 <= since <= now - self._lost_seconds)
        self._lost |= dict.fromkeys(gone, -1.0)  # told
        if not gone:
            return []
        others = f" and {len(gone) - 5} more" if len(gone) > 5 else ""
        words = f"{', '.join(gone[:5])}{others}: no answer for {self._lost_seconds:g} seconds or longer"
        return [Worth("peer_lost", words)]

    def _is_bad(self, item: FeedItem) -> bool:
        """No average, an average of this node alone, or one without as many nodes as it has; or an error."""
        if item.data.get("error"):
            return True
        if "contributors" not in item.data:  # a round of another kind, which says so by its error
            return False
        is_without = item.data.get("digest") is None and not item.data.get("taken_from")
        missing, have = len(item.data.get("missing") or ()), len(item.data["contributors"])
        return is_without or 0 < have <= missing or self._alone(item.trainer, item.data.get("round", -1))

    def _fell(self, item: FeedItem) -> Iterator[Worth]:
        accuracy = item.data.get("post_fedavg_accuracy")
        if not isinstance(accuracy, float | int) or not math.isfinite(accuracy) or not self._fall:
            return
        best = self._best.get(item.trainer, accuracy)
        if best - accuracy >= self._fall - ROUNDING:
            self._best[item.trainer] = accuracy
            words = f"the accuracy of {item.trainer} here is {accuracy:.4f}, and was {best:.4f}"
            yield Worth("accuracy_fell", words, item.trainer)
        else:
            self._best[item.trainer] = max(best, accuracy)

    def _spent_now(self, trainer: str) -> Iterator[Worth]:
        budget = self._budget(trainer)
        if budget is None or budget.get("rounds_left") != 0:
            self._spent.pop(trainer, None)
        elif self._spent.get(trainer) != (name := str(budget.get("budget", ""))):
            self._spent[trainer] = name
            yield Worth("budget_spent", f"{trainer} trains no more: {budget.get('words', '')}", trainer)


class NoticeSender:
    """Sends notices over channels, until cancelled."""

    def __init__(
        self,
        rules: NoticeRules,
        channels: Sequence[Channel],
        feed: EventLog,
        *,
        node: str,
        mesh: str,
        pause_seconds: float,
        now: Callable[[], float] = time.monotonic,
        retry_seconds: Sequence[float] = RETRY_SECONDS,
    ) -> None:
        """Args:
        node, mesh: names, for those who read.
        pause_seconds: between two notices of a kind.
        now: seconds of a clock that only goes forward.
        retry_seconds: after each try of a notice.
        """
        self._rules, self._feed, self._now, self._retry = rules, feed, now, tuple(retry_seconds)
        self._node, self._mesh = node, mesh
        self._places = [_Place(channel, pause_seconds) for channel in channels]

    async def run(self) -> None:
        """Watch and send."""
        self._rules.remember(self._feed.recent())
        work: list[Coroutine[Any, Any, None]] = [self._listen(self._feed.last_id), self._look()]
        async with asyncio.TaskGroup() as group:
            for each in (*work, *map(self._send, self._places)):
                group.create_task(each)

    async def _listen(self, after: int) -> None:
        async for item in self._feed.watch(after):
            self._put(self._rules.hear(item, self._now()))

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self._put(self._rules.lost(self._now()))

    def _put(self, found: Sequence[Worth]) -> None:
        for worth in found:
            words = worth.text[:LONGEST]
            notice = Notice(
                secrets.token_hex(12), time.time(), worth.kind, words, self._node, self._mesh, worth.trainer
            )
            for place in self._places:
                place.put(notice)

    async def _send(self, place: _Place) -> None:
        while True:
            notice = await place.take(self._now)
            reason = await self._tried(place.channel, notice)
            if reason:
                words = text("a notice could not be sent by {channel}: {reason}", place.channel.name, reason)
                self._feed.publish("notice_failed", words, notice.trainer, {"notice": notice.kind})

    async def _tried(self, channel: Channel, notice: Notice) -> str:
        """Why it could not be sent; empty if it was."""
        reason = ""
        for pause in (*self._retry, None):
            try:
                await channel.send(notice)
                return ""
            except NotSent as exc:
                reason = str(exc)
                if exc.is_final:
                    break
            if pause is not None:
                await asyncio.sleep(pause)
        return reason


class _Place:
    """The notices that wait for a channel: at most one of each kind."""

    def __init__(self, channel: Channel, pause_seconds: float) -> None:
        self.channel, self._pause = channel, pause_seconds
        self._waiting: dict[str, Notice] = {}
        self._taken_at: dict[str, float] = {}
        self._came = asyncio.Event()

    def put(self, notice: Notice) -> None:
        """Let a notice wait, in place of an earlier one of its kind."""
        before = self._waiting.get(notice.kind)
        self._waiting[notice.kind] = replace(notice, more=before.more + 1) if before else notice
        self._came.set()

    async def take(self, now: Callable[[], float]) -> Notice:
        """The next notice whose kind may be sent again."""
        while True:
            self._came.clear()
            left = {kind: self._taken_at.get(kind, -self._pause) + self._pause - now() for kind in self._waiting}
            due = next(
                (kind for kind, seconds in left.items() if kind not in self._taken_at or seconds <= 0), None
            )
            if due is not None:
                self._taken_at[due] = now()
                return self._waiting.pop(due)
            waiting = asyncio.ensure_future(self._came.wait())
            await asyncio.wait({waiting}, timeout=min(left.values(), default=None))
            waiting.cancel()


def channels_of(settings: Settings) -> list[Channel]:
    """The channels that the settings name.

    Raises:
        StartError: a file cannot be read, another user can change it, or it holds no address of a mail server.
    """
    channels: list[Channel] = []
    if settings.notify_url is not None:
        channels.append(Webhook(settings.notify_url, _text_of(settings, "notify_secret")))
    if address := _text_of(settings, "notify_mail"):
        try:
            channels.append(Mail(check_notify_mail(address)))
        except ValueError as exc:
            raise StartError(f"{PREFIX}NOTIFY_MAIL_FILE={settings.notify_mail_file}: {exc}") from exc
    return channels


def _text_of(settings: Settings, name: Literal["notify_secret", "notify_mail"]) -> str:
    """The setting, or what is in its file; empty without both."""
    given: str | None = getattr(settings, name)
    path: Path | None = getattr(settings, f"{name}_file")
    if path is None:
        return given or ""
    try:
        check_file(path, f"{name.upper()}_FILE")
        with path.open("rb") as file:
            return file.read(_MOST_FILE_BYTES).decode().strip()
    except (OSError, UnicodeDecodeError) as exc:
        raise StartError(f"{PREFIX}{name.upper()}_FILE={path} cannot be read: {exc}") from exc
