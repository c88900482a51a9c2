"""Rounds whose updates are masked, as far as the job decides them; whole ones are in tests/simulation/test_secure.py."""

from __future__ import annotations

from flnet.aggregation.base import MERGING
from flnet.algorithms.registry import parse_rule
from flnet.params.params import PeerId
from flnet.protocol.effects import Fetch, Train
from flnet.protocol.events import Fetched, PeerSeen, Prepared, TrainingAsked
from flnet.rounds.model import MASKED
from flnet.rounds.settings import Rules
from tests.helpers import HYPER, key, params
from tests.rounds.helpers import Bench, declaration


def test_a_model_may_have_an_array_with_the_name_of_masked_updates() -> None:
    rules = Rules(averaging={MERGING: parse_rule("secure").name})
    bench = Bench(prepare=False, rules=rules)
    bench.hear(Prepared(declaration(shared=("w", MASKED)), params(w=[0, 0], masked=[1, 1])))
    for peer in ("a", "c"):
        bench.hear(PeerSeen(PeerId(peer)))
    start = params(w=[2, 2], masked=[3, 3])
    bench.hear(TrainingAsked(PeerId("a"), key(), None, HYPER, digest=start.digest, contributors=3, base_round=4))
    assert bench.one(Fetch).digest == start.digest
    bench.hear(Fetched(key(), PeerId("a"), start.digest, start))
    assert bench.one(Train).params["masked"].tolist() == [3, 3]
