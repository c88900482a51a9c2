"""What both transports ask of a reply."""

from __future__ import annotations

import pytest

from flnet.transport.base import Reply, wait_of


def test_only_the_answer_not_ready_is_asked_again() -> None:
    assert wait_of(Reply(503, b'{"error": "not_ready", "message": "still loading"}')) == 0


def test_who_asks_too_often_comes_again_when_it_may() -> None:
    assert wait_of(Reply(429, b'{"error": "too_many_messages", "retryAfter": 3}')) == 3


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b'{"error": "not_ready"}'),
        (503, b'{"error": "overloaded"}'),
        (503, b"<html>busy</html>"),
        (503, b""),
        (503, b"\xff"),
        (503, b'["not_ready"]'),
        (503, b"[" * 60_000),
        (429, b'{"error": "too_many_messages"}'),
        (429, b'{"error": "too_many_messages", "retryAfter": -1}'),
        (429, b'{"error": "too_many_messages", "retryAfter": 1e999}'),
        (429, b'{"error": "too_many_messages", "retryAfter": 4000}'),
        (429, b'{"error": "too_many_messages", "retryAfter": "3"}'),
        (503, b'{"error": "not_ready", "x": "' + b"x" * 70_000 + b'"}'),
    ],
)
def test_other_answers_are_final(status: int, body: bytes) -> None:
    assert wait_of(Reply(status, body)) is None
