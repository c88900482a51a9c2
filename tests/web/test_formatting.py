"""."""

from __future__ import annotations

from typing import Any

import pytest

from flnet.node.event_log import FeedItem
from flnet.web.formatting import MAX_TEXT, accuracy, count, one_line
from flnet.web.page.index import event_views
from flnet.web.page.mesh import page_url


def test_text_is_one_short_line() -> None:
    assert one_line("a" * 5_000) == "a" * (MAX_TEXT - 1) + "…"
    assert one_line("a\n\n b") == "a b"
    assert one_line("a\ud800\u202eb\x00") == "a\ufffd\ufffdb\ufffd"
    assert one_line(10**5_000) == ""


@pytest.mark.parametrize(
    ("value", "words"), [(1259, "1,259"), (0, "0"), (True, ""), (-1, ""), (1.5, ""), ("1", ""), (10**15, "")]
)
def test_whole_numbers_are_counted_in_thousands(value: Any, words: str) -> None:
    assert count(value) == words


@pytest.mark.parametrize("value", [None, "0.5", True, -0.1, 1.1, float("nan"), 10**400, [0.5]])
def test_what_is_no_accuracy_is_a_dash(value: Any) -> None:
    assert accuracy(value) == "—"


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("127.0.0.1:4001", "http://127.0.0.1:4001/"),
        ("node-2.lab:4001", "http://node-2.lab:4001/"),
        ("[::1]:4001", "http://[::1]:4001/"),
        ("javascript:alert(1)", ""),
        ("evil.example/x?:80", ""),
        ("user@evil.example:80", ""),
        ("", ""),
    ],
)
def test_only_an_address_becomes_a_link(address: str, url: str) -> None:
    assert page_url(address) == url


def test_the_newest_events_come_first() -> None:
    items = [FeedItem(number, 0.0, "k", f"event {number}", "", {}) for number in range(1, 30)]
    assert [event.text for event in event_views(items, 2)] == ["event 29", "event 28"]
