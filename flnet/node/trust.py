"""The parts of a node in a mesh with keys: mesh key or trusted keys, signer, verifier, and TLS.

In a keyed mesh all nodes share a secret. In a pinned mesh people accept the keys of nodes: `node.trust` is a
`Trust` there, and None elsewhere; `Introductions` asks introducers whom they accept. A decision is on the disk before
it holds. In a test, `Trust(key)` works without a node: it keeps its book in memory.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from flnet.errors import LocalError, SettingsError, StartError, TransportError
from flnet.fingerprints import fingerprint, read_fingerprint, words_of
from flnet.names import MAX_NAME, check_name
from flnet.protocol.effects import Publish
from flnet.security.ownership import check_file
from flnet.security.rate_limits import network_of
from flnet.security.signatures import MeshKey, NodeKey
from flnet.security.signing import RequestSigner, RequestVerifier
from flnet.security.trust_book import MOST_KEPT, TrustBook, TrustEntry, fingerprint_of
from flnet.settings import PREFIX, Settings
from flnet.store.base import Store
from flnet.store.memory import MemoryStore
from flnet.text import text
from flnet.wire.transport import Reply, Transport

if TYPE_CHECKING:
    from flnet.security.tls import Channel, ServerContext

View = Mapping[str, Any]
SHORTEST, LONGEST = 16, 1024  # characters of the secret
MAX_FILE_BYTES = 64 * 1024
INTRODUCTIONS = "/introductions"
INTRODUCTIONS_BYTES = MOST_KEPT * (4 * MAX_NAME + 128)  # of its answer: names and fingerprints, in UTF-8
PAUSE_SECONDS = 5.0  # between two questions to the same introducer
HURRY_SECONDS = 1.0  # while somebody waits whom it may introduce
ANSWER_SECONDS = 5.0
log = logging.getLogger(__name__)


class Trust:
    """Keys that are accepted, that wait, and that stay out.

    Views are plain JSON-ready data, of one key each:

    name, address ("host:port"; both as its node said, for people, "" until it called), key (base64, "" until it
    called), fingerprint (whole), words (six, that stand for its beginning), since (seconds since
    the epoch by this node's clock), introduced_by (fingerprint of the introducer that vouches for it, or None).
    Those of `accepted` in addition: is_introducer, accepted_by ("person", "settings", "introducer").

    Attributes:
        mode: "pinned".
        changed: called after each change, with the fingerprints that are not trusted any more, and the
            addresses of those that are from now on; the node lets the former go and calls the latter.
    """

    mode = "pinned"

    def __init__(
        self,
        own: str,
        store: Store | None = None,
        publish: Callable[..., object] = lambda *_: None,
        now: Callable[[], float] = time.time,
        peers: Iterable[str] = (),
        introducers: Iterable[str] = (),
    ) -> None:
        """Args:
        own: public key of this node, base64.
        store: where decisions are kept; None: in memory only.
        publish: tells people: kind, sentence, trainer (empty), data.
        now: seconds since the epoch.
        peers, introducers: fingerprints of the settings; they hold from `begin` on.
        """
        self._configured = frozenset(peers), frozenset(introducers)
        self._store, self._publish, self._now = store or MemoryStore(), publish, now
        self._book = TrustBook(own)
        self._lock = asyncio.Lock()  # one decision after the other
        self.changed: Callable[[Sequence[str], Sequence[str]], object] = lambda gone, come: None

    async def begin(self) -> None:
        """Take up what earlier runs kept, and what the settings say; before anybody is let in.

        Raises:
            LocalError: the store cannot be read, or written.
        """
        self._book = TrustBook(self._book.own, await self._store.load_trust())
        events = self._book.configured(*self._configured, self._now())
        await self._store.save_trust(self._book.rows())
        self._tell(events)

    def own(self) -> View:
        """This node's own key, as people at other nodes have to see it: key, fingerprint, words."""
        key = self._book.own
        return {"key": key, "fingerprint": fingerprint(key), "words": words_of(fingerprint(key))}

    def pending(self) -> Sequence[View]:
        """The keys that wait for a person, oldest first."""
        return [_view(entry) for entry in self._book.waiting.values()]

    def accepted(self) -> Sequence[View]:
        """The accepted keys, by name."""
        entries = sorted(self._book.accepted.values(), key=lambda entry: (entry.name, entry.fingerprint))
        return [
            _view(entry) | {"is_introducer": entry.is_introducer, "accepted_by": entry.by} for entry in entries
        ]

    def refused(self) -> Sequence[View]:
        """The keys that were rejected or forgotten, oldest decision first."""
        return [_view(entry) for entry in self._book.out.values()]

    async def accept(self, who: str, introducer: bool = False) -> View:
        """Trust a key from now on; its view.

        Args:
            who: the public key in base64, or the whole fingerprint however typed; also of one that never called.
            introducer: accept those whom it vouches for, too. False takes that away again.

        Raises:
            InvalidMessage: neither of them, or this node's own.
            TrustFull: too many are kept.
            LocalError: it could not be kept on the disk; nothing has changed.
        """
        await self._decide(lambda book: book.accept(who, self._now(), introducer=introducer))
        return next(view for view in self.accepted() if view["fingerprint"] == fingerprint_of(who)[0])

    async def reject(self, who: str) -> None:
        """Let a key wait no longer; it stays out until a person accepts it. Forgets one that was accepted.

        Raises:
            InvalidMessage, LocalError: as for `accept`.
        """
        await self._decide(lambda book: book.reject(who, self._now()))

    async def forget(self, who: str) -> None:
        """Trust a key no longer, nor those whom only it introduced; it stays out until a person accepts it again.

        Raises:
            UnknownKey: it is not accepted.
            InvalidMessage, LocalError: as for `accept`.
        """
        await self._decide(lambda book: book.forget(who, self._now()))

    def trusts(self, key: str) -> bool:
        """Whether the node with this public key may take part."""
        return self._book.trusts(key)

    def is_out(self, key: str) -> bool:
        """Whether a person turned this key away."""
        return self._book.is_out(key)

    def is_introducer(self, key: str) -> bool:
        """Whether the node with this key introduces others here."""
        return self._book.is_introducer(key)

    def met(self, key: str, name: str, address: str, caller: str = "") -> None:
        """A node showed this key, by calling (from the IP address `caller`) or by being called; a stranger's waits."""
        self._tell(self._book.met(key, name, address, self._now(), network_of(caller)))

    def vouches(self) -> Sequence[tuple[str, str]]:
        """Fingerprints and names of those whom this node vouches for."""
        return self._book.vouches()

    async def introduced(self, introducer: str, vouched: Sequence[tuple[str, str]]) -> None:
        """Handle an introducer's list of nodes that it vouches for, as fingerprints and names.

        Raises:
            LocalError: as for `accept`.
        """
        await self._decide(lambda book: book.introduced(introducer, vouched, self._now()))

    async def _decide(self, change: Callable[[TrustBook], list[Publish]]) -> None:
        """Make a change, kept before it holds."""
        async with self._lock:
            tried = TrustBook(self._book.own, self._book.rows())
            tried.waiting = self._book.waiting.copy()
            change(tried)
            if tried.rows() != self._book.rows():
                await self._store.save_trust(tried.rows())
            before = dict(self._book.accepted)
            events = change(self._book)
            after = self._book.accepted
        self._tell(events)
        gone = [mark for mark in before if mark not in after]
        come = [entry.address for mark, entry in after.items() if mark not in before and entry.address]
        if gone or come:
            self.changed(gone, come)

    def _tell(self, events: Sequence[Publish]) -> None:
        for event in events:
            self._publish(event.kind, event.text, "", event.data)


def _view(entry: TrustEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "address": entry.address,
        "key": entry.key,
        "fingerprint": entry.fingerprint,
        "words": words_of(entry.fingerprint),
        "since": entry.since,
        "introduced_by": entry.introduced_by or None,
    }


class Introductions:
    """Asks introducers whom they accept.

    What they said last holds until they say something else, over restarts, too.
    """

    def __init__(self, trust: Trust, transport: Transport, peers: Callable[[], Sequence[View]]) -> None:
        """Args:
        peers: views of the members, with their keys.
        """
        self._trust, self._transport, self._peers = trust, transport, peers

    async def run(self) -> None:
        """Ask them all, again and again."""
        while True:
            await self.ask()
            await asyncio.sleep(HURRY_SECONDS if self._trust.pending() else PAUSE_SECONDS)

    async def ask(self) -> None:
        """Ask all introducers that are there, once."""
        introducers = [
            peer for peer in self._peers() if peer["state"] == "alive" and self._trust.is_introducer(peer["key"])
        ]
        await asyncio.gather(*(self._ask(peer["address"], peer["key"]) for peer in introducers))

    async def _ask(self, address: str, key: str) -> None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                reply = await self._transport.fetch(address, INTRODUCTIONS, INTRODUCTIONS_BYTES)
        except (TimeoutError, TransportError):
            return  # what it said last holds
        is_sound = reply.status == 200 and reply.signer == key
        vouched = await asyncio.to_thread(vouched_in, reply) if is_sound else None
        if vouched is None:
            return
        try:
            await self._trust.introduced(key, vouched)
        except LocalError as exc:
            log.warning("whom an introducer vouches for could not be kept: %s", exc)


def introductions_of(trust: Trust) -> dict[str, Any]:
    """Parse an introducer's answer: the nodes that people accepted there, by fingerprint and name."""
    return {"introductions": [{"fingerprint": mark, "name": name} for mark, name in trust.vouches()]}


def vouched_in(reply: Reply) -> list[tuple[str, str]] | None:
    """Fingerprints and names in such an answer; None if it is none, and nothing of it is taken then."""
    try:
        rows = json.loads(reply.body)["introductions"]
        if not isinstance(rows, list) or len(rows) > MOST_KEPT:
            return None
        return [
            (read_fingerprint(row["fingerprint"]), check_name(row["name"]) if row["name"] else "") for row in rows
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


class Signing(NamedTuple):
    """The two sides of signed exchanges, the key of the node itself, and that of a keyed mesh."""

    signer: RequestSigner
    verifier: RequestVerifier
    node: NodeKey
    mesh: MeshKey | None


def signing_of(settings: Settings, folder: Path) -> Signing | None:
    """The signer and the verifier of the settings; None for a mesh without a key.

    Args:
        folder: where the node's own key is.

    Raises:
        SettingsError: a key of the mesh is too short or too long, or both are the same.
        StartError: a key cannot be read.
    """
    if settings.mode != "keyed":
        return None
    from flnet.security.keys import load_signer  # noqa: PLC0415 - it takes nine megabytes, which an open mesh saves

    secret, other = secret_of(settings), None
    if settings.accepts_other_mesh_key:
        other = secret_of(settings, "other_mesh_key")
        if other == secret:
            raise SettingsError(f"{PREFIX}OTHER_MESH_KEY is the same key as {PREFIX}MESH_KEY; leave it away")
    return made_of(load_signer(folder), MeshKey(secret, other))


def made_of(node: NodeKey, mesh: MeshKey | None, trusts: Callable[[str], bool] | None = None) -> Signing:
    """The two sides for these keys, as for a node that starts now.

    Args:
        mesh: the key that all nodes share; None in a pinned mesh.
        trusts: whether the node with this public key may be asked, and takes part; None: any.
    """
    signer = RequestSigner(node, mesh, secrets.token_hex(8), trusts)
    return Signing(signer, RequestVerifier(node, mesh, lambda: secrets.token_hex(16), trusts), node, mesh)


def secret_of(settings: Settings, name: Literal["mesh_key", "other_mesh_key"] = "mesh_key") -> str:
    """The key that all nodes of the mesh share, or the second one: of the settings, or of the file that they name.

    Raises:
        SettingsError: it is too short, or too long.
        StartError: the file cannot be read, or another user can change it.
    """
    secret: str | None = getattr(settings, name)
    if secret is None:
        path: Path | None = getattr(settings, f"{name}_file")
        assert path is not None  # the settings see to that
        try:
            check_file(path, f"{name.upper()}_FILE")
            with path.open("rb") as file:
                secret = file.read(MAX_FILE_BYTES).decode().strip()
        except (OSError, UnicodeDecodeError) as exc:
            words = exc.strerror if isinstance(exc, OSError) else "it is no text"
            raise StartError(f"the key of the mesh in {path} cannot be read: {words}") from exc
    if not SHORTEST <= len(secret) <= LONGEST:
        raise SettingsError(
            f"the key of the mesh has {len(secret)} characters; {PREFIX}{name.upper()} takes {SHORTEST} to {LONGEST} "
            "(openssl rand -base64 32 makes a good one)"
        )
    return secret


class Pinned(NamedTuple):
    """The parts of it."""

    trust: Trust
    signing: Signing
    channel: Channel


def pinned_of(
    settings: Settings, folder: Path, own: str, store: Store, publish: Callable[..., object]
) -> Pinned | None:
    """The parts of a node in a pinned mesh; None if the settings say another mode.

    Args:
        folder: where the node's own key is.
        own: its public key.
        publish: tells people: kind, sentence, trainer, data.

    Raises:
        StartError: the key cannot be read.
    """
    if settings.mode != "pinned":
        return None
    from flnet.security.keys import load_signer  # noqa: PLC0415 - it takes nine megabytes, which others save
    from flnet.security.tls import Channel  # noqa: PLC0415

    trust = Trust(own, store, publish, peers=settings.trusted_peers, introducers=settings.introducers)
    return Pinned(trust, made_of(load_signer(folder), None, trust.trusts), Channel(trust.trusts))


def tls_of(settings: Settings, folder: Path, publish: Callable[..., object]) -> ServerContext | None:
    """TLS of the node's port; None where the settings want no pinned mesh.

    Raises:
        StartError: the certificates cannot be made or read.
    """
    if settings.mode != "pinned":
        return None
    from flnet.security.tls import server_context  # noqa: PLC0415

    told: list[bool] = []

    def tell() -> None:
        if not told:
            told.append(True)
            publish(
                "refused_here", text("somebody asked without TLS (http://), and this node answers with TLS only")
            )

    return server_context(folder, tell)
