"""Plays an alignment in one process: performs what machines ask for, and keeps what each of them received."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from flnet.algorithms.vertical.alignment import Follower, Leader, follower, leader
from flnet.algorithms.vertical.groups import Group, Items, SafePrimeGroup
from flnet.algorithms.vertical.holder import (
    Aligned,
    AlignmentWork,
    Chunk,
    Effect,
    Failed,
    Kind,
    Message,
    Randomness,
    SendToHolder,
    Terms,
)

Sets = Mapping[str, Sequence[str]]
TWIN = SafePrimeGroup()


def seed(name: str) -> bytes:
    """The seed of a holder in tests."""
    return hashlib.sha256(name.encode()).digest()


@dataclass
class Play:
    """All machines of an alignment, and what is on the way between them.

    Attributes:
        sets: the ids of each holder; the first one leads.
        order: chooses what happens next among messages and work; messages between two holders keep their order.
        received: the messages of each holder, in order.
        ends: how it ended for each holder.
        units: the names of all work that was done.
    """

    sets: Sets
    group: Group = TWIN
    chunk: int = 4
    seeds: Mapping[str, bytes] = field(default_factory=dict)
    order: random.Random | None = None
    session: str = "s-1"
    received: dict[str, list[Message]] = field(default_factory=dict)
    ends: dict[str, Aligned | Failed] = field(default_factory=dict)
    machines: dict[str, Leader | Follower] = field(default_factory=dict)
    channels: dict[tuple[str, str], list[Message]] = field(default_factory=dict)
    work: dict[str, AlignmentWork] = field(default_factory=dict)
    units: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.terms = Terms(self.session, tuple(self.sets), self.chunk)
        for name, ids in self.sets.items():
            randomness = Randomness.draw(self.group, len(ids), self.seeds.get(name, seed(name)))
            self.received[name] = []
            if name == self.terms.leader:
                first = leader(self.terms, ids, self.group, randomness)
                self.machines[name] = first
            else:
                self.machines[name] = follower(self.terms, name, ids, self.group, randomness)
        self.perform(self.terms.leader, first.start())

    def run(self) -> Play:
        """To the end."""
        while (message := self.step()) is not None:
            self.deliver(*message)
        return self

    def run_until(self, name: str, kind: type[Message] | Kind) -> Message:
        """Until this message would be delivered to this holder, and all work is done; the message is taken out."""
        while (following := self.step()) is not None:
            to, message = following
            if to == name and (message.kind if isinstance(message, Chunk) else type(message)) == kind:
                while self.work:
                    self.do(next(iter(self.work)))
                return message
            self.deliver(to, message)
        raise AssertionError(f"no {kind} came to {name}")

    def step(self) -> tuple[str, Message] | None:
        """Do work until a message is next, and take that out; None at the end."""
        while True:
            choices: list[str | tuple[str, str]] = [
                *self.work,
                *(at for at, queue in self.channels.items() if queue),
            ]
            if not choices:
                return None
            choice = self.order.choice(choices) if self.order else choices[0]
            if not isinstance(choice, str):
                return choice[1], self.channels[choice].pop(0)
            self.do(choice)

    def do(self, name: str) -> None:
        """The work that a holder's machine waits for."""
        work = self.work.pop(name)
        self.units.append(work.name)
        self.perform(name, self.machines[name].finished(work, work.run()))

    def deliver(self, to: str, message: Message) -> None:
        """One message."""
        self.perform(to, self.machines[to].receive(message))
        self.received[to].append(message)

    def perform(self, name: str, effects: Iterable[Effect]) -> None:
        """What a machine asked for."""
        for effect in effects:
            match effect:
                case SendToHolder(to=to, message=message):
                    self.channels.setdefault((name, to), []).append(message)
                case AlignmentWork() as work:
                    assert name not in self.work, "one unit at a time"
                    self.work[name] = work
                case Aligned() | Failed() as end:
                    assert name not in self.ends
                    self.ends[name] = end

    def common(self, name: str) -> list[str]:
        """The common ids in the agreed order, as a holder sees them; empty where there are none."""
        end = self.ends[name]
        return [self.sets[name][row] for row in end.agreement.rows] if isinstance(end, Aligned) else []

    def digest(self, name: str) -> str:
        """Of the agreement."""
        end = self.ends[name]
        assert isinstance(end, Aligned)
        return end.agreement.digest

    def received_list(self, name: str, kind: Kind, sender: str | None = None, width: int = 32) -> Items:
        """(n, width) a list that a holder received."""
        parts = [
            message.items
            for message in self.received[name]
            if isinstance(message, Chunk) and message.kind == kind and message.sender == (sender or message.sender)
        ]
        return np.frombuffer(b"".join(parts), np.uint8).reshape(-1, width)


def play(sets: Sets, group: Group = TWIN, seeds: Mapping[str, bytes] | None = None, chunk: int = 4) -> Play:
    """An alignment to its end."""
    return Play(sets, group, chunk, seeds or {}).run()
