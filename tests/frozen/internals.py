"""The only place in which the oracles import modules of flnet that people are not told of.

When a module moves or a class is renamed, mend this file; no recording changes. All else in this folder uses the
command line, HTTP, files on the disk and `flnet.training.api`.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any, get_args

from flnet.cli.commands import cli
from flnet.node.core import NodeCore, Owned
from flnet.params.params import Params, TrainerId
from flnet.params.quantization import lowered
from flnet.protocol import messages, vertical
from flnet.protocol.effects import (
    Average,
    Effect,
    Evaluate,
    Fetch,
    FetchSegments,
    Publish,
    Save,
    Send,
    SendAnnounce,
    SendProbe,
    Train,
)
from flnet.protocol.events import Event
from flnet.protocol.messages import Packet, Peer
from flnet.protocol.updates import Contribution
from flnet.settings import Settings
from flnet.simulation.actions import Actions
from flnet.simulation.cluster import Cluster
from flnet.simulation.node import SimulatedNode
from flnet.simulation.playback import Play
from flnet.simulation.schedule import Reduction, draw
from flnet.text import Text, restored
from flnet.web.translation import look_up, translate_sentence
from flnet.wire.binary_codec import BinaryCodec
from flnet.wire.json_codec import JsonCodec
from tests.security import keypairs

__all__ = [
    "Settings",
    "Trace",
    "bare",
    "cli",
    "digest_of",
    "encoded",
    "encoded_again",
    "in_spanish",
    "read_text",
    "signed_headers",
    "signed_statement",
    "simulated",
    "translation",
]

Told = Callable[[str, str, str], object]  # the kind of an event, and what it says in English and in Spanish


class Trace:
    """What a simulated mesh does, as figures that depend neither on names of modules nor on wording.

    Attributes:
        messages: when which node sends what to whom.
        work: when which node begins to train, average or measure what.
        saves: what is kept.
        kinds: of events that are published.
    """

    def __init__(self, told: Told | None = None) -> None:
        self.messages, self.work, self.saves, self.kinds = (hashlib.sha256() for _ in range(4))
        self.counts: Counter[str] = Counter()
        self.now: Callable[[], float] = lambda: 0.0
        self._told = told

    def take(self, node: str, owned: Collection[Owned]) -> None:
        """Note what a node's core asks for."""
        for item in owned:
            self._note(node, item.effect)

    def _note(self, node: str, effect: Effect) -> None:
        match effect:
            case Publish():
                self._add("kinds", node, effect.kind)
                if self._told is not None:
                    self._told(effect.kind, str(effect.text), in_spanish(effect.text))
            case Send():
                self._add("messages", node, effect.message.path, ",".join(effect.to), _digest(effect.params))
            case SendAnnounce():
                self._add("messages", node, "/announce", effect.address, len(effect.known))
            case SendProbe():
                self._add("messages", node, "/probe", effect.to, effect.seconds)
            case Fetch():
                self._add("messages", node, "fetch", effect.peer, effect.digest)
            case FetchSegments():
                for each in effect.one_by_one():
                    self._note(node, each)
            case Train():
                self._add("work", node, "train", effect.key, _digest(effect.params))
            case Average():
                whose = [(one.peer, one.params.digest, one.examples) for one in effect.updates]
                self._add("work", node, "average", effect.key, whose, effect.folded)
            case Evaluate():
                self._add("work", node, "measure", effect.key, effect.shared.digest)
            case Save():
                keys = [one.update.peer for one in effect.updates]
                self._add("saves", node, keys, len(effect.records), *map(_digest, (effect.params, effect.sent)))
            case _:
                pass

    def _add(self, what: str, node: str, *figures: object) -> None:
        self.counts[what] += 1
        words = (_text(one) if isinstance(one, tuple) else str(one) for one in figures)
        line = [f"{self.now():.6f}", node, *words]
        getattr(self, what).update(("|".join(line) + "\n").encode())

    def digests(self) -> dict[str, str]:
        """All of it in a few digits each."""
        parts = ("messages", "work", "saves", "kinds")
        return {name: f"{self.counts[name]} {getattr(self, name).hexdigest()[:16]}" for name in parts}


def _text(value: tuple[Any, ...]) -> str:
    return "/".join(str(part) for part in value)


def _digest(params: Params | None) -> str:
    return "" if params is None else params.digest


class _TracedCore(NodeCore):
    """A core that tells a trace what it asks for."""

    trace: Trace

    def hear(self, owner: TrainerId | None, event: Event) -> list[Owned]:
        owned = list(super().hear(owner, event))
        self.trace.take(self.me.id, owned)
        return owned


class _TracedCluster(Cluster):
    trace = Trace()

    def add(self, me: Peer, accepts: Any = ()) -> SimulatedNode:
        node = super().add(me, accepts)
        node.core.__class__ = _TracedCore
        node.core.trace = self.trace  # type: ignore[attr-defined]
        return node


