"""Short runs of a job around rounds for which this node may not be chosen, for the table of steps."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from flnet.effects import Evaluate
from flnet.errors import StaleRound
from flnet.events import ClaimReceived, EvaluationFailed, Fetched, PeerLost, RoundTriggered, SendRefused
from flnet.jobs import Rules
from flnet.messages import ChoiceMessage, StartTraining
from flnet.params import PeerId
from flnet.policies import Participation
from tests.helpers import key, params
from tests.jobs.helpers import Bench, came, claim, declined

A = PeerId("a")
SOME = Rules(Participation(0.3, 1))  # one of three nodes trains


class Others(Participation):
    """Whoever starts a round, it is always a that trains."""

    def choice_of(self, members: Collection[PeerId]) -> ChoiceMessage:
        return ChoiceMessage(members=("a",), take=1)


OTHERS = Rules(Others())


def a_better_model_of_the_exchange_is_no_good(bench: Bench) -> None:
    bench.hear(RoundTriggered(rounds=3))
    for number in (0, 1):
        bench.train()
        bench.hear(came("a", number, "b"))
        bench.average()
        bench.measure()
        better = claim("a", number, accuracy=0.99)
        bench.hear(ClaimReceived(replace(better, params=None) if number else better))
        bench.hear(Fetched(key(number, "b"), A, better.digest or params().digest, params(w=[1])))
        bench.hear(EvaluationFailed(key(number, "b"), better.digest or params().digest, "killed"))


def the_only_peer_is_lost_while_the_average_is_measured(bench: Bench) -> None:
    bench.hear(RoundTriggered(rounds=2))
    bench.train()
    bench.hear(came("a", 0, "b"))
    bench.average()
    measure = bench.one(Evaluate)
    bench.hear(PeerLost(A, "silent"))
    bench.effects = [measure]
    bench.measure()


def the_only_peer_is_lost_in_the_exchange(bench: Bench) -> None:
    bench.hear(RoundTriggered(rounds=2))
    bench.train()
    bench.hear(came("a", 0, "b"))
    bench.average()
    bench.measure()
    bench.hear(PeerLost(A, "silent"))


def a_round_that_was_begun_before_ends_by_what_was_said_then(bench: Bench) -> None:
    """This node was started again without its memory: who is chosen took no part in its round 0, and says so."""
    bench.state.rules = OTHERS
    bench.hear(RoundTriggered())
    bench.hear(declined("a", 0, "b"))
    bench.hear(SendRefused(A, StartTraining.path, key(0, "b"), 409, StaleRound.code, "over", 0))


CHOOSING: list[Callable[[Bench], None]] = [
    a_better_model_of_the_exchange_is_no_good,
    the_only_peer_is_lost_while_the_average_is_measured,
    the_only_peer_is_lost_in_the_exchange,
    a_round_that_was_begun_before_ends_by_what_was_said_then,
]
