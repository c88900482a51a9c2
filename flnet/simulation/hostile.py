"""A hostile member of a simulated mesh: it says whatever may do harm, drawn from a seed.

It has the core of an honest node, so it joins, answers probes and takes part in rounds. Its moves send forged messages
besides: numbers of rounds, models to start from, claims of accuracy, news of members, orders, updates and reports. For
a while after some moves its own messages and answers are forged as well.

It sees the state of the nodes that it attacks, so that its messages fit: real attackers can read most of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, TypeVar

import numpy as np

from flnet.errors import LocalError, NotAnnounced, PeerError
from flnet.node.core import NodeCore
from flnet.params.params import Digest, Params, PeerId, TrainerId
from flnet.protocol.counts import MOST_EXAMPLES
from flnet.protocol.effects import Effect, Send, SendAnnounce
from flnet.protocol.events import Event
from flnet.protocol.messages import (
    LAST_ROUND,
    MAX_INCARNATION,
    MOST_LOSS,
    Accuracy,
    AccuracyReply,
    Announce,
    AnnounceReply,
    ChoiceMessage,
    HyperParams,
    JobMessage,
    Message,
    ModelParams,
    News,
    Packet,
    Peer,
    Probe,
    ProbeReply,
    ReportMessage,
    SeriesMessage,
    StartTraining,
    StateWord,
)
from flnet.protocol.updates import Over, RoundKey
from flnet.rounds.numbering import ERA
from flnet.simulation.clock import Died
from flnet.simulation.network import Answered
from flnet.simulation.node import Environment, SimulatedNode

MANY = 10**9  # contributors that it claims
FAR = 10**6  # round that it claims to be in
FORGING_SECONDS = 15.0  # for which its own messages and answers are forged
ORDERS = (HyperParams(e=10_000, u=0.1, b=1), HyperParams(e=20, u=0.1, b=1), HyperParams(e=1, u=1000, b=8))
STORM = 30  # starts, one soon after the other
NAMES = (1, 3, 8)  # how many it announces at once
SPOOFED = 0.2  # share of messages that it sends in the name of another node
SIGNED = 100  # claims of others that it repeats later, with their signatures
NOBODY = "0" * 64  # digest of no parameters

M = TypeVar("M", bound=JobMessage)
STATES: Sequence[StateWord] = ("left", "left", "dead", "suspect", "alive")
ENDINGS: Sequence[Over | None] = (None, "reached", "given_up", "stopped", "deadline")


class HostileCore(NodeCore):
    """A core that also serves parameters which no training made.

    Attributes:
        served: by digest.
    """

    served: dict[Digest, Params]

    def find(self, digest: Digest) -> tuple[TrainerId, Params] | None:
        """The parameters with this digest."""
        if digest in self.served:
            return next(iter(self.jobs)), self.served[digest]
        return super().find(digest)


class HostileMember(SimulatedNode):
    """A member that attacks the others.

    Attributes:
        starts: how many starts of rounds it has sent.
    """

    def __init__(
        self, core: HostileCore, environment: Environment, victims: Callable[[], list[SimulatedNode]]
    ) -> None:
        """Args:
        victims: the honest nodes that run.
        """
        super().__init__(core, environment)
        core.served = {}
        self.starts = 0
        self._serve, self._victims = core.served, victims
        self._rng = Random(0)
        self._forges_until = 0.0
        self._world = environment
        self._signed: deque[News] = deque(maxlen=SIGNED)

    def attack(self, kind: str, rng: Random) -> None:
        """Make one move of the kinds of `MOVES`."""
        if self.is_dead or self.job.settings.hyper is None or not self._victims():
            return
        self._rng = rng
        MOVES[kind](self)

    def be_silent(self) -> None:
        """Behave as an honest member from now on."""
        self._forges_until = 0.0

    # --- moves

    def lie_about_numbers(self) -> None:
        """Start rounds with numbers that are far ahead, at an edge, past, or different for each node."""
        for victim in self._some():
            own = victim.job.number
            numbers = (
                own + 1,
                own + 2,
                own + 1000,
                own,
                own - 1,
                0,
                -1,
                LAST_ROUND,
                LAST_ROUND - 1,
                LAST_ROUND + 1,
            )
            eras = (ERA, own // ERA * ERA + ERA, own // ERA * ERA + 2 * ERA)
            number = self._rng.choice((*numbers, *eras, LAST_ROUND // 2))
            kind = self._rng.choice((StartTraining, StartTraining, ModelParams, Accuracy))
            message = self._message(kind, victim, number, digest=NOBODY, **_required(kind))
            self.say(victim, message, self._sound_params())

    def lie_about_bases(self) -> None:
        """Start the next round from a model that claims to be the mesh's best."""
        rng, params = self._rng, self._harmful_params()
        served, digest = rng.random(), params.digest
        if served < 0.6:
            self._serve[digest] = params
        for victim in self._some():
            own = victim.job.number
            held = [*victim.models] or [digest]
            fields = {
                "base_round": rng.choice((own, own + 5, FAR, LAST_ROUND, -1)),
                "contributors": rng.choice((MANY, MANY, 0, 3)),
                "restored_at": rng.choice((None, None, own, FAR)),
                "digest": rng.choice((digest, digest, digest, rng.choice(held))),
            }
            is_inline = served >= 0.6 and rng.random() < 0.7
            message = self._message(StartTraining, victim, own + 1, **fields)
            self.say(victim, message, params if is_inline else None)

    def lie_about_accuracy(self) -> None:
        """Claim a perfect average of many updates."""
        rng, params = self._rng, self._harmful_params()
        if rng.random() < 0.7:
            self._serve[params.digest] = params
        for victim in self._some():
            number = victim.job.number + rng.choice((0, 0, 0, 1, -1))
            fields = {
                "accuracy": rng.choice((1.0, 1.0, 0.0)),
                "contributors": rng.choice((MANY, MANY, 0, 1)),
                "digest": params.digest,
                "report": self._report() if rng.random() < 0.3 else None,
            }
            message = self._message(Accuracy, victim, number, **fields)
            self.say(victim, message, params if rng.random() < 0.5 else None)

    def lie_about_members(self) -> None:
        """Tell news of members that are wrong, with probes or announcements."""
        for victim in self._some():
            news = [self._news() for _ in range(self._rng.choice((1, 3, 10)))]
            me = self._claimed_peer()
            incarnation = self._incarnation()
            if self._rng.random() < 0.5:
                target = self._rng.choice((None, None, self._member()))
                told = self._rng.choice((None, None, self._member().id))
                message: Message = Probe(
                    i_am=me,
                    incarnation=incarnation,
                    news=news,
                    target=target,
                    reached=told,
                    missed=self._rng.choice((None, self._member().id)),
                    key=self.core.members.key,
                )
            else:
                message = Announce(
                    i_am=me,
                    my_known_peers=[self._invented_peer() for _ in range(3)],
                    incarnation=incarnation,
                    members=news,
                    key=self.core.members.key,
                )
            self.say(victim, message)

    def invent_members(self) -> None:
        """Announce many nodes that do not exist, or names of others, at addresses that may be others'."""
        for victim in self._some():
            for _ in range(self._rng.choice(NAMES)):
                me = self._invented_peer()
                self.say(
                    victim, Announce(i_am=me, accepts=(), incarnation=0, members=[], key=self.core.members.key)
                )

    def give_orders(self) -> None:
        """Start a round with orders that cost much, never end, or leave others out."""
        rng = self._rng
        for victim in self._some():
            names = [node.id for node in self._victims()]
            number = victim.job.number + 1
            series = SeriesMessage(
                by=self.id,
                first=min(number, LAST_ROUND),
                until="accuracy>=1",
                rounds=1_000_000,
                hyper=(None, *ORDERS)[number % 4],
            )
            left_out = ChoiceMessage(members=(self.id, *names), take=1)
            mine = ChoiceMessage(members=(self.id,), take=1)
            fields = {
                "federated_learning_params": rng.choice(ORDERS),
                "series": rng.choice((None, series)),
                "choice": rng.choice((None, left_out, mine)),
                "digest": rng.choice((victim.job.held.digest, NOBODY)),
            }
            self.say(victim, self._message(StartTraining, victim, number, **fields))

    def storm(self) -> None:
        """Start one round after the other, faster than any can be trained."""
        rng, pause = self._rng, self._rng.choice((0.02, 0.1, 0.3))
        victims = self._some()

        def again(left: int) -> None:
            for victim in victims:
                if not victim.is_dead and not self.is_dead:
                    digest = victim.job.held.digest
                    self.say(victim, self._message(StartTraining, victim, victim.job.number + 1, digest=digest))
            if left:
                self._world.clock.after(pause, lambda: again(left - 1), background=True)

        again(rng.choice((5, STORM)))

    def send_updates(self) -> None:
        """Send updates that are unsound, scaled, of other rounds, or late."""
        for victim in self._some():
            rng, key = self._rng, victim.job.key
            number = victim.job.number + rng.choice((0, 0, 0, 1, -1, FAR))
            params = rng.choice((self._unsound_params, self._harmful_params, self._sound_params))()
            is_served = rng.random() < 0.3
            if is_served:
                self._serve[params.digest] = params
            fields = {
                "initiator": key.initiator if key and rng.random() < 0.8 else self.id,
                "examples": rng.choice((1, 100, 10**12)),
                "accuracy": rng.random(),
                "digest": rng.choice((params.digest, NOBODY)),
                "seconds": rng.choice((None, 0.0, 1e9)),
                "staleness": rng.choice((None, None, 1000)),
                "declined": "no" if rng.random() < 0.15 else None,
                "late": rng.choice((None, None, True)),
            }
            self.say(victim, self._message(ModelParams, victim, number, **fields), None if is_served else params)

    def report(self) -> None:
        """Report in a series of others that it is over, or never will be."""
        for victim in self._some():
            fields = {"accuracy": 1.0, "contributors": 1, "digest": NOBODY, "report": self._report()}
            self.say(victim, self._message(Accuracy, victim, victim.job.number, **fields))

    def forge(self) -> None:
        """Forge its own messages and answers for a while."""
        self._forges_until = self._world.clock.now + FORGING_SECONDS

    # --- what it says

    def ask(self, owner: TrainerId | None, event: Event, answered: Answered) -> None:
        """Handle an event, and forge the answer."""
        news = getattr(event, "news", getattr(event, "members", ()))
        self._signed += [item for item in news if item.signature]
        super().ask(owner, event, lambda reply: answered(self._forged_reply(reply)))

    def _perform(self, owner: TrainerId | None, effect: Effect) -> None:
        if self._forges and isinstance(effect, Send) and effect.message.carries_params:
            effect = self._forged(effect)
        super()._perform(owner, effect)

    @property
    def _forges(self) -> bool:
        return self._world.clock.now < self._forges_until

    def _forged(self, effect: Send) -> Send:
        """The same message with harmful figures; an update may be another one for each node that gets it."""
        params, message = self._harmful_params(), effect.message
        if self._rng.random() < 0.5:
            params = effect.params or params
        changes: dict[str, Any] = {"digest": params.digest} if hasattr(message, "digest") else {}
        if isinstance(message, StartTraining):
            changes |= {"base_round": FAR, "contributors": MANY}
        elif isinstance(message, Accuracy):
            changes |= {"accuracy": 1.0, "contributors": MANY}
        elif isinstance(message, ModelParams) and message.declined is None:
            changes |= {"examples": 10**12}
        self._serve[params.digest] = params
        return replace(effect, message=message.model_copy(update=changes), params=params)

    def _forged_reply(self, reply: Packet | PeerError | Died | None) -> Packet | PeerError | Died | None:
        if not self._forges or not isinstance(reply, Packet):
            return reply
        message, params = reply.message, reply.params
        match message:
            case ProbeReply():
                news = [self._news() for _ in range(3)]
                changes: dict[str, Any] = {"incarnation": self._incarnation(), "news": news}
            case AnnounceReply():
                peers = [self._invented_peer() for _ in range(10)]
                news = [self._news() for _ in range(3)]
                changes = {"announce_yourself_to_peers": peers, "members": news}
            case AccuracyReply():
                params = self._harmful_params()
                self._serve[params.digest] = params
                changes = {
                    "accuracy": 1.0,
                    "contributors": MANY,
                    "digest": params.digest,
                    "report": self._report(),
                }
            case _:
                changes = {"round": LAST_ROUND - 1} if hasattr(message, "round") else {}
        return Packet(message.model_copy(update=changes), params)

    def _message(self, kind: type[M], victim: SimulatedNode, number: int, /, **fields: Any) -> M:
        """A message about a round that looks like one of a member, whatever its figures."""
        own = self.job.settings.message(kind, RoundKey(0, self._initiator(victim)), **_required(kind))
        changes = {"round": number, "i_am": self._claimed_peer(), **fields}
        if isinstance(own, StartTraining | ModelParams):
            changes.setdefault("choice", self._members(victim))
        if isinstance(own, StartTraining):
            self.starts += 1
            changes.setdefault("initiator", changes["i_am"].id)
            changes.setdefault("run", f"run of {self.id} {self.starts}")
        return own.model_copy(update=changes)

    def say(self, victim: SimulatedNode, message: Message, params: Params | None = None) -> None:
        """Send a message to a node; a node that does not know this one gets an announcement first."""
        network = self._world.network
        try:
            signed = self.claims.signed(message) if self.claims else message
            body = network.encode(Packet(signed, params))
        except LocalError:
            return  # it cannot even be written

        def answered(reply: object) -> None:
            if isinstance(reply, NotAnnounced) and not self.is_dead:
                introduction: SendAnnounce = self.core.members.introduction(victim.address)
                self._world.calls.announce(self, introduction)

        network.carry(self, victim.address, message.path, body, answered, lambda: None, background=True)

    # --- what it draws

    def _some(self) -> Sequence[SimulatedNode]:
        """Some of the nodes to attack, most often all."""
        victims = self._victims()
        count = self._rng.choice((1, len(victims), len(victims)))
        return self._rng.sample(victims, count)

    def _member(self) -> Peer:
        return self._rng.choice(self._victims()).core.me

    def _initiator(self, victim: SimulatedNode) -> PeerId:
        key = victim.job.key
        return key.initiator if key is not None and self._rng.random() < 0.5 else self.id

    def _claimed_peer(self) -> Peer:
        """Its own name, or that of another node, at its own address or at another one."""
        me = self.core.me
        if self._rng.random() >= SPOOFED:
            return me
        other = self._member()
        return self._rng.choice(
            (other, Peer(id=other.id, ip=me.ip, port=me.port), Peer(id=me.id, ip=other.ip, port=4000))
        )

    def _invented_peer(self) -> Peer:
        name = PeerId(f"{self._rng.choice('amz')}{self._rng.randrange(10**6)}")
        ip = self._rng.choice((self.core.me.ip, self._member().ip, f"10.9.{self._rng.randrange(250)}.1"))
        return Peer(id=name, ip=ip, port=self._rng.choice((4000, 4000, 4001)))

    def _members(self, victim: SimulatedNode) -> ChoiceMessage | None:
        """Who takes part in a round, as a node that is to follow believes it; half of the time nothing is said of that."""
        participation = victim.job.settings.rules.participation
        if not participation.names_all or self._rng.random() < 0.5:
            return None
        return participation.choice_of({self.id, *(node.id for node in self._victims())})

    def _incarnation(self) -> int:
        return self._rng.choice((0, 0, 1, 5, MAX_INCARNATION - 1, MAX_INCARNATION))

    def _news(self) -> News:
        rng, about = self._rng, self._rng.choice((self._member(), self._member(), self._invented_peer()))
        state = rng.choice(STATES)
        by = rng.choice((None, self.id, self._member().id))
        number = self._incarnation()
        news = News(id=about.id, ip=about.ip, port=about.port, state=state, incarnation=number, by=by)
        if not self._signed or rng.random() < 0.5:
            return news
        old = rng.choice(self._signed)
        forged = news.model_copy(update={"signature": old.signature})
        return rng.choice((old, forged, old.model_copy(update={"incarnation": number})))

    def _report(self) -> ReportMessage:
        accuracy = self._rng.choice((0.0, 1.0))
        loss = MOST_LOSS if accuracy else -MOST_LOSS
        return ReportMessage(accuracy=accuracy, loss=loss, over=self._rng.choice(ENDINGS), examples=MOST_EXAMPLES)

    def _sound_params(self) -> Params:
        model = self.job.held.model
        assert model is not None
        return model.shared

    def _harmful_params(self) -> Params:
        """Parameters of the right form whose accuracy is bad on every node."""
        value = self._rng.choice((-50.0, 0.0, 1e6, -1e30)) + self._rng.random()
        return Params({name: np.full_like(array, value) for name, array in self._sound_params().items()})

    def _unsound_params(self) -> Params:
        names = list(self._sound_params())
        match self._rng.randrange(3):
            case 0:
                return Params({name: np.full_like(array, np.inf) for name, array in self._sound_params().items()})
            case 1:
                return Params({name: np.zeros(5, np.float32) for name in names})
            case _:
                return Params({"other": np.zeros(3, np.float32)})


def _required(kind: type[Message]) -> Mapping[str, Any]:
    return {"accuracy": 1.0} if kind is Accuracy else {}


MOVES: Mapping[str, Callable[[HostileMember], None]] = {
    "lie about numbers": HostileMember.lie_about_numbers,
    "lie about bases": HostileMember.lie_about_bases,
    "lie about accuracy": HostileMember.lie_about_accuracy,
    "lie about members": HostileMember.lie_about_members,
    "invent members": HostileMember.invent_members,
    "give orders": HostileMember.give_orders,
    "storm": HostileMember.storm,
    "send updates": HostileMember.send_updates,
    "report": HostileMember.report,
    "forge": HostileMember.forge,
}
