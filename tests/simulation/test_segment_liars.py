"""Meshes whose updates are averaged in segments by three owners, with a member that lies: the others get the right bits."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest

from flnet.aggregation.base import RoundStart
from flnet.algorithms.topology import Topology
from flnet.params.params import Digest, Params, PeerId, TrainerId
from flnet.protocol.effects import Fetch, Send
from flnet.protocol.events import FetchFailed
from flnet.protocol.messages import ModelParams
from flnet.protocol.secure_sum import AcceptPart, PreparePart, PromisePart, ProposePart, SecurePart
from flnet.protocol.segments import SegmentsMessage, SumPart
from flnet.protocol.updates import Update
from flnet.rounds.history import RoundRecord
from flnet.rounds.participation import Participation
from flnet.rounds.segment_disputes import TWO_UPDATES
from flnet.rounds.segmented_round import SegmentedRound
from flnet.rounds.settings import Rules
from flnet.rounds.voted_segments import VotedSegments
from flnet.simulation.cluster import Cluster
from flnet.simulation.hostile_play import HonestSegmentLedger
from flnet.simulation.invariants import InvariantBroken
from flnet.simulation.node import TRAINER
from flnet.simulation.schedule import Faults
from tests.simulation.helpers import seeds

DIGEST = "f" * 64
Said = list[tuple[Sequence[PeerId], SecurePart]]  # (to whom, part)
MOST_AVERAGES = 4  # timeouts of an average in which a round closes


class Liar:
    """Changes what a node of a simulated mesh sends and serves."""

    def __init__(self, cluster: Cluster, name: PeerId, rng: Random) -> None:
        self.cluster, self.node, self.rng = cluster, cluster.nodes[name], rng
        self.others = sorted(set(cluster.nodes) - {name})
        self.some = self.others[: len(self.others) // 2]
        self.served: dict[Digest, Params] = {}
        self.others_told: list[Update] = []  # its updates besides the one that it trained

    def says(self, part: SecurePart, to: Sequence[PeerId]) -> Said:
        """What it says in place of a part: to whom, and the part."""
        return [(to, part)]

    def hears(self, sender: PeerId, part: SecurePart) -> Said:
        """What it says when another node says something."""
        return []

    def offers(self, effect: Send) -> list[Send]:
        """What it sends in place of the offer of its update."""
        return [effect]

    def finds(self, digest: Digest, params: Params | None) -> Params | None:
        """What it serves in place of parameters."""
        return self.served.get(digest, params)

    def refuses(self, to: PeerId) -> bool:
        """Whether it serves a node nothing."""
        return False

    @property
    def sum(self) -> VotedSegments | None:
        """Its honest part in the open round."""
        round = self.node.job.round
        return round.sum if isinstance(round, SegmentedRound) else None

    def other_params(self, params: Params) -> Params:
        """Parameters of the same form, which it serves, too."""
        other = Params({name: array + np.float32(self.rng.random()) for name, array in params.items()})
        self.served[other.digest] = other
        return other

    def other_sum(self, part: SumPart) -> SumPart:
        """A statement of other results, which it serves."""
        results = []
        for result in part.results:
            made = self.node.core.find(Digest(result.digest))
            digest = DIGEST if made is None else self.other_params(made[1]).digest
            results.append(result.model_copy(update={"digest": digest}))
        return part.model_copy(update={"results": tuple(results)})

    def other_offer(self, effect: Send) -> Send:
        """The offer of another update, of which it serves all segments."""
        message, own = effect.message, self.node.job.held.own
        assert isinstance(message, ModelParams) and own is not None and self.sum is not None
        other = self.other_params(own.params)
        cut = self.sum._segments.cut(other)
        self.served |= {segment.digest: segment for segment in cut}
        self.others_told.append(replace(own, params=other))
        fields = {"segments": tuple(segment.digest for segment in cut), "digest": other.digest}
        return Send(effect.to, message.model_copy(update=fields))


class Honest(Liar):
    """It does not lie."""


class StatesWrongSums(Liar):
    """It states another result of each segment than it made, and serves that."""

    def says(self, part: SecurePart, to: Sequence[PeerId]) -> Said:
        return [(to, self.other_sum(part) if isinstance(part, SumPart) else part)]


class StatesAgreedSums(Liar):
    """It states the same wrong results as all others of its kind."""

    def other_params(self, params: Params) -> Params:
        other = Params({name: array + np.float32(1) for name, array in params.items()})
        self.served[other.digest] = other
        return other

    def says(self, part: SecurePart, to: Sequence[PeerId]) -> Said:
        return [(to, self.other_sum(part) if isinstance(part, SumPart) else part)]


class StatesTwoSums(Liar):
    """It states one result to some nodes, and another one to the rest."""

    def says(self, part: SecurePart, to: Sequence[PeerId]) -> Said:
        if not isinstance(part, SumPart):
            return [(to, part)]
        return [
            ([p for p in to if p in self.some], self.other_sum(part)),
            ([p for p in to if p not in self.some], part),
        ]


class StatesStaleSums(Liar):
    """It states results of other contributors than those that were settled."""

    def says(self, part: SecurePart, to: Sequence[PeerId]) -> Said:
        return [(to, part.model_copy(update={"contributors": DIGEST}) if isinstance(part, SumPart) else part)]


class SaysNothing(Liar):
    """It offers its update, and takes no part in the conversation."""

    def says(self, part: SecurePart, to: Sequence[PeerId]) -> Said:
        return []


class StatesNothing(Liar):
    """It votes, and states no results."""

    def says(self, part: SecurePart, to: Sequence[PeerId]) -> Said:
        return [] if isinstance(part, SumPart) else [(to, part)]


class ServesWrongBytes(Liar):
    """All that it serves has other bytes than its digest says."""

    def finds(self, digest: Digest, params: Params | None) -> Params | None:
        return None if params is None else self.other_params(params)


class ServesSome(Liar):
    """It serves some nodes, and not the rest."""

    def refuses(self, to: PeerId) -> bool:
        return to not in self.some


class ServesOne(Liar):
    """It serves one node, and not the rest."""

    def refuses(self, to: PeerId) -> bool:
        return to != self.others[0]


class OffersTwoUpdates(Liar):
    """It offers one update to some nodes, and another one to the rest."""

    def offers(self, effect: Send) -> list[Send]:
        if not self.others_told:
            self.other = self.other_offer(effect).message
        first = tuple(p for p in effect.to if p in self.some)
        rest = tuple(p for p in effect.to if p not in self.some)
        return [Send(first, effect.message), Send(rest, self.other)]


class OffersOneAnother(OffersTwoUpdates):
    """It offers all nodes the same update, but one."""

    def __init__(self, cluster: Cluster, name: PeerId, rng: Random) -> None:
        super().__init__(cluster, name, rng)
        self.some = self.others[:1]


class OffersNothing(Liar):
    """It proposes an update of its own that nobody was offered, when it leads."""

    def offers(self, effect: Send) -> list[Send]:
        return []

    def says(self, part: SecurePart, to: Sequence[PeerId]) -> Said:
        if isinstance(part, ProposePart):
            return [(to, part.model_copy(update={"contributors": {**part.contributors, self.node.id: DIGEST}}))]
        return [(to, part)]


class ProposesTwoSets(Liar):
    """It leads whenever it may, and proposes one set of contributors to some nodes, and another one to the rest."""

    def says(self, part: SecurePart, to: Sequence[PeerId]) -> Said:
        if not isinstance(part, ProposePart | AcceptPart):
            return [(to, part)]
        fewer = part.model_copy(update={"contributors": dict(sorted(part.contributors.items())[1:])})
        return [([p for p in to if p in self.some], part), ([p for p in to if p not in self.some], fewer)]


class SaysItHasNothing(Liar):
    """It claims in the vote that it holds nothing."""

    def says(self, part: SecurePart, to: Sequence[PeerId]) -> Said:
        return [(to, part.model_copy(update={"held": None}) if isinstance(part, PromisePart) else part)]


class TakesBallots(Liar):
    """It asks for promises under a ballot of its own whenever another member asks."""

    def hears(self, sender: PeerId, part: SecurePart) -> Said:
        if not isinstance(part, PreparePart):
            return []
        count, place = len(self.others) + 1, sorted([*self.others, self.node.id]).index(self.node.id)
        ballot = 1 + place + ((part.ballot - 1) // count + 1) * count
        return [(self.others, PreparePart(group=part.group, ballot=ballot))]


class Leaves(Liar):
    """It declines the round after it has offered its update."""

    def offers(self, effect: Send) -> list[Send]:
        message = effect.message
        assert isinstance(message, ModelParams)
        fields = {"declined": "no", "segments": None, "digest": None, "examples": 0, "accuracy": None}
        return [effect, Send(effect.to, message.model_copy(update=fields))]


LIARS: list[type[Liar]] = [
    *(StatesWrongSums, StatesTwoSums, StatesStaleSums, SaysNothing, StatesNothing, ServesWrongBytes, ServesSome),
    *(ServesOne, OffersTwoUpdates, OffersOneAnother, OffersNothing, ProposesTwoSets, SaysItHasNothing),
    *(TakesBallots, Leaves),
]


def lying(liar: Liar) -> None:
    """Let a node of a mesh lie in this way."""
    cluster, send, find = liar.cluster, liar.cluster.calls.send, liar.node.core.find
    fetch = cluster.calls.fetch

    def say(said: Said, like: SegmentsMessage) -> None:
        for to, part in said:
            message = like.model_copy(update={"i_am": liar.node.core.me, "part": part})
            send(liar.node, TRAINER, Send(tuple(to), message))

    def sends(node: Any, owner: TrainerId, effect: Send) -> None:
        message = effect.message
        if node is liar.node and isinstance(message, SegmentsMessage):
            say(liar.says(message.part, effect.to), message)
        elif node is liar.node and isinstance(message, ModelParams) and message.segments:
            for changed in liar.offers(effect):
                send(node, owner, changed)
        else:
            send(node, owner, effect)
            if isinstance(message, SegmentsMessage) and liar.node.id in effect.to:
                say(liar.hears(node.id, message.part), message)

    def fetches(node: Any, owner: TrainerId, effect: Fetch) -> None:
        if effect.peer == liar.node.id and liar.refuses(node.id):
            failed = FetchFailed(effect.key, effect.peer, effect.digest, "no")
            cluster.clock.after(0.1, lambda: node.tell(owner, failed))
        else:
            fetch(node, owner, effect)

    def finds(digest: Digest) -> tuple[TrainerId, Params] | None:
        held = find(digest)
        params = liar.finds(digest, held[1] if held else None)
        return None if params is None else (TRAINER, params)

    cluster.calls.send = sends  # type: ignore[method-assign]
    cluster.calls.fetch = fetches  # type: ignore[method-assign]
    liar.node.core.find = finds  # type: ignore[method-assign]


class Round(NamedTuple):
    """What came of one round at the honest nodes: who lied, the records of the others, and what averages may be."""

    liars: set[PeerId]
    records: dict[PeerId, RoundRecord]
    right: set[Digest]


def right_averages(liars: Sequence[Liar], peers: Sequence[PeerId], number: int, model: Params) -> set[Digest]:
    """The averages of whole updates: those of honest nodes, and of each liar one that it told of."""
    cluster = liars[0].cluster
    told = {peer: [node.job.held.own] for peer, node in cluster.nodes.items()}
    for liar in liars:
        told[liar.node.id] += liar.others_told
    schema, digests = liars[0].node.job.held.schema, set()
    for updates in itertools.product(*(told[peer] for peer in sorted(peers))):
        assert all(update is not None and update.key.number == number for update in updates)
        merged = cluster.strategy.merge(None, RoundStart(schema, model), updates)  # type: ignore[arg-type]
        digests.add(merged.params.digest)
    return digests


def play(
    seed: int,
    kinds: Sequence[type[Liar]],
    size: int,
    faults: Faults | None = None,
    *,
    is_keyed: bool = False,
    copies: int = 3,
) -> list[Round]:
    """Play two rounds with liars, which keep no honest node in a round for longer than the timers."""
    rng = Random(f"{seed} {[kind.__name__ for kind in kinds]}")
    names = [PeerId(f"n{i:02}") for i in range(size)]
    chosen = rng.sample(names, len(kinds))
    starter = rng.choice((chosen[0], rng.choice(names)))
    rules = Rules(Participation(1.0, names_all=True), topology=Topology("segments", copies))
    cluster = Cluster(
        size, seed, rules=rules, ledger=HonestSegmentLedger(set(chosen), is_keyed), is_keyed=is_keyed
    )
    cluster.start()
    cluster.run_for(60)
    liars = [kind(cluster, name, rng) for kind, name in zip(kinds, chosen, strict=True)]
    for liar in liars:
        lying(liar)
    cluster.faults = faults or cluster.faults
    played = []
    for number in range(2):
        model = cluster.nodes[starter].job.held.current.shared
        assert cluster.trigger(starter)
        assert cluster.run_until_idle(MOST_AVERAGES * 30), cluster.busy()
        records = {node.id: node.job.history.records[-1] for node in cluster.alive if node.id not in chosen}
        made = {record.contributors for record in records.values() if record.digest and record.taken_from is None}
        right = {digest for peers in made for digest in right_averages(liars, peers, number, model)}
        played.append(Round(set(chosen), records, right))
        for liar in liars:
            liar.others_told.clear()
    return played


def check(played: Round) -> None:
    """Check that all honest nodes end with the right bits, and blame no honest node."""
    assert len({record.digest for record in played.records.values()}) == 1
    for record in played.records.values():
        assert record.digest in played.right
        assert record.taken_from or set(record.contributors) >= played.records.keys()
        assert record.disputed.keys() <= played.liars


@pytest.mark.parametrize("seed", seeds(1, 10))
@pytest.mark.parametrize("is_keyed", [False, True])
@pytest.mark.parametrize("kind", [Honest, *LIARS])
def test_one_liar_of_three_owners_changes_nothing(kind: type[Liar], is_keyed: bool, seed: int) -> None:
    for played in play(seed, [kind], 4 + seed % 4, is_keyed=is_keyed):
        check(played)


@pytest.mark.parametrize("seed", seeds(3, 300))
def test_one_liar_under_faults_gives_no_node_wrong_bits(seed: int) -> None:
    rng = Random(f"{seed} liars")
    kind, size = rng.choice(LIARS), rng.choice((4, 5, 5, 6, 7, 8))
    faults = Faults(
        delay=(0.001, rng.choice((0.05, 0.5, 2.0))),
        lose_request=rng.choice((0, 0, 0.1)),
        lose_reply=rng.choice((0, 0, 0.1)),
        duplicate=rng.choice((0, 0.2)),
        fail_fetch=rng.choice((0, 0, 0.2)),
    )
    for played in play(seed, [kind], size, faults, is_keyed=rng.random() < 0.5):
        for record in played.records.values():
            assert record.digest is None or record.digest in played.right
            is_proven = kind is ProposesTwoSets  # who was lied to in the vote may be suspected, too
            blamed = {peer for peer, why in record.disputed.items() if why["statements"] or not is_proven}
            assert blamed <= played.liars


@pytest.mark.parametrize("seed", seeds(1, 30))
@pytest.mark.parametrize("kinds", [(StatesAgreedSums, StatesAgreedSums), ()])
def test_two_liars_of_five_owners_change_nothing(kinds: tuple[type[Liar], ...], seed: int) -> None:
    rng = Random(f"{seed} two")
    for played in play(seed, kinds or rng.choices(LIARS, k=2), rng.choice((7, 8, 9)), is_keyed=True, copies=5):
        check(played)


def test_two_liars_of_three_owners_make_an_average_that_the_ledger_finds_wrong() -> None:
    with pytest.raises(InvariantBroken, match="a full mesh"):
        play(1, [StatesAgreedSums, StatesAgreedSums], 5, is_keyed=True)


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("kind", [StatesStaleSums, StatesNothing])
def test_who_states_no_result_of_what_was_settled_is_replaced(kind: type[Liar], copies: int) -> None:
    for played in play(1, [kind], 4, copies=copies):
        check(played)


@pytest.mark.parametrize("seed", seeds(3, 60))
@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("kind", [OffersTwoUpdates, OffersOneAnother])
def test_who_signs_two_updates_is_left_out_and_named_by_all_however_few_owners_there_are(
    kind: type[Liar], copies: int, seed: int
) -> None:
    for played in play(seed, [kind], 3 + seed % 5, is_keyed=True, copies=copies):
        check(played)
        (liar,) = played.liars
        for record in played.records.values():
            assert set(record.contributors) == played.records.keys()
            assert record.left_out == {liar: TWO_UPDATES}
            assert len(record.disputed[liar]["statements"]) == 2


@pytest.mark.parametrize("seed", seeds(4, 60))
@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("kind", [OffersTwoUpdates, OffersOneAnother])
def test_where_nothing_is_signed_one_of_two_updates_counts_or_none(
    kind: type[Liar], copies: int, seed: int
) -> None:
    for played in play(seed, [kind], 3 + seed % 5, copies=copies):
        check(played)
        (liar,) = played.liars
        made = [record for record in played.records.values() if not record.taken_from]
        assert len({liar in record.contributors for record in made}) == 1
        for record in played.records.values():  # who was told of another one suspects it, where one counts
            assert not record.disputed or (liar in record.contributors and not record.disputed[liar]["statements"])


def test_where_two_owners_differ_a_third_one_decides() -> None:
    for played in play(1, [StatesWrongSums], 4, copies=2):
        check(played)


@pytest.mark.parametrize("is_keyed", [False, True])
@pytest.mark.parametrize("kind", [StatesWrongSums, StatesStaleSums, StatesTwoSums, OffersTwoUpdates])
def test_the_liar_is_named_by_all_where_it_signs_and_by_those_it_lied_to_where_it_does_not(
    kind: type[Liar], is_keyed: bool
) -> None:
    for played in play(1, [kind], 5, is_keyed=is_keyed):
        (liar,) = played.liars
        named = {name: record.disputed.get(liar) for name, record in played.records.items()}
        assert any(named.values())
        assert all(named.values()) or not is_keyed
        is_proof = is_keyed and kind is not StatesStaleSums  # who averages other updates may have been lied to
        assert all(bool(dispute["statements"]) == is_proof for dispute in named.values() if dispute)
        if is_keyed and kind is OffersTwoUpdates:
            assert all(liar not in record.contributors for record in played.records.values())
            assert all(record.left_out == {liar: TWO_UPDATES} for record in played.records.values())
