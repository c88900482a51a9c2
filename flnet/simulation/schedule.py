"""Schedules: the actions and random faults of a simulated run, drawn from a seed, and the reduction of a schedule."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from random import Random

from flnet.aggregation.base import MERGING
from flnet.aggregation.screening import Bounds
from flnet.algorithms.registry import SECURE, USUAL, parse_rule
from flnet.algorithms.topology import Topology
from flnet.membership.probing import Pauses
from flnet.rounds.participation import Participation
from flnet.rounds.settings import Rules, Waits


@dataclass(frozen=True)
class Faults:
    """Random faults: probabilities in [0, 1], and durations in seconds.

    Faults that happen at a certain moment (cuts, crashes, broken disks) are actions of a schedule; see schedule.py.

    Attributes:
        delay: shortest and longest time of a message in transit; if they differ, messages overtake each other.
        lose_request: a message is lost; its sender notices after `give_up`.
        lose_reply: a message is handled, but its sender believes that it was lost.
        duplicate: a message arrives twice.
        corrupt: one byte of a request, a reply or a fetched model is wrong.
        fail_training: a local training fails.
        training: shortest and longest local training.
        saving: shortest and longest save; events that come during a save wait for it.
        give_up: time until the sender of a lost message notices.
        digests: share of the nodes that name models by digest and fetch them; the others send whole models.
        push_bytes: those nodes offer updates that are larger than this, and let peers fetch them.
        fail_fetch: a fetch fails.
    """

    delay: tuple[float, float] = (0.001, 0.05)
    lose_request: float = 0.0
    lose_reply: float = 0.0
    duplicate: float = 0.0
    corrupt: float = 0.0
    fail_training: float = 0.0
    training: tuple[float, float] = (0.5, 3.0)
    saving: tuple[float, float] = (0.0, 0.0)
    give_up: float = 5.0
    digests: float = 0.0
    push_bytes: int = 0
    fail_fetch: float = 0.0

    @property
    def is_calm(self) -> bool:
        """Whether every message arrives intact before a probe times out."""
        lost = self.lose_request + self.lose_reply + self.corrupt
        return lost == 0 and 2 * self.delay[1] + self.saving[1] < 0.5


ACTIONS: Mapping[str, int] = {  # kinds of actions, and how often each is drawn
    "trigger": 36,
    "series": 6,
    "goal": 4,
    "stop": 3,
    "pause": 4,
    "resume": 4,
    "go back": 4,
    "new data": 3,
    "kill": 10,
    "kill and lose the disk": 4,
    "forget": 6,
    "leave": 4,
    "start": 12,
    "cut one way": 5,
    "isolate": 4,
    "part": 4,
    "heal": 8,
    "break the disk": 3,
    "mend the disk": 4,
    "stall": 6,
    "clock runs off": 3,
    "clock jumps": 3,
    "slow down": 3,
}
OF_SCHEDULES = ("new examples", "schedule", "hours end", "hours begin")  # further kinds, in a part of the runs
GAPS = (0.0, 0.0, 0.02, 0.3, 1.0, 1.0, 3.0, 3.0, 8.0, 40.0)  # longest seconds between two actions
ENDINGS = ("", "one dies", "one blinks", "one reboots")  # faults of one peer in the last round
FAULT_NAMES: Collection[str] = tuple(field.name for field in fields(Faults))
RULES_IN_SEGMENTS = (
    "agg0",
    "agg1",
    "agg2",
    "median",
    "trimmed-mean",
    "winsorised-mean",
)  # all that are allowed there
GOALS = ("accuracy>=0.65", "no-gain 3 0.01", "every accuracy>=0.3", "within 8")


@dataclass(frozen=True)
class Action:
    """One thing that happens to the mesh.

    Attributes:
        wait: seconds since the action before.
        kind: one of ACTIONS or OF_SCHEDULES.
        node, other: numbers of nodes, taken modulo the size of the mesh.
        size: in [0, 1): how much, how long, or which.
    """

    wait: float
    kind: str
    node: int
    other: int
    size: float


@dataclass(frozen=True)
class Schedule:
    """A whole run.

    Attributes:
        seed: of all random draws during the run.
        size: number of nodes.
        tick: seconds between two steps of the membership, whose other times grow with it.
        stays_dead: whether nodes that are dead at the end are not restarted.
        ending: one of ENDINGS.
        starters: how many nodes start the last round at the same moment.
        participation: share of the nodes that train in a round.
        staleness: by how many rounds updates may be late.
        asynchronous: whether there are no common rounds.
        hostile: what the hostile member does after the last action; empty if there is none.
        keyed: whether each message proves the key of its sender.
        secure: whether updates are masked, so that only their sum can be opened.
        segments: whether updates are averaged in segments.
        topology: as FLNET_TOPOLOGY, where nodes average with their neighbours alone; else empty.
        rule: by which they are averaged in segments.
    """

    seed: int
    size: int
    faults: Faults
    tick: float
    actions: tuple[Action, ...]
    stays_dead: bool = False
    ending: str = ""
    starters: int = 1
    participation: float = 1.0
    staleness: int = 0
    asynchronous: bool = False
    hostile: str = ""
    keyed: bool = False
    secure: bool = False
    segments: bool = False
    topology: str = ""
    rule: str = USUAL

    @property
    def pauses(self) -> Pauses:
        """The timing of the membership: the default if a tick is a second, otherwise one that makes runs short."""
        if self.tick == 1.0:
            return Pauses()
        return Pauses(tick=self.tick, probe=self.tick / 2, longest=2 * self.tick, refresh=4, hearsay_attempts=3)

    @property
    def rules(self) -> Rules:
        """The rules of its rounds."""
        if self.asynchronous:
            return Rules(asynchronous=True)
        copies = 3 if self.hostile else 1 + self.seed % 3
        topology = Topology("segments", copies) if self.segments else Topology()
        participation = Participation(self.participation, names_all=self.segments)
        if self.secure:
            return Rules(participation, averaging={MERGING: parse_rule(SECURE).name}, topology=topology)
        if self.segments:
            averaging = {} if self.rule == USUAL else {MERGING: parse_rule(self.rule).name}
            bounds = Bounds(clip=self.seed % 4 // 3 * 0.5)
            return Rules(participation, averaging=averaging, topology=topology, bounds=bounds)
        if self.topology:
            return Rules(Participation(names_all=True), topology=Topology.read(self.topology))
        return Rules(Participation(self.participation), self.staleness)

    @property
    def waits(self) -> Waits:
        """How long its jobs wait: two turns of all peers, in which a peer that was away is certainly noticed."""
        average = 12.0 + 2 * self.size * self.tick
        return Waits(average=average, margin=2.0, start=2.0, claims=average + 2, turn=self.tick)


@dataclass(frozen=True)
class Reduction:
    """Which part of a schedule is run.

    Attributes:
        size: number of nodes; None for as many as in the schedule.
        actions: numbers of the actions that happen; None for all.
        mild: names of random faults that are left out.
        asynchronous: whether there are no common rounds.
        hostile: whether there is a hostile member.
        keyed: whether each message proves the key of its sender, and claims of members are signed.
        secure: whether updates are masked.
        segments: whether updates are averaged in segments.
        topology: as FLNET_TOPOLOGY, where nodes average with their neighbours alone; else empty.
        rule: by which updates are averaged in segments; empty for that which the seed draws.
    """

    size: int | None = None
    actions: tuple[int, ...] | None = None
    mild: tuple[str, ...] = ()
    asynchronous: bool = False
    hostile: bool = False
    keyed: bool = False
    secure: bool = False
    segments: bool = False
    topology: str = ""
    rule: str = ""

    def of(self, schedule: Schedule) -> Schedule:
        """The reduced schedule."""
        takes_rule = self.segments and not self.secure
        kept = range(len(schedule.actions)) if self.actions is None else self.actions
        none = {name: getattr(Faults(), name) for name in self.mild}
        return replace(
            schedule,
            size=schedule.size if self.size is None else self.size,
            actions=tuple(schedule.actions[i] for i in kept),
            faults=replace(schedule.faults, **none),
            asynchronous=self.asynchronous,
            keyed=schedule.keyed or self.keyed,
            secure=self.secure,
            segments=self.segments,
            topology=self.topology,
            rule=(self.rule or draw_rule(schedule.seed)) if takes_rule else USUAL,
        )

    def options(self) -> list[str]:
        """Options of the command line for this reduction."""
        options = [] if self.size is None else ["--nodes", str(self.size)]
        if self.actions is not None:
            options += ["--actions", ",".join(map(str, self.actions)) or "none"]
        options += ["--asynchronous"] if self.asynchronous else []
        options += ["--hostile"] if self.hostile else []
        options += ["--keyed"] if self.keyed else []
        options += ["--secure"] if self.secure else []
        options += ["--segments"] if self.segments else []
        options += ["--topology", self.topology] if self.topology else []
        options += ["--rule", self.rule] if self.rule else []
        return [*options, *(["--mild", ",".join(self.mild)] if self.mild else [])]


def draw(seed: int) -> Schedule:
    """Draw the schedule of a seed."""
    rng = Random(seed)
    kinds, weights = list(ACTIONS), list(ACTIONS.values())
    count = rng.randint(4, 16)
    actions = tuple(
        Action(
            round(rng.uniform(0, rng.choice(GAPS)), 3),
            rng.choices(kinds, weights)[0] if i else "trigger",
            rng.randrange(100),
            rng.randrange(100),
            int(rng.random() * 1000) / 1000,
        )
        for i in range(count)
    )
    return Schedule(
        seed,
        rng.choice((5, 5, 5, 6, 7, 8, 9)),
        draw_faults(rng),
        rng.choice((1.0, *(4.0,) * 6, 6.0)),
        _with_schedules(actions, Random(f"{seed} schedules")),
        stays_dead=rng.random() < 0.25,
        ending=rng.choice(ENDINGS),
        starters=rng.choice((1, 1, 2, 3)),
        participation=Random(f"{seed} participation").choice((1.0, 1.0, 0.5)),
        staleness=Random(f"{seed} staleness").choice((0, 0, 0, 0, 0, 3)),
    )


def draw_rule(seed: int) -> str:
    """Draw the rule by which the updates of a schedule are averaged in segments. No other draw depends on it."""
    return Random(f"{seed} rule").choice(RULES_IN_SEGMENTS)


def given_rule(schedule: Schedule) -> str:
    """The rule by which its updates are averaged in segments, if that is not the one that its seed draws; else empty."""
    is_drawn = not schedule.segments or schedule.secure or schedule.rule == draw_rule(schedule.seed)
    return "" if is_drawn else schedule.rule


def _with_schedules(actions: tuple[Action, ...], rng: Random) -> tuple[Action, ...]:
    """Add actions of the kinds OF_SCHEDULES to a quarter of the runs; the other actions stay the same."""
    if rng.random() >= 0.25:
        return actions
    drawn: list[Action] = []
    for action in actions:
        drawn.append(action)
        if rng.random() < 0.5:
            wait = round(rng.uniform(0, rng.choice(GAPS[:8])), 3)
            drawn.append(Action(wait, rng.choice(OF_SCHEDULES), rng.randrange(100), rng.randrange(100), 0.5))
    return tuple(drawn)


def draw_faults(rng: Random) -> Faults:
    """Draw random faults; every third run has none, apart from varying delays and trainings."""
    storm = rng.random() < 0.66

    def probability(*often: float) -> float:
        drawn = rng.choice((0.0, 0.0, *often))
        return drawn if storm else 0.0

    return Faults(
        delay=(0.001, rng.choice((0.02, 0.02, 0.2, 2.0 if storm else 0.2))),
        lose_request=probability(0.02, 0.1, 0.3),
        lose_reply=probability(0.02, 0.1, 0.3),
        duplicate=probability(0.1, 0.5),
        corrupt=probability(0.02, 0.1),
        fail_training=probability(0.05, 0.3),
        training=(0.2, rng.choice((0.5, 2.0))),
        saving=(0.0, rng.choice((0.0, 0.0, 0.05, 1.0 if storm else 0.05))),
        give_up=rng.choice((1.0, 5.0)),
        digests=rng.choice((0.0, 0.5, 1.0)),
        push_bytes=rng.choice((0, 1000)),
        fail_fetch=probability(0.05, 0.3),
    )


def described(schedule: Schedule) -> list[str]:
    """Describe a schedule in lines of text."""
    values = {name: getattr(schedule.faults, name) for name in FAULT_NAMES}
    faults = [f"{name} {value}" for name, value in values.items() if value != getattr(Faults(), name)]
    ends = [
        text
        for text, holds in (
            ("the dead stay dead", schedule.stays_dead),
            (f"{schedule.ending} in the last round", bool(schedule.ending)),
            (f"{schedule.starters} start it at once", schedule.starters > 1),
            (f"{schedule.participation:g} of them train", schedule.participation < 1),
            (f"updates may be {schedule.staleness} rounds late", schedule.staleness > 0),
            (f"a hostile member {schedule.hostile}", bool(schedule.hostile)),
            ("messages prove keys", schedule.keyed),
            ("updates are masked", schedule.secure),
            ("updates are averaged in segments", schedule.segments),
            (f"the topology is {schedule.topology}", bool(schedule.topology)),
            (f"the rule is {schedule.rule}", schedule.rule != USUAL),
        )
        if holds
    ]
    head = f"seed {schedule.seed}: {schedule.size} nodes, a tick of {schedule.tick:g} s"
    lines = [", ".join([head, *ends]), f"faults: {'; '.join(faults) or 'fine'}"]
    return [*lines, *(f"  +{a.wait:g} s  {described_action(a, schedule.size)}" for a in schedule.actions)]


def described_action(action: Action, size: int) -> str:
    """Describe an action in one line of text."""
    node, other = action.node % size, action.other % size
    target = "" if action.kind in ("heal", "part") else f" n{node:02}"
    towards = f" to n{other:02}" if action.kind == "cut one way" else ""
    return f"{action.kind}{target}{towards} ({action.size:g})"
