"""What befalls a simulated mesh, and when: drawn from a seed, and made smaller when it breaks something."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from random import Random

from flnet.jobs import Rules, Waits
from flnet.membership import Pauses
from flnet.policies import Participation
from flnet.simulation.weather import Weather

DEEDS: Mapping[str, int] = {  # what may happen, and how often beside the others
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
OF_SCHEDULES = ("new examples", "schedule", "hours end", "hours begin")  # what a part of the runs has as well
GAPS = (0.0, 0.0, 0.02, 0.3, 1.0, 1.0, 3.0, 3.0, 8.0, 40.0)  # seconds between two deeds, longest of each draw
ENDINGS = ("", "one dies", "one blinks", "one reboots")  # what befalls a peer in the last round
GOALS = ("accuracy>=0.65", "no-gain 3 0.01", "every accuracy>=0.3", "within 8")


@dataclass(frozen=True)
class Action:
    """One thing that happens.

    Attributes:
        wait: seconds since the one before.
        deed: one of DEEDS, or of OF_SCHEDULES.
        node, other: indices of nodes, taken modulo the number of nodes.
        size: in [0, 1): how much, how long, which.
    """

    wait: float
    deed: str
    node: int
    other: int
    size: float


@dataclass(frozen=True)
class Schedule:
    """A whole run.

    Attributes:
        seed: of the chances in it.
        size: nodes.
        tick: seconds between two steps of the membership; others of its times are longer with it.
        stays_dead: whether nodes that are dead at the end stay so.
        ending: one of ENDINGS.
        starters: nodes that start the last round at the same moment.
        participation: part of the nodes that train in a round.
        staleness: by how many rounds updates may be late.
        asynchronous: there are no common rounds.
    """

    seed: int
    size: int
    weather: Weather
    tick: float
    actions: tuple[Action, ...]
    stays_dead: bool = False
    ending: str = ""
    starters: int = 1
    participation: float = 1.0
    staleness: int = 0
    asynchronous: bool = False

    @property
    def pauses(self) -> Pauses:
        """How fast its membership is: the usual pace where a tick is a second, else what makes a run short."""
        if self.tick == 1.0:
            return Pauses()
        return Pauses(tick=self.tick, probe=self.tick / 2, longest=2 * self.tick, refresh=4, hearsay_attempts=3)

    @property
    def rules(self) -> Rules:
        """How its rounds go."""
        if self.asynchronous:
            return Rules(asynchronous=True)
        return Rules(Participation(self.participation), self.staleness)

    @property
    def waits(self) -> Waits:
        """How long its jobs wait: two turns of all peers, within which who was away is certainly heard of."""
        average = 12.0 + 2 * self.size * self.tick
        return Waits(average=average, margin=2.0, start=2.0, claims=average + 2, turn=self.tick)


@dataclass(frozen=True)
class Reduction:
    """What is left of a schedule.

    Attributes:
        size: nodes; None for all.
        actions: which of its actions happen; None for all.
        mild: fields of its weather that are as in fine weather.
        asynchronous: whether it is played without common rounds.
    """

    size: int | None = None
    actions: tuple[int, ...] | None = None
    mild: tuple[str, ...] = ()
    asynchronous: bool = False

    def of(self, schedule: Schedule) -> Schedule:
        """The smaller schedule."""
        kept = range(len(schedule.actions)) if self.actions is None else self.actions
        fine = {name: getattr(Weather(), name) for name in self.mild}
        return replace(
            schedule,
            size=schedule.size if self.size is None else self.size,
            actions=tuple(schedule.actions[i] for i in kept),
            weather=replace(schedule.weather, **fine),
            asynchronous=self.asynchronous,
        )

    def options(self) -> list[str]:
        """As the command line has it."""
        words = [] if self.size is None else ["--nodes", str(self.size)]
        if self.actions is not None:
            words += ["--actions", ",".join(map(str, self.actions)) or "none"]
        words += ["--asynchronous"] if self.asynchronous else []
        return [*words, *(["--mild", ",".join(self.mild)] if self.mild else [])]


def draw(seed: int) -> Schedule:
    """The schedule of a seed."""
    rng = Random(seed)
    deeds, weights = list(DEEDS), list(DEEDS.values())
    count = rng.randint(4, 16)
    actions = tuple(
        Action(
            round(rng.uniform(0, rng.choice(GAPS)), 3),
            rng.choices(deeds, weights)[0] if i else "trigger",
            rng.randrange(100),
            rng.randrange(100),
            int(rng.random() * 1000) / 1000,
        )
        for i in range(count)
    )
    return Schedule(
        seed,
        rng.choice((5, 5, 5, 6, 7, 8, 9)),
        draw_weather(rng),
        rng.choice((1.0, *(4.0,) * 6, 6.0)),
        _with_schedules(actions, Random(f"{seed} schedules")),
        stays_dead=rng.random() < 0.25,
        ending=rng.choice(ENDINGS),
        starters=rng.choice((1, 1, 2, 3)),
        participation=Random(f"{seed} participation").choice((1.0, 1.0, 0.5)),
        staleness=Random(f"{seed} staleness").choice((0, 0, 0, 0, 0, 3)),
    )


def _with_schedules(actions: tuple[Action, ...], rng: Random) -> tuple[Action, ...]:
    """In a quarter of the runs, what schedules do between the other deeds, which stay as they are."""
    if rng.random() >= 0.25:
        return actions
    drawn: list[Action] = []
    for action in actions:
        drawn.append(action)
        if rng.random() < 0.5:
            wait = round(rng.uniform(0, rng.choice(GAPS[:8])), 3)
            drawn.append(Action(wait, rng.choice(OF_SCHEDULES), rng.randrange(100), rng.randrange(100), 0.5))
    return tuple(drawn)


def draw_weather(rng: Random) -> Weather:
    """Any weather; every third is fine but for the length of ways and trainings."""
    storm = rng.random() < 0.66

    def some(*often: float) -> float:
        drawn = rng.choice((0.0, 0.0, *often))
        return drawn if storm else 0.0

    return Weather(
        delay=(0.001, rng.choice((0.02, 0.02, 0.2, 2.0 if storm else 0.2))),
        lose_request=some(0.02, 0.1, 0.3),
        lose_reply=some(0.02, 0.1, 0.3),
        duplicate=some(0.1, 0.5),
        corrupt=some(0.02, 0.1),
        fail_training=some(0.05, 0.3),
        training=(0.2, rng.choice((0.5, 2.0))),
        saving=(0.0, rng.choice((0.0, 0.0, 0.05, 1.0 if storm else 0.05))),
        give_up=rng.choice((1.0, 5.0)),
        digests=rng.choice((0.0, 0.5, 1.0)),
        push_bytes=rng.choice((0, 1000)),
        fail_fetch=some(0.05, 0.3),
    )


def described(schedule: Schedule) -> list[str]:
    """The schedule in lines."""
    fine = Weather()
    bad = {f.name: getattr(schedule.weather, f.name) for f in fields(Weather)}
    faults = [f"{name} {value}" for name, value in bad.items() if value != getattr(fine, name)]
    ends = [
        words
        for words, holds in (
            ("the dead stay dead", schedule.stays_dead),
            (f"{schedule.ending} in the last round", bool(schedule.ending)),
            (f"{schedule.starters} start it at once", schedule.starters > 1),
            (f"{schedule.participation:g} of them train", schedule.participation < 1),
            (f"updates may be {schedule.staleness} rounds late", schedule.staleness > 0),
        )
        if holds
    ]
    head = f"seed {schedule.seed}: {schedule.size} nodes, a tick of {schedule.tick:g} s"
    lines = [", ".join([head, *ends]), f"weather: {'; '.join(faults) or 'fine'}"]
    return [*lines, *(f"  +{a.wait:g} s  {words_of(a, schedule.size)}" for a in schedule.actions)]


def words_of(action: Action, size: int) -> str:
    """What happens, and to whom."""
    node, other = action.node % size, action.other % size
    who = "" if action.deed in ("heal", "part") else f" n{node:02}"
    towards = f" to n{other:02}" if action.deed == "cut one way" else ""
    return f"{action.deed}{who}{towards} ({action.size:g})"


WEATHER_FIELDS: Collection[str] = tuple(f.name for f in fields(Weather))
