"""The errors that strangers meet, as they are answered."""

from __future__ import annotations

import pytest

from flnet.refusals import AddressRefused, NotAnnounced, TooManyMessages


@pytest.mark.parametrize(("seconds", "said"), [(0.02, 1), (1.0, 1), (1.1, 2), (30, 30)])
def test_who_asks_too_often_is_told_when_to_come_again(seconds: float, said: int) -> None:
    error = TooManyMessages(seconds)
    assert error.status == 429
    assert error.details() == {"retryAfter": said}
    assert f"again in {said} s" in error.message


def test_a_refused_address_is_named_with_the_reason() -> None:
    error = AddressRefused("10.0.0.1:22", "ports below 1024 belong to other services")
    assert error.status == 403
    assert error.message == "this node calls nobody at 10.0.0.1:22: ports below 1024 belong to other services"


def test_who_is_not_known_is_told_what_to_do_first() -> None:
    error = NotAnnounced("x")
    assert (error.status, error.code) == (403, "not_announced")
    assert error.message == "this node does not know 'x'; announce it first with POST /announce"
