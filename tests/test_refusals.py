"""The errors that strangers meet, as they are answered."""

from __future__ import annotations

import pytest

from flnet.refusals import AddressRefused, TooManyMessages


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
