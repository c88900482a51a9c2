"""Rounds whose updates are masked, as far as the job decides them; whole ones are in tests/simulation/test_secure.py."""

from __future__ import annotations

from flnet.aggregation.base import MERGING
from flnet.algorithms.registry import parse_rule
from flnet.params.params import PeerId
from flnet.protocol.effects import Fetch, Send, Train
from flnet.protocol.events import Fetched, PartReceived, PeerSeen, Prepared, TrainingAsked
from flnet.protocol.messages import ChoiceMessage, ModelParams
from flnet.protocol.secure_sum import KeysPart
from flnet.rounds.model import MASKED
from flnet.rounds.participation import Participation
from flnet.rounds.secure_round import NOT_NAMED
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


def test_who_is_not_named_by_the_choice_says_so_before_it_is_in_the_round() -> None:
    """Its vote counts until then: it could be in a group of its own."""
    rules = Rules(Participation(0.5), averaging={MERGING: parse_rule("secure").name})
    bench = Bench(peers=["a", "c", "d"], rules=rules)
    keys = KeysPart(keys="AAAA", base="0" * 64)
    for members, is_told in (
        (("a", "c", "d", "e"), True),
        (("a", "b", "c", "d"), False),
        (("e", "f", "g", "h"), False),
    ):
        choice = ChoiceMessage(members=members, take=2)
        part = PartReceived(PeerId("a"), key(5), 0, keys, bench.job.settings.stated, choice)
        sent = [effect for effect in bench.hear(part) if isinstance(effect, Send)]
        assert [send.to for send in sent] == ([("a",)] if is_told else [])
        assert all(isinstance(send.message, ModelParams) and send.message.declined == NOT_NAMED for send in sent)
