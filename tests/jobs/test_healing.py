"""A mesh whose averages differ starts the next round from one of them: every node from the same."""

from __future__ import annotations

import pytest

from flnet.events import (
    ClaimReceived,
    RoundTriggered,
)
from tests.helpers import params
from tests.jobs.helpers import Bench, asked, claim


def differing(contributors: int, w: tuple[float, float] = (7, 7)) -> Bench:
    """Our average of round 0 has 3 contributors; peer "a" showed another one."""
    bench = Bench().through_average()
    bench.hear(ClaimReceived(claim("a", accuracy=0.1, w=w, contributors=contributors)))
    bench.hear(ClaimReceived(claim("c", accuracy=0.1, w=w, contributors=1)))
    return bench


def test_the_next_start_uses_the_average_with_most_contributors() -> None:
    bench = differing(4)
    bench.hear(RoundTriggered())
    assert (bench.w, bench.state.model and bench.state.model.contributors) == ([7, 7], 4)
    bench = differing(2)
    own = bench.w
    bench.hear(RoundTriggered())
    assert bench.w == own


def test_of_equally_large_averages_the_lower_digest_is_used() -> None:
    bench = differing(3)
    ours, theirs = params(w=bench.w), params(w=[7, 7])
    bench.hear(RoundTriggered())
    assert bench.state.model is not None
    assert bench.state.model.shared.digest == min(ours.digest, theirs.digest)


def test_the_better_of_own_seen_and_started_is_used_when_a_peer_starts() -> None:
    bench = differing(4)
    bench.hear(asked("a", 1, w=[8, 8], base_round=0, contributors=9))
    assert bench.w == [8, 8]
    bench = differing(4)
    bench.hear(asked("a", 1, w=[8, 8], base_round=0, contributors=3))
    assert bench.w == [7, 7]


def test_what_was_seen_in_an_older_round_is_forgotten() -> None:
    bench = differing(9)
    bench.hear(RoundTriggered())
    assert bench.w == [7, 7]
    assert bench.state.rival is None


def test_after_the_round_is_closed_a_better_average_is_still_noticed() -> None:
    bench = Bench().through_round()
    bench.hear(ClaimReceived(claim("a", accuracy=0.1, w=[7, 7], contributors=8)))
    bench.hear(RoundTriggered())
    assert bench.w == [7, 7]


@pytest.mark.parametrize("order", ["ac", "ca"])
def test_of_equally_large_averages_that_were_seen_the_lower_digest_is_remembered(order: str) -> None:
    bench, shown = Bench().through_average(), {"a": [7, 7], "c": [8, 8]}
    for name in order:
        bench.hear(ClaimReceived(claim(name, accuracy=0.1, w=shown[name], contributors=9)))
    bench.hear(RoundTriggered())
    assert params(w=bench.w).digest == min(params(w=w).digest for w in shown.values())
