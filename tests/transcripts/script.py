"""Scenarios as text: a command, a rule, then the recorded reaction of every node, in effects only.

A file starts with comment lines. Then blocks follow, one empty line between: commands, one to a line, "----", and
what came of them, a line for each event that made a node do something. Commands:

    nodes a b c     these nodes know each other      join d        a node comes, everyone meets it
    trigger a [n]   a person asks a for n rounds     show          phase, round and model of every node
    train-done a    its local training ends          train-fail a  ... without a result
    cut a b         nothing passes between them      heal a b      they meet again
    hold a b        messages from a to b wait        release a b   now they arrive
    advance 30      so many seconds pass
"""

from __future__ import annotations

from pathlib import Path

from flnet.errors import PeerError
from flnet.protocol.effects import (
    Answer,
    Average,
    CancelTimer,
    CancelWork,
    Effect,
    Evaluate,
    Fetch,
    Publish,
    Refuse,
    Save,
    Send,
    SetTimer,
    Train,
)
from flnet.protocol.events import (
    ClaimAnswered,
    ClaimReceived,
    DeclineReceived,
    Event,
    PeerLost,
    SendFailed,
    SendRefused,
    TimerFired,
    TrainingAsked,
    TrainingFailed,
    UpdateReceived,
)
from flnet.protocol.messages import Packet
from flnet.protocol.updates import RoundKey
from tests.rounds.stage import Stage, learnt

RULE = "----"


def record(path: Path) -> str:
    """The file with the reactions as they are now."""
    head, *blocks = path.read_text("utf-8").rstrip("\n").split("\n\n")
    script = Script()
    parts = [head]
    for block in blocks:
        commands = block.split(RULE)[0].splitlines()
        parts.append("\n".join([*commands, RULE, *script.play(commands)]))
    return "\n\n".join(parts) + "\n"


class Script(Stage):
    """A stage that plays commands and notes what the nodes do."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.training: dict[str, Train] = {}
        self.held: dict[tuple[str, str], list[Packet]] = {}
        self.models: dict[str, int] = {}  # digests, numbered in the order in which they are shown
        super().__init__(names="")

    def play(self, commands: list[str]) -> list[str]:
        """Carry out commands; the lines that say what came of them, node by node."""
        self.lines = []
        for command in commands:
            what, *words = command.split()
            getattr(self, "do_" + what.replace("-", "_"))(*words)
            self.settle()
        return [f"{name}  {text}" for name, text in sorted(self.lines, key=lambda line: line[0])]

    def settle(self) -> None:
        """Let everything happen that needs no time."""
        while self.due:
            self.due.pop(0)()

    def do_nodes(self, *names: str) -> None:
        for name in names:
            self.join(name)
        self.lines = []

    def do_join(self, name: str) -> None:
        self.join(name)

    def do_trigger(self, name: str, rounds: str = "1") -> None:
        try:
            self.trigger(name, int(rounds))
        except PeerError as exc:
            self.lines.append((name, f"trigger: {exc.status} {exc.code}"))

    def do_train_done(self, *names: str) -> None:
        for name in names:
            self.soon(name, learnt(name, self.training.pop(name)))

    def do_train_fail(self, name: str) -> None:
        self.soon(name, TrainingFailed(self.training.pop(name).key, "killed"))

    def do_cut(self, one: str, other: str) -> None:
        self.cuts.add(frozenset((one, other)))

    def do_heal(self, one: str, other: str) -> None:
        self.cuts.discard(frozenset((one, other)))
        self.meet(one, other)

    def do_hold(self, one: str, other: str) -> None:
        self.held[one, other] = []

    def do_release(self, one: str, other: str) -> None:
        for packet in self.held.pop((one, other)):
            self.carry(one, other, packet)

    def do_advance(self, seconds: str) -> None:
        until = self.now + float(seconds)
        while self.timers and min(self.timers.values()) <= until:
            self.fire_next()
            self.settle()
        self.now = until

    def do_show(self) -> None:
        for name, job in self.jobs.items():
            view = job.view().as_json()
            model = self.models.setdefault(view["digest"], len(self.models) + 1)
            waits = f", waits for {' '.join(view['waiting_for'])}" if view["waiting_for"] else ""
            made = (
                f"of round {view['model_round']} by {view['contributors']}" if view["model_round"] >= 0 else "new"
            )
            self.lines.append(
                (name, f"{job.phase} in round {view['current_round']}{waits}; model {model}, {made}")
            )

    def train(self, name: str, effect: Train) -> None:
        self.training[name] = effect

    def carry(self, sender: str, to: str, packet: Packet) -> None:
        if (sender, to) in self.held:
            self.held[sender, to].append(packet)
        else:
            super().carry(sender, to, packet)

    def tell(self, name: str, event: Event) -> list[Effect]:
        before = self.jobs[name].phase
        running = set(self.timers)
        try:
            effects = super().tell(name, event)
        except PeerError as exc:
            self.lines.append((name, f"{heard(event)}: refused, {exc.status} {exc.code}"))
            raise
        done = [did(effect) for effect in effects if shown(name, effect, running)]
        after = self.jobs[name].phase
        if done or after != before:
            self.lines.append((name, f"{heard(event)}: {', '.join(done)}{f' => {after}' * (after != before)}"))
        return effects


def shown(name: str, effect: Effect, running: set[tuple[str, str]]) -> bool:
    """Words for people are no behaviour, nor is to cancel a timer that is not set."""
    if isinstance(effect, CancelTimer):
        return (name, effect.name) in running
    return not isinstance(effect, Publish | Answer)


def heard(event: Event) -> str:
    """The event in few words."""
    match event:
        case TrainingAsked(peer, key):
            return f"start {of(key)} from {peer}"
        case UpdateReceived(update):
            return f"update {of(update.key)} from {update.peer}"
        case DeclineReceived(peer, key):
            return f"refusal {of(key)} from {peer}"
        case ClaimReceived(claim):
            return f"claim from {claim.peer}"
        case ClaimAnswered(claim):
            return f"answer from {claim.peer}"
        case SendRefused(peer, path, status=status, error=error):
            return f"{peer} answers {status} {error} to {path}"
        case SendFailed(peer) | PeerLost(peer):
            return f"{peer} is gone"
        case TimerFired(name):
            return f"timer {short(name)}"
    return type(event).__name__


def did(effect: Effect) -> str:
    """The effect in few words."""
    match effect:
        case Save(_, params, private, sent, updates):
            what = {"model": params is not None or private is not None, "own update": sent is not None}
            what |= {f"update of {kept.update.peer}": True for kept in updates}
            return "save" + "".join(f" with {name}" for name, is_new in what.items() if is_new)
        case Refuse(error):
            return f"refused, {error.status} {error.code}"
        case Fetch(_, peer):
            return f"fetch from {peer}"
        case Train(key):
            return f"train {of(key)}"
        case CancelWork(key):
            return f"stop {of(key)}"
        case Average(_, updates):
            return f"average {{{' '.join(update.peer for update in updates)}}}"
        case Evaluate():
            return "measure"
        case SetTimer(name, seconds):
            return f"wait {seconds:g} s ({short(name)})"
        case CancelTimer(name):
            return f"wait no more ({short(name)})"
        case Send(to, message, params):
            declined = " (declined)" if getattr(message, "declined", None) else ""
            return f"send {type(message).__name__}{declined} -> {' '.join(to) or 'nobody'}"
    return type(effect).__name__


def short(timer: str) -> str:
    """A timer's name without its round."""
    return timer.partition(":")[0]


def of(key: RoundKey) -> str:
    """A round in few letters."""
    return f"{key.number}/{key.initiator}"