def simulated(seed: int, asynchronous: bool, told: Told | None = None) -> dict[str, Any]:
    """Play a schedule of faults; digests of all that happened, and of the rounds of every node."""
    trace = Trace(told)
    schedule = Reduction(asynchronous=asynchronous).of(draw(seed))
    play = Play(schedule)
    play.cluster.end()
    made = type("Traced", (_TracedCluster,), {"trace": trace})
    play.cluster = made(
        schedule.size, schedule.seed, schedule.faults, schedule.waits, schedule.pauses, None, schedule.rules
    )
    play.actions = Actions(play.cluster)
    clock = play.cluster.clock
    trace.now = lambda: clock.now
    try:
        play.run()
        rounds = {node.id: _rounds(node) for node in play.cluster.alive}
        return {"ends": f"{clock.now:.6f}", **trace.digests(), "rounds": rounds}
    finally:
        play.cluster.end()


def _rounds(node: SimulatedNode) -> str:
    """How many rounds a node remembers, a digest of them all, and the model that it holds."""
    records, lines = node.job.history.records, hashlib.sha256()
    for record in records:
        whose = ",".join(record.contributors)
        lines.update(f"{record.key.number} {record.key.initiator} {record.digest} {whose}\n".encode())
    held = node.job.held.digest[:16] if node.job.held.digest else "no model"
    return f"{len(records)} {lines.hexdigest()[:16]} {held}"


CODECS: dict[str, Any] = {
    "json": JsonCodec(),
    "float32": BinaryCodec("float32"),
    "float16": BinaryCodec("float16"),
    "int8": BinaryCodec("int8"),
    "int8-blocks": BinaryCodec("int8-blocks"),
}


def part_kinds() -> set[str]:
    """Of all parts of messages of vertical jobs."""
    kinds = [
        kind
        for part in ("ControlPart", "TalkPart", "PredictionPart")
        for kind in get_args(getattr(vertical, part))
    ]
    return {kind.model_fields["kind"].default for kind in kinds}


def _message(kind: str) -> Any:
    return getattr(vertical if kind.startswith("Vertical") else messages, kind)


def encoded(kind: str, fields: Mapping[str, Any], arrays: Mapping[str, Any] | None, form: str) -> bytes:
    """The body of a message in a form: json, float32, or rounded to float16 or int8."""
    params = None if arrays is None else Params(arrays)
    if params is not None and form in ("float16", "int8", "int8-blocks"):
        params, _ = lowered(params, None, form)  # type: ignore[arg-type]
    return bytes(CODECS[form].encode(Packet(_message(kind).read(dict(fields)), params)))


def encoded_again(kind: str, body: bytes, form: str) -> tuple[bytes, dict[str, list[Any]]]:
    """What a body becomes that is read and written; and the shape, dtype and digest of each array in it."""
    packet = CODECS[form].decode(_message(kind), body)
    arrays = packet.params or {}
    read = {name: [list(one.shape), one.dtype.name, _digest(Params({name: one}))] for name, one in arrays.items()}
    return bytes(CODECS[form].encode(packet)), read


def digest_of(arrays: Mapping[str, Any]) -> str:
    """The digest by which nodes name these parameters."""
    return Params(arrays).digest


def bare(arrays: Mapping[str, Any], form: str) -> bytes:
    """Parameters without a message, as they are fetched by their digest."""
    codec = BinaryCodec(form)  # type: ignore[arg-type]
    params = Params(arrays) if form == "float32" else lowered(Params(arrays), None, form)[0]  # type: ignore[arg-type]
    return bytes(codec.encode_params(params))


def signed_headers(body: bytes, path: str, *, keyed: bool) -> dict[str, str]:
    """The headers with which a node with a fixed key signs a request to another one."""
    mesh = keypairs.MESH if keyed else None
    sender = keypairs.learnt(keypairs.seal(mesh=mesh), keypairs.verifier(mesh=mesh))
    return dict(keypairs.sent(sender, body, path).headers)


def signed_statement(**stated: Any) -> tuple[str, str]:
    """The bytes that a node signs of an update, and its signature."""
    key = keypairs.TestKey(1)
    statement = Contribution(key=key.text, **stated).statement()
    return statement.decode(), b64encode(key.sign(statement)).decode()


def translation(template: str) -> str | None:
    """The Spanish of a text with named gaps; None where there is none."""
    return look_up("es", template)


def read_text(english: str, code: object) -> str:
    """A sentence of the node by its message id and its parameters."""
    sentence = restored(english, code)
    assert isinstance(sentence, Text), english
    return sentence


def in_spanish(text: str) -> str:
    """What a reader of Spanish is shown of a sentence of the node."""
    shown = translate_sentence("es", text, 2000)
    return shown.text if not shown.language else f"[{shown.language}] {shown.text}"
