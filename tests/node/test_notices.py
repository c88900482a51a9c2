"""What a node tells people who are not looking: which events are worth it, how often, and what a dead channel costs."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import SettingsError, StartError
from flnet.node.event_log import EventLog, FeedItem
from flnet.node.notices import NoticeRules, NoticeSender, channels_of
from flnet.settings import load_settings
from flnet.web.api.settings import settings_of
from flnet.wire.notice_channels import Mail, Notice, NotSent, Webhook
from tests.node.mesh import MNIST_3_7, Linear, mesh_of

T = str(MNIST_3_7)


class MemoryChannel:
    """A channel that keeps what it is told, or fails as the test says."""

    name = "memory"

    def __init__(self, *faults: NotSent) -> None:
        self.faults, self.sent, self.tries = list(faults), list[Notice](), 0
        self.is_open = asyncio.Event()
        self.is_open.set()

    async def send(self, notice: Notice) -> None:
        self.tries += 1
        await self.is_open.wait()
        if self.faults:
            raise self.faults.pop(0)
        self.sent.append(notice)

    @property
    def kinds(self) -> list[str]:
        return [notice.kind for notice in self.sent]


def item(kind: str, trainer: str = T, **data: Any) -> FeedItem:
    return FeedItem(1, 0.0, kind, f"text of {kind}", trainer, data)


def closed(accuracy: float | None = None, **data: Any) -> FeedItem:
    """A good round of two, but for what is given."""
    usual = {"round": 3, "contributors": ["a", "b"], "missing": [], "digest": "d", "error": None}
    return item("round_closed", **{**usual, "post_fedavg_accuracy": accuracy, **data})


def kinds(rules: NoticeRules, *items: FeedItem) -> list[str]:
    return [worth.kind for each in items for worth in rules.hear(each, 0.0)]


@pytest.mark.parametrize(
    ("data", "is_bad"),
    [
        ({}, False),
        ({"missing": ["c"]}, False),
        ({"missing": ["c", "d"]}, True),
        ({"contributors": ["a"], "missing": ["b"]}, True),
        ({"contributors": [], "digest": None}, True),
        ({"contributors": [], "taken_from": "c"}, False),
        ({"error": "failed"}, True),
        ({"round": 9}, True),
    ],
)
def test_which_rounds_ended_badly(data: dict[str, Any], is_bad: bool) -> None:
    rules = NoticeRules(600, 0.1, alone=lambda trainer, round: (trainer, round) == (T, 9))
    assert kinds(rules, closed(**data)) == (["round_bad"] if is_bad else [])


def test_rounds_of_other_kinds_are_bad_by_their_error() -> None:
    rules = NoticeRules(600, 0.1)
    assert kinds(rules, item("round_closed", digest=None, error=None), item("round_closed", error="x")) == [
        "round_bad"
    ]


def test_a_fall_of_the_accuracy_is_told_once_from_the_best_on() -> None:
    rules = NoticeRules(600, 0.1)
    assert kinds(rules, closed(0.9), closed(0.95), closed(0.88), closed(None), closed(math.nan)) == []
    (worth,) = rules.hear(closed(0.85), 0.0)
    assert (worth.kind, worth.text) == ("accuracy_fell", f"the accuracy of {T} here is 0.8500, and was 0.9500")
    assert kinds(rules, closed(0.84), closed(0.86)) == []
    assert kinds(rules, closed(0.7)) == ["accuracy_fell"]
    later = NoticeRules(600, 0.1)
    later.remember([closed(0.9), closed(0.5), closed(0.95)])
    assert kinds(later, closed(0.8)) == ["accuracy_fell"]
    assert kinds(NoticeRules(600, 0), closed(0.9), closed(0.1)) == []


def test_a_lost_node_is_told_once_and_only_if_it_stays_away() -> None:
    rules = NoticeRules(600, 0.1)
    for kind, peer, at in (("peer_lost", "b", 0.0), ("peer_lost", "c", 0.0), ("peer_pruned", "d", 500.0)):
        rules.hear(item(kind, peer=peer), at)
    rules.hear(item("peer_back", peer="c"), 300.0)
    assert rules.lost(599.0) == []
    (worth,) = rules.lost(600.0)
    assert worth.text == "b: no answer for 600 seconds or longer"
    rules.hear(item("peer_lost", peer="b"), 700.0)  # without having been back
    assert [each.text[0] for each in rules.lost(1100.0)] == ["d"]
    rules.hear(item("peer_back", peer="b"), 1200.0)
    rules.hear(item("peer_lost", peer="b"), 1300.0)
    assert (rules.lost(1800.0), len(rules.lost(1900.0))) == ([], 1)


def test_a_spent_budget_is_told_once_for_each_budget_and_a_waiting_key_each_time() -> None:
    budget: dict[str, Any] = {"budget": "one", "rounds_left": 1, "words": "w"}
    rules = NoticeRules(600, 0.1, budget=lambda _: budget)
    assert kinds(rules, closed()) == []
    budget["rounds_left"] = 0
    assert kinds(rules, closed(), closed(), item("sits_out")) == ["budget_spent"]
    budget["budget"] = "two"
    assert kinds(rules, item("sits_out")) == ["budget_spent"]
    assert kinds(rules, item("trust_pending", ""), item("trust_pending", "")) == ["key_waits", "key_waits"]


@given(st.lists(st.tuples(st.sampled_from(["trust_pending", "round_closed"]), st.integers(0, 50)), max_size=15))
def test_no_kind_comes_more_often_than_it_may_and_all_are_counted(steps: list[tuple[str, int]]) -> None:
    async def play() -> None:
        now, times = 0, list[tuple[int, Notice]]()

        class Timed(MemoryChannel):
            async def send(self, notice: Notice) -> None:
                times.append((now, notice))

        feed = EventLog(lambda: 0.0)
        rules = NoticeRules(600, 0.1)
        notices = NoticeSender(rules, [Timed()], feed, node="a", mesh="m", pause_seconds=60, now=lambda: now)
        running = asyncio.create_task(notices.run())
        for _ in range(5):
            await asyncio.sleep(0)
        for kind, seconds in steps:
            now += seconds
            feed.publish(kind, "words", T, {"error": "x"})
            for _ in range(10):
                await asyncio.sleep(0)
        now += 60
        for kind in ("trust_pending", "round_closed"):  # wakes those that wait
            feed.publish(kind, "words", T, {"error": "x"})
        for _ in range(20):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        for kind, event in (("key_waits", "trust_pending"), ("round_bad", "round_closed")):
            sent = [(at, notice) for at, notice in times if notice.kind == kind]
            assert all(later - at >= 60 for (at, _), (later, _) in itertools.pairwise(sent))
            assert sum(1 + notice.more for _, notice in sent) == 1 + sum(each == event for each, _ in steps)

    asyncio.run(play())


async def running(channel: MemoryChannel, feed: EventLog, **more: Any) -> asyncio.Task[None]:
    told = {"node": "a", "mesh": "m", "pause_seconds": 0, "retry_seconds": (0, 0), **more}
    task = asyncio.create_task(NoticeSender(NoticeRules(600, 0.1), [channel], feed, **told).run())
    await asyncio.sleep(0)
    return task


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0)


async def test_what_fails_is_tried_again_and_then_told_to_people() -> None:
    feed = EventLog(lambda: 0.0)
    channel = MemoryChannel(NotSent("HTTP 503"), NotSent("HTTP 503"))
    task = await running(channel, feed)
    feed.publish("trust_pending", "b waits")
    await until(lambda: len(channel.sent) == 1)
    assert (channel.tries, channel.sent[0].text) == (3, "b waits")
    channel.faults = [NotSent("HTTP 404", is_final=True)]
    feed.publish("trust_pending", "c waits")
    await until(lambda: feed.recent()[-1].kind == "notice_failed")
    assert feed.recent()[-1].text == "a notice could not be sent by memory: HTTP 404"
    assert channel.tries == 4
    task.cancel()


async def test_a_channel_that_hangs_holds_up_nothing_and_keeps_one_notice_of_a_kind() -> None:
    feed = EventLog(lambda: 0.0)
    channel = MemoryChannel()
    channel.is_open.clear()
    task = await running(channel, feed)
    feed.publish("trust_pending", "first")
    await until(lambda: channel.tries == 1)
    for number in range(500):
        feed.publish("trust_pending", f"key {number}")
        await asyncio.sleep(0)
    channel.is_open.set()
    await until(lambda: len(channel.sent) == 2)
    assert [(notice.text, notice.more) for notice in channel.sent] == [("first", 0), ("key 499", 499)]
    task.cancel()


async def test_a_node_tells_of_a_round_that_it_averaged_alone() -> None:
    failing = Linear(1.0)
    async with mesh_of(failing) as mesh:
        channel = MemoryChannel()
        await mesh.add("z", Linear(3.0), ("a",), channel=channel, notify_pause_seconds=0)
        await mesh.full()
        await mesh.train("z")
        failing.fails = True
        await mesh.train("z")
        await until(lambda: "round_bad" in channel.kinds)
        (notice,) = [each for each in channel.sent if each.kind == "round_bad"]
        assert (notice.kind, notice.node, notice.mesh, notice.trainer) == ("round_bad", "z", "flnet", T)
        assert notice.text.startswith("round 1 closed: no other update came")


def test_channels_come_from_settings_and_files(tmp_path: Path) -> None:
    secret, address = tmp_path / "secret", tmp_path / "mail"
    secret.write_text("whsec_" + "YWJj" * 8 + "\n")
    address.write_text("smtps://me:word@127.0.0.1?to=a@example.org\n")
    given = {"notify_url": "https://127.0.0.1/x", "notify_secret_file": secret, "notify_mail_file": address}
    settings = load_settings(given, {})
    assert [type(channel) for channel in channels_of(settings)] == [Webhook, Mail]
    assert channels_of(load_settings({}, {})) == []
    address.write_text("smtp://me:word@127.0.0.1")
    with pytest.raises(StartError, match="expected smtps://") as refused:
        channels_of(settings)
    assert "word@127" not in str(refused.value)
    address.unlink()
    with pytest.raises(StartError, match=r"NOTIFY_MAIL_FILE=.* cannot be read"):
        channels_of(settings)


def test_settings_of_notices_are_checked_and_shown_to_nobody() -> None:
    url = "https://127.0.0.1/secret-path"
    shown = {each.name: str(each.value) for each in settings_of(load_settings({"notify_url": url}, {}))}
    assert not any("secret-path" in value for value in shown.values())
    with pytest.raises(SettingsError, match="notify-url") as refused:
        load_settings({"notify_url": "gopher://secret-path"}, {})
    assert "secret-path" not in str(refused.value)
    with pytest.raises(SettingsError, match="signs requests to FLNET_NOTIFY_URL"):
        load_settings({"notify_secret": "0123456789abcdef"}, {})
    with pytest.raises(SettingsError, match="not both"):
        load_settings({"notify_mail": "smtp://a?to=a@b", "notify_mail_file": "/x"}, {})


async def test_a_node_stops_while_a_notice_is_on_its_way() -> None:
    channel = MemoryChannel()
    channel.is_open.clear()
    async with mesh_of(1.0) as mesh:
        node = await mesh.add("z", Linear(3.0), ("a",), channel=channel)
        await mesh.full()
        node.feed.publish("trust_pending", "b waits")
        await until(lambda: channel.tries == 1)
    assert channel.sent == []
