from __future__ import annotations

from flnet.errors import PeerError
from flnet.web.refusals import SignInNeeded, TooManyRequests


def test_they_are_the_callers_fault_and_say_when_to_come_again() -> None:
    refusal = TooManyRequests("too often", 7)
    assert isinstance(refusal, PeerError)
    assert (refusal.status, refusal.code, refusal.details()) == (429, "too_many_requests", {"retryAfter": 7})
    assert (SignInNeeded("who?").status, SignInNeeded.code) == (401, "sign_in_needed")
