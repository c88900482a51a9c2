"""What both transports ask of a reply."""

from __future__ import annotations

import pytest

from flnet.transport.base import Reply, is_not_ready


def test_only_the_answer_not_ready_is_asked_again() -> None:
    assert is_not_ready(Reply(503, b'{"error": "not_ready", "message": "still loading"}'))


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
        (503, b'{"error": "not_ready", "x": "' + b"x" * 70_000 + b'"}'),
    ],
)
def test_other_answers_are_final(status: int, body: bytes) -> None:
    assert not is_not_ready(Reply(status, body))
